"""Questions answered straight from the files: Spark's tasks read the rows in Arrow, and nothing is shuffled.

    events (a DataFrame) ── is it a journal or a table, untouched? ── no ──▶ a plan of Spark, over anything
                                        │ yes
                                        ▼
      segment runs ──▶ partitions ──▶ task: read some columns of each run, in order ──▶ rows of the answer

Half of the cost of a Spark window over events is the conversion of columns to rows and of names to longer
names, and most of the rest is sorting rows that were already in order. A journal's segment holds one life of
one writer in order of `seq`. A task that reads all segments of a life in turn only has to sort by story (one
member in one group), and words stay dictionary-encoded.

The files of a DataFrame are remembered for that object only. A DataFrame derived from it, even by a single
filter, is another object whose files are not known, so the fast path is never used for the wrong rows. Tests
compare the answers of both ways.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rostra.history.arrow import between, may_have, row_groups, spelled_out, table_in_arrow
from rostra.history.files import damaged, open_files, unreadable
from rostra.history.look import Seen
from rostra.history.runs import Piece

Bools = NDArray[np.bool_]
Made = TypeVar("Made")

THREADS: Final = os.cpu_count() or 1
TASKS: Final = 16
TASK_WEIGHT: Final = 100_000
"""Rows, or so, that are worth a task of their own: to start one takes as long as some ten thousand."""

FILE_WEIGHT: Final = 2_000
"""To open a file takes as long as so many rows of it."""

HERE_ROWS: Final = 3_000_000
"""Up to so many rows are read by the process that asks, where the answer is little: to start Spark's Python,
and to hand each row to Java, takes longer."""


class Source(Struct, frozen=True):
    """A file, or those rows of it whose numbers are `among` these two and between them, or that these
    `writers` wrote."""

    path: str
    rows: int
    among: tuple[int, int] | None = None
    writers: tuple[str, ...] | None = None


class SegmentRun(Struct, frozen=True):
    """Files that one task reads one after the other."""

    sources: tuple[Source, ...]

    @property
    def weight(self) -> int:
        return sum(source.rows + FILE_WEIGHT for source in self.sources)


class EventSource(Struct, frozen=True):
    """What a DataFrame of events is made of."""

    segment_runs: tuple[SegmentRun, ...]
    by_life: bool  # each run has all lives of some writers: each row once, those of a life in order

    @property
    def rows(self) -> int:
        return sum(source.rows for segment_run in self.segment_runs for source in segment_run.sources)


class SegmentTask(Protocol):
    """What a task does with a run of segments. Sent to tasks, so it is made of plain data."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]: ...


_origins: "weakref.WeakKeyDictionary[DataFrame, EventSource]" = weakref.WeakKeyDictionary()


def note(events: DataFrame, origin: EventSource) -> DataFrame:
    """Remember what this very DataFrame is made of."""
    _origins[events] = origin
    return events


def origin_of(events: DataFrame, *, by_life: bool = False) -> EventSource | None:
    """The files that these events are, if they are nothing else; with `by_life`, only if lives are whole."""
    origin = _origins.get(events)
    return None if origin is None or (by_life and not origin.by_life) else origin


def lives_in(pieces: Iterable[Piece], good: Iterable[Seen]) -> EventSource:
    """Of a journal: each writer with the segments of its lives, in order. `good` are the files that the
    pieces are from."""
    alone = {each.path for each in good if len(each.runs) == 1}
    by_writer: dict[tuple[str, str], list[Piece]] = {}
    for piece in pieces:
        by_writer.setdefault(piece.run.key[:2], []).append(piece)
    segment_runs = (
        sorted(by_writer[writer], key=lambda piece: (piece.run.key.epoch, piece.first))
        for writer in sorted(by_writer)
    )
    return EventSource(
        tuple(
            SegmentRun(tuple(_source(piece, alone) for piece in segment_run)) for segment_run in segment_runs
        ),
        by_life=True,
    )


