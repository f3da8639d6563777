"""Loss recovery with suppression: of many receivers that miss a message one requests it, of many holders one
repairs it, as in SRM.

    hole seen ── wait ──▶ Nak ── wait, longer ──▶ Nak again ── ... ──▶ filled, or the stream ends
                   ▲                                   │
                   └── another Nak or repair was seen ─┘   wait again, twice as long (TX-18)

A member waits a random time before it sends a `Nak` to its LAN, and a holder one before it repairs; a
delegate does both at once (X-081..X-083). Requests are repeated for as long as the stream lasts (X-084).
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
    """Random choices from a seed that came with an event (SplitMix64), so that a recording replays."""

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
    """The holes of one stream. Finding the one that a datagram fills does not visit the others: a receiver
    that was cut off for a while may have thousands."""

    __slots__ = ("_asked", "_entries", "_queue", "holes", "upto")

    def __init__(self, upto: int = 0) -> None:
        self.holes: list[Hole] = []  # sorted
        self.upto = upto  # so far everything is either here or in a hole
        # Each with the time at which it was due when it was put here: it may be put off by now, or full.
        self._queue: list[tuple[Instant, int, Hole]] = []
        self._entries = 0
        self._asked: list[Hole] = []  # taken out of the queue, and not yet back

    def note(self, first: int, last: int, due: Instant) -> None:
        """Add missing numbers, which lie above `upto`."""
        self._put(len(self.holes), Hole(first, last, due))

    def _put(self, place: int, hole: Hole) -> None:
        self.holes.insert(place, hole)
        self._enqueue(hole)

    def _enqueue(self, hole: Hole) -> None:
        self._entries += 1
        heappush(self._queue, (hole.due, self._entries, hole))

    def fill(self, first: int, last: int) -> None:
        """These numbers came, or are not needed any more. The rest of a hole keeps its due time."""
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
        """Is `upto`, the last number that was looked at, still missing?"""
        return bool(self.holes) and self.holes[-1].last == self.upto

    def follows(self, number: int, due: Instant) -> None:
        """The number before this one came: if a hole begins here, data is probably still coming in order, so
        it is not requested before `due`."""
        hole = self.at(number)
        if hole is not None and hole.first == number:
            hole.asked, hole.due = 0, max(hole.due, due)

    def at(self, number: int) -> Hole | None:
        """The hole that this number is in."""
        place = bisect_left(self.holes, number, key=_last)
        return self.holes[place] if place < len(self.holes) and self.holes[place].first <= number else None

    def put_off(self, ranges: Iterable[Range], wait: Callable[[int], Instant]) -> int:
        """A `Nak` or a repair of another node covers these: request them later, at `wait(n)` for the n-th
        time."""
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
        """The holes to request now, sorted. The caller sets when each is due again."""
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


REPAIRS_MAX: Final = 256
"""Repairs that are planned at a time; a receiver that misses more requests it again."""


class PlannedRepair(Struct, gc=False):
    """A repair that we will send unless another holder does. A range of places (`fragments.py`)."""

    first: int
    last: int
    due: Instant


class PlannedRepairs:
    """The planned repairs of one holder for one stream."""

    __slots__ = ("repairs",)

    def __init__(self) -> None:
        self.repairs: list[PlannedRepair] = []

    def plan(self, first: int, last: int, due: Instant) -> None:
        if len(self.repairs) < REPAIRS_MAX and not any(
            each.first <= first and last <= each.last for each in self.repairs
        ):
            self.repairs.append(PlannedRepair(first, last, due))

    def heard(self, first: int, last: int) -> int:
        """Another holder repaired these places: drop the plans that they cover."""
        kept = [each for each in self.repairs if not (first <= each.first and each.last <= last)]
        gone = len(self.repairs) - len(kept)
        self.repairs = kept
        return gone

    def due(self, now: Instant) -> list[PlannedRepair]:
        ready = [each for each in self.repairs if each.due <= now]
        if ready:
            self.repairs = [each for each in self.repairs if each.due > now]
        return ready

    @property
    def next_due(self) -> Instant | None:
        return min((each.due for each in self.repairs), default=None)


class Recent:
    """The places that were repaired a moment ago, so that several requests for them are answered once."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done: list[tuple[Instant, int, int]] = []

    def fresh(self, now: Instant, ranges: Iterable[Range], for_s: float) -> list[Range]:
        """The places that were not repaired within this time. They count as repaired now."""
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
