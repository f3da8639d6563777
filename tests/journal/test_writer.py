"""Rows reach the disk in order and whole; what does not is counted, and the loop never waits."""

import errno
import threading
from itertools import pairwise

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from rostra.errors import BadInput
from rostra.journal import segments
from rostra.journal.bounds import Bounds
from rostra.journal.entries import Entry, Identity
from rostra.journal.fold import ViewLine
from rostra.journal.segments import Place, read
from rostra.journal.writer import Pen, Writer
from rostra.names import Endpoint

WHO = Identity("w", "eu.h1", "agent", 7)
NOON = 1_772_366_400_000_000


def entry(kind: str = "settled", after_us: int = 0) -> Entry:
    return Entry(kind, NOON + after_us)


class Disk:
    """A place that takes what it is given, when it is allowed to."""

    name = "disk"

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.open = threading.Event()
        self.open.set()
        self.tables: list[pa.Table] = []

    def write(self, table: pa.Table) -> str:
        self.open.wait(10)
        if self.errors:
            raise self.errors.pop(0)
        self.tables.append(table)
        return ""

    @property
    def rows(self) -> list[dict]:
        return [row for table in self.tables for row in table.to_pylist()]


class Said(list):
    def __init__(self) -> None:
        super().__init__()
        self.lost = 0

    def lose(self, rows: int) -> None:
        self.lost += rows


def write_to(disk, said: Said | None = None, **bounds) -> tuple[Writer, Pen]:
    said = Said() if said is None else said
    pen = Pen(disk, say=said.append, lost=said.lose, retry_s=0.001)
    return Writer(WHO, pen, Bounds(**bounds)), pen


def happens(condition) -> None:
    """The other thread gets there, within ten seconds."""
    tries = (condition() or threading.Event().wait(0.001) for _ in range(10_000))
    assert any(tries)


def test_a_segment_ends_with_a_mark_or_when_it_is_full() -> None:
    disk = Disk()
    writer, pen = write_to(disk, segment_rows=3)
    for kind in ("started", "settled", "heartbeat", *["settled"] * 4, "closing"):
        writer.take(entry(kind))
    assert pen.close(10)
    assert [table.num_rows for table in disk.tables] == [1, 2, 3, 2]
    assert [row["seq"] for row in disk.rows] == list(range(1, 9))
    assert [table.schema.metadata[b"rostra.first"] for table in disk.tables] == [b"1", b"2", b"4", b"7"]
    assert writer.waiting == 0


def test_many_entries_are_one_segment_although_made_in_chunks() -> None:
    disk = Disk()
    writer, pen = write_to(disk)
    for n in range(2_500):
        writer.take(entry(after_us=n))
    writer.take(entry("heartbeat"))
    assert pen.close(10)
    (table,) = disk.tables
    assert table.num_rows == 2_501
    assert table.schema.metadata[b"rostra.last"] == b"2501"
    assert all(a["seq"] + 1 == b["seq"] for a, b in pairwise(disk.rows))


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "Input/output error")]
)
def test_a_disk_that_fails_is_tried_again_and_nothing_is_lost(error) -> None:
    said = Said()
    disk = Disk(error, error, error)
    writer, pen = write_to(disk, said)
    for kind in ("started", "heartbeat", "settled", "closing"):
        writer.take(entry(kind))
    assert pen.close(10)
    assert [row["kind"] for row in disk.rows] == ["started", "heartbeat", "settled", "closing"]
    assert len(said) == 2, "the same trouble is said once, and its end is said"
    assert error.strerror in said[0] and "again" in said[1]
    assert said.lost == 0 and pen.failures == 3


def test_what_does_not_fit_into_memory_is_dropped_counted_and_marked() -> None:
    said = Said()
    disk = Disk()
    writer, pen = write_to(disk, said, segment_rows=5, waiting_rows=10)
    disk.open.clear()
    for n in range(25):
        writer.take(entry(after_us=n))
    assert writer.waiting == 10
    assert writer.dropped == said.lost == 15
    disk.open.set()
    happens(lambda: not writer.waiting)
    writer.take(entry("settled", 99))
    writer.take(entry("closing", 100))
    assert pen.close(10)

    rows = disk.rows
    assert [row["seq"] for row in rows] == [*range(1, 11), 26, 27, 28]
    mark = rows[10]
    assert (mark["kind"], mark["count"], mark["first"], mark["last"]) == ("dropped", 15, 11, 25)
    assert [row["kind"] for row in rows[11:]] == ["settled", "closing"]


