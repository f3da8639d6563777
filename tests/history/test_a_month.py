"""The notebook works from its first minute, as a notebook and as a program: both have the same cells."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.sample import sample
from rostra.history import session

PROGRAM = Path(__file__).parents[2] / "examples" / "a_month.py"
NOTEBOOK = PROGRAM.with_suffix(".ipynb")


def cells(program: str) -> list[tuple[str, str]]:
    """What `# %%` divides: of each cell its kind and its text. A title becomes the cell's first comment."""
    found = []
    for part in re.split(r"^# %%", program, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if title.strip() == "[markdown]":
            found.append(("markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip()))
        else:
            found.append(("code", f"#{title}\n{text}".strip() if title.strip() else text.strip()))
    return found


def notebook(program: str) -> dict[str, Any]:
    """As nbformat 4.5 has it: no output, and numbers for names, so that it changes only if a cell does."""
    made = []
    for number, (kind, text) in enumerate(cells(program)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append(cell | {"source": text.splitlines(keepends=True)})
    spoken = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "cells": made,
        "metadata": {"kernelspec": spoken, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def test_the_notebook_has_the_cells_of_the_program(rewrite_goldens):
    made = json.dumps(notebook(PROGRAM.read_text()), indent=1) + "\n"
    if rewrite_goldens:
        NOTEBOOK.write_text(made)
    assert NOTEBOOK.read_text() == made, "run:  pytest tests/history/test_a_month.py --rewrite-goldens"


def test_every_cell_of_the_notebook_runs_and_the_promises_were_kept(spark, tmp_path, monkeypatch, capfd):
    sample(tmp_path / "journal", events=2_000, days=1)
    monkeypatch.setattr(session, "start", lambda *_, **__: spark)  # the tests' own, and it goes on
    monkeypatch.setattr(session, "end", lambda _: None)
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), str(tmp_path / "journal")])

    said: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(NOTEBOOK.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), said)

    assert said["largest"].first()["at_most"] > 1
    assert said["lost"].count() > 0
    answers = [row["answer"] for row in said["verdicts"](said["evidence"], "why").collect()]
    assert answers == ["yes"]
    assert "orders@world" in capfd.readouterr().out
    said["evidence"].release()
    said["events"].unpersist()
