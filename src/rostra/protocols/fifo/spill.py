"""The backlog of a slow receiver, on the disk of its delegate: the policy `spill` (X-091).

    a stream      ├──── on disk ────┤── in memory, as for other receivers ┤
    numbers  ─────┬─────────────────┬─────────────────────────────────────┬──────▶
                  │ need            │ kept: here it is pinned             │ next

When a receiver is half a window behind, what it lacks is written to disk. Once it is written it counts as
acknowledged by the receiver, and the senders go on. The receiver's first `Nak` starts reading it back, part
by part, as the receiver acknowledges them. A later `Nak` is answered only if newer data has reached the
receiver: otherwise the data is still in flight. Once the receiver has everything that is on disk, it is one
like any other.

When the disk is full or fails, the receiver is expelled. What is only on disk is lost with the delegate: its
successor answers `Below`, and the receiver gets `Excluded`, or a `Gap` if it was cut off meanwhile
(TX-13, X-064). The disk belongs to the driver, which answers every `Spill` and `ReadSpilled` once, in order.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from rostra.core.effects import Instant
from rostra.names import Endpoint, host_of
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.fifo.events import ForgetSpilled, ReadSpilled, Spill, Spilled, SpilledRead
from rostra.protocols.fifo.slow import is_behind, is_worth
from rostra.protocols.flow.fragments import NUMBER, held, place, places
from rostra.protocols.flow.messages import Data, Nak, Range, Run, Stream
from rostra.protocols.flow.recovery import Recent
from rostra.protocols.flow.streams import Store

if TYPE_CHECKING:
    from rostra.protocols.fifo.relay import Relay

PARTS: Final = 8
"""A window is written and read in so many parts. Raising it: more and smaller writes, less in flight."""

PATIENCE: Final = 4
"""After so many times `status_s` the last data that was read back must have arrived, however busy the
receiver is. Raising it: fewer duplicates on a busy machine, a longer wait if that is lost."""


class Backlog(Struct):
    number: int  # names it to the disk
    receiver: Endpoint
    stream: Stream
    need: int  # the receiver has taken everything below this number
    kept: int  # and the disk has everything from there up to this one
    handed: int  # up to here it was handed to the disk, which has not said yet that it has it
    sent: int = 0  # up to here it was read back and sent; 0: it has not asked
    sent_at: Instant = 0.0
    high: int = 0  # the last number emitted, as far as was known
    flying: list[tuple[int, int]] = []  # what was sent and not taken: up to which number, how many bytes
    reading: bool = False
    again: bool = False  # and what is being read was sent before
    wanted: list[Range] = []  # what was lost of that, from place to place (`fragments.py`)
    recent: Recent = field(default_factory=Recent)
    until: Instant | None = None  # its receiver was lost from sight, and may come back until then


class Spills:
    """The backlogs of one group at the delegate of one LAN."""

    def __init__(
        self, context: StepContext, running: Mapping[Stream, "Relay"], settle: Callable[["Relay"], None]
    ) -> None:
        self._context, self._config = context, context.config
        self._running, self._settle = running, settle
        self.willing: set[Endpoint] = set()  # receivers that chose this
        self.backlogs: dict[tuple[Endpoint, Stream], Backlog] = {}
        self._alarm = Alarm(context, "spill")

    # To disk

    def tend(self, relay: "Relay") -> None:
        """New data came: write it for receivers that do not keep up."""
        for receiver in sorted(self.willing):
            pin = relay.pins.local.get(receiver)
            if pin is None:
                continue
            backlog = self.backlogs.get((receiver, relay.stream))
            if backlog is None:
                if is_behind(relay, pin, self._config):
                    self._begin(relay, receiver, pin)
            elif backlog.handed == backlog.kept and relay.inbound.next > backlog.handed:
                if is_worth(relay, backlog.handed, self._config, PARTS):
                    self._write(relay, backlog)
                else:
                    self._alarm.at(self._context.now + self._config.status_s)

    def tend_all(self) -> None:
        """Time has passed: write small amounts too, for a sender may wait until they are stable."""
        self._alarm.fired()
        for backlog in list(self._sorted()):
            relay = self._running.get(backlog.stream)
            if backlog.until is not None:
                if backlog.until <= self._context.now:
                    self._end(backlog)
                else:
                    self._alarm.at(backlog.until)
            elif relay is not None and backlog.handed == backlog.kept:
                self._write(relay, backlog)

    def _begin(self, relay: "Relay", receiver: Endpoint, pin: int) -> None:
        number = int(self._context.luck.between(0, 1 << 53))
        backlog = Backlog(number, receiver, relay.stream, pin, pin, pin)
        self.backlogs[receiver, relay.stream] = backlog
        self._context.note("backlog begins", f"{receiver} {relay.stream} at {pin}")
        self._write(relay, backlog)

    def _write(self, relay: "Relay", backlog: Backlog) -> None:
        inbound = relay.inbound
        backlog.high = inbound.high
        if relay.pins.local.get(backlog.receiver) != backlog.kept or inbound.next <= backlog.handed:
            return  # it was given other numbers meanwhile, or there is nothing new
        runs = inbound.store.get(backlog.handed, inbound.next - 1)
        backlog.handed = inbound.next
        self._context.effects.append(Spill(self._context.group, backlog.number, tuple(runs)))

    def spilled(self, event: Spilled) -> tuple[Endpoint, str] | None:
        """The disk has it, so it counts as acknowledged. Or it has no room: whom to expel, and why."""
        backlog = self._named(event.backlog)
        if backlog is None:
            return None
        if event.why:
            return backlog.receiver, event.why
        backlog.kept = backlog.handed
        relay = self._running.get(backlog.stream)
        if relay is not None and relay.pins.acknowledge(backlog.receiver, backlog.kept):
            self._settle(relay)
        if not self._end_if_taken(backlog) and relay is not None:
            self.tend(relay)
        return None

    # And back

    def acknowledged(self, receiver: Endpoint, stream: Stream, next: int) -> bool:
        """Acknowledged up to here. True if the rest is on disk."""
        backlog = self.backlogs.get((receiver, stream))
        if backlog is None:
            return False
        if next > backlog.need:
            backlog.need = next
            backlog.flying = [each for each in backlog.flying if each[0] > next]
            self._context.effects.append(ForgetSpilled(self._context.group, backlog.number, next))
        if self._end_if_taken(backlog):
            return False
        if backlog.sent:
            self._read(backlog)
        return True

    def asked(self, nak: Nak) -> bool:
        """A host requests data. True if it is on disk for one of its receivers; of several, the one that has
        acknowledged most below it counts as the asker."""
        first = nak.ranges[0][0]
        backlog = max(
            [
                each
                for each in self._sorted()
                if each.stream == nak.stream
                and host_of(each.receiver) == nak.asker
                and each.need <= first < each.kept
            ],
            key=lambda each: each.need,
            default=None,
        )
        if backlog is None:
            return False
        is_late = self._context.now >= backlog.sent_at + PATIENCE * self._config.status_s
        if not backlog.sent:
            backlog.sent = first
        elif first >= backlog.sent and is_late:
            backlog.flying = []  # it came, and is not taken yet
        elif not backlog.wanted:
            # Of what was sent last nothing later has come: it is on its way.
            last = place(backlog.sent) - 1
            lost = [(low, min(high, last)) for low, high in places(nak) if low <= last]
            if not is_late:
                lost = [each for each in lost if each[1] < last]
            backlog.wanted = backlog.recent.fresh(self._context.now, lost, self._config.status_s)
        self._read(backlog)
        return True

    def _read(self, backlog: Backlog) -> None:
        """Read what was lost, or the next part, if the receiver has room for it."""
        if backlog.reading:
            return
        config, need = self._config, place(backlog.need)
        backlog.wanted = [(max(low, need), high) for low, high in backlog.wanted if high >= need]
        backlog.sent = max(backlog.sent, backlog.need)
        backlog.again = bool(backlog.wanted)
        if backlog.again:
            first, end = backlog.wanted[0][0] >> NUMBER, (backlog.wanted[-1][1] >> NUMBER) + 1
        else:
            first, end = backlog.sent, min(backlog.kept, backlog.need + config.window_messages)
            if sum([size for _, size in backlog.flying]) >= config.window_bytes // 2:
                return
        if first < end:
            backlog.reading = True
            end, part = min(end, first + config.status_messages), config.window_bytes // PARTS
            self._context.effects.append(ReadSpilled(self._context.group, backlog.number, first, end, part))

    def read(self, event: SpilledRead) -> tuple[Endpoint, str] | None:
        """Send what the disk had. Or it does not have it any more: whom to expel, and why."""
        backlog = self._named(event.backlog)
        if backlog is None:
            return None
        backlog.reading = False
        if not event.runs:
            return backlog.receiver, event.why or "its backlog is gone"
        context, relay = self._context, self._running.get(backlog.stream)
        high, stable = backlog.high, backlog.kept - 1
        if relay is not None:
            high, stable = relay.inbound.high, relay.pins.stable
        for run, offset, size in self._asked_for(backlog, event.runs):
            data = Data(backlog.stream, run, high, stable, backlog.again, 0, offset, size)
            context.transmit(host_of(backlog.receiver), data)
        if not backlog.again:
            backlog.flying += [(run.end, len(run.block)) for run in event.runs]
            backlog.sent = event.runs[-1].end
        backlog.sent_at = context.now
        self._read(backlog)
        return None

    def _asked_for(self, backlog: Backlog, runs: tuple[Run, ...]) -> list[tuple[Run, int, int]]:
        """All of it, or what was lost; parts of messages with their offset and size."""
        if not backlog.again:
            return [(run, 0, 0) for run in runs]
        store, config, upto = Store(), self._config, place(runs[-1].end)
        for run in runs:
            store.append(run)
        found = list(held(store, backlog.wanted, config.datagram_bytes, config.repair_bytes))
        backlog.wanted = [(max(low, upto), high) for low, high in backlog.wanted if high >= upto]
        return found

    # Coming and going

    def resumes(self, relay: "Relay", receiver: Endpoint, needs: int | None) -> int | None:
        """A receiver is given its starts again. If what it needs is on disk, and goes on in memory: the
        number where memory begins."""
        backlog = self.backlogs.get((receiver, relay.stream))
        if backlog is None:
            return None
        if needs is not None and backlog.need <= needs <= backlog.kept and relay.lowest <= backlog.kept:
            backlog.until, backlog.sent, backlog.flying, backlog.wanted = None, 0, [], []
            return backlog.kept
        self._end(backlog)
        return None

    def part(self, receiver: Endpoint, until: Instant | None) -> None:
        """A receiver is gone; if its host was only lost, it may come back until then."""
        self.willing.discard(receiver)
        for backlog in [each for each in self._sorted() if each.receiver == receiver]:
            if until is None:
                self._end(backlog)
            else:
                backlog.until = until
                self._alarm.at(until)

    def is_unasked(self, stream: Stream) -> bool:
        """Is there a receiver that may not know what it misses?"""
        return any(each.stream == stream and not each.sent for each in self.backlogs.values())

    def needed(self, receiver: Endpoint, stream: Stream, pinned: int) -> int:
        """The next number that the receiver itself acknowledged, whatever is on disk for it."""
        backlog = self.backlogs.get((receiver, stream))
        return pinned if backlog is None else backlog.need

    def end_all(self) -> None:
        for backlog in list(self._sorted()):
            self._end(backlog)

    def _end_if_taken(self, backlog: Backlog) -> bool:
        if backlog.need < backlog.kept or backlog.handed > backlog.kept:
            return False
        self._end(backlog)
        return True

    def _end(self, backlog: Backlog) -> None:
        del self.backlogs[backlog.receiver, backlog.stream]
        self._context.note("backlog ends", f"{backlog.receiver} {backlog.stream} at {backlog.need}")
        self._context.effects.append(ForgetSpilled(self._context.group, backlog.number))

    def _named(self, number: int) -> Backlog | None:
        return next((each for each in self.backlogs.values() if each.number == number), None)

    def _sorted(self) -> Iterator[Backlog]:
        return iter([self.backlogs[key] for key in sorted(self.backlogs)])
