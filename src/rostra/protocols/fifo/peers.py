"""The LAN machine at a delegate (table 4.5): for each other LAN, do we know the starts of its senders?

    none ── LAN listed, its delegate not ──▶ 1 WAIT_PEER ── its delegate joins: ViewId ──▶ 2 PEER_SYNC
      │                                          ▲  delegate leaves                            │
      │ LAN listed with its delegate: ViewId     └───────────────────────── 3 ACTIVE ◀── CutReply
      └───────────────────────────────────────────────────────────────────────▶ 2 PEER_SYNC

    any ── a domain notice that covers it ──▶ none

Peer sync is two exchanges that do not wait for each other: each delegate asks the other, and answers at once
(X-041, TX-7). The answer lists the senders of the answering LAN only (X-039), and pins the asker's LAN.
"""

from enum import IntEnum

from rostra.core.effects import Instant
from rostra.groups.attributes import FifoAttributes
from rostra.groups.members import Cause, Member, Stamp
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.fifo.context import StepContext, delegate_of, lan_of
from rostra.protocols.fifo.messages import Cut, CutEntry, CutReply, ViewId, attributes_of
from rostra.protocols.fifo.pieces import pieces_of
from rostra.protocols.fifo.relay import RelayEnding
from rostra.protocols.fifo.relays import Relays
from rostra.protocols.flow.messages import Epoch, Have
from rostra.protocols.flow.tree import Forwarding, order
from rostra.protocols.relaxed.view import GroupView


class PeerPhase(IntEnum):
    WAIT_PEER = 1
    PEER_SYNC = 2
    ACTIVE = 3


class Peer:
    """One other LAN."""

    __slots__ = ("asked_at", "epoch", "floors", "kept", "name", "phase", "pieces", "req")

    def __init__(self, name: Domain) -> None:
        self.name = name
        self.phase = PeerPhase.WAIT_PEER
        self.epoch: Epoch | None = None  # of its delegate, as noticed
        self.req: int | None = None
        self.asked_at: Instant = 0.0
        self.floors: dict[Domain, Stamp] = {}
        self.pieces: list[CutEntry] = []
        self.kept: ViewId | None = None  # from a delegate whose notice has not come yet


