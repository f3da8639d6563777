"""`one-living`: of a group whose rule lets one side live at most, no two sides live.

Every living view of such a group has a fence. A fence stands for one view and no other, at all agents and
servers; and those that one member is given grow. While a member lives, no other member lives in a later view
without it: not for longer than clocks may differ (`bound_s`). An agent that stood still did nothing then.

No missing row explains two views of one fence.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.views import absences, compared, given, if_agreed, living, shown, sights
from rostra.history.shape import said, shaped

BOUND_S: Final = 0.1
"""How far the clocks of two hosts may differ."""


@if_agreed
def one_living(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every living view with a fence that an agent or a server had (`FINDINGS`)."""
    fenced = shown(evidence).where(F.col("fence").isNotNull())
    fences = compared(fenced, "world", "group", "fence", value="view").withColumn(
        "broken", F.col("view") != F.col("first_value")
    )
    twice = said("fence {fence} of {group} is view {view} at {writer}, and {first_value} at {first_writer}")
    turns = given(evidence).where(F.col("fence").isNotNull() & F.col("fence_before").isNotNull())
    fell = undoubted(
        turns,
        evidence.doubted,
        F.array("writer"),
        F.col("at"),
        since=F.col("at_before"),
        wrong=F.col("fence") < F.col("fence_before"),
    )
    fallen = said("{observer} was given fence {fence} of {group}, and before it {fence_before}")
    is_wrong = F.coalesce("broken", F.lit(True))
    found = (
        shaped(fences, FINDINGS, text=F.when(F.col("broken"), twice)),
        shaped(fell, FINDINGS, text=F.when(is_wrong, fallen)),
        _beside(evidence, bound_s),
    )
    return reduce(DataFrame.unionByName, found)


def _beside(evidence: Evidence, bound_s: float) -> DataFrame:
    """Members that lived while others lived without them."""
    found = sights(evidence)
    gone = absences(found).withColumnRenamed("member", "observer")
    began = F.greatest("from_at", "gone_at")
    lasted_us = F.unix_micros(F.least("until_at", "back_at", "newest")) - F.unix_micros(began)
    both = (
        living(found)
        .join(gone, ["world", "group", "observer"])
        .join(F.broadcast(evidence.times), "world")
        .where((F.col("without_fence") > F.col("fence")) & (lasted_us > int(bound_s * 1e6)))
        .withColumn("at", began)
    )
    text = said(
        "{observer} lived in {group} with fence {fence}, while {by} lived with fence"
        " {without_fence} without it"
    )
    writers = F.array("writer", "by")
    judged = undoubted(both, evidence.doubted, writers, F.col("at"), since=F.col("from_at"))
    return shaped(judged, FINDINGS, text=text)
