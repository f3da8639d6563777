"""Sweeps: many small worlds, each a row; what is known is not run again, and what fails loses nobody else."""

import json

import pytest
from typer.testing import CliRunner

from rostra.cli import application
from rostra.errors import BadInput
from rostra.history import Archive, session
from rostra.history.sweeps.job import Results, here, on_spark, sweep
from rostra.history.sweeps.plan import SweepRun, read_plan
from rostra.history.sweeps.report import choices, curve, page, points
from rostra.history.sweeps.run import FAILED, JOURNALS, ROW, execute
from rostra.sim.world import World

FILE = """
[sweep]
name = "small"
seeds = 2
loss = [0.0, 0.1]
calm_s = 5

[topology.site]
clusters = { "site" = 2 }
network = "lan"

[settings.lan]
profile = "lan"
down_after_s = [0.5, 1.0]
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    return read_plan(tmp_path / "small.toml")


def test_a_file_asks_for_every_combination_once(plan):
    assert len(plan.runs) == len({run.id for run in plan.runs}) == 2 * 2 * 2
    assert {run.timers.detect.down_after_s for run in plan.runs} == {0.5, 1.0}
    assert {run.timers.detect.heartbeat_interval_s for run in plan.runs} == {0.2}, "the profile's own"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('network = "lan"', 'network = "moon"'), "no network is called 'moon'"),
        (('profile = "lan"', 'profile = "moon"'), "no profile is called 'moon'"),
        (("down_after_s", "patience"), "no setting of the detector"),
        (("[0.5, 1.0]", "0.1"), "longer than a heartbeat interval"),
        (("seeds = 2", "seeds = 0"), "no run at all"),
        (("calm_s", "calm"), "unknown field"),
        (('"small"', "small"), "is no sweep"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(tmp_path, change, why):
    (tmp_path / "bad.toml").write_text(FILE.replace(*change))
    with pytest.raises(BadInput, match=why):
        read_plan(tmp_path / "bad.toml")


def test_a_run_is_the_same_row_every_time_and_patience_is_what_detection_takes(plan):
    eager, patient = plan.runs[0], plan.runs[-4]
    row = execute(eager)

    assert row == execute(eager)
    assert list(row) == list(ROW)
    assert row["error"] is None
    assert 0 < row["detected_s"] <= row["told_s"] < 1.0
    assert row["suspected"] == row["given_up"] == 0, "nothing is lost on this line"
    assert execute(patient)["told_s"] > row["told_s"]


def test_what_is_known_is_not_run_again(plan, tmp_path):
    results, heard, ran = Results(tmp_path), [], []

    def counting(runs):
        ran.extend(run.id for run in runs)
        return [dict.fromkeys(ROW) | {"run": run.id} for run in runs]

    assert sweep(plan.runs[:5], results, counting, parcel=2, tell=lambda *far: heard.append(far)) == 5
    assert heard == [(0, 5), (2, 5), (4, 5), (5, 5)]
    assert sweep(plan.runs, results, counting, parcel=2) == 3
    assert sorted(ran) == sorted(run.id for run in plan.runs)


def test_a_sweep_that_is_stopped_goes_on_where_it_was(plan, tmp_path):
    results, parcels = Results(tmp_path), []

    def stopped(runs):
        if len(parcels) == 2:
            raise KeyboardInterrupt
        parcels.append(runs)
        return [dict.fromkeys(ROW) | {"run": run.id} for run in runs]

    with pytest.raises(KeyboardInterrupt):
        sweep(plan.runs, results, stopped, parcel=3)
    assert len(results.done()) == 6
    (results.path / ".batch=2.part").mkdir()  # of one that died while it wrote
    assert sweep(plan.runs, results, lambda runs: [dict.fromkeys(ROW) | {"run": r.id} for r in runs]) == 2
    assert results.read().num_rows == 8


def test_a_run_that_fails_is_a_row_with_its_error_and_is_tried_again(plan, tmp_path):
    results = Results(tmp_path)

    sweep([BAD, plan.runs[0]], results, here)

    rows = {row["run"]: row for row in results.read().to_pylist()}
    assert rows[BAD.id]["error"] and rows[BAD.id]["told_s"] is None
    assert rows[plan.runs[0].id]["error"] is None
    assert results.done() == {plan.runs[0].id}


BAD = SweepRun("none", {}, "lan", "lan", "lan", {}, 0.0, 1, 5.0)


def files(directory):
    """Every file, with its bytes."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.parquet")}


