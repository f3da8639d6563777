"""One stream as a delegate has it: the states of the machine that `relays.py` drives (table 4.6).

    1 UnknownStream ── its sender sends its number ─▶ 3 RelayActive      begun at a number: `Relay`
                                                      │  (RelayEnding: a cut named its last number too)
                     left, cut off: last number known │
              ┌───────────────────────────────────────┤ failed: last number unknown
              │                                       ├── at home: Poll ──▶ 4 RelayPolling ──────┐
              ▼                                       └── elsewhere ──────▶ 4 RelayAwaitingEnd ──┤
    4 RelayDraining ◀── the poll is over, or a heartbeat of its home, or its agent, is final ─────┘
              └── all receivers have it all, or time ──▶ forgotten

Where we differ from the paper: there is no state 2, SEMI. A delegate delivers nothing to programs, so it
treats a stream whose join notice has not come like any other.
"""

from typing import ClassVar, Final

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.groups.attributes import Role
from rostra.groups.members import Stamp
from rostra.names import Domain
from rostra.protocols.fifo.context import lan_of
from rostra.protocols.flow.messages import Stream
from rostra.protocols.flow.recovery import Recent
from rostra.protocols.flow.stability import Pins
from rostra.protocols.flow.streams import Inbound


class UnknownStream(Struct, frozen=True):
    """1: a sender of our LAN that was in the group before us, and has yet to say its number."""

    stamp: Stamp
    role: Role


class RelayActive(Struct, frozen=True):
    """3: no end is known."""

    final: ClassVar[None] = None


class RelayEnding(Struct, frozen=True):
    """3: the cut that listed it named its last number. The notice that its sender left is on its way."""

    final: int


class RelayPolling(Struct, frozen=True):
    """4, at home: its sender failed, and our LAN is asked how far each receiver got (X-050)."""

    furthest: int  # the highest next number so far
    final: ClassVar[None] = None


class RelayAwaitingEnd(Struct, frozen=True):
    """4, elsewhere: its sender failed, and its home delegate will say its last number."""

    final: ClassVar[None] = None


class RelayDraining(Struct, frozen=True):
    """4: its sender is gone, and this was its last number."""

    final: int


RelayLeft = RelayPolling | RelayAwaitingEnd | RelayDraining
"""Its sender has left, failed or was cut off."""

RelayState = RelayActive | RelayEnding | RelayLeft

ACTIVE: Final = RelayActive()


class Relay:
    """One stream, from its first number to its end."""

    __slots__ = (
        "announced",
        "askers",
        "everywhere",
        "inbound",
        "lan",
        "pins",
        "recent",
        "repeated",
        "reported",
        "role",
        "stamp",
        "state",
        "stream",
        "unsettled_bytes",
        "via",
    )

    def __init__(self, stream: Stream, stamp: Stamp, role: Role, start: int) -> None:
        self.stream = stream
        self.lan = lan_of(stream)
        self.stamp = stamp
        self.role = role
        self.state: RelayState = ACTIVE
        self.inbound = Inbound(start)
        self.pins = Pins(start - 1)
        self.recent: dict[Domain, Recent] = {}  # by the LAN that was repaired
        self.via: Domain | None = None  # the delegate that its data comes from
        self.everywhere = False  # its home sends it to every delegate at once: there is nothing to forward
        self.askers: dict[tuple[int, int, Domain], None] = {}  # delegates that wait for what we miss too
        self.announced = start - 1  # the stable number that was sent last
        self.reported = start  # the entry that was sent last
        self.repeated = 0  # how often, without home having seen it
        self.unsettled_bytes = 0  # that came since one of the two was sent

    @property
    def final(self) -> int | None:
        """The last number of the stream, if that is known."""
        return self.state.final

    @property
    def has_left(self) -> bool:
        return isinstance(self.state, RelayLeft)

    @property
    def lowest(self) -> int:
        """The lowest number from which on everything is here."""
        held = self.inbound.store.lowest
        return self.inbound.next if held is None else min(held, self.inbound.next)

    def start_for(self, needs: int | None) -> int:
        """The start of a receiver; of one that goes on, the number that it needs. It may have more than we:
        what our predecessor forwarded, and the sender is only about to send us again. It is still given the
        number that it asked for, so that a second answer, once we have caught up, is the same (X-022)."""
        return self.inbound.next if needs is None else max(needs, self.lowest)


class PartedStream(Struct, frozen=True):
    """A stream that was lost with its domain: the number where our LAN would go on."""

    stamp: Stamp
    next: int
    until: Instant
