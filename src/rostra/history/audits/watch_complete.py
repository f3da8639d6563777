"""`watch-complete`: a snapshot, then every later change once and in order, or a `Gap` that says so.

    numbers   a watcher's changes are numbered: none is left out, repeated or out of turn
    calm      while nothing is disturbed, every change at home is told to every host that follows, once
    gap       a watcher that was told of a gap is given a new list before the world is at rest again

*Calm* is the time between two moments at which a simulated world settled, if nothing was done to it and no
link changed in between; in a real world, a stretch without any such row, less the bound at both ends. Hosts
are not judged on what their own programs did, nor on members that they could not reach.

*Not covered:* changes in groups with messages, whose notices have no stamps; and which of several followers
on one host was left out: a row names the followers that were told, but not those that should have been.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.at_hand import CHANGE, untold
from rostra.history.audits.evidence import Evidence, Judged, judged_with
from rostra.history.audits.facts import DISTURBING, Facts
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.observers import each_named
from rostra.history.audits.owed import owed
from rostra.history.audits.truth import bucket, hours
from rostra.history.places import host_of, way
from rostra.history.schemas import columns_of
from rostra.history.shape import said, schema, shaped

BOUND_S: Final = 30.0
"""How long news may take in a real world in calm weather."""

CHANGES: Final = columns_of(*CHANGE)

STRETCHES: Final = schema(
    world="text", calm_from="time?", calm_until="time?", rest_from="time?", rest_until="time?", bucket="int64"
)


def watch_complete(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every number, every change in calm weather and every gap (`FINDINGS`)."""
    return _watched(evidence, bound_s, _calm(evidence, bound_s))


def watch_complete_at_hand(evidence: Evidence, bound_s: float = BOUND_S) -> Judged:
    """What of it is not fine, and how many changes were told to how many hosts."""
    facts = evidence.facts
    gaps = facts.marked(("gap",), "world", "writer", "group", "at")
    found = untold(
        evidence.files,
        evidence.home_rows,
        [*calm(facts, bound_s)],
        facts.informed,
        gaps,
        evidence.notable.speaking,
    )
    told = evidence.nothing
    if found.changes or not evidence.is_none(evidence.notices("joined", "left")):
        looked_at = _Calm(evidence, bound_s)
        told = _again(evidence, looked_at)
        if found.changes:
            suspects = evidence.few(found.changes, CHANGES).select(_key()).distinct()
            told = told.unionByName(_suspected(evidence, looked_at, suspects))
    return _watched(evidence, bound_s, told), found.fine


def _watched(evidence: Evidence, bound_s: float, calm: DataFrame) -> DataFrame:
    late = owed(evidence, bound_s, "gap", "%s got no list of %s after its gap")
    if not evidence.is_none(late):
        late = undoubted(late, evidence.doubted, F.array("writer"), F.col("at"))
    return evidence.all_of(numbers(evidence), calm, late)


@judged_with("changed")
def numbers(evidence: Evidence) -> DataFrame:
    """Each numbered change beside the one before, per watcher: a window, so a change that is missing is found
    even if another comes twice. Numbering starts again after a new list, after a return, and where the row
    before did not name all observers."""
    turns = evidence.events.where(
        F.col("kind").isin("snapshot", "changed", "gap", "followed") & (F.col("nth") == 0)
    ).select("world", "writer", "epoch", "group", "seq", "at", "kind", "number", "observers", "told")
    story = Window.partitionBy("world", "writer", "epoch", "group", "observer").orderBy("seq")
    judged = (
        each_named(turns, "world", "writer", "epoch", "group")
        .withColumn("before", F.lag("kind").over(story))
        .withColumn("number_before", F.lag("number").over(story))
        .where((F.col("kind") == "changed") & F.col("before").isin("changed", "snapshot"))
        .where(~F.col("unsure") & F.col("number").isNotNull() & F.col("number_before").isNotNull())
    )
    is_wrong = F.col("number") != F.col("number_before") + 1
    text = said("{observer} was given change {number} of {group} after {number_before}")
    found = undoubted(
        judged, evidence.doubted, F.array("writer"), F.col("at"), since=F.col("at"), wrong=is_wrong
    )
    return shaped(found, FINDINGS, text=F.when(is_wrong, text))


