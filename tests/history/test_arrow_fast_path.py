"""Straight from the files or by a plan of Spark: the answers are the same."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.journal import Journal
from support.segments import cut, send

from rostra.history import arrow_fast_path
from rostra.history.archive import Archive
from rostra.history.arrow_fast_path import files_in, note, origin_of, whole_lives
from rostra.history.audits import Evidence, evidence, facts
from rostra.history.audits.lies_fast_path import known
from rostra.history.audits.marks import kinds, marks
from rostra.history.audits.per_source_order import told_in_order
from rostra.history.audits.truth import LIES
from rostra.history.journals import read_journal
from rostra.history.questions import churn, lives, stays
from rostra.history.questions.lives import parts

HOSTS = ("eu.paris.h1", "eu.paris.h2", "us.ny.h1")
MEMBERS = ("eu.paris.h1/ann#1", "eu.paris.h1/ann#2", "us.ny.h1/eve#1")
GROUPS = ("chess@world", "go@eu")
KINDS = (
    *("joined", "joined", "joined", "left", "left", "without", "only", "absolute", "unfollowed"),
    *("hole", "heartbeat", "kept", "home"),
)


def random_journal(world: str, dice: Random) -> Journal:
    """Whatever can be in a journal, sensible or not: both ways have to take it the same way."""
    journal = Journal(world)
    for host in HOSTS:
        journal.start(host, 0)
    for _ in range(250):
        host, kind, at = dice.choice(HOSTS), dice.choice(KINDS), journal.now + dice.random() * 20
        member, group = dice.choice(MEMBERS), dice.choice(GROUPS)
        stamped: dict[str, Any] = {
            "life": dice.choice((1, 1, 2, None)),
            "stamp": dice.choice((1, 2, 3, None)),
        }
        told = dice.sample(("x", "y"), dice.randint(0, 2)) or None
        news = dice.choice((True, True, True, False, None))
        match kind:
            case "joined" | "absolute":
                cause = dice.choice(("join", "merge", "snapshot", None))
                journal.sees(
                    host,
                    "joined",
                    member,
                    at,
                    group,
                    kind=kind,
                    cause=cause,
                    news=news,
                    observers=told,
                    **stamped,
                )
            case "left" | "without" | "only" | "unfollowed":
                journal.sees(
                    host,
                    "left",
                    dice.choice((member, member, None)),
                    at,
                    group,
                    kind=kind,
                    cause=dice.choice((kind, "leave", "crash", None)),
                    news=news,
                    observers=told,
                    **stamped,
                )
            case "kept":
                journal.write(host, "joined", at, group=group, change="kept", count=3)
            case "home":
                change = dice.choice(("joined", "left"))
                journal.home(
                    change, member, at, group, cause=dice.choice(("crash", "leave", None)), **stamped
                )
            case "hole":
                dice.choice((journal.lose, journal.lose, journal.start))(host)
            case _:
                journal.write(
                    host, dice.choice(("heartbeat", "heartbeat", "closing", "dropped")), at, count=2
                )
    return journal


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five random worlds, cut into segments anyhow; some of it was sent twice, and cut otherwise then."""
    where, dice = tmp_path_factory.mktemp("journal"), Random(20)
    for number in range(5):
        rows = random_journal(f"w{number}", dice).rows
        again = [segment for segment in cut(rows, dice) if dice.random() < 0.2]
        for segment in (*cut(rows, dice, longest=30), *again):
            send(where / f"of-w{number}", segment)
    return where


@pytest.fixture(scope="module")
def events(spark: SparkSession, journal: Path) -> Iterator[DataFrame]:
    """Kept for plans, which would open every segment anew; tasks that read files for themselves still do."""
    kept = read_journal(spark, str(journal)).cache()
    yield kept
    kept.unpersist()


def planned(events: DataFrame) -> DataFrame:
    """The same rows, of which nobody knows where they are from."""
    same = events.where(F.lit(True))
    assert origin_of(same) is None
    return same


def columns_of(answer: DataFrame | pa.Table) -> list[str]:
    names: list[str] = answer.column_names if isinstance(answer, pa.Table) else answer.columns
    return names


def rows_of(answer: DataFrame | pa.Table) -> list[tuple[Any, ...]]:
    if isinstance(answer, pa.Table):
        return sorted((tuple(row.values()) for row in answer.to_pylist()), key=repr)
    return sorted((tuple(row) for row in answer.collect()), key=repr)


def test_the_worlds_of_these_tests_have_something_of_everything(events):
    assert {row.ended_by for row in stays(events).select("ended_by").distinct().collect()} >= {
        *("joined again", "left", "leave", "crash", "without", "only", "closing", "unknown"),
    }
    found = told_in_order(events).groupBy("broken").count().collect()
    assert len(found) == 2


