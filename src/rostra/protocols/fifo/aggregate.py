"""Sending for programs that submit without joining: the delegate's part of aggregation (X-054, X-055, TX-24).

    submitter ann ── Data 1 2 3 ──▶ ┐                   ┌ a member of the group, `<lan>.-delegate/aggregate`
    submitter bob ── Data 1 2 ────▶ ┴─ round robin ───▶ │ Envelope(ann 1-3)  Envelope(bob 1-2) ...
                                                        └──▶ LAN, tree, every receiver
    submitters ◀── Heartbeat(stable) ── acknowledged ◀── Sent ── stable in that stream

The aggregate is an ordinary member that only sends (`member.py`), on the virtual host of its delegate, and
this machine is its program. So starts, pins, repair, flow control and the end of its stream are those of any
other, and views show one member per LAN however many programs submit there. A submitter is called
an **origin** here.

**When is a message acknowledged?** When it is stable in the aggregate's stream: every receiver has it
(X-088). Here we differ from the specification, for which a backup that has it is enough (X-055): our backups
hold no messages (`mirror.py`), and what is stable is known here anyway. It also keeps order simple. A new
delegate is a new stream (TX-24) that begins, for each origin, after its last acknowledgement, which is below
the first number that any receiver lacks (decision 0020).

**The first message.** The aggregate often joins the group together with its delegate, since no other member
of its LAN may be in it. It sends when every delegate that was in the group has asked for our numbers: from
then on every member is guaranteed its first message. And a server that has just started waits for
`semi_wait_s`: it does not know the members yet, and without known receivers a message would count as
delivered.

Bounds: a window per origin; `queue_bytes` for all of them. What does not fit is dropped, and requested when
there is room.
"""

from collections import deque
from collections.abc import Callable, Iterable

from rostra.core.effects import Effect, Event, Instant, TimerFired, ignored
from rostra.groups.attributes import Role
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.fifo.events import (
    Deliver,
    Heard,
    JoinAsked,
    LeaveAsked,
    Noticed,
    Parted,
    Sent,
    Submitted,
    Tuned,
)
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import Envelope, encode
from rostra.protocols.fifo.reception import Active
from rostra.protocols.fifo.senders import ENTRIES_MAX
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import NO_PARTS, Parts, questions
from rostra.protocols.flow.messages import (
    RANGES_MAX,
    AnyDataMessage,
    Data,
    Heartbeat,
    Nak,
    Pulse,
    Run,
    StartSubmit,
    Stream,
    SubmitReply,
)
from rostra.protocols.flow.runs import block_of, cut, take
from rostra.protocols.flow.streams import Inbound

ENVELOPE_BYTES = 256
"""The most that an envelope adds to its block."""


class SubmittingOrigin:
    """One submitter of our LAN, whose messages are carried by our stream."""

    __slots__ = ("acknowledged", "endpoint", "heard_at", "inbound", "since")

    def __init__(self, endpoint: Endpoint, since: int, first: int, now: Instant) -> None:
        self.endpoint = endpoint
        self.since = since
        self.inbound = Inbound(first)  # `told`: what was emitted
        self.acknowledged = first - 1
        self.heard_at = now

    @property
    def due(self) -> bool:
        return self.inbound.told < self.inbound.next


