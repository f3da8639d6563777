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
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rostra.history.audits.facts import Calm, Fault
from rostra.history.shape import shaped

if TYPE_CHECKING:
    from rostra.history.audits.evidence import Evidence

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

BUCKET: Final = StructField("bucket", LongType(), nullable=False)
CALM_HOURS: Final = StructType([*CALM.fields, BUCKET])
FAULT_HOURS: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("place", StringType(), nullable=False),
        StructField("fault_from", TimestampType(), nullable=False),
        StructField("fault_until", TimestampType(), nullable=False),
        BUCKET,
    ]
)


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
