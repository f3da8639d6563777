"""`stays`, `lives` and `churn` straight from the files: the parts that tasks compute in Arrow.

A function here computes the partial result of one run of segments; the question itself combines these.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from rostra.history.arrow import STAYS_IN_ARROW
from rostra.history.arrow_fast_path import Bools, SegmentRun, coded, is_one_of, is_there, is_true, read
from rostra.history.intervals import fold, numbers, sight
from rostra.history.schemas import REFUSED
from rostra.journal.schema import SIGHT

STRETCH_ROWS: Final = 200_000
"""So many changes of sight are folded at once."""

LIFE: Final = ("world", "writer", "epoch")
SIGHT_COLUMNS: Final = (
    *(*LIFE, "seq", "at", "kind", "change", "news"),
    *("group", "member", "life", "stamp", "cause"),
)
PARTS: Final = (*LIFE, "role", "at", "seq", "kind", "count")
CHURN_COLUMNS: Final = ("world", "group", "at", "kind", "cause", "news")

PARTS_OF_CHURN: Final = ("joins", "leaves", "crashes", "lost", "back")
_KINDS: Final = ("member-joined", "member-left", "without", "only", "joined")
_CAUSES: Final = ("crash", "merge")
_NOTHING, _JOINS, _LEAVES, _CRASHES, _LOST, _BACK = range(6)
_PART_OF: Final = np.array(  # for each kind: whatever the cause, after a crash, after a merge
    [
        *(_NOTHING, _NOTHING, _NOTHING),  # any other kind
        *(_JOINS, _JOINS, _JOINS),
        *(_LEAVES, _CRASHES, _LEAVES),
        *(_LOST, _LOST, _LOST),
        *(_LOST, _LOST, _LOST),
        *(_NOTHING, _NOTHING, _BACK),
    ],
    dtype=np.int8,
)
_ONLY_NEWS: Final = np.isin(np.arange(6), (_LOST, _BACK))

PARTS_SCHEMA: Final = (
    "source STRING, world STRING, writer STRING, epoch LONG, role STRING, began_at TIMESTAMP, "
    "last_at TIMESTAMP, last_seq LONG, rows LONG, total LONG, mixed LONG, dropped LONG, closed BOOLEAN"
)
COUNTS_SCHEMA: Final = (
    "world STRING, group STRING, slot LONG, joins LONG, leaves LONG, crashes LONG, lost LONG, back LONG"
)


class Stays(Struct, frozen=True):
    """The stays of whole lives; those that nothing ended have no end yet."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        opened = STAYS_IN_ARROW.empty_table()
        changes: list[pa.Table] = []
        waiting = 0
        for rows in read(segment_run, SIGHT_COLUMNS):
            changes.append(sight(rows.filter(pa.array(_changes_sight(rows)))))
            waiting += changes[-1].num_rows
            if waiting > max(STRETCH_ROWS, opened.num_rows):
                ended, opened = fold(opened, pa.concat_tables(changes))
                changes, waiting = [], 0
                yield ended
        if waiting:
            ended, opened = fold(opened, pa.concat_tables(changes))
            yield ended
        yield opened


class Lives(Struct, frozen=True):
    """What `lives` sums up, for each stretch of one life's rows that are side by side."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        paths = [source.path for source in segment_run.sources]
        source = pa.scalar(paths[0] if len(paths) == 1 else None, pa.string())
        for rows in read(segment_run, PARTS):
            whole = rows.combine_chunks()
            starts = _starts(whole)
            seq, at = whole["seq"].to_numpy(), whole["at"].cast(pa.int64()).to_numpy()
            first = whole.select((*LIFE, "role")).take(pa.array(starts))
            closing = is_one_of(whole["kind"], "closing")
            dropped = np.where(
                is_one_of(whole["kind"], "dropped"), pc.fill_null(whole["count"], 0).to_numpy(), 0
            )
            time = whole.schema.field("at").type
            yield pa.table(
                {
                    "source": pa.repeat(source, len(starts)),
                    **{name: first[name] for name in first.column_names},
                    "began_at": pa.array(np.minimum.reduceat(at, starts)).cast(time),
                    "last_at": pa.array(np.maximum.reduceat(at, starts)).cast(time),
                    "last_seq": np.maximum.reduceat(seq, starts),
                    "rows": np.diff([*starts, len(seq)]),
                    "total": np.add.reduceat(seq, starts),
                    "mixed": np.bitwise_xor.reduceat(seq, starts),
                    "dropped": np.add.reduceat(dropped, starts),
                    "closed": np.logical_or.reduceat(closing, starts),
                }
            )


class Groups(Struct, frozen=True):
    """That rows name, but for requests that were denied."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        for rows in read(segment_run, ("group", "kind")):
            named = rows.filter(pa.array(~is_one_of(rows["kind"], REFUSED)))
            yield pa.table({"group": pc.unique(named["group"]).cast(pa.string())})


class Churn(Struct, frozen=True):
    """What came and went, per group and slot of so many microseconds."""

    width_us: int

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        for rows in read(segment_run, CHURN_COLUMNS):
            # Nearly all rows are neither a join nor a leave.
            part = _PART_OF.take(coded(rows["kind"], _KINDS) * 3 + coded(rows["cause"], _CAUSES))
            places = np.flatnonzero(part)
            part = part[places]
            chosen = rows.select(("world", "group", "at", "news")).take(pa.array(places))
            counts = is_there(chosen["group"]) & (is_true(chosen["news"]) | ~_ONLY_NEWS[part])
            if counts.any():
                yield _counted(chosen.filter(pa.array(counts)), part[counts] - 1, self.width_us)


def _changes_sight(rows: pa.Table) -> Bools:
    """A quick first choice, so that what follows has fewer rows to look at."""
    return is_one_of(rows["kind"], *SIGHT) & is_true(rows["news"])


def _counted(rows: pa.Table, part: NDArray[np.int8], width_us: int) -> pa.Table:
    """So many rows of each part, group and slot."""
    story = numbers(rows, ("world", "group"))
    slot = rows["at"].cast(pa.int64()).to_numpy() // width_us
    earliest, latest = slot.min(), slot.max()
    key = story * (latest - earliest + 1) + (slot - earliest)
    _, first, nth = np.unique(key, return_index=True, return_inverse=True)
    counts = np.bincount(nth * len(PARTS_OF_CHURN) + part, minlength=len(first) * len(PARTS_OF_CHURN))
    each = counts.reshape(len(first), len(PARTS_OF_CHURN))
    return pa.table(
        {
            "world": rows["world"].take(pa.array(first)),
            "group": rows["group"].take(pa.array(first)),
            "slot": slot[first],
            **{name: each[:, column] for column, name in enumerate(PARTS_OF_CHURN)},
        }
    )


def _starts(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where the rows of another life begin."""
    changes = np.zeros(rows.num_rows, dtype=bool)
    changes[0] = True
    for name in LIFE:
        values = rows[name].combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks)
        codes = (values.indices if pa.types.is_dictionary(values.type) else values).to_numpy()
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)
