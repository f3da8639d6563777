"""When, and for how long, did two places see different members of a group?

    here    a b c ────────┬── a b ─────────┬── a b c
    there   a b c ────────────────────┬── a b ──┬── a b c
                          └─ differ ──┘    └────┘

A place is a host or a domain: it sees a member while any of its hosts does. It is compared only while both
places follow the group. The two use different clocks, so differences shorter than the clocks' offset mean
nothing.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.places import inside
from rostra.history.questions.follows import follows
from rostra.history.questions.stays import stays
from rostra.history.shape import schema, seconds, shaped, sums

DISAGREEMENT: Final = schema(
    world="text",
    group="text",
    from_at="time",
    until_at="time?",  # null while it lasts
    seconds="double?",
    only_here="int64",  # members that only the first place saw
    only_there="int64",  # members that only the second one saw
    example="text",  # one of them
)


def disagreement(events: DataFrame, here: str, there: str) -> DataFrame:
    """The stretches in which two places saw different members of a group, one row each (`DISAGREEMENT`).

    Narrow the events to a group first if only that one matters, but keep the marks that show how long
    writers lived: ``events.where("group = 'chess@eu' or group is null")``.
    """
    member = ("world", "group", "member")
    seen = _both(stays(events), here, there, "joined_at", "left_at", member)
    differ = seen.where(F.col("here") != F.col("there"))
    looks = _both(follows(events), here, there, "from_at", "until_at", ("world", "group"))
    looking = looks.where("here and there").select(
        "world", "group", F.col("at").alias("look_at"), F.col("until").alias("look_until")
    )
    clipped = (
        differ.join(looking, ["world", "group"])
        .withColumn("from_at", F.greatest("at", "look_at"))
        .withColumn("until_at", F.least("until", "look_until"))  # least() passes over nulls
        .where(F.col("until_at").isNull() | (F.col("until_at") > F.col("from_at")))
    )
    return shaped(
        _islands(clipped, ("world", "group")),
        DISAGREEMENT,
        seconds=seconds(F.col("from_at"), F.col("until_at")),
    )


def _both(
    intervals: DataFrame, here: str, there: str, begins: str, ends: str, per: tuple[str, ...]
) -> DataFrame:
    """Who of the two holds something, from each change (`at`) to the next (`until`, null at the last)."""
    place = F.col("seen_by")
    is_here, is_there = inside(here, place), inside(there, place)
    counts = {"here": is_here.cast("int"), "there": is_there.cast("int")}
    added = sums(intervals.where(is_here | is_there), per, begins, ends, **counts)
    return added.withColumn("here", F.col("here") > 0).withColumn("there", F.col("there") > 0)


def _islands(intervals: DataFrame, per: tuple[str, ...]) -> DataFrame:
    """Intervals that overlap or touch, as one; whatever has no end outlasts all."""
    never = F.lit("9999-12-31").cast("timestamp")
    ordered = Window.partitionBy(*per).orderBy("from_at", "member")
    earlier = ordered.rowsBetween(Window.unboundedPreceding, -1)
    numbered = (
        intervals.withColumn("end", F.coalesce("until_at", never))
        .withColumn("reach", F.max("end").over(earlier))
        .withColumn("new", (F.col("reach").isNull() | (F.col("from_at") > F.col("reach"))).cast("int"))
        .withColumn("island", F.sum("new").over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
    )
    return numbered.groupBy(*per, "island").agg(
        F.min("from_at").alias("from_at"),
        F.when(F.max("end") < never, F.max("end")).alias("until_at"),
        F.count_distinct(F.when(F.col("here"), F.col("member"))).alias("only_here"),
        F.count_distinct(F.when(F.col("there"), F.col("member"))).alias("only_there"),
        F.min("member").alias("example"),
    )
