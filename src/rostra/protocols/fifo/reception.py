"""The group machine of a host (table 4.1): joining a group, and receiving it for one or all of its members.

    0 OUT ── first join ──▶ 1 WAIT_RR ── delegate is listed: StartSync ──▶ 2 SYNC ── SyncReply ──▶ 3 ACTIVE
                            │     ▲
          it is not listed: │     │ it joined: resolve
                  ForceJoin ▼     │
                        5 WAIT_DELEGATE                       any ── the last member leaves ──▶ 0 OUT

It holds the list of members, and the machines of all LANs (`lan.py`) and of all senders (`senders.py`). A
member's own stream (`sending.py`) is beside it, and neither waits for the other (X-009).

Members of one host under the policy `throttle` share one reception: one list, one state for each sender, one
request to the delegate, which counts them as one receiver (`receiver_of`). A member that may be expelled, or
whose backlog goes to disk, has a reception of its own, since its delegate has to know how far it is; so has
one that receives nothing. A member that joins while the reception is **active** waits for no delegate: what
the others are owed contains all that it is owed.

Where we differ from the paper, and why:

- The send side opens in state 2, when our delegate knows us and not when it has answered (TX-14).
- Notices are not kept and replayed: the view that they make is kept (see `lan.py`).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from rostra.core.effects import Effect, Event, Ignored, Instant, TimerFired, ignored
from rostra.groups.attributes import DelegateAttributes, FifoAttributes, Role, Slow
from rostra.groups.members import Cause, Member
from rostra.names import Domain, Endpoint, Group, host_of, inside
from rostra.protocols.fifo.context import delegate_of, lan_of
from rostra.protocols.fifo.events import Heard, Joined, Left, Noticed, Only, Ready, Tuned, Without
from rostra.protocols.fifo.lan import Lans
from rostra.protocols.fifo.messages import (
    Cut,
    CutReply,
    DelegateMoved,
    ForceJoin,
    NotListed,
    StartSync,
    SyncReply,
    attributes_of,
    decode_control,
)
from rostra.protocols.fifo.messages import Excluded as ExcludedMessage
from rostra.protocols.fifo.readers import HostContext
from rostra.protocols.fifo.senders import Senders
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.early import Early
from rostra.protocols.flow.fragments import NO_PARTS, Parts
from rostra.protocols.flow.messages import (
    AnyDataMessage,
    Below,
    Data,
    Epoch,
    Heartbeat,
    Nak,
    Poll,
    Polled,
    Stream,
)
from rostra.protocols.flow.recovery import Luck
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.view import GroupView, ViewChanged

if TYPE_CHECKING:
    from rostra.protocols.fifo.member import MemberCore


class Outside(Struct, frozen=True):
    """0: not in the group, or not any more."""


class WaitingSnapshot(Struct, frozen=True):
    """1: asked for the list of members. `wait_s` grows with every repetition."""

    wait_s: float


class Syncing(Struct, frozen=True):
    """2: our delegate owes us the cuts. Members may send."""

    req: int
    epoch: Epoch
    pieces: tuple[Cut, ...] = ()


class Active(Struct, frozen=True):
    """3: the starts are known. While `resync` is open, a new delegate owes us its cuts."""

    resync: Syncing | None = None


class WaitingDelegate(Struct, frozen=True):
    """5: our delegate is not in the group yet."""

    req: int


State = Outside | WaitingSnapshot | Syncing | Active | WaitingDelegate

Listed = tuple[Endpoint, Role, bytes]
"""One member as it is delivered to a program, with its attachment."""


class OpenMember(Struct, frozen=True):
    """Order to a member: it may send now."""


class Resend(Struct, frozen=True):
    """Order to a member: send again what is not stable, which a new delegate may lack."""


class Expel(Struct, frozen=True):
    """Order to a member: it is expelled."""

    reason: str
    fix: str = ""


Order = OpenMember | Resend | Expel


def is_shared(role: Role, slow: Slow) -> bool:
    """Does such a member share what its host receives?"""
    return role.receives and slow is Slow.THROTTLE


def receiver_of(member: Endpoint, role: Role, slow: Slow) -> Endpoint:
    """The name under which a delegate counts a member of its LAN as a receiver: its own, or its host's."""
    return Endpoint(host_of(member)) if is_shared(role, slow) else member


