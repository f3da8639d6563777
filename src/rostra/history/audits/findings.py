"""What every audit finds, and how far the journals can be trusted.

An audit is a transform: events in, `FINDINGS` out. A finding is one thing that was judged, and either fine or
`broken`; so how much was judged, what broke and where it broke first are one aggregate over one table.

What the journals do not hold cannot be judged. **Doubts** say where: rows that are missing in the middle of a
writer's life, and everything after the last row of a life that ended without a goodbye. An offence that a
missing row could explain is no offence, and where there is one, nobody can tell. If nothing looks wrong, a
promise is called kept for the share of all time and places that is not in doubt (`coverage`).

Of a world that was killed whole nobody is left to miss anybody, and its journals look like those of one that
runs still: they end within a minute of each other, without a closing mark. So every such end is a doubt too,
an **open end**: nothing is held against anybody that a row after it could explain, and a promise is called
kept only up to the first of them.
"""

import re
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from rostra.history.questions.lives import holes, lives
from rostra.history.runs import Key
from rostra.history.shape import shaped
from rostra.journal.schema import segment_called

FINDINGS: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        # null: it looks broken, and rows that are missing could explain it
        StructField("broken", BooleanType(), nullable=True),
        StructField("at", TimestampType(), nullable=False),  # when it was judged, or broke
        StructField("writer", StringType(), nullable=True),  # whose journal shows it
        StructField("epoch", LongType(), nullable=True),
        StructField("seq", LongType(), nullable=True),  # the row that broke it; null: no one row did
        StructField("text", StringType(), nullable=True),  # what is wrong, for people
    ]
)

DOUBTS: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("writer", StringType(), nullable=False),
        StructField("epoch", LongType(), nullable=False),
        # hole | lost tail | open end; of a whole life: clock | contradiction
        StructField("what", StringType(), nullable=False),
        StructField("from_at", TimestampType(), nullable=False),
        StructField("until_at", TimestampType(), nullable=True),  # when the writer was heard of again
        StructField("rows", LongType(), nullable=True),  # how many are missing; null: nobody knows
    ]
)


CLOCKS_US: Final = 60_000_000
"""How far two clocks may differ, and news be late, before a missing row no longer explains it."""

OPEN_END: Final = "open end"
HOLE, CLOCK, CONTRADICTION = "hole", "clock", "contradiction"
UNKNOWN_IN_LIFE: Final = (HOLE, CLOCK, CONTRADICTION)

LONG_AGO: Final = "1970-01-01"
FOR_EVER: Final = "9999-12-31"


def simulated(lived: DataFrame) -> DataFrame:
    """The worlds whose truth is in the journal, because a simulator wrote it; nothing is lost in them."""
    return lived.where(F.col("role") == "sim").select("world").distinct()


def doubts(events: DataFrame, lived: DataFrame | None = None, known: DataFrame | None = None) -> DataFrame:
    """Where the journals say nothing (`DOUBTS`). `lived` are the `lives` of these events, `known` the
    `simulated` worlds."""
    lived = lives(events) if lived is None else lived
    next_life = Window.partitionBy("world", "writer").orderBy("epoch")
    oldest = F.min("began_at").over(Window.partitionBy("world"))
    # A life without its first rows may have begun any time after the one before.
    since = lived.select(
        *Key._fields,
        F.coalesce(F.lag("last_at").over(next_life), F.timestamp_micros(F.unix_micros(oldest) - 1)).alias(
            "since"
        ),
    )
    missing = shaped(
        holes(events, lived).join(F.broadcast(since), list(Key._fields)),
        DOUBTS,
        what=F.lit(HOLE),
        from_at=F.coalesce("after_at", "since"),
        rows=F.col("last_number") - F.col("first_number") + 1,
    )
    # Of a life without a row, the tail is all that came after the one before.
    ended = F.when(F.col("rows") == 0, F.lag("last_at").over(next_life))
    tails = lived.withColumn("until_at", F.lead("began_at").over(next_life)).withColumn(
        "last_at", F.coalesce(F.least(ended, "last_at"), "last_at")
    )
    tails = tails.where(
        F.coalesce(F.col("ended_by") == "unknown", F.lit(True)) & F.col("role").isin("agent", "server")
    )
    lost = shaped(
        tails.join(F.broadcast(simulated(lived) if known is None else known), "world", "left_anti"),
        DOUBTS,
        what=F.when(F.col("ended_by").isNull(), OPEN_END).otherwise("lost tail"),
        from_at="last_at",
        rows=F.lit(None),
    )
    return missing.unionByName(lost)


