"""Sending to a group without joining it: the submitter's part of aggregation (X-054, X-055).

    JoinAsked ──▶ Asking ── SubmitReply ──▶ Submitting ── LeaveAsked, EndpointGone ──▶ Closing ──▶ Over
                    ▲ StartSubmit             │   ▲                                       │
                    └── T_sync: ask again     └───┴── silence for T_force: StartSubmit ───┘

The endpoint is in no view. Its messages are numbered and kept here, and sent to the delegate of its LAN,
which emits them in a stream of its own (`aggregate.py`). This is a member's own stream (`sending.py`) with
one receiver: `Data` goes to the delegate alone, which requests what it misses, and whose heartbeats
acknowledge what every receiver of the group has. Until then all is kept here, so that a successor of the
delegate can be sent all that some receiver may lack; receivers drop duplicates.

A delegate answers every heartbeat. One that is silent for `force_wait_s` while it owes us an acknowledgement
is asked again (`StartSubmit`); if another one answers, it is sent everything again. All this is on the data
channel: an endpoint that is in no group gets no notice of its delegate, and what an agent keeps for a program
that has ended must not depend on that program's endpoint.
"""

from msgspec import Struct

from rostra.core.effects import Effect, EndpointGone, Event, Instant, TimerFired, ignored
from rostra.names import Endpoint, Group
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.fifo.events import (
    Heard,
    JoinAsked,
    LeaveAsked,
    Noticed,
    Parted,
    Paused,
    Ready,
    Resumed,
    Sent,
    Submitted,
)
from rostra.protocols.fifo.sending import Outbound
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import AnyDataMessage, Epoch, Heartbeat, Nak, StartSubmit, SubmitReply


class Asking(Struct, frozen=True):
    """No delegate has answered yet: what the program submits is queued."""


class Submitting(Struct, frozen=True):
    """The delegate of this epoch takes our messages."""

    epoch: Epoch


class Closing(Struct, frozen=True):
    """No new messages; the last ones are with the delegate, or on their way to it."""

    epoch: Epoch


class Over(Struct, frozen=True):
    """Every receiver has everything, or no delegate acknowledged it for too long."""


State = Asking | Submitting | Closing | Over


class ToDelegate(StepContext):
    """What a member casts in its LAN, a submitter sends to its delegate alone."""

    __slots__ = ()

    def cast(self, message: AnyDataMessage) -> None:
        self.transmit(self.lan, message)


class Submitter:
    """One endpoint that submits to one group. `next_seq` goes on from what it sent there before."""

    def __init__(
        self, group: Group, me: Endpoint, config: FifoConfig, *, luck: int, next_seq: int = 1
    ) -> None:
        self.group, self.me = group, me
        self.config = config
        self.state: State = Asking()
        self.context = ToDelegate(group, me, config, luck)
        self.sending = Outbound(self.context, next_seq)
        self.since = next_seq
        self._req = 0
        self._heard_at: Instant = 0.0
        self._patience = Alarm(self.context, "patience")

    @property
    def over(self) -> bool:
        return isinstance(self.state, Over)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self.context.now = now
        effects = self.context.effects = []
        match event:
            case Heard(_, _, messages):
                for message in messages:
                    self._hear(message)
            case Submitted(_, _, count, block, at):
                if not self.sending.submit(count, block, at):
                    self.context.ignore("Submitted", "beyond the credit")
            case Noticed() | Paused() | Resumed():
                pass  # we are in no view, and are given nothing to read
            case TimerFired(timer):
                self._timer_fired(str(timer[4]))
            case JoinAsked():
                self.sending.give_credit()
                self._ask()
            case LeaveAsked() | EndpointGone():
                self._close()
            case _:
                effects.append(ignored(event, "not an event of a submitter"))
        is_owed = isinstance(self.state, Submitting | Closing) and not self.sending.settled
        if is_owed and not self._patience.is_set:
            self._heard_at = now  # there was nothing to hear until now
            self._patience.at(now + self.config.force_wait_s)
        return effects

    # Asking

    def _ask(self) -> None:
        self._req += 1
        first = self.sending.stable + 1
        self.context.cast(StartSubmit(self.me, self._req, self.since, first))
        config = self.config
        wait_s = config.sync_wait_s if isinstance(self.state, Asking) else config.force_wait_s
        self._patience.at(self.context.now + wait_s)

    def _answered(self, epoch: Epoch) -> None:
        self._heard_at = self.context.now
        match self.state:
            case Asking():
                self._become(Submitting(epoch))
                self.context.tell(Ready(()))
                self.sending.open()
            case Submitting(before) | Closing(before) if epoch != before:
                self.context.note("submits again", f"{self.me} from {self.sending.stable + 1}")
                is_open = isinstance(self.state, Submitting)
                self._become(Submitting(epoch) if is_open else Closing(epoch))
                self.sending.resend()

    # Handing over

    def _hear(self, message: AnyDataMessage) -> None:
        match message:
            case Heartbeat(pulses):
                for pulse in pulses:
                    if pulse.stream == self.me:
                        self._heard_at = self.context.now
                        self._acknowledged(pulse.stable)
            case Nak(stream) if stream == self.me:
                self._heard_at = self.context.now
                self.sending.asked(message)
            case SubmitReply(origin, req, epoch) if origin == self.me:
                if req == self._req:
                    self._answered(epoch)
                else:
                    self.context.ignore("SubmitReply", "not asked for")

    def _acknowledged(self, stable: int) -> None:
        """Every receiver has everything up to here (Submit_Ack)."""
        if self.sending.hear_stable(stable):
            self.context.tell(Sent(self.sending.stable))
        if isinstance(self.state, Closing) and self.sending.settled:
            self._end()

    # The end

    def _close(self) -> None:
        match self.state:
            case Asking():
                self._end()  # nothing was sent
            case Submitting(epoch):
                self._become(Closing(epoch))
                self.sending.close()
                self.context.set_timer(self.config.farewell_s, "farewell")
                if self.sending.settled:
                    self._end()

    def _end(self) -> None:
        self.context.cancel_timer("farewell")
        self._patience.off()
        unconfirmed = self.sending.last_seq - self.sending.stable
        self._become(Over())
        self.context.tell(Parted(unconfirmed, self.sending.queued))

    # Timers

    def _timer_fired(self, what: str) -> None:
        match self.state, what:
            case Over(), _:
                self.context.ignore("TimerFired", "no longer submits")
            case _, "heartbeat":
                self.sending.pulse()
            case _, "patience":
                self._patience.fired()
                self._look_for_delegate()
            case Closing(), "farewell":
                self._end()
            case _:
                self.context.ignore("TimerFired", "no longer waited for")

    def _look_for_delegate(self) -> None:
        """No acknowledgement came: is there a delegate?"""
        due = self._heard_at + self.config.force_wait_s
        if isinstance(self.state, Asking):
            self._ask()
        elif not self.sending.settled:
            if self.context.now < due - 1e-9:
                self._patience.at(due)
            else:
                self._ask()

    def _become(self, state: State) -> None:
        if type(state) is not type(self.state):
            self.context.note("submitter is", type(state).__name__)
        self.state = state