class Reception:
    """What one host receives of one group; `only`: of one member, which does not share it."""

    def __init__(
        self,
        group: Group,
        me: Endpoint,
        config: FifoConfig,
        luck: Luck,
        *,
        role: Role,
        slow: Slow,
        only: bool,
        parts: Parts = NO_PARTS,
    ) -> None:
        self.group, self.me, self.only = group, me, only
        self.config = config
        self.role = role
        self.state: State = Outside()
        self.context = HostContext(group, me, config, 0, parts)
        self.context.luck = luck
        self.lan = self.context.lan
        self.members: dict[Endpoint, MemberCore] = {}
        self.view = GroupView(group)
        spilled = slow is Slow.SPILL
        self.senders = Senders(self.context, Early(config), listens=role.receives, spilled=spilled)
        self.lans = Lans(self.context, self.view, self.senders)
        self.orders: list[tuple[Endpoint, Order]] = []  # for members; the host's core carries them out
        self.asked_as = me  # in whose name our last request was made: the answer comes to it
        self._unsaid = False  # a member joined since the delegate was last asked: it may lack its number

    def step(self, now: Instant, event: Event, told: Iterable[Endpoint] = ()) -> list[Effect]:
        """`told`: the members that this notice is for."""
        effects = self.begin(now)
        match event:
            case Heard(_, source, messages):
                self.context.gather()  # streams of a crowd that end together are one item for each reader
                for message in messages:
                    self.hear(source, message)
                self.context.end_gathering()
            case Noticed(notice):
                self.told(notice, told)
            case TimerFired(timer):
                self.timer_fired(str(timer[4]), str(timer[5]))
            case _:
                effects.append(ignored(event, "not an event of a reception"))
        return effects

    def begin(self, now: Instant, effects: list[Effect] | None = None) -> list[Effect]:
        """A step begins, of ours or of a member's."""
        self.context.now = now
        self.context.effects = [] if effects is None else effects
        return self.context.effects

    def asks(self) -> Endpoint:
        """The member in whose name a request is made now."""
        self.asked_as = self.context.speaks_as
        return self.asked_as

    def take_orders(self) -> list[tuple[Endpoint, Order]]:
        orders, self.orders = self.orders, []
        return orders

    # Members come and go

    def add(self, member: "MemberCore", present: Mapping[Endpoint, Member]) -> None:
        """A member of our host joins. `present`: the records of those in the group already. If there was one
        member so far, its stream has a reader here from now on."""
        alone = next(iter(self.members.values())) if len(self.members) == 1 else None
        self.members[member.me] = member
        self.senders.came(member)
        if alone is not None and alone.role.sends and alone.me in present:
            sending = alone.sending
            self.senders.begin_own(present[alone.me], alone.role, sending.next_seq, sending.stable)
        if isinstance(self.state, Outside):
            self._wait_for_snapshot(self.config.snapshot_wait_s)
            return
        self.context.set_timer(self.config.snapshot_wait_s, "snapshot")
        match self.state:
            case Syncing() | Active(Syncing()):
                self._unsaid = True

    def remove(self, member: "MemberCore") -> None:
        """A member has left, or is leaving."""
        if self.members.get(member.me) is not member:
            return
        del self.members[member.me]
        self.senders.gone(member)
        if not isinstance(self.state, Active):
            self.senders.end_own(member.me)  # the other members have no list yet
        if len(self.members) == 1:
            self.senders.end_own(next(iter(self.members)))
        elif not self.members:
            for what in ("snapshot", "sync", "force"):
                self.context.cancel_timer(what)
            self.state = Outside()

    def pause(self, member: "MemberCore") -> None:
        member.paused = True
        if member.ready:
            self.senders.hold(member)

    def resume(self, member: "MemberCore") -> None:
        member.paused = False
        if member.ready:
            self.senders.resume(member)

    def silence(self, member: "MemberCore") -> None:
        """A member is leaving: from now on it gets only items about its own messages."""
        member.mute, member.paused = True, False
        self.senders.resume(member)

    # Joining

    def _wait_for_snapshot(self, wait_s: float) -> None:
        self._become(WaitingSnapshot(wait_s))
        self.context.set_timer(wait_s, "snapshot")

    def _resolve_afresh(self) -> None:
        for stream in [each for each in self.senders.running if each not in self.members]:
            self.senders.forget(stream)  # of a reply whose last piece does not come
        self.context.resolve()
        self._wait_for_snapshot(self.config.snapshot_wait_s)

    def _decide(self) -> None:
        """The list of members has come: is our delegate in it (X-011)?"""
        self.context.cancel_timer("snapshot")
        epoch = self.lans.delegate(self.lan)
        if epoch is None:
            self._become(WaitingDelegate(self.lans.new_req()))
            self._force()
        else:
            self._become(Syncing(self.lans.new_req(), epoch))
            self._ask_sync()
            self._let_speak()

    def _force(self) -> None:
        assert isinstance(self.state, WaitingDelegate)
        self.context.say(delegate_of(self.lan), ForceJoin(self.group, self.state.req))
        self.context.set_timer(self.config.force_wait_s, "force")

    def _ask_sync(self) -> None:
        """StartSync: for the first time, again with the same `req`, or to a successor with what we have; in
        several pieces if we have many streams."""
        match self.state:
            case Syncing(req, epoch) | Active(Syncing(req, epoch)):
                me = self.context.speaks_as
                numbers = {who: each.sending.stable + 1 for who, each in sorted(self.members.items())}
                first = numbers.pop(me, 1)
                others = tuple([(who, n) for who, n in numbers.items() if self.members[who].role.sends])
                have = self.senders.have()
                to = delegate_of(self.lan)
                while len(have) + len(others) > ASKED_AT_ONCE:
                    some, have = have[:ASKED_AT_ONCE], have[ASKED_AT_ONCE:]
                    named = ASKED_AT_ONCE - len(some)
                    request = StartSync(
                        self.group, req, self.role, epoch, first, some, others[:named], last=False
                    )
                    self.context.say(to, request)
                    others = others[named:]
                self._unsaid = False
                self.context.say(to, StartSync(self.group, req, self.role, epoch, first, have, others))
                self.context.set_timer(self.config.sync_wait_s, "sync")

    def _let_speak(self) -> None:
        """Members may send: our delegate knows them by their join notices (TX-14)."""
        if isinstance(self.state, Syncing | Active):
            for who, member in self.members.items():
                if member.listed and member.role.sends and not member.sending.is_open:
                    self.orders.append((who, OpenMember()))

    # Notices

    def told(self, notice: object, to: Iterable[Endpoint] = ()) -> None:
        """A notice: all that it changes is one item for each reader."""
        self.context.gather()
        self._told(notice, to)
        self.context.end_gathering()

    def _told(self, notice: object, to: Iterable[Endpoint]) -> None:
        match notice:
            case ns.Message(source, data):
                self._control(source, data)
                return
            case ns.NotDelivered() | ns.Life() | ns.Gap():
                return  # our own timers ask again
        if isinstance(self.state, Outside):
            return
        match notice:
            case ns.Joined(_, members, Cause.JOIN):
                for member in members if self.role.receives else ():
                    if sends(member):
                        self.lans.fresh[member.endpoint] = member.stamp
            case ns.Left(_, endpoint, stamp):
                self.lans.remember_gone(endpoint, stamp, self.context.now + self.config.remember_s)
                self.senders.forget_ended()
                self.senders.left_unnoticed(endpoint, stamp)
        reports = _applied(self.view, notice)
        for report in reports:
            if isinstance(report, ViewChanged):
                self._changed(report)
            else:
                self.context.effects.append(report)
        if isinstance(notice, ns.Absolute):
            self._listed(to)

    def _listed(self, told: Iterable[Endpoint]) -> None:
        """A whole list came: the one that state 1 or a new member waits for, or the answer to a later
        request."""
        for who in told:
            if (member := self.members.get(who)) is not None:
                member.listed = True
        match self.state:
            case WaitingSnapshot():
                self._decide()
            case Active():
                self.senders.forget_overdue()  # the servers do not know them
                self._let_in()
        self._let_speak()

    def _let_in(self) -> None:
        """Deliver the first list to members that wait only for that."""
        newcomers = [
            each for each in self.members.values() if each.listed and not each.ready and not each.mute
        ]
        if newcomers:
            self.context.tell_gathered()  # what is in their list is no change for them
            ready = Ready(self._first_list())
            for member in newcomers:
                member.ready = True
                self.context.tell_one(member, ready)
            self.senders.enter(newcomers)
        if not self.only and all(member.listed for member in self.members.values()):
            self.context.cancel_timer("snapshot")

    def _changed(self, change: ViewChanged) -> None:
        active = isinstance(self.state, Active)
        why = change.why
        if active and isinstance(why, ns.Only | ns.Without) and any(map(_is_user, change.left)):
            item = Only if isinstance(why, ns.Only) else Without
            self.context.tell(item(why.domain, why.because))
        for member in change.left:
            self._member_left(member, why, active)
        if isinstance(why, ns.Only | ns.Without):
            keep = isinstance(why, ns.Only)
            for lan in sorted(self.lans.machines):
                if lan != self.lan and inside(why.domain, lan) != keep:
                    self.lans.covered(lan)
        cause = why.cause if isinstance(why, ns.Joined) else None
        for member in change.joined:
            self._member_joined(member, cause, active)
        self.lans.joined_all()

    def _member_left(self, member: Member, why: object, active: bool) -> None:
        attributes = attributes_of(member)
        if isinstance(attributes, DelegateAttributes):
            self._delegate_left(lan_of(member.endpoint), _epoch_of(member), active)
        elif isinstance(attributes, FifoAttributes):
            self.lans.speakers.pop(member.endpoint, None)
            reason, last_seq = _reason(why)
            if not active:
                self.lans.fresh.pop(member.endpoint, None)
                self.senders.forget(member.endpoint)  # if the reply that we wait for began it
            elif attributes.role.sends and self.role.receives:
                self.lans.left(member, reason, last_seq)
            else:
                self.context.tell(Left(member.endpoint, reason, None))

    def _member_joined(self, member: Member, cause: Cause | None, active: bool) -> None:
        attributes = attributes_of(member)
        if isinstance(attributes, DelegateAttributes):
            self._delegate_joined(lan_of(member.endpoint), _epoch_of(member), active)
            return
        if not isinstance(attributes, FifoAttributes):
            self.context.ignore("Member", "not a member of this kind of group")
            return
        if attributes.role.sends:
            self.lans.speakers[member.endpoint] = member
        if active and not self.context.is_alone(member.endpoint):
            if attributes.role.sends and self.role.receives:
                self.lans.joined(member, attributes, cause)
            else:
                self.lans.sends_no_more(member.endpoint)
                self.context.tell(Joined(member.endpoint, attributes.role, member.meta))

    def _delegate_joined(self, lan: Domain, epoch: Epoch, active: bool) -> None:
        self.lans.delegates.setdefault(lan, set()).add(epoch)
        if lan == self.lan:
            match self.state:
                case WaitingDelegate():
                    self.context.cancel_timer("force")
                    self._resolve_afresh()
                case Syncing(_, expected) if epoch > expected:
                    self.context.cancel_timer("sync")
                    self._resolve_afresh()
                case Active(resync) if epoch == self.lans.delegate(lan):
                    if epoch != (self.lans.epoch if resync is None else resync.epoch):
                        self._resync(epoch)
        elif active and self.role.receives:
            self.lans.delegate_joined(lan, epoch)

    def _delegate_left(self, lan: Domain, epoch: Epoch, active: bool) -> None:
        epochs = self.lans.delegates.get(lan, set())
        epochs.discard(epoch)
        if not epochs:
            self.lans.delegates.pop(lan, None)
        if lan == self.lan:
            match self.state:
                case Syncing(_, expected) if epoch == expected:
                    self.context.cancel_timer("sync")
                    self._resolve_afresh()
                case Active() if epoch == self.lans.epoch and not epochs:
                    # Streams of our own LAN go on; a successor, or we ourselves in a while, bring the rest.
                    self.lans.epoch = None
                    self._become(Active())
                    self.context.cancel_timer("sync")
                    self.context.set_timer(self.config.force_wait_s, "force")
        elif active and self.role.receives:
            self.lans.delegate_left(lan)

    def _resync(self, epoch: Epoch) -> None:
        """A new delegate of our LAN: send it our numbers, and the messages that it may lack (X-100,
        X-101)."""
        self.context.cancel_timer("force")
        self._become(Active(Syncing(self.lans.new_req(), epoch)))
        self._ask_sync()
        self.orders += [(who, Resend()) for who in self.members]

    # Control messages

    def _control(self, source: Endpoint, data: bytes) -> None:
        message = decode_control(data)
        match self.state, message:
            case _, None:
                self.context.ignore("Message", "not a control message")
            case ((Syncing(req, epoch, pieces) | Active(Syncing(req, epoch, pieces))), SyncReply()) if (
                message.req == req and message.epoch == epoch
            ):
                cuts = message.cuts
                if isinstance(self.state, Syncing) and self.role.receives:
                    cuts = tuple([self.lans.begin_noticed(cut) for cut in cuts])
                self._synced(Syncing(req, epoch, (*pieces, *cuts)), message)
            case Active(), CutReply():
                self.lans.cut_replied(message)
            case Active(), DelegateMoved(_, lan, _, new) if lan == self.lan:
                self._delegate_joined(lan, new, True)
            case Active(), ExcludedMessage(_, reason):
                self.orders.append((self.me, Expel(reason)))
            case Active(), NotListed():
                self.context.resolve()
            case _, (SyncReply() | CutReply()):
                self.context.ignore(type(message).__name__, "not asked for")
            case _:
                self.context.ignore(type(message).__name__, f"not expected when {type(self.state).__name__}")

    def _synced(self, syncing: Syncing, reply: SyncReply) -> None:
        """2 → 3, or the cuts of a new delegate in 3."""
        first = isinstance(self.state, Syncing)
        if not reply.last:
            self._become(syncing if first else Active(syncing))
            return
        self.context.cancel_timer("sync")
        self.lans.epoch = syncing.epoch
        self._become(Active())
        self.context.effects.append(Tuned(self.group, reply.channel))
        if first:
            self._enter(syncing.pieces)
        else:
            self._apply(syncing.pieces)
            if self.role.receives:
                self.lans.ask_all()
            self._let_in()
        if self._unsaid:
            # Members came while we waited: the delegate may have been joining itself, and lack their numbers.
            self._become(Active(Syncing(self.lans.new_req(), syncing.epoch)))
            self._ask_sync()

    def _enter(self, cuts: tuple[Cut, ...]) -> None:
        """First one list of all members whose starts are known, then their messages, then changes (X-030)."""
        self._apply(cuts)
        if self.role.receives:
            for name in sorted(self.lans.delegates):
                self.lans.machine(name)
            for who in sorted(self.lans.speakers.keys() - self.senders.running.keys()):
                member = self.lans.speakers[who]
                attributes = attributes_of(member)
                if (
                    not self.context.is_alone(who)
                    and not self.senders.follows(who)
                    and isinstance(attributes, FifoAttributes)
                ):
                    self.lans.joined(member, attributes, None)  # of a LAN that no cut speaks of
            self.lans.joined_all()
        self._let_in()

    def _first_list(self) -> tuple[Listed, ...]:
        """All members, without senders whose streams have not begun."""
        waits = self.senders.announced if self.role.receives else frozenset()
        listed = [
            (member.endpoint, attributes.role, member.meta)
            for member in self.view.members
            if isinstance(attributes := attributes_of(member), FifoAttributes)
            and member.endpoint not in waits
        ]
        missing = [each for who, each in self.members.items() if who not in self.view]
        if not missing:
            return tuple(listed)
        ours = [(each.me, each.role, each.meta) for each in missing]
        return tuple(sorted([*ours, *listed], key=lambda each: each[0]))

    def _apply(self, cuts: tuple[Cut, ...]) -> None:
        if self.role.receives:
            self.lans.apply(*_united(cuts))

    # Data

    def hear(self, source: Domain, message: AnyDataMessage) -> None:
        """One message of the data channel."""
        if type(message) is Data:
            if self.role.receives and not self.context.is_alone(message.stream):
                self.senders.data(message)
            return
        match message:
            case Heartbeat(pulses):
                for pulse in pulses:
                    self.senders.pulse(pulse)
            case Nak():
                self.senders.asked(message)
            case Below():
                if isinstance(self.state, Active):
                    self.senders.below(message)
            case Poll(stream):
                sender = self.senders.running.get(stream)
                if sender is not None:
                    self.context.transmit(source, Polled(stream, sender.inbound.next))
            case _:
                self.context.ignore(type(message).__name__, "not for a member")

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes to keep for parts of this message; 0 if we do not wait for it."""
        if not self.role.receives or self.context.is_alone(stream):
            return 0
        return self.senders.room(stream, number)

    # Timers

    def timer_fired(self, what: str, which: str) -> None:
        match self.state, what:
            case Outside(), _:
                self.context.ignore("TimerFired", "not in the group")
            case WaitingSnapshot(wait_s), "snapshot":
                self.context.resolve()
                self._wait_for_snapshot(min(2 * wait_s, self.config.snapshot_wait_max_s))
            case _, "snapshot":
                if not all(member.listed for member in self.members.values()):
                    self.context.resolve()
                    self.context.set_timer(self.config.snapshot_wait_max_s, "snapshot")
            case WaitingDelegate(), "force":
                self._force()
            case Active(), "force":
                if self.lans.epoch is None:
                    self.context.say(delegate_of(self.lan), ForceJoin(self.group, self.lans.new_req()))
                    self.context.set_timer(self.config.force_wait_s, "force")
            case _, "sync":
                self._ask_sync()
            case _, "cut":
                self.lans.asked_too_long_ago(Domain(which))
            case _, "semi":
                if self.senders.semi_timed_out(Endpoint(which)):
                    self.context.resolve()
            case _, "drain":
                self.senders.drain_timed_out(Endpoint(which))
            case _, "recover":
                self.senders.recover()
            case _, "status":
                self.senders.say_status()
                self.senders.tidy()
                self.lans.forget_gone()
            case _:
                self.context.ignore("TimerFired", "no longer waited for")

    def _become(self, state: State) -> None:
        if type(state) is not type(self.state):
            self.context.note("member is", type(state).__name__)
        self.state = state


ASKED_AT_ONCE = 800
"""Streams that one `StartSync` names: well below what one message through the servers may hold."""


def _applied(view: GroupView, notice: object) -> list[ViewChanged | Ignored]:
    match notice:
        case ns.Absolute():
            return view.replace(notice)
        case ns.Joined():
            return view.add(notice)
        case ns.Left():
            return view.remove(notice)
        case ns.Only() | ns.Without():
            return view.filter(notice)
        case _:
            return [ignored(notice, "not a notice about members")]


def _reason(why: object) -> tuple[str, int | None]:
    """left | failed | disconnected, and the last number if it left one."""
    match why:
        case ns.Left(cause=Cause.LEAVE, last=last):
            return "left", last
        case ns.Left():
            return "failed", None
        case _:
            return "disconnected", None


def _epoch_of(delegate: Member) -> Epoch:
    return int(delegate.endpoint.rpartition("#")[2])


def sends(member: Member) -> bool:
    attributes = attributes_of(member)
    return isinstance(attributes, FifoAttributes) and attributes.role.sends


def _is_user(member: Member) -> bool:
    return isinstance(attributes_of(member), FifoAttributes)


def _united(cuts: tuple[Cut, ...]) -> list[Cut]:
    """Pieces of one LAN's cut, which a long reply was split into, as one."""
    whole: dict[Domain, Cut] = {}
    for cut in cuts:
        before = whole.get(cut.lan)
        if before is not None:
            cut = Cut(cut.lan, cut.epoch, cut.floors, cut.complete, (*before.entries, *cut.entries))
        whole[cut.lan] = cut
    return [whole[lan] for lan in sorted(whole)]
