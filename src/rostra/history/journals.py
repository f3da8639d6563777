"""Rows of segments, each once: which files a journal has, and which part of each is read.

A segment may have been sent twice, and be cut differently the second time. `runs` decides by row numbers
which rows of which file to read; this module makes a DataFrame of them. Files that are read completely,
nearly always all of them, are read as they are; of the others rows are picked one by one.
"""

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rostra.errors import BadInput
from rostra.history.arrow_fast_path import lives_in, note
from rostra.history.files import LocalDirectory, is_object, is_seen, open_file
from rostra.history.look import KNOWN, OTHER_ROWS, Seen, extra_columns, look
from rostra.history.runs import Key, Piece, RowRun, plan
from rostra.history.schemas import widened, with_new_names
from rostra.journal.schema import KEY, NAMES
from rostra.journal.segments import ARROW

THREADS: Final = 8

RANGES: Final = "in_world STRING, in_writer STRING, in_epoch LONG, in_first LONG, in_last LONG"


def read_journal(
    spark: SparkSession, journal: str, *, aside: Callable[[Seen], None] = lambda seen: None
) -> DataFrame:
    """All rows of a journal (`EVENTS`), each once, holes and all. Files that cannot be used go to `aside`."""
    seen = survey(segments(journal))
    for each in seen.unusable:
        aside(each)
    pieces = chosen(seen.good)
    rows = with_new_names(read_pieces(spark, pieces, seen.good, seen.schema), seen.schema)
    return note(rows, lives_in(pieces, seen.good))


class Survey(NamedTuple):
    """The files of a journal, after a glance."""

    good: list[Seen]
    unusable: list[Seen]

    @property
    def schema(self) -> StructType:
        """Their columns, also those that newer writers added."""
        return widened({name: type_ for each in self.good for name, type_ in each.extra.items()})


def survey(paths: Sequence[str]) -> Survey:
    with ThreadPoolExecutor(THREADS) as pool:
        seen = list(pool.map(glance, paths))
    others = contradicting(run for each in seen for run in each.runs)
    for each in seen:
        each.why = each.why or others.get(each.path, "")
    return Survey([each for each in seen if not each.why], [each for each in seen if each.why])


def contradicting(arrived: Iterable[RowRun]) -> dict[str, str]:
    """Files with other rows than an earlier one has under the same numbers, and why they cannot be used. What
    comes twice is the same row; if it is not, two worlds have one name."""
    by_key: dict[Key, list[RowRun]] = {}
    for run in arrived:
        by_key.setdefault(run.key, []).append(run)
    found: dict[str, str] = {}
    for runs in by_key.values():
        farthest: RowRun | None = None
        for run in sorted(runs, key=lambda run: (run.first, -run.last, run.source)):
            if farthest is not None and run.first <= farthest.last and run.source != farthest.source:
                first, last = run.first, min(run.last, farthest.last)
                if differ(rows_between(farthest.source, first, last), rows_between(run.source, first, last)):
                    found[run.source] = other_rows(run.key, farthest.source)
                    continue
            if farthest is None or run.last > farthest.last:
                farthest = run
    return found


def other_rows(key: Key, where: str) -> str:
    return (
        f"{OTHER_ROWS} of {key.writer} #{key.epoch} than {where}: "
        f"are there two worlds that are called {key.world!r}?"
    )


def rows_between(path: str, first: int, last: int) -> pa.Table | None:
    """None if they cannot be read: a query that needs them fails with the reason."""
    try:
        with open_file(path) as opened:
            rows = pq.ParquetFile(opened, page_checksum_verification=True).read()
    except (pa.ArrowException, OSError):
        return None
    return rows.filter(is_within(first, last))


def differ(ours: pa.Table | None, theirs: pa.Table | None) -> bool:
    """Is a row with a number that both have another one, in a column that both know?"""
    if ours is None or theirs is None:
        return False
    names = [name for name in NAMES if name in ours.column_names and name in theirs.column_names]
    one, other = (
        rows.filter(pc.is_in(rows["seq"], pc.unique(of["seq"]))).select(names).sort_by("seq")
        for rows, of in ((ours, theirs), (theirs, ours))
    )
    types = {name: ARROW[KNOWN[name].type] for name in names}
    return any(not one[name].cast(type_).equals(other[name].cast(type_)) for name, type_ in types.items())


