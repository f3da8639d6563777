"""`rostra history export --format delta`: a Delta table for each of ours, each row once, whatever dies."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from history.test_ingest import keys_of, random_journal
from pyspark.sql import SparkSession
from support.segments import cut, send
from typer.testing import CliRunner

from rostra.cli import application
from rostra.errors import RostraError, Unreachable
from rostra.history.compact import Compaction
from rostra.history.export import APPLICATION, export
from rostra.history.ingest import Ingest
from rostra.history.tables import APPENDED, Tables


class Died(Exception):
    pass


def dying_at(point: str) -> Callable[[str], None]:
    def reach(reached: str) -> None:
        if reached == point:
            raise Died(point)

    return reach


def exported(place: Path, table: str = "events") -> list[tuple[object, ...]]:
    rows = DeltaTable(place / table).to_pyarrow_table().select(["world", "writer", "epoch", "seq"])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_every_row_is_exported_once_through_kills_and_compactions(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = random_journal(Random(8), 60)
    segments = cut(rows, Random(1), longest=12)
    journal, delta, tables = tmp_path / "journal", tmp_path / "delta", Tables(tmp_path / "tables")
    ingest = Ingest(spark, journal, tables.place.path, compact_every=0)
    for nth in range(3):
        for segment in segments[nth::3]:
            send(journal, segment)
        ingest.once()
        for point in ("read events", "exported events", "exported stays"):
            with pytest.raises(Died):
                export(tables, delta, reach=dying_at(point), rows_per_commit=10)
        if nth == 1:  # half of what is merged is there already
            Compaction(spark, tables).everything()
            export(tables, delta)
    done = CliRunner().invoke(
        application(["history"]), ["history", "export", str(delta), "-t", tables.place.path]
    )
    assert done.exit_code == 0, done.output
    assert exported(delta) == sorted(keys_of(rows))
    found = DeltaTable(delta / "events")
    assert found.transaction_version(APPLICATION) == len(rows)
    assert found.metadata().configuration == {"delta.appendOnly": "true"}
    for table in APPENDED:
        many = DeltaTable(delta / table).to_pyarrow_table().num_rows
        assert many == tables.counts(tables.commits()).get(table, 0), table
    before = [DeltaTable(delta / table).version() for table in APPENDED]
    export(tables, delta)
    assert [DeltaTable(delta / table).version() for table in APPENDED] == before  # nothing is new


def test_of_two_exports_one_is_refused_and_so_are_other_tables(spark: SparkSession, tmp_path: Path) -> None:
    first, second = random_journal(Random(5), 20), random_journal(Random(6), 30)
    for nth, rows in enumerate((first, second)):
        for segment in cut(rows, Random(1), longest=50):
            send(tmp_path / f"journal {nth}", segment)
        Ingest(spark, tmp_path / f"journal {nth}", tmp_path / f"tables {nth}").once()
    tables, others, delta = Tables(tmp_path / "tables 0"), Tables(tmp_path / "tables 1"), tmp_path / "delta"
    done = []

    def meanwhile(point: str) -> None:
        if point == "read events" and not done:
            done.append(point)
            export(tables, delta)

    with pytest.raises(Unreachable, match="another process writes to"):
        export(tables, delta, reach=meanwhile)
    assert exported(delta) == sorted(keys_of(first))
    with pytest.raises(RostraError, match="export into an empty directory"):
        export(others, delta)
    assert exported(delta) == sorted(keys_of(first))
