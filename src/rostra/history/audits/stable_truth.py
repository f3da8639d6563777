"""`stable-truth`: once changes stop, every observer in one component reports the same, true membership.

Whenever the world is calm (see `truth`), of every host that follows a group:

    ghost      it sees an endpoint that is not in the group, as its home's journal says
    hidden     it sees a member that it cannot reach
    missing    it does not see a member that it can reach
    unlisted   it has followed for so long, and was never given a list

In a simulated world that is exactly what its checker says. In a real one, *at rest* is a stretch without any
change of any link, in which what differs for longer than the bound is wrong; whom a host can reach is known
from what the ends of links report, so a host behind a link that both ends call up counts as reachable.

*Not covered:* answers to questions. Their members are not in the journal, only their number.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.facts import Calm, met
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.owed import owed
from rostra.history.places import host_of, way
from rostra.history.shape import said, schema, shaped

BOUND_S: Final = 30.0
"""How long news may take in a real world at rest: longer than any profile's patience and delays together."""


def stable_truth(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every stretch of following that met a calm, and everything wrong in one (`FINDINGS`)."""
    facts = evidence.facts
    calm = facts.calm(bound_s)
    lied, behind = evidence.lied(bound_s, calm), _behind(evidence, calm)
    wrong = []
    if not evidence.is_none(lied):
        homed = lied.withColumn("home", host_of(F.col("member")))
        wrong.append(homed.join(F.broadcast(evidence.homes), ["world", "home"], "left_semi"))
    if not evidence.is_none(behind):
        wrong.append(_hidden(evidence, behind, calm))
    offences = [_offences(evidence, each) for each in wrong]
    followed = ((each[:5], each.world, each.from_at, each.until_at) for each in facts.informed)
    judged: dict[tuple[str, str, int, str, int], int] = {}
    for key, _, moment in met(followed, calm, facts.times):
        judged[key] = min(moment, judged.get(key, moment))
    fine = [
        (world, False, moment, host, epoch, None, None)
        for (world, host, epoch, _, _), moment in judged.items()
    ]
    unlisted = owed(evidence, bound_s, "followed", "%s has followed %s and was never given a list")
    if not evidence.is_none(unlisted):
        offences.append(undoubted(unlisted, evidence.doubted, F.array("writer"), F.col("at")))
    return evidence.all_of(*offences, evidence.few(fine, FINDINGS))


def _offences(evidence: Evidence, wrong: DataFrame) -> DataFrame:
    here, there = F.col("seen_by"), host_of(F.col("member"))
    is_missing, is_ghost = F.col("what") == "missing", F.col("what") == "ghost"
    found = undoubted(
        wrong,
        evidence.doubted,
        F.array("seen_by", there),
        F.col("moment"),
        since=F.col("from_at"),
        through=way(here, there),
        reached=F.when(is_missing, F.col("since")),
    )
    text = said(
        "{seen_by} {sees} {member} in {group}, {but}",
        sees=F.when(is_missing, "does not see").otherwise("sees"),
        but=F.when(is_missing, "which is in it and within reach")
        .when(is_ghost, "which is not in it")
        .otherwise("and cannot reach it"),
    )
    nobody = {"epoch": F.lit(None), "seq": F.lit(None)}
    return shaped(found, FINDINGS, at="moment", writer="seen_by", text=text, **nobody)


def _behind(evidence: Evidence, calm: Sequence[Calm]) -> DataFrame:
    """Stays that a broken way ought to have ended."""
    stays = ("world", "seen_by", "group", "member", "left_at", "from_at", "end")
    return evidence.across(evidence.facts.failing_first(calm), *stays)


def _hidden(evidence: Evidence, behind: DataFrame, calm: Sequence[Calm]) -> DataFrame:
    """Members that are seen though the way to them is broken. Of a fault that lasts over several calms the
    first one tells, but for those that a simulator settled. A host that stands still itself sees nothing."""
    idle = sorted({(each.world, each.moment, place) for each in calm for place in each.broken})
    when = schema(world="text?", fault_from="time?", seen_by="text?")
    return (
        behind.where(F.col("from_at") < F.col("fault_from"))
        .join(F.broadcast(evidence.few(idle, when)), ["world", "fault_from", "seen_by"], "left_anti")
        .select(
            *("world", "seen_by", "group", "member", F.lit("hidden").alias("what"), "from_at"),
            *(F.col("left_at").alias("until_at"), F.col("fault_from").alias("moment")),
            F.col("fault_from").alias("since"),
        )
        .distinct()
    )
