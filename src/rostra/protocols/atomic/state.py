"""Values of a station: in which stage of an epoch it is, what it knows of others, its part of the order."""

from collections import deque

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.atomic.feeds import InFeed
from rostra.protocols.atomic.messages import Entry, HubReport, StationId, ViewKey


class AgreedNow(Struct, frozen=True):
    """What servers have agreed on last."""

    key: ViewKey
    view: AgreedView
    stations: tuple[StationId, ...]  # in order of their first member's rank
    fence: int | None = None
    shown: ViewKey | None = None  # as members know it, if that is another one

    @property
    def is_exclusive(self) -> bool:
        """Does one side go on at most?"""
        return self.fence is not None

    @property
    def first(self) -> StationId:
        """The station that orders in this view: that of the member with rank 0."""
        return self.stations[0]


class EarlyReports(Struct, frozen=True):
    """What the first station of a view that is proposed has been told for it (`hub_early.py`)."""

    view: AgreedNow
    reports: dict[StationId, HubReport]
    since: Instant


# Stages


class StationIdle(Struct, frozen=True):
    """There is no agreed view yet."""


class StationReports(Struct, frozen=True):
    """Its orderer is another one in the last agreed view: it has reported there, or will again, and takes
    nothing more until it is started (A-022)."""

    to: StationId


class StationGathers(Struct, frozen=True):
    """It is the first station of the last agreed view, and waits for the reports of all, then for what the
    longest log among them has more."""

    reports: dict[StationId, HubReport]
    fetching: StationId | None = None
    upto: int = 0


class StationFollows(Struct, frozen=True):
    orderer: StationId
    mark: int  # where its epoch began


class StationOrders(Struct, frozen=True):
    mark: int


Stage = StationIdle | StationReports | StationGathers | StationFollows | StationOrders


class StationPeer:
    """Another station, as its orderer knows it."""

    __slots__ = (
        *("accept", "anew", "counts", "first", "full", "id"),
        *("next", "position", "reports", "started", "up", "view", "waiting"),
    )

    def __init__(
        self, id: StationId, view: ViewKey, first: int, position: int, up: InFeed, anew: bool = False
    ) -> None:
        self.id = id
        self.anew = anew  # it has to forget what it had
        self.view = view  # in which it reported
        self.first = first  # its first number in our feed, and its position
        self.position = position
        self.next = position  # it has everything below this
        self.counts = 0  # and said so in this epoch: not of what its members that leave do not count for
        self.accept = 0  # and knows that so much is stable
        self.full = False
        self.started = False  # it has said something in this epoch
        self.reports = 0  # since then, and since it last said something else
        self.up = up
        self.waiting = 0  # bytes that it has sent and that have no place yet


class OrderLog:
    """Entries of the order, from position `low` on, that some station may need."""

    __slots__ = ("_encoded", "_ends", "bytes", "entries", "given", "next")

    def __init__(self, position: int) -> None:
        self.entries: deque[Entry] = deque()
        self._encoded: deque[bytes] = deque()
        self._ends: deque[int] = deque()
        self.next = position  # the position after the last entry
        self.given = position  # everything below was given to our members
        self.bytes = 0

    @property
    def low(self) -> int:
        return self.entries[0].position if self.entries else self.next

    def append(self, entry: Entry, encoded: bytes) -> None:
        self.entries.append(entry)
        self._encoded.append(encoded)
        self._ends.append(entry.end)
        self.bytes += len(encoded)
        self.next = entry.end

    def since(self, position: int) -> list[tuple[Entry, bytes]]:
        """The entries from this position on."""
        return [
            (entry, encoded)
            for entry, encoded in zip(self.entries, self._encoded, strict=True)
            if entry.position >= position
        ]

    def due(self, accept: int) -> list[Entry]:
        """The entries that are stable and were not given to our members."""
        if self.given >= accept or self.given >= self.next:
            return []
        begin = len(self._ends)
        while begin and self._ends[begin - 1] > self.given:
            begin -= 1
        due: list[Entry] = []
        for at in range(begin, len(self.entries)):
            if self._ends[at] > accept:
                break
            due.append(self.entries[at])
        return due

    def forget(self, position: int) -> None:
        """Every station has everything below this."""
        upto = min(position, self.given)
        while self._ends and self._ends[0] <= upto:
            self.drop()

    def drop(self) -> Entry:
        """The oldest."""
        self._ends.popleft()
        self.bytes -= len(self._encoded.popleft())
        return self.entries.popleft()
