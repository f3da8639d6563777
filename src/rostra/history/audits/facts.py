"""Facts that all audits need, in plain Python: computed from the lives of writers and from marks, rows that
are few however long the history is.

    lives, marks ──▶ simulated, all_lives ──▶ lived ──▶ doubts, faults, informed, disturbances ──▶ calm

Spark would plan each of these facts as a job, on top of the plans of those before it: that was half the time
of the audits of a million rows. Events and stays are left to Spark, which gets these facts as tables.

Times are microseconds since 1970. **Doubts** are places and times without journal rows (see `findings`).
**Faults** are nodes and lines that did not work: as recorded by a simulator, or as reported by the ends of
links. **Calm** is a time in which everything must be right (see `truth`).
"""

import heapq
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rostra.history.catalogue import STILL_GOING_S
from rostra.history.places import link_between
from rostra.history.runs import Key
from rostra.journal.schema import segment_called

OPEN_END: Final = "open end"
LOST_TAIL: Final = "lost tail"
HOLE, CLOCK, CONTRADICTION = "hole", "clock", "contradiction"
UNKNOWN_IN_LIFE: Final = (HOLE, CLOCK, CONTRADICTION)

DAY_US: Final = 86_400_000_000

DISTURBING: Final = (
    *("link-up", "link-moved", "link-down"),
    *("started", "closing", "server-changed", "line-changed"),
)
"""Kinds of rows after which news may be late or lost for a while."""

WATCHED: Final = ("agent", "server")
"""Roles of writers whose time counts, and whose rows are missed where there are none."""


class AuditedLife(NamedTuple):
    """As the question `lives` says it."""

    world: str
    writer: str
    role: str
    epoch: int
    began_at: int
    last_at: int
    rows: int
    ended_by: str | None
    whole: bool

    @property
    def key(self) -> Key:
        return Key(self.world, self.writer, self.epoch)


class WriterHole(NamedTuple):
    """As the question `holes` says it."""

    world: str
    writer: str
    epoch: int
    first: int
    last: int
    after_at: int | None
    until_at: int


class Doubt(NamedTuple):
    world: str
    writer: str
    epoch: int
    what: str
    from_at: int
    until_at: int | None  # when the writer was heard of again
    rows: int | None


class Fault(NamedTuple):
    world: str
    place: str  # what does not work: see `places`
    from_at: int
    until_at: int


class Looking(NamedTuple):
    """A host follows a group, and was given a list."""

    world: str
    seen_by: str
    epoch: int
    group: str
    from_at: int
    until_at: int | None


class Calm(NamedTuple):
    world: str
    since: int  # nothing was disturbed from here on
    calm_until: int  # to here
    wait_us: int  # what lasted so long in between is wrong
    settled: bool  # a simulator says so: it is one moment
    broken: tuple[str, ...] = ()  # places that do not work meanwhile

    @property
    def moment(self) -> int:
        return self.since + self.wait_us


class OfWorld(NamedTuple):
    """The doubts of a world: how many, and when the first begins; the same of open ends."""

    doubts: int
    doubted_at: int | None
    open: int
    open_at: int | None


class Covered(NamedTuple):
    """Of a day (UTC, since 1970) and a place, how much time there was and how much of it can be judged."""

    world: str
    day: int
    place: str
    all_us: int
    known_us: int


