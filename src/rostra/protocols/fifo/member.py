"""The group machine at a member (table 4.1): one endpoint of this host in one group.

    0 OUT ── JoinAsked ──▶ 1 WAIT_RR ── our delegate is listed: StartSync ──▶ 2 SYNC ── SyncReply ──▶ 3 ACTIVE
                            │     ▲                                                                     │
          it is not listed: │     │ it joined: resolve                                                  │
                  ForceJoin ▼     │                                                                     ▼
                        5 WAIT_DELEGATE    0 OUT ◀── everybody has our last message, or time ── 4 LEAVING

The machines of all LANs (`lan.py`) and of all other senders (`senders.py`) are inside; our own stream
(`sending.py`) is beside them, and neither waits for the other (X-009).

Where we differ from the paper, and why:

- The send side opens in state 2, when our delegate knows us and not when it has answered (TX-14).
- What the tables keep and replay is kept as the view that it makes (see `lan.py`).
- A leave waits until the window has let the last messages out, so that `last_seq` is the last number.
"""

from msgspec import Struct

from rostra.core.effects import Effect, EndpointGone, Event, Ignored, Instant, TimerFired
from rostra.groups.attributes import DelegateAttributes, FifoAttributes, Role, Slow
from rostra.groups.kinds import FIFO
from rostra.groups.members import Cause, Member, Members
from rostra.names import Domain, Endpoint, Group, inside
from rostra.protocols.fifo.events import (
    Excluded,
    Heard,
    JoinAsked,
    Joined,
    JoinRefused,
    LeaveAsked,
    Left,
    Only,
    Parted,
    Paused,
    Ready,
    Resumed,
    Sent,
    Submitted,
    Told,
    Tuned,
    Without,
)
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
from rostra.protocols.fifo.senders import Senders
from rostra.protocols.fifo.sending import Outbound
from rostra.protocols.fifo.voice import Voice, delegate_of, lan_of
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.early import Early
from rostra.protocols.flow.fragments import NO_PARTS, Parts
from rostra.protocols.flow.messages import Below, Data, Epoch, Heartbeat, Nak, Poll, Polled, Speech, Stream
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.view import Fellows, GroupView, ViewChanged


class Outside(Struct, frozen=True):
    """0: not in the group, or not any more."""


class WaitingSnapshot(Struct, frozen=True):
    """1: asked who is there. `wait_s` grows with every repetition."""

    wait_s: float


class Syncing(Struct, frozen=True):
    """2: our delegate owes us the numbers. We may speak."""

    req: int
    epoch: Epoch
    pieces: tuple[Cut, ...] = ()


class Active(Struct, frozen=True):
    """3: numbers are known. While `resync` is open, a new delegate owes us its own."""

    resync: Syncing | None = None


class Leaving(Struct, frozen=True):
    """4: no new messages; the last ones are emitted, then repaired. `said` once the group was told."""

    said: bool


class WaitingDelegate(Struct, frozen=True):
    """5: our delegate is not in the group yet."""

    req: int


Listed = tuple[Endpoint, Role, bytes]
"""One member as a program is given it, with its attachment."""

State = Outside | WaitingSnapshot | Syncing | Active | Leaving | WaitingDelegate


