"""Which hosts were to be told of a group's changes, and when: only they can say who was in it.

followed ──── followed ── unfollowed ──── unfollowed      two endpoints of one host follow
from_at ─────────────────────────────────── until_at      the host does, from the first to the last
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.questions.lives import ends, lives
from rostra.history.shape import schema, shaped

FOLLOWS: Final = schema(
    world="text",
    seen_by="text",  # path of the host
    epoch="int64",  # that host's life
    group="text",
    from_at="time",
    until_at="time?",  # null while it lasts
    ended_by="text?",  # unfollowed | closing | unknown
)


def follows(events: DataFrame, lived: DataFrame | None = None) -> DataFrame:
    """One row per stretch in which a host follows a group (`FOLLOWS`).

    `lived` are the hosts' `lives`, if `events` were narrowed to a group and no longer show them.
    """
    key = ("world", "writer", "epoch", "group")
    turns = events.where(F.col("kind").isin("followed", "unfollowed") & (F.col("nth") == 0)).select(
        *key,
        "seq",
        "at",
        F.when(F.col("kind") == "followed", F.col("told")).otherwise(-F.col("told")).alias("step"),
    )
    story = Window.partitionBy(*key).orderBy("seq")
    counted = turns.withColumn("now", F.sum("step").over(story)).withColumn(
        "before", F.col("now") - F.col("step")
    )
    edges = counted.where((F.col("now") > 0) != (F.col("before") > 0))
    intervals = edges.withColumn("until_at", F.lead("at").over(story)).where(F.col("now") > 0)
    over = ends(lives(events) if lived is None else lived)
    return shaped(
        intervals.join(F.broadcast(over), ["world", "writer", "epoch"], "left"),
        FOLLOWS,
        seen_by="writer",
        from_at="at",
        until_at=F.coalesce("until_at", "life_end"),
        ended_by=F.when(F.col("until_at").isNotNull(), "unfollowed").otherwise(F.col("life_ended_by")),
    )
