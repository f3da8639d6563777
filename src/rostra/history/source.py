"""`spark.read.format("rostra")`: journals as a table, each row once; segments that a query does not need are
skipped.

    register(spark)
    spark.read.format("rostra").load("/var/lib/rostra/journal")
    spark.read.format("rostra").option("asOf", "2026-11-15T12:00").option("seenFrom", "eu").load(...)
    spark.readStream.format("rostra").option("group", "chess@eu").load(...)

| option | |
|---|---|
| `asOf` | rows no later than this time (ISO, UTC unless it says otherwise) |
| `seenFrom` | rows that writers inside this domain wrote |
| `group` | rows about this group, `name@scope` |
| `ignoreCorruptFiles` | `true` leaves out segments that cannot be read; else they are an error |
| `maxFilesPerTrigger` | a stream reads at most so many segments in a batch |
| `maxRowsPerTrigger` | or at most so many rows, before `group` and the like are applied |
| `failOnDataLoss` | `false` lets a stream go on where rows were deleted before it read them; else it fails |

Skipped are segments, by the writer and day in their names and by the statistics in their footers, and row
groups within a segment. Conditions of a query on `group`, `domain`, `at`, `writer`, `kind` and `world` are
used for skipping in the same way, and checked again by Spark.

The offset of a stream is a number for each writer and epoch: all rows up to it have been read. So a restarted
stream continues with the next row, and rows that come twice are read once. Days that it has read may be
deleted. Rows behind a missing segment wait for it without a limit; `rostra history ingest` gives it up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import zip_longest
from operator import and_, eq, ge, gt, le, lt
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rostra.errors import BadInput
from rostra.history.arrow import arrow_type, in_arrow, row_groups
from rostra.history.arrow_fast_path import FILE_WEIGHT
from rostra.history.files import LocalDirectory, damaged, open_file, parquet_in
from rostra.history.journals import THREADS, Survey, chosen, segments, survey
from rostra.history.look import KNOWN
from rostra.history.runs import Epoch, IngestPlan, Key, Piece, RowRun, plan
from rostra.history.schemas import NEW_NAMES, renamed
from rostra.history.session import check_workers, fit
from rostra.history.spelling import closest
from rostra.journal.segments import ARROW
from rostra.names import ROOT, Domain, inside, parse_domain, parse_group

FORMAT: Final = "rostra"

FORMER: Final = {new: old for old, new in NEW_NAMES.items()}
"""As columns are called in files."""

ROWS_PER_TASK: Final = 1_000_000
BATCH_ROWS: Final = 65_536
OPTIONS: Final = (
    *("path", "asOf", "seenFrom", "group", "ignoreCorruptFiles", "failOnDataLoss"),
    *("maxFilesPerTrigger", "maxRowsPerTrigger"),
)

SKIPPED_BY: Final = frozenset({"world", "writer", "kind", "group", "domain", "at", "epoch", "member"})


def register(spark: SparkSession) -> None:
    """Add the format to any Spark session; an error of one line says what is missing."""
    fit(spark)
    check_workers(spark)
    spark.dataSource.register(RostraSource)


COMPARES: Final[dict[type[Filter], str]] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
}
OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {"==": eq, ">": gt, ">=": ge, "<": lt, "<=": le}


class Condition(NamedTuple):
    """Of a column, as data: it travels to workers, is held against statistics, and picks rows."""

    column: str
    how: str  # == | < | <= | > | >= | in | inside
    value: Any

    @classmethod
    def of(cls, given: Filter) -> "Condition | None":
        """A condition of the query, if it can be used for skipping."""
        how = COMPARES.get(type(given))
        told: Any = given
        if how is None or len(told.attribute) != 1 or told.attribute[0] not in SKIPPED_BY:
            return None
        value = list(told.value) if how == "in" else told.value
        if isinstance(value, datetime):  # in this machine's zone, which Spark does not say
            value = value.astimezone(UTC)
        return cls(told.attribute[0], how, value)

    def may_hold(self, least: Any, most: Any) -> bool:
        """For some value between these two?"""
        if self.how in ("==", "in"):
            values = self.value if self.how == "in" else [self.value]
            return any(least <= value <= most for value in values if value is not None)
        if self.how in OPERATORS:
            return bool(OPERATORS[self.how](least if "<" in self.how else most, self.value))
        # All paths inside a domain lie between it and the first text that no longer begins with it and a dot.
        return bool(least < f"{self.value}/" and self.value <= most)

    def picks(self) -> pc.Expression:
        field = pc.field(self.column)
        value = (
            pa.scalar(self.value, ARROW["time"]) if self.column == "at" and self.how != "in" else self.value
        )
        if self.how == "in":
            return field.isin(value)
        if self.how in OPERATORS:
            return OPERATORS[self.how](field, value)
        return (field == value) | pc.starts_with(field, f"{value}.")


class Wanted(msgspec.Struct, frozen=True):
    """What the options of a read say."""

    as_of: datetime | None = None
    seen_from: str | None = None
    group: str | None = None
    skips: bool = False  # files that cannot be read
    fails_on_loss: bool = True
    max_files: int | None = None  # in a batch of a stream
    max_rows: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Wanted":
        """An option that is none of ours is a mistake, and would be one without an effect."""
        known = {name.lower(): name for name in OPTIONS}
        for name in options:
            if name.lower() not in known:
                raise BadInput(f"the format rostra has no option {name!r}", fix=closest(name, OPTIONS))
        given = {known[name.lower()]: value for name, value in options.items()}
        max_files, max_rows = (
            at_least_one(name, given) for name in ("maxFilesPerTrigger", "maxRowsPerTrigger")
        )
        if max_files is not None and max_rows is not None:
            raise BadInput("maxFilesPerTrigger or maxRowsPerTrigger, not both", fix="leave out one of them")
        as_of, seen_from, group = (given.get(name) for name in ("asOf", "seenFrom", "group"))
        return cls(
            None if as_of is None else time_of(as_of),
            None if seen_from is None else str(parse_domain(seen_from)),
            None if group is None else str(parse_group(group)),
            is_true("ignoreCorruptFiles", given),
            is_true("failOnDataLoss", given, "true"),
            max_files,
            max_rows,
        )

    def survey(self, journal: str) -> Survey:
        """The segments that may hold something that is wanted. One that cannot be read is an error, unless
        such are to be left out."""
        found = survey([path for path in segments(journal) if self.has_segment(path)])
        if found.unusable and not self.skips:
            first, *others = found.unusable
            more = f" (and {len(others)} more)" if others else ""
            raise BadInput(
                f"cannot read {first.path}{more}: {first.why}",
                fix='put good copies there, or leave them out:  .option("ignoreCorruptFiles", "true")',
            )
        return found

    def has_segment(self, path: str) -> bool:
        """Can anything in a file of this name be wanted?"""
        name = PurePosixPath(path)
        writer = name.stem.rsplit("-", 3)[0]
        is_named = name.stem.count("-") >= 3
        if self.seen_from is not None and is_named and not inside(Domain(self.seen_from), writer):
            return False
        day = day_of(path)
        if self.as_of is not None and day:
            # A day to spare: clocks are set back now and then, and the rows decide.
            return day <= (self.as_of + timedelta(days=1)).strftime("%Y-%m-%d")
        return True

    def conditions(self) -> Iterator[Condition]:
        if self.as_of is not None:
            yield Condition("at", "<=", self.as_of)
        if self.group is not None:
            yield Condition("group", "==", self.group)
        if self.seen_from not in (None, ROOT):
            yield Condition("writer", "inside", self.seen_from)


def day_of(path: str) -> str:
    """The day of a segment's first row, if its folder says so."""
    folder = PurePosixPath(path).parent.name
    return folder.removeprefix("date=") if folder.startswith("date=") else ""


