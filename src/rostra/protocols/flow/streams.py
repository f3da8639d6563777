"""One stream as one holder has it: what came, what is missing, what may be forgotten.

                 forgotten        delivered           out of order
    numbers   ──────────────┬────────────────┬─────┬───────┬──────────┬──────▶
                            │    store       │     │ hole  │  store   │  hole up to high
                          lowest           told   next             high + 1

`next` is the lowest number that has not come; `told` the lowest that was not delivered to the program. They
differ while a sender is semi-active or the program does not read. A delegate delivers nothing, and keeps them
equal.

A run that continues the stream costs the same whether it holds one message or a thousand.
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final

from rostra.core.effects import Instant
from rostra.protocols.flow.messages import Range, Run
from rostra.protocols.flow.recovery import Holes
from rostra.protocols.flow.runs import cut

_block: Final = attrgetter("block")


class Store:
    """Runs of one stream, sorted, without overlap, possibly with holes between them."""

    __slots__ = ("bytes", "firsts", "messages", "runs")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.runs: list[Run] = []
        self.messages = 0
        self.bytes = 0

    @property
    def lowest(self) -> int | None:
        return self.firsts[0] if self.firsts else None

    @property
    def end(self) -> int:
        """The number after the highest one held; 0 if there is none."""
        return self.runs[-1].end if self.runs else 0

    def append(self, run: Run) -> None:
        """Add a run that lies above everything held."""
        self.firsts.append(run.first)
        self.runs.append(run)
        self.messages += run.count
        self.bytes += len(run.block)

    def add(self, run: Run) -> list[Run]:
        """Add what is new in a run, and return that."""
        if run.first >= self.end:
            self.append(run)
            return [run]
        pieces: list[Run] = []
        place = bisect_right(self.firsts, run.first)
        first = run.first
        if place and self.runs[place - 1].end > first:
            first = self.runs[place - 1].end
        while first < run.end:
            upto = min(run.end, self.firsts[place]) if place < len(self.firsts) else run.end
            if first < upto:
                piece = cut(run, first, upto)
                self.firsts.insert(place, first)
                self.runs.insert(place, piece)
                self.messages += piece.count
                self.bytes += len(piece.block)
                pieces.append(piece)
                place += 1
            if place < len(self.runs):
                first = self.runs[place].end
                place += 1
            else:
                first = run.end
        return pieces

    def get(self, first: int, last: int) -> list[Run]:
        """What is held of these numbers, cut to them."""
        place = max(0, bisect_right(self.firsts, first) - 1)
        found: list[Run] = []
        while place < len(self.runs) and self.firsts[place] <= last:
            run = self.runs[place]
            if run.end > first:
                found.append(cut(run, max(first, run.first), min(last + 1, run.end)))
            place += 1
        return found

    def bytes_between(self, first: int, end: int) -> int:
        """How much is held in the runs that begin in this range."""
        low, high = bisect_left(self.firsts, first), bisect_left(self.firsts, end)
        return sum(map(len, map(_block, self.runs[low:high])))

    def end_of(self, number: int) -> int:
        """The number after the unbroken stretch that begins here; this number if it is not held."""
        place = bisect_right(self.firsts, number) - 1
        while 0 <= place < len(self.runs) and self.firsts[place] <= number < self.runs[place].end:
            number = self.runs[place].end
            place += 1
        return number

    def holds(self, number: int) -> bool:
        place = bisect_right(self.firsts, number)
        return place > 0 and number < self.runs[place - 1].end

    def holes(self, first: int, last: int) -> list[Range]:
        """Which of these numbers are not held."""
        found: list[Range] = []
        place = max(0, bisect_right(self.firsts, first) - 1)
        while place < len(self.runs) and self.firsts[place] <= last:
            run = self.runs[place]
            if run.first > first:
                found.append((first, run.first - 1))
            first = max(first, run.end)
            place += 1
        if first <= last:
            found.append((first, last))
        return found

    def forget(self, upto: int) -> None:
        """Drop the runs that lie wholly at or below this number."""
        keep = bisect_right(self.firsts, upto)
        if keep and self.runs[keep - 1].end > upto + 1:
            keep -= 1
        for run in self.runs[:keep]:
            self.messages -= run.count
            self.bytes -= len(run.block)
        del self.runs[:keep]
        del self.firsts[:keep]


class Inbound:
    """A stream on its way in, from `start` on."""

    __slots__ = ("high", "holes", "lagging", "next", "stable", "start", "store", "told")

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        self.told = start
        self.lagging: dict[str, int] = {}  # of several readers, those that were delivered less: their next
        self.high = start - 1  # the last number known to be emitted
        self.stable = start - 1  # every receiver has all up to here
        self.store = Store()
        self.holes = Holes(start - 1)

    def take(self, run: Run, held_max: int) -> list[Run]:
        """Keep what is new of a run, and return that. Numbers too far ahead are not kept: they are requested
        again when there is room for them (X-092)."""
        if run.first == self.next > self.high and run.end <= self.told + held_max:
            # It continues the stream, and nothing beyond it is known.
            self.store.append(run)
            self.next = run.end
            self.high = run.end - 1
            return [run]
        if run.end - 1 > self.high:
            self.high = run.end - 1
        first, end = max(run.first, self.next), min(run.end, self.told + held_max)
        if first >= end:
            return []
        pieces = self.store.add(cut(run, first, end))
        if pieces and pieces[0].first == self.next:
            self.next = self.store.end_of(self.next)
        for piece in pieces:
            self.holes.fill(piece.first, piece.end - 1)
        return pieces

    def hand_on(self) -> list[Run]:
        """The runs to deliver now, each number once and in order (X-004)."""
        if self.told >= self.next:
            return []
        last = self.store.runs[-1]
        if last.first == self.told and last.end == self.next:
            due = [last]
        else:
            due = self.store.get(self.told, self.next - 1)
        self.told = self.next
        if self.told <= self.stable + 1 and not self.lagging:  # all others had it long ago
            self.store.forget(self.told - 1)
        return due

    @property
    def owed(self) -> int:
        """The first number that was not delivered to all of our readers."""
        return min(self.lagging.values(), default=self.told) if self.lagging else self.told

    def catch_up(self, reader: str) -> list[Run]:
        """The runs that were delivered to other readers and not to this one."""
        since = self.lagging.pop(reader, self.told)
        due = self.store.get(since, self.told - 1) if since < self.told else []
        self.store.forget(min(self.stable, self.owed - 1))
        return due

    def hear_high(self, high: int) -> None:
        if high > self.high:
            self.high = high

    def hear_stable(self, stable: int) -> bool:
        """Every receiver has everything up to here: forget it, unless one of our readers has not had it."""
        if stable <= self.stable:
            return False
        self.stable = stable
        self.store.forget(min(stable, self.owed - 1))
        return True

    def skip_to(self, number: int) -> None:
        """Go on with this number, and give up what is missing below it."""
        if number > self.next:
            self.next = self.store.end_of(number)
            self.told = max(self.told, number)
            self.high = max(self.high, number - 1)
            self.store.forget(number - 1)
            self.holes.fill(0, number - 1)

    def look_for_holes(self, held_max: int, due: Instant) -> None:
        """Note the numbers that were emitted and have not come as holes, as far as there is room for them, to
        be requested when `due`. Looks only at numbers above `holes.upto`."""
        last = min(self.high, self.told + held_max - 1)
        first = max(self.holes.upto + 1, self.next)
        if first <= last:
            for low, high in self.store.holes(first, last):
                self.holes.note(low, high, due)
            self.holes.upto = last

    def waits_for(self, number: int, held_max: int) -> bool:
        """Would this number be kept if it came?"""
        return self.next <= number < self.told + held_max and not self.store.holds(number)

    def missing(self, held_max: int) -> list[Range]:
        """The numbers that were emitted and have not come, as far as there is room for them."""
        last = min(self.high, self.told + held_max - 1)
        if self.next > last:
            return []
        return self.store.holes(self.next, last)
