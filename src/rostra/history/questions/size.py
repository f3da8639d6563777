"""How large was a group, and when did that change?"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.shape import every, schema, shaped

SIZES: Final = schema(
    world="text",
    group="text",
    seen_by="text?",  # path of a host; null: counted at home
    at="time",  # from here on
    members="int64",
)


def size(memberships: DataFrame, every_s: float | None = None) -> DataFrame:
    """The true size of each group over time (`SIZES`), one row per change, from `memberships`.

    With `every_s`, one row per stretch of so many seconds in which something changed: the size at its end.
    Members are counted by the clocks of their own hosts, which may differ.
    """
    return _sizes(memberships.withColumn("seen_by", F.lit(None).cast("string")), every_s)


def size_seen(stays: DataFrame, every_s: float | None = None) -> DataFrame:
    """The size of each group as each host saw it (`SIZES`), from `stays`."""
    return _sizes(stays, every_s)


def _sizes(intervals: DataFrame, every_s: float | None) -> DataFrame:
    per = ("world", "group", "seen_by")
    ends = F.array(
        F.struct(F.col("joined_at").alias("at"), F.lit(1).alias("step")),
        F.struct(F.col("left_at").alias("at"), F.lit(-1).alias("step")),
    )
    steps = intervals.select(*per, F.explode(ends).alias("end")).where(F.col("end.at").isNotNull())
    at = F.col("end.at") if every_s is None else every(every_s, F.col("end.at"))
    summed = steps.groupBy(*per, at.alias("at")).agg(F.sum("end.step").alias("step"))
    so_far = Window.partitionBy(*per).orderBy("at").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sizes = summed.withColumn("members", F.sum("step").over(so_far))
    return shaped(sizes.where((F.col("step") != 0) | F.lit(every_s is not None)), SIZES)
