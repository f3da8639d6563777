"""`all-or-none`: all members that go on to the next view were given the same messages in this one.

    went on    a member that goes on to the next view was given every message before it
    beyond     where one side of a partition lives at most: no member, not even one that was excluded later,
               was given a message of a view that the members of the next view do not have before it; with
               ``order="negotiated"`` the last messages of excluded members do not count (TA10)

Not promised with ``stable="sent"``. Rows that show the end of a view, and the position of the next one, are
positive evidence: no missing row can explain a message beyond it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS
from rostra.history.audits.orders import if_ordered, orders, with_tails
from rostra.history.shape import said, shaped


@if_ordered
def all_or_none(evidence: Evidence) -> DataFrame:
    """Every view that a member went on from, and everything that was given in it (`FINDINGS`)."""
    rows = evidence.once(with_tails(orders(evidence)))
    group = ("world", "group")
    sent = rows.where(F.col("what") == "sent").select(*group).distinct()
    rows = rows.join(F.broadcast(sent), list(group), "left_anti")
    positions = F.col("last") - F.col("first")
    went_on = rows.where(F.col("cause") == "view").withColumn("broken", F.col("count") < positions)
    left_out = said(
        "members on {writer} were given {count} of the {positions} messages of view {view} of"
        " {group}, and went"
        " on to the next view",
        positions=positions,
    )
    nexts = (
        rows.where(F.col("base").isNotNull() & F.col("fence").isNotNull())
        .groupBy(*group, F.col("base").alias("view"))
        .agg(
            F.min("first").alias("next_at"),
            F.min_by("view", "first").alias("next_view"),
            F.min_by("writer", "first").alias("by"),
        )
    )
    beyond = (
        rows.where("counts")
        .join(F.broadcast(nexts), [*group, "view"])
        .withColumn("broken", F.col("last") >= F.col("next_at"))
    )
    alone = said(
        "members on {writer} were given position {last} of view {view} of {group}, and {by} went"
        " on at {next_at}"
        " without it"
    )
    return shaped(went_on, FINDINGS, text=F.when(F.col("broken"), left_out)).unionByName(
        shaped(beyond, FINDINGS, text=F.when(F.col("broken"), alone))
    )
