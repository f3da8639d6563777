"""Clock offsets: estimated from events that two writers share, and corrected before anything is judged.

    a      started ─── link-up b ─────────────────        both ends of a link write its rise at the same time,
    b            started ─── link-up a ───────────        or within a handshake: else their clocks differ

Every node has a link to its parent, so the clocks of a world are compared along its tree, and each with the
median of all that can be compared. A clock that is off by more than `OFF_S` is corrected for a whole life.
The correction is used only if after it no effect is earlier than its cause; otherwise (the clock was set
while its node ran, a handshake took minutes) nothing that depends on this writer can be judged.

A simulator writes everything by one clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median_low
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.facts import Facts, rows_of
from rostra.history.runs import Key

OFF_S: Final = 10.0
"""Every promise with a bound bears so much: the shortest bound is three times as long."""

MEETINGS: Final = 20
"""So many of two lives are compared: the first ones."""


class Clocks(Struct, frozen=True):
    ahead_us: dict[Key, int] = {}  # of these lives, how far ahead (or behind) the clock is
    doubted: dict[Key, int] = {}  # the same, but what was heard of does not fit

    def say(self) -> dict[str, str]:
        """For each world: whose clocks, and by how much."""
        said: dict[str, list[str]] = defaultdict(list)
        for key, ahead in sorted({**self.ahead_us, **self.doubted}.items()):
            text = f"{abs(ahead) / 1e6:.0f} s {'ahead' if ahead > 0 else 'behind'}"
            said[key.world].append(f"{key.writer} {text}{' at first' * (key in self.doubted)}")
        return {world: f"clocks that are off: {', '.join(names)}" for world, names in said.items()}


def clocks(events: DataFrame, facts: Facts) -> Clocks:
    """Of lives whose links are among the marks. The events are read only if a clock is off."""
    off = _off(facts)
    if not off:
        return Clocks()
    wrong = _heard_before(corrected(events, off), off)
    return Clocks({key: us for key, us in off.items() if key not in wrong}, {key: off[key] for key in wrong})


def shifted(marks: pa.Table, by_us: Mapping[Key, int]) -> pa.Table:
    """The same rows, of these lives so much later."""
    keys = rows_of(marks, *Key._fields)
    moved = pa.array([by_us.get(Key(*key), 0) for key in keys], pa.int64())
    at = pc.add(marks["at"].cast(pa.int64()), moved).cast(marks["at"].type)
    return marks.set_column(marks.schema.get_field_index("at"), marks.schema.field("at"), at)


def corrected(rows: DataFrame, ahead_us: Mapping[Key, int]) -> DataFrame:
    """The same rows, at the times at which their writers should have written them."""
    if not ahead_us:
        return rows
    lives = rows.sparkSession.createDataFrame(
        [(*key, us) for key, us in sorted(ahead_us.items())],
        "world string, writer string, epoch long, ahead_us long",
    )
    at = F.timestamp_micros(F.unix_micros("at") - F.coalesce("ahead_us", F.lit(0)))
    joined = rows.join(F.broadcast(lives), ["world", "writer", "epoch"], "left").withColumn("at", at)
    return joined.select(*rows.columns)


def _off(facts: Facts) -> dict[Key, int]:
    times: dict[tuple[Key, Key], list[int]] = defaultdict(list)
    columns = ("world", "writer", "epoch", "peer", "life", "at")
    for world, writer, epoch, peer, life, at in facts.marked(("link-up",), *columns):
        if life is not None and world not in facts.simulated:
            times[Key(world, writer, epoch), Key(world, peer, life)].append(at)
    times = {pair: sorted(those)[:MEETINGS] for pair, those in times.items()}
    begun = {Key(*row) for row in facts.marked(("started",), *Key._fields)}
    near: dict[Key, dict[Key, int]] = defaultdict(dict)
    for (here, there), ours in times.items():
        if (there, here) in times:
            near[here][there] = _apart(ours, times[there, here], {here, there} <= begun)
    off: dict[Key, int] = {}
    for component in _components(near):
        middle = median_low(component.values())
        off |= {key: us - middle for key, us in component.items() if abs(us - middle) > OFF_S * 1e6}
    return off


def _apart(ours: list[int], theirs: list[int], from_the_start: bool) -> int:
    """How far their clock is ahead of ours: so that most meetings of the one are meetings of the other, too.

    Where several are as good (an end may have lost its tail, and the later meetings with it) the first of the
    one is the first of the other, if both journals have their beginning; else the clocks are called as little
    off as can be.
    """
    first = theirs[0] - ours[0]

    def fits(apart: int) -> tuple[int, bool, int]:
        both = sum(any(abs(our + apart - their) <= OFF_S * 1e6 for their in theirs) for our in ours)
        return both, from_the_start and apart == first, -abs(apart)

    return max({their - our for our in ours for their in theirs}, key=fits)


def _components(near: Mapping[Key, Mapping[Key, int]]) -> Iterable[dict[Key, int]]:
    """Lives that can be compared, each with how far its clock is ahead of the first one's."""
    left = set(near)
    for key in sorted(near):
        if key not in left:
            continue
        found, waiting = {key: 0}, [key]
        while waiting:
            here = waiting.pop()
            for there, apart in near[here].items():
                if there not in found:
                    found[there] = found[here] + apart
                    waiting.append(there)
        left -= set(found)
        yield found


def _heard_before(events: DataFrame, off: Mapping[Key, int]) -> set[Key]:
    """Of these lives the ones that heard of a change before it happened, or had one that others did."""
    change, life = ("world", "group", "member", "life", "stamp"), F.struct("world", "writer", "epoch")
    rows = events.where(F.col("stamp").isNotNull())
    home = rows.where(F.col("kind").isin("member-joined", "member-left")).select(
        *change, life.alias("home"), F.col("at").alias("home_at")
    )
    told = F.col("kind").isin("joined", "left", "absolute") & F.col("news")
    heard = rows.where(told).select(*change, life.alias("by"), F.col("at").alias("heard_at"))
    early = F.unix_micros("home_at") - F.unix_micros("heard_at") > int(OFF_S * 1e6)
    pairs = heard.join(home, list(change)).where(early).select("home", "by").distinct()
    return {Key(*each) for pair in pairs.collect() for each in pair if Key(*each) in off}
