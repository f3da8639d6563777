"""Ingest: whatever arrives late, twice, broken or in pieces, each row is in the tables once."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.journal import Journal
from support.segments import SCHEMA, Row, cut, send

from rostra.errors import BadInput
from rostra.history.archive import Archive
from rostra.history.arrow_fast_path import FILE_WEIGHT
from rostra.history.ingest import Ingest
from rostra.history.questions.lives import lives
from rostra.history.questions.stays import stays
from rostra.history.schemas import EVENTS, with_new_names
from rostra.history.tables import Tables

HOSTS = ("eu.paris.h1", "eu.paris.h2", "us.ny.h1")
MEMBERS = tuple(f"{host}/p{nth}#1" for host in HOSTS for nth in range(2))
NEVER = 10.0**9


def random_journal(dice: Random, rows: int = 60) -> list[Row]:
    """Hosts that start, see members come and go, crash or close, and start again."""
    journal = Journal()
    seen: dict[str, set[tuple[str, str]]] = {}
    for host in HOSTS:
        journal.start(host)
        seen[host] = set()
    while len(journal.rows) < rows:
        host = dice.choice(HOSTS)
        match dice.randrange(10):
            case 0:
                if dice.random() < 0.5:
                    journal.write(host, "closing", what="asked to")
                journal.start(host)
                seen[host] = set()
            case 1:
                journal.write(host, "heartbeat")
            case 2:
                journal.write(host, "sent", peer="eu", level=1, message="Beat", count=3, bytes=90)
            case 3:
                journal.write(host, "link-suspected", peer="eu", accuser=host, accused="eu", what="silent")
            case _:
                whom = (dice.choice(MEMBERS), dice.choice(("chess@world", "go@eu")))
                change = "left" if whom in seen[host] else "joined"
                seen[host] ^= {whom}
                journal.sees(host, change, whom[0], group=whom[1])
    return journal.rows


def keys(frame: DataFrame) -> Counter[Any]:
    return Counter((row.world, row.writer, row.epoch, row.seq) for row in frame.collect())


def keys_of(rows: list[Row]) -> Counter[Any]:
    return Counter((row["world"], row["writer"], row["epoch"], row["seq"]) for row in rows)


def truth(spark: SparkSession, rows: list[Row], place: Path) -> DataFrame:
    """The same rows, in one file that nobody cut."""
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), place / "all.parquet")
    return with_new_names(spark.read.parquet(str(place)), EVENTS)


def same(one: DataFrame, other: DataFrame) -> None:
    names = one.columns
    assert sorted(map(str, one.collect())) == sorted(map(str, other.select(names).collect()))


@pytest.mark.parametrize("seed", [1])
def test_segments_in_any_order_and_more_than_once_give_the_tables_of_the_whole(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if each batch were large: looked at, written and compacted by several tasks of Spark.
    monkeypatch.setattr("rostra.history.ingest.FEW", 4)
    monkeypatch.setattr("rostra.history.partitions.PARTITION_WEIGHT", 2 * FILE_WEIGHT)
    monkeypatch.setattr("rostra.history.compact.FEW_ROWS", 20)
    dice = Random(seed)
    rows = random_journal(dice)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    segments = cut(rows, dice)
    again = [segment for segment in cut(rows, dice) if dice.random() < 0.4]
    dice.shuffle(segments)
    nth = 0
    while segments:
        for _ in range(min(len(segments), 12)):
            send(journal, segments.pop())
            if again and dice.random() < 0.5:
                nth += 1
                send(journal, again.pop(), name=f"again-{nth}.parquet")
        Ingest(spark, journal, tables.place.path, hole_after_s=NEVER, compact_every=2).once()
    whole = truth(spark, rows, tmp_path / "whole")
    assert keys(tables.read(spark, "events")) == keys_of(rows)
    same(tables.read(spark, "events"), whole)
    same(tables.read(spark, "stays"), stays(whole))
    same(tables.read(spark, "traffic"), whole.where("kind in ('sent', 'received')"))
    same(tables.read(spark, "suspicions"), whole.where("kind = 'link-suspected'"))
    same(tables.read(spark, "notices"), whole.where("kind in ('joined', 'left')"))
    assert tables.read(spark, "holes").count() == 0


def steady(rows: int, writer: str = "eu.paris.h1") -> list[Row]:
    journal = Journal()
    journal.start(writer)
    for _ in range(rows - 1):
        journal.write(writer, "heartbeat")
    return journal.rows


def test_rows_behind_a_hole_wait_and_their_journal_may_be_gone_when_it_is_filled(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = steady(30)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    ingest = Ingest(spark, journal, tables.place.path)
    send(journal, rows[:10])
    behind = send(journal, rows[20:])
    ingest.once()
    assert keys(tables.read(spark, "events")) == keys_of(rows[:10])
    behind.unlink()
    send(journal, rows[10:20])
    ingest.once()
    assert keys(tables.read(spark, "events")) == keys_of(rows)
    newest = tables.newest()
    assert newest is not None and newest.held == ()


def test_a_hole_that_is_given_up_is_on_the_books_and_late_rows_still_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = steady(100)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    ingest = Ingest(spark, journal, tables.place.path, hole_after_s=60)
    send(journal, rows[:10])
    send(journal, rows[20:])
    ingest.once()
    assert keys(tables.read(spark, "events")) == keys_of(rows[:10] + rows[20:])
    send(journal, rows[5:15])
    ingest.once()
    assert keys(tables.read(spark, "events")) == keys_of(rows[:15] + rows[20:])
    holes = [tuple(row) for row in tables.read(spark, "holes").orderBy("in_batch").collect()]
    assert [each[:7] for each in holes] == [
        ("w", "eu.paris.h1", 1, 11, 20, "given up", 0),
        ("w", "eu.paris.h1", 1, 11, 15, "came late", 1),
    ]


def test_what_a_writer_had_to_drop_is_no_hole(spark: SparkSession, tmp_path: Path) -> None:
    journal = Journal()
    journal.start("eu.paris.h1")
    journal.lose("eu.paris.h1", 5)
    journal.write("eu.paris.h1", "dropped", count=5, what="disk full", first=2, last=6)
    journal.write("eu.paris.h1", "heartbeat")
    tables = Tables(tmp_path / "tables")
    for row in journal.rows:
        send(tmp_path / "journal", [row])
    Ingest(spark, f"file://{tmp_path}/journal", f"file://{tmp_path}/tables").once()
    assert keys(tables.read(spark, "events")) == keys_of(journal.rows)


def test_broken_files_are_set_aside_with_a_reason_and_stop_nobody(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = steady(40)
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    send(journal, rows[:10])
    folder = next(journal.glob("date=*"))
    (folder / "text.parquet").write_text("this is no Parquet")
    short = send(journal, rows[10:20], name="cut-short.parquet")
    whole = short.read_bytes()
    short.write_bytes(whole[: len(whole) // 2])
    damaged = send(journal, rows[10:20], name="damaged.parquet")
    content = bytearray(damaged.read_bytes())
    where = pq.read_metadata(damaged).row_group(0).column(SCHEMA.get_field_index("nth"))
    at = where.dictionary_page_offset or where.data_page_offset
    content[at : at + where.total_compressed_size] = b"\x5a" * where.total_compressed_size
    damaged.write_bytes(bytes(content))
    send(journal, [{**row, "world": "other"} for row in rows[:3]], name="foreign.parquet")
    pq.write_table(pa.table({"a": [1]}), folder / "something-else.parquet")
    pq.write_table(pa.table({**{name: [1] for name in SCHEMA.names}}), folder / "wrong-types.parquet")
    send(journal, [rows[12], rows[11]], name="disorder.parquet")
    Ingest(spark, journal, tables.place.path, world="w").once()

    assert keys(tables.read(spark, "events")) == keys_of(rows[:10])
    why = {Path(each.file).name: each.why.partition(":")[0] for each in tables.set_aside()}
    assert why == {
        "text.parquet": "not Parquet, or damaged",
        "cut-short.parquet": "not Parquet, or damaged",
        "damaged.parquet": "damaged",
        "foreign.parquet": "of another world",
        "something-else.parquet": "wrong schema",
        "wrong-types.parquet": "wrong schema",
        "disorder.parquet": "wrong rows",
    }
    assert {each.size for each in tables.set_aside() if each.file.endswith("text.parquet")} == {18}

    short.write_bytes(whole)  # sent again under its name, and whole this time
    send(journal, rows[20:])
    Ingest(spark, journal, tables.place.path, world="w").once()
    assert keys(tables.read(spark, "events")) == keys_of(rows)
    assert len(tables.set_aside()) == 6


def test_versions_of_the_schema_mix_and_nothing_of_either_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = steady(30)
    newer = SCHEMA.append(pa.field("weather", pa.string()))
    older = pa.schema([field for field in SCHEMA if field.name != "virtual_s"])
    later = [{**row, "weather": "rain", "kind": "weathered"} for row in rows[10:20]]
    journal, tables = tmp_path / "journal", Tables(tmp_path / "tables")
    send(journal, rows[:10], schema=older)
    Ingest(spark, journal, tables.place.path).once()
    send(journal, later, schema=newer)
    send(journal, rows[20:])
    Ingest(spark, journal, tables.place.path).once()
    events = tables.read(spark, "events").orderBy("seq").collect()
    assert [row.seq for row in events] == list(range(1, 31))
    assert [row.weather for row in events] == [None] * 10 + ["rain"] * 10 + [None] * 10
    assert Counter(row.kind for row in events)["weathered"] == 10


def test_tables_without_their_memory_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    send(tmp_path / "journal", steady(3))
    ingest = Ingest(spark, tmp_path / "journal", tmp_path / "tables")
    ingest.once()
    (tmp_path / "tables" / "_checkpoint").rename(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="no memory of what was read"):
        ingest.once()


def test_a_journal_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no journal at"):
        Ingest(spark, tmp_path / "nowhere", tmp_path / "tables").once()


def test_rows_that_somebody_keeps_in_memory_are_still_found_in_their_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark hands rows that anybody has kept to everybody who asks for the same."""
    send(tmp_path / "journal", steady(20))
    Ingest(spark, tmp_path / "journal", str(tmp_path / "tables")).once()
    tables = str(tmp_path / "tables")
    before = Archive(spark, tables=tables).events.transform(lives).count()
    somebodys = Archive(spark, tables=tables).events.select("*").persist()
    try:
        assert somebodys.count() > before > 0
        assert Archive(spark, tables=tables).events.transform(lives).count() == before
    finally:
        somebodys.unpersist()
