"""A batch, divided among Spark's tasks: each takes some lives of writers, and writes all tables of them.

    plan of a batch ──▶ partitions ──▶ task: read each row once, in order ──▶ <tables>/_writing/<name>/events
                                   └─ fold what was open before         ──▶                 notices, stays ...

All rows of one life (a writer's epoch) are in one partition, so nothing has to be sorted, and no row travels
between tasks. A task writes under a name that readers do not look at; the driver moves the files to their
place when all tasks are done. So it does no harm if a task runs twice, or goes on after it was given up.

Memory does not grow with a batch: rows pass in groups of some hundred thousand, and beside them there are
only the stays that last.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from rostra.history.arrow import (
    STAYS_IN_ARROW,
    ParquetWriter,
    between,
    may_have,
    row_groups,
    table_in_arrow,
)
from rostra.history.arrow_fast_path import FILE_WEIGHT, evenly
from rostra.history.files import LocalDirectory, parquet_in
from rostra.history.intervals import Ending, by_life, counted, end, fold, sight, stretches
from rostra.history.runs import Key
from rostra.history.schemas import KINDS_OF, REFUSED
from rostra.history.tables import WRITING
from rostra.journal.schema import Type

HELD: Final = "held/"

GROUP_ROWS: Final = 200_000
"""Rows that are in a task's memory at once, beside the stays that last; and in a row group of a file."""

PARTITION_WEIGHT: Final = 250_000
"""Rows, or so, that are worth a task of their own."""

PARTITIONS_PER_CORE: Final = 8


class Take(Struct, frozen=True):
    """Rows `first` to `last` of one life, out of one source."""

    source: str  # a segment; or where an earlier batch held rows, "held/batch=17"
    first: int
    last: int
    rows: int | None  # so many must there be; None if they were not counted
    into: str  # events, with all that is made of them | late: only events and parts | held


class WriterLife(Struct, frozen=True):
    """What a partition does for one epoch of one writer."""

    key: Key
    takes: tuple[Take, ...]
    opened: str = ""  # directory of `open` with the stays that it begins with; "" if it leaves them alone
    ending: Ending | None = None

    @property
    def weight(self) -> int:
        return sum(take.last - take.first + 1 + FILE_WEIGHT for take in self.takes)


class Partition(Struct, frozen=True):
    tables: str  # as a person or Spark writes it
    name: str
    lives: tuple[WriterLife, ...]
    extra: dict[str, Type]


class Trouble(Struct, frozen=True):
    """A source that could not be read as it was promised."""

    source: str
    why: str


class Written(Struct):
    """What came of a partition: files that wait to be moved, or what is wrong with its sources."""

    files: dict[str, str] = {}  # of each table that has rows; relative to the tables
    rows: dict[str, int] = {}
    opened: list[tuple[Key, int]] = []  # stays that last, of each life whose open stays were written anew
    groups: list[str] = []  # that its events name
    troubles: list[Trouble] = []


