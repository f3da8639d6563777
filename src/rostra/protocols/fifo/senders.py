"""The streams of all other senders at a receiver: deliver in order, request what is missing, acknowledge.

    Data ──┬── the next of its stream ─────────────────────────▶ delivered
           ├── out of order ──▶ kept ── Nak, repair ───────────▶ delivered
           └── of a sender whose number is not known ──▶ kept early (`early.py`)
    Status ──▶ our delegate: the next number that we need of each stream

A receiver is one member, or all members of a host that share what they receive (`readers.py`).

The states of one sender are in `sender.py`.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import assert_never

from msgspec.structs import replace

from rostra.core.effects import Instant
from rostra.groups.attributes import Role
from rostra.groups.members import Member, Stamp
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo.context import Alarm, lan_of
from rostra.protocols.fifo.events import Delivered, Gap, Joined, Left
from rostra.protocols.fifo.origins import Origins
from rostra.protocols.fifo.readers import HostContext, Reader
from rostra.protocols.fifo.sender import (
    EndedStream,
    Sender,
    SenderActive,
    SenderAwaitingEnd,
    SenderDraining,
    SenderLeft,
    SenderSemi,
    SenderState,
)
from rostra.protocols.flow.early import Early
from rostra.protocols.flow.fragments import NUMBER, held, places, places_of, questions
from rostra.protocols.flow.messages import (
    RANGES_MAX,
    Below,
    Data,
    Have,
    Nak,
    Pulse,
    Range,
    Run,
    Status,
    Stream,
)
from rostra.protocols.flow.recovery import Hole
from rostra.protocols.flow.runs import cut
from rostra.protocols.flow.streams import Inbound

ENTRIES_MAX = 64
"""Streams in one status message."""

BELOWS_MAX = 3
"""Requests that our delegate must have answered with `Below` before we give up what we miss."""

DOUBLINGS_MAX = 16
"""Of a wait. Others may put it off as often as they like."""

CAUGHT_UP = 5
"""Reports in which a receiver whose backlog was on disk repeats that it has all of it. If all are lost, the
disk keeps the rest until there is something new to acknowledge."""


class Senders:
    def __init__(self, context: HostContext, early: Early, *, listens: bool, spilled: bool = False) -> None:
        self._context = context
        self._readers = context.readers
        self._config = context.config
        self._spilled = spilled  # what we do not take in time is on our delegate's disk (`spill.py`)
        self._listens = listens  # a member that only sends is delivered nothing
        self.early = early
        self.announced: set[Stream] = set()  # noticed, and their numbers have been asked for
        self.running: dict[Stream, Sender] = {}
        self.ended: dict[Stream, EndedStream] = {}
        self.origins = Origins(context)
        self._farewells: dict[Stream, tuple[int, Instant]] = {}  # ended, and home may not know we have all
        self._troubled: dict[Stream, Sender] = {}  # with holes, or with planned repairs
        self._recover = Alarm(context, "recover")
        self._status = Alarm(context, "status")
        self._since_status = self._bytes_since_status = 0
        self._status_messages = context.config.status_messages

    # Membership

    def announce(self, endpoint: Endpoint) -> None:
        """Noticed, and its number has to be asked for: what comes meanwhile is kept early."""
        self.announced.add(endpoint)

    def begin(self, member: Member, role: Role, start: int) -> None:
        """Noticed, and its number is known: the stream flows from `start` on."""
        sender = self._start(member.endpoint, member.stamp, role, member.meta, SenderActive(), start)
        self._introduce(sender)
        self._take_early(sender)

    def begin_own(self, member: Member, role: Role, start: int, stable: int) -> None:
        """A second member joined on this host: from now on the stream of the first has a reader here. Its
        home delegate may wait for our acknowledgement of what was sent before."""
        who = member.endpoint
        if not self.follows(who):
            sender = self.running[who] = Sender(who, member.stamp, role, member.meta, SenderActive(), start)
            sender.inbound.stable = stable
            self._status.at(self._context.now + self._config.status_s)

    def end_own(self, endpoint: Endpoint) -> None:
        """Only one member is left on this host: its stream has no reader here any more."""
        if self.follows(endpoint):
            self._context.cancel_timer("drain", endpoint)
            self.forget(endpoint)

    def follows(self, endpoint: Endpoint) -> bool:
        """Is there a machine for this sender?"""
        return endpoint in self.running or endpoint in self.announced

    def begin_unnoticed(self, endpoint: Endpoint, stamp: Stamp, role: Role, start: int) -> None:
        """A sender whose number is known before its join notice came: hold its messages (TX-1)."""
        sender = self._start(endpoint, stamp, role, b"", SenderSemi(), start)
        self._context.set_timer(self._config.semi_wait_s, "semi", endpoint)
        self._take_early(sender)

    def noticed(self, sender: Sender, meta: bytes) -> None:
        """The notice that a semi-active sender waited for: `Joined` first, what was held after it (X-017)."""
        assert isinstance(sender.state, SenderSemi)
        self._context.cancel_timer("semi", sender.endpoint)
        sender.state, sender.meta = SenderActive(), meta
        self._introduce(sender)
        self._deliver(sender)

    def _start(
        self, endpoint: Endpoint, stamp: Stamp, role: Role, meta: bytes, state: SenderState, start: int
    ) -> Sender:
        """An endpoint's numbers go on from one membership to the next. What it sent in this one may have come
        before the notice that it had left the last, and was delivered then."""
        before = self.ended.get(endpoint)
        if before is not None:
            start = max(start, before.last + 1)
        self.announced.discard(endpoint)
        sender = self.running[endpoint] = Sender(endpoint, stamp, role, meta, state, start)
        return sender

    def _introduce(self, sender: Sender) -> None:
        """Tell `Joined`; before it what was missed, if its stream was cut off and has gone on (X-064)."""
        before = self.ended.pop(sender.endpoint, None)
        resumed = False
        if before is not None and before.cut_off and before.stamp == sender.stamp:
            resumed = sender.inbound.start <= before.last + 1
            if not resumed:
                self._context.tell(Gap(sender.endpoint, before.last + 1, sender.inbound.start - 1))
        self._context.tell(Joined(sender.endpoint, sender.role, sender.meta, resumed))

    def _take_early(self, sender: Sender) -> None:
        for run in self.early.take(sender.endpoint):
            sender.inbound.take(run, self._config.held_messages)
            # Nothing more may come for a long time, and home must know that we have this.
            self._status.at(self._context.now + self._config.status_s)
        self._progress(sender)

    def left(self, endpoint: Endpoint, why: str, last_seq: int | None) -> None:
        """A sender is gone: left, failed or disconnected. Everything up to `last_seq` is still owed
        (X-048)."""
        if endpoint in self.announced:
            self.forget(endpoint)
        sender = self.running.get(endpoint)
        if sender is None:
            return
        inbound = sender.inbound
        match sender.state:
            case SenderSemi():
                self.forget(endpoint)  # the program was never told of it (TX-5)
            case SenderAwaitingEnd() | SenderDraining():
                if why == "disconnected":
                    sender.end_at(min(sender.final or inbound.high, inbound.high))
                    self._end_if_drained(sender)
            case SenderActive():
                match why:
                    case "left":
                        final = last_seq if last_seq is not None else inbound.high
                        inbound.hear_high(final)
                        sender.state = SenderDraining(why, final)
                    case "disconnected":
                        # What it goes on saying is not for us any more; it may be if it comes back (TX-21).
                        sender.state = SenderDraining(why, inbound.high)
                    case _:
                        sender.state = SenderAwaitingEnd()
                for_s = self._config.farewell_s if why == "left" else self._config.drain_s
                self._context.set_timer(for_s, "drain", endpoint)
                self._look_for_holes(sender)
                self._end_if_drained(sender)
            case never:
                assert_never(never)

    def home_lost(self, lan: Domain) -> None:
        """A LAN is lost, and with it the holders that could repair the last messages of its senders."""
        for stream, sender in sorted(self.running.items()):
            if sender.lan == lan and sender.has_left:
                self._context.set_timer(self._config.drain_s, "drain", stream)

    def left_unnoticed(self, endpoint: Endpoint, stamp: Stamp) -> None:
        """A sender left whose join notice has not come: forget it (TX-5)."""
        sender = self.running.get(endpoint)
        if sender is not None and isinstance(sender.state, SenderSemi) and sender.stamp < stamp:
            self.forget(endpoint)

    def cut_short(self, endpoint: Endpoint) -> None:
        """A sender is back before its earlier stream ended: end that now, after delivering what is here of
        it."""
        sender = self.running.get(endpoint)
        if sender is not None and isinstance(sender.state, SenderLeft):
            self._hold_back(sender, sender.inbound)
            for run in sender.inbound.hand_on():
                self._hand_on(sender, run)
            self._end(sender, sender.state)

    def forget(self, endpoint: Endpoint) -> None:
        """Drop its state without an item: the program never got its `Joined`."""
        sender = self.running.get(endpoint)
        if sender is not None and isinstance(sender.state, SenderSemi):
            self._context.cancel_timer("semi", endpoint)
        self._drop(endpoint)

    def semi_timed_out(self, endpoint: Endpoint) -> bool:
        """True if its notice has not come: then the list of members decides (X-018)."""
        sender = self.running.get(endpoint)
        if sender is None or not isinstance(sender.state, SenderSemi):
            return False
        sender.state = SenderSemi(overdue=True)
        return True

    def forget_overdue(self) -> None:
        for stream in sorted(self.running):
            if self.running[stream].state == SenderSemi(overdue=True):
                self.forget(stream)

    def drain_timed_out(self, endpoint: Endpoint) -> None:
        sender = self.running.get(endpoint)
        if sender is None or not isinstance(sender.state, SenderLeft):
            return
        inbound = sender.inbound
        progress = self._spilled and inbound.told > sender.state.drained
        if progress or (not self._readers.reading and inbound.told < inbound.next):
            # The time limit is for what is missing. What is here and not read yet is owed for as long as it
            # takes; and so is what is on its way from our delegate's disk.
            sender.state = replace(sender.state, drained=inbound.told)
            self._context.set_timer(self._config.drain_s, "drain", endpoint)
        else:
            sender.end_at(inbound.told - 1)
            self._end_if_drained(sender)

    def _end_if_drained(self, sender: Sender) -> None:
        inbound, state = sender.inbound, sender.state
        if not isinstance(state, SenderDraining) or inbound.told <= state.final:
            return
        if not inbound.lagging:
            self._end(sender, state)
        elif not state.parted:
            # Some readers lag; the others need not wait for them.
            sender.state = replace(state, parted=True)
            self._tell_left(sender, state, map(Endpoint, inbound.lagging))
            for each in self._readers.ready:
                if each.me not in inbound.lagging:
                    sender.begins[each.me] = inf

    def _tell_left(self, sender: Sender, state: SenderLeft, besides: Iterable[Endpoint] = ()) -> None:
        """Deliver `Left` once to each reader, as its last item of this stream."""
        told = {*besides, *[who for who, begins in sender.begins.items() if begins == inf]}
        self._context.tell(Left(sender.endpoint, state.why, sender.inbound.told - 1), told)

    def _tell_one_left(self, sender: Sender, state: SenderLeft, reader: Reader) -> None:
        if sender.begins.get(reader.me, 0) < inf:
            sender.begins[reader.me] = inf
            self._context.tell_one(reader, Left(sender.endpoint, state.why, sender.inbound.told - 1))

    def _end(self, sender: Sender, state: SenderLeft) -> None:
        self._context.cancel_timer("drain", sender.endpoint)
        for reader in self._readers.ready if sender.inbound.lagging else ():
            if reader.me in sender.inbound.lagging:
                self._catch_up(sender, reader)
        self._drop(sender.endpoint)
        last = sender.inbound.told - 1
        if sender.is_aggregate:
            self.origins.ended(sender.endpoint, sender.inbound.stable)
        until = self._context.now + self._config.remember_s
        self.ended.pop(sender.endpoint, None)
        self.ended[sender.endpoint] = EndedStream(sender.stamp, last, state.why == "disconnected", until)
        if state.why != "disconnected" and (last > sender.inbound.stable or sender.behind):
            self._farewells[sender.endpoint] = (last + 1, self._context.now + self._config.linger_s)
            self.say_status()
        self._tell_left(sender, state)

    def _drop(self, endpoint: Endpoint) -> None:
        self.announced.discard(endpoint)
        self.running.pop(endpoint, None)
        self._troubled.pop(endpoint, None)
        self.early.take(endpoint)

    # Data

    def data(self, data: Data) -> None:
        sender = self.running.get(data.stream)
        if sender is None:
            self._keep_early(data)
            return
        inbound, run = sender.inbound, data.run
        if (
            run.first == inbound.next == inbound.told == inbound.high + 1
            and type(sender.state) is SenderActive
            and self._readers.reading
        ):
            # The fast path of the receiving side: the run continues a stream of which nothing is missing. It
            # costs the same whether it holds one message or a thousand.
            if self._readers.holding:
                self._hold_back(sender, inbound)
            inbound.store.append(run)
            inbound.next = inbound.told = end = run.first + run.count
            inbound.high = end - 1
            self._hand_on(sender, run)
            if data.high >= end:
                inbound.high = data.high
                self._look_for_holes(sender)
        else:
            self._take(sender, inbound, data)
        if data.stable > inbound.stable:
            inbound.hear_stable(data.stable)
        self._since_status += run.count
        self._bytes_since_status += len(run.block)
        if (
            self._since_status >= self._status_messages
            or self._bytes_since_status >= self._config.window_bytes // 8
        ):
            self.say_status()
        elif not self._status.is_set:
            self._status.at(self._context.now + self._config.status_s)

    def _take(self, sender: Sender, inbound: Inbound, data: Data) -> None:
        """The general case of `data`."""
        run = data.run
        if self._has_enough(inbound) and (inbound.told < inbound.next or run.first > inbound.next):
            inbound.hear_high(data.high)
            self._context.ignore("Data", "no room for what is on disk")
            return
        if (final := sender.final) is not None and run.end - 1 > final:
            self._keep_early(data)  # of its next membership, or for when it is back
            return
        if data.repair and sender.repairs.repairs:
            sender.repairs.heard(*places_of(data))
        pieces = inbound.take(run, self._config.held_messages)
        if self._is_read_back(inbound):
            inbound.holes.follows(run.end, self._context.now + self._config.nak_wait_max_s)
        if data.repair:
            sender.repaired += sum([piece.count for piece in pieces])
        inbound.hear_high(data.high)
        if not pieces:
            if data.repair:
                inbound.holes.put_off([(run.first, run.end - 1)], self._later)
            elif run.end <= inbound.next:
                self._context.ignore("Data", "duplicate")
        self._progress(sender)

    def pulse(self, pulse: Pulse) -> None:
        sender = self.running.get(pulse.stream)
        if sender is None:
            farewell = self._farewells.get(pulse.stream)
            if farewell is not None and pulse.stable >= farewell[0] - 1:
                del self._farewells[pulse.stream]
            return
        inbound = sender.inbound
        match sender.state:
            case SenderSemi() | SenderActive():
                inbound.hear_high(pulse.high)
            case SenderAwaitingEnd() | SenderDraining(why="left" | "failed") if pulse.final:
                inbound.hear_high(pulse.high)
                sender.end_at(pulse.high)
            case SenderAwaitingEnd():
                inbound.hear_high(pulse.high)
            case SenderDraining():
                pass
            case never:
                assert_never(never)
        if pulse.stable > inbound.stable:
            inbound.hear_stable(pulse.stable)
        self._progress(sender)

    # Readers

    def came(self, reader: Reader) -> None:
        """A new reader: it is owed what is sent from now on, not what is kept here for other readers."""
        if not self._readers.reading:
            for sender in self.running.values():
                if sender.inbound.told < sender.inbound.next:
                    sender.begins[reader.me] = sender.inbound.next
        self._readers.hold(reader)

    def enter(self, readers: Sequence[Reader]) -> None:
        """These readers have their first list. Senders that left before it are not in it, and their streams
        do not wait for these readers."""
        leaving = [each for each in self.running.values() if each.has_left]
        for sender in leaving:
            for reader in readers:
                sender.begins[reader.me] = inf
                sender.inbound.lagging.pop(reader.me, None)
        self._read([each for each in readers if not each.paused])
        for sender in leaving:
            if self.running.get(sender.endpoint) is sender:
                self._end_if_drained(sender)

    def hold(self, reader: Reader) -> None:
        """The program of a reader does not read."""
        self._readers.hold(reader)

    def resume(self, reader: Reader) -> None:
        """The program of a reader reads again."""
        self._read([reader])
        self._status.at(self._context.now)

    def _read(self, readers: Sequence[Reader]) -> None:
        """Deliver what other readers got meanwhile; then, if no reader was reading, what waits for all."""
        nobody_read = not self._readers.reading
        for reader in readers:
            self._readers.read(reader)
            held, reader.held = reader.held, []
            for item in held:
                self._context.tell_one(reader, item)
        for stream in sorted([stream for stream, each in self.running.items() if each.inbound.lagging]):
            sender = self.running[stream]
            for reader in readers:
                if reader.me in sender.inbound.lagging:
                    self._catch_up(sender, reader)
                    match sender.state:
                        case SenderDraining(parted=True) as draining:
                            self._tell_one_left(sender, draining, reader)
            self._end_if_drained(sender)
        if readers and nobody_read:
            self.deliver_all()

    def gone(self, reader: Reader) -> None:
        """A reader left: no stream waits for it any more."""
        self._readers.gone(reader)
        owed = [stream for stream, each in self.running.items() if _waits_for(each, reader.me)]
        for stream in sorted(owed):
            sender = self.running[stream]
            sender.begins.pop(reader.me, None)
            if sender.inbound.lagging.pop(reader.me, None) is not None:
                self._status.at(self._context.now + self._config.status_s)
                self._end_if_drained(sender)

    def _catch_up(self, sender: Sender, reader: Reader) -> None:
        for run in sender.inbound.catch_up(reader.me):
            if not sender.is_aggregate:  # of those it holds the items already
                self._context.tell_one(reader, Delivered(sender.endpoint, run))

    def _hold_back(self, sender: Sender, inbound: Inbound) -> None:
        """Before a delivery: readers that do not read now are owed the stream from here on."""
        for me in self._readers.holding:
            if me != sender.endpoint and me not in inbound.lagging:
                begins = sender.begins.get(me, 0)
                if begins < inf:
                    inbound.lagging[me] = max(inbound.told, int(begins))

    def deliver_all(self) -> None:
        for stream in sorted(self.running):
            sender = self.running.get(stream)
            if sender is not None:
                self._progress(sender)

    def _keep_early(self, data: Data) -> None:
        if not self._listens:
            return
        ended = self.ended.get(data.stream)
        if ended is not None and not ended.cut_off:
            self._context.ignore("Data", "stream has ended")
        elif not self.early.keep(data.stream, data.run):
            self._context.ignore("Data", "no room for early data")

    def _progress(self, sender: Sender) -> None:
        self._deliver(sender)
        inbound = sender.inbound
        if inbound.next <= inbound.high or inbound.holes.holes:
            self._look_for_holes(sender)
        self._end_if_drained(sender)

    def _deliver(self, sender: Sender) -> None:
        inbound = sender.inbound
        if inbound.told < inbound.next and type(sender.state) is not SenderSemi and not self._holds:
            self._hold_back(sender, inbound)
            for run in inbound.hand_on():
                self._hand_on(sender, run)

    def _hand_on(self, sender: Sender, run: Run) -> None:
        if sender.is_aggregate:
            self.origins.hand_on(sender.endpoint, run)
            return
        item, context = Delivered(sender.endpoint, run), self._context
        if not sender.begins:
            context.hand_on(item, sender.endpoint)
            return
        for reader in self._readers.reading.values():
            begins = sender.begins.get(reader.me, 0)
            if begins < run.end and reader.me != sender.endpoint:
                if begins > run.first:
                    context.tell_one(reader, Delivered(sender.endpoint, cut(run, int(begins), run.end)))
                else:
                    context.tell_one(reader, item)
                    sender.begins.pop(reader.me, None)

    @property
    def _holds(self) -> bool:
        return not self._readers.reading

    def _look_for_holes(self, sender: Sender) -> None:
        inbound, config = sender.inbound, self._config
        if not (self._is_read_back(inbound) and inbound.holes.is_open):
            wait = self._context.luck.between(config.nak_wait_min_s, config.nak_wait_max_s)
            inbound.look_for_holes(config.held_messages, self._context.now + wait)
        self._watch(sender)

    def _is_read_back(self, inbound: Inbound) -> bool:
        """Is what we need next on our delegate's disk? It is sent as we acknowledge: to request each number
        as soon as there is room for it would be a request per message."""
        return self._spilled and inbound.next <= inbound.stable

    def _has_enough(self, inbound: Inbound) -> bool:
        """Is our memory full? If our backlog goes to disk no sender waits for us, so we bound it
        ourselves."""
        return self._spilled and inbound.store.bytes >= 2 * self._config.window_bytes

    def _watch(self, sender: Sender) -> None:
        """Wake up when one of its holes or planned repairs is due."""
        due = [each for each in (self._hole_due(sender.inbound), sender.repairs.next_due) if each is not None]
        if due:
            self._troubled[sender.endpoint] = sender
            self._recover.at(min(due))
        else:
            self._troubled.pop(sender.endpoint, None)

    def _hole_due(self, inbound: Inbound) -> Instant | None:
        """If our memory is full we request only what we need next, and when the program has read the rest."""
        if not self._has_enough(inbound):
            return inbound.holes.next_due
        return inbound.holes.holes[0].due if inbound.holes.holes and inbound.told == inbound.next else None

    def _due(self, inbound: Inbound) -> list[Hole]:
        if not self._has_enough(inbound):
            return inbound.holes.due(self._context.now, RANGES_MAX)
        due = self._hole_due(inbound)
        return inbound.holes.holes[:1] if due is not None and due <= self._context.now else []

    def _later(self, times: int) -> Instant:
        """When to request what was requested by others, or repaired, so many times."""
        config = self._config
        wait = self._context.luck.between(config.nak_wait_min_s, config.nak_wait_max_s)
        return self._context.now + wait * min(1 << min(times, DOUBLINGS_MAX), config.backoff_max)

    # Repair

    def recover(self) -> None:
        """Request what is due, and send the repairs that no other holder has sent (X-081)."""
        self._recover.fired()
        now = self._context.now
        for stream in sorted(self._troubled):
            sender = self._troubled[stream]
            parts, settle_s = self._context.parts, self._config.nak_wait_max_s
            due = parts.not_coming(now, stream, self._due(sender.inbound), settle_s)
            if due:
                for hole in due:
                    hole.asked, hole.asked_at = hole.asked + 1, now
                    hole.due = self._later(hole.asked)
                attempt = max([hole.asked for hole in due])
                for nak in questions(stream, due, self._host, attempt, parts):
                    self._context.cast(nak)
            for planned in sender.repairs.due(now):
                self._repair(sender, (planned.first, planned.last))
            self._watch(sender)

    @property
    def _host(self) -> Domain:
        return Domain(self._context.me.partition("/")[0])

    def _repair(self, sender: Sender, promised: Range) -> None:
        inbound, config = sender.inbound, self._config
        for run, offset, size in held(inbound.store, [promised], config.datagram_bytes, config.repair_bytes):
            self._context.cast(
                Data(sender.endpoint, run, inbound.high, inbound.stable, True, 0, offset, size)
            )

    def overhear(self, data: Data) -> None:
        """A part of a message that we have: another holder repaired it."""
        sender = self.running.get(data.stream)
        if sender is not None and data.repair:
            sender.repairs.heard(*places_of(data))

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes of this stream may be kept in parts for us, if we wait for this number of it."""
        sender, config = self.running.get(stream), self._config
        if sender is None or (sender.final is not None and number > sender.final):
            ended = self.ended.get(stream)
            return 0 if ended is not None and not ended.cut_off else config.early_bytes
        inbound = sender.inbound
        if self._has_enough(inbound) and (inbound.told < inbound.next or number > inbound.next):
            return 0
        return config.parts_bytes if inbound.waits_for(number, config.held_messages) else 0

    def asked(self, nak: Nak) -> None:
        """A receiver of our LAN misses something of a stream that we receive too."""
        sender = self.running.get(nak.stream)
        if sender is None:
            return
        sender.inbound.holes.put_off(nak.ranges, self._later)
        config = self._config
        for low, high in places(nak):
            first, last = low >> NUMBER, high >> NUMBER
            if first < sender.inbound.next and (sender.inbound.store.lowest or last + 1) <= last:
                wait = self._context.luck.between(config.repair_wait_min_s, config.repair_wait_max_s)
                sender.repairs.plan(low, high, self._context.now + wait)
        self._watch(sender)

    def below(self, below: Below) -> None:
        """A holder has forgotten what we miss. After `BELOWS_MAX` such answers the program is told of a `Gap`
        in this stream, which goes on after it, as do all others (TX-13)."""
        sender = self.running.get(below.stream)
        if sender is None or type(sender.state) is not SenderActive or below.holder != self._context.lan:
            return
        inbound = sender.inbound
        if below.lowest <= inbound.next or self._holds or inbound.lagging:
            return  # a program that does not read gets its `Gap` when it does: we go on asking
        hole = inbound.holes.at(inbound.next)
        if hole is None or not hole.asked or sender.belows.count(hole) < BELOWS_MAX:
            return
        for first, last in inbound.store.holes(inbound.next, below.lowest - 1):
            self._context.note("stream broke its promise", f"{sender.endpoint} {first} to {last}")
            self._context.tell(Gap(sender.endpoint, first, last))
            inbound.skip_to(last + 1)
            self._deliver(sender)
        self._progress(sender)
        self._status.at(self._context.now + self._config.status_s)  # nothing more may come for a long time

    # Status

    def say_status(self) -> None:
        """Acknowledge: what we need next of each stream, to our delegate, until it has become stable."""
        self._status.fired()
        self._since_status = self._bytes_since_status = 0
        have = self.unsettled()
        for begin in range(0, len(have), ENTRIES_MAX):
            self._context.transmit(
                self._context.lan, Status(self._context.speaks_as, tuple(have[begin : begin + ENTRIES_MAX]))
            )
        if have:
            self._status.at(self._context.now + self._config.status_s)

    def unsettled(self) -> list[tuple[Stream, int]]:
        """What we need next of every stream whose home may lack our acknowledgement; and of those whose rest
        is on our delegate's disk, which sends it as we acknowledge."""
        found = [
            (stream, sender.acknowledged)
            for stream, sender in self.running.items()
            if sender.acknowledged - 1 > sender.inbound.stable or self._catches_up(sender)
        ]
        for stream, (next, until) in list(self._farewells.items()):
            if until > self._context.now and stream not in self.running:
                found.append((stream, next))
            else:
                del self._farewells[stream]
        return sorted(found)

    def _catches_up(self, sender: Sender) -> bool:
        """Is the rest of it on our delegate's disk, or was it a moment ago? Then our delegate waits for
        this."""
        if self._spilled and sender.acknowledged <= sender.inbound.stable:
            sender.behind = CAUGHT_UP
        elif sender.behind:
            sender.behind -= 1
        return sender.behind > 0

    def have(self, lan: Domain | None = None) -> Have:
        """What we need next of every stream (of one LAN), those cut off with their domain included."""
        needs: dict[Stream, int] = {
            stream: ended.last + 1 for stream, ended in self.ended.items() if ended.cut_off
        }
        for stream, sender in self.running.items():
            needs[stream] = sender.acknowledged
        return tuple([(each, needs[each]) for each in sorted(needs) if lan is None or lan_of(each) == lan])

    def forget_ended(self) -> None:
        """Forget streams that ended long ago: the oldest come first."""
        while self.ended and self.ended[first := next(iter(self.ended))].until <= self._context.now:
            del self.ended[first]

    def tidy(self) -> None:
        self.forget_ended()
        if self.origins.known:
            running = [each for each in self.running.values() if each.is_aggregate]
            self.origins.tidy({each.endpoint: each.inbound.stable for each in running})


def _waits_for(sender: Sender, reader: Endpoint) -> bool:
    """Is there a place in this stream from which on this reader is owed it?"""
    return reader in sender.begins or reader in sender.inbound.lagging
