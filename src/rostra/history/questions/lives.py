"""How long did each writer write, how did it end, and is anything missing?

    started ── rows, heartbeats ... ── closing            the whole life is known
    started ── rows, heartbeats ... ┤                     the rest is not: a crash, or a lost tail
    started ── rows ── (hole) ── rows ...                 rows that were written and are not here

Nothing that a question says about a writer after the end of its life, or inside a hole, is certain. So this
is the first thing that `stays` and every audit look at.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.arrow_fast_path import answered, collected, origin_of
from rostra.history.catalogue import STILL_GOING_S
from rostra.history.questions.arrow_fast_path import PARTS_SCHEMA, Groups, Lives
from rostra.history.schemas import REFUSED
from rostra.history.shape import schema, shaped

LIVES: Final = schema(
    world="text",
    writer="text",  # path of a host or domain
    role="text",  # agent | server | lab | sim
    epoch="int64",  # grows at every start
    began_at="time",  # its first row here
    last_at="time",  # its last row here
    last_seq="int64",
    rows="int64",  # that are here
    dropped="int64",  # rows that it says it could not keep
    ended_by="text?",  # closing | unknown; null while it goes on
    whole="bool",  # every number from 1 to last_seq is here
)

HOLES: Final = schema(
    world="text",
    writer="text",
    epoch="int64",
    first_number="int64",  # the first number that is missing
    last_number="int64",  # the last one
    after_at="time?",  # the row before it; null at the beginning
    until_at="time",  # the row after it
)


def lives(events: DataFrame) -> DataFrame:
    """One row per life of a writer (`LIVES`): when, how it ended, and whether rows are missing.

    One aggregate over five narrow columns, without a sort. Whether every number is there is told by three
    sums at once (how many, their sum, and their exclusive or), because counting alone is fooled by a hole
    that comes with a duplicate; `holes` then says where.
    """
    summed = _summed(_parts(events))
    world = Window.partitionBy("world")
    later = Window.partitionBy("world", "writer").orderBy("epoch")
    quiet_us = F.unix_micros(F.max("last_at").over(world)) - F.unix_micros("last_at")
    goes_on = F.lead("epoch").over(later).isNull() & (quiet_us <= STILL_GOING_S * 1_000_000)
    return shaped(
        summed,
        LIVES,
        ended_by=F.when(F.col("closed"), F.lit("closing")).when(~goes_on, F.lit("unknown")),
        whole=(F.col("rows") == F.col("last_seq"))
        & (F.col("total") == F.col("last_seq") * (F.col("last_seq") + 1) / 2)
        & (F.col("mixed") == _mixed_up_to(F.col("last_seq"))),
    )


def holes(events: DataFrame, among: DataFrame | None = None) -> DataFrame:
    """Which numbers are missing, one row per run (`HOLES`). Sorts only lives that are not `whole`.

    `among` are the `lives` of these events, if they are known already.
    """
    torn = (lives(events) if among is None else among).where(~F.col("whole"))
    rows = events.select("world", "writer", "epoch", "seq", "at").join(
        F.broadcast(torn.select("world", "writer", "epoch")), ["world", "writer", "epoch"], "left_semi"
    )
    story = Window.partitionBy("world", "writer", "epoch").orderBy("seq")
    before = rows.withColumn("before", F.coalesce(F.lag("seq").over(story), F.lit(0))).withColumn(
        "after_at", F.lag("at").over(story)
    )
    return shaped(
        before.where(F.col("seq") > F.col("before") + 1),
        HOLES,
        first_number=F.col("before") + 1,
        last_number=F.col("seq") - 1,
        until_at="at",
    )


def ends(lived: DataFrame) -> DataFrame:
    """When and how these lives ended, for a join: world, writer, epoch, life_end, life_ended_by; of a life
    that goes on, null."""
    ended = F.col("ended_by").isNotNull()
    return lived.select(
        *("world", "writer", "epoch", F.when(ended, F.col("last_at")).alias("life_end")),
        F.col("ended_by").alias("life_ended_by"),
    )


def parts(events: DataFrame) -> pa.Table:
    """What lives are summed up from, in few rows (`PARTS_SCHEMA`): some of each life."""
    origin = origin_of(events)
    if origin is not None:
        return collected(events, origin, Lives(), PARTS_SCHEMA)
    return _summed(_parts(events)).toArrow()


def groups(events: DataFrame) -> set[str]:
    """That these rows name, but for requests that were denied."""
    origin = origin_of(events)
    if origin is not None:
        found = collected(events, origin, Groups(), "group string")
    else:
        found = events.where(F.col("kind") != REFUSED).select("group").distinct().toArrow()
    return {group for group in found["group"].to_pylist() if group}


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("world", "writer", "epoch").agg(
        F.min("role").alias("role"),
        F.min("began_at").alias("began_at"),
        F.max("last_at").alias("last_at"),
        F.max("last_seq").alias("last_seq"),
        F.sum("rows").alias("rows"),
        F.sum("total").alias("total"),
        F.bit_xor("mixed").alias("mixed"),
        F.sum("dropped").alias("dropped"),
        F.max("closed").alias("closed"),
    )


def _parts(events: DataFrame) -> DataFrame:
    """What is summed up: of a row, or of a file's rows of one life at once."""
    origin = origin_of(events)
    if origin is not None:
        return answered(events, origin, Lives(), PARTS_SCHEMA)
    kind = F.col("kind")
    return events.select(
        *("world", "writer", "epoch", "role"),
        F.col("at").alias("began_at"),
        F.col("at").alias("last_at"),
        F.col("seq").alias("last_seq"),
        F.lit(1).alias("rows"),
        F.col("seq").alias("total"),
        F.col("seq").alias("mixed"),
        F.when(kind == "dropped", F.coalesce("count", F.lit(0))).otherwise(0).alias("dropped"),
        (kind == "closing").alias("closed"),
    )


def _mixed_up_to(last: Column) -> Column:
    """The exclusive or of 1, 2, 3 ... `last`."""
    return (
        F.when(last % 4 == 0, last).when(last % 4 == 1, F.lit(1)).when(last % 4 == 2, last + 1).otherwise(0)
    )
