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
from rostra.history.shape import shaped

BOUND_S: Final = 0.1
"""How far the clocks of two hosts may differ."""


@if_agreed
def one_living(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every living view with a fence that an agent or a server had (`FINDINGS`)."""
    fenced = shown(evidence).where(F.col("fence").isNotNull())
    fences = compared(fenced, "world", "group", "fence", value="view").withColumn(
        "broken", F.col("view") != F.col("first_value")
    )
    twice = F.format_string(
        "fence %s of %s is view %s at %s, and %s at %s",
        F.col("fence").cast("string"),
        *("group", "view", "writer", "first_value", "first_writer"),
    )
    turns = given(evidence).where(F.col("fence").isNotNull() & F.col("fence_before").isNotNull())
    fell = undoubted(
        turns,
        evidence.doubted,
        F.array("writer"),
        F.col("at"),
        since=F.col("at_before"),
        wrong=F.col("fence") < F.col("fence_before"),
    )
    fallen = F.format_string(
        "%s was given fence %s of %s, and before it %s",
        "observer",
        F.col("fence").cast("string"),
        "group",
        F.col("fence_before").cast("string"),
    )
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
    text = F.format_string(
        "%s lived in %s with fence %s, while %s lived with fence %s without it",
        "observer",
        "group",
        F.col("fence").cast("string"),
        "by",
        F.col("without_fence").cast("string"),
    )
    writers = F.array("writer", "by")
    judged = undoubted(both, evidence.doubted, writers, F.col("at"), since=F.col("from_at"))
    return shaped(judged, FINDINGS, text=text)