def is_true(name: str, options: Mapping[str, str], otherwise: str = "false") -> bool:
    value = options.get(name, otherwise)
    if value.lower() not in ("true", "false"):
        raise BadInput(f"{name} is true or false, and not {value!r}", fix="leave it out for the default")
    return value.lower() == "true"


def at_least_one(name: str, options: Mapping[str, str]) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise BadInput(f"{name} is a number from 1 on, and not {value!r}", fix="leave it out for no limit")
    return int(value)


def time_of(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is no time", fix="write it as 2026-11-15T12:00:00, in UTC") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


class FileSlice(msgspec.Struct, frozen=True):
    """Rows `first` to `last` of a file."""

    path: str
    first: int
    last: int


class TaskInput(InputPartition):
    """What one task reads."""

    def __init__(self, parts: Sequence[FileSlice]) -> None:
        super().__init__(None)
        self.parts = list(parts)


class Files(InputPartition):
    """What one task reads as a whole."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(None)
        self.paths = list(paths)


class RostraSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        journal, wanted = self._asked()
        return renamed(wanted.survey(journal).schema)

    def reader(self, schema: StructType) -> "JournalReader":
        return JournalReader(*self._asked(), schema)

    def streamReader(self, schema: StructType) -> "JournalStream":
        return JournalStream(*self._asked(), schema)

    def _asked(self) -> tuple[str, Wanted]:
        path = self.options.get("path")
        if path is None:
            raise BadInput("no journal was named", fix='spark.read.format("rostra").load("DIR")')
        return path, Wanted.of(self.options)


class JournalReader(DataSourceReader):
    def __init__(self, journal: str, wanted: Wanted, schema: StructType) -> None:
        self.journal, self.wanted, self.schema = journal, wanted, schema
        self.pushed: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Used for skipping only: Spark checks what is left once more, which costs next to nothing."""
        for each in filters:
            if (told := Condition.of(each)) is not None:
                self.pushed.append(told)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        made = tasks(chosen(self.wanted.survey(self.journal).good), self.conditions())
        if self.wanted.group is not None:
            first = [part.path for task in made if isinstance(task, TaskInput) for part in task.parts]
            require_group(self.wanted.group, [*first, *segments(self.journal)])
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskInput)
        return rows_of(partition.parts, self.conditions(), self.schema, skips=self.wanted.skips)

    def conditions(self) -> list[Condition]:
        return [*self.wanted.conditions(), *self.pushed]


