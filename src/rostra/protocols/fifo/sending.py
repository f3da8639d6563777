"""A member's own stream: number, emit, keep until every receiver has it, repeat the last number when silent.

    program ── Submitted ──▶ queue ── open, room in the window ──▶ numbered, cast, kept ── stable ──▶ gone

    QUEUEING ── open ──▶ OPEN ── close ──▶ CLOSING

The send side opens as soon as the joiner is known to its delegate (X-001, TX-14): nothing is waited for that
is farther away. A full queue stops the program, and nothing is dropped (X-013). A full window stops the queue
until the slowest receiver has caught up (X-090).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from rostra.core.effects import Instant
from rostra.names import host_of
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.fifo.events import Credit
from rostra.protocols.flow.fragments import held, places, places_of
from rostra.protocols.flow.messages import Data, Heartbeat, Nak, Pulse, Range, Run
from rostra.protocols.flow.recovery import PlannedRepairs
from rostra.protocols.flow.runs import cut
from rostra.protocols.flow.streams import Store

SETTLED_PULSES = 3
"""Heartbeats that say that every receiver has everything, before the sender falls silent."""


class SendState(Enum):
    QUEUEING = "queueing"  # no delegate knows us yet: nothing is emitted
    OPEN = "open"
    CLOSING = "closing"  # nothing will be submitted after what is queued


# On the path of every message: to look an Enum's member up costs several times as much as a global.
_QUEUEING: Final = SendState.QUEUEING
_CLOSING: Final = SendState.CLOSING


class Outbound:
    def __init__(self, context: StepContext, next_seq: int) -> None:
        self._context = context
        self._config = context.config
        self.next_seq = next_seq
        self.stable = next_seq - 1
        self.store = Store()
        self.state = SendState.QUEUEING
        self.view = 0  # of an agreed group: what is emitted now is sent in this one
        self.is_held = False  # of an agreed group: it has no living view, and nothing is emitted
        self._queue: deque[Run] = deque()  # not numbered yet: `first` means nothing
        self.queued = 0
        self._queued_bytes = 0
        self._submitted = 0
        self._credit = 0
        self._bytes_since_credit = 0  # emitted
        self._repairs = PlannedRepairs()
        self._last_emit: Instant = 0.0
        self._pulse_wait_s = context.config.heartbeat_s
        self._settled_pulses = 0
        self._heartbeat = Alarm(context, "heartbeat")
        self._repair = Alarm(context, "repair")

    @property
    def last_seq(self) -> int:
        return self.next_seq - 1

    @property
    def is_open(self) -> bool:
        return self.state is not _QUEUEING

    @property
    def blocked(self) -> bool:
        """Does something wait for room in the window?"""
        return self.is_open and bool(self._queue)

    @property
    def settled(self) -> bool:
        """Every receiver has everything."""
        return self.stable >= self.last_seq and not self._queue

    def inherit(self, before: "Outbound") -> None:
        """Go on with the stream of an earlier membership, whose last messages are still being repaired."""
        self.next_seq = before.next_seq
        self.stable, self.store = before.stable, before.store

    def submit(self, count: int, block: bytes, at: float) -> bool:
        """False if there was no credit for all of this: then nothing is taken."""
        if (
            self.state is _CLOSING
            or self._submitted + count > self._credit
            or self._queued_bytes + len(block) > self._config.queue_bytes
        ):
            return False
        was_blocked = bool(self._queue)
        self._queued_bytes += len(block)
        self._submitted += count
        self._queue.append(Run(0, count, block, at))
        self.queued += count
        self._emit(was_blocked)
        return True

    def give_credit(self) -> None:
        """Let the program fill the room in the queue."""
        upto = self._submitted - self.queued + self._config.queue_messages
        # Not for every message: a credit wakes the program up, so it should be a fair part of the queue.
        if (
            upto - self._credit >= self._config.queue_messages // 4
            or (self._bytes_since_credit >= self._config.queue_bytes // 64 and upto > self._credit)
            or (self._credit == 0 and upto)
        ):
            self._credit = upto
            self._bytes_since_credit = 0
            self._context.tell(Credit(upto))

    def open(self) -> None:
        """Our delegate knows us: emit what waits for that."""
        assert self.state is _QUEUEING
        self.state = SendState.OPEN
        self._emit(was_blocked=False)

    def hold(self) -> None:
        """In an agreed group: emit nothing until `send_in`."""
        self.is_held = True

    def send_in(self, view: int) -> None:
        """In an agreed group: from now on messages are sent in this view, queued ones first."""
        self.view, self.is_held = view, False
        self._emit(was_blocked=False)

    def _emit(self, was_blocked: bool) -> None:
        """Everything that the window allows. It was blocked if it was open with something in its queue."""
        if self.state is _QUEUEING or self.is_held:
            return
        context, config, store = self._context, self._config, self.store
        emitted = False
        while self._queue:
            waiting, first = self._queue[0], self.next_seq
            room = self.stable + config.window_messages + 1 - first
            bytes_left = config.window_bytes - store.bytes
            if room <= 0 or (bytes_left < len(waiting.block) and store.runs):
                if not was_blocked:
                    context.note("blocked", context.me)
                break
            if waiting.count <= room:
                self._queue.popleft()
                now_due = waiting
            else:
                now_due = cut(waiting, 0, room)
                self._queue[0] = Run(0, waiting.count - room, waiting.block[len(now_due.block) :], waiting.at)
            run = Run(first, now_due.count, now_due.block, now_due.at, self.view)
            self.next_seq = end = first + run.count
            self.queued -= run.count
            self._queued_bytes -= len(run.block)
            self._bytes_since_credit += len(run.block)
            store.append(run)
            context.cast(Data(context.me, run, end - 1, self.stable))
            emitted = True
        if emitted:
            self._last_emit = context.now
            self._pulse_wait_s = config.heartbeat_s
            self._settled_pulses = 0
            self._heartbeat.at(context.now + config.heartbeat_s)
            self.give_credit()
        if was_blocked and not self._queue:
            context.note("unblocked", context.me)

    def hear_stable(self, stable: int) -> bool:
        """Every receiver has everything up to here, says the home delegate (X-087)."""
        stable = min(stable, self.last_seq)
        if stable <= self.stable:
            return False
        self.stable = stable
        self.store.forget(stable)
        self._emit(was_blocked=bool(self._queue))
        return True

    def pulse(self) -> None:
        """After silence: send our last number (X-080), repeatedly, with back-off."""
        self._heartbeat.fired()
        context, config = self._context, self._config
        due = self._last_emit + config.heartbeat_s
        if context.now < due - 1e-9:
            self._heartbeat.at(due)
            return
        if self.stable >= self.last_seq:
            self._settled_pulses += 1
        if self._settled_pulses <= SETTLED_PULSES:
            is_final = self.state is _CLOSING
            context.cast(Heartbeat((Pulse(context.me, self.last_seq, self.stable, is_final),)))
            self._heartbeat.at(context.now + self._pulse_wait_s)
            self._pulse_wait_s = min(2 * self._pulse_wait_s, config.heartbeat_max_s)

    def close(self) -> None:
        """No message will be submitted after those in the queue."""
        assert self.is_open
        self.state = SendState.CLOSING
        self._settled_pulses = 0
        self._pulse_wait_s = self._config.heartbeat_s
        self._last_emit = self._context.now - self._config.heartbeat_s
        self._heartbeat.at(self._context.now)

    def resend(self) -> None:
        """To a new delegate: everything that is not stable, again (X-101)."""
        for run in self.store.runs:
            self._context.cast(self._again(run))

    def asked(self, nak: Nak) -> None:
        """Repair at once for our own delegate; for a host of our LAN after a random wait, unless another host
        was faster (X-081, X-083)."""
        context, config = self._context, self._config
        if nak.asker != host_of(context.me) and nak.asker == context.lan:
            for again in self._held(places(nak)):
                context.transmit(nak.asker, again)
            return
        for first, last in places(nak):
            wait = context.luck.between(config.repair_wait_min_s, config.repair_wait_max_s)
            self._repairs.plan(first, last, context.now + wait)
        self._repair.at(self._repairs.next_due)

    def heard_repair(self, data: Data) -> None:
        self._repairs.heard(*places_of(data))

    def repair(self) -> None:
        self._repair.fired()
        for planned in self._repairs.due(self._context.now):
            for again in self._held([(planned.first, planned.last)]):
                self._context.cast(again)
        self._repair.at(self._repairs.next_due)

    def _held(self, asked: Iterable[Range]) -> Iterator[Data]:
        config = self._config
        for run, offset, size in held(self.store, asked, config.datagram_bytes, config.repair_bytes):
            yield self._again(run, offset, size)

    def _again(self, run: Run, offset: int = 0, size: int = 0) -> Data:
        return Data(self._context.me, run, self.last_seq, self.stable, True, 0, offset, size)
