"""How much of a history can be judged: the time of every host and server, less what journals do not hold."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DoubleType, StringType, StructField, StructType

from rostra.history.audits.evidence import Evidence
from rostra.history.shape import day_begins, day_of, seconds, shaped

COVERAGE: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("day", DateType(), nullable=False),  # UTC
        StructField("place", StringType(), nullable=False),  # path of a host or domain
        StructField("seconds", DoubleType(), nullable=False),  # from its first row on, to the world's newest
        StructField("known_s", DoubleType(), nullable=False),  # without those in doubt
        StructField("share", DoubleType(), nullable=False),
    ]
)


def coverage(evidence: Evidence) -> DataFrame:
    """One row for each day and place (`COVERAGE`)."""
    times, key = F.broadcast(evidence.times), ("world", "writer")
    lived = evidence.lived.where(F.col("role").isin("agent", "server"))
    doubted = (
        evidence.doubts.join(times, "world")
        .withColumn("from_at", F.greatest("from_at", "oldest"))
        .withColumn("until_at", F.coalesce("until_at", "newest"))
    )
    seen = lived.select(*key, F.col("began_at").alias("from_at")).unionByName(doubted.select(*key, "from_at"))
    there = seen.groupBy(*key).agg(F.min("from_at").alias("from_at")).join(times, "world")
    day = (*key, "day")
    lost = _daily(doubted, F.col("until_at")).groupBy(*day).agg(F.sum("of_day_s").alias("lost_s"))
    known = F.greatest(F.col("of_day_s") - F.coalesce("lost_s", F.lit(0.0)), F.lit(0.0))
    return shaped(
        _daily(there, F.col("newest")).join(F.broadcast(lost), list(day), "left"),
        COVERAGE,
        place="writer",
        seconds="of_day_s",
        known_s=known,
        share=known / F.col("of_day_s"),
    )


def _daily(intervals: DataFrame, until: Column) -> DataFrame:
    """Each from its `from_at` on, cut at midnight; those of no length are left out."""
    days = F.sequence(day_of(F.col("from_at")), day_of(until))
    begins, ends = day_begins(F.col("day")), day_begins(F.col("day") + 1)
    return (
        intervals.where(until > F.col("from_at"))
        .withColumn("day", F.explode(days))
        .withColumn("of_day_s", seconds(F.greatest("from_at", begins), F.least(until, ends)))
        .where(F.col("of_day_s") > 0)
        .withColumn("day", F.date_from_unix_date("day"))
    )