def files_in(paths: Iterable[str]) -> EventSource:
    """Of a table: its files, each a run of its own."""
    return EventSource(tuple(SegmentRun((Source(path, _rows_in(path)),)) for path in paths), by_life=False)


class _Writer(NamedTuple):
    name: str
    weight: int


def whole_lives(files: EventSource, parts: Iterable[tuple[str, str, int]], tasks: int = TASKS) -> EventSource:
    """Of a table whose files have the rows of each life in order, from the first file to the last: runs of
    whole lives. `parts` says how many rows of which writer are in which file. Files that share writers are
    read together, each task for some of the writers."""
    rows: dict[str, dict[str, int]] = {}  # of each file, by writer
    for path, writer, many in parts:
        there = rows.setdefault(path, {})
        there[writer] = there.get(writer, 0) + many
    paths = [source.path for run in files.segment_runs for source in run.sources]
    place = {path: nth for nth, path in enumerate(paths)}
    together: list[tuple[set[str], list[str]]] = []  # writers, and the files that they share
    for path in paths:
        writers, sharing = set(rows.get(path, ())), [path]
        apart = []
        for others, theirs in together:
            if writers.isdisjoint(others):
                apart.append((others, theirs))
            else:
                writers, sharing = writers | others, theirs + sharing
        together = [*apart, (writers, sharing)]
    runs = []
    for writers, sharing in together:
        if len(sharing) == 1:
            [path] = sharing
            runs.append(SegmentRun((Source(path, sum(rows.get(path, {}).values())),)))
            continue
        sharing.sort(key=place.__getitem__)
        weights = {name: sum(rows[path].get(name, 0) for path in sharing) for name in writers}
        each = sorted((_Writer(*weight) for weight in weights.items()), key=lambda each: -each.weight)
        for part in evenly(each, min(tasks, len(each), 1 + sum(weights.values()) // TASK_WEIGHT)):
            names = tuple(sorted(writer.name for writer in part))
            sources = (
                Source(path, many, writers=names)
                for path in sharing
                if (many := sum(rows[path].get(name, 0) for name in names))
            )
            runs.append(SegmentRun(tuple(sources)))
    return EventSource(tuple(runs), by_life=True)


def answered(
    events: DataFrame, origin: EventSource, work: SegmentTask, schema: StructType | str
) -> DataFrame:
    """The rows that `work` makes of each run, as a DataFrame; tasks of about the same weight."""
    partitions = _partitions(origin.segment_runs)
    task = _Task(work, partitions)
    if not partitions:
        return events.sparkSession.createDataFrame([], schema)
    return events.sparkSession.range(0, len(partitions), 1, len(partitions)).mapInArrow(task, schema)


def collected(
    events: DataFrame, origin: EventSource, work: SegmentTask, schema: StructType | str
) -> pa.Table:
    """The same here, as one table."""
    made: list[pa.Table] = []
    if origin.rows <= HERE_ROWS:
        made = [spelled_out(table) for tables in here(origin, lambda run: [*work(run)]) for table in tables]
    return pa.concat_tables(made) if made else answered(events, origin, work, schema).toArrow()


def here(origin: EventSource, work: Callable[[SegmentRun], Made]) -> list[Made]:
    """What a function makes of each run, in this process, by as many threads as there are cores: nearly all
    of the time they are in Arrow and numpy, which let each other run."""
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(work, origin.segment_runs))
    except OSError as error:
        raise unreadable(f"OSError: {error}") or error from None


def read(segment_run: SegmentRun, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """These columns of a run, bit by bit and in order. Words are not spelled out."""
    for source in segment_run.sources:
        chosen_by = ("seq",) * (source.among is not None) + ("writer",) * (source.writers is not None)
        for whole in _row_groups(source, tuple(dict.fromkeys((*columns, *chosen_by)))):
            rows = whole if source.among is None else between(whole, *source.among)
            if source.writers is not None:
                rows = rows.filter(pa.array(is_one_of(rows["writer"], *source.writers)))
            if rows.num_rows:
                yield rows.select(columns)


def _row_groups(source: Source, wanted: tuple[str, ...]) -> Iterator[pa.Table]:
    def is_wanted(group: Any) -> bool:
        return source.writers is None or may_have(group, "writer", source.writers)

    try:
        yield from row_groups(source.path, _schema(wanted), is_wanted)
    except (pa.ArrowException, OSError) as error:
        raise damaged(source.path, error) from None


def coded(words: pa.ChunkedArray, wanted: tuple[str, ...]) -> NDArray[np.int8]:
    """Each word's place among the wanted ones, from 1; what is not wanted, and nothing, is 0."""
    code = {word: place for place, word in enumerate(wanted, 1)}
    found = [
        _looked_up(chunk, [code.get(word, 0) for word in chunk.dictionary.to_pylist()], np.int8)
        for chunk in words.chunks
    ]
    return np.concatenate(found) if len(found) != 1 else found[0]


def is_one_of(words: pa.ChunkedArray, *wanted: str) -> Bools:
    """Which of these words are wanted; nothing is not. Each word is looked at once, and not each row."""
    asked = frozenset(wanted)
    found = [
        _looked_up(chunk, [word in asked for word in chunk.dictionary.to_pylist()], np.bool_)
        for chunk in words.chunks
    ]
    return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.bool_), *found])


