"""`every-change`: every join, leave and failure is agreed on, once everything works, within the bound.

From the last disturbance on, if nothing fails or comes back for the bound, of every host with members of an
agreed group:

    missing    its view is without a member that joined at home and has not left
    ghost      its view has one that left, or died, or whose host did
    blocked    nothing is agreed for its members, though everything works

A stretch is judged in which all servers and all links between them work; hosts may be down.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.facts import Calm, waiting
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.truth import lies, meeting
from rostra.history.audits.views import agreed_groups, if_agreed, sights
from rostra.history.places import host_of, way
from rostra.history.questions.stays import memberships
from rostra.history.shape import said, shaped

BOUND_S: Final = 60.0
"""Longer than a set takes to form again, with all that its hosts hold."""


@if_agreed
def every_change(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every host that had a view of an agreed group in a stretch in which everything works (`FINDINGS`)."""
    found = sights(evidence)
    looking = evidence.once(found.looking)
    home = memberships(evidence.of("member-joined", "member-left"), evidence.lived).join(
        F.broadcast(agreed_groups(evidence)), ["world", "group"], "left_semi"
    )
    calm = working(evidence, bound_s)
    here = F.col("seen_by")
    offences = too_long(evidence, lies(found.seen, home, looking), calm)
    is_missing = F.col("what") == "missing"
    text = said(
        f"{{seen_by}} has a view {{how}} {{member}} of {{group}}, which {{is}}, {bound_s:g} s"
        f" after everything works",
        how=F.when(is_missing, "without").otherwise("with"),
        **{"is": F.when(is_missing, "joined").otherwise("is gone")},
    )
    key = ("world", "seen_by", "epoch", "group", "from_at")
    stuck = undoubted(
        meeting(evidence, found.blocked, calm)
        .where(~F.array_contains("broken", here))
        .groupBy(*key)
        .agg(F.min("moment").alias("moment")),
        evidence.doubted,
        F.array("seen_by"),
        F.col("moment"),
        since=F.col("from_at"),
    )
    blocked = said(f"members on {{seen_by}} are blocked in {{group}}, {bound_s:g} s after everything works")
    fine = meeting(evidence, looking, calm).groupBy(*key).agg(F.min("moment").alias("moment"))
    return (
        shaped(
            offences, FINDINGS, at="moment", writer="seen_by", epoch=F.lit(None), seq=F.lit(None), text=text
        )
        .unionByName(shaped(stuck, FINDINGS, at="moment", writer="seen_by", seq=F.lit(None), text=blocked))
        .unionByName(
            shaped(
                fine,
                FINDINGS,
                broken=F.lit(False),
                at="moment",
                writer="seen_by",
                seq=F.lit(None),
                text=F.lit(None),
            )
        )
    )


def too_long(evidence: Evidence, found: DataFrame, calm: list[Calm]) -> DataFrame:
    """The lies that lasted too long in a calm, though the path between both hosts worked; `undoubted`."""
    here, home = F.col("seen_by"), host_of(F.col("member"))
    wrong = (
        meeting(evidence, found, calm)
        .where(~F.arrays_overlap(way(here, home), "broken"))
        .withColumn("home", home)
        .join(F.broadcast(evidence.homes), ["world", "home"], "left_semi")
    )
    return undoubted(
        wrong,
        evidence.doubted,
        F.array("seen_by", "home"),
        F.col("moment"),
        since=F.col("from_at"),
        through=way(here, home),
        reached=F.col("since"),
    )


def working(evidence: Evidence, bound_s: float) -> list[Calm]:
    """Stretches without a disturbance in which nothing is broken but hosts."""
    facts = evidence.facts
    hosts: dict[str, set[str]] = {}
    for world, home in facts.homes:
        hosts.setdefault(world, set()).update((home, f"^{home}"))
    calm = facts.with_broken(waiting(facts.disturbances, bound_s))
    return [each for each in calm if each.world in hosts and hosts[each.world].issuperset(each.broken)]
