"""Facts about agreed views, from journals, for the audits of their promises.

    given     every view that a member was given, in the order of its stay
    sights    who was in the last view of a host, from when to when, while it was not blocked

    living    when members of a host had a living view with a fence
    absences  when members of a host had one without some other member

A stay of a member is from its join to its leave, at its own agent. A host looks at a group from the first
view that one of its members is given until it is blocked, or has no member any more.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence, Judged, judged_with
from rostra.history.questions.lives import ends

KINDS: Final = ("view", "view-agreed")
if_agreed: Final = judged_with(*KINDS)
STORY: Final = ("world", "writer", "epoch", "group")


def shown(evidence: Evidence) -> DataFrame:
    """One row for each view that an agent gave or a server agreed on."""
    return (
        evidence.of(*KINDS)
        .where(F.col("nth") == 0)
        .select(*STORY, "seq", "at", "kind", "first", "view", "fence", "digest")
    )


def compared(rows: DataFrame, *key: str, value: str) -> DataFrame:
    """Of rows with equal keys: the value and the writer of the first of them."""
    same = Window.partitionBy(*key).orderBy("at", "writer", "epoch", "seq")
    return rows.withColumn("first_value", F.first(value).over(same)).withColumn(
        "first_writer", F.first("writer").over(same)
    )


def given(evidence: Evidence) -> DataFrame:
    """Every view that a member was given, with what it was given before in the same stay: `place`, `fence`,
    `view` and `at`, each also as `..._before`."""
    views = (
        evidence.of("view")
        .where(F.col("nth") == 0)
        .select(*STORY, "seq", "at", "kind", "view", "fence", F.explode("observers").alias("observer"))
    )
    joins = _of_agreed(evidence, "member-joined").select(
        *STORY, "seq", "at", "kind", "view", "fence", F.col("member").alias("observer")
    )
    life = Window.partitionBy(*STORY, "observer").orderBy("seq")
    stay = Window.partitionBy(*STORY, "observer", "stay").orderBy("seq")
    told = (
        views.unionByName(joins)
        .withColumn("stay", F.count_if(F.col("kind") == "member-joined").over(life))
        .where(F.col("kind") == "view")
        .withColumn("place", place_of_view(F.col("view")))
    )
    for name in ("place", "fence", "view", "at"):
        told = told.withColumn(f"{name}_before", F.lag(name).over(stay))
    return told.where(F.col("view_before").isNotNull())


def place_of_view(view: Column) -> Column:
    """Number and revision of a view's id."""
    numbers = F.split(F.substring_index(view, " ", 1), r"\.")
    return F.struct(
        F.get(numbers, F.lit(0)).cast("long").alias("number"),
        F.get(numbers, F.lit(1)).cast("long").alias("revision"),
    )


class Sights(NamedTuple):
    placed: DataFrame  # rows about views and about members of the own host, with the period they belong to
    seen: DataFrame  # world, seen_by, epoch, group, member, joined_at, left_at
    looking: DataFrame  # world, seen_by, epoch, group, from_at, until_at
    blocked: DataFrame  # the same, of hosts that were told that nothing is agreed


