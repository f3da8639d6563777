"""What is true, what is seen, and where the two differ.

    truth    a member joined at home and has not left, and every server and line on the way there works
    sight    what a host that follows the group was told
    lie      a stretch in which one host's sight and the memberships at home differ

Lies are ordinary and short: news takes time. An audit asks which of them lasted when they should not, in
**calm** when everything must be right: at the moments at which a simulator says that the world has settled,
or, in journals of real worlds, in stretches without any change of a link that are so long that all news must
have arrived.

What cannot be reached must not be seen. Which way is broken is known from a simulator's own rows, or else
from what the two ends of a link and the gaps between two lives of a server say.
"""

from bisect import bisect_left
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rostra.history.audits.findings import LONG_AGO
from rostra.history.places import host_of, place_of, way
from rostra.history.questions.follows import follows
from rostra.history.shape import shaped

LIES: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("seen_by", StringType(), nullable=False),
        StructField("group", StringType(), nullable=False),
        StructField("member", StringType(), nullable=False),
        StructField(
            "what", StringType(), nullable=False
        ),  # ghost: seen, and not in it | missing: the reverse
        StructField("from_at", TimestampType(), nullable=False),
        StructField("until_at", TimestampType(), nullable=True),  # null: to the end of what is known
        StructField("mended", BooleanType(), nullable=False),  # the host was told; else the truth came round
    ]
)

FAULTS: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("place", StringType(), nullable=False),  # what does not work: see `places.place_of`
        StructField("from_at", TimestampType(), nullable=False),
        StructField("until_at", TimestampType(), nullable=True),  # null while it lasts
    ]
)

CALM: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("since", TimestampType(), nullable=False),  # nothing was disturbed from here on
        StructField("calm_until", TimestampType(), nullable=False),  # to here
        StructField("wait_us", LongType(), nullable=False),  # what lasted so long in between is wrong
        StructField("settled", BooleanType(), nullable=False),  # a simulator says so: it is one moment
        StructField("broken", ArrayType(StringType()), nullable=False),  # places that do not work meanwhile
    ]
)

BUCKET_S: Final = 3600
"""What shares some time is looked for hour by hour, so that nothing is compared with another day."""

DISTURBING: Final = (
    *("link-up", "link-moved", "link-down"),
    *("started", "closing", "server-changed", "line-changed"),
)
"""Kinds of rows after which news may be late or lost for a while."""


def span(lived: DataFrame) -> DataFrame:
    """When each world's journals begin and end, from the lives of all writers: world, oldest, newest."""
    return lived.groupBy("world").agg(F.min("began_at").alias("oldest"), F.max("last_at").alias("newest"))


def lies(seen: DataFrame, home: DataFrame, informed: DataFrame) -> DataFrame:
    """Where sight (`stays`) and membership at home (`memberships`) differ (`LIES`), whether or not the way
    between is broken.

    A window over the change points of both, per host, group and member: linear in what hosts were told.
    """
    key = ("world", "seen_by", "group", "member")
    told = seen.select(
        *key, F.col("joined_at").alias("from_at"), F.col("left_at").alias("until_at"), F.lit(1).alias("seen")
    )
    looking = informed.select(
        "world", "seen_by", "group", F.col("from_at").alias("look_at"), F.col("until_at").alias("look_until")
    )
    due = (
        home.select("world", "group", "member", "joined_at", "left_at")
        .join(looking, ["world", "group"])
        .withColumn("from_at", F.greatest("joined_at", "look_at"))
        .withColumn("until_at", F.least("left_at", "look_until"))  # least() passes over nulls
        .where(F.col("until_at").isNull() | (F.col("until_at") > F.col("from_at")))
        .select(*key, "from_at", "until_at", F.lit(0).alias("seen"))
    )

    def step(at: str, by: int) -> Column:
        return F.struct(
            F.col(at).alias("at"), (F.col("seen") * by).alias("a"), ((1 - F.col("seen")) * by).alias("b")
        )

    steps = (
        told.unionByName(due)
        .select(*key, F.explode(F.array(step("from_at", 1), step("until_at", -1))).alias("step"))
        .where(F.col("step.at").isNotNull())
        .groupBy(*key, F.col("step.at").alias("at"))
        .agg(F.sum("step.a").alias("a"), F.sum("step.b").alias("b"))
    )
    story = Window.partitionBy(*key).orderBy("at")
    so_far = story.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    states = (
        steps.withColumn("until_at", F.lead("at").over(story))
        .withColumn("is_seen", F.sum("a").over(so_far) > 0)
        .withColumn("is_due", F.sum("b").over(so_far) > 0)
        .withColumn("is_seen_next", F.lead("is_seen").over(story))
    )
    return shaped(
        states.where(F.col("is_seen") != F.col("is_due")),
        LIES,
        what=F.when(F.col("is_seen"), "ghost").otherwise("missing"),
        from_at="at",
        mended=F.coalesce(F.col("is_seen_next") != F.col("is_seen"), F.lit(False)),
    )


