"""One stream as a delegate has it: the state of the machine that `relays.py` drives.

1 ANNOUNCED ── its sender says where it is ──▶ 3 ACTIVE ◀── noticed ── 2 SEMI
                                                  │
                                                  └── left, failed, cut off ──▶ 4 DRAINING
"""

from enum import IntEnum

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.groups.attributes import Role
from rostra.groups.members import Stamp
from rostra.names import Domain
from rostra.protocols.fifo.voice import lan_of
from rostra.protocols.flow.messages import Stream
from rostra.protocols.flow.recovery import Recent
from rostra.protocols.flow.stability import Pins
from rostra.protocols.flow.streams import Inbound


class RelayPhase(IntEnum):
    ANNOUNCED = 1  # its numbers are not known; of our own LAN only
    SEMI = 2
    ACTIVE = 3
    DRAINING = 4


class Relay:
    """One machine."""

    __slots__ = (
        "announced",
        "askers",
        "everywhere",
        "final",
        "inbound",
        "lan",
        "phase",
        "pins",
        "polled",
        "pulses_left",
        "recent",
        "repeated",
        "reported",
        "role",
        "stamp",
        "stream",
        "unsettled_bytes",
        "via",
    )

    def __init__(self, stream: Stream, stamp: Stamp, role: Role) -> None:
        self.stream = stream
        self.lan = lan_of(stream)
        self.stamp = stamp
        self.role = role
        self.phase = RelayPhase.ANNOUNCED
        self.inbound = Inbound(1)
        self.pins = Pins(0)
        self.recent: dict[Domain, Recent] = {}  # by the LAN that was repaired
        self.via: Domain | None = None  # the delegate that its data comes from
        self.everywhere = False  # its home says it to every delegate at once: there is nothing to pass on
        self.askers: dict[tuple[int, int, Domain], None] = {}  # who waits for what we miss too
        self.final: int | None = None
        self.polled: int | None = None  # while polling: the furthest that anybody got
        self.announced = 0  # the stable number that was told last
        self.reported = 0  # the entry that was told last
        self.repeated = 0  # how often, and home does not know it yet
        self.unsettled_bytes = 0  # that came since one of the two was told
        self.pulses_left = 0

    @property
    def known(self) -> bool:
        return self.phase is not RelayPhase.ANNOUNCED

    @property
    def lowest(self) -> int:
        """The lowest number from which on everything is here."""
        held = self.inbound.store.lowest
        return self.inbound.next if held is None else min(held, self.inbound.next)

    def start_for(self, needs: int | None) -> int:
        """Where a receiver begins, or goes on with the number that it needs. It may have more than we: what
        our predecessor passed on, and its sender is only about to send us again. It is still given the number
        that it asked for, so that a second answer, once we have caught up, says the same (X-022)."""
        return self.inbound.next if needs is None else max(needs, self.lowest)


class PartedStream(Struct, frozen=True):
    """A stream that was lost with its domain: where our LAN would go on."""

    stamp: Stamp
    next: int
    until: Instant
