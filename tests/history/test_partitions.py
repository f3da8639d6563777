"""What one task does with its partition of a batch: each row once, in every table that it belongs to."""

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.journal import Journal
from support.segments import SCHEMA, Row, send, write

from rostra.history.arrow import STAYS_IN_ARROW, shaped_as, table_in_arrow
from rostra.history.arrow_fast_path import FILE_WEIGHT
from rostra.history.intervals import Ending, end, fold, sight
from rostra.history.partitions import (
    Partition,
    Take,
    WriterLife,
    shared,
    write_partition,
)
from rostra.history.runs import Key
from rostra.history.schemas import KINDS_OF, TABLES
from rostra.history.tables import FORMAT, BatchCommit, Tables
from rostra.journal.schema import COLUMNS, KINDS

EVENTS = table_in_arrow("events", {})


def seen_by(dice: Random, rows: int) -> list[Row]:
    """Two hosts that see three members come, go, and come again without having gone."""
    journal = Journal()
    for _ in range(rows):
        host = dice.choice(("eu.h1", "eu.h2"))
        journal.sees(
            host,
            dice.choice(("joined", "left")),
            f"us.h1/p{dice.randrange(3)}#1",
            news=dice.random() < 0.8,
            cause=dice.choice(("join", "crash", None)),
        )
    return journal.rows


def told_slowly(rows: list[Row]) -> tuple[list[Any], list[Any]]:
    """The same stays, row by row: (who, whom, joined_seq, left_seq, ended_by)."""
    open_: dict[tuple[str, str], int] = {}
    ended = []
    for row in rows:
        who = (row["writer"], row["member"])
        if not row["news"]:
            continue
        if who in open_:
            by = "joined again" if row["change"] == "joined" else row["cause"] or "left"
            ended.append((*who, open_.pop(who), row["seq"], by))
        if row["change"] == "joined":
            open_[who] = row["seq"]
    return sorted(ended), sorted((*who, seq) for who, seq in open_.items())


def in_arrow(rows: list[Row]) -> pa.Table:
    return shaped_as(pa.Table.from_pylist(rows, SCHEMA), EVENTS)


