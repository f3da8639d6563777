"""What is true, what is seen, and where the two differ.

    truth    a member joined at home and has not left, and every server and line on the way there works
    sight    what a host that follows the group was told
    lie      a stretch in which one host's sight and the memberships at home differ

Lies are ordinary and short: news takes time. An audit asks which of them lasted when they should not, at
**moments** when everything must be right: when a simulator says that the world has settled, or, in journals
of real worlds, when no link has changed for so long that all news must have arrived.

What cannot be reached must not be seen. Which way is broken is known from a simulator's own rows, or else
from what the two ends of a link and the gaps between two lives of a server say.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, StringType, StructField, StructType, TimestampType

from rostra.history.places import crosses, on_the_way
from rostra.history.questions.follows import follows
from rostra.history.questions.stays import memberships, stays
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
        StructField("server", StringType(), nullable=True),  # what does not work: a server ...
        StructField("a", StringType(), nullable=True),  # ... or the link between two
        StructField("b", StringType(), nullable=True),
        StructField("from_at", TimestampType(), nullable=False),
        StructField("until_at", TimestampType(), nullable=True),  # null while it lasts
    ]
)

MOMENTS: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("moment", TimestampType(), nullable=False),  # everything must be right now
        StructField("since", TimestampType(), nullable=False),  # nothing was disturbed from here on
        StructField("settled", IntegerType(), nullable=False),  # 1: a simulator says so
    ]
)

BUCKET_S: Final = 60
"""Stretches are matched with moments minute by minute, so that no stretch meets a moment of another day."""

POINTS_MAX: Final = 1000
"""Moments in one calm stretch; a longer one is looked at less often."""

DISTURBING: Final = ("link-up", "link-down", "started", "closing", "server-changed", "line-changed")
"""Kinds of rows after which news may be late or lost for a while."""

LONG_AGO: Final = "1970-01-01"


def lies(events: DataFrame, lived: DataFrame, informed: DataFrame) -> DataFrame:
    """Where sight and membership at home differ (`LIES`), whether or not the way between is broken.

    A window over the change points of both, per host, group and member: linear in what hosts were told.
    """
    key = ("world", "seen_by", "group", "member")
    seen = stays(events, lived).select(
        *key, F.col("joined_at").alias("from_at"), F.col("left_at").alias("until_at"), F.lit(1).alias("seen")
    )
    looking = informed.select(
        "world", "seen_by", "group", F.col("from_at").alias("look_at"), F.col("until_at").alias("look_until")
    )
    home = memberships(events, lived).select("world", "group", "member", "joined_at", "left_at")
    due = (
        home.join(looking, ["world", "group"])
        .withColumn("from_at", F.greatest("joined_at", "look_at"))
        .withColumn("until_at", F.least("left_at", "look_until"))  # least() passes over nulls
        .where(F.col("until_at").isNull() | (F.col("until_at") > F.col("from_at")))
        .select(*key, "from_at", "until_at", F.lit(0).alias("seen"))
    )

    def step(at: str, by: int) -> Column:
        return F.struct(
            F.col(at).alias("at"),
            (F.col("seen") * by).alias("a"),
            ((1 - F.col("seen")) * by).alias("b"),
        )

    steps = (
        seen.unionByName(due)
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
    `paused` to `continued`; a line carries nothing from `cut` to `healed`."""
    truth = events.where(F.col("role") == "sim")
    turns = truth.where(F.col("kind").isin("server-changed", "line-changed"))
    change = F.col("change")
    machines = (
        (change.isin("started", "crashed"), "crashed", "started"),
        (change.isin("paused", "continued", "started"), "paused", ""),
        (change.isin("cut", "healed"), "cut", ""),
    )
    found = None
    for concerned, fails, born in machines:
        story = Window.partitionBy("world", "accuser", "peer").orderBy("at", "seq")
        rows = (
            turns.where(concerned)
            .withColumn("until_at", F.lead("at").over(story))
            .withColumn("is_first", F.row_number().over(story) == 1)
        )
        spells = rows.where(change == fails)
        if born:
            unborn = rows.where(F.col("is_first") & (change == born))
            spells = spells.unionByName(
                unborn.withColumn("until_at", F.col("at")).withColumn("at", F.lit(LONG_AGO).cast("timestamp"))
            )
        is_line = F.col("accuser").isNotNull()
        made = shaped(
            spells,
            FAULTS,
            server=F.when(~is_line, F.col("peer")),
            a="accuser",
            b=F.when(is_line, F.col("peer")),
            from_at="at",
        )
        found = made if found is None else found.unionByName(made)
    assert found is not None
    return found


