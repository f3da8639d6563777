"""One endpoint of this host in one group: its own stream, its leave, and its part in what the host receives.

    Outside ── JoinAsked ──▶ Inside ── LeaveAsked ─────────────────▶ Leaving ── acknowledged, ──▶ Outside
                               │ messages are unacknowledged            ▲        or time
                               └──▶ Departing ── acknowledged, or time ─┘

What it receives is a `Reception`: its own, or one that it shares with other members of its host. Until it
leaves, its `state` is that of the reception.

Where we differ from the paper, and why:

- A leave waits until the window has let the last messages out, so that `last_seq` is the last number.
"""

from collections.abc import Mapping

from msgspec import Struct

from rostra.core.effects import Effect, EndpointGone, Event, Instant, TimerFired, ignored
from rostra.groups.attributes import FifoAttributes, Role, Slow
from rostra.groups.kinds import FIFO, GroupKind
from rostra.groups.members import Member
from rostra.names import Endpoint, Group
from rostra.protocols.fifo.context import StepContext
from rostra.protocols.fifo.events import (
    Excluded,
    Heard,
    Item,
    JoinAsked,
    JoinRefused,
    LeaveAsked,
    Noticed,
    Parted,
    Paused,
    Resumed,
    Sent,
    Submitted,
)
from rostra.protocols.fifo.lan import Lans
from rostra.protocols.fifo.reception import (
    Active,
    Expel,
    OpenMember,
    Order,
    Outside,
    Reception,
    Resend,
    Syncing,
    WaitingDelegate,
    WaitingSnapshot,
)
from rostra.protocols.fifo.senders import Senders
from rostra.protocols.fifo.sending import Outbound
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import NO_PARTS, Parts
from rostra.protocols.flow.messages import AnyDataMessage, Data, Heartbeat, Nak, Stream
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.view import GroupView


class Inside(Struct, frozen=True):
    """In the group, or on the way in: the rest is its reception's."""


class Departing(Struct, frozen=True):
    """Asked to leave, and still in the group until every receiver has our messages, or for `depart_s`."""


InGroup = Inside | Departing


class Leaving(Struct, frozen=True):
    """4: no new messages; the last ones are emitted, then repaired."""

    said: bool  # our leave was announced


State = Outside | WaitingSnapshot | Syncing | Active | Leaving | WaitingDelegate


