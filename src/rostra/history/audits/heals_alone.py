"""`heals-alone`: a healed partition re-merges without an operator, within the heal bound.

Whenever something fails or works again the clock starts anew; if nothing else happens for the bound, every
host that follows a group must by then see every member that it can reach. Who could be reached and was not
seen from before the last disturbance until after the bound is the offence.

In a simulated world disturbances are what was done to it, in a real one what links and servers report.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.facts import waiting
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.truth import CALM_HOURS, calm_hours, sharing
from rostra.history.places import host_of, way
from rostra.history.shape import said, seconds, shaped

BOUND_S: Final = 60.0
"""Longer than any profile takes to meet again and to merge."""


def heals_alone(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every member that was out of sight when something happened, and in reach (`FINDINGS`)."""
    turns = evidence.facts.disturbances
    missing = evidence.lasting(bound_s).where(F.col("what") == "missing")
    calm = evidence.facts.with_broken(waiting(turns, bound_s))
    lied = evidence.lied(bound_s, calm)
    # Told when it was seen again: the disturbance before that was the last.
    mended = (
        missing.where("mended")
        .withColumnRenamed("from_at", "missed_at")
        .withColumn("from_at", F.col("until_at"))
        .withColumn("end", F.col("until_at"))
    )
    others = evidence.few(calm_hours(turns), CALM_HOURS)
    healed = (
        sharing(mended, others, "since", "calm_until", ["world"])
        .where(F.col("missed_at") < F.col("since"))  # what is new in that very moment comes after it
        .where(seconds(F.col("since"), F.col("until_at")) <= bound_s)
        .withColumn("from_at", F.col("missed_at"))
    )
    key = ("world", "seen_by", "group", "member", "from_at")
    nobody = {"epoch": F.lit(None), "seq": F.lit(None)}
    fine = shaped(
        healed.groupBy(*key).agg(F.min("until_at").alias("at")),
        FINDINGS,
        broken=F.lit(False),
        writer="seen_by",
        text=F.lit(None),
        **nobody,
    )
    if evidence.is_none(lied):
        return fine
    here, there = F.col("seen_by"), host_of(F.col("member"))
    late = undoubted(
        lied.where((F.col("what") == "missing") & (F.col("from_at") <= F.col("since"))).where(
            F.col("moment") < F.col("calm_until")
        ),
        evidence.doubted,
        F.array("seen_by", there),
        F.col("moment"),
        since=F.col("from_at"),
        through=way(here, there),
        reached=F.col("since"),
    )
    broken = shaped(
        late.groupBy(*key).agg(F.min("since").alias("at"), F.max("broken").alias("broken")),
        FINDINGS,
        writer="seen_by",
        text=said(f"{{seen_by}} did not see {{member}} in {{group}} again within {bound_s:g} s"),
        **nobody,
    )
    return broken.unionByName(fine)
