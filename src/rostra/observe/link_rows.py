"""The scribe's rows about links: up, down, suspected; and the messages on them.

Messages are too many for a row each: they are counted by kind, and the counts written with the next
heartbeat.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, Literal

from rostra.core.effects import LinkDown, LinkMoved, LinkUp
from rostra.core.observer import FramesWritten
from rostra.groups.members import Because, Cause
from rostra.journal.entries import Sheet, micros
from rostra.names import Domain, depth
from rostra.protocols.links.events import (
    ChannelClosed,
    LinkEvidence,
    PacketArrived,
    Removed,
    Suspected,
    Transmit,
    Trusted,
)
from rostra.protocols.links.packets import Data
from rostra.protocols.relaxed.messages import DomainFailed, EndpointsJoined

AGAIN: Final = "again"
"""In the place of a message's kind: sent or received a second time, because the first was lost or late."""

FRAME: Final = "frame"
"""In the place of a message's kind: all bytes of all messages, as they left or came over the connection."""


class _LinkSide:
    """What the scribe remembers of one neighbour."""

    __slots__ = ("broken_at", "evidence", "level", "life", "received", "sent", "up")

    def __init__(self, level: int) -> None:
        self.level = level
        self.up = False
        self.life: int | None = None
        self.evidence: LinkEvidence | None = None
        self.broken_at: float | None = None
        self.sent = (0, 0)  # session, and the last number
        self.received = (0, 0)


class LinkRows:
    """The links of one node. At a server also the failures and merges that it announces (`tells_parts`)."""

    def __init__(self, sheet: Sheet, me: Domain, *, tells_parts: bool) -> None:
        self._sheet = sheet
        self._me = me
        self._tells_parts = tells_parts
        self._sides: dict[Domain, _LinkSide] = {}
        self._traffic: Counter[tuple[str, Domain, str]] = Counter()
        self._bytes: Counter[tuple[str, Domain, str]] = Counter()

    def _side(self, peer: Domain) -> _LinkSide:
        side = self._sides.get(peer)
        if side is None:
            side = self._sides[peer] = _LinkSide(min(depth(self._me), depth(peer)))
        return side

    def arrived(self, event: PacketArrived) -> None:
        peer, packet = event.peer, event.packet
        side = self._side(peer)
        if side.broken_at is not None and side.up:
            self._sheet.write("link-resumed", peer=peer, latency_us=micros(self._sheet.now - side.broken_at))
            side.broken_at = None
        if type(packet) is Data:
            place = (packet.mine, packet.number)
            if place > side.received:
                side.received = place
                self._count("received", peer, packet.messages)
            else:
                self._traffic["received", peer, AGAIN] += len(packet.messages)
        else:
            self._traffic["received", peer, type(packet).__name__] += 1

    def transmitted(self, order: Transmit) -> None:
        peer, packet = order.to, order.packet
        if type(packet) is not Data:
            self._traffic["sent", peer, type(packet).__name__] += 1
            return
        side = self._side(peer)
        place = (packet.mine, packet.number)
        if place > side.sent:
            side.sent = place
            self._count("sent", peer, packet.messages)
            if self._tells_parts:
                self._passed_on(peer, packet.messages)
        else:
            self._traffic["sent", peer, AGAIN] += len(packet.messages)

    def _count(self, way: str, peer: Domain, messages: Iterable[Any]) -> None:
        traffic = self._traffic
        for message in messages:
            traffic[way, peer, type(message).__name__] += 1

    def datagram(self, way: Literal["sent", "received"], peer: Domain, kind: type) -> None:
        """Count a datagram of a group."""
        self._traffic[way, peer, _datagram(kind)] += 1

    def framed(self, written: FramesWritten) -> None:
        self._traffic["sent", written.peer, FRAME] += written.frames
        self._bytes["sent", written.peer, FRAME] += written.size

    def _passed_on(self, peer: Domain, messages: Iterable[Any]) -> None:
        """A failure or merge that a server announces: one row, however many groups it concerns."""
        returned: dict[tuple[Domain, bool], int] = {}
        for message in messages:
            match message:
                case DomainFailed(_, groups, domain, keep, because):
                    self._sheet.write(
                        "domain-failed",
                        domain=domain,
                        inside=keep,
                        peer=peer,
                        count=len(groups),
                        **because_of(because),
                    )
                case EndpointsJoined(cause=Cause.MERGE, complete_for=part) if part is not None:
                    place = (part.domain, part.within)
                    returned[place] = returned.get(place, 0) + 1
        for (domain, within), count in returned.items():
            self._sheet.write("domain-returned", domain=domain, inside=within, peer=peer, count=count)

    def link_up(self, report: LinkUp) -> None:
        side = self._side(report.peer)
        met, side.life = side.life, report.incarnation
        cause = (
            "first contact"
            if met is None
            else "new incarnation"
            if met < report.incarnation
            else "heard again"
        )
        side.up, side.evidence, side.broken_at = True, None, None
        self._sheet.write("link-up", peer=report.peer, life=report.incarnation, cause=cause)

    def link_moved(self, report: LinkMoved) -> None:
        side = self._side(report.peer)
        side.up, side.life, side.broken_at = True, report.incarnation, None
        self._sheet.write("link-moved", peer=report.peer, life=report.incarnation)

    def link_down(self, report: LinkDown) -> None:
        side = self._side(report.peer)
        side.up, side.broken_at = False, None
        evidence, side.evidence = side.evidence, None
        known = {} if evidence is None else evidence_of(evidence)
        self._sheet.write("link-down", peer=report.peer, **{**known, **because_of(report.because)})

    def suspected(self, report: Suspected) -> None:
        self._sheet.write("link-suspected", peer=report.peer, what="overdue", **evidence_of(report.evidence))

    def trusted(self, report: Trusted) -> None:
        self._sheet.write("link-trusted", peer=report.peer, latency_us=micros(report.after_s))

    def removed(self, report: Removed) -> None:
        self._side(report.because.accused).evidence = report.evidence

    def channel_closed(self, event: ChannelClosed) -> None:
        side = self._side(event.peer)
        if side.up and side.broken_at is None:
            side.broken_at = self._sheet.now
            self._sheet.write("link-broken", peer=event.peer, what=event.why)

    def flush(self) -> None:
        """Time for a heartbeat: write what was counted since the last one."""
        for (way, peer, message), count in sorted(self._traffic.items()):
            self._sheet.write(
                way,
                peer=peer,
                level=self._side(peer).level,
                message=message,
                count=count,
                bytes=self._bytes.get((way, peer, message)),
            )
        self._traffic.clear()
        self._bytes.clear()


@cache
def _datagram(kind: type) -> str:
    return f"{kind.__name__} datagram"


def because_of(because: Because) -> dict[str, Any]:
    return {
        "accuser": because.accuser or None,
        "accused": because.accused or None,
        "what": because.what or None,
    }


def evidence_of(evidence: LinkEvidence) -> dict[str, Any]:
    return {
        "accuser": evidence.accuser,
        "accused": evidence.accused,
        "silence_s": evidence.silence_s,
        "expected_s": evidence.expected_s,
        "phi": evidence.phi,
        "threshold": evidence.phi_threshold,
        "limit_s": evidence.down_after_s,
        "own_lateness_s": evidence.own_lateness_s,
        "channel_open": evidence.channel_open,
    }
