"""Receiver-side state of one sender's stream, from the first notice of it to its last number (table 4.3); the
machine is driven by `senders.py`.

     none
       │ in a cut, no notice yet
       ├────────────────────▶ 2 SenderSemi ── its notice: Joined, then what was held ──┐
       │ noticed, its number unknown                                                   ▼
       ├────────────▶ 1 announced ── its number comes in a cut ────────────────▶ 3 SenderActive
       │ noticed, its number known                                                ▲    │
       └──────────────────────────────────────────────────────────────────────────┘    │
                  ┌── left, cut off: its last number is known ─────────────────────────┤
                  ▼                                                                    │ failed
       4 SenderDraining ◀── its home delegate says its last number ── 4 SenderAwaitingEnd
                  └── everything up to its last number was delivered, or time ──▶ 5 `EndedStream`

A sender that is announced has no machine, only a name in `Senders.announced`. All others have an `Inbound`. A
member that only receives has none (X-053).
"""

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Instant
from rostra.groups.attributes import Role
from rostra.groups.members import Stamp
from rostra.names import Endpoint
from rostra.protocols.fifo.context import is_aggregate, lan_of
from rostra.protocols.flow.recovery import Hole, PlannedRepairs
from rostra.protocols.flow.streams import Inbound


class SenderSemi(Struct, frozen=True):
    """2: semi-active. A cut gave its number before its join notice came: what it sends is held (TX-1)."""

    overdue: bool = False  # its notice should have come
    final: ClassVar[None] = None


class SenderActive(Struct, frozen=True):
    """3: delivered as it comes."""

    final: ClassVar[None] = None


class SenderAwaitingEnd(Struct, frozen=True):
    """4: it failed. Its home delegate finds out what is left of its stream, and says so (X-050)."""

    drained: int = 0  # how far it was delivered when its time was last up
    why: ClassVar[str] = "failed"
    final: ClassVar[None] = None
    parted: ClassVar[bool] = False


class SenderDraining(Struct, frozen=True):
    """4: it is gone, and no number above `final` will be delivered."""

    why: str  # left | failed | disconnected
    final: int
    drained: int = 0
    parted: bool = False  # the readers that have all of it got `Left`; others lag


SenderLeft = SenderAwaitingEnd | SenderDraining
SenderState = SenderSemi | SenderActive | SenderLeft


class Belows(Struct):
    """Counts how often our delegate answered that it no longer has what we miss next: once per request, in
    however many datagrams it was sent and answered, and however many members of our host sent it."""

    next: int = 0
    asked_at: Instant = 0.0
    times: int = 0

    def count(self, hole: Hole) -> int:
        if hole.first != self.next:
            self.next, self.times = hole.first, 0
        elif hole.asked_at == self.asked_at:
            return self.times
        self.asked_at = hole.asked_at
        self.times += 1
        return self.times


class Sender:
    """One stream, from its first number to its end."""

    __slots__ = (
        "begins",
        "behind",
        "belows",
        "endpoint",
        "inbound",
        "is_aggregate",
        "lan",
        "meta",
        "repaired",
        "repairs",
        "role",
        "stamp",
        "state",
    )

    def __init__(
        self, endpoint: Endpoint, stamp: Stamp, role: Role, meta: bytes, state: SenderState, start: int
    ) -> None:
        self.endpoint = endpoint
        self.is_aggregate = is_aggregate(endpoint)  # it carries the messages of submitters (`origins.py`)
        self.lan = lan_of(endpoint)
        self.stamp = stamp
        self.role = role
        self.meta = meta
        self.state = state
        self.inbound = Inbound(start)
        self.repairs = PlannedRepairs()
        self.begins: dict[Endpoint, float] = {}  # of readers that came later: their first number; inf: none
        self.behind = 0  # in so many more reports our delegate is told that we need nothing from its disk
        self.belows = Belows()
        self.repaired = 0  # messages that were lost on their way and came by repair

    @property
    def final(self) -> int | None:
        """The last number of the stream, if that is known."""
        return self.state.final

    @property
    def has_left(self) -> bool:
        return isinstance(self.state, SenderLeft)

    @property
    def acknowledged(self) -> int:
        """The next number it is owed. What the program has not had is still owed, unless it is only held back
        until we may say who sent it (X-017)."""
        return self.inbound.next if type(self.state) is SenderSemi else self.inbound.owed

    def end_at(self, final: int) -> None:
        """The sender has left, and this is the last number that we deliver."""
        match self.state:
            case SenderAwaitingEnd(drained):
                self.state = SenderDraining("failed", final, drained)
            case SenderDraining() as draining:
                self.state = replace(draining, final=final)


class EndedStream(Struct, frozen=True):
    """5: what is remembered of a stream: if its LAN was cut off and comes back, its return says what was
    missed, if anything (X-064)."""

    stamp: Stamp
    last: int
    cut_off: bool
    until: Instant