def is_there(values: pa.ChunkedArray) -> Bools:
    return np.asarray(pc.is_valid(values))


def is_true(values: pa.ChunkedArray) -> Bools:
    """Which of these are true; nothing is not."""
    return np.asarray(pc.fill_null(values, False))


def _looked_up(words: pa.DictionaryArray, known: list[Any], dtype: type[Any]) -> NDArray[Any]:
    """What is known of each word of the dictionary, for each row; of nothing, nothing."""
    places = words.indices.fill_null(len(known)) if words.null_count else words.indices
    found: NDArray[Any] = np.array([*known, 0], dtype=dtype)[places.to_numpy()]
    return found


class _Task:
    """For `mapInArrow` over the numbers of partitions."""

    def __init__(self, work: SegmentTask, partitions: list[list[SegmentRun]]) -> None:
        self.work, self.partitions = work, partitions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for segment_run in self.partitions[number]:
                    for table in self.work(segment_run):
                        yield from spelled_out(table).to_batches()


def _partitions(segment_runs: tuple[SegmentRun, ...]) -> list[list[SegmentRun]]:
    worth = 1 + sum(segment_run.weight for segment_run in segment_runs) // TASK_WEIGHT
    heaviest_first = sorted(segment_runs, key=lambda each: -each.weight)
    return evenly(heaviest_first, min(TASKS, len(segment_runs), worth))


class Weighed(Protocol):
    @property
    def weight(self) -> int: ...


Heavy = TypeVar("Heavy", bound=Weighed)


def evenly(heaviest_first: Iterable[Heavy], many: int) -> list[list[Heavy]]:
    """So many parts, none much heavier than the others."""
    parts: list[list[Heavy]] = [[] for _ in range(many)]
    weights = [0] * many
    for each in heaviest_first:
        lightest = weights.index(min(weights))
        parts[lightest].append(each)
        weights[lightest] += each.weight
    return parts


@cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    whole = table_in_arrow("events", {})
    return pa.schema([whole.field(name) for name in columns])


def _source(piece: Piece, alone: set[str]) -> Source:
    path, rows = piece.run.source, piece.last - piece.first + 1
    is_all = piece.whole and path in alone
    return Source(path, rows) if is_all else Source(path, rows, (piece.first, piece.last))


def _rows_in(path: str) -> int:
    files, inside = open_files(path)
    return int(pq.read_metadata(inside, filesystem=files).num_rows)