def is_within(first: int, last: int) -> pc.Expression:
    return (pc.field("seq") >= first) & (pc.field("seq") <= last)


def chosen(good: Iterable[Seen]) -> list[Piece]:
    """Every number once; holes are ignored."""
    made = plan({}, (run for each in good for run in each.runs), hole_after_us=-(10**18))
    return [*made.accepted, *made.late]


def segments(journal: str | Path) -> list[str]:
    """Every segment of a journal, or of all journals that a pattern matches, as Spark calls them."""
    found = []
    where = str(journal).removeprefix("file://")
    for each in sorted(glob.glob(where)) if "*" in where and "://" not in where else [where]:
        place = LocalDirectory(each)
        if not place.exists():
            raise BadInput(f"there is no journal at {place}", fix="name the directory that nodes write to")
        for info in place.list(recursive=True):
            inside = os.path.relpath(info.path, place.path)
            is_whole = inside.endswith(".parquet") and all(is_seen(part) for part in inside.split("/"))
            if info.type == pafs.FileType.File and info.size and is_whole:
                found.append(place.uri(inside))
    return sorted(found)


def glance(path: str) -> Seen:
    """By its footer alone, if that says everything; else a look."""
    try:
        with open_file(path) as opened:
            footer = pq.read_metadata(opened)
        said = footer.metadata or {}
        first, last = int(said[b"rostra.first"]), int(said[b"rostra.last"])
        key = Key(said[b"rostra.world"].decode(), said[b"rostra.writer"].decode(), int(said[b"rostra.epoch"]))
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return look(path)
    if footer.num_rows != last - first + 1:
        return look(path)
    role = said.get(b"rostra.role", b"").decode()
    try:
        extra = extra_columns(footer.schema.to_arrow_schema().remove_metadata())
    except ValueError:
        return look(path)
    run = RowRun(key, first, last, footer.num_rows, 0, 0, role, closing=False, source=path)
    return Seen(path, rows=footer.num_rows, runs=[run], extra=extra)


def read_pieces(
    spark: SparkSession, pieces: Iterable[Piece], good: Iterable[Seen], schema: StructType
) -> DataFrame:
    """Their rows. `good` are the files they may be from."""
    taken: dict[str, list[Piece]] = {}
    for piece in pieces:
        taken.setdefault(piece.run.source, []).append(piece)
    runs_of = {each.path: len(each.runs) for each in good}
    whole = [
        source
        for source, some in taken.items()
        if len(some) == runs_of.get(source) and all(piece.whole for piece in some)
    ]
    partly = sorted(set(taken) - set(whole))
    frames = []
    if whole:
        frames.append(read_files(spark, whole, schema))
    if partly:
        rows = read_files(spark, partly, schema)
        picked = ranges(spark, (piece for source in partly for piece in taken[source]))
        # The same row may be in two of these files; either will do, they are the same.
        frames.append(only_in(rows, picked).dropDuplicates(list(KEY)))
    match frames:
        case []:
            return spark.createDataFrame([], schema)
        case [frame]:
            return frame
        case [one, other]:
            return one.unionByName(other)
    raise AssertionError(frames)


def read_files(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    """Files and directories of Parquet. A page that does not have its checksum is an error."""
    if any(is_object(path) for path in paths[:1]):
        from rostra.history.source import read_by_arrow

        return read_by_arrow(spark, paths, schema)
    return (
        spark.read.schema(schema)
        .option("recursiveFileLookup", "true")
        .option("parquet.page.verify-checksum.enabled", "true")
        .parquet(*paths)
    )


def ranges(spark: SparkSession, pieces: Iterable[Piece]) -> DataFrame:
    return spark.createDataFrame([(*piece.run.key, piece.first, piece.last) for piece in pieces], RANGES)


def only_in(rows: DataFrame, picked: DataFrame) -> DataFrame:
    """Rows whose numbers are in these ranges."""
    return rows.join(
        F.broadcast(picked),
        (F.col("world") == F.col("in_world"))
        & (F.col("writer") == F.col("in_writer"))
        & (F.col("epoch") == F.col("in_epoch"))
        & F.col("seq").between(F.col("in_first"), F.col("in_last")),
        "left_semi",
    )
