"""Were the promises kept? Each promise of the design as a Spark job over any number of events.

    events ──▶ a promise's transform ──▶ FINDINGS ──▶ VERDICTS: yes | no | cannot tell, per world
                                     └─▶ the first offences, and the journal's lines around them

*No*: it was broken, and the finding says where. *Cannot tell*: there was no occasion to break it, or it looks
broken and missing rows (`doubts`) could explain that. *Yes*: nothing looks broken, in that `share` of the
history of which no row is missing; if journals have no closing mark, only up to the first of their ends.

The transforms share no code with the servers that they judge, nor with the simulator's checkers. Tests
compare the verdicts of both on the same storms.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import floor
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from rostra.errors import BadInput
from rostra.history.audits.all_or_none import all_or_none
from rostra.history.audits.both_sides_told import both_sides_told
from rostra.history.audits.coverage import COVERAGE as COVERAGE
from rostra.history.audits.coverage import coverage as coverage
from rostra.history.audits.every_change import every_change
from rostra.history.audits.evidence import Evidence as Evidence
from rostra.history.audits.evidence import Judged
from rostra.history.audits.exact_list import exact_list
from rostra.history.audits.facts import OfWorld
from rostra.history.audits.fifo_gap_free import fifo_gap_free
from rostra.history.audits.findings import DOUBTS as DOUBTS
from rostra.history.audits.findings import FINDINGS as FINDINGS
from rostra.history.audits.heals_alone import heals_alone
from rostra.history.audits.members_listed import members_listed
from rostra.history.audits.one_leader import one_leader
from rostra.history.audits.one_living import one_living
from rostra.history.audits.one_registrar import one_registrar
from rostra.history.audits.per_source_order import per_source_order, per_source_order_at_hand
from rostra.history.audits.same_view import same_view
from rostra.history.audits.smooth_join import smooth_join
from rostra.history.audits.stable_truth import stable_truth
from rostra.history.audits.total_order import total_order
from rostra.history.audits.watch_complete import watch_complete, watch_complete_at_hand
from rostra.history.audits.why import why, why_at_hand
from rostra.history.schemas import NEW_NAMES
from rostra.history.shape import schema, shaped
from rostra.history.spelling import closest


class Promise(NamedTuple):
    name: str
    says: str
    judge: Callable[..., DataFrame]
    needs: str  # what must be in a journal for it to be judged
    bound: bool = False  # does it take `bound_s`?
    # the same of a history at hand: what may be wrong, and how much else is fine
    at_hand: Callable[..., Judged] | None = None


PROMISES: Final[Mapping[str, Promise]] = {
    promise.name: promise
    for promise in (
        Promise(
            "per-source-order",
            "two events about one source are reported everywhere in the order they happened",
            per_source_order,
            "no observer was told of one source twice",
            at_hand=per_source_order_at_hand,
        ),
        Promise(
            "stable-truth",
            "once changes stop, every observer in one component reports the same, true membership",
            stable_truth,
            "the world was never at rest while a program followed a group",
            bound=True,
        ),
        Promise(
            "watch-complete",
            "a watch gives a snapshot, then every later change once and in order, or a Gap",
            watch_complete,
            "nothing changed in calm weather while a program followed",
            bound=True,
            at_hand=watch_complete_at_hand,
        ),
        Promise(
            "both-sides-told",
            "each side of a partition is told, once per domain, within the detection bound",
            both_sides_told,
            "no host lost sight of another for long enough",
            bound=True,
        ),
        Promise(
            "heals-alone",
            "a healed partition re-merges without an operator, within the heal bound",
            heals_alone,
            "no member came back into sight",
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
            "no member joined or left while messages flowed",
            bound=True,
        ),
        Promise(
            "why",
            "every removal has a recorded explanation",
            why,
            "no member was removed",
            bound=True,
            at_hand=why_at_hand,
        ),
        Promise(
            "same-view",
            "members of an agreed group see the same views in the same order, with the same ranks",
            same_view,
            "no agreed group had a view",
        ),
        Promise(
            "every-change",
            "every join, leave and failure in an agreed group is in a view, within the bound",
            every_change,
            "no agreed group had a view while everything worked for so long",
            bound=True,
        ),
        Promise(
            "one-living",
            "of an agreed group whose rule lets one side of a partition live, no two sides live",
            one_living,
            "no view of an agreed group had a fence",
            bound=True,
        ),
        Promise(
            "total-order",
            'in a group with delivery="atomic", a position stands for one message at every member, and none'
            " is left out",
            total_order,
            'no group with delivery="atomic" had a view',
        ),
        Promise(
            "all-or-none",
            "what one member of such a group was given, all were given that went on with it",
            all_or_none,
            'no group with delivery="atomic" went on from one view to the next',
        ),
        Promise(
            "one-registrar",
            "once everything works, all agents of a led set's scope believe in one registrar",
            one_registrar,
            "no led set was there while everything worked for so long",
            bound=True,
        ),
        Promise(
            "one-leader",
            "once everything works, a led set has one leader",
            one_leader,
            "no led set was there while everything worked for so long",
            bound=True,
        ),
        Promise(
            "exact-list",
            "once everything works, the list of a led set's leader has its members, and no others",
            exact_list,
            "no led set had a leader while everything worked for so long",
            bound=True,
        ),
        Promise(
            "members-listed",
            "once everything works, a led set's leader lists every member, also while others come and go",
            members_listed,
            "no led set had a leader while everything worked for so long",
            bound=True,
        ),
    )
}

VERDICTS: Final = schema(
    promise="text",
    world="text",
    answer="text",  # yes | no | cannot tell
    judged="int64",  # how many things
    broken="int64",  # how many of them broke it
    doubts="int64",  # places where rows are missing
    share="double",  # of all hosts' and servers' time: could be judged
    first_at="time?",  # of the first offence, or the first doubt
    why="text?",  # the first offence, or why it cannot be told
)

LINES: Final = schema(
    world="text",
    offence="int64",  # number of the offence, from 1
    place="int64",  # lines before (negative) and after it; 0 is the row
    writer="text",
    epoch="int64",
    seq="int64",
    at="time",
    kind="text",
    line="text",  # everything else that the row says, as JSON
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
    return given.judged((promise, *bound.values()), lambda: (chosen.judge(given, **bound), {}))[0]


def _judged(evidence: Evidence, promise: str, bound_s: float | None) -> Judged:
    """They, but for those that are only counted."""
    chosen, at_hand = promise_called(promise), promise_called(promise).at_hand
    if at_hand is None or evidence.at_hand is None:
        return findings(evidence, promise, bound_s), {}
    bound = {"bound_s": bound_s} if chosen.bound and bound_s is not None else {}
    return evidence.judged((promise, "at hand", *bound.values()), lambda: at_hand(evidence, **bound))


def verdicts(evidence: Evidence | DataFrame, promise: str, bound_s: float | None = None) -> DataFrame:
    """One row per world (`VERDICTS`)."""
    evidence = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
    rows = [tuple(row.values()) for row in judge(evidence, promise, bound_s)]
    return evidence.doubts.sparkSession.createDataFrame(rows, VERDICTS)


def judge(evidence: Evidence, promise: str, bound_s: float | None = None) -> list[dict[str, Any]]:
    """The same as values, in the order of the worlds' names. One job: what is found is counted by Spark, and
    what there is to say of each world is little."""
    made, fine = _judged(evidence, promise, bound_s)
    found = {} if evidence.is_none(made) else _counted(made)
    facts, remarks = evidence.facts, evidence.remarks()
    return [
        _verdict(
            *(promise, world, found.get(world), fine.get(world, 0), facts.doubts_of.get(world)),
            *(facts.shares.get(world, 1.0), remarks.get(world)),
        )
        for world in sorted(facts.times)
    ]


def _counted(found: DataFrame) -> dict[str, Row]:
    broken = F.col("broken")
    counted = found.groupBy("world").agg(
        F.count("broken").alias("judged"),
        F.count_if(broken).alias("broken"),
        F.count_if(broken.isNull()).alias("excused"),
        F.min(F.when(broken, F.col("at"))).alias("broken_at"),
        F.min_by("text", F.when(broken, F.col("at"))).alias("text"),
        F.min_by("text", F.when(broken.isNull(), F.col("at"))).alias("excused_text"),
    )
    return {row["world"]: row for row in counted.collect()}


def _verdict(
    promise: str,
    world: str,
    found: Row | None,
    fine: int,
    doubted: OfWorld | None,
    share: float,
    remark: str | None,
) -> dict[str, Any]:
    judged, broken, excused = (found["judged"], found["broken"], found["excused"]) if found else (0, 0, 0)
    judged += fine
    doubts, doubted_at = (doubted.doubts, doubted.doubted_at) if doubted else (0, None)
    said: str | None = None
    if found and broken:
        said = found["text"]
    elif found and excused:
        said = f"rows that are missing could explain it: {found['excused_text']}"
    elif not judged:
        said = "rows are missing, and nothing else can be judged" if doubts else PROMISES[promise].needs
    elif doubts:
        missing = "rows are missing: " if doubted_at is not None else ""
        said = (
            f"{missing}{floor(share * 1000) / 10:.1f} % of it could be judged"  # nothing is all that is not
        )
    elif doubted and doubted.open_at is not None:
        last = datetime.fromtimestamp(doubted.open_at // 1_000_000, UTC)
        journals = f"{doubted.open} journals have no closing mark"
        said = f"cannot tell after {last:%Y-%m-%d %H:%M:%S} UTC: {journals}"
    unsure = excused or not judged or not share
    first_at = None if doubted_at is None else _as_spark_says(doubted_at)
    return {
        "promise": promise,
        "world": world,
        "answer": "no" if broken else "cannot tell" if unsure else "yes",
        "judged": judged,
        "broken": broken,
        "doubts": doubts,
        "share": share,
        "first_at": found["broken_at"] if found and broken else first_at,
        "why": "; ".join(text for text in (said, remark) if text is not None) or None,
    }


def _as_spark_says(us: int) -> datetime:
    """A time of a row that was collected: of this machine's zone, and without saying so."""
    return datetime.fromtimestamp(us // 1_000_000).replace(microsecond=us % 1_000_000)


def offences(
    evidence: Evidence | DataFrame, promise: str, bound_s: float | None = None, first: int = 5
) -> DataFrame:
    """The first offences of each world (`FINDINGS`, and `offence`, their number from 1)."""
    order = Window.partitionBy("world").orderBy("at", "writer", "epoch", "seq", "text")
    given = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
    return (
        _judged(given, promise, bound_s)[0]
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
    shown = {"world", "writer", "role", "epoch", "seq", "at", "kind", "nth", "of", "virtual_s"}
    said = [name for name in events.columns if name not in shown | {*NEW_NAMES.values()}]
    return shaped(placed.where(F.col("place").between(-lines, lines)), LINES, line=F.to_json(F.struct(*said)))
