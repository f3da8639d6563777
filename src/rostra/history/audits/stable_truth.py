"""`stable-truth`: once changes stop, every observer in one component reports the same, true membership.

At every moment when the world is at rest (see `truth`), of every host that follows a group:

    ghost      it sees somebody who is not in the group
    hidden     it sees somebody whom it cannot reach
    missing    it does not see a member that it can reach
    unlisted   it has followed for so long, and was never given a list

In a simulated world that is exactly what its checker says. In a real one, *at rest* is a stretch without any
change of any link, in which what differs for longer than the bound is wrong; whom a host can reach is known
from what the ends of links report, so a host behind a link that both ends call up counts as reachable.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.owed import owed
from rostra.history.audits.truth import (
    at_fault,
    failing_at,
    in_the_way,
    lies,
    meeting,
)
from rostra.history.places import host_of
from rostra.history.questions.stays import stays
from rostra.history.shape import shaped

BOUND_S: Final = 30.0
"""How long news may take in a real world at rest: longer than any profile's patience and delays together."""


def stable_truth(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every stretch of following that met a moment of rest, and everything wrong at one (`FINDINGS`)."""
    events, lived, points = evidence.events, evidence.lived, evidence.moments(bound_s)
    broken = F.broadcast(at_fault(evidence.faults))
    doubted = evidence.doubts
    here, there = F.col("seen_by"), host_of(F.col("member"))
    at, world = F.col("moment"), F.col("world") == F.col("fault_world")

    lasted = meeting(lies(events, lived, evidence.informed), points)
    excused = failing_at(at) & F.when(F.col("what") == "missing", in_the_way(here, there)).otherwise(
        F.col("server") == here
    )
    wrong = lasted.join(broken, world & excused, "left_anti")

    hot = points.join(broken, world & failing_at(at))
    first = hot.groupBy("fault_world", "server", "a", "b", "fault_from", "settled").agg(
        F.min("moment").alias("moment")
    )
    asked = (
        hot.where(F.col("settled") == 1)
        .select("fault_world", "server", "a", "b", "moment")
        .unionByName(first.where(F.col("settled") == 0).select("fault_world", "server", "a", "b", "moment"))
    )
    seen = stays(events, lived)
    behind = (
        seen.join(F.broadcast(asked), (F.col("world") == F.col("fault_world")) & in_the_way(here, there))
        .where((F.col("joined_at") < at) & (F.col("left_at").isNull() | (F.col("left_at") >= at)))
        .select(*seen.columns, "moment")
    )
    hidden = (
        behind.join(broken, world & failing_at(at) & (F.col("server") == here), "left_anti")
        .select(
            "world",
            "seen_by",
            "group",
            "member",
            F.lit("hidden").alias("what"),
            F.col("joined_at").alias("from_at"),
            F.col("left_at").alias("until_at"),
            "moment",
        )
        .distinct()
    )
    columns = hidden.columns
    found = undoubted(
        wrong.select(*columns).unionByName(hidden), doubted, F.array("seen_by", there), F.col("moment")
    )
    is_missing, is_ghost = F.col("what") == "missing", F.col("what") == "ghost"
    said = F.concat(
        F.col("seen_by"),
        F.when(is_missing, " does not see ").otherwise(" sees "),
        F.col("member"),
        F.lit(" in "),
        F.col("group"),
        F.when(is_missing, ", which is in it and within reach")
        .when(is_ghost, ", which is not in it")
        .otherwise(", and cannot reach it"),
    )
    offences = shaped(
        found,
        FINDINGS,
        broken=F.lit(True),
        at="moment",
        writer="seen_by",
        epoch=F.lit(None),
        seq=F.lit(None),
        text=said,
    )
    judged = meeting(evidence.informed, points)
    fine = shaped(
        judged.groupBy("world", "seen_by", "epoch", "group", "from_at").agg(F.min("moment").alias("at")),
        FINDINGS,
        broken=F.lit(False),
        writer="seen_by",
        seq=F.lit(None),
        text=F.lit(None),
    )
    unlisted = owed(events, lived, points, ("followed",), "%s has followed %s and was never given a list")
    return offences.unionByName(fine).unionByName(
        undoubted(unlisted, doubted, F.array("writer"), F.col("at"))
    )
