"""The notebook works from its first minute."""

import runpy
import sys
from pathlib import Path

from rostra.history import session
from rostra.history.sample import sample

NOTEBOOK = Path(__file__).parents[2] / "examples" / "a_month.py"


def test_every_cell_of_the_notebook_runs_and_the_promises_were_kept(spark, tmp_path, monkeypatch, capfd):
    sample(tmp_path / "journal", events=2_000, days=1)
    monkeypatch.setattr(session, "start", lambda *_, **__: spark)  # the tests' own, and it goes on
    monkeypatch.setattr(session, "end", lambda _: None)
    monkeypatch.setattr(sys, "argv", [str(NOTEBOOK), str(tmp_path / "journal")])

    said = runpy.run_path(str(NOTEBOOK), run_name="__main__")

    assert said["largest"].first()["at_most"] > 1
    assert said["lost"].count() > 0
    answers = [row["answer"] for row in said["verdicts"](said["evidence"], "why").collect()]
    assert answers == ["yes"]
    assert "orders@world" in capfd.readouterr().out
    said["evidence"].release()
    said["events"].unpersist()
