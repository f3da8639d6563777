"""`watch-complete`: a snapshot, then every later change once and in order, or a `Gap` that says so.

    numbers   a watcher's changes are numbered: none is left out, repeated or out of turn
    calm      while nothing is disturbed, every change at home is told to every host that follows, once
    gap       whoever was told of a gap is given a new list before the world is at rest again

*Calm* is the time between two moments at which a simulated world settled, if nothing was done to it and no
link changed in between; in a real world, a stretch without any such row, less the bound at both ends. Hosts
are not judged on what their own programs did, nor on members that they could not reach.

*Cannot see:* changes in groups that speak, whose members are told of without stamps; and which of several
followers of one host was left out. The journal says what a host was told; whom it told is named on each row,
but not who should have been.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.owed import owed
from rostra.history.audits.truth import DISTURBING, bucket, in_the_way
from rostra.history.places import host_of
from rostra.history.shape import shaped

BOUND_S: Final = 30.0
"""How long news may take in a real world in calm weather."""


def watch_complete(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every number, every change in calm weather and every gap (`FINDINGS`)."""
    late = owed(evidence, bound_s, ("gap",), "%s got no list of %s after its gap")
    return (
        numbers(evidence)
        .unionByName(_calm(evidence, bound_s))
        .unionByName(undoubted(late, evidence.doubts, F.array("writer"), F.col("at")))
    )


def numbers(evidence: Evidence) -> DataFrame:
    """Each numbered change beside the one before, per watcher: a window, so a change that is missing is found
    even if another comes twice. A new list, and coming back to watch, start anew."""
    turns = evidence.events.where(
        F.col("kind").isin("snapshot", "changed", "gap", "followed") & (F.col("nth") == 0)
    ).select(
        "world",
        "writer",
        "epoch",
        "group",
        "seq",
        "at",
        "kind",
        "number",
        F.explode("observers").alias("observer"),
    )
    story = Window.partitionBy("world", "writer", "epoch", "group", "observer").orderBy("seq")
    judged = (
        turns.withColumn("before", F.lag("kind").over(story))
        .withColumn("number_before", F.lag("number").over(story))
        .where((F.col("kind") == "changed") & F.col("before").isin("changed", "snapshot"))
        .withColumn("broken", F.col("number") != F.col("number_before") + 1)
    )
    text = F.format_string(
        "%s was given change %s of %s after %s", "observer", "number", "group", "number_before"
    )
    broken = undoubted(
        judged.where("broken"), evidence.doubts, F.array("writer"), F.col("at"), since=F.col("at")
    )
    return shaped(broken, FINDINGS, text=text).unionByName(
        shaped(judged.where(~F.col("broken")), FINDINGS, text=F.lit(None))
    )


def calm(evidence: Evidence, bound_s: float) -> DataFrame:
    """Stretches in which every change must be told: world, calm_from, calm_until, rest_from, rest_until.

    Changes between the first two are judged; whoever follows must do so from before `rest_from` until after
    `rest_until`.
    """
    events, known = evidence.events, F.broadcast(evidence.simulated)
    disturbed = events.where(F.col("kind").isin(*DISTURBING) & (F.col("role") != "sim")).where(
        ~F.col("kind").isin("started", "closing")
    )
    done = events.where(F.col("kind").isin("server-changed", "line-changed"))
    story = Window.partitionBy("world").orderBy("at")
    rests = (
        events.where(F.col("kind") == "settled")
        .select("world", F.col("at").alias("from_at"))
        .withColumn("until_at", F.lead("from_at").over(Window.partitionBy("world").orderBy("from_at")))
        .where(F.col("until_at").isNotNull())
    )
    noise = done.select("world", "at").unionByName(disturbed.select("world", "at")).distinct()
    simulated_calm = rests.join(
        F.broadcast(noise.withColumnRenamed("world", "noise_world")),
        (F.col("world") == F.col("noise_world"))
        & (F.col("at") >= F.col("from_at"))
        & (F.col("at") < F.col("until_at")),
        "left_anti",
    ).select(
        "world",
        F.col("from_at").alias("calm_from"),
        F.col("until_at").alias("calm_until"),
        F.col("from_at").alias("rest_from"),
        F.col("until_at").alias("rest_until"),
    )
    width = int(bound_s * 1e6)
    newest = events.groupBy("world").agg(F.max("at").alias("newest"))
    real = (
        events.where(F.col("kind").isin(*DISTURBING))
        .join(known, "world", "left_anti")
        .select("world", "at")
        .distinct()
        .withColumn("next_at", F.lead("at").over(story))
        .join(F.broadcast(newest), "world")
        .select(
            "world",
            F.timestamp_micros(F.unix_micros("at") + width).alias("calm_from"),
            F.timestamp_micros(F.unix_micros(F.coalesce("next_at", "newest")) - width).alias("calm_until"),
            F.timestamp_micros(F.unix_micros("at") + width).alias("rest_from"),
            F.coalesce("next_at", "newest").alias("rest_until"),
        )
        .where(F.col("calm_until") > F.col("calm_from"))
    )
    return simulated_calm.unionByName(real)


