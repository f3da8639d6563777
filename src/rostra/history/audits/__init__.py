"""Were the promises kept? Each promise of the design as a Spark job over any number of events.

    events ──▶ a promise's transform ──▶ FINDINGS ──▶ VERDICTS: yes | no | cannot tell, per world
                                     └─▶ the first offences, and the journal's lines around them

*No*: something broke it, and here is where. *Cannot tell*: nothing gave it a chance to be broken, or it looks
broken and rows that are missing (`doubts`) could explain it. *Yes*: nothing looks broken, in that `share` of
the history of which no row is missing; where journals have no closing mark, up to the first of their ends, as
it says.

The transforms share nothing with the servers that they judge, nor with the simulator's own checkers, which
say the same of the same storms.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

from rostra.errors import BadInput
from rostra.history.audits.both_sides_told import both_sides_told
from rostra.history.audits.coverage import COVERAGE, coverage
from rostra.history.audits.evidence import Evidence
from rostra.history.audits.fifo_gap_free import fifo_gap_free
from rostra.history.audits.findings import DOUBTS, FINDINGS, OPEN_END, doubts
from rostra.history.audits.heals_alone import heals_alone
from rostra.history.audits.per_source_order import per_source_order
from rostra.history.audits.smooth_join import smooth_join
from rostra.history.audits.stable_truth import stable_truth
from rostra.history.audits.watch_complete import watch_complete
from rostra.history.audits.why import why
from rostra.history.shape import in_utc, shaped
from rostra.history.spelling import closest


class Promise(NamedTuple):
    name: str
    says: str
    judge: Callable[..., DataFrame]
    needs: str  # what must be in a journal for it to be judged
    bound: bool = False  # does it take `bound_s`?


PROMISES: Final[Mapping[str, Promise]] = {
    promise.name: promise
    for promise in (
        Promise(
            "per-source-order",
            "two events about one source are reported everywhere in the order they happened",
            per_source_order,
            "nobody heard of one source twice",
        ),
        Promise(
            "stable-truth",
            "once changes stop, every observer in one component reports the same, true membership",
            stable_truth,
            "the world was never at rest while somebody followed a group",
            bound=True,
        ),
        Promise(
            "watch-complete",
            "a watch gives a snapshot, then every later change once and in order, or a Gap",
            watch_complete,
            "nothing changed in calm weather while somebody followed",
            bound=True,
        ),
        Promise(
            "both-sides-told",
            "each side of a partition is told, once per domain, within the detection bound",
            both_sides_told,
            "nobody lost sight of anybody for long enough",
            bound=True,
        ),
        Promise(
            "heals-alone",
            "a healed partition re-merges without an operator, within the heal bound",
            heals_alone,
            "nobody came back into sight",
            bound=True,
        ),
        Promise(
            "fifo-gap-free",
            "messages of one sender arrive in order, without gap or duplicate, while connected",
            fifo_gap_free,
            "nothing was delivered",
        ),
        Promise(
            "smooth-join",
            "joining never stalls messages that are already flowing",
            smooth_join,
            "nobody joined or left while messages flowed",
            bound=True,
        ),
        Promise("why", "every removal has a recorded explanation", why, "nobody was removed", bound=True),
    )
}

VERDICTS: Final = StructType(
    [
        StructField("promise", StringType(), nullable=False),
        StructField("world", StringType(), nullable=False),
        StructField("answer", StringType(), nullable=False),  # yes | no | cannot tell
        StructField("judged", LongType(), nullable=False),  # how many things
        StructField("broken", LongType(), nullable=False),  # how many of them broke it
        StructField("doubts", LongType(), nullable=False),  # places where rows are missing
        StructField(
            "share", DoubleType(), nullable=False
        ),  # of all hosts' and servers' time: could be judged
        StructField("first_at", TimestampType(), nullable=True),  # of the first offence, or the first doubt
        StructField("why", StringType(), nullable=True),  # the first offence, or why it cannot be told
    ]
)

LINES: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("offence", LongType(), nullable=False),  # number of the offence, from 1
        StructField(
            "place", LongType(), nullable=False
        ),  # lines before (negative) and after it; 0 is the row
        StructField("writer", StringType(), nullable=False),
        StructField("epoch", LongType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("at", TimestampType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("line", StringType(), nullable=False),  # everything else that the row says, as JSON
    ]
)


def promise_called(name: str) -> Promise:
    if name not in PROMISES:
        raise BadInput(f"no promise is called {name!r}", fix=closest(name, PROMISES))
    return PROMISES[name]


def findings(evidence: Evidence | DataFrame, promise: str, bound_s: float | None = None) -> DataFrame:
    """Everything that was judged (`FINDINGS`). `bound_s` is how long something may take; else the promise's
    own bound. Give `Evidence` rather than events if several promises are to be judged."""
    given = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
    chosen = promise_called(promise)
    bound = {"bound_s": bound_s} if chosen.bound and bound_s is not None else {}
    return given.judged((promise, *bound.values()), lambda: chosen.judge(given, **bound))


def verdicts(evidence: Evidence | DataFrame, promise: str, bound_s: float | None = None) -> DataFrame:
    """One row per world (`VERDICTS`)."""
    evidence = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
    chosen = promise_called(promise)
    broken = F.col("broken")
    counted = (
        findings(evidence, promise, bound_s)
        .groupBy("world")
        .agg(
            F.count("broken").alias("judged"),
            F.count_if(broken).alias("offences"),
            F.count_if(broken.isNull()).alias("excused"),
            F.min(F.when(broken, F.col("at"))).alias("broken_at"),
            F.min_by("text", F.when(broken, F.col("at"))).alias("text"),
            F.min_by("text", F.when(broken.isNull(), F.col("at"))).alias("excused_text"),
        )
    )
    is_open = F.col("what") == OPEN_END
    doubted = evidence.doubts.groupBy("world").agg(
        F.count_if(~is_open).alias("doubts"),
        F.min(F.when(~is_open & (F.col("what") != "clock"), F.col("from_at"))).alias("doubted_at"),
        F.count_if(is_open).alias("open"),
        F.min(F.when(is_open, F.col("from_at"))).alias("open_at"),
    )
    worlds = evidence.lived.select("world").distinct()
    offences, judged, in_doubt, excused = (
        F.coalesce(name, F.lit(0)) for name in ("offences", "judged", "doubts", "excused")
    )
    share = F.coalesce("share", F.lit(1.0))
    percent = F.floor(share * 1000) / 10  # nothing is called all that is not
    open_end = F.format_string(
        "cannot tell after %s: %d journals have no closing mark",
        in_utc(F.col("open_at")),
        "open",
    )
    off = F.lit(None).cast("string")
    for world, text in evidence.clocks.say().items():
        off = F.when(F.col("world") == world, F.lit(text)).otherwise(off)
    missing = F.when(F.col("doubted_at").isNotNull(), "rows are missing: ").otherwise("")
    said = (
        F.when(offences > 0, F.col("text"))
        .when(excused > 0, F.concat(F.lit("rows that are missing could explain it: "), F.col("excused_text")))
        .when((in_doubt > 0) & (judged == 0), F.lit("rows are missing, and nothing else can be judged"))
        .when(judged == 0, F.lit(chosen.needs))
        .when(in_doubt > 0, F.concat(missing, F.format_string("%.1f %% of it could be judged", percent)))
        .when(F.col("open") > 0, open_end)
    )
    known = worlds.join(F.broadcast(evidence.shares), "world", "left")
    return shaped(
        known.join(counted, "world", "left").join(doubted, "world", "left"),
        VERDICTS,
        promise=F.lit(promise),
        answer=F.when(offences > 0, "no")
        .when((excused > 0) | (judged == 0) | (share == 0), "cannot tell")
        .otherwise("yes"),
        judged=judged,
        broken=offences,
        doubts=in_doubt,
        share=share,
        first_at=F.coalesce("broken_at", "doubted_at"),
        why=F.nullif(F.concat_ws("; ", said, off), F.lit("")),
    )


def offences(
    evidence: Evidence | DataFrame, promise: str, bound_s: float | None = None, first: int = 5
) -> DataFrame:
    """The first offences of each world (`FINDINGS`, and `offence`, their number from 1)."""
    order = Window.partitionBy("world").orderBy("at", "writer", "epoch", "seq", "text")
    return (
        findings(evidence, promise, bound_s)
        .where("broken")
        .withColumn("offence", F.row_number().over(order).cast("long"))
        .where(F.col("offence") <= first)
    )


def lines_around(events: DataFrame, found: DataFrame, lines: int = 3) -> DataFrame:
    """The journal's lines before and after each offence, by the same writer (`LINES`).

    An offence that is no single row is shown beside what its writer wrote last before it.
    """
    about = found.select(
        "world",
        "writer",
        "offence",
        F.col("epoch").alias("o_epoch"),
        F.col("seq").alias("o_seq"),
        F.col("at").alias("o_at"),
    )
    near = events.join(F.broadcast(about), ["world", "writer"]).where(
        (F.col("o_epoch").isNull() | (F.col("epoch") == F.col("o_epoch")))
        & (F.col("o_seq").isNull() | F.col("seq").between(F.col("o_seq") - lines, F.col("o_seq") + lines))
    )
    is_before = F.when(F.col("o_seq").isNotNull(), F.col("seq") < F.col("o_seq")).otherwise(
        F.col("at") < F.col("o_at")
    )
    key = ("world", "offence")
    up = Window.partitionBy(*key, "is_before").orderBy("epoch", "seq")
    down = Window.partitionBy(*key, "is_before").orderBy(F.desc("epoch"), F.desc("seq"))
    place = F.when(F.col("is_before"), -F.row_number().over(down)).otherwise(F.row_number().over(up) - 1)
    placed = near.withColumn("is_before", is_before).withColumn("place", place.cast("long"))
    said = [
        name
        for name in events.columns
        if name not in ("world", "writer", "role", "epoch", "seq", "at", "kind", "nth", "of", "virtual_s")
    ]
    return shaped(placed.where(F.col("place").between(-lines, lines)), LINES, line=F.to_json(F.struct(*said)))


__all__ = [
    "COVERAGE",
    "DOUBTS",
    "FINDINGS",
    "LINES",
    "PROMISES",
    "VERDICTS",
    "Evidence",
    "Promise",
    "coverage",
    "doubts",
    "findings",
    "lines_around",
    "offences",
    "promise_called",
    "verdicts",
]
