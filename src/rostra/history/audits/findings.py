"""What every audit finds, and how far the journals can be trusted.

An audit is a transform: events in, `FINDINGS` out. A finding is one thing that was judged, and either fine or
`broken`; so how much was judged, what broke and where it broke first are one aggregate over one table.

What the journals do not hold cannot be judged. **Doubts** say where: rows that are missing in the middle of a
writer's life, and everything after the last row of a life that ended without a `closing` row. An offence that
a missing row could explain is no offence: the answer is *cannot tell*. If nothing looks wrong, a promise is
called kept for the share of all time and places that is not in doubt (`coverage`).

If all nodes of a world are killed at once, their journals look like those of a running world: they end within
a minute of each other, without a closing mark. So every such end is a doubt too, an **open end**: what a
later row could explain is no offence, and a promise is called kept only up to the first open end.
"""

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from rostra.history.audits.facts import LOST_TAIL, OPEN_END, UNKNOWN_IN_LIFE, Doubt
from rostra.history.shape import schema

FINDINGS: Final = schema(
    world="text",
    # null: it looks broken, and rows that are missing could explain it
    broken="bool?",
    at="time",  # when it was judged, or broke
    writer="text?",  # whose journal shows it
    epoch="int64?",
    seq="int64?",  # the row that broke it; null: no one row did
    text="text?",  # what is wrong, for people
)

DOUBTS: Final = schema(
    world="text",
    writer="text",
    epoch="int64",
    # hole | lost tail | open end; of a whole life: clock | contradiction
    what="text",
    from_at="time",
    until_at="time?",  # when the writer was heard of again
    rows="int64?",  # how many are missing; null: unknown
)


CLOCKS_US: Final = 60_000_000
"""How far two clocks may differ, and news be late, before a missing row no longer explains it."""

FOR_EVER: Final = "9999-12-31"
FOR_EVER_US: Final = 253_402_214_400_000_000

DOUBTS_OF_WORLD: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField(
            "doubts_of_world",
            ArrayType(StructType([DOUBTS[name] for name in ("writer", "what", "from_at", "until_at")])),
        ),
    ]
)


def by_world(doubted: Iterable[Doubt]) -> list[tuple[str, list[Any]]]:
    """All doubts of a world in one row, for `undoubted` (`DOUBTS_OF_WORLD`). `until_at` is when a tail that
    was lost no longer explains what rests on nothing older."""
    found: dict[str, list[Any]] = {}
    for doubt in doubted:
        is_over = doubt.what == LOST_TAIL and doubt.until_at is not None
        until = doubt.until_at if is_over else FOR_EVER_US
        said = {"writer": doubt.writer, "what": doubt.what, "from_at": doubt.from_at, "until_at": until}
        found.setdefault(doubt.world, []).append(said)
    return list(found.items())


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

    none = F.array().cast(DOUBTS_OF_WORLD["doubts_of_world"].dataType)
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
