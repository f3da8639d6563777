"""Circuits: links between agents, carried by the servers.

    tree ── want, send ──▶ Circuits ── a Link for each agent ──▶ packets ──▶ CarriedLetter ──▶ servers
    tree ◀── CircuitUp, CircuitDown, TreeReceived ──┘ ◀── packets

A link (`protocols/links`) makes a reliable ordered connection out of packets that may be lost, and tells both
ends of its end (S-039). One circuit serves all sets that two agents share. It is given up when no set needed
it for a while. Other agents may take most of the circuits that an agent has, and not all.

A circuit tolerates twice the silence of a link. A link below may be silent for almost its whole bound and
live on; the circuits over it must outlast that.
"""

from collections.abc import Callable, Collection
from typing import Final

from msgspec.structs import replace

from rostra.core.effects import Effect, Event, Ignored, Instant, LinkDown, LinkUp, Received, ignored
from rostra.core.room import SharedRoom
from rostra.names import Domain, parent
from rostra.protocols.led.config import CIRCUITS_MAX, CIRCUITS_TAKEN_MAX
from rostra.protocols.led.core import CircuitDown, CircuitUp, TreeReceived
from rostra.protocols.led.messages import AnyTreeMessage
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link, Report
from rostra.protocols.links.events import (
    BatchSubmitted,
    ChannelClosed,
    ChannelOpened,
    PacketArrived,
    Stopped,
    Ticked,
    Transmit,
)
from rostra.protocols.links.packets import AnyPacket, Bye, Hello

LOOK_EVERY_S: Final = 5.0
"""How often circuits that no set needs are looked for."""

UNANSWERED_S: Final = 10.0
"""How long one that no set needs may try to come up."""

ROUND_TRIP_S: Final = 1.0
"""Over several servers. Packets of a circuit are repeated after a little more."""

PATIENCE: Final = 2.0
"""How much longer than a link a circuit may be silent."""


def patient(links: LinkConfig) -> LinkConfig:
    """The link settings of circuits, in a world whose links have these."""
    detect = replace(links.detect, down_after_s=PATIENCE * links.detect.down_after_s)
    return replace(links, detect=detect).over_datagrams(ROUND_TRIP_S)


Post = Callable[[Domain, AnyPacket], None]
Give = Callable[[Domain, Event], None]


class Circuits:
    def __init__(self, world: str, me: Domain, life: int, config: LinkConfig, idle_s: float) -> None:
        self.config = config
        self.links: dict[Domain, Link] = {}
        self.up: set[Domain] = set()
        self._world, self._me, self._life = world, me, life
        self._open = False  # the way to our server
        self._idle_s = idle_s
        self._wanted: set[Domain] = set()  # that we asked for; the others were taken by their agents
        self._taken = SharedRoom(
            CIRCUITS_TAKEN_MAX
        )  # those, by cluster: its server says which agents there are
        self._unused: dict[Domain, Instant] = {}  # since when
        self._looked_at: Instant = 0.0
        self._sessions = 0  # of circuits that are gone

    def want(self, now: Instant, peer: Domain, post: Post) -> bool:
        """False: there is no room for it."""
        if peer not in self.links and peer != self._me:
            if len(self.links) >= CIRCUITS_MAX:
                return False
            self._make(now, peer, post)
        elif peer in self.links and peer not in self._wanted:
            self._taken.give(parent(peer))
        if peer in self.links:
            self._wanted.add(peer)
        return True

    def _make(self, now: Instant, peer: Domain, post: Post) -> None:
        link = self.links[peer] = Link(
            self._world,
            self._me,
            peer,
            incarnation=self._life,
            config=self.config,
            first_session=self._sessions + 1,
        )
        if self._open:
            self._report(peer, link.step(now, ChannelOpened(peer)), post, _nothing)

    def send(self, now: Instant, peer: Domain, message: AnyTreeMessage, post: Post, give: Give) -> None:
        if peer in self.up:
            self._report(peer, self.links[peer].step(now, BatchSubmitted((message,))), post, give)

    def arrived(
        self,
        now: Instant,
        peer: Domain,
        packet: AnyPacket,
        needed: Callable[[], Collection[Domain]],
        post: Post,
        give: Give,
    ) -> list[Effect]:
        if peer not in self.links:
            if not isinstance(packet, Hello):
                return [ignored(packet, "no circuit")]
            if len(self.links) >= CIRCUITS_MAX or not self._taken.has_room(parent(peer)):
                return [Ignored("Hello", "too many circuits")]
            self._make(now, peer, post)
            self._taken.take(parent(peer))
        reports = self.links[peer].step(now, PacketArrived(peer, packet))
        dropped = self._report(peer, reports, post, give)
        if isinstance(packet, Bye) and peer not in self.up:
            self._forget(peer)
            if peer in needed():  # the peer ended it for want of use, and we have one
                self.want(now, peer, post)
        return dropped

    def tick(self, now: Instant, needed: Callable[[], Collection[Domain]], post: Post, give: Give) -> None:
        for peer in list(self.links):
            self._report(peer, self.links[peer].step(now, Ticked()), post, give)
        if now - self._looked_at >= LOOK_EVERY_S or now < self._looked_at:
            self._looked_at = now
            self._end_unused(now, needed(), post, give)

    def _end_unused(self, now: Instant, needed: Collection[Domain], post: Post, give: Give) -> None:
        for peer in list(self.links):
            if peer in needed:
                self._unused.pop(peer, None)
                continue
            idle_s = self._idle_s if peer in self.up else min(self._idle_s, UNANSWERED_S)
            if now - self._unused.setdefault(peer, now) >= idle_s:
                self._report(peer, self.links[peer].step(now, Stopped("idle")), post, give)
                self._forget(peer)

    def opened(self, now: Instant, post: Post, give: Give) -> None:
        """The link to our server is up."""
        self._open = True
        for peer, link in list(self.links.items()):
            self._report(peer, link.step(now, ChannelOpened(peer)), post, give)

    def closed(self, now: Instant, post: Post, give: Give) -> None:
        self._open = False
        for peer, link in list(self.links.items()):
            self._report(peer, link.step(now, ChannelClosed(peer, "the server is out of sight")), post, give)

    def _forget(self, peer: Domain) -> None:
        self._sessions = max(self._sessions, self.links.pop(peer).sessions)
        self._unused.pop(peer, None)
        if peer in self._wanted:
            self._wanted.discard(peer)
        else:
            self._taken.give(parent(peer))

    def _report(self, peer: Domain, reports: Collection[Report], post: Post, give: Give) -> list[Effect]:
        ignored: list[Effect] = []
        for report in reports:
            match report:
                case Transmit(_, packet):
                    post(peer, packet)
                case LinkUp():
                    self.up.add(peer)
                    give(peer, CircuitUp(peer))
                case LinkDown():
                    self.up.discard(peer)
                    give(peer, CircuitDown(peer))
                case Received(_, message):
                    give(peer, TreeReceived(peer, message))
                case Ignored():
                    ignored.append(report)
        return ignored


def _nothing(peer: Domain, event: Event) -> None:
    raise AssertionError(f"a circuit that does not exist yet reports {event}")