@given(seed=st.integers(0, 10_000), rows=st.integers(0, 60), batches=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_stays_batch_by_batch_are_those_that_are_told_row_by_row(seed: int, rows: int, batches: int) -> None:
    dice = Random(seed)
    story = seen_by(dice, rows)
    cuts = sorted(dice.randrange(len(story) + 1) for _ in range(batches - 1))
    ended, opened = [], STAYS_IN_ARROW.empty_table()
    for start, stop in zip([0, *cuts], [*cuts, len(story)], strict=True):
        gone, opened = fold(opened, sight(in_arrow(story[start:stop])))
        ended += gone.to_pylist()
    slowly = told_slowly(story)
    names = ("seen_by", "member", "joined_seq")
    assert (
        sorted(tuple(stay[name] for name in (*names, "left_seq", "ended_by")) for stay in ended) == slowly[0]
    )
    assert sorted(tuple(stay[name] for name in names) for stay in opened.to_pylist()) == slowly[1]
    assert all(stay["left_at"] > stay["joined_at"] for stay in ended)


def test_a_life_that_is_over_ends_what_it_saw_and_nothing_else() -> None:
    journal = Journal()
    for host in ("eu.h1", "eu.h2", "eu.h3"):
        journal.sees(host, "joined", "us.h1/p1#1")
    _, opened = fold(STAYS_IN_ARROW.empty_table(), sight(in_arrow(journal.rows)))
    ended, lasting = end(opened, {Key("w", "eu.h2", 1): Ending(1_800_000_000_000_000, "unknown")})
    assert [(stay["seen_by"], stay["ended_by"], stay["left_seq"]) for stay in ended.to_pylist()] == [
        ("eu.h2", "unknown", None)
    ]
    assert [stay["left_at"].timestamp() for stay in ended.to_pylist()] == [1_800_000_000]
    assert [stay["seen_by"] for stay in lasting.to_pylist()] == ["eu.h1", "eu.h3"]


def rows_in(tables: Path, name: str) -> list[Row]:
    found: list[Row] = pq.read_table(tables / name).to_pylist()
    return found


def every_kind() -> list[Row]:
    """A row of each kind, with a value in every column that the kind is said to fill."""
    values = {
        "text": "t",
        "word": "w",
        "int64": 7,
        "int32": 3,
        "double": 0.5,
        "bool": True,
        "texts": ["a", "b"],
    }
    journal = Journal()
    type_of = {column.name: column.type for column in COLUMNS}
    for kind in KINDS:
        filled = {name: values[type_of[name]] for name in kind.columns.split()}
        journal.write("eu.h1", kind.name, **filled)
    return journal.rows


def test_every_column_that_a_kind_fills_is_in_its_table(tmp_path: Path) -> None:
    rows = every_kind()
    segment = send(tmp_path / "journal", rows)
    key = Key("w", "eu.h1", 1)
    take = Take(str(segment), 1, len(rows), len(rows), "events")
    written = write_partition(Partition(str(tmp_path), "0", (WriterLife(key, (take,)),), {}))
    assert rows_in(tmp_path, written.files["events"]) == pa.Table.from_pylist(rows, SCHEMA).to_pylist()
    filled = {kind.name: set(kind.columns.split()) for kind in KINDS}
    for table, kinds in KINDS_OF.items():
        found = rows_in(tmp_path, written.files[table])
        assert Counter(row["kind"] for row in found) == Counter(kinds)
        for row in found:
            missing = {name for name in filled[row["kind"]] if row.get(name) is None}
            assert missing <= {"told"}, (table, row["kind"], missing)
        assert written.rows[table] == len(found)
        assert set(found[0]) == set(TABLES[table].names)


def test_rows_that_came_late_are_events_and_no_part_of_a_stay(tmp_path: Path) -> None:
    journal = Journal()
    journal.sees("eu.h1", "joined", "us.h1/p1#1")
    journal.sees("eu.h1", "left", "us.h1/p1#1")
    journal.sees("eu.h1", "joined", "us.h1/p2#1")
    segment = str(send(tmp_path / "journal", journal.rows))
    key = Key("w", "eu.h1", 1)
    takes = (Take(segment, 2, 2, None, "late"), Take(segment, 3, 3, None, "events"))
    written = write_partition(Partition(str(tmp_path), "0", (WriterLife(key, takes),), {}))
    assert written.rows == {"events": 2, "notices": 2, "open": 1}
    assert written.opened == [(key, 1)]


def test_held_rows_of_several_lives_are_found_again(tmp_path: Path) -> None:
    journal = Journal()
    for host in ("eu.h1", "eu.h2"):
        for _ in range(4):
            journal.write(host, "heartbeat")
    sources = {
        host: str(send(tmp_path / "journal", [row for row in journal.rows if row["writer"] == host]))
        for host in ("eu.h1", "eu.h2")
    }
    lives = tuple(
        WriterLife(Key("w", host, 1), (Take(source, 2, 4, None, "held"),)) for host, source in sources.items()
    )
    held = write_partition(Partition(str(tmp_path), "0", lives, {}))
    (tmp_path / "held" / "batch=0").mkdir(parents=True)
    (tmp_path / held.files["held"]).rename(tmp_path / "held" / "batch=0" / "000.parquet")
    take = Take("held/batch=0", 3, 4, 2, "events")
    partition = Partition(str(tmp_path), "1", (WriterLife(Key("w", "eu.h2", 1), (take,)),), {})
    written = write_partition(msgspec.json.decode(msgspec.json.encode(partition), type=Partition))
    assert [(row["writer"], row["seq"]) for row in rows_in(tmp_path, written.files["events"])] == [
        ("eu.h2", 3),
        ("eu.h2", 4),
    ]


@pytest.mark.parametrize("harm", ["shorter", "garbage", "gone"])
def test_a_source_that_is_not_what_it_was_is_named(tmp_path: Path, harm: str) -> None:
    journal = Journal()
    for _ in range(6):
        journal.write("eu.h1", "heartbeat")
    segment = send(tmp_path / "journal", journal.rows)
    match harm:
        case "shorter":
            send(tmp_path / "journal", journal.rows[:5], name=segment.name)
        case "garbage":
            segment.write_bytes(segment.read_bytes()[:200])
        case "gone":
            segment.unlink()
    take = Take(str(segment), 1, 6, 6, "events")
    written = write_partition(Partition(str(tmp_path), "0", (WriterLife(Key("w", "eu.h1", 1), (take,)),), {}))
    assert [trouble.source for trouble in written.troubles] == [str(segment)]
    assert written.files == {}


def test_a_changed_byte_in_a_page_never_becomes_another_row(tmp_path: Path) -> None:
    """Of a segment as nodes write it. Most changes break the compression; the rest only a checksum shows."""
    rows = [row for row in seen_by(Random(2), 600) if row["writer"] == "eu.h1"]
    segment = write(tmp_path / "journal", rows)
    whole, footer = segment.read_bytes(), pq.read_metadata(segment)
    pages = [footer.row_group(0).column(nth) for nth in range(footer.num_columns)]
    begins = [page.dictionary_page_offset or page.data_page_offset for page in pages]
    ends = [begin + page.total_compressed_size for begin, page in zip(begins, pages, strict=True)]
    key = Key("w", "eu.h1", 1)
    partition = Partition(
        str(tmp_path), "0", (WriterLife(key, (Take(str(segment), 1, len(rows), None, "events"),)),), {}
    )
    before = rows_in(tmp_path, write_partition(partition).files["events"])
    dice, found = Random(7), 0
    for _ in range(150):
        at = dice.randrange(min(begins), max(ends))
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        written = write_partition(partition)
        found += bool(written.troubles)
        assert written.troubles or rows_in(tmp_path, written.files["events"]) == before, at
    assert found > 100


def test_partitions_are_worth_a_task_and_of_similar_weight() -> None:
    def life(nth: int, rows: int) -> WriterLife:
        return WriterLife(Key("w", f"h{nth}", 1), (Take("s", 1, rows, rows, "events"),))

    assert [len(partition) for partition in shared([life(nth, 10) for nth in range(20)], cores=2)] == [20]
    many = shared([life(nth, 100_000 * (nth + 1)) for nth in range(20)], cores=2)
    weights = [sum(each.weight for each in partition) for partition in many]
    assert len(many) == 16 and sum(map(len, many)) == 20
    assert max(weights) <= 2_000_000 + FILE_WEIGHT
    assert shared([], cores=2) == []


def test_tables_may_be_on_any_file_system_that_arrow_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())

    def open_far(where: str | Path) -> tuple[pafs.FileSystem, str]:
        return far, str(where).removeprefix("far://")

    monkeypatch.setattr("rostra.history.files.open_files", open_far)
    journal = Journal()
    journal.sees("eu.h1", "joined", "us.h1/p1#1")
    journal.sees("eu.h1", "left", "us.h1/p1#1")
    segment = send(tmp_path / "journal", journal.rows)
    source = f"far://{segment.relative_to(tmp_path)}"
    take = Take(source, 1, 2, 2, "events")
    written = write_partition(
        Partition("far://tables", "0", (WriterLife(Key("w", "eu.h1", 1), (take,)),), {})
    )
    tables = Tables("far://tables")
    for table, file in written.files.items():
        tables.place.put(f"{table}/batch=0", [file])
    tables.commit(BatchCommit(0, 0, written.rows))
    assert tables.newest() == BatchCommit(0, 0, {"events": 2, "notices": 2, "stays": 1}, format=FORMAT)
    assert tables.directories("stays") == ["far://tables/stays/batch=0"]
    stays = rows_in(tmp_path, "tables/stays/batch=0/000.parquet")
    assert [(stay["joined_seq"], stay["left_seq"]) for stay in stays] == [(1, 2)]


def test_what_was_replaced_just_now_is_kept_for_its_readers_however_old_it_is(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    for directory in ("batch=0", "batch=1", "batch=0-1", "batch=2"):
        (tmp_path / "events" / directory).mkdir(parents=True)
        os.utime(tmp_path / "events" / directory, (0, 0))
    tables.write_epochs("batch=1", {})
    tables.commit(BatchCommit(1, 0, {"events": 1}))
    assert tables.sweep(older_than_s=600, now=5_000) == []
    assert tables.sweep(older_than_s=600, now=5_599) == []
    assert sorted(tables.sweep(older_than_s=600, now=5_600)) == ["events/batch=0", "events/batch=1"]
    assert sorted(path.name for path in (tmp_path / "events").iterdir()) == ["batch=0-1", "batch=2"]