def unread(lived: DataFrame, files: Iterable[str]) -> DataFrame:
    """Lives of which no row could be read, by the names of the files that should hold them (`DOUBTS`). Of a
    life that is known otherwise `doubts` says what is missing; and what has another name than writers give
    to files, none of them wrote."""
    rows = [row for file in files if (row := _named(file)) is not None]
    named = lived.sparkSession.createDataFrame(rows, "writer string, epoch long, rows long, day string")
    return shaped(
        named.join(lived.select("writer", "epoch").distinct(), ["writer", "epoch"], "left_anti")
        .groupBy("writer", "epoch")
        .agg(F.sum("rows").alias("rows"), F.min("day").alias("day"))
        .crossJoin(F.broadcast(lived.select("world").distinct())),
        DOUBTS,
        what=F.lit(HOLE),
        from_at=F.col("day").cast("timestamp"),
        until_at=F.lit(None).cast("timestamp"),
    )


def unheard(lived: DataFrame, marks: DataFrame, known: DataFrame) -> DataFrame:
    """Lives of which no file is here, though neighbours met them: as `lived`, of no rows, from the first
    meeting to the last. Of writers that have no other life here nothing is judged anyway; a simulator
    (`known`) loses nothing."""
    key = list(Key._fields)
    met = (
        marks.where((F.col("kind") == "link-up") & F.col("life").isNotNull())
        .groupBy("world", F.col("peer").alias("writer"), F.col("life").alias("epoch"))
        .agg(F.min("at").alias("began_at"), F.max("at").alias("last_at"))
        .join(F.broadcast(known), "world", "left_anti")
        .join(F.broadcast(lived.select(*key)), key, "left_anti")
    )
    roles = lived.groupBy("world", "writer").agg(F.min("role").alias("role"))
    nothing = F.lit(0).cast("long")
    return met.join(F.broadcast(roles), ["world", "writer"]).select(
        *("world", "writer", "role", "epoch", "began_at", "last_at"),
        *(nothing.alias(name) for name in ("last_seq", "rows", "dropped")),
        *(F.lit("unknown").alias("ended_by"), F.lit(True).alias("whole")),
    )


def unbelieved(lived: DataFrame, lives: Iterable[Key], what: str) -> DataFrame:
    """Lives of which nothing can be believed, from beginning to end (`DOUBTS`)."""
    rows = [(*key, what, None, None) for key in lives]
    named = "world string, writer string, epoch long, what string, until_at timestamp, rows long"
    return shaped(
        lived.sparkSession.createDataFrame(rows, named), DOUBTS, from_at=F.lit(LONG_AGO).cast("timestamp")
    )


def _named(file: str) -> tuple[str, int, int, str] | None:
    """Whose file it is, how many rows it should have, and of which day they are."""
    *_, folder, name = ("", *file.split("/"))
    segment = segment_called(name)
    if segment is None:
        return None
    writer, epoch, first, last = segment
    day = folder.removeprefix("date=") if re.fullmatch(r"date=\d{4}-\d\d-\d\d", folder) else LONG_AGO
    return writer, epoch, last - first + 1, day


