"""True membership, seen membership, and where the two differ.

    truth    a member joined at home and has not left, and every server and line on the way there works
    sight    what a host that follows the group was told
    lie      a stretch in which one host's sight and the memberships at home differ

Lies are ordinary and short: notices take time. An audit looks for those that last when they should not, in
**calm**, when everything must be right: at the moments at which a simulator says that the world has settled,
or, in journals of real worlds, in stretches without any change of a link that are long enough for all notices
to arrive.

A member that cannot be reached must not be seen. Broken paths are known from a simulator's own rows, or else
from the reports of both ends of a link and from gaps between two lives of a server.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from rostra.history.audits.facts import Calm, Fault
from rostra.history.shape import schema, shaped, sums

if TYPE_CHECKING:
    from rostra.history.audits.evidence import Evidence

LIES: Final = schema(
    world="text",
    seen_by="text",
    group="text",
    member="text",
    what="text",  # ghost: seen, and not in it | missing: the reverse
    from_at="time",
    until_at="time?",  # null: to the end of what is known
    mended="bool",  # the host was told; else the truth came round
)

CALM_HOURS: Final = schema(
    world="text",
    since="time",  # nothing was disturbed from here on
    calm_until="time",  # to here
    wait_us="int64",  # what lasted so long in between is wrong
    settled="bool",  # a simulator says so: it is one moment
    broken="texts",  # places that do not work meanwhile
    bucket="int64",
)

LASTED: Final = StructType(
    [*LIES, *(field for field in CALM_HOURS if field.name not in ("world", "bucket"))]
).add("moment", TimestampType())
"""A lie with a calm in which it lasted too long, and the moment from which on it had."""

BUCKET_S: Final = 3600
"""What shares some time is looked for hour by hour, so that nothing is compared with another day."""

FAULT_HOURS: Final = schema(world="text", place="text", fault_from="time", fault_until="time", bucket="int64")


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
    counts = {"seen": F.col("seen"), "due": 1 - F.col("seen")}
    is_seen = F.col("seen") > 0
    states = (
        sums(told.unionByName(due), key, "from_at", "until_at", **counts)
        .withColumn("is_seen", is_seen)
        .withColumn("is_seen_next", F.lead(is_seen).over(Window.partitionBy(*key).orderBy("at")))
    )
    return shaped(
        states.where(F.col("is_seen") != (F.col("due") > 0)),
        LIES,
        what=F.when(F.col("is_seen"), "ghost").otherwise("missing"),
        from_at="at",
        until_at="until",
        mended=F.coalesce(F.col("is_seen_next") != F.col("is_seen"), F.lit(False)),
    )


def meeting(evidence: "Evidence", intervals: DataFrame, stretches: Sequence[Calm]) -> DataFrame:
    """Every interval (`from_at`, `until_at`) with every calm in which it lasted too long, and the `moment`
    from which on it had. What happens in the very microsecond of a moment comes after it."""
    times = evidence.times
    ended = intervals.join(F.broadcast(times), "world").withColumn("end", F.coalesce("until_at", "newest"))
    begun = F.greatest("from_at", "since")
    lasted_us = F.unix_micros(F.least("end", "calm_until")) - F.unix_micros(begun)
    return (
        sharing(ended, evidence.few(calm_hours(stretches), CALM_HOURS), "since", "calm_until", ["world"])
        .where(lasted_us >= F.col("wait_us"))
        .withColumn("moment", F.timestamp_micros(F.unix_micros(begun) + F.col("wait_us")))
        .drop("end", "oldest", "newest")
    )


def calm_hours(stretches: Iterable[Calm]) -> list[tuple[Any, ...]]:
    """Each of them in every hour that it has a part of (`CALM_HOURS`)."""
    return [(*each, hour) for each in stretches for hour in hours(each.since, each.calm_until)]


def fault_hours(faults: Iterable[Fault]) -> list[tuple[Any, ...]]:
    """The same (`FAULT_HOURS`)."""
    return [(*each, hour) for each in faults for hour in hours(each.from_at, each.until_at)]


def hours(from_at: int, until_at: int) -> range:
    width = BUCKET_S * 1_000_000
    return range(from_at // width, until_at // width + 1 if until_at >= from_at else 0)


def sharing(intervals: DataFrame, others: DataFrame, begins: str, ends: str, key: list[str]) -> DataFrame:
    """Every interval (`from_at` to `end`) with every other of the same key that it shares time with; those
    are in every hour that they have a part of. Two that share several hours meet in the one in which their
    common time begins."""
    begun = F.greatest("from_at", begins)
    return (
        hourly(intervals, "from_at", "end")
        .join(F.broadcast(others), [*key, "bucket"])
        .where((F.col("from_at") <= F.col(ends)) & (F.col(begins) <= F.col("end")))
        .where(F.col("bucket") == bucket(begun))
        .drop("bucket")
    )


def hourly(intervals: DataFrame, begins: str, ends: str) -> DataFrame:
    hours = F.sequence(bucket(F.col(begins)), bucket(F.col(ends)))
    return intervals.where(F.col(ends) >= F.col(begins)).withColumn("bucket", F.explode(hours))


def bucket(at: Column) -> Column:
    return F.floor(F.unix_micros(at) / F.lit(BUCKET_S * 1_000_000))
