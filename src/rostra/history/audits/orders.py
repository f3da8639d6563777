"""Facts about groups whose messages have one order, from journals, for the audits of their promises.

Every row has a digest and the number of all messages that the members of a host were given since a view, up
to a position. A view begins with a row that names the view before it, and the view before ends with one. With
a single orderer, the row that begins the view names that host (`peer`). With ``order="negotiated"`` the host
of each sender orders, and a lost member may have been given last messages that no other was given (TA10).
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence, judged_with

if_ordered: Final = judged_with("ordered")


def orders(evidence: Evidence) -> DataFrame:
    """Every row about an order, of which the position of its view is known."""
    return (
        evidence.of("ordered")
        .where(F.col("first").isNotNull())
        .select(
            *("world", "writer", "epoch", "seq", "at", "group", "view", "base", "first", "last", "count"),
            *("digest", "cause", "fence", "what", "peer"),
        )
    )


def with_tails(rows: DataFrame) -> DataFrame:
    """`counts`: is it no tail of members that were lost? `together`: rows that differ in it need not agree.
    In a view without an orderer, members count that went on, and agree with those that went on to the same
    view; while none has gone on, all members of the view count."""
    here = ("world", "group", "view")
    story = Window.partitionBy("world", "writer", "epoch", "group").orderBy("seq")
    own, all_hosts = Window.partitionBy(*here, "writer", "epoch"), Window.partitionBy(*here)
    is_over, is_out = F.col("cause") == "view", F.col("cause") == "left"
    follows = is_over & (F.lead("base").over(story) == F.col("view"))
    return (
        rows.withColumn("follower", F.when(follows, F.lead("view").over(story)))
        .withColumn("has_orderer", F.max("peer").over(all_hosts).isNotNull())
        .withColumn("together", F.when(~F.col("has_orderer"), F.max("follower").over(own)))
        .withColumn("is_last", ~F.coalesce(F.max(is_over).over(all_hosts), F.lit(False)))
        .withColumn("stays", ~F.coalesce(F.max(is_out).over(own), F.lit(False)))
        .withColumn(
            "counts",
            F.col("has_orderer") | F.col("together").isNotNull() | (F.col("is_last") & F.col("stays")),
        )
        .drop("follower", "has_orderer", "is_last", "stays")
    )
