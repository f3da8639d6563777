"""Which spells matter at all: those that share some time with what an audit looks at.

A month has hours in which something is broken or looked at as a whole, and weeks in which nothing is. Who saw
whom in those weeks is most of the work, and says nothing. So time is cut into slots, and of each it is known
when the next one comes that matters:

    slots     · · # # · · · · # ·        # something is looked at here
    spells      ├───┤                    begins before a # and ends not before it: kept
                      ├─┤                the next # comes after its end: left out

A spell costs one look at a small table, and none is taken apart. Slots are coarse: what is kept is all that
matters, and a little more.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SLOTS_MAX: Final = 20_000
"""Of all worlds together: they travel to every task."""

SHORTEST_US: Final = 1_000_000

NEXT: Final = pa.schema([("world", pa.string()), ("slot", pa.int64()), ("next_slot", pa.int64())])


def during(spells: DataFrame, windows: DataFrame, times: DataFrame, begins: str, ends: str) -> DataFrame:
    """Of these spells those that share time with any of the windows (world, from_at, until_at) of their
    world, and a few others. A spell without an end lasts. `times` are the worlds' `span`."""
    next_one, width_us = _next_ones(windows, times)
    slot = _slot(F.col(begins), width_us)
    lasts = F.col(ends).isNull() | (_slot(F.col(ends), width_us) >= F.col("next_slot"))
    return (
        spells.withColumn("slot", slot)
        .join(F.broadcast(next_one), ["world", "slot"])
        .where(lasts)
        .drop("slot", "next_slot")
    )


def _slot(at: Column, width_us: int) -> Column:
    return F.floor(F.unix_micros(at) / F.lit(width_us))


def _next_ones(windows: DataFrame, times: DataFrame) -> tuple[DataFrame, int]:
    """For every slot of every world the next one that matters (world, slot, next_slot), and their width."""
    bounds = times.select(
        "world", F.unix_micros("oldest").alias("oldest"), F.unix_micros("newest").alias("newest")
    )
    spans = {row["world"]: (row["oldest"], row["newest"]) for row in bounds.collect()}
    width_us = max(SHORTEST_US, sum(newest - oldest for oldest, newest in spans.values()) // SLOTS_MAX)
    first_of = {world: oldest // width_us for world, (oldest, _) in spans.items()}
    matters = {
        world: np.zeros(newest // width_us - first_of[world] + 1, dtype=bool)
        for world, (_, newest) in spans.items()
    }
    asked = windows.select(
        "world",
        _slot(F.col("from_at"), width_us).alias("from"),
        _slot(F.col("until_at"), width_us).alias("to"),
    )
    for row in asked.distinct().collect():
        first = first_of[row["world"]]
        matters[row["world"]][max(0, row["from"] - first) : max(0, row["to"] - first + 1)] = True
    tables = [_of_world(world, first_of[world], slots) for world, slots in sorted(matters.items())]
    return windows.sparkSession.createDataFrame(pa.concat_tables([NEXT.empty_table(), *tables])), width_us


def _of_world(world: str, first: int, matters: NDArray[np.bool_]) -> pa.Table:
    hot = np.flatnonzero(matters)
    slots = np.arange(hot[-1] + 1 if len(hot) else 0)  # after the last one that matters, nothing does
    following = hot[np.searchsorted(hot, slots)]
    return pa.table([pa.repeat(world, len(slots)), first + slots, first + following], schema=NEXT)