def test_spark_gives_the_rows_and_journals_that_this_process_gives(spark, plan, tmp_path):
    runs = [plan.runs[0], plan.runs[5], BAD]

    def sorted_rows(rows):
        return sorted((row | {"error": bool(row["error"])} for row in rows), key=lambda row: row["run"])

    assert sorted_rows(on_spark(spark, tmp_path / "there")(runs)) == sorted_rows(
        here(runs, tmp_path / "here")
    )
    assert files(tmp_path / "there") == files(tmp_path / "here") != {}
    kept = {path.name for path in (tmp_path / "here" / JOURNALS).iterdir()}
    assert kept == {plan.runs[0].id, plan.runs[5].id}, "those that came to their end"


def test_the_journal_of_a_run_that_fails_is_kept_apart_and_replaced_by_the_next_attempt(
    plan, tmp_path, monkeypatch
):
    run = plan.runs[0]
    with monkeypatch.context() as patch:
        patch.setattr(World, "crash", lambda *_: 1 / 0)
        assert "ZeroDivisionError" in execute(run, tmp_path)["error"]
    assert files(tmp_path / FAILED / run.id) and not (tmp_path / JOURNALS / run.id).exists()

    for _ in range(2):  # and it may come twice, if somebody stopped it before its row was kept
        assert execute(run, tmp_path)["error"] is None
    assert files(tmp_path / JOURNALS / run.id)


def test_the_command_runs_a_file_into_tables_that_history_can_ask(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "start", lambda *_, **__: spark)  # the tests' own, and it goes on
    monkeypatch.setattr(session, "end", lambda _: None)
    file, into = tmp_path / "small.toml", tmp_path / "into"
    file.write_text(FILE.replace("seeds = 2", "seeds = 1").replace("[0.0, 0.1]", "[0.0]"))

    def command(*words):
        done = CliRunner().invoke(application(["sweep"]), ["sweep", str(file), "--into", str(into), *words])
        assert done.exit_code == 0, done.output
        return done

    assert "2 runs, 0 of them known already" in command("--dry-run").output
    chosen = [json.loads(line) for line in command("-o", "jsonl").stdout.splitlines()]
    assert {each["topology"] for each in chosen} == {"site"}
    assert chosen[0]["chosen"]["label"] == "lan: down_after_s 0.5"
    assert "<circle" in (into / "report.html").read_text()

    rows = spark.read.parquet(str(into / "tables" / "runs"))
    events = Archive(spark, tables=str(into / "tables")).events
    crashes = events.where("kind = 'server-changed' and change = 'crashed'").join(rows, "world")
    assert sorted(row["peer"] for row in crashes.collect()) == ["site.h1", "site.h1"], "one in each world"
    assert "2 runs, 2 of them known already" in command().output


def row(label, told_s, in_vain, given_up=0, loss=0.0, error=None):
    return dict.fromkeys(ROW) | {
        "run": label,
        "topology": "site",
        "settings": "s",
        "label": label,
        "loss": loss,
        "told_s": told_s,
        "per_link_hour": in_vain,
        "given_up": given_up,
        "packets_per_link_s": 1.0,
        "error": error,
    }


def test_the_quickest_that_gives_up_nobody_alive_is_chosen_and_of_equals_the_calmest():
    found = points(
        [
            row("hasty", 0.3, 9.0, given_up=1),
            row("nervous", 1.0, 5.0),
            row("good", 1.05, 1.0),
            row("slow", 4.0, 0),
        ]
    )
    for_this, for_all = choices(found)
    assert for_this.chosen.label == for_all.chosen.label == "good"


def test_settings_for_every_network_hold_on_the_worst_of_them():
    rows = [
        row("eager", 1.0, 0),
        row("eager", 1.0, 9, given_up=2, loss=0.1),
        row("calm", 3, 0),
        row("calm", 3, 1, loss=0.1),
    ]
    named = {each.loss: each.chosen.label for each in choices(points(rows))}
    assert named == {0.0: "eager", 0.1: "calm", -1.0: "calm"}


def test_if_nothing_fits_nothing_is_chosen():
    named = choices(points([row("hasty", 0.3, 9.0, given_up=1), row("broken", None, None, error="no")]))
    assert all(each.chosen is None and "patience" in each.why for each in named)


def test_the_page_draws_every_setting_and_shows_what_failed():
    rows = [
        row("eager", 1.0, 2.0, given_up=1),
        row("calm <b>", 2.0, 0.0),
        row("broken", None, None, error="it <broke>"),
    ]
    text = page("small", rows)
    assert text.count("<circle") == 3, "two settings, one of them chosen"
    assert "calm &lt;b&gt;" in text and "it &lt;broke&gt;" in text
    assert 'class="cross"' in curve(points(rows))
    assert "http" not in text, "nothing is loaded from anywhere"