def _calm(evidence: Evidence, bound_s: float) -> DataFrame:
    events = evidence.events
    stretches = evidence.keep(calm(evidence, bound_s)).withColumn(
        "bucket", F.explode(F.sequence(bucket(F.col("calm_from")), bucket(F.col("calm_until"))))
    )
    change = ("world", "group", "member", "life", "stamp", "change")
    home = _within(
        events.join(F.broadcast(evidence.speaking), ["world", "group"], "left_anti")
        .where(F.col("kind").isin("member-joined", "member-left"))
        .withColumn("change", F.when(F.col("kind") == "member-joined", "joined").otherwise("left")),
        stretches,
    ).select(*change, F.col("at").alias("home_at"), "rest_from", "rest_until")
    lookers = evidence.informed.select(
        "world", "group", "seen_by", "epoch", F.col("from_at").alias("look_at"), "until_at"
    )
    gapped = events.where(F.col("kind") == "gap").select(
        F.col("world").alias("gap_world"),
        F.col("writer").alias("gap_by"),
        F.col("group").alias("gap_group"),
        F.col("at").alias("gap_at"),
    )
    here, there = F.col("seen_by"), host_of(F.col("member"))
    due = (
        home.join(lookers, ["world", "group"])
        .where(
            (F.col("look_at") < F.col("rest_from"))
            & (F.col("until_at").isNull() | (F.col("until_at") >= F.col("rest_until")))
            & (here != there)
        )
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
    heard = evidence.once(
        events.where(
            (F.col("kind").isin("absolute", "joined", "left"))
            & F.col("change").isin("joined", "left")
            & F.col("stamp").isNotNull()
            & (F.col("cause") != "unlisted")
        ).select(
            *change,
            F.col("writer").alias("seen_by"),
            "epoch",
            "seq",
            "at",
            "news",
            "kind",
            F.lit(1).alias("is_heard"),
        )
    )
    told = (
        evidence.once(due)
        .join(heard, [*change, "seen_by", "epoch"], "left")
        .groupBy(*change, "seen_by", "epoch", "home_at", "rest_from", "rest_until")
    )
    in_time = F.col("at") <= F.col("rest_until")
    counted = evidence.once(
        told.agg(
            F.count_if(F.col("is_heard").isNotNull() & in_time).alias("times"),
            F.min(F.when(in_time, F.col("seq"))).alias("seq"),
        )
    )
    times = F.col("times")
    text = F.concat(
        F.col("seen_by"),
        F.when(times == 0, " was not told that ").otherwise(
            F.concat(F.lit(" was told "), times, F.lit(" times that "))
        ),
        F.col("member"),
        F.concat(F.lit(" "), F.col("change"), F.lit(" ")),
        F.col("group"),
    )
    wrong = counted.where(times != 1)
    unreachable = in_the_way(
        wrong.withColumn("from_at", F.col("home_at")).withColumn("end", F.col("home_at")), evidence.at_fault
    ).where((F.col("fault_from") < F.col("home_at")) & (F.col("fault_until") >= F.col("home_at")))
    offences = undoubted(
        wrong.join(
            unreachable.select(*change, "seen_by", "epoch").distinct(),
            [*change, "seen_by", "epoch"],
            "left_anti",
        ),
        evidence.doubts,
        F.array("seen_by", there),
        F.col("rest_until"),
        since=F.col("rest_from"),
    )
    judged = shaped(
        counted.where(times == 1),
        FINDINGS,
        broken=F.lit(False),
        at="home_at",
        writer="seen_by",
        text=F.lit(None),
    )
    return (
        judged.unionByName(
            shaped(offences, FINDINGS, broken=F.lit(True), at="home_at", writer="seen_by", text=text)
        )
        .unionByName(_again(evidence, stretches, lookers))
        .unionByName(_invented(evidence, heard, stretches, lookers))
    )


def _again(evidence: Evidence, stretches: DataFrame, lookers: DataFrame) -> DataFrame:
    """A join that is told to those who know it already leaves a row that counts it as kept; a leave, one that
    is no news."""
    repeated = evidence.events.join(F.broadcast(evidence.speaking), ["world", "group"], "left_anti").where(
        ((F.col("kind") == "joined") & (F.col("cause") == "join") & (F.col("change") == "kept"))
        | ((F.col("kind") == "left") & ~F.col("news"))
    )
    what = F.when(F.col("kind") == "joined", "a join").otherwise(
        F.concat(F.lit("that "), F.col("member"), F.lit(" left"))
    )
    return shaped(
        undoubted(
            _looked(_within(repeated, stretches).withColumn("seen_by", F.col("writer")), lookers),
            evidence.doubts,
            F.array("writer"),
            F.col("at"),
            since=F.col("at"),
        ),
        FINDINGS,
        broken=F.lit(True),
        text=F.concat(
            F.col("writer"), F.lit(" was told again, in "), F.col("group"), F.lit(", of what it knew: "), what
        ),
    )


def _invented(evidence: Evidence, heard: DataFrame, stretches: DataFrame, lookers: DataFrame) -> DataFrame:
    """Told, in calm weather, of a change that home never made. Homes whose journals are not here may have."""
    events = evidence.events
    homes = events.where(F.col("role") == "agent").select("world", F.col("writer").alias("home")).distinct()
    made = events.where(F.col("kind").isin("member-joined", "member-left")).select(
        "world", "group", "member", "life", "stamp"
    )
    there = host_of(F.col("member"))
    new = heard.where(F.col("news") & F.col("kind").isin("joined", "left")).withColumn("home", there)
    unknown = (
        _looked(_within(new, stretches), lookers)
        .join(F.broadcast(homes), ["world", "home"], "left_semi")
        .join(made, ["world", "group", "member", "life", "stamp"], "left_anti")
    )
    return shaped(
        undoubted(unknown, evidence.doubts, F.array("seen_by", "home"), F.col("at"), since=F.col("at")),
        FINDINGS,
        broken=F.lit(True),
        writer="seen_by",
        text=F.concat(
            F.col("seen_by"),
            F.lit(" was told that "),
            F.col("member"),
            F.concat(F.lit(" "), F.col("change"), F.lit(" ")),
            F.col("group"),
            F.lit(", which never happened"),
        ),
    )


def _looked(rows: DataFrame, lookers: DataFrame) -> DataFrame:
    """Rows of hosts that had a list before the stretch began, and went on following until after it."""
    through = (F.col("look_at") < F.col("rest_from")) & (
        F.col("until_at").isNull() | (F.col("until_at") >= F.col("rest_until"))
    )
    return rows.join(lookers, ["world", "group", "seen_by", "epoch"]).where(through)


def _within(rows: DataFrame, stretches: DataFrame) -> DataFrame:
    at: Column = F.col("at")
    return (
        rows.withColumn("bucket", bucket(at))
        .join(F.broadcast(stretches), ["world", "bucket"])
        .where((at >= F.col("calm_from")) & (at < F.col("calm_until")))
        .drop("bucket")
    )