def known_lives(lived: DataFrame, marks: DataFrame) -> DataFrame:
    """`lives`, and of those that ended in a crash that somebody witnessed (a simulator, a lab), the moment of
    it: until then the writer was there, though it wrote nothing."""
    crashes = marks.where((F.col("kind") == "server-changed") & (F.col("change") == "crashed")).select(
        "world", F.col("peer").alias("writer"), F.col("at").alias("crashed_at")
    )
    witnessed = (
        lived.where(F.col("ended_by").isNull() | (F.col("ended_by") == "unknown"))
        .join(F.broadcast(crashes), ["world", "writer"])
        .where(F.col("crashed_at") >= F.col("last_at"))
        .groupBy("world", "writer", "epoch")
        .agg(F.min("crashed_at").alias("crashed_at"))
    )
    crashed = F.col("crashed_at").isNotNull()
    return (
        lived.join(F.broadcast(witnessed), ["world", "writer", "epoch"], "left")
        .withColumn("last_at", F.coalesce("crashed_at", "last_at"))
        .withColumn("ended_by", F.when(crashed, F.lit("crash")).otherwise(F.col("ended_by")))
        .drop("crashed_at")
    )


DOUBTS_OF_WORLD: Final = (
    "array<struct<writer: string, what: string, from_at: timestamp, until_at: timestamp>>"
)


def by_world(doubted: DataFrame) -> DataFrame:
    """All doubts of a world in one row, for `undoubted`: world, doubts_of_world. `until_at` is when a tail
    that was lost no longer explains what rests on nothing older."""
    ever = F.lit(FOR_EVER).cast("timestamp")
    over = F.when(F.col("what") == "lost tail", F.coalesce("until_at", ever)).otherwise(ever)
    doubt = F.struct("writer", "what", "from_at", over.alias("until_at"))
    return doubted.groupBy("world").agg(F.collect_list(doubt).alias("doubts_of_world"))


def undoubted(
    found: DataFrame,
    doubted: DataFrame | None,
    writers: Column,
    until: Column,
    since: Column | None = None,
    wrong: Column | None = None,
    through: Column | None = None,
    reached: Column | None = None,
) -> DataFrame:
    """Whether each of these is `broken`: true, or null if a missing row can explain it, because it rests on
    one of these `writers` (a list) after that was doubted. What only an open end explains is left out: it is
    beyond what is judged. `doubted` is `by_world`; None if nothing is in doubt.

    With `wrong`, only those of which it is true look broken, and of the others it is false.

    With `since`, it rests on nothing that was written before. Then a tail that was lost explains nothing any
    more once the writer has begun a new life; what is missing in the middle of a life may explain anything
    after it.

    With `through`, it also rests on what failed on the way between two hosts (`way`): rows that are missing
    in a server's life may say otherwise. What its neighbours report is true though its own tail is lost.

    With `reached`, a time, it rests on that way having worked since then: what broke it may be in the tail
    that a server lost, unless the server was back, and wrote, by that time.
    """
    looks = F.lit(True) if wrong is None else wrong
    if doubted is None:
        return found.withColumn("broken", looks)
    ever = F.lit(FOR_EVER).cast("timestamp")

    def explains(doubt: Column) -> Column:
        rests = F.array_contains(writers, doubt["writer"])
        on_the_way = F.array_contains("through", doubt["writer"])
        if through is not None:
            rests |= on_the_way & doubt["what"].isin(*UNKNOWN_IN_LIFE)
        if since is not None:
            rests &= F.unix_micros(doubt["until_at"]) > F.unix_micros(since) - CLOCKS_US
        if reached is not None:
            rests |= on_the_way & F.coalesce(doubt["until_at"] > reached, F.lit(False))
        return rests & (doubt["from_at"] < F.coalesce(until, ever))

    none = F.array().cast(DOUBTS_OF_WORLD)
    explaining = F.coalesce(F.when(looks, F.filter("doubts_of_world", explains)), none)
    is_open = F.forall("explaining", lambda doubt: doubt["what"] == OPEN_END)
    joined = found.join(F.broadcast(doubted), "world", "left")
    if through is not None:
        joined = joined.withColumn("through", F.when(looks, through))
    return (
        joined.withColumn("explaining", explaining)
        .where((F.size("explaining") == 0) | ~is_open)
        .withColumn("broken", F.when(F.size("explaining") == 0, looks))
        .drop("doubts_of_world", "through", "explaining")
    )
