"""Entries as Parquet: one segment is a run of one writer's rows, whole or not there at all.

    <journal>/date=2026-11-15/eu.fr.paris.h3-1731700000000-000000000001-000000000417.parquet
              day of the    writer       epoch           first row     last row
              first row

A segment is written under a name that begins with a dot, which every reader passes over, and gets its own
name when it is on the disk. So who lists a journal sees whole segments only, each of them for ever the
same: it can be read, copied and counted without asking its writer.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rostra.errors import BadInput
from rostra.journal.entries import Entry, Identity
from rostra.journal.fold import UNKNOWN
from rostra.journal.schema import COLUMNS, NAMES, VERSION, Type, segment_name

ARROW: Final[dict[Type, pa.DataType]] = {
    "text": pa.string(),
    "word": pa.string(),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "texts": pa.list_(pa.string()),
}

SCHEMA: Final = pa.schema(
    [pa.field(each.name, ARROW[each.type], nullable=not each.required) for each in COLUMNS]
)

_OF_A_LINE: Final = ("member", "life", "stamp", "change", "news", "cause", "count", "last")
"""Columns in which the rows of one entry differ."""

_ASKED_BY: Final = ("seq", "at", "kind", "group", "peer", "domain")
"""Columns by which readers may pass over what they do not want. Segments are small, and bounds of the other
columns would be a tenth of them."""

_WORDS: Final = tuple(
    f"{each.name}.list.element" if each.type == "texts" else each.name
    for each in COLUMNS
    if each.type in ("text", "word", "texts")
)
"""Columns in which the same texts come again and again."""

_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
"""There a file appears when it is closed, and not before; renaming would copy it."""


def table_of(who: Identity, first: int, entries: Sequence[Entry]) -> pa.Table:
    """These entries as rows, numbered from `first` on."""
    rows = [entry.rows for entry in entries]
    total = sum(rows)
    filled = _filled(entries)
    which = None
    if any(entry.lines is not None for entry in entries):
        filled.update(_lines(entries, filled))
        which = pa.array([n for n, many in enumerate(rows) for _ in range(many)], pa.int32())
    columns = {
        "world": _same(who.world, total),
        "writer": _same(who.writer, total),
        "role": _same(who.role, total),
        "epoch": pa.array([who.epoch] * total, pa.int64()),
        "seq": pa.array(range(first, first + total), pa.int64()),
        "nth": pa.array([n for many in rows for n in range(many)], pa.int32()),
        "of": pa.array([many for many in rows for _ in range(many)], pa.int32()),
    }
    for column in COLUMNS:
        name, kind = column.name, ARROW[column.type]
        if name in columns:
            continue
        values = filled.get(name)
        if values is None:
            columns[name] = pa.nulls(total, kind)
        elif name == "observers":
            columns[name] = _shared_lists(values, rows)
        elif which is None or name in _OF_A_LINE:
            columns[name] = pa.array(values, kind)
        else:
            columns[name] = pa.array(values, kind).take(which)
    metadata = {
        "rostra.schema": str(VERSION),
        "rostra.world": who.world,
        "rostra.writer": who.writer,
        "rostra.role": who.role,
        "rostra.epoch": str(who.epoch),
        "rostra.first": str(first),
        "rostra.last": str(first + total - 1),
    }
    return pa.table([columns[name] for name in NAMES], schema=SCHEMA.with_metadata(metadata))


def _shared_lists(lists: list[tuple[str, ...] | None], rows: list[int]) -> pa.Array:
    """Many entries were told to the very same endpoints: each such list is converted once."""
    places: dict[int, int] = {}
    distinct: list[tuple[str, ...] | None] = []
    which: list[int] = []
    for each, many in zip(lists, rows, strict=True):
        place = places.get(id(each))
        if place is None:
            place = places[id(each)] = len(distinct)
            distinct.append(each)
        which.extend([place] * many)
    return pa.array(distinct, ARROW["texts"]).take(pa.array(which, pa.int32()))


def _same(text: str, times: int) -> pa.Array:
    return pa.array([text] * times, pa.string())


def _filled(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """The columns in which anything is said, entry by entry. A kind fills few of them, so this is far less
    than to ask each entry for each column."""
    columns: dict[str, list[Any]] = {
        "kind": [entry.kind for entry in entries],
        "at": [entry.at for entry in entries],
        "virtual_s": [entry.virtual_s for entry in entries],
    }
    for place, entry in enumerate(entries):
        for name, value in entry.columns.items():
            if value is not None:
                values = columns.get(name)
                if values is None:
                    values = columns[name] = [None] * len(entries)
                values[place] = value
    return columns


def _lines(entries: Sequence[Entry], filled: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns in which rows of one entry differ, row by row."""
    nothing = [None] * len(entries)
    said = [filled.get(name, nothing) for name in _OF_A_LINE]
    causes = filled.get("cause", nothing)
    rows: list[tuple[Any, ...]] = []
    for place, entry in enumerate(entries):
        if entry.lines is None:
            rows.append(tuple([values[place] for values in said]))
            continue
        for member, known, change, news, cause, rank in entry.lines:
            life, stamp = known if known != UNKNOWN else (None, None)
            rows.append((member, life, stamp, change, news, cause, None, rank))
        if entry.kept:
            rows.append((None, None, None, "kept", False, causes[place], entry.kept, None))
        elif not entry.lines:
            rows.append((None, None, None, None, False, causes[place], None, None))
    return dict(zip(_OF_A_LINE, map(list, zip(*rows, strict=True)), strict=True))


