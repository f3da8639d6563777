"""`both-sides-told`: each side of a partition is told, once per domain, within the detection bound.

    late     so long after the path broke, a host still sees a member that it cannot reach
    twice    one failure was told to one observer more than once
    alone    a member behind a cut was removed by itself, as if it had left, and not with its domain

In a simulated world the path breaks when it is cut. In a real one that time is not known; it counts from the
moment at which the first end of a link gave the other up, so the audit judges whether all other observers
were told in time after that.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence, judged_with, leave
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.truth import FAULT_HOURS, fault_hours, sharing
from rostra.history.places import host_of, way
from rostra.history.shape import said, seconds, shaped

BOUND_S: Final = 30.0
"""Longer than any profile takes to give up a silent neighbour and to say so everywhere."""


def both_sides_told(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every sight that a broken way should have ended, and every failure that was told (`FINDINGS`)."""
    return evidence.all_of(_late(evidence, bound_s), _twice(evidence), _alone(evidence))


def _late(evidence: Evidence, bound_s: float) -> DataFrame:
    """Stays of members that could not be reached: overlapping faults count as one."""
    faults = evidence.facts.faults
    key = ("world", "seen_by", "epoch", "group", "member", "joined_seq")
    pieces = (
        evidence.across(faults, *key, "left_at", "from_at", "end")
        .where((F.col("place") != F.col("seen_by")) & (F.col("fault_from") < F.col("end")))
        .where(F.col("fault_until") > F.col("from_at"))
        .select(
            *key,
            "left_at",
            F.greatest("from_at", "fault_from").alias("from_at"),
            F.least("end", "fault_until").alias("until_at"),
        )
    )
    ordered = Window.partitionBy(*key).orderBy("from_at", "until_at")
    reach = F.max("until_at").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    once = evidence.hold if evidence.at_hand is None else evidence.keep  # of what a fault can have ended
    runs = once(
        pieces.withColumn("reach", reach)
        .withColumn("new", (F.col("reach").isNull() | (F.col("from_at") > F.col("reach"))).cast("int"))
        .withColumn("run", F.sum("new").over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy(*key, "left_at", "run")
        .agg(F.min("from_at").alias("from_at"), F.max("until_at").alias("until_at"))
    )
    idle = sharing(
        runs.withColumn("place", F.col("seen_by")).withColumn("end", F.col("until_at")),
        evidence.few(fault_hours(faults), FAULT_HOURS),
        *("fault_from", "fault_until", ["world", "place"]),
    ).where((F.col("fault_from") < F.col("until_at")) & (F.col("fault_until") > F.col("from_at")))
    awake = runs.join(idle.select(*key, "run").distinct(), [*key, "run"], "left_anti").withColumn(
        "took_s", seconds(F.col("from_at"), F.col("until_at"))
    )
    late = F.col("took_s") > bound_s
    text = said(f"{{seen_by}} was not told within {bound_s:g} s that it lost {{member}} in {{group}}")
    return shaped(
        undoubted(
            awake.where(late | (F.col("left_at") == F.col("until_at"))),
            evidence.doubted,
            F.array("seen_by"),
            F.col("until_at"),
            since=F.col("from_at"),
            wrong=late,
            through=way(F.col("seen_by"), host_of(F.col("member"))),
        ),
        FINDINGS,
        at=F.when(late, F.col("from_at")).otherwise(F.col("until_at")),
        writer="seen_by",
        seq="joined_seq",
        text=F.when(late, text),
    )


@judged_with("without", "only")
def _twice(evidence: Evidence) -> DataFrame:
    """An observer was told of one neighbour's failure more often than the accuser ever gave it up. Of an
    accuser whose journal is not here, or has holes, nothing is known; and in groups that speak both the
    servers and the stream tell of it."""
    pair = ("world", "accuser", "accused")
    cuts = evidence.notices("without", "only").where(F.col("nth") == 0)
    silent = cuts.join(F.broadcast(evidence.speaking), ["world", "group"], "left_anti")
    told = silent.select(
        *pair, "writer", "epoch", "seq", "at", "group", "domain", F.explode("observers").alias("observer")
    )
    times = Window.partitionBy(*pair, "writer", "epoch", "group", "domain", "observer").orderBy("seq")
    numbered = told.withColumn("time", F.row_number().over(times))
    downs = evidence.downs.groupBy(*pair).agg(F.count(F.lit(1)).alias("downs"))
    told_again = (
        numbered.join(F.broadcast(evidence.accusers), ["world", "accuser"], "left_semi")
        .join(F.broadcast(downs), list(pair), "left")
        .where(F.col("time") > F.coalesce("downs", F.lit(0)))
    )
    broken = undoubted(told_again, evidence.doubted, F.array("accuser", "writer"), F.col("at"))
    text = said("{observer} was told twice of one failure of {accused}")
    return shaped(broken, FINDINGS, text=text)


def _alone(evidence: Evidence) -> DataFrame:
    """Leaves that are not in home's journal, told while the path to it was broken. In a group with messages a
    notice does not say which membership ended (it has no stamp), so it cannot be looked up at home."""
    told = evidence.notices("left")
    if evidence.is_none(told):
        return evidence.nothing
    left = (
        told.where(F.col("news") & F.col("stamp").isNotNull())
        .withColumn("key", leave())
        .join(evidence.unmade, "key", "left_semi")
    )
    there = host_of(F.col("member"))
    behind = (
        evidence.in_the_way(
            left.select(
                *("world", "member", "writer", "epoch", "seq", "at"),
                *(F.col("writer").alias("seen_by"), F.col("at").alias("from_at"), F.col("at").alias("end")),
            ),
            evidence.facts.faults,
        )
        .where((F.col("fault_from") < F.col("at")) & (F.col("fault_until") >= F.col("at")))
        .dropDuplicates(["world", "writer", "epoch", "seq"])
    )
    unknown = behind.withColumn("home", there).join(
        F.broadcast(evidence.homes), ["world", "home"], "left_semi"
    )
    return shaped(
        undoubted(
            unknown,
            evidence.doubted,
            F.array("writer", there),
            F.col("at"),
            since=F.col("at"),
            through=way(F.col("writer"), there),
        ),
        FINDINGS,
        text=said("{writer} was told of {member} alone, not of its domain"),
    )