class MemberCore:
    """One endpoint in one group. `next_seq` goes on from an earlier membership of the same endpoint. If it
    shares no `reception` it has its own, and its `step` is for both."""

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
        reception: Reception | None = None,
        parts: Parts = NO_PARTS,
        kind: GroupKind = FIFO,
    ) -> None:
        self.group, self.me, self.kind = group, me, kind
        self.role, self.slow, self.meta = role, slow, meta
        self.config = config
        self._own: Outside | InGroup | Leaving = Outside()
        self.context = StepContext(group, me, config, luck, parts)
        self.reception = reception or Reception(
            group, me, config, self.context.luck, role=role, slow=slow, only=True, parts=parts
        )
        self.sending = Outbound(self.context, next_seq)
        # As one of the readers of the reception: see `Reader`.
        self.listed = False  # the snapshot that its join brought has come
        self.ready = False
        self.paused = False
        self.mute = False
        self.held: list[Item] = []

    @property
    def over(self) -> bool:
        """Has this membership ended for good?"""
        return isinstance(self._own, Outside)

    @property
    def departing(self) -> bool:
        return isinstance(self._own, Departing)

    @property
    def state(self) -> State:
        return self.reception.state if isinstance(self._own, InGroup) else self._own

    @property
    def senders(self) -> Senders:
        return self.reception.senders

    @property
    def lans(self) -> Lans:
        return self.reception.lans

    @property
    def view(self) -> GroupView:
        return self.reception.view

    def step(
        self, now: Instant, event: Event, present: Mapping[Endpoint, Member] | None = None
    ) -> list[Effect]:
        """`present`: at a join, the members of our host that are in the group already."""
        effects = self._begin(now)
        match event:
            case Heard(_, source, messages):
                self.reception.context.gather()
                for message in messages:
                    self._hear_own(message)
                    if self.reception.only and isinstance(self._own, InGroup):
                        self.reception.hear(source, message)
                self.reception.context.end_gathering()
            case Submitted(_, _, count, block, at):
                self._submitted(count, block, at)
            case Noticed(notice):
                if isinstance(self._own, InGroup):
                    self.reception.told(notice, (self.me,))
            case TimerFired(timer):
                self._timer_fired(str(timer[4]), str(timer[5]))
            case Paused():
                if isinstance(self._own, Inside):
                    self.reception.pause(self)
            case Resumed():
                if isinstance(self._own, InGroup):
                    self.reception.resume(self)
            case JoinAsked():
                self._join(present or {})
            case JoinRefused():
                self._own = Outside()
                self.reception.remove(self)
            case LeaveAsked():
                self._leave()
            case EndpointGone():
                self._gone()
            case _:
                effects.append(ignored(event, "not an event of a member"))
        if self.reception.only:
            for _, order in self.reception.take_orders():
                self._carry_out(order)
        return effects

    def hear(self, now: Instant, message: AnyDataMessage) -> list[Effect]:
        """One message of the data channel that concerns our own stream."""
        effects = self._begin(now)
        self._hear_own(message)
        return effects

    def ordered(self, now: Instant, order: Order) -> list[Effect]:
        """An order of the reception that we share."""
        effects = self._begin(now)
        self._carry_out(order)
        return effects

    def send_in(self, now: Instant, view: int) -> list[Effect]:
        """In an agreed group: our program was given this view."""
        effects = self._begin(now)
        self.sending.send_in(view)
        return effects

    def _begin(self, now: Instant) -> list[Effect]:
        self.context.now = now
        effects: list[Effect] = []
        self.context.effects = effects
        return self.reception.begin(now, effects)

    def _carry_out(self, order: Order) -> None:
        match order:
            case OpenMember():
                if not self.sending.is_open:
                    self.sending.open()
            case Resend():
                self.sending.resend()
            case Expel(reason, fix):
                if not self.mute:
                    self.context.tell(Excluded(reason, fix))
                self.context.ignore("Member", "excluded")
                self._leave(at_once=True)

    def _join(self, present: Mapping[Endpoint, Member]) -> None:
        """0 → 1."""
        attributes = FifoAttributes(self.role, self.sending.next_seq, self.slow)
        self.context.ask(ns.Join(self.group, meta=self.meta, group_kind=self.kind, attributes=attributes))
        self._own = Inside()
        self.reception.add(self, present)
        if self.role.sends:
            self.sending.give_credit()

    # Our own stream

    def _hear_own(self, message: AnyDataMessage) -> None:
        if type(message) is Data:
            if message.stream == self.me and message.repair:
                self.sending.heard_repair(message)
            return
        match message:
            case Heartbeat(pulses):
                for pulse in pulses:
                    if pulse.stream == self.me:
                        self._hear_stable(pulse.stable)
            case Nak(stream) if stream == self.me:
                self.sending.asked(message)

    def overhear(self, part: Data) -> None:
        """A part of a message that no member of our host lacks: another holder repaired it."""
        if part.stream == self.me and part.repair:
            self.sending.heard_repair(part)
        elif self.reception.only:
            self.senders.overhear(part)

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes to keep for parts of this message; 0 if we do not wait for it."""
        return self.reception.room(stream, number) if isinstance(self._own, InGroup) else 0

    def _submitted(self, count: int, block: bytes, at: float) -> None:
        if not self.role.sends:
            self.context.ignore("Submitted", "a receiver only")
        elif not self.sending.submit(count, block, at):
            self.context.ignore("Submitted", "beyond the credit")

    def _hear_stable(self, stable: int) -> None:
        if not self.sending.hear_stable(stable):
            return
        self.context.tell(Sent(self.sending.stable))
        match self.state:
            case Leaving(said=False) if not self.sending.queued:
                self._say_left()
            case Leaving(said=True) if self.sending.settled:
                self._end()
            case Syncing() | Active() if self.departing and self.sending.settled:
                self._say_left()

    # Leaving

    def _leave(self, *, at_once: bool = False) -> None:
        """1, 2, 3, 5 → 4. While some receiver lacks a message of ours we stay in, for at most `depart_s`, and
        are delivered nothing more: if our delegate fails meanwhile, its successor must still find us in the
        group to pass it on (X-101)."""
        match self.state:
            case Outside() | Leaving():
                return
            case Syncing() | Active() if self.sending.is_open and not self.sending.settled and not at_once:
                if not self.departing:
                    self._own = Departing()
                    self.reception.silence(self)
                    self.sending.close()
                    self.context.set_timer(self.config.depart_s, "linger")
                return
        if not self.sending.is_open:
            # No delegate knows us: what was queued is reported as not sent.
            self._become(Leaving(said=True))
            self._ask_leave()
            self._end()
            return
        self._become(Leaving(said=False))
        self.sending.close()
        self.context.set_timer(self.config.linger_s, "linger")
        if not self.sending.queued:
            self._say_left()

    def hurry(self, now: Instant) -> list[Effect]:
        """If we are departing, leave now: our endpoint closes, or joins again."""
        effects = self._begin(now)
        if self.departing:
            self._say_left()
        return effects

    def _say_left(self) -> None:
        self._become(Leaving(said=True))
        self._ask_leave()
        self.context.set_timer(self.config.linger_s, "linger")
        if self.sending.settled:
            self._end()

    def _ask_leave(self) -> None:
        self.context.ask(ns.Leave(self.group, last=self.sending.last_seq))

    def _gone(self) -> None:
        """The program died. What it has submitted still counts, and we can still repair it (X-049)."""
        match self.state:
            case Outside() | Leaving(said=True):
                return
        self._become(Leaving(said=True))
        if not self.sending.is_open or self.sending.settled:
            self._end()
        else:
            self.sending.close()
            self.context.set_timer(self.config.linger_s, "linger")

    def _end(self) -> None:
        self.context.cancel_timer("linger")
        unconfirmed = self.sending.last_seq - self.sending.stable if self.sending.is_open else 0
        self._become(Outside())
        self.context.tell(Parted(unconfirmed, self.sending.queued))

    # Timers

    def _timer_fired(self, what: str, which: str) -> None:
        match self._own, what:
            case Outside(), _:
                self.context.ignore("TimerFired", "not in the group")
            case _, "heartbeat":
                self.sending.pulse()
            case _, "repair":
                self.sending.repair()
            case Leaving(said=False), "linger":
                # The window never opened again: what is queued stays unsent.
                self._say_left()
            case Departing(), "linger":
                self._say_left()
            case Inside(), "linger":
                pass
            case Leaving(), "linger":
                self._end()
            case Leaving(), _:
                pass
            case _:
                self.reception.timer_fired(what, which)

    def _become(self, own: Outside | Leaving) -> None:
        if type(own) is not type(self._own):
            self.context.note("member is", type(own).__name__)
        self._own = own
        self.reception.remove(self)