FOLDER_MODE: Final = 0o750
FILE_MODE: Final = 0o640
"""Readable for the group that may read journals. Recordings hold messages, and only their owner reads
them."""


class Place:
    """Where segments go: a directory of this machine, or of any file system that Arrow knows by its URI."""

    def __init__(self, where: str | Path) -> None:
        self.name = str(where)
        self._local: Path | None = None
        if "://" in self.name:
            try:
                self._files, self._base = pafs.FileSystem.from_uri(self.name)
            except (pa.ArrowInvalid, OSError) as error:
                raise BadInput(
                    f"cannot keep a journal at {self.name}: {error}",
                    fix="name a directory, or a URI such as s3://bucket/path or hdfs://host:port/path",
                ) from None
            if isinstance(self._files, pafs.LocalFileSystem):
                self._local = Path(self._base)
        else:
            self._files, self._base = pafs.LocalFileSystem(), str(Path(where).absolute())
            self._local = Path(self._base)

    @classmethod
    def on(cls, files: pafs.FileSystem, base: str) -> "Place":
        """On a file system that is at hand already."""
        place = cls.__new__(cls)
        place.name, place._local, place._files, place._base = base, None, files, base
        return place

    def claim(self, writer: str, epoch: int) -> None:
        """Reserve this writer's epoch, so that no other process ever writes in it; or FileExistsError."""
        claims = f"{self._base}/_epochs"
        name = f"{writer}-{epoch}"
        if self._local is not None:
            folder = self._local / "_epochs"
            _make(folder)
            (folder / name).touch(mode=FILE_MODE, exist_ok=False)
            for day in sorted(self._local.glob("date=*"))[-2:]:
                for left_over in day.glob(f".{writer}-[0-9]*.parquet"):
                    left_over.unlink(missing_ok=True)  # by an earlier life, killed while it wrote
            return
        self._files.create_dir(claims, recursive=True)
        if self._files.get_file_info(f"{claims}/{name}").type != pafs.FileType.NotFound:
            raise FileExistsError(f"{claims}/{name} is there already")
        with self._files.open_output_stream(f"{claims}/{name}"):
            pass

    def write(self, table: pa.Table) -> str:
        """One more segment. It is there, whole and on the disk, when this returns; or not at all."""
        metadata = table.schema.metadata
        first, last = int(metadata[b"rostra.first"]), int(metadata[b"rostra.last"])
        name = segment_name(metadata[b"rostra.writer"].decode(), int(metadata[b"rostra.epoch"]), first, last)
        day = datetime.fromtimestamp(table.column("at")[0].value / 1e6, UTC).strftime("%Y-%m-%d")
        return self.put(f"date={day}", name, lambda file: _write_table(table, file))

    def put(self, folder: str, name: str, fill: Callable[[Any], None], mode: int = FILE_MODE) -> str:
        """A file of that name, filled by `fill`: whole, or not there. `mode` is for a directory here."""
        if self._local is not None:
            return str(_put_here(self._local / folder, name, fill, mode))
        there = f"{self._base}/{folder}"
        self._files.create_dir(there, recursive=True)
        whole = f"{there}/{name}"
        if self._files.get_file_info(whole).type != pafs.FileType.NotFound:
            raise FileExistsError(f"{whole} is there already")
        at_once = self._files.type_name in _OBJECT_STORES
        part = whole if at_once else f"{there}/.{name}"
        try:
            with self._files.open_output_stream(part) as file:
                fill(file)
            if not at_once:
                self._files.move(part, whole)
        except BaseException:
            with contextlib.suppress(OSError):
                self._files.delete_file(part)
            raise
        return whole


def _make(folder: Path) -> None:
    """It, and the journal's own directory if need be: for us and our group, whatever the umask."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        with contextlib.suppress(FileExistsError):
            each.mkdir()
            each.chmod(FOLDER_MODE)


def _put_here(folder: Path, name: str, fill: Callable[[Any], None], mode: int) -> Path:
    _make(folder)
    whole, part = folder / name, folder / f".{name}"
    if whole.exists():
        raise FileExistsError(f"{whole} is there already")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        part.rename(whole)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    _sync_folder(folder)
    return whole


def _sync_folder(folder: Path) -> None:
    """A name is on the disk when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_table(table: pa.Table, file: Any) -> None:
    # Parquet's own types say everything; Arrow's copy of the schema would be a third of a small segment.
    with pq.ParquetWriter(
        file,
        table.schema,
        compression="zstd",
        store_schema=False,
        write_page_checksum=True,  # compression does not notice every changed byte
        write_statistics=list(_ASKED_BY),
        use_dictionary=list(_WORDS),
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(table.schema.metadata)


def read(journal: str | Path) -> pa.Table:
    """All rows of a journal, by writer, epoch and number: for small ones, and for tests."""
    base = Path(journal)
    found = sorted(base.glob("date=*/[!._]*.parquet"))
    if not found:
        return SCHEMA.empty_table()
    # Not by pyarrow.dataset: it would take 50 MB and a second in every process that only writes.
    files = (pq.ParquetFile(path, page_checksum_verification=True) for path in found)
    tables = [file.read().replace_schema_metadata() for file in files]
    table = pa.concat_tables([SCHEMA.empty_table(), *tables], promote_options="default")
    return table.sort_by([("writer", "ascending"), ("epoch", "ascending"), ("seq", "ascending")])