def shared(lives: Iterable[WriterLife], cores: int) -> list[list[WriterLife]]:
    """So that no partition is much heavier than the others; a single one if it is not worth more."""
    heaviest_first = sorted(lives, key=lambda life: (-life.weight, life.key))
    weight = sum(life.weight for life in heaviest_first)
    many = max(1, min(weight // PARTITION_WEIGHT, PARTITIONS_PER_CORE * cores, len(heaviest_first)))
    partitions = evenly(heaviest_first, many)
    return [sorted(partition, key=lambda life: life.key) for partition in partitions if partition]


class UnreadableSegment(Exception):
    def __init__(self, source: str, why: str) -> None:
        super().__init__(source, why)
        self.trouble = Trouble(source, why)


def write_partition(partition: Partition) -> Written:
    work = _Work(partition)
    try:
        for life in partition.lives:
            for take in life.takes:
                for rows in read(take, life.key, work.place, work.schema):
                    work.add(rows, take.into)
        return work.done()
    except UnreadableSegment as unreadable:
        return Written(troubles=[unreadable.trouble])


class _Work:
    """Rows on their way into the files of a partition."""

    def __init__(self, partition: Partition) -> None:
        self.schema = table_in_arrow("events", partition.extra)
        self.place = LocalDirectory(partition.tables)
        self._partition = partition
        self._files = Outputs(self.place, partition.name, partition.extra)
        self._rows: dict[str, list[pa.Table]] = {"events": [], "late": [], "held": []}
        self._waiting = 0
        self._open = self._opened()
        self._sights: list[pa.Table] = []
        self._groups: set[str] = set()

    def add(self, rows: pa.Table, into: str) -> None:
        self._rows[into].append(rows)
        self._waiting += rows.num_rows
        if self._waiting >= GROUP_ROWS:
            self._pass_on()

    def done(self) -> Written:
        self._pass_on()
        self._fold()
        endings = {life.key: life.ending for life in self._partition.lives if life.ending is not None}
        ended, lasting = end(self._open, endings)
        self._files.add("stays", ended)
        self._files.add("open", by_life(lasting))
        counts = counted(lasting)
        files, rows = self._files.close()
        renewed = [life.key for life in self._partition.lives if life.opened or life.key in counts]
        opened = [(key, counts.get(key, 0)) for key in renewed]
        return Written(files, rows, opened, sorted(self._groups))

    def _opened(self) -> pa.Table:
        wanted: dict[str, set[Key]] = {}
        for life in self._partition.lives:
            if life.opened:
                wanted.setdefault(life.opened, set()).add(life.key)
        found = [_open_stays(self.place, directory, keys) for directory, keys in sorted(wanted.items())]
        return pa.concat_tables([STAYS_IN_ARROW.empty_table(), *found])

    def _pass_on(self) -> None:
        for into, tables in self._rows.items():
            if not tables:
                continue
            rows = pa.concat_tables(tables).combine_chunks()
            tables.clear()
            if into == "held":
                self._files.add("held", rows)
                continue
            self._files.add("events", rows)
            there_are = rows.filter(pc.not_equal(rows["kind"], REFUSED))["group"]
            self._groups.update(pc.unique(there_are).drop_null().to_pylist())
            for table, kinds in KINDS_OF.items():
                chosen = self._files.schema(table).names
                self._files.add(table, rows.select(chosen).filter(pc.is_in(rows["kind"], pa.array(kinds))))
            if into == "events":
                self._sights.append(sight(rows))
        self._waiting = 0
        if sum(some.num_rows for some in self._sights) > max(GROUP_ROWS, self._open.num_rows):
            self._fold()

    def _fold(self) -> None:
        if any(some.num_rows for some in self._sights):
            ended, self._open = fold(self._open, pa.concat_tables(self._sights))
            self._files.add("stays", ended)
        self._sights = []


class Outputs:
    """Files of several tables, under names that readers do not look at."""

    def __init__(self, place: LocalDirectory, name: str, extra: Mapping[str, Type]) -> None:
        self._place = place
        self._folder = f"{WRITING}/{name}-{uuid4().hex[:12]}"
        self._extra = extra
        self._writers: dict[str, ParquetWriter] = {}
        self._schemas: dict[str, pa.Schema] = {}

    def schema(self, table: str) -> pa.Schema:
        if table not in self._schemas:
            self._schemas[table] = table_in_arrow(table, self._extra)
        return self._schemas[table]

    def add(self, table: str, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        if table not in self._writers:
            name = self._name(table)
            self._writers[table] = ParquetWriter(
                lambda: self._place.create(name), self.schema(table), GROUP_ROWS
            )
        self._writers[table].add(rows)

    def close(self) -> tuple[dict[str, str], dict[str, int]]:
        """All of them on the disk: their names, and how many rows they have."""
        for writer in self._writers.values():
            writer.close()
        for table in self._writers:
            self._place.settle(self._name(table))
        return (
            {table: self._name(table) for table in self._writers},
            {table: writer.rows for table, writer in self._writers.items()},
        )

    def _name(self, table: str) -> str:
        return f"{self._folder}/{table}.parquet"


# Reading


def read(take: Take, key: Key, place: LocalDirectory, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows that are to be taken, in order."""
    many = 0
    held = take.source.startswith(HELD)
    for path in parquet_in(place, take.source) if held else [take.source]:
        for rows in _of_source(take.source, path, schema):
            of_life = rows.filter(_of_life(rows, key)) if held else rows
            chosen = between(of_life, take.first, take.last)
            many += chosen.num_rows
            if chosen.num_rows:
                yield chosen
    if take.rows is not None and many != take.rows:
        raise UnreadableSegment(
            take.source, f"damaged: it has {many} of the {take.rows} rows that it had before"
        )


def _of_source(source: str, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    try:
        yield from row_groups(path, schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableSegment(source, f"damaged: {' '.join(str(error).split())[:200]}") from error


def _of_life(rows: pa.Table, key: Key) -> Any:
    is_writer = pc.and_(pc.equal(rows["world"], key.world), pc.equal(rows["writer"], key.writer))
    return pc.and_(is_writer, pc.equal(rows["epoch"], key.epoch))


def _open_stays(place: LocalDirectory, directory: str, keys: set[Key]) -> pa.Table:
    """Of these lives, as an earlier batch left them."""
    found = []
    writers = sorted({key.writer for key in keys})
    for path in parquet_in(place, f"open/{directory}"):
        for rows in row_groups(path, STAYS_IN_ARROW, lambda group: may_have(group, "seen_by", writers)):
            found += [rows.slice(start, stop - start) for start, stop, key in stretches(rows) if key in keys]
    return pa.concat_tables([STAYS_IN_ARROW.empty_table(), *found])