def informed(events: DataFrame, lived: DataFrame) -> DataFrame:
    """As `follows`, but from the first list that the host was given: before that it is not wrong, it
    waits."""
    lists = (
        events.where((F.col("kind") == "absolute") & (F.col("nth") == 0))
        .select("world", F.col("writer").alias("seen_by"), "epoch", "group", F.col("at").alias("listed_at"))
        .distinct()
    )
    key = ["world", "seen_by", "epoch", "group"]
    return (
        follows(events, lived)
        .join(lists, key)
        .where(
            (F.col("listed_at") >= F.col("from_at"))
            & (F.col("until_at").isNull() | (F.col("listed_at") <= F.col("until_at")))
        )
        .groupBy(*key, "from_at", "until_at", "ended_by")
        .agg(F.min("listed_at").alias("listed_at"))
        .select(*key, F.col("listed_at").alias("from_at"), "until_at", "ended_by")
    )


def faults(events: DataFrame, known: DataFrame, lived: DataFrame) -> DataFrame:
    """What did not work, and when (`FAULTS`): as a simulator did it, or as the ends of links reported it."""
    return (
        _done(events)
        .unionByName(_reported(events, lived).join(F.broadcast(known), "world", "left_anti"))
        .where(F.col("until_at").isNull() | (F.col("until_at") > F.col("from_at")))
    )


def _done(events: DataFrame) -> DataFrame:
    """A server is down from `crashed` to `started`, and not before it is first started; it stands still from
    `paused` to `continued`; a line carries nothing from `cut` to `healed`.

    The supervisor of a small world is asked only who stood still, which nobody else can know; what it cut is
    judged, as in any real world, by what the ends of links made of it."""
    turns = events.where(F.col("kind").isin("server-changed", "line-changed"))
    change, by_simulator = F.col("change"), F.col("role") == "sim"
    machines = (
        (by_simulator & change.isin("started", "crashed"), "crashed", "started"),
        (change.isin("paused", "continued", "started"), "paused", ""),
        (by_simulator & change.isin("cut", "healed"), "cut", ""),
    )
    found = None
    for concerned, fails, born in machines:
        story = Window.partitionBy("world", "accuser", "peer").orderBy("at", "seq")
        rows = (
            turns.where(concerned)
            .withColumn("until_at", F.lead("at").over(story))
            .withColumn("is_first", F.row_number().over(story) == 1)
        )
        intervals = rows.where(change == fails)
        if born:
            unborn = rows.where(F.col("is_first") & (change == born))
            intervals = intervals.unionByName(
                unborn.withColumn("until_at", F.col("at")).withColumn("at", F.lit(LONG_AGO).cast("timestamp"))
            )
        is_line = F.col("accuser").isNotNull()
        made = shaped(
            intervals,
            FAULTS,
            place=place_of(F.when(~is_line, F.col("peer")), F.col("accuser"), F.col("peer")),
            from_at="at",
        )
        found = made if found is None else found.unionByName(made)
    assert found is not None
    return found


