"""The scribe's rows about totally ordered groups: how far each member got in the order, and digests of it.

    DeliverAll(OrderedRun) ──▶ who sent which message at which position, folded into a digest
    ViewPlaced, MemberView ──▶ ordered    the digest of the view before is complete, a new one begins
    so many positions      ──▶ ordered    at the same ones on every host, so that they can be compared
    a heartbeat            ──▶ ordered    if something was given since
    OrderLeft              ──▶ ordered, rejected
    OrderFlushed           ──▶ flushed    this host orders from now on

A digest is of all that a member was given in a view: senders, their numbers, positions. Two members that were
given the same up to some position have the same digest there. No content of a message is in it, so none can
be guessed from it. Members of one host that are equally far share a row.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from rostra.journal.entries import Sheet, micros
from rostra.names import Endpoint, Group
from rostra.observe.view_rows import view_id
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.events import OrderFlushed, OrderLeft, OrderSubmitted, ViewPlaced
from rostra.protocols.atomic.messages import ViewKey
from rostra.protocols.atomic.requests import OrderedRun

FIRST_POINT: Final = 16
POINTS_APART: Final = 8_192
"""Digests are written 16, 64, 256 ... positions after a view, then at every so many: rows that two hosts have
in common. Raising it: fewer rows, and a longer order that is compared as one."""

PLACES_MAX: Final = 1_024
"""Views of one group whose places are remembered, for members that are given them late."""

VIEW, LEFT = "view", "left"


class GivenPrefix(Struct, frozen=True, gc=False):
    """What a member was given since its last view: everything is in `chain` but the last messages in a row of
    one sender."""

    view: str
    begins: int | None  # the view's own position; None: not known
    next: int | None  # the position that comes next; None: not known
    count: int = 0  # messages
    chain: bytes = b""
    sender: Endpoint = Endpoint("")
    number: int = 0  # of the first of them
    position: int = 0
    length: int = 0

    def given(self, item: OrderedRun) -> "GivenPrefix":
        run, position = item.run, item.position
        is_same = self.sender == item.stream and self.number + self.length == run.first
        if is_same and self.next == position:
            return GivenPrefix(
                self.view,
                self.begins,
                position + run.count,
                self.count + run.count,
                self.chain,
                self.sender,
                self.number,
                self.position,
                self.length + run.count,
            )
        return GivenPrefix(
            self.view,
            self.begins,
            position + run.count,
            self.count + run.count,
            self._folded(self.length),
            item.stream,
            run.first,
            position,
            run.count,
        )

    def passed(self, position: int) -> "GivenPrefix":
        """Views that are placed again, which no member is shown, have places before this one."""
        if self.next is None or self.next >= position:
            return self
        count = self.count + position - self.next
        return GivenPrefix(self.view, self.begins, position, count, self._folded(self.length))

    def _folded(self, length: int) -> bytes:
        if not length:
            return self.chain or self.view.encode()
        said = f"{self.sender} {self.number} {self.position} {length}".encode()
        return hashlib.blake2b(self.chain + said, digest_size=16, person=b"rostra order").digest()

    def digest(self, beyond: int = 0) -> int:
        """The digest without the last messages, this many, which are of the last sender."""
        chain = self._folded(self.length - beyond)
        return int.from_bytes(hashlib.blake2b(chain, digest_size=8).digest(), signed=True)

    @property
    def last(self) -> int | None:
        return None if self.next is None else self.next - 1


class _Reader:
    """One member of this host."""

    __slots__ = ("prefix", "written")

    def __init__(self, prefix: GivenPrefix) -> None:
        self.prefix = prefix
        self.written = prefix.next  # rows say everything before this position


class _OrderedGroup:
    __slots__ = ("on_disk", "places", "readers", "slowest_us")

    def __init__(self) -> None:
        self.on_disk = False
        self.readers: dict[Endpoint, _Reader] = {}
        self.places: dict[str, ViewPlaced] = {}  # by the view's id
        self.slowest_us: int | None = None  # of our members' messages since the last row


class OrderRows:
    def __init__(self, sheet: Sheet, named: Callable[[tuple[Endpoint, ...]], tuple[Endpoint, ...]]) -> None:
        self._sheet = sheet
        self._named = named
        self._groups: dict[Group, _OrderedGroup] = {}
        self._handed: dict[tuple[Group, Endpoint], int] = {}  # messages that our members handed over
        self._waiting: dict[tuple[Group, Endpoint], deque[tuple[int, float]]] = {}  # their numbers, and when

    # What members say

    def submitted(self, event: OrderSubmitted) -> None:
        key = (event.group, event.endpoint)
        self._handed[key] = handed = self._handed.get(key, 0) + event.count
        self._waiting.setdefault(key, deque()).append((handed, self._sheet.now))

    def _placed(self, group: Group, known: _OrderedGroup, item: OrderedRun) -> None:
        """How long did messages of our own wait for their places?"""
        waiting = self._waiting.get((group, item.stream))
        while waiting and waiting[0][0] < item.run.end:
            took = micros(self._sheet.now - waiting.popleft()[1])
            known.slowest_us = took if known.slowest_us is None else max(known.slowest_us, took)

    # What they are given

    def given(self, endpoints: tuple[Endpoint, ...], group: Group, item: OrderedRun) -> None:
        known = self._groups.get(group)
        if known is None:
            return
        self._placed(group, known, item)
        moved: dict[int, tuple[GivenPrefix, GivenPrefix, list[Endpoint]]] = {}
        for me in endpoints:
            if (reader := known.readers.get(me)) is None:
                continue
            before = reader.prefix
            if (same := moved.get(id(before))) is None:
                base = before.passed(item.position) if known.on_disk else before
                same = moved[id(before)] = (before, base.given(item), [])
            reader.prefix = same[1]
            same[2].append(me)
        for before, after, readers in moved.values():
            if (point := _point_passed(before, after)) is not None:
                self._write(group, known, after, readers, upto=point)

    def shown(self, endpoints: tuple[Endpoint, ...], group: Group, item: MemberView) -> None:
        """A view, if it is another one than they had: a standstill ends with the same one."""
        if (known := self._groups.get(group)) is None:
            return  # its messages have no order
        view = view_id(item)
        place = known.places.get(view)
        begins = None if place is None else place.position
        prefix = GivenPrefix(view, begins, None if begins is None else begins + 1)
        new = [me for me in endpoints if me not in known.readers or known.readers[me].prefix.view != view]
        for base, readers in self._same(known, [me for me in new if me in known.readers]):
            self._write(group, known, base, readers, cause=VIEW, closed_at=begins)
            self._begin(group, prefix, readers, base=base.view, place=place)
        if first := [me for me in new if me not in known.readers]:
            self._begin(group, prefix, first, base=None, place=place)
        for me in new:
            known.readers[me] = _Reader(prefix)

    def placed(self, placed: ViewPlaced) -> None:
        known = self._groups.setdefault(placed.group, _OrderedGroup())
        known.on_disk = placed.stable == "disk"
        places = known.places
        places[key_of(placed.view)] = placed
        while len(places) > PLACES_MAX:
            del places[next(iter(places))]

    def left(self, left: OrderLeft) -> None:
        group, me = left.group, left.member
        self._handed.pop((group, me), None)
        self._waiting.pop((group, me), None)
        if (known := self._groups.get(group)) is not None:
            if (reader := known.readers.get(me)) is not None:
                self._write(group, known, reader.prefix, [me], cause=LEFT)
                del known.readers[me]
            if not known.readers:
                del self._groups[group]
        if left.recalled() is not None:
            self._sheet.write(
                "rejected",
                group=str(group),
                member=me,
                what=left.why,
                number=left.placed,
                first=left.reject_from,
                last=left.handed,
                count=left.rejected,
            )

    def flushed(self, flushed: OrderFlushed) -> None:
        self._sheet.write(
            "flushed",
            group=str(flushed.group),
            view=key_of(flushed.view),
            first=flushed.position,
            count=flushed.stations,
        )

    # Rows

    def flush(self) -> None:
        """It is time for a heartbeat."""
        for group, known in self._groups.items():
            behind = [me for me, each in known.readers.items() if each.written != each.prefix.next]
            for prefix, readers in self._same(known, behind):
                self._write(group, known, prefix, readers)

    def _same(
        self, known: _OrderedGroup, some: Iterable[Endpoint]
    ) -> list[tuple[GivenPrefix, list[Endpoint]]]:
        """Groups of members that are equally far."""
        found: dict[GivenPrefix, list[Endpoint]] = {}
        for me in some:
            found.setdefault(known.readers[me].prefix, []).append(me)
        return list(found.items())

    def _begin(
        self,
        group: Group,
        prefix: GivenPrefix,
        readers: list[Endpoint],
        *,
        base: str | None,
        place: ViewPlaced | None,
    ) -> None:
        self._sheet.write(
            "ordered",
            group=str(group),
            view=prefix.view,
            base=base,
            first=prefix.begins,
            last=prefix.begins,
            count=0,
            digest=prefix.digest(),
            fence=None if place is None else place.fence,
            what=None if place is None else place.stable,
            peer=None if place is None else place.orderer,
            **self._told(readers),
        )

    def _write(
        self,
        group: Group,
        known: _OrderedGroup,
        prefix: GivenPrefix,
        readers: list[Endpoint],
        *,
        upto: int | None = None,
        closed_at: int | None = None,
        cause: str | None = None,
    ) -> None:
        """`closed_at` is where the next view begins: all positions before it should have been given."""
        last = prefix.last
        beyond = 0 if upto is None or last is None else last - upto
        if closed_at is not None and last is not None:
            last = closed_at - 1
        self._sheet.write(
            "ordered",
            group=str(group),
            view=prefix.view,
            first=prefix.begins,
            last=last if upto is None else upto,
            count=prefix.count - beyond,
            digest=prefix.digest(beyond),
            member=prefix.sender or None,
            number=prefix.number + prefix.length - 1 - beyond if prefix.length else None,
            latency_us=known.slowest_us,
            cause=cause,
            **self._told(readers),
        )
        known.slowest_us = None
        for me in readers:
            known.readers[me].written = prefix.next if not beyond else None

    def _told(self, readers: list[Endpoint]) -> dict[str, Any]:
        return {"observers": self._named(tuple(sorted(readers))), "told": len(readers)}


def key_of(view: ViewKey) -> str:
    return f"{view.number}.{view.revision} {view.pid}".rstrip()


def _point_passed(before: GivenPrefix, after: GivenPrefix) -> int | None:
    """The last point of comparison that was passed, if any. It lies in the last sender's messages."""
    if after.begins is None or before.next is None or after.next is None:
        return None
    offset = after.next - 1 - after.begins
    if offset >= POINTS_APART:
        point = offset - offset % POINTS_APART
    else:
        point = FIRST_POINT
        while point * 4 <= offset:
            point *= 4
        if offset < point:
            return None
    reached = before.next - 1 - after.begins
    at = after.begins + point
    return at if reached < point and at >= after.position else None
