"""Who is owed a list: whoever begins to follow, and whoever missed something because it read too slowly."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS
from rostra.history.audits.truth import meeting
from rostra.history.shape import shaped


def owed(evidence: Evidence, bound_s: float, debts: tuple[str, ...], complaint: str) -> DataFrame:
    """Observers that were still owed a list in a calm (`FINDINGS`, all broken).

    `complaint` has room for the observer and the group. Rows that name only some of their observers pay
    every debt on their host: who the others are is not known.
    """
    lived = evidence.lived
    named = evidence.marks.where(F.col("kind").isin(*debts, "absolute", "snapshot", "unfollowed"))
    crowd = (
        named.where(F.col("told") > F.size("observers"))
        .select("world", "writer", "epoch", "group")
        .distinct()
    )
    turns = named.join(F.broadcast(crowd), ["world", "writer", "epoch", "group"], "left_anti").select(
        "world", "writer", "epoch", "group", "seq", "at", "kind", F.explode("observers").alias("observer")
    )
    rest = (
        Window.partitionBy("world", "writer", "epoch", "group", "observer")
        .orderBy("seq")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    paid = F.when(F.col("kind").isin("absolute", "snapshot", "unfollowed"), F.col("at"))
    ends = lived.select(
        "world", "writer", "epoch", F.when(F.col("ended_by").isNotNull(), F.col("last_at")).alias("life_end")
    )
    waits = (
        turns.withColumn("paid_at", F.first(paid, ignorenulls=True).over(rest))
        .where(F.col("kind").isin(*debts))
        .join(F.broadcast(ends), ["world", "writer", "epoch"], "left")
        .select(
            *("world", "writer", "epoch", "group", "observer", "seq", F.col("at").alias("from_at")),
            F.least("paid_at", "life_end").alias("until_at"),
        )
    )
    late = (
        meeting(waits, evidence.calm(bound_s), evidence.times)
        .where(~F.array_contains("broken", F.col("writer")))  # a host that stands still is given nothing
        .groupBy("world", "writer", "epoch", "group", "observer", "seq")
        .agg(F.min("moment").alias("at"))
    )
    return shaped(late, FINDINGS, broken=F.lit(True), text=F.format_string(complaint, "observer", "group"))
