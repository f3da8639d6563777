"""What every audit needs to know of the events, made once for all of them and kept: it is small.

The events themselves are read anew by every audit, and only in the columns that it looks at. Of a small
history they are kept too, and what grows with them: who saw whom, and where that was wrong.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property, wraps
from typing import Self

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from rostra.history.audits.clocks import Clocks, clocks, corrected
from rostra.history.audits.findings import (
    CLOCK,
    CONTRADICTION,
    FINDINGS,
    OPEN_END,
    by_world,
    doubts,
    known_lives,
    simulated,
    unbelieved,
    unheard,
    unread,
)
from rostra.history.audits.kept import copied, kept
from rostra.history.audits.lies_fast_path import LASTING_S, lasting
from rostra.history.audits.marks import kinds, marks
from rostra.history.audits.truth import (
    DISTURBING,
    at_fault,
    between,
    calm,
    faults,
    informed,
    lies,
    span,
)
from rostra.history.questions.lives import lives
from rostra.history.questions.stays import ended_with_lives, memberships, stays
from rostra.history.runs import Key
from rostra.history.schemas import KINDS_OF
from rostra.history.tuning import SMALL_ROWS, TINY_ROWS

Audit = Callable[..., DataFrame]


class Evidence:
    """Events, and what can be trusted of them. Keep one for several audits of the same events, and `release`
    it, or use it as a context.

    `left_out` are files of the journal that could not be read: of their writers, rows are missing.
    `contradicted` are lives of which two files have different rows under the same numbers: which of them are
    the writer's own is not known. `table` gives tables that were made of all these events: what one of them
    has is read there.
    """

    def __init__(
        self,
        events: DataFrame,
        left_out: Iterable[str] = (),
        contradicted: Iterable[Key] = (),
        table: Callable[[str], DataFrame] | None = None,
    ) -> None:
        self._given = events
        self._table = table
        self._left_out = tuple(left_out)
        self._contradicted = sorted(set(contradicted))
        self._calm: dict[float, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._judged: dict[Hashable, DataFrame] = {}

    def keep(self, frame: DataFrame) -> DataFrame:
        """Worked out once, until `release`: a fact that follows from lives and marks, and does not outgrow
        them. To hold what turns out to be few is planned twice."""
        return copied(frame) if self._few else self.hold(frame)

    def hold(self, frame: DataFrame) -> DataFrame:
        """The same for what may grow with the events."""
        return copied(frame) if self._rows <= TINY_ROWS else self._held(kept(frame))

    def once(self, frame: DataFrame) -> DataFrame:
        """The same, if the events are few: more than one step goes on from it."""
        return frame if self._rows > SMALL_ROWS else self.hold(frame)

    def _held(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame)
        return frame

    def judged(self, key: Hashable, judge: Callable[[], DataFrame]) -> DataFrame:
        """What was found once under this key: of a small history it is not judged again for what broke."""
        if key not in self._judged:
            self._judged[key] = self.once(judge())
        return self._judged[key]

    @cached_property
    def events(self) -> DataFrame:
        """As they were given, but for clocks that are off."""
        return corrected(self._read, self.clocks.ahead_us)

    def of(self, *kinds: str) -> DataFrame:
        """Events of these kinds, in the columns that mean something for them. Where there are none, Spark
        sees before it runs anything that nothing follows from them."""
        made = next((name for name, those in KINDS_OF.items() if {*kinds} <= {*those}), None)
        if made is None or self._table is None:
            rows = self.events
        else:
            rows = corrected(self._table(made), self.clocks.ahead_us)
        there = sorted(self.kinds & {*kinds})
        return rows.where(F.col("kind").isin(*there) if there else F.lit(False))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Kinds of rows that this history has: looked through once for all audits."""
        return kinds(self._read)

    @cached_property
    def marks(self) -> DataFrame:
        """Rows of kinds that are few: for whoever needs nothing else."""
        off = self.clocks.ahead_us
        return self.keep(corrected(self._marks_as_written, off)) if off else self._marks_as_written

    @cached_property
    def clocks(self) -> Clocks:
        """Those that are off by more than a promise bears."""
        return clocks(self._read, self._marks_as_written, self.simulated)

    @cached_property
    def simulated(self) -> DataFrame:
        """Worlds whose truth a simulator wrote down."""
        return self.keep(simulated(self._lives_as_written))

    @cached_property
    def lived(self) -> DataFrame:
        """The lives of all writers, also those that only neighbours tell of; with crashes that were
        witnessed."""
        return self.keep(known_lives(self._all_lives, self.marks))

    @cached_property
    def doubts(self) -> DataFrame:
        found = doubts(self.events, self._all_lives, self.simulated)
        if self._left_out:
            found = found.unionByName(unread(self._lives, self._left_out))
        for which, what in ((self.clocks.doubted, CLOCK), (self._contradicted, CONTRADICTION)):
            if which:
                found = found.unionByName(unbelieved(self._lives, which, what))
        return self.keep(found)

    @cached_property
    def doubted(self) -> DataFrame | None:
        """They, for `undoubted`; None if there are none."""
        return self.keep(by_world(self.doubts)) if self.doubts_of else None

    @cached_property
    def doubts_of(self) -> dict[str, Row]:
        """How many there are of each world, and when they begin: doubts, doubted_at, open, open_at (in
        seconds since 1970)."""
        is_open, is_whole_life = F.col("what") == OPEN_END, F.col("what").isin(CLOCK, CONTRADICTION)
        counted = self.doubts.groupBy("world").agg(
            F.count_if(~is_open).alias("doubts"),
            F.min(F.when(~is_open & ~is_whole_life, F.col("from_at"))).alias("doubted_at"),
            F.count_if(is_open).alias("open"),
            F.unix_seconds(F.min(F.when(is_open, F.col("from_at")))).alias("open_at"),
        )
        return {row["world"]: row for row in counted.collect()}

    def remarks(self) -> dict[str, str]:
        """What every verdict says of a world: whose clocks are off, and whose rows contradict each other."""
        said = {world: [text] for world, text in self.clocks.say().items()}
        for world, writer, epoch in self._contradicted:
            said.setdefault(world, []).append(f"files contradict each other about {writer} #{epoch}")
        return {world: "; ".join(texts) for world, texts in said.items()}

    @cached_property
    def worlds(self) -> list[str]:
        return sorted(row["world"] for row in self.times.collect())

    @cached_property
    def shares(self) -> dict[str, float]:
        """How much can be judged of each world of which not all can be."""
        from rostra.history.audits.coverage import coverage

        if not self.doubts_of:
            return {}
        summed = coverage(self).groupBy("world").agg((F.sum("known_s") / F.sum("seconds")).alias("share"))
        return {row["world"]: row["share"] for row in summed.collect()}

    @cached_property
    def times(self) -> DataFrame:
        """When each world's journals begin and end."""
        return self.keep(span(self._lives))

    @cached_property
    def faults(self) -> DataFrame:
        return self.keep(faults(self.marks, self.simulated, self.lived))

    @cached_property
    def at_fault(self) -> DataFrame:
        return self.keep(at_fault(self.faults, self.times))

    @cached_property
    def informed(self) -> DataFrame:
        """Who followed which group, from the first list on."""
        return self.keep(informed(self.marks, self.lived))

    @cached_property
    def speaking(self) -> DataFrame:
        """Groups that speak: world, group. Their members are told of without stamps, and twice: by the
        servers and among what is said. So what was told of them cannot be matched with what happened."""
        told = self.of("absolute", "joined").where(F.col("change") == "joined")
        return self.keep(told.where(F.col("stamp").isNull()).select("world", "group").distinct())

    def calm(self, bound_s: float) -> DataFrame:
        """When everything must be right."""
        if bound_s not in self._calm:
            found = calm(self.marks, self.simulated, self.times, self.faults, bound_s)
            self._calm[bound_s] = self.keep(found)
        return self._calm[bound_s]

    @cached_property
    def homes(self) -> DataFrame:
        """Hosts whose journals are here: world, home. Of members of others nobody says if they are there."""
        agents = self.lived.where(F.col("role") == "agent")
        return self.keep(agents.select("world", F.col("writer").alias("home")).distinct())

    @cached_property
    def accusers(self) -> DataFrame:
        """Writers whose journals are here, from a beginning on: world, accuser."""
        begun = self.marks.where(F.col("kind") == "started")
        return self.keep(begun.select("world", F.col("writer").alias("accuser")).distinct())

    @cached_property
    def downs(self) -> DataFrame:
        """Who gave up whom, and when: world, accuser, accused, down_at."""
        down = self.marks.where(F.col("kind") == "link-down")
        names = (F.col("writer").alias("accuser"), F.col("peer").alias("accused"))
        return self.keep(down.select("world", *names, F.col("at").alias("down_at")))

    @cached_property
    def stays(self) -> DataFrame:
        """Who saw whom. The table knows of no clock that is off."""
        if self._table is None or self.clocks.ahead_us:
            return self.once(stays(self.events, self.lived))
        return self.once(ended_with_lives(self._table("stays"), self.lived))

    @cached_property
    def seen(self) -> DataFrame:
        """The same as intervals, from_at to end: what lasts, to the end of the journals."""
        ended = self.stays.join(F.broadcast(self.times), "world")
        return ended.withColumn("from_at", F.col("joined_at")).withColumn(
            "end", F.coalesce("left_at", "newest")
        )

    @cached_property
    def lies(self) -> DataFrame:
        """Where sight and membership at home differ."""
        return self.once(lies(self.stays, self._home, self.informed))

    @cached_property
    def _home(self) -> DataFrame:
        return self.once(memberships(self.of("member-joined", "member-left"), self.lived))

    def lasting(self, bound_s: float) -> DataFrame:
        """Of these the ones that can have lasted so long, or that something happened in: of a large history
        few, and worked out once."""
        return self._lasting if bound_s >= LASTING_S else self.lies

    @cached_property
    def disturbances(self) -> DataFrame:
        """From everything that fails or works again to the next such thing: world, since, calm_until."""
        marks, kind = self.marks, F.col("kind")
        done = marks.where(kind.isin("server-changed", "line-changed") & (F.col("role") == "sim"))
        seen = marks.where(kind.isin(*DISTURBING)).join(F.broadcast(self.simulated), "world", "left_anti")
        return self.keep(between(done.unionByName(seen), self.times))

    @cached_property
    def _lasting(self) -> DataFrame:
        if self._rows <= SMALL_ROWS:
            return self.lies
        moments = self.disturbances.select("world", F.col("since").alias("at"))
        facts = (self.informed, moments, self.simulated, self.times)
        return self.hold(lasting(self.stays, self._home, *facts, self._rows))

    @cached_property
    def _all_lives(self) -> DataFrame:
        missed = self.keep(unheard(self._lives, self.marks, self.simulated))
        return self._lives if missed.isEmpty() else self.keep(self._lives.unionByName(missed))

    @cached_property
    def _lives(self) -> DataFrame:
        return self.keep(lives(self.events)) if self.clocks.ahead_us else self._lives_as_written

    @cached_property
    def _lives_as_written(self) -> DataFrame:
        return self._held(kept(lives(self._given)))

    @cached_property
    def _marks_as_written(self) -> DataFrame:
        return self.hold(marks(self._read))

    @cached_property
    def _few(self) -> bool:
        """Are lives and marks?"""
        return not (self._lives_as_written.is_cached or self._marks_as_written.is_cached)

    @cached_property
    def _read(self) -> DataFrame:
        """As they were given; a few are read once, if they are not kept already and there are no tables."""
        if self._rows > SMALL_ROWS or self._table is not None:
            return self._given
        given = self._given.coalesce(1) if self._rows <= TINY_ROWS else self._given.select("*")
        return given if self._given.is_cached else self._held(given.persist())

    @cached_property
    def _rows(self) -> int:
        return sum(row["rows"] for row in self._lives_as_written.select("rows").collect())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Forget what was kept."""
        for frame in self._kept:
            frame.unpersist()


def judged_with(*kinds: str) -> Callable[[Audit], Audit]:
    """An audit that rests on rows of these kinds: of a history that has none it says nothing, and plans
    nothing."""

    def only(audit: Audit) -> Audit:
        @wraps(audit)
        def judge(evidence: Evidence, **bounds: float) -> DataFrame:
            if evidence.kinds.isdisjoint(kinds):
                return evidence.doubts.sparkSession.createDataFrame([], FINDINGS)
            return audit(evidence, **bounds)

        return judge

    return only
