"""The least stable: who came and went most often, which links broke, which domains were lost."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.places import name_of
from rostra.history.shape import schema, seconds, shaped

FLAPS: Final = schema(
    world="text",
    what="text",  # member | link | domain
    name="text",  # endpoint without incarnation; neighbour; domain
    seen_by="text?",  # of a link: who saw it; else null
    times="int64",  # left a group; was given up; was lost
    crashes="int64",  # of these: not of its own will
    suspected="int64",  # of a link or program: overdue
    forgiven="int64",  # overdue, and heard of again in time
    first_at="time",
    last_at="time",
    per_hour="double",  # times, from the world's first row to its last
)

SAME_S: Final = 1.0
"""What is passed on of one failure is passed on within this; it takes a detector longer to find the next."""


def flaps(events: DataFrame) -> DataFrame:
    """How often each member, link and domain went (`FLAPS`); the answer is not sorted.

    A domain counts once per failure, however many servers passed it on.
    """
    kind = F.col("kind")
    members = _counted(
        events.where(kind.isin("member-left", "program-suspected", "program-trusted")).withColumn(
            "name", name_of(F.col("member"))
        ),
        "member",
        "member-left",
        F.lit(None).cast("string"),
        F.col("cause") == "crash",
        "program",
    )
    links = _counted(
        events.where(kind.isin("link-down", "link-suspected", "link-trusted")).withColumn(
            "name", F.col("peer")
        ),
        "link",
        "link-down",
        F.col("writer"),
        F.coalesce(F.col("what") != "closed", F.lit(True)),
        "link",
    )
    story = Window.partitionBy("world", "domain", "inside", "accuser", "accused").orderBy("at")
    since_us = F.unix_micros("at") - F.unix_micros(F.lag("at").over(story))
    failures = (
        events.where(kind == "domain-failed")
        .withColumn("since_us", since_us)
        .where(F.col("since_us").isNull() | (F.col("since_us") > SAME_S * 1e6))
        .select(
            "world",
            "at",
            F.col("domain").alias("name"),
            F.lit("domain-failed").alias("kind"),
            F.lit(None).cast("string").alias("cause"),
            F.lit(None).cast("string").alias("what"),
        )
    )
    domains = _counted(failures, "domain", "domain-failed", F.lit(None).cast("string"), F.lit(True), "domain")
    spans = events.groupBy("world").agg(seconds(F.min("at"), F.max("at")).alias("span_s"))
    found = reduce(DataFrame.unionByName, (members, links, domains))
    return shaped(
        found.where((F.col("times") > 0) | (F.col("suspected") > 0)).join(F.broadcast(spans), "world"),
        FLAPS,
        per_hour=F.col("times") / F.greatest(F.col("span_s") / 3600.0, F.lit(1 / 3600.0)),
    )


def _counted(
    rows: DataFrame, what: str, went: str, seen_by: Column, failed: Column, overdue: str
) -> DataFrame:
    kind = F.col("kind")
    return (
        rows.withColumn("seen_by", seen_by)
        .groupBy("world", "name", "seen_by")
        .agg(
            F.count_if(kind == went).alias("times"),
            F.count_if((kind == went) & failed).alias("crashes"),
            F.count_if(kind == f"{overdue}-suspected").alias("suspected"),
            F.count_if(kind == f"{overdue}-trusted").alias("forgiven"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
        )
        .withColumn("what", F.lit(what))
    )
