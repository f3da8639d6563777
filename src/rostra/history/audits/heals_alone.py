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
    MOMENTS,
    at_fault,
    failing_at,
    in_the_way,
    lies,
    meeting,
)
from rostra.history.places import host_of
from rostra.history.shape import shaped

BOUND_S: Final = 60.0
"""Longer than any profile takes to meet again and to merge."""


def heals_alone(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every member that was out of sight when something happened, and in reach (`FINDINGS`)."""
    events = evidence.events
    missing = lies(events, evidence.lived, evidence.informed).where(F.col("what") == "missing")
    due = deadlines(evidence, bound_s)
    here, there = F.col("seen_by"), host_of(F.col("member"))
    broken = F.broadcast(at_fault(evidence.faults))
    still = meeting(missing, due).join(
        broken,
        (F.col("world") == F.col("fault_world")) & failing_at(F.col("moment")) & in_the_way(here, there),
        "left_anti",
    )
    late = undoubted(still, evidence.doubts, F.array("seen_by", there), F.col("moment"))
    begun = due.withColumn("moment", F.col("since"))
    healed = meeting(missing.where(F.col("until_at").isNotNull()), begun).join(
        still.select("world", "seen_by", "group", "member", "from_at"),
        ["world", "seen_by", "group", "member", "from_at"],
        "left_anti",
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


def deadlines(evidence: Evidence, bound_s: float) -> DataFrame:
    """`bound_s` after each disturbance that is not followed by another before that (`MOMENTS`)."""
    events, known = evidence.events, evidence.simulated
    kind = F.col("kind")
    done = events.where(kind.isin("server-changed", "line-changed") & (F.col("role") == "sim"))
    seen = events.where(kind.isin(*DISTURBING)).join(F.broadcast(known), "world", "left_anti")
    newest = events.groupBy("world").agg(F.max("at").alias("newest"))
    story = Window.partitionBy("world").orderBy("at")
    times = (
        done.select("world", "at")
        .unionByName(seen.select("world", "at"))
        .distinct()
        .withColumn("next_at", F.lead("at").over(story))
        .join(F.broadcast(newest), "world")
        .withColumn("moment", F.timestamp_micros(F.unix_micros("at") + int(bound_s * 1e6)))
        .where(F.col("moment") < F.coalesce("next_at", "newest"))
    )
    return shaped(times, MOMENTS, since="at", settled=F.lit(0))