def calm(facts: Facts, bound_s: float) -> Iterator[tuple[str, int, int, int, int]]:
    """Stretches in which every change must be told: world, calm_from, calm_until, rest_from, rest_until.

    Changes between the first two are judged, for hosts that follow from before `rest_from` until after
    `rest_until`.
    """
    noise: dict[str, list[int]] = defaultdict(list)
    for world, at, kind, role in facts.marked(DISTURBING, "world", "at", "kind", "role"):
        is_done = kind in ("server-changed", "line-changed")
        if is_done or (role != "sim" and kind not in ("started", "closing")):
            noise[world].append(at)
    rests: dict[str, list[int]] = defaultdict(list)
    for world, at in facts.marked(("settled",), "world", "at"):
        rests[world].append(at)
    for world, times in rests.items():
        heard = sorted(noise[world])
        for since, until in pairwise(sorted(times)):
            if bisect_left(heard, since) == bisect_left(heard, until):
                yield world, since, until, since, until
    width = int(bound_s * 1e6)
    for each in facts.disturbances:
        since = each.since + width
        if each.world not in facts.simulated and each.calm_until - width > since:
            yield each.world, since, each.calm_until - width, since, each.calm_until


class _Calm:
    """What is looked at in calm weather."""

    def __init__(self, evidence: Evidence, bound_s: float) -> None:
        stretches = list(calm(evidence.facts, bound_s))
        calm_hours = [(*each, hour) for each in stretches for hour in hours(each[1], each[2])]
        rest_hours = [(*each, hour) for each in stretches for hour in hours(each[3], each[4])]
        self.by_hour, self.resting = (evidence.few(each, STRETCHES) for each in (calm_hours, rest_hours))
        self.lookers = evidence.informed.select(
            "world", "group", "seen_by", "epoch", F.col("from_at").alias("look_at"), "until_at"
        )
        self.due, self.heard = _due(evidence, self.by_hour, self.lookers), _heard(evidence)


def _calm(evidence: Evidence, bound_s: float) -> DataFrame:
    at = _Calm(evidence, bound_s)
    at.due, at.heard = evidence.once(at.due), evidence.once(at.heard)
    suspects = evidence.hold(_suspects(at.due, _looked(_resting(at.heard, at.resting), at.lookers)))
    fine = shaped(
        at.due.join(suspects, ["key"], "left_anti"),
        FINDINGS,
        broken=F.lit(False),
        at="home_at",
        writer="seen_by",
        seq=F.lit(None),
        text=F.lit(None),
    )
    return fine.unionByName(_suspected(evidence, at, suspects)).unionByName(_again(evidence, at))


def _suspected(evidence: Evidence, at: _Calm, suspects: DataFrame) -> DataFrame:
    heard = _only(at.heard, suspects)
    counted = evidence.once(_counted(_only(at.due, suspects), heard))
    return _judged(evidence, counted).unionByName(_invented(evidence, heard, at))


