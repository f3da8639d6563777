"""Facts about led sets, from journals, for the audits of their promises (P-1 to P-4).

    stood     where an agent stood in a set, from when to when, and in which registrar it believed
    leading   from when to when it led
    listed    who was on its list meanwhile
    at_home   which members a host had

They are judged only in stretches in which, for the bound at least, nothing but hosts was broken: in a
partition each side has its own leader, and these audits do not work out which agents are on which side.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.every_change import too_long, working
from rostra.history.audits.evidence import Evidence, judged_with
from rostra.history.audits.facts import Calm
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.truth import lies, meeting
from rostra.history.places import way
from rostra.history.questions.lives import ends
from rostra.history.shape import said, shaped, sums

BOUND_S: Final = 150.0
"""Longer than registrars, circuits and claims take to be there again, and two leases to be over."""

STORY: Final = ("world", "writer", "epoch", "group")
STANDING: Final = ("leads", "child", "out")

if_led: Final = judged_with("led")


def stood(evidence: Evidence) -> DataFrame:
    """world, writer, epoch, group, what, domain, from_at, until_at: without the times in which it had nothing
    of the set."""
    rows = evidence.of("led").where(F.col("what").isin(*STANDING))
    story = Window.partitionBy(*STORY).orderBy("seq")
    return (
        rows.select(*STORY, "seq", "at", "what", "domain")
        .withColumn("next_at", F.lead("at").over(story))
        .join(F.broadcast(ends(evidence.lived)), ["world", "writer", "epoch"], "left")
        .where(F.col("what") != "out")
        .select(
            *(*STORY, "what", "domain", F.col("at").alias("from_at")),
            F.coalesce("next_at", "life_end").alias("until_at"),
        )
    )


def leading(evidence: Evidence) -> DataFrame:
    return stood(evidence).where(F.col("what") == "leads").withColumnRenamed("writer", "seen_by")


def listed(evidence: Evidence) -> DataFrame:
    """world, seen_by, epoch, group, member, joined_at, left_at."""
    rows = evidence.of("led").where(
        F.col("what").isin("lists", "child", "out") & ~F.col("change").eqNullSafe("kept")
    )
    story = Window.partitionBy(*STORY).orderBy("seq")
    over = F.col("what") != "lists"
    before = story.rowsBetween(Window.unboundedPreceding, -1)
    term = Window.partitionBy(*STORY, "term")
    of_member = Window.partitionBy(*STORY, "term", "member").orderBy("seq")
    return (
        rows.select(*STORY, "seq", "at", "what", "member", "change")
        .withColumn("term", F.coalesce(F.count_if(over).over(before), F.lit(0)))
        .withColumn("over_at", F.max(F.when(over, F.col("at"))).over(term))
        .join(F.broadcast(ends(evidence.lived)), ["world", "writer", "epoch"], "left")
        .where(~over)
        .withColumn("left_at", F.coalesce(F.lead("at").over(of_member), F.col("over_at"), F.col("life_end")))
        .where(F.col("change") == "joined")
        .select(
            *("world", F.col("writer").alias("seen_by"), "epoch", "group", "member"),
            *(F.col("at").alias("joined_at"), "left_at"),
        )
    )


def at_home(evidence: Evidence) -> DataFrame:
    """world, group, member, joined_at, left_at."""
    rows = evidence.of("led").where(F.col("what") == "member")
    story = Window.partitionBy(*STORY, "member").orderBy("seq")
    return (
        rows.select(*STORY, "seq", "at", "member", "change")
        .withColumn("next_at", F.lead("at").over(story))
        .join(F.broadcast(ends(evidence.lived)), ["world", "writer", "epoch"], "left")
        .where(F.col("change") == "joined")
        .select(
            *("world", "group", "member", F.col("at").alias("joined_at")),
            F.coalesce("next_at", "life_end").alias("left_at"),
        )
    )


def while_wrong(counts: DataFrame, key: list[str], wrong: Column) -> DataFrame:
    """From intervals with numbers (`from_at`, `until_at`, and columns that are summed while they last): those
    in which the sums are wrong, as long as they are; the key, from_at, until_at."""
    names = [name for name in counts.columns if name not in (*key, "from_at", "until_at")]
    story = Window.partitionBy(*key).orderBy("at")
    return (
        sums(counts, key, "from_at", "until_at", **{name: name for name in names})
        .withColumn("wrong", wrong)
        .withColumn("was", F.lag("wrong").over(story))
        .where(F.col("was").isNull() | (F.col("was") != F.col("wrong")))
        .withColumn("until_at", F.lead("at").over(story))
        .where("wrong")
        .select(*key, F.col("at").alias("from_at"), "until_at")
    )


def judged(
    evidence: Evidence, wrong: DataFrame, there: DataFrame, key: list[str], text: Column, bound_s: float
) -> DataFrame:
    """What was wrong for too long, and what there was to be judged (`FINDINGS`). `there` also has `writer`:
    what is wrong of a set rests on all its agents."""
    calm = working(evidence, bound_s)
    agents = there.groupBy(*key).agg(F.collect_set("writer").alias("writers"))
    writers = F.col("writers")
    broken = undoubted(
        meeting(evidence, wrong, calm).join(F.broadcast(agents), key),
        evidence.doubted,
        writers,
        F.col("moment"),
        since=F.col("from_at"),
        through=F.flatten(F.transform(writers, lambda agent: way(agent, F.get(writers, F.lit(0))))),
        reached=F.col("since"),
    )
    nobody = {"writer": F.lit(None), "epoch": F.lit(None), "seq": F.lit(None)}
    return shaped(broken, FINDINGS, at="moment", text=text, **nobody).unionByName(
        _fine(evidence, there, calm)
    )


def lists_judged(evidence: Evidence, bound_s: float, *wrongs: str) -> DataFrame:
    """Leaders' lists against what hosts have: members that are `missing`, and `ghost`s (`FINDINGS`)."""
    calm, led = working(evidence, bound_s), evidence.once(leading(evidence))
    found = lies(listed(evidence), at_home(evidence), led).where(F.col("what").isin(*wrongs))
    broken = too_long(evidence, found, calm)
    is_missing = F.col("what") == "missing"
    text = said(
        f"{{seen_by}} leads {{group}} and {{does}} {{member}}, which {{is}}, {bound_s:g} s after"
        f" everything works",
        does=F.when(is_missing, "does not list").otherwise("lists"),
        **{"is": F.when(is_missing, "is in it").otherwise("is gone")},
    )
    nobody = {"epoch": F.lit(None), "seq": F.lit(None)}
    return shaped(broken, FINDINGS, at="moment", writer="seen_by", text=text, **nobody).unionByName(
        _fine(evidence, led.withColumnRenamed("seen_by", "writer"), calm)
    )


def _fine(evidence: Evidence, there: DataFrame, calm: list[Calm]) -> DataFrame:
    return shaped(
        meeting(evidence, there, calm),
        FINDINGS,
        broken=F.lit(False),
        at="moment",
        seq=F.lit(None),
        text=F.lit(None),
    )
