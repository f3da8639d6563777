"""The group machine at a delegate (table 4.4): the part of a cluster's server that acts for its LAN.

    0 OUT ── ForceJoin, StartSync, CutRequest ──▶ 1 JOINING ── snapshot ──▶ 2 IN ── LAN empty ────▶ 3 LINGER
      ▲                                                                     ▲                         │
      │                                                                     └── a local member joins ─┤
      └────────────────────────────────────────────────── T_dlinger ──────────────────────────────────┘

    4 BACKUP ── Appointed, a new epoch ──▶ 1 JOINING        1, 2, 3 ── a higher epoch of our LAN ──▶ 4 BACKUP

It gives the receivers of its LAN their starts, forwards streams between LANs, repairs losses, and announces
what is stable. Other LANs are in `peers.py`, streams in `relays.py`, the tree between delegates in
`planner.py`. All that reaches a LAN through the servers reaches its delegate first (N7), before anything
leaves for the LAN's hosts.

Of members of other LANs only senders are kept; receivers cost a delegate nothing (X-045).
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Effect, Event, Ignored, Instant, TimerFired, ignored
from rostra.groups.attributes import DelegateAttributes, FifoAttributes, Role, Slow
from rostra.groups.kinds import FIFO
from rostra.groups.members import Cause, Member, Members, Stamp
from rostra.names import Domain, Endpoint, Group, endpoint, host_of, incarnation_of, inside
from rostra.protocols.fifo.context import StepContext, delegate_of, lan_of
from rostra.protocols.fifo.early_control import EarlyControl
from rostra.protocols.fifo.events import (
    Appointed,
    Heard,
    Located,
    MirrorReplicated,
    Noticed,
    Replicate,
    Spilled,
    SpilledRead,
)
from rostra.protocols.fifo.messages import (
    ADHOC,
    Channel,
    Control,
    Cut,
    CutEntry,
    CutReply,
    CutRequest,
    DelegateMoved,
    Distances,
    Excluded,
    ForceJoin,
    Mirror,
    MirrorAsked,
    StartSync,
    SyncReply,
    ViewId,
    attributes_of,
    decode_control,
    whereabouts,
)
from rostra.protocols.fifo.mirror import Mirroring, Mirrors
from rostra.protocols.fifo.peers import Peers
from rostra.protocols.fifo.permitted import may_say
from rostra.protocols.fifo.pieces import RequestPieces, pieces
from rostra.protocols.fifo.planner import Planner
from rostra.protocols.fifo.reception import receiver_of
from rostra.protocols.fifo.relay import PartedStream, Relay
from rostra.protocols.fifo.relays import Relays
from rostra.protocols.fifo.slow import Patience
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import NO_PARTS, Parts
from rostra.protocols.flow.messages import (
    Below,
    Data,
    Epoch,
    ForwardingTree,
    Have,
    Heartbeat,
    Nak,
    Polled,
    Report,
    Status,
    Stream,
)
from rostra.protocols.flow.tree import Forwarding
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.view import GroupView, ViewChanged


class Out(Struct, frozen=True):
    """0: no member of our LAN is in the group."""


class Joining(Struct, frozen=True):
    """1: asked who is there."""

    wait_s: float


class In(Struct, frozen=True):
    """2: acting for our LAN."""


class Lingering(Struct, frozen=True):
    """3: the last member of our LAN has left; one may come back."""


class Backup(Struct, frozen=True):
    """4: another replica acts for our LAN; we know enough to go on if it fails."""


State = Out | Joining | In | Lingering | Backup


class Local(Struct):
    """A member of our own LAN."""

    stamp: Stamp
    role: Role
    slow: Slow


class DelegateCore:
    """One group at the delegate `me` of its LAN; the epoch is the incarnation of `me`."""

    def __init__(
        self,
        group: Group,
        me: Endpoint,
        config: FifoConfig,
        *,
        luck: int,
        channel: Channel,
        address: str = "",
        backup: bool = False,
        mirrored: bool = False,
        parts: Parts = NO_PARTS,
    ) -> None:
        self.group, self.me = group, me
        self.config = config
        self.channel, self.address = channel, address
        self.state: State = Backup() if backup else Out()
        self.mirrors = Mirrors()
        self._mirroring = Mirroring(group, lan_of(me)) if mirrored else None
        self.context = StepContext(group, me, config, luck, parts)
        self.lan = self.context.lan
        self.epoch: Epoch = incarnation_of(me)
        self._forget_everything()

    def _forget_everything(self) -> None:
        """Reset to the state after a start: a group that we join again is a new one."""
        self.patience = Patience(self.config)
        self.view = GroupView(self.group)
        self.forwarding = Forwarding(self.lan)
        self.relays = Relays(self.context, self.forwarding, lambda: self.epoch)
        self.planner = Planner(self.context, self.forwarding, self.relays)
        self.peers = Peers(self.context, self.view, self.relays, self.forwarding, self.epoch)
        self.locals: dict[Endpoint, Local] = {}
        self.floors: dict[Domain, Stamp] = {}  # of our own LAN
        self._owed: dict[Domain, ViewId] = {}  # answered before our own numbers were complete
        self.kept = EarlyControl()  # until the snapshot, or until the asker is noticed
        self._requests = RequestPieces()
        self._waiting: dict[Domain, dict[Endpoint, CutRequest]] = {}  # for numbers that we do not know yet

    @property
    def over(self) -> bool:
        return isinstance(self.state, Out)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self.context.now = now
        effects = self.context.effects = []
        match event:
            case Heard(_, source, messages):
                if isinstance(self.state, Out | Backup):
                    effects.append(Ignored("Heard", "not in the group"))
                else:
                    for message in messages:
                        self._heard(source, message)
            case Noticed(notice):
                self._told(notice)
            case TimerFired(timer):
                self._timer_fired(str(timer[4]), str(timer[5]))
            case MirrorReplicated(_, message):
                self._replicated(message)
            case Appointed(epoch):
                self._appointed(epoch)
            case Spilled():
                self._expel_if(self.relays.spills.spilled(event))
            case SpilledRead():
                self._expel_if(self.relays.spills.read(event))
            case _:
                effects.append(ignored(event, "not an event of a delegate"))
        return effects

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes to keep for parts of this message; 0 if we do not wait for it."""
        return 0 if isinstance(self.state, Out | Backup) else self.relays.room(stream, number)

    # Joining and leaving the group

    def _join(self) -> None:
        """0 → 1 (X-037)."""
        self.context.ask(ns.Join(self.group, group_kind=FIFO, attributes=DelegateAttributes(self.address)))
        self._wait_for_snapshot(self.config.snapshot_wait_s)

    def _wait_for_snapshot(self, wait_s: float) -> None:
        self._become(Joining(wait_s))
        self.context.set_timer(wait_s, "snapshot")

    def _enter(self) -> None:
        """1 → 2: the list of members has come; kept messages are handled in the order they came (X-031)."""
        self.context.cancel_timer("snapshot")
        self._become(In())
        self._mirror(whole=True)
        self.relays.awaited_lans |= set(self.peers.delegates)
        self.context.set_timer(self.config.semi_wait_s, "awaited")
        self._linger_if_empty()
        for source, message in self.kept.take():
            self._control(source, message)
        self.planner.soon()

    def _linger_if_empty(self) -> None:
        if not self.locals and isinstance(self.state, In):
            self._become(Lingering())
            self.context.set_timer(self.config.delegate_linger_s, "linger")

    def _stay(self) -> None:
        if isinstance(self.state, Lingering):
            self.context.cancel_timer("linger")
            self._become(In())

    def _linger_ended(self) -> None:
        """3 → 0, unless the last messages of a member that left are still needed: only we have them."""
        if any(relay.lan == self.lan for relay in self.relays.running.values()):
            self.context.set_timer(self.config.delegate_linger_s, "linger")
            return
        self.context.ask(ns.Leave(self.group))
        self.relays.spills.end_all()
        self._forget_everything()
        self._become(Out())

    # Notices

    def _told(self, notice: object) -> None:
        match notice:
            case ns.Message(source, data):
                message = decode_control(data)
                if message is None:
                    self.context.ignore("Message", "not a control message")
                else:
                    self._control(source, message)
            case _ if isinstance(self.state, Out | Backup):
                self.context.ignore(type(notice).__name__, "not in the group")
            case ns.Absolute(_, members):
                listed = ns.Absolute(self.group, self._concerning(members))
                self._report(self.view.replace(listed))
                if isinstance(self.state, Joining):
                    self._enter()
            case ns.Joined(group, members, cause, part):
                concerning = self._concerning(members)
                if cause is Cause.JOIN:
                    for member in concerning:
                        self.peers.fresh[member.endpoint] = member.stamp
                    for member in members:
                        self._expect_lan_of(member)
                self._report(self.view.add(ns.Joined(group, concerning, cause, part)))
            case ns.Left():
                self._report(self.view.remove(notice))
            case ns.Only() | ns.Without():
                self._report(self.view.filter(notice))
            case _:
                pass  # our own timers ask again

    def _concerning(self, members: Members) -> Members:
        """All members of our own LAN; delegates and senders of others (X-045)."""
        kept = []
        for member in members:
            attributes = attributes_of(member)
            ours = lan_of(member.endpoint) == self.lan
            if isinstance(attributes, DelegateAttributes) or (
                isinstance(attributes, FifoAttributes) and (attributes.role.sends or ours)
            ):
                kept.append(member)
        return tuple(kept)

    def _expect_lan_of(self, member: Member) -> None:
        """Pin the LAN of a new member: our senders get its join notice after us, and may send to it at
        once."""
        lan, attributes = lan_of(member.endpoint), attributes_of(member)
        if lan != self.lan and isinstance(attributes, FifoAttributes) and attributes.role.receives:
            self.relays.expect_lan(lan)

    def _report(self, reports: Iterable[ViewChanged | Ignored]) -> None:
        for report in reports:
            if isinstance(report, Ignored):
                self.context.effects.append(report)
            else:
                self._changed(report)

    def _changed(self, change: ViewChanged) -> None:
        why = change.why
        cut_off = isinstance(why, ns.Only | ns.Without)
        for member in change.left:
            self._member_left(member, why)
        if isinstance(why, ns.Only | ns.Without):
            keep = isinstance(why, ns.Only)
            for lan in sorted(self.peers.machines):
                if inside(why.domain, lan) != keep:
                    self.peers.covered(lan)
        cause = why.cause if isinstance(why, ns.Joined) else None
        for member in change.joined:
            self._member_joined(member, cause)
        if cut_off or any(_is_delegate(member) for member in (*change.left, *change.joined)):
            self._delegates_changed()
        for lan in sorted(self._waiting):
            if lan != self.lan and lan not in self.peers.machines:
                self._answer_unknown(lan)
        self._try_kept()

    def _member_joined(self, member: Member, cause: Cause | None) -> None:
        attributes = attributes_of(member)
        who, lan = member.endpoint, lan_of(member.endpoint)
        match attributes:
            case DelegateAttributes(address):
                self.peers.fresh.pop(who, None)
                if lan == self.lan:
                    if incarnation_of(who) > self.epoch:
                        self._step_down()
                    return
                self.peers.delegates.setdefault(lan, set()).add(incarnation_of(who))
                self._locate(lan, address)
                kept = self.peers.delegate_joined(lan, incarnation_of(who))
                if kept is not None:
                    self._answer_view_id(lan, kept)
            case FifoAttributes() if lan == self.lan:
                self._local_joined(member, attributes, cause)
            case FifoAttributes():
                self.peers.joined(member, attributes, cause)

    def _local_joined(self, member: Member, attributes: FifoAttributes, cause: Cause | None) -> None:
        """A new member of our LAN starts at the number in its join notice (X-040). One that was here before
        us, or was cut off, goes on where we know it, or sends its number itself."""
        who = member.endpoint
        self.floors[host_of(who)] = max(member.stamp, self.floors.get(host_of(who), member.stamp))
        self.peers.fresh.pop(who, None)
        self.locals[who] = Local(member.stamp, attributes.role, attributes.slow)
        self._stay()
        if attributes.role.receives:
            receiver = receiver_of(who, attributes.role, attributes.slow)
            self.relays.receives(who, receiver)
            if cause is Cause.JOIN:
                self.relays.expect_receiver(receiver)
            elif receiver not in self.relays.receivers:
                self.relays.await_receiver(receiver)
        if attributes.slow is Slow.EXPEL:
            self.context.set_timer(self.patience.look_s, "patience")
        elif attributes.slow is Slow.SPILL and attributes.role.receives:
            self.relays.spills.willing.add(who)
        if not attributes.role.sends:
            return
        parted = self.relays.parted.get(who)
        if who in self.relays.running or who in self.relays.unknown:
            self.relays.drop(who)
        if cause is Cause.JOIN:
            self.relays.begin(who, member.stamp, attributes.role, attributes.next_seq)
        elif parted is not None and parted.stamp == member.stamp:
            self.relays.begin(who, member.stamp, attributes.role, parted.next)
        else:
            self.relays.expect(who, member.stamp, attributes.role)

    def _member_left(self, member: Member, why: object) -> None:
        who, lan = member.endpoint, lan_of(member.endpoint)
        if _is_delegate(member):
            if lan != self.lan:
                epochs = self.peers.delegates.get(lan, set())
                epochs.discard(incarnation_of(who))
                if not epochs:
                    self.peers.delegates.pop(lan, None)
                # One that leaves has no member there any more. One that is merely missing, from the list
                # of a merge or after a failure, may have a successor.
                self.peers.delegate_left(lan, cut_off=not isinstance(why, ns.Left))
            return
        stamp: Stamp | None = None
        match why:
            case ns.Left(stamp=left_at, cause=Cause.LEAVE, last=last):
                stamp = left_at
                self.relays.left(who, "left", last)
            case ns.Left(stamp=left_at):
                stamp = left_at
                self.relays.left(who, "failed", None)
            case ns.Only() | ns.Without():
                self.relays.lost(who)
            case _:
                self.relays.left(who, "disconnected", None)
        if lan == self.lan:
            if stamp is not None:
                self.floors[host_of(who)] = max(stamp, self.floors.get(host_of(who), stamp))
            self.locals.pop(who, None)
            self._requests.forget(who)
            self.relays.unpin(who, cut_off=stamp is None)
            self._answer_if_complete()
            self._linger_if_empty()
        else:
            self.peers.left(lan, who, stamp)

    # Control messages

    def _control(self, source: Endpoint, message: Control) -> None:
        match self.state, message:
            case Backup(), _:
                self.context.ignore(type(message).__name__, "a backup")
            case _ if not may_say(self.lan, source, message):
                self.context.ignore(type(message).__name__, "not for its sender to say")
            case Out(), (ForceJoin() | StartSync() | CutRequest()):
                if not isinstance(message, ForceJoin):
                    self.kept.add(source, message)
                self._join()
            case Out(), _:
                self.context.ignore(type(message).__name__, "not in the group")
            case _, ForceJoin():
                self._stay()
            case Joining(), _:
                self.kept.add(source, message)
            case _, StartSync():
                self._start_sync(source, message)
            case _, CutRequest():
                self._cut_request(source, message)
            case _, ViewId():
                if (have := self._requests.whole(source, message)) is not None:
                    self._view_id(lan_of(source), replace(message, have=tuple(have.items())))
            case _, CutReply():
                if self.peers.cut_replied(message):
                    self._peer_active(message.cut.lan)
            case _, DelegateMoved(_, lan, _, _, address):
                self._locate(lan, address)
            case _, ForwardingTree():
                self.planner.hear(lan_of(source), message)
            case _, Distances(_, lan, round_trips):
                if self.peers.delegate(lan) is None:
                    self.context.ignore("Distances", "from a LAN without a delegate")
                else:
                    self.planner.distances(lan, dict(round_trips))

    def _locate(self, lan: Domain, address: str) -> None:
        if (where := whereabouts(address)) is not None:
            self.context.effects.append(Located(lan, where))

    def _start_sync(self, source: Endpoint, message: StartSync) -> None:
        """Give a receiver its start in each stream, and pin it there in the same step (X-024, X-026)."""
        local = self.locals.get(source)
        if local is None:
            self.kept.add(source, message)  # its join notice is on the way (TX-3)
            return
        if message.epoch != self.epoch:
            self.context.ignore("StartSync", "of another epoch")
            return
        self._can_supply(source, message.first)
        for who, first in message.others:
            if host_of(who) == host_of(source):
                self._can_supply(who, first)
        if (have := self._requests.whole(source, message)) is None:
            return
        self._answer_if_complete()
        receiver = self.relays.receiver.get(source, source)
        if local.role.receives:
            self.relays.arrived(receiver)
        flowing = self._flowing()
        cuts = [
            self._cut(name, self._entries(flowing.get(name, []), receiver, have))
            for name in (self.lan, *sorted(self.peers.machines))
        ]
        self.relays.heard_of(receiver)
        for piece, last in pieces(cuts):
            reply = SyncReply(self.group, message.req, self.epoch, piece, self.channel, last)
            self.context.say(source, reply)

    def _can_supply(self, stream: Stream, first: int) -> None:
        """A sender of our LAN has nothing below this number any more."""
        if (unknown := self.relays.unknown.get(stream)) is not None:
            self.relays.begin(stream, unknown.stamp, unknown.role, first)
        elif (relay := self.relays.running.get(stream)) is not None:
            self.relays.skip(relay, first)

    def _cut(self, name: Domain, entries: tuple[CutEntry, ...]) -> Cut:
        """The cut of our own LAN, or of another one as we know it."""
        if name != self.lan:
            return self.peers.cut(self.peers.machines[name], entries)
        return Cut(self.lan, self.epoch, tuple(sorted(self.floors.items())), self._complete, entries)

    @property
    def _complete(self) -> bool:
        """Are the numbers of all senders of our LAN known? Those that were here before us have to send
        theirs."""
        return not self.relays.unknown

    def _answer_if_complete(self) -> None:
        """Answer those again that were answered before our numbers were complete."""
        if not self._complete:
            return
        for source, message in self._waiting.pop(self.lan, {}).items():
            self._cut_request(source, message)
        owed, self._owed = self._owed, {}
        for name in sorted(owed):
            if owed[name].epoch in self.peers.delegates.get(name, ()):  # else it has left meanwhile
                self._answer_view_id(name, owed[name])

    def _entries(
        self,
        relays: list[Relay],
        receiver: Endpoint,
        have: dict[Endpoint, int],
        only: tuple[Endpoint, ...] = (),
    ) -> tuple[CutEntry, ...]:
        """A start in each of these streams, and a pin there."""
        asked = frozenset(only)
        return tuple(
            [
                self.relays.entry(relay, self.relays.offer(relay, receiver, have.get(relay.stream)))
                for relay in relays
                if self.relays.hears(receiver, relay.stream) and (not asked or relay.stream in asked)
            ]
        )

    def _flowing(self) -> dict[Domain, list[Relay]]:
        """The streams whose end is not known, by LAN, sorted."""
        running = self.relays.running
        found: dict[Domain, list[Relay]] = {}
        for stream in sorted(running):
            relay = running[stream]
            if relay.final is None:
                found.setdefault(relay.lan, []).append(relay)
        return found

    def _cut_request(self, source: Endpoint, message: CutRequest) -> None:
        if source not in self.locals:
            self.kept.add(source, message)
        elif message.epoch != self.epoch:
            self.context.ignore("CutRequest", "of another epoch")
        elif (have := self._requests.whole(source, message)) is None:
            return
        elif self._complete if message.lan == self.lan else self.peers.is_active(message.lan):
            receiver = self.relays.receiver.get(source, source)
            flowing = self._flowing().get(message.lan, [])
            entries = self._entries(flowing, receiver, have, message.members)
            self._reply_cut(source, message, self._cut(message.lan, entries))
        elif message.lan == self.lan or message.lan in self.peers.machines:
            waiting = self._waiting.setdefault(message.lan, {})
            waiting.pop(source, None)
            waiting[source] = replace(message, have=tuple(have.items()))
        else:
            self._reply_cut(source, message, Cut(message.lan, 0, (), False, ()))

    def _reply_cut(self, source: Endpoint, message: CutRequest, cut: Cut) -> None:
        listed = {entry.endpoint for entry in cut.entries}
        unknown = tuple([each for each in message.members if each not in listed])
        for piece, last in pieces([cut]):
            reply = CutReply(self.group, message.req, self.epoch, piece[0], unknown, last)
            self.context.say(source, reply)

    def _peer_active(self, name: Domain) -> None:
        """The numbers of a LAN have come: answer the members that wait for them, and let it into the tree."""
        for source, message in self._waiting.pop(name, {}).items():
            self._cut_request(source, message)
        self._measure(name)
        self.planner.measured()

    def _measure(self, name: Domain) -> None:
        if self.peers.is_active(name):
            self.relays.ways.measure(name, self.relays.repairs.round_trips[name])

    def _answer_unknown(self, name: Domain) -> None:
        for source, message in self._waiting.pop(name, {}).items():
            self._reply_cut(source, message, Cut(name, 0, (), False, ()))

    def _view_id(self, name: Domain, message: ViewId) -> None:
        peer = self.peers.machine(name)
        epochs = self.peers.delegates.get(name, set())
        if message.epoch in epochs:
            self._answer_view_id(name, message)
        elif epochs and message.epoch < max(epochs):
            self.context.ignore("ViewId", "of another epoch")
        else:
            # Servers' meshes are not causal: its join notice is on another way (TX-7).
            peer.kept = message
            self.context.set_timer(self.config.semi_wait_s, "unnoticed", name)

    def _answer_view_id(self, name: Domain, message: ViewId) -> None:
        """The numbers of our own senders, and a pin for that LAN at each (X-039, X-041)."""
        have = dict(message.have)
        self.planner.versions = max(self.planner.versions, message.tree)
        was_expected = self.relays.lan_arrived(name, message.epoch)
        entries = tuple(
            [
                self.relays.entry(
                    relay, self.relays.offer_lan(relay, name, message.epoch, have.get(relay.stream))
                )
                for relay in self._flowing().get(self.lan, [])
            ]
        )
        if self._complete:
            self._owed.pop(name, None)
        else:
            self._owed[name] = message
        for piece, last in pieces([self._cut(self.lan, entries)]):
            self.context.say(
                delegate_of(name), CutReply(self.group, message.req, self.epoch, piece[0], (), last)
            )
        if was_expected:
            self.relays.hand_over(name)
        self.relays.heard_of_lan(name)
        self.planner.teach(name, (message.tree, Domain(message.coordinator)))
        self._delegates_changed()
        self.planner.soon()

    def _try_kept(self) -> None:
        """Handle kept messages whose senders have been noticed by now."""
        if isinstance(self.state, In | Lingering) and self.kept:
            for source, message in self.kept.take(self.locals):
                self._control(source, message)

    def _delegates_changed(self) -> None:
        """Data goes to every delegate that is in the group and has asked for our numbers."""
        self.planner.present(name for name in self.relays.pinned if self.peers.delegate(name) is not None)

    # Data

    def _heard(self, source: Domain, message: object) -> None:
        if source in self.forwarding.present and self.relays.ways.heard(source):
            self.planner.measured()
        match message:
            case Heartbeat((), _):
                self.context.transmit(source, Report(()))  # yes, it is heard
            case Data():
                self.relays.data(source, message)
            case Nak(asker=asker) if asker != source and not inside(self.lan, asker):
                self.context.ignore("Nak", "in the name of another")  # which would be sent the repairs
            case Nak():
                self.relays.repairs.asked(message)
            case Heartbeat(pulses, hop):
                for pulse in pulses:
                    self.relays.pulse(source, pulse, hop)
            case Status():
                self.relays.status(message)
            case Report(()):
                if (seconds := self.relays.ways.answered(source)) is not None:
                    self.relays.repairs.measured(source, seconds)
            case Report():
                self.relays.report(source, message)
            case Below():
                self.relays.below(message)
            case Polled():
                self.relays.polled(message)
            case _:
                self.context.ignore(type(message).__name__, "not for a delegate")

    # Backups

    def _mirror(self, *, whole: bool = False) -> None:
        """Send our backups what changed, now and every `status_s`."""
        if self._mirroring is not None:
            news = self._mirroring.news(self.epoch, list(self.locals), self.relays, whole=whole)
            if news is not None:
                self.context.effects.append(Replicate(self.group, news))
            self.context.set_timer(self.config.status_s, "mirror")

    def _replicated(self, message: Mirror | MirrorAsked) -> None:
        match self.state, message:
            case Backup(), Mirror():
                if not self.mirrors.apply(message):
                    self.context.effects.append(Replicate(self.group, MirrorAsked(self.group, self.lan)))
            case ((In() | Lingering()), MirrorAsked()):
                self._mirror(whole=True)
            case ((Joining() | In() | Lingering()), Mirror(epoch=epoch)) if epoch > self.epoch:
                self._step_down()
            case _:
                self.context.ignore(type(message).__name__, f"not expected when {type(self.state).__name__}")

    def _appointed(self, epoch: Epoch) -> None:
        """4 → 1 under the new epoch, from the mirrored state of our predecessor (X-100)."""
        if not isinstance(self.state, Backup) or epoch <= max(self.mirrors.epoch, self.epoch):
            self.context.ignore("Appointed", "not above the epochs before")
            return
        before, self.epoch = self.mirrors.epoch, epoch
        self.me = self.context.me = endpoint(host_of(self.me), ADHOC, epoch)
        self._forget_everything()
        until = self.context.now + self.config.resume_s
        for stream, mirrored in self.mirrors.streams.items():
            self.relays.parted[stream] = PartedStream(mirrored.stamp, mirrored.needed, until)
        self.relays.pinned.update(self.mirrors.peers)
        moved = DelegateMoved(self.group, self.lan, before, epoch, self.address)
        for member in self.mirrors.members:
            self.context.say(member, moved)
        for lan in sorted(self.mirrors.peers):
            self.context.say(delegate_of(lan), moved)
        self.context.note("takeover", f"{self.lan} {epoch}")
        self._join()

    def _step_down(self) -> None:
        """2, 3 → 4: a higher epoch acts for our LAN. Send nothing more as a delegate (X-104)."""
        self.context.ask(ns.Leave(self.group))
        self.relays.spills.end_all()
        self._forget_everything()
        self.mirrors = Mirrors()
        self._become(Backup())

    # Slow receivers

    def _lose_patience(self) -> None:
        """Expel receivers of our LAN that alone have blocked a sender for too long (X-091)."""
        may_go = {who for who, local in self.locals.items() if local.slow is Slow.EXPEL}
        for who in self.patience.look(self.relays.running, may_go):
            self._expel(who, "too slow")
        if may_go:
            self.context.set_timer(self.patience.look_s, "patience")

    def _expel_if(self, failed: tuple[Endpoint, str] | None) -> None:
        """The disk failed to write or read the backlog of a receiver."""
        if failed is not None:
            who, why = failed
            self._expel(who, f"too slow: {why}")

    def _expel(self, who: Endpoint, why: str) -> None:
        """All senders wait for this receiver alone, and its policy is `expel` (X-091)."""
        needed = self.relays.spills.needed
        acknowledged: Have = tuple(
            [
                (stream, needed(who, stream, relay.pins.local[who]))
                for stream, relay in sorted(self.relays.running.items())
                if who in relay.pins.local
            ]
        )
        self.context.note("expelled", who)
        self.context.say(who, Excluded(self.group, why, acknowledged))
        self.relays.unpin(who)

    # Timers

    def _timer_fired(self, what: str, which: str) -> None:
        match self.state, what:
            case Joining(wait_s), "snapshot":
                self.context.resolve()
                self._wait_for_snapshot(min(2 * wait_s, self.config.snapshot_wait_max_s))
            case ((Out() | Joining() | Backup()), _):
                self.context.ignore("TimerFired", "not in the group")
            case Lingering(), "linger":
                self._linger_ended()
            case _, "peer":
                self.peers.asked_too_long_ago(Domain(which))
            case _, "orphaned":
                self.peers.orphaned_too_long(Domain(which))
            case _, "unnoticed":
                peer = self.peers.machines.get(Domain(which))
                if peer is not None and peer.kept is not None:
                    peer.kept = None
                    self.context.resolve()
                    self.peers.end_if_empty(Domain(which))
            case _, "mirror":
                self._mirror()
            case _, "awaited":
                self.relays.await_no_longer()
            case _, "recover":
                self.relays.repairs.recover()
            case _, "ways":
                if self.relays.ways.ask():
                    self.planner.measured()
            case _, "measure":
                self._measure(Domain(which))
            case _, "distances":
                self.planner.measured()
            case _, "announce":
                self.relays.say_announcements()
            case _, "report":
                self.relays.say_reports()
                self.relays.tidy()
            case _, "drain":
                self.relays.drain_timed_out(Endpoint(which))
            case _, "poll":
                self.relays.poll_ended(Endpoint(which))
            case _, "patience":
                self._lose_patience()
            case _, "spill":
                self.relays.spills.tend_all()
            case _, "plan":
                self.planner.make()
            case _, "settled":
                self.planner.settled()
            case _:
                self.context.ignore("TimerFired", "no longer waited for")

    def _become(self, state: State) -> None:
        if type(state) is not type(self.state):
            self.context.note("delegate is", type(state).__name__)
        self.state = state


def _is_delegate(member: Member) -> bool:
    return isinstance(attributes_of(member), DelegateAttributes)