class Facts:
    """Of one history. `holes` are those of lives that are not whole; `left_out` and `contradicted` as of
    `Evidence`; of lives that are `unclocked` the clock cannot be put right."""

    def __init__(
        self,
        lives: Iterable[AuditedLife],
        marks: pa.Table,
        holes: Iterable[WriterHole] = (),
        left_out: Iterable[str] = (),
        contradicted: Iterable[Key] = (),
        unclocked: Iterable[Key] = (),
    ) -> None:
        self.lives = sorted(lives)
        self.marks = marks
        self._holes, self._left_out = holes, left_out
        self._contradicted, self._unclocked = contradicted, unclocked
        self._calm: dict[float, list[Calm]] = {}

    def marked(self, kinds: Collection[str], *columns: str) -> Iterator[tuple[Any, ...]]:
        """These columns of marks of these kinds; times as numbers."""
        chosen = self.marks.filter(pc.is_in(self.marks["kind"], pa.array(list(kinds), pa.string())))
        return rows_of(chosen, *columns)

    @cached_property
    def simulated(self) -> frozenset[str]:
        """Worlds whose truth is in the journal, because a simulator wrote it; nothing is lost in them."""
        return frozenset(life.world for life in self.lives if life.role == "sim")

    @cached_property
    def times(self) -> dict[str, tuple[int, int]]:
        """When each world's journals begin and end."""
        found: dict[str, tuple[int, int]] = {}
        for life in self.lives:
            oldest, newest = found.get(life.world, (life.began_at, life.last_at))
            found[life.world] = min(oldest, life.began_at), max(newest, life.last_at)
        return found

    @cached_property
    def all_lives(self) -> list[AuditedLife]:
        """And those of which no file is here, though neighbours met them: from the first meeting to the last.
        Of writers that have no other life here nothing is judged anyway."""
        roles: dict[tuple[str, str], str] = {}
        for life in self.lives:
            who = life.world, life.writer
            roles[who] = min(roles.get(who, life.role), life.role)
        here = {life.key for life in self.lives}
        met: dict[Key, list[int]] = defaultdict(list)
        for world, peer, epoch, at in self.marked(("link-up",), "world", "peer", "life", "at"):
            unheard = (
                epoch is not None and world not in self.simulated and Key(world, peer, epoch) not in here
            )
            if unheard and (world, peer) in roles:
                met[Key(world, peer, epoch)].append(at)
        missed = (
            AuditedLife(
                key.world, key.writer, roles[key[:2]], key.epoch, min(at), max(at), 0, "unknown", True
            )
            for key, at in met.items()
        )
        return sorted([*self.lives, *missed])

    @cached_property
    def lived(self) -> list[AuditedLife]:
        """All lives; for those that ended in a crash that a simulator or lab recorded, with its moment: until
        then the writer was there, though it wrote nothing."""
        crashes: dict[tuple[str, str], list[int]] = defaultdict(list)
        for world, peer, at, change in self.marked(("server-changed",), "world", "peer", "at", "change"):
            if change == "crashed":
                crashes[world, peer].append(at)

        def known(life: AuditedLife) -> AuditedLife:
            if life.ended_by not in (None, "unknown"):
                return life
            then = min((at for at in crashes[life.world, life.writer] if at >= life.last_at), default=None)
            return life if then is None else life._replace(last_at=then, ended_by="crash")

        return [known(life) for life in self.all_lives]

    @cached_property
    def homes(self) -> list[tuple[str, str]]:
        """Hosts whose journals are here. Whether members of other hosts exist is not known."""
        return sorted({(life.world, life.writer) for life in self.lived if life.role == "agent"})

    @cached_property
    def accusers(self) -> list[tuple[str, str]]:
        """Writers whose journals are here, from a beginning on."""
        return sorted(set(self.marked(("started",), "world", "writer")))

    @cached_property
    def downs(self) -> list[tuple[str, str, str, int]]:
        """Who gave up whom, and when."""
        return list(self.marked(("link-down",), "world", "writer", "peer", "at"))

    # What is missing

    @cached_property
    def doubts(self) -> list[Doubt]:
        stories = list(_stories(self.all_lives))
        oldest: dict[str, int] = {}
        for life in self.all_lives:
            oldest[life.world] = min(oldest.get(life.world, life.began_at), life.began_at)
        # A life without its first rows may have begun any time after the one before.
        since = {
            life.key: oldest[life.world] - 1 if before is None else before.last_at
            for before, life, _ in stories
        }
        found = [
            Doubt(
                *(hole.world, hole.writer, hole.epoch, HOLE),
                since[Key(*hole[:3])] if hole.after_at is None else hole.after_at,
                hole.until_at,
                hole.last - hole.first + 1,
            )
            for hole in self._holes
        ]
        for before, life, after in stories:
            is_missed = life.role in WATCHED and life.world not in self.simulated
            if is_missed and life.ended_by in (None, "unknown"):
                # Of a life without a row, the tail is all that came after the one before.
                is_all = not life.rows and before is not None
                last = min(life.last_at, before.last_at) if is_all and before is not None else life.last_at
                what = OPEN_END if life.ended_by is None else LOST_TAIL
                until = None if after is None else after.began_at
                found.append(Doubt(life.world, life.writer, life.epoch, what, last, until, None))
        found += self._unread()
        for lives, what in ((self._unclocked, CLOCK), (self._contradicted, CONTRADICTION)):
            found += [Doubt(*key, what, 0, None, None) for key in lives]
        return found

    def _unread(self) -> Iterator[Doubt]:
        """Lives of which no row could be read, by the names of the files that should hold them. Of a life
        that is known otherwise it is known what is missing; and what has another name than writers give to
        files, none of them wrote."""
        here = {(life.writer, life.epoch) for life in self.lives}
        files: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for file in self._left_out:
            named = _named(file)
            if named is not None and named[:2] not in here:
                files[named[:2]].append(named[2:])
        for (writer, epoch), those in sorted(files.items()):
            rows, began = sum(many for many, _ in those), min(day for _, day in those)
            for world in self.times:
                yield Doubt(world, writer, epoch, HOLE, began, None, rows)

    @cached_property
    def doubts_of(self) -> dict[str, OfWorld]:
        by_world: dict[str, list[Doubt]] = defaultdict(list)
        for doubt in self.doubts:
            by_world[doubt.world].append(doubt)
        found = {}
        for world, those in by_world.items():
            opened = [doubt.from_at for doubt in those if doubt.what == OPEN_END]
            begun = [doubt.from_at for doubt in those if doubt.what not in (OPEN_END, CLOCK, CONTRADICTION)]
            first_begun, first_open = min(begun, default=None), min(opened, default=None)
            found[world] = OfWorld(len(those) - len(opened), first_begun, len(opened), first_open)
        return found

    @cached_property
    def covered(self) -> list[Covered]:
        """The time of every host and server, from its first row on to the world's newest, less what is in
        doubt: for each day and place."""
        began: dict[tuple[str, str], int] = {}
        lost: dict[tuple[str, str, int], int] = defaultdict(int)

        def seen(world: str, writer: str, at: int) -> None:
            began[world, writer] = min(began.get((world, writer), at), at)

        for life in self.lived:
            if life.role in WATCHED and life.world in self.times:
                seen(life.world, life.writer, life.began_at)
        for doubt in self.doubts:
            if doubt.world in self.times:
                oldest, newest = self.times[doubt.world]
                since = max(doubt.from_at, oldest)
                seen(doubt.world, doubt.writer, since)
                for day, us in _daily(since, newest if doubt.until_at is None else doubt.until_at):
                    lost[doubt.world, doubt.writer, day] += us
        return [
            Covered(world, day, writer, us, max(us - lost.get((world, writer, day), 0), 0))
            for (world, writer), at in sorted(began.items())
            for day, us in _daily(at, self.times[world][1])
        ]

    @cached_property
    def shares(self) -> dict[str, float]:
        """How much can be judged of each world of which not all can be."""
        sums: dict[str, tuple[int, int]] = {}
        for each in self.covered if self.doubts else ():
            known, of = sums.get(each.world, (0, 0))
            sums[each.world] = known + each.known_us, of + each.all_us
        return {world: known / of for world, (known, of) in sums.items()}

    # What worked, and when

    @cached_property
    def faults(self) -> list[Fault]:
        """No longer than the journals are."""
        reported = (fault for fault in self._reported() if fault[0] not in self.simulated)
        found = []
        for world, place, from_at, until_at in (*self._done(), *reported):
            if world in self.times and (until_at is None or until_at > from_at):
                oldest, newest = self.times[world]
                since = max(from_at, oldest - 1)
                found.append(Fault(world, place, since, newest if until_at is None else until_at))
        return sorted(found)

    def _done(self) -> Iterator[tuple[str, str, int, int | None]]:
        """A server is down from `crashed` to `started`, and not before it is first started; it stands still
        from `paused` to `continued`; a line carries nothing from `cut` to `healed`.

        From the supervisor of a small world only pauses are taken, which no other journal shows; its cuts are
        judged, as in any real world, by what the ends of links reported."""
        columns = ("world", "accuser", "peer", "at", "seq", "change", "role")
        turns = list(self.marked(("server-changed", "line-changed"), *columns))
        for changes, fails, born, any_role in (
            (("started", "crashed"), "crashed", "started", False),
            (("paused", "continued", "started"), "paused", "", True),
            (("cut", "healed"), "cut", "", False),
        ):
            stories: dict[tuple[str, str | None, str], list[tuple[int, int, str]]] = defaultdict(list)
            for world, accuser, peer, at, seq, change, role in turns:
                if change in changes and peer is not None and (any_role or role == "sim"):
                    stories[world, accuser, peer].append((at, seq, change))
            for (world, accuser, peer), story in stories.items():
                place = peer if accuser is None else link_between(accuser, peer)
                story.sort()
                if story[0][2] == born:
                    yield world, place, 0, story[0][0]
                for (at, _, change), (until, _, _) in pairwise(story):
                    if change == fails:
                        yield world, place, at, until
                if story[-1][2] == fails:
                    yield world, place, story[-1][0], None

    def _reported(self) -> Iterator[tuple[str, str, int, int | None]]:
        """A link is down from `link-down` to the next `link-up` of the same end; a server, from its
        `closing`, or a recorded crash, to its next life.

        If rows just end, their writer may have gone on while its files are not here: so it is not taken to be
        gone, nor its links to be down. Its neighbours report what became of their links to it.
        """
        ceased = {life.key: life.last_at for life in self.lived if life.ended_by in (None, "unknown")}
        stories: dict[tuple[str, str, str], list[tuple[int, int, str, int]]] = defaultdict(list)
        columns = ("world", "writer", "peer", "epoch", "seq", "kind", "at")
        for world, writer, peer, *turn in self.marked(("link-up", "link-down"), *columns):
            if peer is not None:
                stories[world, writer, peer].append((*turn,))
        for (world, writer, peer), story in stories.items():
            story.sort()
            for (epoch, _, kind, at), after in zip(story, (*story[1:], None), strict=True):
                if kind == "link-down":
                    until = None if after is None else after[3]
                    if after is None or after[0] != epoch:
                        until = ceased.get(Key(world, writer, epoch), until)
                    yield world, link_between(writer, peer), at, until
        for _, life, next_life in _stories(self.lived):
            if life.ended_by in ("closing", "crash") and life.role in WATCHED:
                yield life.world, life.writer, life.last_at, None if next_life is None else next_life.began_at

    @cached_property
    def informed(self) -> list[Looking]:
        """Who followed which group, from the first list that the host was given: before that it is not wrong,
        it waits."""
        lists: dict[tuple[str, str, int, str], list[int]] = defaultdict(list)
        for world, writer, epoch, group, at in self.marked(
            ("absolute",), "world", "writer", "epoch", "group", "at"
        ):
            lists[world, writer, epoch, group].append(at)
        found = []
        for key, from_at, until_at in self._follows():
            given = (at for at in lists[key] if at >= from_at and (until_at is None or at <= until_at))
            listed_at = min(given, default=None)
            if listed_at is not None:
                found.append(Looking(*key, listed_at, until_at))
        return found

    def _follows(self) -> Iterator[tuple[tuple[str, str, int, str], int, int | None]]:
        """As the question `follows`: whose, from when until when."""
        ends = {life.key: life.last_at for life in self.lived if life.ended_by is not None}
        turns: dict[tuple[str, str, int, str], list[tuple[int, int, int]]] = defaultdict(list)
        columns = ("world", "writer", "epoch", "group", "seq", "at", "kind", "told")
        for world, writer, epoch, group, seq, at, kind, told in self.marked(
            ("followed", "unfollowed"), *columns
        ):
            if told is not None:
                step = told if kind == "followed" else -told
                turns[world, writer, epoch, group].append((seq, at, step))
        for key, story in turns.items():
            now, since = 0, None
            for _, at, step in sorted(story):
                before, now = now, now + step
                if now > 0 >= before:
                    since = at
                elif now <= 0 < before and since is not None:
                    yield key, since, at
                    since = None
            if since is not None:
                yield key, since, ends.get(Key(*key[:3]))

    @cached_property
    def disturbances(self) -> list[Calm]:
        """From everything that fails or works again to the next such thing."""
        turns = self.marked(DISTURBING, "world", "at", "kind", "role")
        done = ("server-changed", "line-changed")
        return self.between(
            (world, at)
            for world, at, kind, role in turns
            if world not in self.simulated or (kind in done and role == "sim")
        )

    def between(self, turns: Iterable[tuple[str, int]]) -> list[Calm]:
        """From each of these times to the next."""
        by_world: dict[str, set[int]] = defaultdict(set)
        for world, at in turns:
            if world in self.times:
                by_world[world].add(at)
        return [
            Calm(world, at, until, 0, False)
            for world, times in sorted(by_world.items())
            for at, until in pairwise((*sorted(times), max(self.times[world][1], max(times))))
        ]

    def calm(self, bound_s: float) -> list[Calm]:
        """When everything must be right. In a simulated world: whenever it settled. In another: from any
        disturbance to the next, if that is at least `bound_s` later; whatever lasts so long in between is
        there to stay. Nothing begins or ceases to work inside such a stretch."""
        if bound_s not in self._calm:
            settled = [
                Calm(world, at - 1, at, 1, True) for world, at in self.marked(("settled",), "world", "at")
            ]
            real = [each for each in self.disturbances if each.world not in self.simulated]
            self._calm[bound_s] = self.with_broken((*settled, *waiting(real, bound_s)))
        return self._calm[bound_s]

    def with_broken(self, stretches: Iterable[Calm]) -> list[Calm]:
        """Those that are long enough, each with the places that do not work in it."""
        asked: dict[str, list[Calm]] = defaultdict(list)
        for each in stretches:
            if each.calm_until - each.since >= each.wait_us:
                asked[each.world].append(each)
        failing: dict[str, list[Fault]] = defaultdict(list)
        for fault in self.faults:
            failing[fault.world].append(fault)
        found = []
        for world, those in asked.items():
            faults = iter(sorted(failing[world], key=lambda fault: fault.from_at))
            coming = next(faults, None)
            lasting: list[tuple[int, str]] = []
            for each in sorted(those, key=lambda each: each.moment):
                while coming is not None and coming.from_at < each.moment:
                    heapq.heappush(lasting, (coming.until_at, coming.place))
                    coming = next(faults, None)
                while lasting and lasting[0][0] < each.moment:
                    heapq.heappop(lasting)
                found.append(each._replace(broken=tuple(sorted({place for _, place in lasting}))))
        return found

    def failing_first(self, stretches: Iterable[Calm]) -> Iterator[Fault]:
        """Of the faults in these stretches, the place and the first moment at which each must have been told
        everywhere; every moment, in a simulated world."""
        hot: dict[tuple[str, str], list[Calm]] = defaultdict(list)
        for each in sorted(stretches, key=lambda each: each.moment):
            for place in each.broken:
                hot[each.world, place].append(each)
        found = set()
        for fault in self.faults:
            those = hot.get((fault.world, fault.place), [])
            moments = [each.moment for each in those]
            for nth in range(bisect_left(moments, fault.from_at + 1), len(moments)):
                if moments[nth] > fault.until_at:
                    break
                found.add(fault._replace(from_at=moments[nth], until_at=moments[nth]))
                if not those[nth].settled:
                    break
        yield from sorted(found)