def _due(evidence: Evidence, stretches: DataFrame, lookers: DataFrame) -> DataFrame:
    """Who was to be told of what, in calm weather: every change at home with every host that followed."""
    here, there = F.col("seen_by"), host_of(F.col("member"))
    home = _within(
        evidence.of("member-joined", "member-left")
        .join(F.broadcast(evidence.speaking), ["world", "group"], "left_anti")
        .withColumn("change", F.when(F.col("kind") == "member-joined", "joined").otherwise("left")),
        stretches,
    ).select(*CHANGE, _key(), F.col("at").alias("home_at"), "rest_from", "rest_until")
    gapped = evidence.marks.where(F.col("kind") == "gap").select(
        F.col("world").alias("gap_world"),
        F.col("writer").alias("gap_by"),
        F.col("group").alias("gap_group"),
        F.col("at").alias("gap_at"),
    )
    return (
        home.join(F.broadcast(lookers), ["world", "group"])
        .where(_all_the_time() & (here != there))
        .drop("look_at", "until_at")
        .join(
            F.broadcast(gapped),
            (F.col("world") == F.col("gap_world"))
            & (here == F.col("gap_by"))
            & (F.col("group") == F.col("gap_group"))
            & (F.col("gap_at") >= F.col("rest_from"))
            & (F.col("gap_at") <= F.col("rest_until")),
            "left_anti",
        )
    )


def _heard(evidence: Evidence) -> DataFrame:
    """Who was told of what."""
    told = evidence.of("absolute", "joined", "left").where(
        F.col("change").isin("joined", "left") & F.col("stamp").isNotNull() & (F.col("cause") != "unlisted")
    )
    return told.select(
        *CHANGE, _key(), F.col("writer").alias("seen_by"), "epoch", "seq", "at", "news", "kind"
    )


def _suspects(due: DataFrame, heard: DataFrame) -> DataFrame:
    """Keys of changes that were not told exactly once to each host that was due; and of some others, which
    were also told outside of the stretch.

    There is no join of hosts: for each change three aggregates over the hosts are compared (their count, the
    sum of their hashes, and the exclusive or). A count alone would miss that one host was left out and
    another told twice.
    """
    host = F.xxhash64("seen_by", "epoch")

    def summed(rows: DataFrame, name: str) -> DataFrame:
        numbered = rows.select("key", "rest_from", host.alias("host"))
        sums = F.struct(F.count(F.lit(1)), F.sum(F.col("host").bitwiseAND(0x7FFF_FFFF)), F.bit_xor("host"))
        return numbered.groupBy("key", "rest_from").agg(sums.alias(name))

    from_others = heard.where(F.col("seen_by") != host_of(F.col("member")))
    return (
        summed(due, "due")
        .join(summed(from_others, "heard"), ["key", "rest_from"], "full")
        .where(~F.col("due").eqNullSafe(F.col("heard")))
        .select("key")
        .distinct()
    )


def _counted(due: DataFrame, heard: DataFrame) -> DataFrame:
    """How often each was told of what it was to be told, and by which row first."""
    in_time = F.col("at") <= F.col("rest_until")
    return (
        due.join(heard.withColumn("is_heard", F.lit(1)), [*CHANGE, "key", "seen_by", "epoch"], "left")
        .groupBy(*CHANGE, "seen_by", "epoch", "home_at", "rest_from", "rest_until")
        .agg(
            F.count_if(F.col("is_heard").isNotNull() & in_time).alias("times"),
            F.min(F.when(in_time, F.col("seq"))).alias("seq"),
        )
    )


def _judged(evidence: Evidence, counted: DataFrame) -> DataFrame:
    times = F.col("times")
    how = F.when(times == 0, "not told").otherwise(said("told {times} times"))
    text = said("{seen_by} was {how} that {member} {change} {group}", how=how)
    wrong = counted.where(times != 1)
    unreachable = evidence.in_the_way(
        wrong.withColumn("from_at", F.col("home_at")).withColumn("end", F.col("home_at")),
        evidence.facts.faults,
    ).where((F.col("fault_from") < F.col("home_at")) & (F.col("fault_until") >= F.col("home_at")))
    offences = undoubted(
        wrong.join(
            unreachable.select(*CHANGE, "seen_by", "epoch").distinct(),
            [*CHANGE, "seen_by", "epoch"],
            "left_anti",
        ),
        evidence.doubted,
        F.array("seen_by", host_of(F.col("member"))),
        F.col("rest_until"),
        since=F.col("rest_from"),
        through=way(F.col("seen_by"), host_of(F.col("member"))),
        reached=F.col("rest_from"),
    )
    fine = counted.where(times == 1)
    return shaped(
        fine, FINDINGS, broken=F.lit(False), at="home_at", writer="seen_by", text=F.lit(None)
    ).unionByName(shaped(offences, FINDINGS, at="home_at", writer="seen_by", text=text))


