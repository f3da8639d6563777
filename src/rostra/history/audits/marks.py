"""Marks: rows that are few however long a history is, about lives of writers, faults, and new followers.

Every audit needs some of them, and each query would scan all events. So they are extracted once.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.arrow_fast_path import SegmentRun, collected, is_one_of, origin_of, read
from rostra.history.schemas import columns_of

KINDS: Final = (
    *("started", "closing", "settled", "server-changed", "line-changed"),
    *("link-up", "link-moved", "link-down", "link-suspected", "link-broken"),
    *("followed", "unfollowed", "absolute", "snapshot", "gap"),
)
COLUMNS: Final = (
    *("world", "writer", "role", "epoch", "seq", "at", "kind", "change", "nth"),
    *("group", "observers", "told", "peer", "life", "accuser"),
)
MARKS: Final = columns_of(*COLUMNS)


def marks(events: DataFrame) -> pa.Table:
    """Rows of these kinds (`MARKS`); of an event that is several rows, the first."""
    origin = origin_of(events)
    if origin is not None:
        return collected(events, origin, Marks(), MARKS)
    return events.where(F.col("kind").isin(*KINDS) & (F.col("nth") == 0)).select(*COLUMNS).toArrow()


def kinds(events: DataFrame) -> frozenset[str]:
    """Of all rows."""
    origin = origin_of(events)
    if origin is None:
        found = events.select("kind").distinct().toArrow()
    else:
        found = collected(events, origin, Kinds(), "kind string")
    return frozenset(found["kind"].to_pylist())


class Kinds(Struct, frozen=True):
    """Of the rows of a run, each at least once."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        for rows in read(segment_run, ("kind",)):
            yield pa.table({"kind": pc.unique(rows["kind"]).cast(pa.string())})


class Marks(Struct, frozen=True):
    """Straight from the files."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        for rows in read(segment_run, COLUMNS):
            is_mark = is_one_of(rows["kind"], *KINDS) & pc.equal(rows["nth"], 0).to_numpy()
            if is_mark.any():
                yield rows.filter(pa.array(is_mark))