def rows_of(table: pa.Table, *columns: str) -> Iterator[tuple[Any, ...]]:
    """These columns of each row, or all; times as numbers."""
    chosen = (table[name] for name in columns or table.column_names)
    numbers = (each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in chosen)
    return zip(*(each.to_pylist() for each in numbers), strict=True)


def waiting(stretches: Iterable[Calm], bound_s: float) -> Iterator[Calm]:
    """The same, in which what lasts for the bound is wrong."""
    for each in stretches:
        yield each._replace(wait_us=int(bound_s * 1e6))


def met(
    intervals: Iterable[tuple[Any, str, int, int | None]], stretches: Sequence[Calm], times: Mapping[str, Any]
) -> Iterator[tuple[Any, Calm, int]]:
    """Of intervals (anything, its world, from, until): with every stretch in which it lasted too long, and
    the moment from which on it had."""
    by_world: dict[str, list[Calm]] = defaultdict(list)
    for each in sorted(stretches, key=lambda each: each.since):
        by_world[each.world].append(each)
    ends = {world: [each.calm_until for each in those] for world, those in by_world.items()}
    for what, world, from_at, until_at in intervals:
        if world not in by_world or world not in times:
            continue
        those, end = by_world[world], times[world][1] if until_at is None else until_at
        for nth in range(bisect_left(ends[world], from_at), len(those)):
            each = those[nth]
            if each.since > end:
                break
            begun = max(from_at, each.since)
            if min(end, each.calm_until) - begun >= each.wait_us:
                yield what, each, begun + each.wait_us