def _reported(events: DataFrame, lived: DataFrame) -> DataFrame:
    """A link is down from `link-down` to the next `link-up` of the same end; a server, from its `closing`, or
    a crash that somebody witnessed, to its next life.

    Rows that merely cease say neither that their writer is gone nor that its links stay down: it may have
    gone on, and its files not be here. Its neighbours say what became of their links to it.
    """
    life = ("world", "writer", "epoch")
    ceased = F.when(F.coalesce(F.col("ended_by") == "unknown", F.lit(True)), F.col("last_at"))
    story = Window.partitionBy("world", "writer", "peer").orderBy("epoch", "seq")
    turns = (
        events.where(F.col("kind").isin("link-up", "link-down"))
        .withColumn("next_at", F.lead("at").over(story))
        .withColumn("next_epoch", F.lead("epoch").over(story))
        .where(F.col("kind") == "link-down")
        .join(F.broadcast(lived.select(*life, ceased.alias("ceased_at"))), list(life), "left")
    )
    own = F.col("next_epoch") == F.col("epoch")
    links = shaped(
        turns,
        FAULTS,
        place=place_of(F.lit(None).cast("string"), F.col("writer"), F.col("peer")),
        from_at="at",
        until_at=F.when(own, F.col("next_at")).otherwise(F.coalesce("ceased_at", "next_at")),
    )
    next_life = Window.partitionBy("world", "writer").orderBy("epoch")
    gaps = shaped(
        lived.withColumn("until_at", F.lead("began_at").over(next_life)).where(
            F.col("ended_by").isin("closing", "crash") & F.col("role").isin("agent", "server")
        ),
        FAULTS,
        place="writer",
        from_at="last_at",
    )
    return links.unionByName(gaps)


def calm(
    events: DataFrame, known: DataFrame, times: DataFrame, failed: DataFrame, bound_s: float
) -> DataFrame:
    """When everything must be right (`CALM`). `times` is the worlds' `span`, `failed` are their `faults`.

    In a simulated world: whenever it settled. In another: from any disturbance to the next, if that is at
    least `bound_s` later; whatever lasts so long in between is there to stay. Nothing begins or ceases to
    work inside such a stretch.
    """
    settled = events.where(F.col("kind") == "settled").select(
        "world",
        F.timestamp_micros(F.unix_micros("at") - 1).alias("since"),
        F.col("at").alias("calm_until"),
        F.lit(1).alias("wait_us"),
        F.lit(True).alias("settled"),
    )
    undisturbed = (
        between(events.where(F.col("kind").isin(*DISTURBING)), times)
        .join(F.broadcast(known), "world", "left_anti")
        .withColumn("wait_us", F.lit(int(bound_s * 1e6)))
        .withColumn("settled", F.lit(False))
    )
    return shaped(with_broken(settled.unionByName(undisturbed), failed, times), CALM)


def between(disturbing: DataFrame, times: DataFrame) -> DataFrame:
    """From each of these rows to the next: world, since, calm_until."""
    story = Window.partitionBy("world").orderBy("at")
    return (
        disturbing.select("world", "at")
        .distinct()
        .withColumn("next_at", F.lead("at").over(story))
        .join(F.broadcast(times), "world")
        .select("world", F.col("at").alias("since"), F.coalesce("next_at", "newest").alias("calm_until"))
    )


def with_broken(stretches: DataFrame, failed: DataFrame, times: DataFrame) -> DataFrame:
    """Those that are long enough, each with the places that do not work in it (`broken`)."""
    long_enough = stretches.where(
        F.unix_micros("calm_until") - F.unix_micros("since") >= F.col("wait_us")
    ).withColumn("moment", F.timestamp_micros(F.unix_micros("since") + F.col("wait_us")))
    failing = sharing(
        long_enough.withColumn("from_at", F.col("moment")).withColumn("end", F.col("moment")),
        at_fault(failed, times),
        ["world"],
    ).where((F.col("fault_from") < F.col("moment")) & (F.col("fault_until") >= F.col("moment")))
    places = failing.groupBy("world", "since").agg(F.collect_set("place").alias("broken"))
    return long_enough.join(F.broadcast(places), ["world", "since"], "left").withColumn(
        "broken", F.coalesce("broken", F.array().cast("array<string>"))
    )


def meeting(intervals: DataFrame, stretches: DataFrame, times: DataFrame) -> DataFrame:
    """Every interval (`from_at`, `until_at`) with every calm in which it lasted too long, and the `moment`
    from which on it had. What happens in the very microsecond of a moment comes after it."""
    ended = intervals.join(F.broadcast(times), "world").withColumn("end", F.coalesce("until_at", "newest"))
    others = stretches.withColumn("fault_from", F.col("since")).withColumn("fault_until", F.col("calm_until"))
    begun = F.greatest("from_at", "since")
    lasted_us = F.unix_micros(F.least("end", "calm_until")) - F.unix_micros(begun)
    return (
        sharing(ended, others, ["world"])
        .where(lasted_us >= F.col("wait_us"))
        .withColumn("moment", F.timestamp_micros(F.unix_micros(begun) + F.col("wait_us")))
        .drop("fault_from", "fault_until", "end", "oldest", "newest")
    )


