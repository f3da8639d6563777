"""Tables made anew from the events: with what came late, whoever dies meanwhile; and ingest goes on."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from history.test_ingest import keys, keys_of, random_journal, same, truth
from pyspark.sql import SparkSession
from support.segments import Row, cut, send

from rostra.errors import BadInput
from rostra.history.compact import Compaction
from rostra.history.ingest import Ingest
from rostra.history.questions.stays import stays
from rostra.history.rebuild import REBUILT, rebuild
from rostra.history.tables import Tables

WRITER = "eu.paris.h1"


def of_one_writer(seed: int, rows: int) -> list[Row]:
    """A journal of which one writer's first life is long enough to have a hole in it."""
    journal = random_journal(Random(seed), rows)
    life = [row for row in journal if row["writer"] == WRITER and row["epoch"] == 1]
    assert len(life) >= 6, "choose another seed"
    return journal


def dies_at(chosen: str) -> Callable[[str], None]:
    def reach(point: str) -> None:
        if point == chosen:
            raise InterruptedError(point)

    return reach


def test_rows_that_came_late_are_in_the_stays_after_a_rebuild_and_ingest_goes_on_from_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = of_one_writer(32, 70)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    early, later = rows[:50], rows[50:]
    hole = [row for row in early if row["writer"] == WRITER and row["epoch"] == 1][2:5]
    for segment in cut([row for row in early if row not in hole], Random(1)):
        send(journal, segment)
    ingest = Ingest(spark, journal, tables.place.path, hole_after_s=0, compact_every=0)
    ingest.once()
    send(journal, hole)
    ingest.once()
    newest = tables.newest()
    assert newest is not None and newest.late == 1
    told_without_them = tables.counts(tables.commits())

    with pytest.raises(InterruptedError):
        rebuild(spark, tables, ["stays"], reach=dies_at("rebuilt stays"))
    assert tables.newest() == newest  # nobody sees it before its commit
    with pytest.raises(InterruptedError):
        rebuild(spark, tables, ["stays"], reach=dies_at("stays committed"))
    newest = tables.newest()
    assert newest is not None and newest.late == 0
    assert tables.counts(tables.commits())["stays"] > told_without_them["stays"]
    same(tables.read(spark, "stays"), stays(truth(spark, early, tmp_path / "early")))

    for segment in cut(later, Random(2)):
        send(journal, segment)
    ingest.once()
    Compaction(spark, tables).everything()
    tables.sweep(older_than_s=-60)
    whole = truth(spark, rows, tmp_path / "whole")
    assert keys(tables.read(spark, "events")) == keys_of(rows)
    same(tables.read(spark, "stays"), stays(whole))
    left = {path.name for path in (tmp_path / "tables" / "stays").iterdir()}
    assert left == {"batch=0-2"}


def test_every_table_that_follows_from_the_events_is_the_same_when_it_is_made_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = random_journal(Random(8), 50)
    rows += [
        {**rows[-1], "writer": "eu.paris", "epoch": 1, "seq": nth, "kind": kind, "first": 1, "last": 3}
        for nth, kind in enumerate(("started", "delivered", "stream-gap", "view"), 1)
    ]
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    dice = Random(3)
    for segment in cut(rows, dice):
        send(journal, segment)
    Ingest(spark, journal, tables.place.path, files_per_batch=9, compact_every=0).once()
    first = {table: sorted(map(str, tables.read(spark, table).collect())) for table in REBUILT}
    counts = tables.counts(tables.commits())
    told: dict[str, int] = {}
    rebuild(spark, tables, tell=lambda table, many: told.update({table: many}))
    assert {table: sorted(map(str, tables.read(spark, table).collect())) for table in REBUILT} == first
    assert tables.counts(tables.commits()) == counts
    assert told == {table: counts.get(table, 0) for table in REBUILT}
    assert counts["deliveries"] == 2 and counts["views"] == 1


def test_events_follow_from_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'events' cannot be rebuilt"):
        rebuild(spark, Tables(tmp_path), ["events"])