PARTS: Final = (
    *("world", "writer", "epoch", "role", "began_at", "last_at", "last_seq"),
    *("rows", "total", "mixed", "closed"),
)


def lives_of(parts: pa.Table) -> list[AuditedLife]:
    """As the question `lives` says it, from the same `parts`."""
    found: dict[Key, tuple[AuditedLife, int, int, int]] = {}
    for *key, role, began, last, last_seq, rows, total, mixed, closed in rows_of(parts, *PARTS):
        life = AuditedLife(
            key[0], key[1], role, key[2], began, last, rows, "closing" if closed else None, True
        )
        summed = (last_seq, total, mixed)
        if life.key in found:
            known, *sums = found[life.key]
            life = AuditedLife(
                *(known.world, known.writer, min(known.role, role), known.epoch),
                *(min(known.began_at, began), max(known.last_at, last), known.rows + rows),
                *(known.ended_by or life.ended_by, True),
            )
            summed = (max(sums[0], last_seq), sums[1] + total, sums[2] ^ mixed)
        found[life.key] = (life, *summed)
    return relived(
        life._replace(whole=(life.rows, total, mixed) == (last, last * (last + 1) // 2, _mixed_up_to(last)))
        for life, last, total, mixed in found.values()
    )


def _mixed_up_to(last: int) -> int:
    """The exclusive or of 1, 2, 3 ... `last`."""
    return (last, 1, last + 1, 0)[last % 4]


def relived(lives: Iterable[AuditedLife]) -> list[AuditedLife]:
    """As their ends look by the times that they have now: a life that a newer one of its writer followed has
    ended, and so has one that was silent while its world went on."""
    found = list(lives)
    newest = {life.world: life.last_at for life in sorted(found, key=lambda life: life.last_at)}

    def ended(life: AuditedLife, after: AuditedLife | None) -> str | None:
        if life.ended_by == "closing":
            return "closing"
        silent = newest[life.world] - life.last_at > STILL_GOING_S * 1_000_000
        return "unknown" if after is not None or silent else None

    return [life._replace(ended_by=ended(life, after)) for _, life, after in _stories(found)]


def _stories(
    lives: Iterable[AuditedLife],
) -> Iterator[tuple[AuditedLife | None, AuditedLife, AuditedLife | None]]:
    """Each life with the ones of the same writer before and after it."""
    for _, those in groupby(sorted(lives, key=lambda life: life.key), key=lambda life: life.key[:2]):
        story = list(those)
        yield from zip((None, *story[:-1]), story, (*story[1:], None), strict=True)


def _daily(from_at: int, until_at: int) -> Iterator[tuple[int, int]]:
    """The days that a time has a part of, and how much of each."""
    for day in range(from_at // DAY_US, until_at // DAY_US + 1):
        us = min(until_at, (day + 1) * DAY_US) - max(from_at, day * DAY_US)
        if us > 0:
            yield day, us


def _named(file: str) -> tuple[str, int, int, int] | None:
    """Whose file it is, how many rows it should have, and when the day of them begins."""
    *_, folder, name = ("", *file.split("/"))
    segment = segment_called(name)
    if segment is None:
        return None
    writer, epoch, first, last = segment
    day = folder.removeprefix("date=") if re.fullmatch(r"date=\d{4}-\d\d-\d\d", folder) else None
    began = 0 if day is None else pa.scalar(day).cast(pa.date32()).cast(pa.int32()).as_py() * DAY_US
    return writer, epoch, last - first + 1, began