class Aggregate:
    """All submitters of a LAN to one group. `wait` returns the seconds until a message reaches all members,
    if that is known; `next_seq` goes on from an earlier membership of the same endpoint."""

    def __init__(
        self,
        group: Group,
        me: Endpoint,
        config: FifoConfig,
        *,
        epoch: int,
        luck: int,
        next_seq: int,
        wait: Callable[[Instant], float | None],
        parts: Parts = NO_PARTS,
    ) -> None:
        self.group, self.me, self.config = group, me, config
        self.epoch = epoch
        self.next_seq = next_seq
        self.context = StepContext(group, me, config, luck, parts)
        self.lan: Domain = self.context.lan
        self.member: MemberCore | None = None
        self.origins: dict[Endpoint, SubmittingOrigin] = {}
        self._wait = wait
        self._luck = luck
        self._due: dict[Endpoint, SubmittingOrigin] = {}  # with something to emit, round robin
        self._emitted: deque[tuple[int, SubmittingOrigin, int]] = (
            deque()
        )  # our number, whose, and up to which of its
        self._bytes = 0  # that wait to be emitted
        self._spoke_at: Instant = 0.0
        self._holes = Alarm(self.context, "submitted holes")
        self._idle = Alarm(self.context, "submitted idle")
        self._voice_given = Alarm(self.context, "submitted context")

    @property
    def over(self) -> bool:
        """No program submits, and none did for long."""
        return self.member is None and not self.origins

    @property
    def waits(self) -> bool:
        return bool(self._due)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self.context.now = now
        effects = self.context.effects = []
        match event:
            case Heard(_, source, messages):
                self._heard(source, messages)
            case TimerFired(timer) if timer[4] == "submitted holes":
                self._holes.fired()
                self._ask()
            case TimerFired(timer) if timer[4] == "submitted idle":
                self._idle.fired()
                self._tidy()
            case TimerFired(timer) if timer[4] == "submitted context":
                self._voice_given.fired()  # and feed
            case TimerFired() | Noticed():
                self._drive(event)
            case _:
                effects.append(ignored(event, "not an event of an aggregate"))
        self._feed()
        return effects

    def feed(self, now: Instant) -> list[Effect]:
        """Our delegate was stepped: we may be allowed to send now."""
        self.context.now = now
        effects = self.context.effects = []
        self._feed()
        return effects

    # From submitters

    def concerns(self, message: AnyDataMessage) -> bool:
        """Is this a message of a submitter?"""
        match message:
            case StartSubmit():
                return True
            case Data(stream):
                return stream in self.origins
            case Heartbeat(pulses):
                return any(pulse.stream in self.origins for pulse in pulses)
        return False

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes to keep for parts of this message; 0 if we do not wait for it."""
        origin = self.origins.get(stream)
        waits = origin is not None and origin.inbound.waits_for(number, self.config.held_messages)
        return self.config.parts_bytes if waits else 0

    def _heard(self, source: Domain, messages: Iterable[AnyDataMessage]) -> None:
        for message in messages:
            match message:
                case Data(stream, run, high) if stream in self.origins and host_of(stream) == source:
                    origin = self.origins[stream]
                    origin.heard_at = self.context.now
                    self._take(origin, run)
                    origin.inbound.hear_high(high)
                    self._look_for_holes(origin)
                case Heartbeat(pulses) if source != self.lan:
                    for pulse in pulses:
                        if pulse.stream in self.origins and host_of(pulse.stream) == source:
                            self._pulse(self.origins[pulse.stream], pulse)
                case StartSubmit(who) if host_of(who) == source:
                    self._start(message)
                case Heartbeat() | Nak():
                    self._drive(Heard(self.group, source, (message,)))  # from our delegate, about our stream
                case _:
                    self.context.ignore(type(message).__name__, "not for an aggregate")

    def _start(self, message: StartSubmit) -> None:
        """A program of our LAN has messages for the group."""
        now, who = self.context.now, message.origin
        origin = self.origins.get(who)
        if origin is None or origin.since != message.since:
            if origin is not None:
                self._drop(origin)  # an earlier submission of the same endpoint, which has ended
            origin = self.origins[who] = SubmittingOrigin(who, message.since, message.first, now)
            self.context.note("origin begins", f"{who} at {message.first}")
        origin.heard_at = now
        self.context.transmit(host_of(who), SubmitReply(who, message.req, self.epoch))
        self._join()
        self._idle.at(now + self.config.delegate_linger_s)

    def _take(self, origin: SubmittingOrigin, run: Run) -> None:
        inbound = origin.inbound
        if self._bytes + len(run.block) > self.config.queue_bytes and origin.due:
            self.context.ignore("Data", "no room for what is submitted")
            inbound.hear_high(run.end - 1)
            return
        before = inbound.store.bytes
        if not inbound.take(run, self.config.held_messages):
            self.context.ignore("Data", "duplicate")
        self._bytes += inbound.store.bytes - before
        if origin.due:
            self._due.setdefault(origin.endpoint, origin)

    def _pulse(self, origin: SubmittingOrigin, pulse: Pulse) -> None:
        """A submitter's heartbeat: it has sent everything, and asks for an acknowledgement."""
        origin.heard_at = self.context.now
        origin.inbound.hear_high(pulse.high)
        self._look_for_holes(origin)
        self._acknowledge([origin])

    def _look_for_holes(self, origin: SubmittingOrigin) -> None:
        origin.inbound.look_for_holes(self.config.held_messages, self.context.now)
        self._holes.at(origin.inbound.holes.next_due)

    def _ask(self) -> None:
        """Request what is missing: at once, then with back-off."""
        now, config = self.context.now, self.config
        for who in sorted(self.origins):
            origin = self.origins[who]
            parts, settle_s = self.context.parts, config.nak_wait_max_s
            due = parts.not_coming(now, who, origin.inbound.holes.due(now, RANGES_MAX), settle_s)
            if due:
                attempt = max(hole.asked for hole in due) + 1
                for nak in questions(who, due, self.lan, attempt, parts):
                    self.context.transmit(host_of(who), nak)
                for hole in due:
                    hole.asked, hole.asked_at = attempt, now
                    hole.due = now + config.nak_wait_max_s * min(2**attempt, config.backoff_max)
            self._holes.at(origin.inbound.holes.next_due)

    # To the group

    def _join(self) -> None:
        if self.member is None:
            self._luck += 1
            self.member = MemberCore(
                self.group, self.me, self.config, luck=self._luck, role=Role.SEND, next_seq=self.next_seq
            )
            self._spoke_at = self.context.now
            self._drive(JoinAsked(self.me, 0, self.group, self._luck, Role.SEND))

    def _feed(self) -> None:
        """Emit one envelope of each origin in turn, as the window allows."""
        if self._due:
            self._join()
        while (
            self._due
            and self.member is not None
            and isinstance(self.member.state, Active)
            and not self.member.sending.queued
        ):
            wait_s = self._wait(self.context.now)
            if wait_s is None or wait_s > 0:
                self._voice_given.at(None if wait_s is None else self.context.now + wait_s)
                break
            who = next(iter(self._due))
            origin = self._due.pop(who)
            run = self._next(origin)
            if origin.due:
                self._due[who] = origin
            number = self.member.sending.next_seq
            envelope = Envelope(who, origin.since, run.first, run.count, run.block, run.at)
            self._emitted.append((number, origin, run.end - 1))
            self._spoke_at = self.context.now
            self._drive(Submitted(self.me, self.group, 1, block_of([encode(envelope)]), run.at))

    def _next(self, origin: SubmittingOrigin) -> Run:
        """The next messages that fit a datagram, or one message that does not."""
        inbound = origin.inbound
        whole = inbound.store.runs[0]
        run = cut(whole, inbound.told, min(whole.end, inbound.next))
        room = max(1, self.config.datagram_bytes - ENVELOPE_BYTES)
        run = cut(run, run.first, run.first + take(run, room))
        inbound.told = run.end
        before = inbound.store.bytes
        inbound.store.forget(run.end - 1)
        self._bytes -= before - inbound.store.bytes
        return run

    def _drive(self, event: Event) -> None:
        """Step our member. We are its program, and take what it delivers."""
        member = self.member
        if member is None:
            self.context.ignore(type(event).__name__, "not in the group")
            return
        for effect in member.step(self.context.now, event):
            match effect:
                case Deliver(_, _, Sent(stable)):
                    self._held_by_the_group(stable)
                case Deliver(_, _, Parted()):
                    self._parted(member)
                case Deliver() | Tuned():
                    pass
                case _:
                    self.context.effects.append(effect)

    def _held_by_the_group(self, stable: int) -> None:
        """Every receiver has our messages up to this one: acknowledge them to their submitters (X-055)."""
        news: dict[Endpoint, SubmittingOrigin] = {}
        while self._emitted and self._emitted[0][0] <= stable:
            _, origin, last = self._emitted.popleft()
            origin.acknowledged = last
            news[origin.endpoint] = origin
        self._acknowledge([news[who] for who in sorted(news)])

    def _acknowledge(self, origins: list[SubmittingOrigin]) -> None:
        by_host: dict[Domain, list[Pulse]] = {}
        for origin in origins:
            pulse = Pulse(origin.endpoint, origin.inbound.next - 1, origin.acknowledged)
            by_host.setdefault(host_of(origin.endpoint), []).append(pulse)
        for host in sorted(by_host):
            pulses = by_host[host]
            for begin in range(0, len(pulses), ENTRIES_MAX):
                self.context.transmit(host, Heartbeat(tuple(pulses[begin : begin + ENTRIES_MAX])))

    def _parted(self, member: MemberCore) -> None:
        """We have left the group, mostly after a silence. Numbers go on if we come back (TX-11).
        Unacknowledged messages are still with their submitters, and are requested again as if we had just
        begun."""
        self.next_seq = member.sending.next_seq
        self.member = None
        for _, origin, _ in self._emitted:
            if self.origins.get(origin.endpoint) is origin:
                self._drop(origin)
        self._emitted.clear()

    def _drop(self, origin: SubmittingOrigin) -> None:
        del self.origins[origin.endpoint]
        self._due.pop(origin.endpoint, None)
        self._bytes -= origin.inbound.store.bytes
        self.context.note("origin ends", origin.endpoint)

    def _tidy(self) -> None:
        now, config = self.context.now, self.config
        for origin in [each for each in self.origins.values() if self._is_old(each)]:
            self._drop(origin)
        silent = now - self._spoke_at >= config.delegate_linger_s - 1e-9
        if silent and not self._due and self.member is not None and self.member.sending.settled:
            self._drive(LeaveAsked(self.me, 0, self.group))
        if not self.over:
            self._idle.at(now + config.delegate_linger_s)

    def _is_old(self, origin: SubmittingOrigin) -> bool:
        quiet_s = self.context.now - origin.heard_at
        return quiet_s >= self.config.remember_s and origin.acknowledged >= origin.inbound.next - 1