@pytest.mark.parametrize(
    "ask", [lives, stays, churn, told_in_order, marks], ids=lambda ask: str(ask.__name__)
)
def test_a_journal_answers_alike_straight_from_its_files_and_by_a_plan(events, ask):
    assert origin_of(events, by_life=True) is not None
    straight, by_plan = ask(events), ask(planned(events))
    assert columns_of(straight) == columns_of(by_plan)
    assert rows_of(straight) == rows_of(by_plan) != []


@pytest.fixture(scope="module")
def table(spark: SparkSession, events: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """All of it in one file, by time."""
    place = str(tmp_path_factory.mktemp("table") / "events")
    events.coalesce(1).sortWithinPartitions("at").write.parquet(place)
    table = spark.read.schema(events.schema).parquet(place)
    return note(table, files_in(table.inputFiles()))


@pytest.mark.parametrize("ask", [lives, churn, marks], ids=lambda ask: str(ask.__name__))
def test_a_table_with_many_lives_in_a_file_answers_alike(events, table, ask):
    assert origin_of(table) is not None
    assert origin_of(table, by_life=True) is None
    assert rows_of(ask(table)) == rows_of(ask(events))


def test_the_kinds_of_rows_are_the_same_straight_from_the_files(events, table):
    by_a_plan = kinds(events.select("*"))
    assert kinds(events) == kinds(table) == by_a_plan >= {"started", "joined", "heartbeat", "member-joined"}


@pytest.mark.parametrize("ask", [marks, parts], ids=lambda ask: str(ask.__name__))
def test_tasks_collect_of_many_rows_what_is_read_here_of_few(events, table, ask, monkeypatch):
    here = [ask(each) for each in (events, table)]
    monkeypatch.setattr(arrow_fast_path, "HERE_ROWS", 0)
    by_tasks = [ask(each) for each in (events, table)]
    for few, many in zip(here, by_tasks, strict=True):
        assert columns_of(few) == columns_of(many)
        assert rows_of(few) == rows_of(many) != []


def test_what_is_derived_from_a_journal_is_not_taken_for_it(events):
    assert origin_of(events.where("kind = 'left'")) is None
    assert origin_of(events.select("*")) is None


def test_an_archive_of_a_journal_knows_its_files(spark, journal):
    assert origin_of(Archive(spark, journal=str(journal)).events, by_life=True) is not None


def test_an_audit_of_a_large_history_reads_its_files(events, monkeypatch):
    for name in ("SMALL_ROWS", "TINY_ROWS"):
        monkeypatch.setattr(evidence, name, 10)
    with Evidence(events) as found:
        assert origin_of(found.events) is not None


def test_lies_are_found_straight_from_the_files_as_by_a_plan(events, monkeypatch):
    """However short they are; at hand, and by tasks."""
    for name in ("SMALL_ROWS", "TINY_ROWS"):
        monkeypatch.setattr(evidence, name, 10)
    monkeypatch.setattr(evidence, "known", lambda facts: known(facts)._replace(least_us=0))
    with Evidence(events) as straight, Evidence(planned(events)) as by_plan:
        assert straight.at_hand is not None and by_plan.by_life is None
        found = rows_of(straight._lasting.select(LIES.names))
        assert found == rows_of(by_plan.lies.select(LIES.names)) and len(found) > 50
    monkeypatch.setattr(evidence, "HERE_ROWS", 0)
    with Evidence(events) as by_tasks:
        assert by_tasks.by_life is not None and by_tasks.at_hand is None
        assert rows_of(by_tasks._lasting.select(LIES.names)) == found


def test_lives_that_are_in_several_files_of_a_table_are_read_whole_and_in_order(
    spark, events, tmp_path: Path
):
    """Three batches of two files; of each life a part is in each batch, and not always in the same file."""
    rows = events.toArrow().sort_by([(name, "ascending") for name in ("world", "writer", "epoch", "seq")])
    batch = [min(seq // 20, 2) for seq in rows["seq"].to_pylist()]
    part = [(len(writer) + nth) % 2 for writer, nth in zip(rows["writer"].to_pylist(), batch, strict=True)]
    paths = []
    for nth in range(6):
        chosen = pa.array([2 * of + half == nth for of, half in zip(batch, part, strict=True)])
        paths.append(str(tmp_path / f"{nth}.parquet"))
        pq.write_table(rows.filter(chosen), paths[-1])
    table = note(spark.read.schema(events.schema).parquet(str(tmp_path)), files_in(paths))
    source = whole_lives(files_in(paths), facts.rows_of(parts(table), "source", "writer", "rows"))
    assert any(len(run.sources) > 2 and run.sources[0].writers for run in source.segment_runs)
    assert source.rows == rows.num_rows
    assert rows_of(told_in_order(table, source)) == rows_of(told_in_order(planned(events)))
