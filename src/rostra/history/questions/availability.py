"""What share of the time was it there? Endpoints, hosts, domain servers, and links as each end saw them.

    endpoint   from `opened` to `closed`, or to the end of its agent's life; incarnations of one name together
    host       from `started` to `closing`, or to the last row of an agent that died
    domain     the same, of its server
    link       from `link-up` to `link-down`, as the writer (`seen_by`) saw its neighbour

The time counts from the first that was heard of something to the newest row of its world. A program that
said goodbye, and did not come back, is not missed: its time ends there.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.places import name_of
from rostra.history.questions.lives import ends, lives
from rostra.history.shape import schema, seconds, shaped

AVAILABILITY: Final = schema(
    world="text",
    what="text",  # endpoint | host | domain | link
    name="text",  # of a link: the neighbour
    seen_by="text",  # who says so
    since="time",  # first heard of
    up_s="double",
    of_s="double",  # from `since` to the newest row, or its goodbye
    share="double",  # up_s of of_s
    times="int64",  # how often it came up
    failures="int64",  # how often it ended without a goodbye
)


def availability(events: DataFrame, lived: DataFrame | None = None) -> DataFrame:
    """Uptime of everything that has one, one row each (`AVAILABILITY`). `lived` are the `lives` of these
    events, if they are known already."""
    lived = lives(events) if lived is None else lived
    intervals = reduce(
        DataFrame.unionByName, (_endpoints(events, lived), _servers(lived), _links(events, lived))
    )
    newest = lived.groupBy("world").agg(F.max("last_at").alias("newest"))
    until = F.coalesce("until_at", "newest")
    wanted_until = F.when(F.col("goodbye"), F.col("until_at")).otherwise(F.col("newest"))
    summed = (
        intervals.join(F.broadcast(newest), "world")
        .groupBy("world", "what", "name", "seen_by")
        .agg(
            F.min("from_at").alias("since"),
            F.sum(seconds(F.col("from_at"), until)).alias("up_s"),
            seconds(F.min("from_at"), F.max_by(wanted_until, "from_at")).alias("of_s"),
            F.count(F.lit(1)).alias("times"),
            F.count_if("failed").alias("failures"),
        )
    )
    share = F.when(F.col("of_s") > 0, F.least(F.lit(1.0), F.col("up_s") / F.col("of_s"))).otherwise(1.0)
    return shaped(summed, AVAILABILITY, share=share)


def _servers(lived: DataFrame) -> DataFrame:
    return lived.where(F.col("role").isin("agent", "server")).selectExpr(
        *("world", "if(role = 'agent', 'host', 'domain') as what", "writer as name", "writer as seen_by"),
        *("began_at as from_at", "if(ended_by is not null, last_at, null) as until_at"),
        *("coalesce(ended_by = 'unknown', false) as failed", "false as goodbye"),
    )


def _endpoints(events: DataFrame, lived: DataFrame) -> DataFrame:
    key = ("world", "writer", "epoch", "member")
    opened = (
        events.where(F.col("kind").isin("opened", "closed"))
        .groupBy(*key)
        .agg(
            F.min("at").alias("from_at"),
            F.max(F.when(F.col("kind") == "closed", F.col("at"))).alias("closed_at"),
            F.max(F.when(F.col("kind") == "closed", F.col("cause"))).alias("cause"),
        )
    )
    named = opened.withColumn("name", name_of(F.col("member")))
    return named.join(F.broadcast(ends(lived)), ["world", "writer", "epoch"], "left").selectExpr(
        *("world", "'endpoint' as what", "name", "writer as seen_by", "from_at"),
        "coalesce(closed_at, life_end) as until_at",
        "coalesce(if(closed_at is not null, cause = 'crash', life_ended_by = 'unknown'), false) as failed",
        "closed_at is not null and coalesce(cause <> 'crash', true) as goodbye",
    )


def _links(events: DataFrame, lived: DataFrame) -> DataFrame:
    story = Window.partitionBy("world", "writer", "epoch", "peer").orderBy("seq")
    turns = (
        events.where(F.col("kind").isin("link-up", "link-down"))
        .withColumn("next_at", F.lead("at").over(story))
        .withColumn("next_what", F.lead("what").over(story))
    )
    ups = turns.where(F.col("kind") == "link-up")
    return ups.join(F.broadcast(ends(lived)), ["world", "writer", "epoch"], "left").selectExpr(
        *("world", "'link' as what", "peer as name", "writer as seen_by", "at as from_at"),
        "coalesce(next_at, life_end) as until_at",
        "next_at is not null and coalesce(next_what <> 'closed', true) as failed",
        "false as goodbye",
    )