class ArrowSource(DataSource):
    """Parquet files in an object store, which Spark itself cannot open."""

    @classmethod
    def name(cls) -> str:
        return f"{FORMAT}-files"

    def reader(self, schema: StructType) -> "ArrowReader":
        return ArrowReader(msgspec.json.decode(self.options["paths"], type=list[str]), schema)


class ArrowReader(DataSourceReader):
    def __init__(self, paths: list[str], schema: StructType) -> None:
        self.paths, self.schema = paths, schema
        self.pushed: list[Condition] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Used for skipping only, as those of a journal are."""
        for each in filters:
            if (told := Condition.of(each)) is not None and told.column in self.schema.names:
                self.pushed.append(told)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        files = [file for path in self.paths for file in _files_at(path)]
        with ThreadPoolExecutor(THREADS) as pool:
            rows = pool.map(lambda path: rows_wanted(path, self.pushed), files)
        made: list[Files] = []
        weight = ROWS_PER_TASK
        for path, many in zip(files, rows, strict=True):
            if many is None:
                continue
            if weight >= ROWS_PER_TASK:
                made.append(Files([]))
                weight = 0
            made[-1].paths.append(path)
            weight += many + FILE_WEIGHT
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        group = SegmentRows(self.pushed, self.schema)
        for path in partition.paths:
            try:
                for rows in row_groups(path, in_arrow(self.schema), self._wants):
                    if not group.has_room(rows):
                        yield from group.handed_over()
                    group.add(rows)
            except (pa.ArrowException, OSError) as error:
                raise damaged(path, error) from None
        yield from group.handed_over()

    def _wants(self, group: Any) -> bool:
        place = {group.column(nth).path_in_schema: nth for nth in range(group.num_columns)}
        return all(_may_hold(group, place, each) for each in self.pushed)


def read_by_arrow(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    """Files and directories of Parquet, read by tasks of ours. All columns are read, whichever are used."""
    fit(spark)
    spark.dataSource.register(ArrowSource)
    named = msgspec.json.encode(list(paths)).decode()
    return spark.read.format(ArrowSource.name()).schema(schema).option("paths", named).load()


def _files_at(path: str) -> list[str]:
    return [path] if path.endswith(".parquet") else parquet_in(LocalDirectory(path), "")


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are ``{"world writer epoch": last row}``."""

    def __init__(self, journal: str, wanted: Wanted, schema: StructType) -> None:
        self.journal, self.wanted, self.schema = journal, wanted, schema
        self.among: frozenset[str] | None = None  # these segments, and none that came later

    def prepareForTriggerAvailableNow(self) -> None:
        self.among = frozenset(segments(self.journal))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.wanted.max_files is not None:
            return ReadMaxFiles(self.wanted.max_files)
        return ReadAllAvailable() if self.wanted.max_rows is None else ReadMaxRows(self.wanted.max_rows)

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        taken = limited(self._after(start).accepted, limit)
        return {**start, **{offset_of(piece.run.key): piece.last for piece in taken}}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        made = self._after(start)
        pieces = []
        for piece in made.accepted:
            last = min(piece.last, end.get(offset_of(piece.run.key), 0))
            if piece.first <= last:
                pieces.append(Piece(piece.run, piece.first, last))
        for key, last in ((key_of(offset), last) for offset, last in end.items()):
            there = made.epochs[key].frontier if key in made.epochs else 0
            if there < last:
                self._lose(key, there + 1, last)
        return tasks(pieces, list(self.wanted.conditions()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskInput)
        wanted = list(self.wanted.conditions())
        return rows_of(partition.parts, wanted, self.schema, skips=self.wanted.skips)

    def _after(self, start: dict[str, int]) -> IngestPlan:
        """What can be read from there on: every row that follows on one that was read, or that is the first
        of its epoch; where old days were deleted, the first that is there."""
        good = self.wanted.survey(self.journal).good
        runs = [run for each in good if self.among is None or each.path in self.among for run in each.runs]
        read = {key_of(offset): Epoch("", last, 0, 0) for offset, last in start.items()}
        there: dict[Key, RowRun] = {}
        for run in runs:
            there[run.key] = min(run, there.get(run.key, run), key=lambda each: each.first)
        days = [day for path in segments(self.journal) if (day := day_of(path))]
        for key, run in there.items():
            known = read.get(key)
            if known is not None and known.frontier + 1 < run.first:
                # The segments that were read are not there any more, and neither are those that follow.
                self._lose(key, known.frontier + 1, run.first - 1)
            elif known is not None or not (days and day_began(key) < min(days)):
                continue
            read[key] = Epoch("", run.first - 1, 0, 0)
        return plan(read, runs, hole_after_us=10**18, more_waits=True)

    def _lose(self, key: Key, first: int, last: int) -> None:
        if self.wanted.fails_on_loss:
            raise BadInput(
                f"rows {first} to {last} of {key.writer} #{key.epoch} were deleted before they were read",
                fix='put their segments back, or go on without them:  .option("failOnDataLoss", "false")',
            )


def limited(pieces: Iterable[Piece], limit: Any) -> list[Piece]:
    """As many as a batch may have: of every life its first, then of every life its second, so that no writer
    waits for all that another wrote."""
    by_key: dict[Key, list[Piece]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first):
        by_key.setdefault(piece.run.key, []).append(piece)
    in_turn = [
        piece
        for some in zip_longest(*(by_key[key] for key in sorted(by_key)))
        for piece in some
        if piece is not None
    ]
    match limit:
        case ReadMaxFiles(most):
            return in_turn[:most]
        case ReadMaxRows(most):
            taken = []
            for piece in in_turn:
                if most > 0:
                    taken.append(msgspec.structs.replace(piece, last=min(piece.last, piece.first + most - 1)))
                most -= piece.last - piece.first + 1
            return taken
    return in_turn


def require_group(group: str, paths: Iterable[str]) -> None:
    """Raise if these segments name groups, but not this one: it was misspelt. Not for streams, which may wait
    for the first member of a group."""
    known: set[str] = set()
    for path in dict.fromkeys(paths):
        with suppress(pa.ArrowException, OSError), open_file(path) as opened:
            file = pq.ParquetFile(opened, read_dictionary=["group"], page_checksum_verification=True)
            known.update(pc.unique(file.read(columns=["group"], use_threads=False)["group"]).to_pylist())
        if group in known:
            return
    known.discard(None)
    if known:
        raise BadInput(f"no group {group!r} is in this journal", fix=closest(group, known, alike=0.4))


def offset_of(key: Key) -> str:
    return f"{key.world} {key.writer} {key.epoch}"


def key_of(offset: str) -> Key:
    world, writer, epoch = offset.rsplit(" ", 2)
    return Key(world, writer, int(epoch))


def day_began(key: Key) -> str:
    """Epochs are the milliseconds at which they began."""
    return datetime.fromtimestamp(key.epoch / 1000, UTC).strftime("%Y-%m-%d")


# Skipping


def tasks(pieces: Iterable[Piece], wanted: Sequence[Condition]) -> list[InputPartition]:
    """Files that may hold something, several small ones to a task."""
    made: list[InputPartition] = []
    together: list[FileSlice] = []
    rows = 0
    for piece in sorted(pieces, key=lambda piece: (piece.run.source, piece.first)):
        if wanted and not may_have(piece.run.source, wanted):
            continue
        together.append(FileSlice(piece.run.source, piece.first, piece.last))
        rows += piece.last - piece.first + 1 + FILE_WEIGHT
        if rows >= ROWS_PER_TASK:
            made.append(TaskInput(together))
            together, rows = [], 0
    if together:
        made.append(TaskInput(together))
    return made


def may_have(path: str, wanted: Sequence[Condition]) -> bool:
    return rows_wanted(path, wanted) is not None


def rows_wanted(path: str, wanted: Sequence[Condition]) -> int | None:
    """How many rows it has; None if, by the statistics in its footer, no group of rows has what is wanted.

    Our own reading of them, because Arrow keeps whatever has an empty cell in a column that is asked about.
    """
    with open_file(path) as opened:
        footer = pq.read_metadata(opened)
    place = {footer.schema.column(nth).path: nth for nth in range(footer.num_columns)}
    has_some = any(
        all(_may_hold(footer.row_group(group), place, each) for each in wanted)
        for group in range(footer.num_row_groups)
    )
    return int(footer.num_rows) if has_some else None


def _may_hold(group: Any, place: Mapping[str, int], wanted: Condition) -> bool:
    if wanted.column not in place:
        return False  # an older writer: empty everywhere, and every condition is on a value
    told = group.column(place[wanted.column]).statistics
    if told is None:
        return True
    if not told.has_min_max:
        return not (told.has_null_count and told.null_count == group.num_rows)
    return wanted.may_hold(told.min, told.max)


def rows_of(
    parts: Sequence[FileSlice], wanted: Sequence[Condition], schema: StructType, *, skips: bool
) -> Iterator[pa.RecordBatch]:
    """Segments may be small: they are picked from and handed over in groups. What is left out is left out
    whole, so a segment joins its group when all of it has been read."""
    group = SegmentRows(wanted, schema)
    for part in parts:
        try:
            rows = segment_rows(part, wanted, group.columns)
        except (pa.ArrowException, OSError) as error:
            if not skips:
                raise damaged(part.path, error) from None
            continue
        if not group.has_room(rows):
            yield from group.handed_over()
        group.add(rows)
    yield from group.handed_over()


class SegmentRows:
    """Rows of several segments, on their way to Spark."""

    def __init__(self, wanted: Sequence[Condition], schema: StructType) -> None:
        self._names = schema.names
        fields = [
            pa.field(field.name, arrow_type(field.dataType), nullable=field.nullable) for field in schema
        ]
        # Conditions may be on columns that are not in the answer.
        asked = {each.column for each in wanted} - set(schema.names)
        fields += [pa.field(name, ARROW[KNOWN[name].type]) for name in sorted(asked)]
        self._schema = pa.schema(fields)
        self._picked = reduce(and_, (each.picks() for each in wanted)) if wanted else None
        self._tables: list[pa.Table] = []
        self._rows = 0

    @property
    def columns(self) -> list[str]:
        return [FORMER.get(name, name) for name in self._schema.names]

    def has_room(self, rows: pa.Table) -> bool:
        """Only what has the same columns is put together, and only so much."""
        return not self._tables or (
            self._rows + rows.num_rows <= BATCH_ROWS and self._tables[0].schema.equals(rows.schema)
        )

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._tables.append(rows)
            self._rows += rows.num_rows

    def handed_over(self) -> Iterator[pa.RecordBatch]:
        if not self._tables:
            return
        rows = pa.concat_tables(self._tables).combine_chunks()
        self._tables, self._rows = [], 0
        columns = [
            rows[name].cast(field.type) if name in rows.column_names else pa.nulls(rows.num_rows, field.type)
            for name, field in zip(self.columns, self._schema, strict=True)
        ]
        shaped = pa.table(columns, schema=self._schema)
        if self._picked is not None:
            shaped = shaped.filter(self._picked)
        yield from shaped.select(self._names).to_batches(max_chunksize=BATCH_ROWS)


def segment_rows(part: FileSlice, wanted: Sequence[Condition], columns: Sequence[str]) -> pa.Table:
    """These columns of it, as far as it has them, without groups of rows in which nothing can be wanted."""
    with open_file(part.path) as opened:
        file = pq.ParquetFile(opened, page_checksum_verification=True)
        footer = file.metadata
        place = {footer.schema.column(nth).path: nth for nth in range(footer.num_columns)}
        groups = [
            group
            for group in range(footer.num_row_groups)
            if all(_may_hold(footer.row_group(group), place, each) for each in wanted)
        ]
        there = set(file.schema_arrow.names)
        asked = [name for name in dict.fromkeys((*columns, "seq")) if name in there]
        rows = file.read_row_groups(groups, columns=asked, use_threads=False).replace_schema_metadata()
    numbers = rows["seq"].to_numpy()
    is_taken = (numbers >= part.first) & (numbers <= part.last)
    return rows if is_taken.all() else rows.filter(pa.array(is_taken))
