"""Fragmentation: a message that fits no datagram travels in parts, and the machines above see it whole
(X-105).

    part, part, part ──▶ Parts ── all its bytes are here ──▶ the message, to the machines
                           │
                           └── which bytes are missing ── Nak ──▶ a holder: these bytes again, and no others

A part carries its byte offset, so parts that two holders have cut differently fit together. Parts are kept
while a machine of this node waits for their message, and within a bound per sender. The lowest sequence
number always has room; the highest is dropped first, since it has the longest time to come again.

**Places.** Requests and repairs are about sequence numbers, and about bytes of one message. Both are ranges
of places, with 2**32 places to each number: recent and planned repairs are known to the byte.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rostra.core.effects import Instant
from rostra.names import Domain, Group
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import RANGES_MAX, AnyDataMessage, Data, Nak, Range, Run, Stream
from rostra.protocols.flow.recovery import Hole
from rostra.protocols.flow.runs import cut, datagrams, is_sound, take
from rostra.protocols.flow.streams import Store

QUESTIONS_MAX: Final = 8
"""Datagrams of one request; the rest is requested when these have come."""

PART_BYTES_LEAST: Final = 64
PART_OVERHEAD: Final = 128
"""The overhead of a part in memory. No honest sender makes a part shorter than the least, unless it ends its
message: it is not kept, because it would cost more than its bytes."""

NUMBER: Final = 32
LAST_BYTE: Final = (1 << NUMBER) - 1


class Partial:
    """The received bytes of one message: stretches of its block, sorted, without overlap."""

    __slots__ = ("blocks", "bytes", "came_at", "offsets", "room", "size")

    def __init__(self, size: int, room: int) -> None:
        self.size = size
        self.room = room  # for all of its stream that is in parts
        self.offsets: list[int] = []
        self.blocks: list[bytes] = []
        self.bytes = 0
        self.came_at: Instant = 0.0

    @property
    def cost(self) -> int:
        return self.bytes + PART_OVERHEAD * (1 + len(self.offsets))

    def add(self, offset: int, block: bytes) -> None:
        place = bisect_right(self.offsets, offset)
        end = offset + len(block)
        if place:
            offset, block = _after(offset, block, self.offsets[place - 1] + len(self.blocks[place - 1]))
        while offset < end:
            upto = self.offsets[place] if place < len(self.offsets) else end
            piece = block[: max(0, upto - offset)]
            if piece:
                self.offsets.insert(place, offset)
                self.blocks.insert(place, piece)
                self.bytes += len(piece)
                place += 1
            if place == len(self.offsets):
                return
            offset, block = _after(offset, block, self.offsets[place] + len(self.blocks[place]))
            place += 1

    @property
    def missing(self) -> list[Range]:
        found: list[Range] = []
        end = 0
        for offset, block in zip(self.offsets, self.blocks, strict=True):
            if offset > end:
                found.append((end, offset - 1))
            end = offset + len(block)
        if end < self.size:
            found.append((end, self.size - 1))
        return found


def _after(offset: int, block: bytes, begin: int) -> tuple[int, bytes]:
    """The same stretch without what lies before `begin`."""
    return (offset, block) if begin <= offset else (begin, block[begin - offset :])


class Incoming:
    """The messages of one stream that are in parts."""

    __slots__ = ("cost", "numbers", "partials")

    def __init__(self) -> None:
        self.numbers: list[int] = []  # sorted
        self.partials: dict[int, Partial] = {}
        self.cost = 0


class Parts:
    """The incomplete messages of one group at one node.

    `room` returns how many bytes of a stream may be kept in parts for a machine that waits for this number; 0
    if none does, because the message is here already, or its stream has ended.
    """

    def __init__(self, room: Callable[[Stream, int], int]) -> None:
        self._room = room
        self._streams: dict[Stream, Incoming] = {}

    @property
    def bytes(self) -> int:
        """What all of it costs."""
        return sum([incoming.cost for incoming in self._streams.values()])

    def take(self, now: Instant, data: Data) -> Data | None:
        """The message that this part completes; the part itself if no machine waits for it; else None."""
        stream, number = data.stream, data.run.first
        incoming = self._streams.get(stream)
        partial = None if incoming is None else incoming.partials.get(number)
        if partial is None or partial.size != data.size:
            # Only here is it looked up whether it is needed: once for each message, and not for each part.
            room = self._room(stream, number)
            is_end = data.offset + len(data.run.block) == data.size
            if not room or (len(data.run.block) < PART_BYTES_LEAST and not is_end):
                return data
            if incoming is None:
                for each in list(self._streams):
                    self._forget_stale(each)
            self._drop(stream, number)
            self._forget_stale(stream)
            incoming = self._streams.setdefault(stream, Incoming())
            partial = incoming.partials[number] = Partial(data.size, room)
            insort(incoming.numbers, number)
            incoming.cost += partial.cost
        assert incoming is not None
        before = partial.cost
        partial.add(data.offset, data.run.block)
        partial.came_at = now
        incoming.cost += partial.cost - before
        if partial.bytes < partial.size:
            while incoming.cost > partial.room:
                self._drop(stream, incoming.numbers[-1])
            return None
        self._drop(stream, number)
        run = Run(number, 1, b"".join(partial.blocks), data.run.at, data.run.view)
        if not is_sound(run):
            return None  # parts of two different messages, or of none: it is asked for again, whole
        return Data(stream, run, data.high, data.stable, data.repair, data.hop)

    def _forget_stale(self, stream: Stream) -> None:
        """The lowest may have come whole, from a member of the same host, or its stream may have ended."""
        incoming = self._streams.get(stream)
        if incoming is not None and not self._room(stream, incoming.numbers[0]):
            self._drop(stream, incoming.numbers[0])

    def forget(self, stream: Stream) -> None:
        """No more of it comes."""
        self._streams.pop(stream, None)

    def _drop(self, stream: Stream, number: int) -> None:
        incoming = self._streams.get(stream)
        partial = None if incoming is None else incoming.partials.pop(number, None)
        if incoming is None or partial is None:
            return
        incoming.cost -= partial.cost
        del incoming.numbers[bisect_left(incoming.numbers, number)]
        if not incoming.numbers:
            del self._streams[stream]

    def missing(self, stream: Stream, first: int, last: int) -> list[tuple[int, list[Range]]]:
        """The numbers of which some parts have come, with the missing bytes of each."""
        incoming = self._streams.get(stream)
        if incoming is None:
            return []
        numbers = _within(incoming.numbers, first, last)
        return [(number, incoming.partials[number].missing) for number in numbers]

    def not_coming(self, now: Instant, stream: Stream, holes: Iterable[Hole], settle_s: float) -> list[Hole]:
        """The holes to request now."""
        return [hole for hole in holes if not self.still_coming(now, stream, hole, settle_s)]

    def still_coming(self, now: Instant, stream: Stream, hole: Hole, settle_s: float) -> bool:
        """Do parts of the first message in this hole still arrive? Then it is not requested yet."""
        incoming = self._streams.get(stream)
        partial = None if incoming is None else incoming.partials.get(hole.first)
        if partial is None:
            return False
        if partial.came_at > hole.asked_at:
            hole.asked = min(hole.asked, 2)  # which of the questions it answers is not known
        hole.due = max(hole.due, partial.came_at + settle_s)
        return hole.due > now


NO_PARTS: Final = Parts(lambda stream, number: 0)
"""For a core without a node: it never has parts."""


class Fragments:
    """The parts of one node, by group. `room`: as for `Parts`."""

    def __init__(self, config: FifoConfig, room: Callable[[Group, Stream, int], int]) -> None:
        self._config = config
        self._room = room
        self._groups: dict[Group, Parts] = {}

    def of(self, group: Group) -> Parts:
        parts = self._groups.get(group)
        if parts is None:
            parts = self._groups[group] = Parts(lambda stream, number: self._room_in(group, stream, number))
        return parts

    def _room_in(self, group: Group, stream: Stream, number: int) -> int:
        """Streams whose numbers are not known share one bound, as their whole messages do (`early.py`)."""
        room, config = self._room(group, stream, number), self._config
        is_early = room <= config.early_bytes
        return 0 if is_early and self._groups[group].bytes >= config.early_bytes_all else room

    def whole(
        self, now: Instant, group: Group, messages: Iterable[AnyDataMessage]
    ) -> tuple[list[AnyDataMessage], list[Data]]:
        """The complete messages, and the parts that no machine waits for."""
        whole: list[AnyDataMessage] = []
        needless: list[Data] = []
        for message in messages:
            if type(message) is Data and message.size:
                made = self.of(group).take(now, message)
                if made is message:
                    needless.append(made)
                elif made is not None:
                    whole.append(made)
            else:
                whole.append(message)
        return whole, needless

    def forget(self, group: Group) -> None:
        self._groups.pop(group, None)


def pieces(message: AnyDataMessage, bytes_max: int) -> Iterable[AnyDataMessage]:
    """A leaving message, as it fits datagrams."""
    if type(message) is Data and len(message.run.block) > bytes_max:
        return datagrams(message, bytes_max)
    return (message,)


# Questions


def questions(stream: Stream, holes: Iterable[Hole], asker: Domain, attempt: int, parts: Parts) -> list[Nak]:
    """The requests for these holes, in at most `QUESTIONS_MAX` datagrams. Of a message that came in part they
    name the missing bytes."""
    asked: list[tuple[Range, tuple[Range, ...]]] = []
    for hole in holes:
        first = hole.first
        for number, missing in parts.missing(stream, hole.first, hole.last):
            if first < number:
                asked.append(((first, number - 1), ()))
            some = RANGES_MAX - 1
            asked += [
                ((number, number), tuple(missing[at : at + some])) for at in range(0, len(missing), some)
            ]
            first = number + 1
        if first <= hole.last:
            asked.append(((first, hole.last), ()))
    return [
        Nak(
            stream,
            tuple([numbers for numbers, _ in some]),
            asker,
            attempt,
            tuple([(numbers[0], missing) for numbers, missing in some if missing]),
        )
        for some in _packed(asked)
    ][:QUESTIONS_MAX]


def _packed(
    asked: Iterable[tuple[Range, tuple[Range, ...]]],
) -> Iterator[list[tuple[Range, tuple[Range, ...]]]]:
    some: list[tuple[Range, tuple[Range, ...]]] = []
    size = 0
    for each in asked:
        if size + 1 + len(each[1]) > RANGES_MAX:
            yield some
            some, size = [], 0
        some.append(each)
        size += 1 + len(each[1])
    if some:
        yield some


def _within(numbers: list[int], first: int, last: int) -> list[int]:
    """The sorted numbers between these two."""
    return numbers[bisect_left(numbers, first) : bisect_right(numbers, last)]


# Answers


def place(number: int, byte: int = 0) -> int:
    return number << NUMBER | byte


def places(nak: Nak) -> list[Range]:
    """The places that this `Nak` requests, sorted and without overlap, whatever the asker wrote."""
    named = dict(nak.parts)
    numbers = sorted(named)
    asked: list[Range] = []
    for first, last in _merged(nak.ranges):  # or each number would be looked at for each range
        for number in _within(numbers, first, last):
            if first < number:
                asked.append((place(first), place(number - 1, LAST_BYTE)))
            asked += [
                (place(number, low), place(number, high)) for low, high in named[number] if high <= LAST_BYTE
            ]
            first = number + 1
        if first <= last:
            asked.append((place(first), place(last, LAST_BYTE)))
    return _merged(asked)


def _merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers, sorted and without overlap."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def places_of(data: Data) -> Range:
    """The places that this data covers."""
    run = data.run
    if data.size:
        return place(run.first, data.offset), place(run.first, data.offset + len(run.block) - 1)
    return place(run.first), place(run.end - 1, LAST_BYTE)


def held(
    store: Store, asked: Iterable[Range], part_bytes: int, bytes_max: int
) -> Iterator[tuple[Run, int, int]]:
    """What the store has of these places, up to about this many bytes; the asker requests the rest when it
    has these. Whole runs with offset and size 0, and parts of messages that fit no datagram with theirs."""
    left = bytes_max
    for first, last, begin, end in _stretches(asked):
        for run in store.get(first, last):
            while run.count and left > 0:
                some = cut(run, run.first, run.first + take(run, left))
                run = cut(run, some.end, run.end) if some.end < run.end else Run(run.end, 0, b"")
                size = len(some.block)
                if some.count > 1 or (size <= part_bytes and not begin and end >= size - 1):
                    left -= size
                    yield some, 0, 0
                    continue
                for offset in range(begin, min(size, end + 1), part_bytes):
                    if left > 0:
                        part = some.block[offset : min(offset + part_bytes, end + 1)]
                        left -= len(part)
                        yield Run(some.first, 1, part, some.at, some.view), offset, size


def _stretches(asked: Iterable[Range]) -> Iterator[tuple[int, int, int, int]]:
    """First and last number, first and last byte: of numbers as a whole, or of one number alone."""
    for low, high in asked:
        first, last = low >> NUMBER, high >> NUMBER
        begin, end = low & LAST_BYTE, high & LAST_BYTE
        if begin and first < last:
            yield first, first, begin, LAST_BYTE
            first, begin = first + 1, 0
        if end < LAST_BYTE and first < last:
            yield first, last - 1, 0, LAST_BYTE
            first = last
        yield first, last, begin, end
