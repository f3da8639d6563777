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
from operator import attrgetter, itemgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.protocols.adhoc.messages import Range
from rostra.protocols.effects import Instant


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


_last: Final = attrgetter("last")


class Holes:
    """The holes of one stream, sorted."""

    __slots__ = ("holes",)

    def __init__(self) -> None:
        self.holes: list[Hole] = []

    def note(self, missing: list[Range], due: Instant) -> None:
        """These numbers are missing now. What was missing before keeps its place in time."""
        if not missing:
            self.holes.clear()
            return
        before = self.holes
        if len(before) == len(missing) and all(
            hole.first == first and hole.last == last
            for hole, (first, last) in zip(before, missing, strict=True)
        ):
            return
        after: list[Hole] = []
        place = 0
        for first, last in missing:
            while place < len(before) and before[place].last < first:
                place += 1
            at = place
            while first <= last:
                old = before[at] if at < len(before) and before[at].first <= last else None
                if old is None or old.first > first:
                    until = last if old is None else old.first - 1
                    after.append(Hole(first, until, due))
                else:
                    until = min(last, old.last)
                    after.append(replace(old, first=first, last=until))
                    at += 1
                first = until + 1
        self.holes = after

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

    def due(self, now: Instant) -> list[Hole]:
        return [hole for hole in self.holes if hole.due <= now]

    @property
    def next_due(self) -> Instant | None:
        return min((hole.due for hole in self.holes), default=None)


class Promise(Struct, gc=False):
    """A repair that we will make unless somebody else does."""

    first: int
    last: int
    due: Instant


class Promises:
    """The repairs that one holder owes for one stream."""

    __slots__ = ("promises",)

    def __init__(self) -> None:
        self.promises: list[Promise] = []

    def promise(self, first: int, last: int, due: Instant) -> None:
        if not any(each.first <= first and last <= each.last for each in self.promises):
            self.promises.append(Promise(first, last, due))

    def heard(self, first: int, last: int) -> int:
        """Somebody repaired these numbers: we need not."""
        kept = [each for each in self.promises if not (first <= each.first and each.last <= last)]
        gone = len(self.promises) - len(kept)
        self.promises = kept
        return gone

    def due(self, now: Instant) -> list[Promise]:
        ready = [each for each in self.promises if each.due <= now]
        if ready:
            self.promises = [each for each in self.promises if each.due > now]
        return ready

    @property
    def next_due(self) -> Instant | None:
        return min((each.due for each in self.promises), default=None)


class Recent:
    """What was repaired a moment ago, so that a delegate does not repair it once per asker."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done: list[tuple[Instant, int, int]] = []

    def fresh(self, now: Instant, ranges: Iterable[Range], for_s: float) -> list[Range]:
        """Which of these numbers were not repaired within this time; they count as repaired now."""
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
