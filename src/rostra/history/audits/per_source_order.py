"""`per-source-order`: two events about one source are reported everywhere in the order they happened.

Every join and leave carries a stamp of its home, which only grows. So in what one observer is told of one
member in one group, stamps never go back; and what a node says of one neighbour alternates: up, down, up.

Judged first per host, which needs no list of observers: if stamps never go back for the whole host, they do
for none of its observers. Only where they do are the observers told apart (a newcomer may be given an older
list than its neighbours have already).

*Not covered:* the order of answers to questions. Their members are not in the journal, only their number.
"""

from operator import itemgetter

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.arrow_fast_path import EventSource, answered, origin_of
from rostra.history.audits.at_hand import went_back
from rostra.history.audits.evidence import Evidence, Judged
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.order_fast_path import StampComparison
from rostra.history.shape import said, shaped


def per_source_order(evidence: Evidence) -> DataFrame:
    """Every comparison of two stamps, and every report about a neighbour that repeats itself (`FINDINGS`)."""
    origin = evidence.by_life
    told = evidence.of("absolute", "joined", "left") if origin is None else evidence.events
    return told_in_order(told, origin).unionByName(links_alternate(evidence))


def per_source_order_at_hand(evidence: Evidence) -> Judged:
    """What of it is not fine, and how much is."""
    assert evidence.at_hand is not None
    broken, fine = went_back(evidence.at_hand)
    told = evidence.found(broken)
    return evidence.all_of(told, links_alternate(evidence)), fine


def told_in_order(events: DataFrame, origin: EventSource | None = None) -> DataFrame:
    """The heavy half. Straight from files (`origin`) there is nothing to sort; else it is one exchange by a
    64-bit hash, and one sort by two numbers."""
    origin = origin_of(events, by_life=True) if origin is None else origin
    if origin is not None:
        return answered(events, origin, StampComparison(), FINDINGS)
    told = events.where(
        F.col("stamp").isNotNull()
        & F.col("member").isNotNull()
        & (
            (F.col("kind").isin("absolute", "joined") & (F.col("change") == "joined"))
            | (F.col("kind") == "left")
        )
    ).select(
        F.xxhash64("world", "writer", "epoch", "group", "member").alias("key"),
        *("seq", "life", "stamp", "world", "writer", "epoch", "at", "group", "member", "observers"),
    )
    story = Window.partitionBy("key").orderBy("seq")
    compared = (
        told.drop("observers", "group", "member")
        .withColumn("life_before", F.lag("life").over(story))
        .withColumn("stamp_before", F.lag("stamp").over(story))
        .where(F.col("stamp_before").isNotNull())
        .withColumn("back", _went_back())
    )
    fine = shaped(compared.where(~F.col("back")), FINDINGS, broken=F.lit(False), seq="seq", text=F.lit(None))
    suspects = compared.where("back").select("key").distinct()
    each = Window.partitionBy("key", "observer").orderBy("seq")
    by_observer = (
        told.join(F.broadcast(suspects), "key", "left_semi")
        .withColumn("observer", F.explode("observers"))
        .withColumn("life_before", F.lag("life").over(each))
        .withColumn("stamp_before", F.lag("stamp").over(each))
        .where(F.col("stamp_before").isNotNull() & _went_back())
    )
    broken = shaped(
        by_observer,
        FINDINGS,
        broken=F.lit(True),
        text=said(
            "{observer} was told of {member} in {group} as of {life}.{stamp}, after"
            " {life_before}.{stamp_before}"
        ),
    )
    return fine.unionByName(broken)


def links_alternate(evidence: Evidence) -> DataFrame:
    """Reports that say what the one before said; those that alternate are no finding, they are expected."""
    before: dict[tuple[str, ...], str] = {}
    again = []
    columns = ("seq", "at", "kind", "world", "writer", "epoch", "peer")
    reports = evidence.facts.marked(("link-up", "link-down"), *columns)
    for seq, at, kind, *story in sorted(reports, key=itemgetter(0)):
        if before.get((*story,), "link-down") == kind:
            world, writer, epoch, peer = story
            text = f"{writer} reported {peer} {kind.removeprefix('link-')} twice running"
            again.append((world, True, at, writer, epoch, seq, text))
        before[*story,] = kind
    found = evidence.few(again, FINDINGS)
    if not again:
        return found
    return shaped(
        undoubted(found, evidence.doubted, F.array("writer"), F.col("at"), since=F.col("at")), FINDINGS
    )


def _went_back() -> Column:
    return (F.col("life") < F.col("life_before")) | (
        (F.col("life") == F.col("life_before")) & (F.col("stamp") < F.col("stamp_before"))
    )
