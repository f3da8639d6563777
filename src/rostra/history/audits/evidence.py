"""Facts that every audit needs, computed once for all of them and cached: they are small.

The events themselves are read again by every audit, only in the columns that it uses. For a small history the
events are cached too, and so are tables that grow with them: who saw whom, and where that was wrong.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, reduce, wraps
from itertools import starmap
from typing import Any, Final, Self
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rostra.history.arrow_fast_path import (
    HERE_ROWS,
    TASKS,
    THREADS,
    EventSource,
    answered,
    origin_of,
    whole_lives,
)
from rostra.history.audits.at_hand import NOTABLE, Notable, homes, notable, sights, unexcused
from rostra.history.audits.at_hand import memberships as memberships_of
from rostra.history.audits.clocks import Clocks, clocks, corrected, shifted
from rostra.history.audits.facts import (
    AuditedLife,
    Calm,
    Facts,
    Fault,
    WriterHole,
    lives_of,
    relived,
    rows_of,
)
from rostra.history.audits.findings import DOUBTS, DOUBTS_OF_WORLD, FINDINGS, by_world
from rostra.history.audits.kept import copied, handed_on, kept, table_of
from rostra.history.audits.lies_fast_path import GIVEN_ROWS, LASTING_S, Lying, known, lasting
from rostra.history.audits.marks import MARKS, kinds, marks
from rostra.history.audits.obstacles import Obstacles, in_the_way
from rostra.history.audits.obstacles import lasting as faults_lasting
from rostra.history.audits.truth import LASTED, LIES, lies, meeting
from rostra.history.places import host_of, way
from rostra.history.questions.follows import FOLLOWS
from rostra.history.questions.lives import LIVES, holes, parts
from rostra.history.questions.stays import ended_with_lives, memberships, stays
from rostra.history.runs import Key
from rostra.history.schemas import KINDS_OF, columns_of
from rostra.history.shape import schema
from rostra.history.tuning import SMALL_ROWS, TINY_ROWS

LIVED: Final = StructType([LIVES[name] for name in AuditedLife._fields])
LOOKING: Final = StructType(FOLLOWS.fields[:-1])


TIMES: Final = schema(world="text?", oldest="time?", newest="time?")


def leave() -> Column:
    """One number for a leave, by its stamp."""
    return F.xxhash64("world", "group", "member", "life", "stamp").alias("key")


Audit = Callable[..., DataFrame]
Judged = tuple[DataFrame, Mapping[str, int]]
"""Findings, and how many others there are in each world that are fine."""


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
        self._kept: list[DataFrame] = []
        self._judged: dict[Hashable, Judged] = {}
        self._none: WeakSet[DataFrame] = WeakSet()  # frames that are known to have no row

    def is_none(self, frame: DataFrame) -> bool:
        """Is it known that it has no row? Then what would follow from it is not planned at all."""
        return frame in self._none

    def all_of(self, *found: DataFrame) -> DataFrame:
        """Findings together."""
        some = [each for each in found if not self.is_none(each)]
        return reduce(DataFrame.unionByName, some) if some else self.nothing

    def _handed(self, rows: pa.Table, schema: StructType) -> DataFrame:
        frame = handed_on(self._given.sparkSession, rows, schema)
        if not rows.num_rows:
            self._none.add(frame)
        return frame

    def keep(self, frame: DataFrame) -> DataFrame:
        """Worked out once: rows of which it is known that they are few."""
        return copied(frame)

    def hold(self, frame: DataFrame) -> DataFrame:
        """The same for what may grow with the events; until `release`."""
        return copied(frame) if self._rows <= TINY_ROWS else self._held(kept(frame))

    def once(self, frame: DataFrame) -> DataFrame:
        """The same, if the events are few: more than one step goes on from it."""
        return frame if self._rows > SMALL_ROWS else self.hold(frame)

    def _held(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame)
        return frame

    def judged(self, key: Hashable, judge: Callable[[], Judged]) -> Judged:
        """What was found once under this key: of a small history it is not judged again for what broke."""
        if key not in self._judged:
            made, fine = judge()
            self._judged[key] = made if self.is_none(made) else self.once(made), fine
        return self._judged[key]

    @cached_property
    def nothing(self) -> DataFrame:
        """What an audit finds that has nothing to look at (`FINDINGS`)."""
        return self.few([], FINDINGS)

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
    def by_life(self) -> EventSource | None:
        """Files of which tasks can read whole lives in order, as they were written: of a journal, or of
        tables to which no rows came late. None if clocks are off."""
        origin = origin_of(self._given)
        if origin is None or self.clocks.ahead_us:
            return None
        if origin.by_life:
            return origin
        if self._table is None:
            return None
        tasks = THREADS if self._rows <= HERE_ROWS else TASKS
        return whole_lives(origin, rows_of(self._parts, "source", "writer", "rows"), tasks)

    @cached_property
    def at_hand(self) -> EventSource | None:
        """They, if they have so few rows that this process reads them for itself."""
        return self.by_life if 0 < self._rows <= HERE_ROWS else None

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Kinds of rows that this history has: looked through once for all audits."""
        return kinds(self._files)

    @cached_property
    def clocks(self) -> Clocks:
        """Those that are off by more than a promise bears."""
        return clocks(self._read, self._as_written)

    @cached_property
    def facts(self) -> Facts:
        """What follows from lives and marks, by clocks that are right."""
        given, off = self._as_written, self.clocks.ahead_us
        lives, marks = given.lives, given.marks
        if off:
            shift = {key: -us for key, us in off.items()}
            lives = relived(
                life._replace(began_at=life.began_at + us, last_at=life.last_at + us)
                for life in lives
                for us in (shift.get(life.key, 0),)
            )
            marks = shifted(marks, shift)
        torn = [life for life in lives if not life.whole]
        missing = rows_of(holes(self.events, self.few(torn, LIVED)).toArrow()) if torn else ()
        return Facts(
            lives,
            marks,
            starmap(WriterHole, missing),
            self._left_out,
            self._contradicted,
            self.clocks.doubted,
        )

    def few(self, rows: Collection[tuple[Any, ...]], schema: StructType) -> DataFrame:
        """Facts as a table, for a plan of Spark, which sees at once what follows from none."""
        return self._handed(table_of(rows, schema), schema)

    def found(self, rows: pa.Table) -> DataFrame:
        """As `FINDINGS`."""
        return self._handed(rows, FINDINGS)

    @cached_property
    def marks(self) -> DataFrame:
        """Rows of kinds that are few, for audits that need no others."""
        return handed_on(self._given.sparkSession, self.facts.marks, MARKS)

    @cached_property
    def lived(self) -> DataFrame:
        """The lives of all writers, also those that only neighbours tell of; with crashes that were
        witnessed."""
        return self.few(self.facts.lived, LIVED)

    @cached_property
    def alive(self) -> DataFrame:
        """The lives of which there are rows, as the question `lives` says them."""
        return self.few(self.facts.lives, LIVED)

    @cached_property
    def memberships(self) -> DataFrame:
        """As the question of this name says them."""
        return self.once(memberships(self.of("member-joined", "member-left"), self.alive))

    @cached_property
    def doubts(self) -> DataFrame:
        return self.few(self.facts.doubts, DOUBTS)

    @cached_property
    def doubted(self) -> DataFrame | None:
        """They, for `undoubted`; None if there are none."""
        doubts = self.facts.doubts
        return self.few(by_world(doubts), DOUBTS_OF_WORLD) if doubts else None

    def remarks(self) -> dict[str, str]:
        """What every verdict says of a world: whose clocks are off, and whose rows contradict each other."""
        said = {world: [text] for world, text in self.clocks.say().items()}
        for world, writer, epoch in self._contradicted:
            said.setdefault(world, []).append(f"files contradict each other about {writer} #{epoch}")
        return {world: "; ".join(texts) for world, texts in said.items()}

    @cached_property
    def times(self) -> DataFrame:
        """When each world's journals begin and end: world, oldest, newest."""
        return self.few([(world, *times) for world, times in sorted(self.facts.times.items())], TIMES)

    @cached_property
    def informed(self) -> DataFrame:
        """Who followed which group, from the first list on."""
        return self.few(self.facts.informed, LOOKING)

    @cached_property
    def speaking(self) -> DataFrame:
        """Groups that speak: world, group. Their members are told of without stamps, and twice: by the
        servers and among what is said. So what was told of them cannot be matched with what happened."""
        if self.at_hand is not None:
            return self.few(sorted(self.notable.speaking), schema(world="text?", group="text?"))
        told = self.of("absolute", "joined").where(F.col("change") == "joined")
        return self.keep(told.where(F.col("stamp").isNull()).select("world", "group").distinct())

    @cached_property
    def unmade(self) -> DataFrame:
        """Leaves that hosts were told of and no home made: key (`leave`). Names travel only with these."""
        told = self.notices("left").where(F.col("news") & F.col("stamp").isNotNull())
        if self.at_hand is not None:
            return told.select(leave()).distinct()
        made = self.of("member-left").select(leave())
        return self.hold(told.select(leave()).join(made, "key", "left_anti").distinct())

    @property
    def files(self) -> EventSource:
        """Of a history at hand."""
        origin = origin_of(self._given)
        assert origin is not None
        return origin

    def notices(self, *kinds: str) -> DataFrame:
        """Rows of these kinds: where they are looked through here, only those that may be wrong."""
        if self.at_hand is None:
            return self.of(*kinds)
        rows = self.notable.rows
        return self.notable_rows(rows.filter(pc.is_in(rows["kind"], pa.array(kinds))))

    def notable_rows(self, rows: pa.Table) -> DataFrame:
        return self._handed(rows, columns_of(*NOTABLE))

    @cached_property
    def notable(self) -> Notable:
        """Of a history at hand."""
        return notable(self.files, self.home_rows)

    @cached_property
    def home_rows(self) -> pa.Table:
        """Joins and leaves at home, of a history at hand."""
        return homes(self.files)

    @cached_property
    def homes(self) -> DataFrame:
        """Hosts whose journals are here: world, home. Whether members of other hosts exist is not known."""
        return self.few(self.facts.homes, schema(world="text?", home="text?"))

    @cached_property
    def accusers(self) -> DataFrame:
        """Writers whose journals are here, from a beginning on: world, accuser."""
        return self.few(self.facts.accusers, schema(world="text?", accuser="text?"))

    @cached_property
    def downs(self) -> DataFrame:
        """Who gave up whom, and when: world, accuser, accused, down_at."""
        downs = schema(world="text?", accuser="text?", accused="text?", down_at="time?")
        return self.few(self.facts.downs, downs)

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

    def across(self, faults: Iterable[Fault], *columns: str) -> DataFrame:
        """These columns of `seen`, with every fault between the two hosts meanwhile: see `obstacles`. The
        faults are some of those that are known, or moments in them."""
        if self.at_hand is None:
            return in_the_way(self.seen.select(*columns), faults)
        return self._met(self._sights[1].select(columns), faults)

    def in_the_way(self, intervals: DataFrame, faults: Iterable[Fault]) -> DataFrame:
        """The same of any intervals."""
        if self.at_hand is None:
            return in_the_way(intervals, faults)
        return self._met(intervals.toArrow(), faults)

    def _met(self, intervals: pa.Table, faults: Iterable[Fault]) -> DataFrame:
        """The same, worked out in this process."""
        found = Obstacles(faults_lasting(faults)).met(intervals)
        return self._handed(found, from_arrow_schema(found.schema))

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

    def lied(self, bound_s: float, calm: Sequence[Calm]) -> DataFrame:
        """They, each with every calm in which it lasted too long (`meeting`), though the way between both
        hosts worked, or its own host, if it saw too much."""
        if self.at_hand is not None and bound_s >= LASTING_S:
            return self.few([*unexcused(self._sights[0], calm, self.facts.times)], LASTED)
        here, broken = F.col("seen_by"), F.col("broken")
        excused = F.when(
            F.col("what") == "missing", F.arrays_overlap(way(here, host_of(F.col("member"))), broken)
        ).otherwise(F.array_contains(broken, here))
        return meeting(self, self.lasting(bound_s), calm).where(~excused)

    @cached_property
    def _lasting(self) -> DataFrame:
        if self.at_hand is not None:
            return handed_on(self._given.sparkSession, self._sights[0], LIES)
        if self._rows <= SMALL_ROWS:
            return self.lies
        found = known(self.facts)
        if self.by_life is None or self._rows > GIVEN_ROWS:
            return self.hold(lasting(self.stays, self._home, found, self._rows))
        home = self._home.select("world", "group", "member", "joined_at", "left_at").toArrow()
        return self.hold(answered(self._given, self.by_life, Lying(found, self._ends, home), LIES))

    @cached_property
    def _sights(self) -> tuple[pa.Table, pa.Table]:
        assert self.at_hand is not None
        lying = Lying(known(self.facts), self._ends, memberships_of(self.home_rows, self._ends))
        newest = {world: times[1] for world, times in self.facts.times.items()}
        return sights(self.at_hand, lying, self.facts.faults, newest)

    @cached_property
    def _ends(self) -> dict[Key, int]:
        """Of lives."""
        return {life.key: life.last_at for life in self.facts.lived if life.ended_by is not None}

    @cached_property
    def _files(self) -> DataFrame:
        """For what is read straight from files, if that is possible."""
        return self._read if origin_of(self._given) is None else self._given

    @cached_property
    def _as_written(self) -> Facts:
        """By the clocks of the writers."""
        return Facts(self._lives, marks(self._files))

    @cached_property
    def _lives(self) -> list[AuditedLife]:
        return lives_of(self._parts)

    @cached_property
    def _parts(self) -> pa.Table:
        return parts(self._given)

    @cached_property
    def _read(self) -> DataFrame:
        """As they were given; a few are read once, if they are not kept already and there are no tables."""
        if self._rows > SMALL_ROWS or self._table is not None:
            return self._given
        given = self._given.coalesce(1) if self._rows <= TINY_ROWS else self._given.select("*")
        return given if self._given.is_cached else self._held(given.persist())

    @cached_property
    def _rows(self) -> int:
        return sum(life.rows for life in self._lives)

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
                return evidence.nothing
            return audit(evidence, **bounds)

        return judge

    return only