class Peers:
    def __init__(
        self, context: StepContext, view: GroupView, relays: Relays, forwarding: Forwarding, epoch: Epoch
    ) -> None:
        self._forwarding = forwarding
        self._context = context
        self._view = view
        self._relays = relays
        self._epoch = epoch
        self.machines: dict[Domain, Peer] = {}
        self.delegates: dict[Domain, set[Epoch]] = {}
        self.fresh: dict[Endpoint, Stamp] = {}
        self._req = 0

    def delegate(self, lan: Domain) -> Epoch | None:
        return max(self.delegates.get(lan, ()), default=None)

    def machine(self, name: Domain) -> Peer:
        peer = self.machines.get(name)
        if peer is None:
            peer = self.machines[name] = Peer(name)
            peer.epoch = self.delegate(name)
            if peer.epoch is not None:
                self._ask(peer)
        return peer

    def is_active(self, name: Domain) -> bool:
        peer = self.machines.get(name)
        return peer is not None and peer.phase is PeerPhase.ACTIVE

    # Notices

    def delegate_joined(self, name: Domain, epoch: Epoch) -> ViewId | None:
        """Returns its question, if that was kept until it was noticed."""
        peer = self.machine(name)
        newest = self.delegate(name)
        if peer.epoch != newest or peer.phase is PeerPhase.WAIT_PEER:
            peer.epoch = newest
            self._ask(peer)
        kept = peer.kept
        if kept is not None and kept.epoch == epoch:
            peer.kept = None
            self._context.cancel_timer("unnoticed", name)
            return kept
        return None

    def delegate_left(self, name: Domain, *, cut_off: bool) -> None:
        peer = self.machines.get(name)
        if peer is None:
            return
        peer.epoch = self.delegate(name)
        if peer.epoch is None:
            self._forget_req(peer)
            peer.phase = PeerPhase.WAIT_PEER
            if cut_off:
                # Its LAN may be alive and have a successor soon: until then nothing that it is owed is
                # forgotten, even if we know no member there: receivers are not in our view. If the whole LAN
                # is lost, a domain notice says so, and the machine ends in the same step.
                self._context.set_timer(self._context.config.semi_wait_s, "orphaned", name)
                return
            self._relays.unpin_lan(name, cut_off=False)
        self.end_if_empty(name)

    def orphaned_too_long(self, name: Domain) -> None:
        if self.delegate(name) is None:
            self._relays.unpin_lan(name, cut_off=True)
            self.end_if_empty(name)

    def joined(self, member: Member, attributes: FifoAttributes, cause: Cause | None) -> None:
        """A sender of another LAN."""
        who = member.endpoint
        peer = self.machine(lan_of(who))
        if self._flows(who, member.stamp) or peer.phase is not PeerPhase.ACTIVE:
            return
        if cause is Cause.JOIN and member.stamp > self._floor(peer, who):
            self.fresh.pop(who, None)
            peer.floors[host_of(who)] = member.stamp
            self._relays.begin(who, member.stamp, attributes.role, attributes.next_seq)
        else:
            self._ask(peer)  # its number is old; streams that run go on

    def _flows(self, who: Endpoint, stamp: Stamp) -> bool:
        """Does the stream of this membership flow? That of an earlier one, or one that ends, is dropped."""
        running = self._relays.running.get(who)
        if running is None:
            return False
        if running.stamp == stamp and running.final is None:
            return True
        self._relays.drop(who)
        return False

    def left(self, name: Domain, who: Endpoint, stamp: Stamp | None) -> None:
        peer = self.machines.get(name)
        if peer is not None and stamp is not None and peer.phase is PeerPhase.ACTIVE:
            peer.floors[host_of(who)] = max(stamp, self._floor(peer, who))
        self.fresh.pop(who, None)
        self.end_if_empty(name)

    def covered(self, name: Domain) -> None:
        peer = self.machines.pop(name, None)
        if peer is not None:
            self._forget_req(peer)
            self._relays.unpin_lan(name, cut_off=True)

    def end_if_empty(self, name: Domain) -> None:
        peer = self.machines.get(name)
        if peer is None or peer.epoch is not None or peer.kept is not None:
            return
        if not any(lan_of(each.endpoint) == name for each in self._view.members):
            self.covered(name)

    # Questions

    def _ask(self, peer: Peer, *, again: bool = False) -> None:
        """ViewId: give me your senders' numbers. Streams that run go on meanwhile."""
        if peer.epoch is None:
            return
        if peer.req is None or not again:
            self._req += 1
            peer.req = self._req
            peer.pieces = []
        peer.phase = PeerPhase.PEER_SYNC
        if not again:
            peer.asked_at = self._context.now
        tree = order(self._forwarding.tree)
        for some, last in pieces_of(self._have(peer.name)):
            question = ViewId(self._context.group, peer.req, self._epoch, peer.epoch, some, *tree, last)
            self._context.say(delegate_of(peer.name), question)
        round_trip = self._relays.repairs.round_trips.get(peer.name, 0.0)
        wait = max(self._context.config.peer_wait_min_s, 3 * round_trip)
        self._context.set_timer(wait, "peer", peer.name)

    def asked_too_long_ago(self, name: Domain) -> None:
        peer = self.machines.get(name)
        if peer is not None and peer.phase is PeerPhase.PEER_SYNC:
            self._ask(peer, again=True)

    def _have(self, name: Domain) -> Have:
        """Where our LAN would go on with the streams of that one."""
        needs = {stream: parted.next for stream, parted in self._relays.parted.items()}
        for stream, relay in self._relays.running.items():
            if relay.final is None:
                needs[stream] = relay.pins.least(relay.inbound.next)
        return tuple([(each, needs[each]) for each in sorted(needs) if lan_of(each) == name])

    def cut_replied(self, reply: CutReply) -> bool:
        """2 → 3, when the last piece is in."""
        peer = self.machines.get(reply.cut.lan)
        if peer is None or peer.req != reply.req or peer.epoch != reply.epoch:
            self._context.ignore("CutReply", "not asked for")
            return False
        peer.pieces += reply.cut.entries
        if not reply.last:
            return False
        entries, peer.pieces = peer.pieces, []
        self._relays.repairs.measured(peer.name, self._context.now - peer.asked_at)
        if reply.cut.complete:
            self._forget_req(peer)
            peer.phase = PeerPhase.ACTIVE
        for host, stamp in reply.cut.floors:
            peer.floors[host] = max(stamp, peer.floors.get(host, stamp))
        listed = {entry.endpoint for entry in entries}
        for entry in entries:
            self._apply(entry)
        for member in self._view.members:
            # Kept notices that are newer than the cut.
            who = member.endpoint
            if lan_of(who) != peer.name or who in listed or who in self._relays.running:
                continue
            attributes = attributes_of(member)
            if (
                isinstance(attributes, FifoAttributes)
                and self.fresh.pop(who, None) == member.stamp
                and member.stamp > self._floor(peer, who)
            ):
                peer.floors[host_of(who)] = member.stamp
                self._relays.begin(who, member.stamp, attributes.role, attributes.next_seq)
        return reply.cut.complete

    def _apply(self, entry: CutEntry) -> None:
        if self._flows(entry.endpoint, entry.stamp):
            return
        noticed = self._view.get(entry.endpoint)
        if noticed is not None and noticed.stamp > entry.stamp:
            return  # it left and joined again since; its notice is fresh
        relay = self._relays.begin(entry.endpoint, entry.stamp, entry.role, entry.start)
        if entry.final is not None:
            relay.state = RelayEnding(entry.final)
            relay.inbound.hear_high(entry.final)

    def cut(self, peer: Peer, entries: tuple[CutEntry, ...]) -> Cut:
        floors = tuple(sorted(peer.floors.items()))
        complete = peer.phase is PeerPhase.ACTIVE
        return Cut(peer.name, peer.epoch or 0, floors, complete, entries)

    def _floor(self, peer: Peer, who: Endpoint) -> Stamp:
        return peer.floors.get(host_of(who), (0, 0))

    def _forget_req(self, peer: Peer) -> None:
        if peer.req is not None:
            peer.req = None
            peer.pieces = []
            self._context.cancel_timer("peer", peer.name)