def test_an_event_larger_than_what_may_wait_is_kept_if_nothing_waits() -> None:
    disk = Disk()
    writer, pen = write_to(disk, segment_rows=5, waiting_rows=10)
    lines = [ViewLine(Endpoint(f"eu.h1/p#{n}"), (1, n), "joined", True, "snapshot") for n in range(50)]
    writer.take(Entry("absolute", NOON, lines=lines))
    writer.take(entry("closing"))
    assert pen.close(10)
    assert writer.dropped == 0
    assert [row["seq"] for row in disk.rows] == list(range(1, 52))
    assert {(row["nth"], row["of"]) for row in disk.rows[:-1]} == {(n, 50) for n in range(50)}


def test_the_end_does_not_wait_for_a_disk_that_stays_full() -> None:
    said = Said()
    full = OSError(errno.ENOSPC, "No space left on device")
    disk = Disk(*[full] * 100_000)
    writer, pen = write_to(disk, said)
    writer.take(entry("heartbeat"))
    happens(lambda: pen.trouble)
    assert not pen.close(10)
    assert writer.waiting == 1 and disk.tables == []


def test_a_segment_appears_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    place = Place(tmp_path)

    def fail(table, file) -> None:
        file.write(b"half a segm")
        raise OSError(errno.ENOSPC, "No space left on device")

    writer, pen = write_to(place)
    monkeypatch.setattr(segments, "_write_table", fail)
    writer.take(entry("heartbeat"))
    happens(lambda: pen.trouble)
    assert [path for path in tmp_path.rglob("*.parquet") if not path.name.startswith(".")] == []
    monkeypatch.undo()
    happens(lambda: not pen.trouble)
    assert pen.close(10)
    (path,) = tmp_path.rglob("*.parquet")
    assert path.name == "eu.h1-7-000000000001-000000000001.parquet"
    assert path.parent.name == "date=2026-03-01"


@pytest.mark.parametrize("where", ["path", "uri", "file system"])
def test_a_journal_can_be_anywhere_that_arrow_can_write(where, tmp_path) -> None:
    place = {
        "path": lambda: Place(tmp_path),
        "uri": lambda: Place(tmp_path.as_uri()),
        "file system": lambda: Place.on(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), "."),
    }[where]()
    place.claim("eu.h1", 7)
    with pytest.raises(FileExistsError):
        place.claim("eu.h1", 7)
    place.claim("eu.h1", 8)
    writer, pen = write_to(place)
    writer.take(entry("started"))
    writer.take(entry("closing"))
    assert pen.close(10)
    assert read(tmp_path)["kind"].to_pylist() == ["started", "closing"]
    assert not list(tmp_path.rglob(".*"))
    with pytest.raises(FileExistsError):
        place.write(pq.read_table(next(tmp_path.rglob("*.parquet")), partitioning=None))


def test_what_a_killed_writer_left_half_written_is_cleared_away_by_its_next_life(tmp_path) -> None:
    (tmp_path / "date=2026-03-01").mkdir()
    mine = tmp_path / "date=2026-03-01" / ".eu.h1-6-000000000001-000000000009.parquet"
    other = tmp_path / "date=2026-03-01" / ".eu.h12-6-000000000001-000000000009.parquet"
    mine.touch()
    other.touch()
    Place(tmp_path).claim("eu.h1", 7)
    assert not mine.exists() and other.exists()


def test_a_place_that_cannot_be_is_refused_with_a_fix() -> None:
    with pytest.raises(BadInput, match="cannot keep a journal at nowhere://x") as refused:
        Place("nowhere://x/y")
    assert "s3://" in refused.value.fix


def test_bounds_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(BadInput, match="only 5 may wait"):
        Bounds(segment_rows=10, waiting_rows=5)
    with pytest.raises(BadInput, match="positive"):
        Bounds(segment_s=0)
