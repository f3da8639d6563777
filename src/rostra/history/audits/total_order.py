"""`total-order`: a position of a view stands for one message, at every member; and none is left out.

    digests    of two journals that have a digest of one view up to one position, both have the same
    places     a view has one position
    counts     up to a position, a member was given as many messages as there are positions

With ``order="negotiated"`` only digests of those are compared who went on to the same view (TA10).
Rows are compared with each other, or with themselves: no missing row explains what is wrong with one.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS
from rostra.history.audits.orders import if_ordered, orders, with_tails
from rostra.history.audits.views import compared
from rostra.history.shape import said, shaped

SAME: Final = ("world", "group", "view", "last", "counts", "together")


@if_ordered
def total_order(evidence: Evidence) -> DataFrame:
    """Every row of an order (`FINDINGS`)."""
    rows = (
        compared(orders(evidence), "world", "group", "view", value="first")
        .withColumnsRenamed({"first_value": "place", "first_writer": "placed_by"})
        .transform(with_tails)
        .transform(lambda placed: compared(placed, *SAME, value="digest"))
    )
    positions = F.col("last") - F.col("first")
    elsewhere = said("view {view} of {group} has position {first} at {writer}, and {place} at {placed_by}")
    uneven = said(
        "{writer} was given {count} messages in the {positions} positions of view {view} of"
        " {group} up to {last}",
        positions=positions,
    )
    other = said(
        "{writer} was given another order than {first_writer} in view {view} of {group}, up to"
        " position {last}"
    )
    text = (
        F.when(F.col("first") != F.col("place"), elsewhere)
        .when(F.col("count") != positions, uneven)
        .when(F.col("counts") & (F.col("digest") != F.col("first_value")), other)
    )
    judged = rows.withColumn("text", text)
    return shaped(judged, FINDINGS, broken=F.col("text").isNotNull())