def in_the_way(intervals: DataFrame, failed: DataFrame) -> DataFrame:
    """Every interval (`seen_by`, `member`, `from_at`, `end`) with every fault on the way between the two that
    it shares time with; `failed` is `at_fault`."""
    hours = hourly(failed, "fault_from", "fault_until")
    placed = _in_hours(intervals, hours.select("world", "bucket").distinct()).withColumn(
        "place", F.explode(way(F.col("seen_by"), host_of(F.col("member"))))
    )
    return _together(placed, hours, ["world", "place"])


def _in_hours(intervals: DataFrame, hours: DataFrame) -> DataFrame:
    """Every interval (`from_at` to `end`) in each of these hours (world, bucket) that it has a part of. Most
    have none, and an interval may be years long: so how many of them come before any hour is looked up, and
    not counted."""
    found: dict[str, list[int]] = {}
    for world, hour in sorted(map(tuple, hours.collect())):
        found.setdefault(world, []).append(hour)
    if not found:
        return intervals.where(F.lit(False)).withColumn("bucket", F.lit(None).cast("long"))
    known = pa.table(
        {
            "world": pa.array(found, pa.string()),
            "first_hour": pa.array([those[0] for those in found.values()], pa.int64()),
            "hours": pa.array(list(found.values()), pa.list_(pa.int64())),
            "before": pa.array(
                [
                    [bisect_left(those, hour) for hour in range(those[0], those[-1] + 2)]
                    for those in found.values()
                ],
                pa.list_(pa.int32()),
            ),
        }
    )

    def before(hour: Column) -> Column:
        place = F.greatest(hour - F.col("first_hour"), F.lit(0))
        return F.get("before", F.least(place, F.size("before") - 1).cast("int"))

    return (
        intervals.join(F.broadcast(intervals.sparkSession.createDataFrame(known)), "world")
        .withColumn("skipped", before(bucket(F.col("from_at"))))
        .withColumn("many", before(bucket(F.col("end")) + 1) - F.col("skipped"))
        .where((F.col("end") >= F.col("from_at")) & (F.col("many") > 0))
        .withColumn("bucket", F.explode(F.slice("hours", F.col("skipped") + 1, F.col("many"))))
        .drop("first_hour", "hours", "before", "skipped", "many")
    )


def sharing(intervals: DataFrame, others: DataFrame, key: list[str]) -> DataFrame:
    """Every interval (`from_at` to `end`) with every other (`fault_from` to `fault_until`) of the same key
    that it shares time with."""
    return _together(hourly(intervals, "from_at", "end"), hourly(others, "fault_from", "fault_until"), key)


def _together(intervals: DataFrame, others: DataFrame, key: list[str]) -> DataFrame:
    """Two that share several hours meet in the one in which their common time begins."""
    begun = F.greatest("from_at", "fault_from")
    return (
        intervals.join(F.broadcast(others), [*key, "bucket"])
        .where((F.col("from_at") <= F.col("fault_until")) & (F.col("fault_from") <= F.col("end")))
        .where(F.col("bucket") == bucket(begun))
        .drop("bucket")
    )


def hourly(intervals: DataFrame, begins: str, ends: str) -> DataFrame:
    hours = F.sequence(bucket(F.col(begins)), bucket(F.col(ends)))
    return intervals.where(F.col(ends) >= F.col(begins)).withColumn("bucket", F.explode(hours))


def bucket(at: Column) -> Column:
    return F.floor(F.unix_micros(at) / F.lit(BUCKET_S * 1_000_000))


def at_fault(failed: DataFrame, times: DataFrame) -> DataFrame:
    """Faults with names of their own, no longer than the journals are."""
    return failed.join(F.broadcast(times), "world").select(
        "world",
        "place",
        F.greatest("from_at", F.timestamp_micros(F.unix_micros("oldest") - 1)).alias("fault_from"),
        F.coalesce("until_at", "newest").alias("fault_until"),
    )
