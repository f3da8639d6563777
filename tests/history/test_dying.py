"""Whoever dies in the middle of an ingest, wherever that is: no row is lost, and none is doubled."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from history.test_ingest import NEVER, keys, keys_of, random_journal, same, truth
from pyspark.sql import SparkSession
from support.segments import cut, send

from rostra.errors import RostraError
from rostra.history.compact import Compaction
from rostra.history.ingest import Ingest
from rostra.history.questions.stays import stays
from rostra.history.tables import Tables

POINTS = (
    "looked",
    "written",
    "moved events",
    "moved open",
    "before commit",
    "committed",
    "compacted",
    "compaction committed",
)


class Dies:
    """At each point once, in turn."""

    def __init__(self) -> None:
        self.left = list(POINTS)

    def __call__(self, point: str) -> None:
        if point in self.left:
            self.left.remove(point)
            raise InterruptedError(point)


def test_an_ingest_that_dies_at_every_point_once_has_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    dice = Random(7)
    rows = random_journal(dice, 40)
    journal, tables, dies = tmp_path / "journal", Tables(tmp_path / "tables"), Dies()
    segments = cut(rows, dice, longest=6)
    dice.shuffle(segments)
    half = len(segments) // 2
    for part in (segments[:half], segments[half:]):
        for segment in part:
            send(journal, segment)
        for _ in range(len(POINTS) + 1):
            try:
                Ingest(
                    spark, journal, tables.place.path, hole_after_s=NEVER, compact_every=2, reach=dies
                ).once()
                break
            except RostraError:
                if tables.commits():  # nobody sees half a batch, nor one twice
                    assert max(keys(tables.read(spark, "events")).values()) == 1
    assert dies.left == []
    whole = truth(spark, rows, tmp_path / "whole")
    assert keys(tables.read(spark, "events")) == keys_of(rows)
    same(tables.read(spark, "stays"), stays(whole))
    # Whatever the dead left behind is no row, even for a reader that knows nothing of commits.
    tables.sweep(older_than_s=-60)
    assert keys(spark.read.parquet(str(tmp_path / "tables" / "events"))) == keys_of(rows)


def test_readers_see_the_same_rows_before_while_and_after_batches_are_compacted(
    spark: SparkSession, tmp_path: Path
) -> None:
    dice = Random(3)
    rows = random_journal(dice, 30)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    for nth, segment in enumerate(cut(rows, dice, longest=12)[:4]):
        send(journal, segment)
        rows_so_far = nth
        Ingest(spark, journal, tables.place.path, hole_after_s=0, compact_every=0).once()
    before = keys(tables.read(spark, "events"))
    seen: list[tuple[str, bool, int]] = []

    def look(point: str) -> None:
        seen.append((point, keys(tables.read(spark, "events")) == before, len(tables.commits())))

    opened = tables.read(spark, "events")
    Compaction(spark, tables, reach=look).everything()
    look("after")
    assert seen == [
        ("compacted", True, rows_so_far + 1),
        ("compaction committed", True, 1),
        ("after", True, 1),
    ]
    assert keys(opened) == before  # whoever began to read before is not disturbed
    tables.sweep(older_than_s=-60)
    assert [path.name for path in (tmp_path / "tables" / "events").glob("batch=*")] == [
        f"batch=0-{rows_so_far}"
    ]


@pytest.mark.parametrize("point", ["before commit"])
def test_a_process_that_is_killed_between_write_and_commit_has_done_nothing(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    dice = Random(11)
    rows = random_journal(dice, 30)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    for segment in cut(rows, dice, longest=12):
        send(journal, segment)
    died = subprocess.run(
        [sys.executable, "-m", "history.dying", str(journal), tables.place.path, point, "1000"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (died.returncode, died.stdout.split("\n")[-2]) == (137, point), died.stderr
    assert (tmp_path / "tables" / "events" / "batch=0").exists()
    assert tables.commits() == ()
    Ingest(spark, journal, tables.place.path, hole_after_s=NEVER).once()
    assert keys(tables.read(spark, "events")) == keys_of(rows)
