"""`heals-alone`: a healed partition re-merges without an operator, within the heal bound.

Whenever something fails or works again the clock starts anew; if nothing else happens for the bound, every
host that follows a group must by then see every member that it can reach. Who could be reached and was not
seen from before the last disturbance until after the bound is the offence.

In a simulated world disturbances are what was done to it, in a real one what links and servers report.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.truth import (
    DISTURBING,
    at_fault,
    failing_at,
    in_the_way,
    lies,
    meeting,
)
from rostra.history.places import host_of
from rostra.history.shape import seconds, shaped

BOUND_S: Final = 60.0
"""Longer than any profile takes to meet again and to merge."""


def heals_alone(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every member that was out of sight when something happened, and in reach (`FINDINGS`)."""
    missing = lies(evidence.events, evidence.lived, evidence.informed).where(F.col("what") == "missing")
    turns = disturbances(evidence, bound_s)
    here, there = F.col("seen_by"), host_of(F.col("member"))
    broken = F.broadcast(at_fault(evidence.faults))
    still = meeting(missing, turns.where(F.col("moment") < F.col("next_at"))).join(
        broken,
        (F.col("world") == F.col("fault_world")) & failing_at(F.col("moment")) & in_the_way(here, there),
        "left_anti",
    )
    late = undoubted(still, evidence.doubts, F.array("seen_by", there), F.col("moment"))
    begun = turns.withColumn("moment", F.col("since"))
    healed = meeting(missing.where("mended"), begun).where(
        (F.col("until_at") <= F.col("next_at")) & (seconds(F.col("since"), F.col("until_at")) <= bound_s)
    )
    key = ("world", "seen_by", "group", "member", "from_at")
    return shaped(
        late.groupBy(*key).agg(F.min("since").alias("at")),
        FINDINGS,
        broken=F.lit(True),
        writer="seen_by",
        epoch=F.lit(None),
        seq=F.lit(None),
        text=F.format_string(
            f"%s did not see %s in %s again within {bound_s:g} s", "seen_by", "member", "group"
        ),
    ).unionByName(
        shaped(
            healed.groupBy(*key).agg(F.min("until_at").alias("at")),
            FINDINGS,
            broken=F.lit(False),
            writer="seen_by",
            epoch=F.lit(None),
            seq=F.lit(None),
            text=F.lit(None),
        )
    )


def disturbances(evidence: Evidence, bound_s: float) -> DataFrame:
    """Everything that fails or works again (`MOMENTS`, with `next_at`): `since` is when it did, `moment` when
    all must be well if nothing else happens before."""
    events, kind = evidence.events, F.col("kind")
    done = events.where(kind.isin("server-changed", "line-changed") & (F.col("role") == "sim"))
    seen = events.where(kind.isin(*DISTURBING)).join(F.broadcast(evidence.simulated), "world", "left_anti")
    newest = evidence.lived.groupBy("world").agg(F.max("last_at").alias("newest"))
    story = Window.partitionBy("world").orderBy("at")
    return (
        done.select("world", "at")
        .unionByName(seen.select("world", "at"))
        .distinct()
        .withColumn("later_at", F.lead("at").over(story))
        .join(F.broadcast(newest), "world")
        .select(
            "world",
            F.timestamp_micros(F.unix_micros("at") + int(bound_s * 1e6)).alias("moment"),
            F.col("at").alias("since"),
            F.lit(0).alias("settled"),
            F.coalesce("later_at", "newest").alias("next_at"),
        )
    )