def sights(evidence: Evidence) -> Sights:
    columns = [*STORY, "seq", "at", "kind", "nth", "member", "change", "news"]
    columns += ["fence", "view", "observers", "own_lateness_s"]
    turns = (
        evidence.of("view", "blocked")
        .select(*columns)
        .unionByName(_of_agreed(evidence, "member-joined", "member-left").select(*columns))
    )
    kind = F.col("kind")
    story = Window.partitionBy(*STORY).orderBy("seq")
    here = F.when(kind == "member-joined", 1).when(kind == "member-left", -1).otherwise(0)
    over = (kind == "member-left") & (F.col("here") <= 0)
    period = Window.partitionBy(*STORY, "period")
    placed = (
        turns.withColumn("here", F.sum(here).over(story))
        .withColumn("over", over)
        .withColumn(
            "period",
            F.coalesce(
                F.sum(F.col("over").cast("int")).over(story.rowsBetween(Window.unboundedPreceding, -1)),
                F.lit(0),
            ),
        )
        .join(F.broadcast(ends(evidence.lived)), ["world", "writer", "epoch"], "left")
        .withColumn(
            "end", F.coalesce(F.max(F.when(F.col("over"), F.col("at"))).over(period), F.col("life_end"))
        )
    )
    key = ("world", "writer", "epoch", "group")
    in_period = Window.partitionBy(*STORY, "period").orderBy("seq")
    states = (
        placed.where(kind.isin("view", "blocked") & (F.col("nth") == 0))
        .withColumn("kind_before", F.lag("kind").over(in_period))
        .where(F.col("kind_before").isNull() | (F.col("kind_before") != kind))
        .withColumn("until_at", F.coalesce(F.lead("at").over(in_period), F.col("end")))
        .select(*key, "kind", F.col("at").alias("from_at"), "until_at")
        .withColumnRenamed("writer", "seen_by")
    )
    of_member = Window.partitionBy(*STORY, "period", "member").orderBy("seq")
    stays = (
        placed.where((kind == "view") & F.col("news") & F.col("change").isin("joined", "left"))
        .withColumn("until_at", F.coalesce(F.lead("at").over(of_member), F.col("end")))
        .where(F.col("change") == "joined")
        .select(*key, "member", F.col("at").alias("joined_at"), F.col("until_at").alias("left_at"))
        .withColumnRenamed("writer", "seen_by")
    )
    looking = states.where(F.col("kind") == "view").drop("kind")
    seen = (
        stays.join(looking, ["world", "seen_by", "epoch", "group"])
        .withColumn("joined_at", F.greatest("joined_at", "from_at"))
        .withColumn("left_at", F.least("left_at", "until_at"))
        .where(F.col("left_at").isNull() | (F.col("left_at") > F.col("joined_at")))
        .drop("from_at", "until_at")
    )
    return Sights(placed, seen, looking, states.where(F.col("kind") == "blocked").drop("kind"))


def living(found: Sights) -> DataFrame:
    """When members of a host lived, by a fence: world, writer, epoch, group, fence, view, observer, from_at,
    until_at. An agent that stood still knew nothing meanwhile: then, until its last step before."""
    kind = F.col("kind")
    in_period = Window.partitionBy(*STORY, "period").orderBy("seq")
    late_us = (F.coalesce(F.lead("own_lateness_s").over(in_period), F.lit(0.0)) * 1e6).cast("long")
    next_at = F.timestamp_micros(F.unix_micros(F.lead("at").over(in_period)) - late_us)
    return (
        found.placed.where(kind.isin("view", "blocked") & (F.col("nth") == 0))
        .withColumn("until_at", F.coalesce(next_at, F.col("end")))
        .where((kind == "view") & F.col("fence").isNotNull())
        .withColumn("observer", F.explode("observers"))
        .select(*STORY, "seq", "fence", "view", "observer", F.col("at").alias("from_at"), "until_at")
    )


def absences(found: Sights) -> DataFrame:
    """When members of a host lived without one that was in the view before: world, by, group, member,
    without_fence, without_view, gone_at, back_at."""
    kind = F.col("kind")
    of_member = Window.partitionBy(*STORY, "period", "member").orderBy("seq")
    in_period = Window.partitionBy(*STORY, "period").orderBy("seq")
    after = in_period.rowsBetween(1, Window.unboundedFollowing)
    blocked_at = F.first(F.when(kind == "blocked", F.col("at")), ignorenulls=True).over(after)
    return (
        found.placed.where(kind.isin("view", "blocked"))
        .withColumn("blocked_at", blocked_at)
        .where(F.col("news") & F.col("change").isin("joined", "left"))
        .withColumn("back_at", F.least(F.lead("at").over(of_member), "blocked_at", "end"))
        .where((F.col("change") == "left") & F.col("fence").isNotNull())
        .select(
            "world",
            F.col("writer").alias("by"),
            "group",
            "member",
            F.col("fence").alias("without_fence"),
            F.col("view").alias("without_view"),
            F.col("at").alias("gone_at"),
            "back_at",
        )
    )


def agreed_groups(evidence: Evidence) -> DataFrame:
    """Groups that have views: world, group. Looked for once."""

    def found() -> Judged:
        return evidence.keep(evidence.of(*KINDS).select("world", "group").distinct()), {}

    return evidence.judged("agreed groups", found)[0]


def _of_agreed(evidence: Evidence, *kinds: str) -> DataFrame:
    """Rows of these kinds, of groups that have views."""
    return evidence.events.where(F.col("kind").isin(*kinds)).join(
        F.broadcast(agreed_groups(evidence)), ["world", "group"], "left_semi"
    )