def _reported(events: DataFrame, lived: DataFrame) -> DataFrame:
    """A link is down from `link-down` to the next `link-up` of the same end; a server, between two lives."""
    story = Window.partitionBy("world", "writer", "peer").orderBy("epoch", "seq")
    turns = events.where(F.col("kind").isin("link-up", "link-down")).withColumn(
        "until_at", F.lead("at").over(story)
    )
    links = shaped(
        turns.where(F.col("kind") == "link-down"),
        FAULTS,
        server=F.lit(None),
        a="writer",
        b="peer",
        from_at="at",
    )
    next_life = Window.partitionBy("world", "writer").orderBy("epoch")
    gaps = shaped(
        lived.withColumn("until_at", F.lead("began_at").over(next_life)).where(
            F.col("ended_by").isNotNull() & F.col("role").isin("agent", "server")
        ),
        FAULTS,
        server="writer",
        a=F.lit(None),
        b=F.lit(None),
        from_at="last_at",
    )
    return links.unionByName(gaps)


def in_the_way(here: Column, there: Column) -> Column:
    """Is this fault on the way between two hosts?"""
    return F.when(F.col("server").isNotNull(), on_the_way(F.col("server"), here, there)).otherwise(
        crosses(F.col("a"), F.col("b"), here, there)
    )


def moments(events: DataFrame, known: DataFrame, bound_s: float) -> DataFrame:
    """When everything must be right (`MOMENTS`).

    In a simulated world: whenever it settled. In another: every `bound_s` seconds (or a thousand times, in a
    long calm), from `bound_s` after the last disturbance anywhere in the world until the next.
    """
    width = int(bound_s * 1e6)
    settled = shaped(
        events.where(F.col("kind") == "settled"),
        MOMENTS,
        moment="at",
        since="at",
        settled=F.lit(1),
    )
    newest = events.groupBy("world").agg(F.max("at").alias("newest"))
    story = Window.partitionBy("world").orderBy("at")
    calm = (
        events.where(F.col("kind").isin(*DISTURBING))
        .join(F.broadcast(known), "world", "left_anti")
        .select("world", "at")
        .distinct()
        .withColumn("next_at", F.lead("at").over(story))
        .join(F.broadcast(newest), "world")
        .withColumn("first", F.unix_micros("at") + width)
        .withColumn("last", F.unix_micros(F.coalesce("next_at", "newest")))
        .where(F.col("last") >= F.col("first"))
        .withColumn("step", F.greatest(F.lit(width), F.ceil((F.col("last") - F.col("first")) / POINTS_MAX)))
        .select("world", F.explode(F.sequence("first", "last", "step")).alias("us"))
    )
    real = shaped(
        calm,
        MOMENTS,
        moment=F.timestamp_micros("us"),
        since=F.timestamp_micros(F.col("us") - width),
        settled=F.lit(0),
    )
    return settled.unionByName(real)


def meeting(spells: DataFrame, points: DataFrame) -> DataFrame:
    """Every spell with every moment at which it held and, in a world that nobody settled, had held since it
    was last disturbed. What happens in the very microsecond of a moment comes after it."""
    newest = points.groupBy("world").agg(F.max("moment").alias("last_moment"))
    spread = (
        spells.join(F.broadcast(newest), "world")
        .withColumn("end", F.least("until_at", "last_moment"))  # least() passes over nulls
        .where(F.col("end") >= F.col("from_at"))
        .withColumn("bucket", F.explode(F.sequence(bucket(F.col("from_at")), bucket(F.col("end")))))
    )
    marked = points.withColumn("bucket", bucket(F.col("moment")))
    before = F.when(F.col("settled") == 1, F.col("from_at") < F.col("moment")).otherwise(
        F.col("from_at") <= F.col("since")
    )
    return (
        spread.join(F.broadcast(marked), ["world", "bucket"])
        .where(before & (F.col("end") >= F.col("moment")))
        .drop("bucket", "end", "last_moment")
    )


def bucket(at: Column) -> Column:
    return F.floor(F.unix_micros(at) / F.lit(BUCKET_S * 1_000_000))


def at_fault(broken: DataFrame) -> DataFrame:
    """Faults with names of their own, to be joined with what they may explain."""
    return broken.select(
        F.col("world").alias("fault_world"),
        "server",
        "a",
        "b",
        F.col("from_at").alias("fault_from"),
        F.col("until_at").alias("fault_until"),
    )


def failing_at(moment: Column) -> Column:
    """Did this fault last over a moment?"""
    return (F.col("fault_from") < moment) & (F.col("fault_until").isNull() | (F.col("fault_until") >= moment))