def _again(evidence: Evidence, calm: _Calm) -> DataFrame:
    """A join that is told to those who know it already leaves a row that counts it as kept; a leave, one that
    is no news."""
    told = evidence.notices("joined", "left")
    repeated = told.join(F.broadcast(evidence.speaking), ["world", "group"], "left_anti").where(
        ((F.col("kind") == "joined") & (F.col("cause") == "join") & (F.col("change") == "kept"))
        | ((F.col("kind") == "left") & ~F.col("news"))
    )
    what = F.when(F.col("kind") == "joined", "a join").otherwise(said("that {member} left"))
    return shaped(
        undoubted(
            _looked(_within(repeated, calm.by_hour).withColumn("seen_by", F.col("writer")), calm.lookers),
            evidence.doubted,
            F.array("writer"),
            F.col("at"),
            since=F.col("at"),
            through=way(F.col("writer"), host_of(F.col("member"))),
            reached=F.col("rest_from"),
        ),
        FINDINGS,
        text=said("{writer} was told again, in {group}, of what it knew: {what}", what=what),
    )


def _invented(evidence: Evidence, heard: DataFrame, calm: _Calm) -> DataFrame:
    """Told, in calm weather, of a change that home never made. Homes whose journals are not here may have."""
    made = evidence.of("member-joined", "member-left").select("world", "group", "member", "life", "stamp")
    there = host_of(F.col("member"))
    new = heard.where(F.col("news") & F.col("kind").isin("joined", "left")).withColumn("home", there)
    unknown = (
        _looked(_within(new, calm.by_hour), calm.lookers)
        .join(F.broadcast(evidence.homes), ["world", "home"], "left_semi")
        .join(made, ["world", "group", "member", "life", "stamp"], "left_anti")
    )
    return shaped(
        undoubted(unknown, evidence.doubted, F.array("seen_by", "home"), F.col("at"), since=F.col("at")),
        FINDINGS,
        writer="seen_by",
        text=said("{seen_by} was told that {member} {change} {group}, which never happened"),
    )


def _looked(rows: DataFrame, lookers: DataFrame) -> DataFrame:
    """Rows of hosts that had a list before the stretch began, and went on following until after it."""
    return rows.join(F.broadcast(lookers), ["world", "group", "seen_by", "epoch"]).where(_all_the_time())


def _all_the_time() -> Column:
    return (F.col("look_at") < F.col("rest_from")) & (
        F.col("until_at").isNull() | (F.col("until_at") >= F.col("rest_until"))
    )


def _within(rows: DataFrame, stretches: DataFrame) -> DataFrame:
    """Rows of calm weather, each with its stretch; `stretches` are hourly."""
    at: Column = F.col("at")
    return (
        rows.withColumn("bucket", bucket(at))
        .join(F.broadcast(stretches), ["world", "bucket"])
        .where((at >= F.col("calm_from")) & (at < F.col("calm_until")))
        .drop("bucket")
    )


def _resting(rows: DataFrame, stretches: DataFrame) -> DataFrame:
    """Rows of which the news may be of calm weather, each with its stretch; `stretches` are hourly."""
    at: Column = F.col("at")
    return (
        rows.withColumn("bucket", bucket(at))
        .join(F.broadcast(stretches), ["world", "bucket"])
        .where((at >= F.col("rest_from")) & (at < F.col("rest_until")))
    )


def _only(rows: DataFrame, suspects: DataFrame) -> DataFrame:
    return rows.join(suspects, ["key"], "left_semi")


def _key() -> Column:
    """One number for a change: names travel only with those that are looked at more closely."""
    return F.xxhash64(*CHANGE).alias("key")
