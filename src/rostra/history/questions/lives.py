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
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from rostra.history.arrow_fast_path import answered, collected, origin_of
from rostra.history.catalogue import STILL_GOING_S
from rostra.history.questions.arrow_fast_path import PARTS_SCHEMA, Lives
from rostra.history.shape import shaped

LIVES: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("writer", StringType(), nullable=False),  # path of a host or domain
        StructField("role", StringType(), nullable=False),  # agent | server | lab | sim
        StructField("epoch", LongType(), nullable=False),  # grows at every start
        StructField("began_at", TimestampType(), nullable=False),  # its first row here
        StructField("last_at", TimestampType(), nullable=False),  # its last row here
        StructField("last_seq", LongType(), nullable=False),
        StructField("rows", LongType(), nullable=False),  # that are here
        StructField("dropped", LongType(), nullable=False),  # rows that it says it could not keep
        StructField("ended_by", StringType(), nullable=True),  # closing | unknown; null while it goes on
        StructField("whole", BooleanType(), nullable=False),  # every number from 1 to last_seq is here
    ]
)

HOLES: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("writer", StringType(), nullable=False),
        StructField("epoch", LongType(), nullable=False),
        StructField("first_number", LongType(), nullable=False),  # the first number that is missing
        StructField("last_number", LongType(), nullable=False),  # the last one
        StructField("after_at", TimestampType(), nullable=True),  # the row before it; null at the beginning
        StructField("until_at", TimestampType(), nullable=False),  # the row after it
    ]
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


def parts(events: DataFrame) -> pa.Table:
    """What lives are summed up from, in few rows (`PARTS_SCHEMA`): some of each life."""
    origin = origin_of(events)
    if origin is not None:
        return collected(events, origin, Lives(), PARTS_SCHEMA)
    return _summed(_parts(events)).toArrow()


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
        "world",
        "writer",
        "epoch",
        "role",
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
