"""Asking for what is missing, and answering, so that few ask and few answer.

    hole seen ── wait ──▶ ask ── wait, longer ──▶ ask again ── ... ──▶ filled, or the stream ends
                   ▲                                   │
                   └── somebody else asked or answered ┘   wait again, twice as long (TX-18)

A member waits a random moment before it asks its LAN, and a holder one before it answers, so that one of many
does; a delegate asks and answers at once (X-081..X-083). Nobody ever gives up asking while the stream lasts
(X-084).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from heapq import heappop, heappush, heapreplace
from operator import attrgetter, itemgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Instant
from rostra.protocols.flow.messages import Range


class Luck:
    """Chance that came in as one number: the same number gives the same choices (SplitMix64)."""

    __slots__ = ("_state",)

    def __init__(self, luck: int) -> None:
        self._state = luck & 0xFFFFFFFFFFFFFFFF

    def between(self, low: float, high: float) -> float:
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 31
        return low + (high - low) * (mixed / 2**64)


class Hole(Struct, gc=False):
    """Numbers that are missing, and when to ask for them (again)."""

    first: int
    last: int
    due: Instant
    asked: int = 0  # how often we asked
    pushed: int = 0  # how often it was put off because others asked or answered
    asked_at: Instant = 0.0  # when we asked last, and whom
    asked_of: str = ""


_first: Final = attrgetter("first")
_last: Final = attrgetter("last")


class Holes:
    """The holes of one stream. What a datagram fills or opens is found without a look at the others, of which
    a receiver that was away for a while may have thousands."""

    __slots__ = ("_asked", "_entries", "_queue", "holes", "upto")

    def __init__(self, upto: int = 0) -> None:
        self.holes: list[Hole] = []  # sorted
        self.upto = upto  # so far everything is either here or in a hole
        # Each with the time at which it was due when it was put here: it may be put off by now, or full.
        self._queue: list[tuple[Instant, int, Hole]] = []
        self._entries = 0
        self._asked: list[Hole] = []  # taken out of the queue, and not yet back

    def note(self, first: int, last: int, due: Instant) -> None:
        """These are missing, and lie above everything that was looked at before."""
        self._put(len(self.holes), Hole(first, last, due))

    def _put(self, place: int, hole: Hole) -> None:
        self.holes.insert(place, hole)
        self._enqueue(hole)

    def _enqueue(self, hole: Hole) -> None:
        self._entries += 1
        heappush(self._queue, (hole.due, self._entries, hole))

    def fill(self, first: int, last: int) -> None:
        """These came, or are not needed any more. What is left of a hole keeps its place in time."""
        holes = self.holes
        begin = place = bisect_left(holes, first, key=_last)
        while place < len(holes) and holes[place].first <= last:
            hole = holes[place]
            if hole.first < first:
                if hole.last > last:
                    self._put(place + 1, replace(hole, first=last + 1))
                hole.last = first - 1
                begin = place + 1
            elif hole.last > last:
                hole.first = last + 1
                break
            else:
                hole.last = hole.first - 1  # full
            place += 1
        del holes[begin:place]
        if not holes:
            self._queue.clear()

    @property
    def is_open(self) -> bool:
        """Has nothing come of the last that was looked at?"""
        return bool(self.holes) and self.holes[-1].last == self.upto

    def follows(self, number: int, due: Instant) -> None:
        """What is before this number came: a hole that begins with it is being filled, and is not asked for
        before then."""
        hole = self.at(number)
        if hole is not None and hole.first == number:
            hole.asked, hole.due = 0, max(hole.due, due)

    def at(self, number: int) -> Hole | None:
        """The hole that this number is in."""
        place = bisect_left(self.holes, number, key=_last)
        return self.holes[place] if place < len(self.holes) and self.holes[place].first <= number else None

    def put_off(self, ranges: Iterable[Range], wait: Callable[[int], Instant]) -> int:
        """Others asked for these numbers, or answered: ask later. `wait` says when, for the n-th time."""
        put_off = 0
        for first, last in ranges:
            place = bisect_left(self.holes, first, key=_last)
            while place < len(self.holes) and self.holes[place].first <= last:
                hole = self.holes[place]
                hole.pushed += 1
                hole.due = max(hole.due, wait(hole.pushed))
                put_off += 1
                place += 1
        return put_off

    def due(self, now: Instant, at_most: int) -> list[Hole]:
        """Those to ask for now, sorted. The caller says when each of them is due again."""
        self._requeue()
        queue = self._queue
        while len(self._asked) < at_most and queue and queue[0][0] <= now:
            hole = heappop(queue)[2]
            if hole.due > now:
                self._enqueue(hole)
            elif hole.first <= hole.last:
                self._asked.append(hole)
        return sorted(self._asked, key=_first)

    def _requeue(self) -> None:
        asked, self._asked = self._asked, []
        for hole in asked:
            self._enqueue(hole)

    @property
    def next_due(self) -> Instant | None:
        self._requeue()
        queue = self._queue
        while queue:
            due, entry, hole = queue[0]
            if hole.first > hole.last:
                heappop(queue)
            elif hole.due > due:
                heapreplace(queue, (hole.due, entry, hole))
            else:
                return due
        return None


PROMISES_MAX: Final = 256
"""Repairs that are promised at once; whoever misses more asks again."""


class PlannedRepair(Struct, gc=False):
    """A repair that we will make unless somebody else does. From place to place (`fragments.py`)."""

    first: int
    last: int
    due: Instant


class Promises:
    """The repairs that one holder owes for one stream."""

    __slots__ = ("promises",)

    def __init__(self) -> None:
        self.promises: list[PlannedRepair] = []

    def promise(self, first: int, last: int, due: Instant) -> None:
        if len(self.promises) < PROMISES_MAX and not any(
            each.first <= first and last <= each.last for each in self.promises
        ):
            self.promises.append(PlannedRepair(first, last, due))

    def heard(self, first: int, last: int) -> int:
        """Somebody repaired these places: we need not."""
        kept = [each for each in self.promises if not (first <= each.first and each.last <= last)]
        gone = len(self.promises) - len(kept)
        self.promises = kept
        return gone

    def due(self, now: Instant) -> list[PlannedRepair]:
        ready = [each for each in self.promises if each.due <= now]
        if ready:
            self.promises = [each for each in self.promises if each.due > now]
        return ready

    @property
    def next_due(self) -> Instant | None:
        return min((each.due for each in self.promises), default=None)


class Recent:
    """What was repaired a moment ago, from place to place, so that it is not repaired once per question."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done: list[tuple[Instant, int, int]] = []

    def fresh(self, now: Instant, ranges: Iterable[Range], for_s: float) -> list[Range]:
        """Which of these places were not repaired within this time; they count as repaired now."""
        self._done = [each for each in self._done if each[0] > now - for_s]
        done = sorted([(low, high) for _, low, high in self._done])  # no two of them overlap
        wanted: list[Range] = []
        for first, last in ranges:
            place = bisect_left(done, first, key=itemgetter(1))
            while place < len(done) and done[place][0] <= last:
                low, high = done[place]
                if first < low:
                    wanted.append((first, low - 1))
                first = high + 1
                place += 1
            if first <= last:
                wanted.append((first, last))
        self._done += [(now, low, high) for low, high in wanted]
        return wanted