class MemberCore:
    """One endpoint in one group. `next_seq` goes on from an earlier membership of the same endpoint;
    `fellows` are the other members of its host, who are told the same notices."""

    def __init__(
        self,
        group: Group,
        me: Endpoint,
        config: FifoConfig,
        *,
        luck: int,
        role: Role = Role.BOTH,
        slow: Slow = Slow.THROTTLE,
        meta: bytes = b"",
        next_seq: int = 1,
        fellows: Fellows | None = None,
        parts: Parts = NO_PARTS,
    ) -> None:
        self.group, self.me = group, me
        self.role, self.slow, self.meta = role, slow, meta
        self.config = config
        self.state: State = Outside()
        self.voice = Voice(group, me, config, luck, parts)
        self.lan = self.voice.lan
        self.view = GroupView(group, fellows)
        self.senders = Senders(self.voice, Early(config), listens=role.receives, spilled=slow is Slow.SPILL)
        self.lans = Lans(self.voice, self.view, self.senders)
        self.sending = Outbound(self.voice, next_seq)
        self._listens = role.receives
        self.departing = False  # asked to leave, and still in: not everybody has what it said

    @property
    def over(self) -> bool:
        """Has this membership ended for good?"""
        return isinstance(self.state, Outside)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self.voice.now = now
        effects = self.voice.effects = []
        match event:
            case Heard(_, source, messages):
                self._heard(source, messages)
            case Submitted(_, _, count, block, at):
                self._submitted(count, block, at)
            case Told(notice):
                self._told(notice)
            case TimerFired(timer):
                self._timer_fired(str(timer[4]), str(timer[5]))
            case Paused():
                self.senders.paused = not self.departing
            case Resumed():
                self.senders.resume()
            case JoinAsked():
                self._join()
            case JoinRefused():
                self.state = Outside()
                self.view.close()
            case LeaveAsked():
                self._leave()
            case EndpointGone():
                self._gone()
            case _:
                effects.append(Ignored(type(event).__name__, "not an event of a member"))
        return effects

    def hear(self, now: Instant, source: Domain, message: Speech) -> list[Effect]:
        """One message of the data channel; the same as `Heard` with this one alone."""
        self.voice.now = now
        effects = self.voice.effects = []
        self._hear(source, message)
        return effects

    # Joining

    def _join(self) -> None:
        """0 → 1."""
        attributes = FifoAttributes(self.role, self.sending.next_seq, self.slow)
        self.voice.ask(ns.Join(self.group, meta=self.meta, group_kind=FIFO, attributes=attributes))
        self._wait_for_snapshot(self.config.snapshot_wait_s)
        if self.role.sends:
            self.sending.give_credit()

    def _wait_for_snapshot(self, wait_s: float) -> None:
        self._become(WaitingSnapshot(wait_s))
        self.voice.set_timer(wait_s, "snapshot")

    def _resolve_afresh(self) -> None:
        self.voice.resolve()
        self._wait_for_snapshot(self.config.snapshot_wait_s)

    def _decide(self) -> None:
        """The snapshot is in: is our delegate (X-011)?"""
        self.voice.cancel_timer("snapshot")
        epoch = self.lans.delegate(self.lan)
        if epoch is None:
            self._become(WaitingDelegate(self.lans.new_req()))
            self._force()
        else:
            self._become(Syncing(self.lans.new_req(), epoch))
            self._ask_sync()
            self._open()

    def _force(self) -> None:
        assert isinstance(self.state, WaitingDelegate)
        self.voice.say(delegate_of(self.lan), ForceJoin(self.group, self.state.req))
        self.voice.set_timer(self.config.force_wait_s, "force")

    def _ask_sync(self) -> None:
        """StartSync: for the first time, again with the same `req`, or to a successor with what we have."""
        match self.state:
            case Syncing(req, epoch) | Active(Syncing(req, epoch)):
                first = self.sending.stable + 1
                request = StartSync(self.group, req, self.role, epoch, first, self.senders.have())
                self.voice.say(delegate_of(self.lan), request)
                self.voice.set_timer(self.config.sync_wait_s, "sync")

    def _open(self) -> None:
        """We may speak: our delegate knows us by our join notice (TX-14)."""
        if self.role.sends and not self.sending.open:
            self.sending.open = True
            self.sending.emit()

    # Notices

    def _told(self, notice: object) -> None:
        match notice:
            case ns.Message(source, data):
                self._control(source, data)
                return
            case ns.NotDelivered() | ns.Life() | ns.Gap():
                return  # our own timers ask again
        if isinstance(self.state, Outside | Leaving):
            return
        match notice:
            case ns.Joined(_, members, Cause.JOIN):
                for member in members if self.role.receives else ():
                    if sends(member):
                        self.lans.fresh[member.endpoint] = member.stamp
            case ns.Left(_, endpoint, stamp):
                self.lans.remember_gone(endpoint, stamp, self.voice.now + self.config.remember_s)
                self.senders.forget_ended()
                self.senders.left_unnoticed(endpoint, stamp)
        reports = _applied(self.view, notice)
        for report in reports:
            if isinstance(report, ViewChanged):
                self._changed(report)
            else:
                self.voice.effects.append(report)
        if isinstance(notice, ns.Absolute):
            self._listed()

    def _listed(self) -> None:
        """A whole list came: the snapshot that state 1 waits for, or the answer to a later question."""
        match self.state:
            case WaitingSnapshot():
                self._decide()
            case Active():
                self.senders.forget_overdue()  # the servers do not know them

    def _changed(self, change: ViewChanged) -> None:
        active = isinstance(self.state, Active)
        why = change.why
        if active and isinstance(why, ns.Only | ns.Without) and any(map(_is_user, change.left)):
            item = Only if isinstance(why, ns.Only) else Without
            self.voice.tell(item(why.domain, why.because))
        for member in change.left:
            self._member_left(member, why, active)
        if isinstance(why, ns.Only | ns.Without):
            keep = isinstance(why, ns.Only)
            for lan in sorted(self.lans.machines):
                if lan != self.lan and inside(why.domain, lan) != keep:
                    self.lans.covered(lan)
        cause = why.cause if isinstance(why, ns.Joined) else None
        # With the first list nobody is told of those who only listen: the program gets all of them at once.
        for member in self.view.derived(_all_but_listeners) if change.first else change.joined:
            self._member_joined(member, cause, active)

    def _member_left(self, member: Member, why: object, active: bool) -> None:
        attributes = attributes_of(member)
        if isinstance(attributes, DelegateAttributes):
            self._delegate_left(lan_of(member.endpoint), _epoch_of(member), active)
        elif isinstance(attributes, FifoAttributes):
            self.lans.speakers.pop(member.endpoint, None)
            reason, last_seq = _reason(why)
            if not active:
                self.lans.fresh.pop(member.endpoint, None)
            elif attributes.role.sends and self.role.receives:
                self.lans.left(member, reason, last_seq)
            else:
                self.voice.tell(Left(member.endpoint, reason, None))

    def _member_joined(self, member: Member, cause: Cause | None, active: bool) -> None:
        attributes = attributes_of(member)
        if isinstance(attributes, DelegateAttributes):
            self._delegate_joined(lan_of(member.endpoint), _epoch_of(member), active)
            return
        if not isinstance(attributes, FifoAttributes):
            self.voice.ignore("Member", "not a member of this kind of group")
            return
        if attributes.role.sends:
            self.lans.speakers[member.endpoint] = member
        if active and member.endpoint != self.me:
            if attributes.role.sends and self.role.receives:
                self.lans.joined(member, attributes, cause)
            else:
                self.voice.tell(Joined(member.endpoint, attributes.role, member.meta))

    def _delegate_joined(self, lan: Domain, epoch: Epoch, active: bool) -> None:
        self.lans.delegates.setdefault(lan, set()).add(epoch)
        if lan == self.lan:
            match self.state:
                case WaitingDelegate():
                    self.voice.cancel_timer("force")
                    self._resolve_afresh()
                case Syncing(_, expected) if epoch > expected:
                    self.voice.cancel_timer("sync")
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
                    self.voice.cancel_timer("sync")
                    self._resolve_afresh()
                case Active() if epoch == self.lans.epoch and not epochs:
                    # Streams of our own LAN go on; a successor, or we ourselves in a while, bring the rest.
                    self.lans.epoch = None
                    self._become(Active())
                    self.voice.cancel_timer("sync")
                    self.voice.set_timer(self.config.force_wait_s, "force")
        elif active and self.role.receives:
            self.lans.delegate_left(lan)

    def _resync(self, epoch: Epoch) -> None:
        """A new delegate of our LAN: tell it what we have, and send it what it may miss (X-100, X-101)."""
        self.voice.cancel_timer("force")
        self._become(Active(Syncing(self.lans.new_req(), epoch)))
        self._ask_sync()
        self.sending.resend()

    # Control messages

    def _control(self, source: Endpoint, data: bytes) -> None:
        message = decode_control(data)
        match self.state, message:
            case _, None:
                self.voice.ignore("Message", "not a control message")
            case ((Syncing(req, epoch, pieces) | Active(Syncing(req, epoch, pieces))), SyncReply()) if (
                message.req == req and message.epoch == epoch
            ):
                self._synced(Syncing(req, epoch, (*pieces, *message.cuts)), message)
            case Active(), CutReply():
                self.lans.cut_replied(message)
            case Active(), DelegateMoved(_, lan, _, new) if lan == self.lan:
                self._delegate_joined(lan, new, True)
            case Active(), ExcludedMessage(_, reason):
                self._excluded(reason)
            case Active(), NotListed():
                self.voice.resolve()
            case _, (SyncReply() | CutReply()):
                self.voice.ignore(type(message).__name__, "not asked for")
            case _:
                self.voice.ignore(type(message).__name__, f"not expected when {type(self.state).__name__}")

    def _synced(self, syncing: Syncing, reply: SyncReply) -> None:
        """2 → 3, or a new delegate's numbers in 3."""
        first = isinstance(self.state, Syncing)
        if not reply.last:
            self._become(syncing if first else Active(syncing))
            return
        self.voice.cancel_timer("sync")
        self.lans.epoch = syncing.epoch
        self._become(Active())
        self.voice.effects.append(Tuned(self.group, reply.channel))
        if first:
            self._enter(syncing.pieces)
        else:
            self._apply(syncing.pieces)
            if self.role.receives:
                self.lans.ask_all()

    def _enter(self, cuts: tuple[Cut, ...]) -> None:
        """First one list of everybody whose numbers are known, then their messages, then changes (X-030)."""
        listing = self.senders.listing = [(self.me, self.role, self.meta)]
        self._apply(cuts)
        if self.role.receives:
            for name in sorted(self.lans.delegates):
                self.lans.machine(name)
            for who in sorted(self.lans.speakers):
                member = self.lans.speakers[who]
                attributes = attributes_of(member)
                if (
                    who != self.me
                    and who not in self.senders.running
                    and isinstance(attributes, FifoAttributes)
                ):
                    self.lans.joined(member, attributes, None)  # of a LAN that no cut speaks of
        self.senders.listing = None
        self.voice.tell(Ready(self._everybody(listing)))
        self.senders.deliver_all()

    def _everybody(self, begun: list[Listed]) -> tuple[Listed, ...]:
        """All of the view, but of those who speak only whose streams have begun."""
        known = {each[0] for each in begun}
        waits = [who for who in sorted(self.lans.speakers) if who not in known] if self.role.receives else ()
        everybody = self.view.derived(_UsersBesides(tuple(waits)))
        if self.me in self.view:
            return everybody
        return tuple(sorted([begun[0], *everybody], key=lambda each: each[0]))

    def _apply(self, cuts: tuple[Cut, ...]) -> None:
        if self.role.receives:
            self.lans.apply(*_united(cuts))

    def _excluded(self, reason: str) -> None:
        self.voice.tell(Excluded(reason))
        self.voice.ignore("Member", "excluded")
        self._leave(at_once=True)

    # Data

    def _heard(self, source: Domain, messages: tuple[Speech, ...]) -> None:
        for message in messages:
            self._hear(source, message)

    def _hear(self, source: Domain, message: Speech) -> None:
        if type(message) is Data:
            if message.stream == self.me:
                if message.repair:
                    self.sending.heard_repair(message)
            elif self._listens:
                self.senders.data(message)
            return
        match message:
            case Heartbeat(pulses):
                for pulse in pulses:
                    if pulse.stream == self.me:
                        self._hear_stable(pulse.stable)
                    else:
                        self.senders.pulse(pulse)
            case Nak(stream):
                if stream == self.me:
                    self.sending.asked(message)
                else:
                    self.senders.asked(message)
            case Below():
                if isinstance(self.state, Active):
                    self.senders.below(message)
            case Poll(stream):
                sender = self.senders.running.get(stream)
                if sender is not None and sender.inbound is not None:
                    self.voice.transmit(source, Polled(stream, sender.inbound.next))
            case _:
                self.voice.ignore(type(message).__name__, "not for a member")

    def overhear(self, part: Data) -> None:
        """A part of a message that nobody here waits for."""
        if part.stream != self.me:
            self.senders.overhear(part)
        elif part.repair:
            self.sending.heard_repair(part)

    def room(self, stream: Stream, number: int) -> int:
        """For parts of this message, should we wait for it."""
        return self.senders.room(stream, number) if self._listens and stream != self.me else 0

    def _submitted(self, count: int, block: bytes, at: float) -> None:
        if not self.role.sends:
            self.voice.ignore("Submitted", "a receiver only")
        elif not self.sending.submit(count, block, at):
            self.voice.ignore("Submitted", "beyond the credit")

    def _hear_stable(self, stable: int) -> None:
        if not self.sending.hear_stable(stable):
            return
        self.voice.tell(Sent(self.sending.stable))
        match self.state:
            case Leaving(said=False) if not self.sending.queued:
                self._say_left()
            case Leaving(said=True) if self.sending.settled:
                self._end()
            case Syncing() | Active() if self.departing and self.sending.settled:
                self._say_left()

    # Leaving

    def _leave(self, *, at_once: bool = False) -> None:
        """1, 2, 3, 5 → 4. Who has said something that not everybody has yet, stays in until they have, or for
        `depart_s`, and hears nothing more itself: if our delegate dies meanwhile, its successor must still
        find us in the group to pass it on (X-101)."""
        match self.state:
            case Outside() | Leaving():
                return
            case Syncing() | Active() if self.sending.open and not self.sending.settled and not at_once:
                if not self.departing:
                    self.departing = self.voice.mute = True
                    self.senders.resume()
                    self.sending.close()
                    self.voice.set_timer(self.config.depart_s, "linger")
                return
        for what in ("snapshot", "sync", "force"):
            self.voice.cancel_timer(what)
        if not self.sending.open:
            # Nobody can hear us: what was queued is reported as not sent.
            self._become(Leaving(said=True))
            self._ask_leave()
            self._end()
            return
        self._become(Leaving(said=False))
        self.sending.close()
        self.voice.set_timer(self.config.linger_s, "linger")
        if not self.sending.queued:
            self._say_left()

    def hurry(self, now: Instant) -> list[Effect]:
        """Whoever is departing leaves now: its endpoint closes, or joins again."""
        self.voice.now = now
        effects = self.voice.effects = []
        if self.departing and not isinstance(self.state, Outside | Leaving):
            self._say_left()
        return effects

    def _say_left(self) -> None:
        for what in ("snapshot", "sync", "force"):
            self.voice.cancel_timer(what)
        self._become(Leaving(said=True))
        self._ask_leave()
        self.voice.set_timer(self.config.linger_s, "linger")
        if self.sending.settled:
            self._end()

    def _ask_leave(self) -> None:
        self.voice.ask(ns.Leave(self.group, last=self.sending.last_seq))

    def _gone(self) -> None:
        """The program died. What it has handed over is still good, and we can still repair it (X-049)."""
        match self.state:
            case Outside() | Leaving(said=True):
                return
        for what in ("snapshot", "sync", "force"):
            self.voice.cancel_timer(what)
        self._become(Leaving(said=True))
        if not self.sending.open or self.sending.settled:
            self._end()
        else:
            self.sending.close()
            self.voice.set_timer(self.config.linger_s, "linger")

    def _end(self) -> None:
        self.voice.cancel_timer("linger")
        unconfirmed = self.sending.last_seq - self.sending.stable if self.sending.open else 0
        self._become(Outside())
        self.voice.tell(Parted(unconfirmed, self.sending.queued))

    # Timers

    def _timer_fired(self, what: str, which: str) -> None:
        match self.state, what:
            case Outside(), _:
                self.voice.ignore("TimerFired", "not in the group")
            case _, "heartbeat":
                self.sending.pulse()
            case _, "repair":
                self.sending.repair()
            case Leaving(said=False), "linger":
                # The window never opened again: what is queued stays unsent.
                self._say_left()
            case ((Syncing() | Active()), "linger"):
                self._say_left()
            case Leaving(), "linger":
                self._end()
            case Leaving(), _:
                pass
            case WaitingSnapshot(wait_s), "snapshot":
                self.voice.resolve()
                self._wait_for_snapshot(min(2 * wait_s, self.config.snapshot_wait_max_s))
            case WaitingDelegate(), "force":
                self._force()
            case Active(), "force":
                if self.lans.epoch is None:
                    self.voice.say(delegate_of(self.lan), ForceJoin(self.group, self.lans.new_req()))
                    self.voice.set_timer(self.config.force_wait_s, "force")
            case _, "sync":
                self._ask_sync()
            case _, "cut":
                self.lans.asked_too_long_ago(Domain(which))
            case _, "semi":
                if self.senders.semi_timed_out(Endpoint(which)):
                    self.voice.resolve()
            case _, "drain":
                self.senders.drain_timed_out(Endpoint(which))
            case _, "recover":
                self.senders.recover()
            case _, "status":
                self.senders.say_status()
                self.senders.tidy()
                self.lans.forget_gone()
            case _:
                self.voice.ignore("TimerFired", "no longer waited for")

    def _become(self, state: State) -> None:
        if type(state) is not type(self.state):
            self.voice.note("member is", type(state).__name__)
        self.state = state
        if isinstance(state, Leaving | Outside):
            self._listens = False
            self.view.close()
        else:
            self._listens = self.role.receives


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
            return [Ignored(type(notice).__name__, "not a notice about members")]


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


def _all_but_listeners(members: Members) -> Members:
    """Whoever speaks, delegates, and strangers."""
    return tuple([member for member in members if sends(member) or not _is_user(member)])


class _UsersBesides(Struct, frozen=True):
    """Members as a program is given them, without some. Fellows that wait for the same are given one list."""

    waits: tuple[Endpoint, ...]

    def __call__(self, members: Members) -> tuple[Listed, ...]:
        return tuple(
            [
                (member.endpoint, attributes.role, member.meta)
                for member in members
                if isinstance(attributes := attributes_of(member), FifoAttributes)
                and member.endpoint not in self.waits
            ]
        )


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
