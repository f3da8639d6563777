"""`stable-truth`: once changes stop, every observer in one component reports the same, true membership.

Whenever the world is calm (see `truth`), of every host that follows a group:

    ghost      it sees somebody who is not in the group, as its home's journal says
    hidden     it sees somebody whom it cannot reach
    missing    it does not see a member that it can reach
    unlisted   it has followed for so long, and was never given a list

In a simulated world that is exactly what its checker says. In a real one, *at rest* is a stretch without any
change of any link, in which what differs for longer than the bound is wrong; whom a host can reach is known
from what the ends of links report, so a host behind a link that both ends call up counts as reachable.

*Cannot see:* answers to questions. Their members are not in the journal, only their number.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.owed import owed
from rostra.history.audits.truth import in_the_way, meeting, sharing
from rostra.history.places import host_of, way
from rostra.history.shape import shaped

BOUND_S: Final = 30.0
"""How long news may take in a real world at rest: longer than any profile's patience and delays together."""


def stable_truth(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every stretch of following that met a calm, and everything wrong in one (`FINDINGS`)."""
    times = evidence.times
    calm = evidence.calm(bound_s)
    here, there = F.col("seen_by"), host_of(F.col("member"))
    is_missing, is_ghost = F.col("what") == "missing", F.col("what") == "ghost"

    lasted = meeting(evidence.lasting(bound_s), calm, times)
    excused = F.when(is_missing, F.arrays_overlap(way(here, there), "broken")).otherwise(
        F.array_contains("broken", here)
    )
    known = F.broadcast(evidence.homes)
    wrong = lasted.where(~excused).withColumn("home", there).join(known, ["world", "home"], "left_semi")

    hidden = _hidden(evidence, calm)
    found = undoubted(
        wrong.select(*hidden.columns).unionByName(hidden),
        evidence.doubted,
        F.array("seen_by", there),
        F.col("moment"),
        since=F.col("from_at"),
        through=way(here, there),
        reached=F.when(is_missing, F.col("since")),
    )
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
        found, FINDINGS, at="moment", writer="seen_by", epoch=F.lit(None), seq=F.lit(None), text=said
    )
    judged = meeting(evidence.informed, calm, times)
    fine = shaped(
        judged.groupBy("world", "seen_by", "epoch", "group", "from_at").agg(F.min("moment").alias("at")),
        FINDINGS,
        broken=F.lit(False),
        writer="seen_by",
        seq=F.lit(None),
        text=F.lit(None),
    )
    unlisted = owed(evidence, bound_s, ("followed",), "%s has followed %s and was never given a list")
    return offences.unionByName(fine).unionByName(
        undoubted(unlisted, evidence.doubted, F.array("writer"), F.col("at"))
    )


def _hidden(evidence: Evidence, calm: DataFrame) -> DataFrame:
    """Members that are seen though the way to them is broken. Of a fault that lasts over several calms the
    first one tells, but for those that a simulator settled. A host that stands still itself sees nothing."""
    hot = calm.select(
        "world",
        "settled",
        F.timestamp_micros(F.unix_micros("since") + F.col("wait_us")).alias("moment"),
        F.explode("broken").alias("place"),
    )
    held = sharing(
        hot.withColumn("from_at", F.col("moment")).withColumn("end", F.col("moment")),
        evidence.at_fault,
        ["world", "place"],
    ).where((F.col("fault_from") < F.col("moment")) & (F.col("fault_until") >= F.col("moment")))
    first = Window.partitionBy("world", "place", "fault_from").orderBy("moment")
    asked = (
        held.withColumn("nth", F.row_number().over(first))
        .where(F.col("settled") | (F.col("nth") == 1))
        .select("world", "place", F.col("moment").alias("fault_from"), F.col("moment").alias("fault_until"))
        .distinct()
    )
    idle = hot.select("world", "moment", F.col("place").alias("seen_by")).distinct()
    return (
        in_the_way(evidence.seen, asked)
        .withColumnRenamed("fault_from", "moment")
        .where(F.col("from_at") < F.col("moment"))
        .join(F.broadcast(idle), ["world", "moment", "seen_by"], "left_anti")
        .select(
            *("world", "seen_by", "group", "member", F.lit("hidden").alias("what"), "from_at"),
            *(F.col("left_at").alias("until_at"), "moment", F.col("moment").alias("since")),
        )
        .distinct()
    )
