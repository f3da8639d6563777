"""All streams that a delegate forwards, and how far the receivers of each are (table 4.6).

      home LAN ── cast ──▶ delegate ── tree links, and directly where the tree does not reach ──▶ delegates
                              │ ▲                                                                  │
                              │ └── Nak, Report, towards home, along the link that the data came by ┘
                              ▼
      own LAN: streams of other LANs are cast in it; losses are repaired at once, as far as they are held

New data is stored and forwarded as it comes, in order or not; duplicates are dropped (X-068). The **home
delegate** of a stream, the one of its sender's LAN, alone announces what is stable (`stability.py`).

The states of one stream are in `relay.py`; requests for what is missing, and repairs, in `repairs.py`.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from rostra.core.effects import Instant
from rostra.groups.attributes import Role
from rostra.groups.members import Stamp
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.fifo.messages import CutEntry
from rostra.protocols.fifo.relay import (
    PartedStream,
    Relay,
    RelayAwaitingEnd,
    RelayDraining,
    RelayPolling,
    UnknownStream,
)
from rostra.protocols.fifo.repairs import Repairs
from rostra.protocols.fifo.senders import ENTRIES_MAX
from rostra.protocols.fifo.spill import Spills
from rostra.protocols.fifo.ways import Ways
from rostra.protocols.flow.early import Early
from rostra.protocols.flow.messages import (
    Below,
    Data,
    Epoch,
    Heartbeat,
    Poll,
    Polled,
    Progress,
    Pulse,
    Report,
    Run,
    Status,
    Stream,
)
from rostra.protocols.flow.tree import Forwarding

POLL_WAIT_S = 0.05
"""How long a LAN is asked how far it got with the stream of a sender that crashed."""


class Relays:
    def __init__(self, context: StepContext, forwarding: Forwarding, epoch: Callable[[], Epoch]) -> None:
        self._context = context
        self.lan = context.lan
        self._config = context.config
        self._forwarding = forwarding
        self._epoch = epoch
        self.early = Early(context.config)
        self.running: dict[Stream, Relay] = {}
        self.unknown: dict[Stream, UnknownStream] = {}
        self.parted: dict[Stream, PartedStream] = {}
        # Receivers of our own LAN: members, or hosts whose members share a reception (`reception.py`).
        self.sharing: dict[Endpoint, set[Endpoint]] = {}  # each with its members
        self.receiver: dict[Endpoint, Endpoint] = {}  # and the other way round
        self.receivers: set[Endpoint] = set()  # that were given their starts
        self.newcomers: set[Endpoint] = set()  # that have yet to ask for them
        self.expected: dict[Domain, Instant] = {}  # LANs whose delegates have yet to ask; for how long
        # Receivers of our LAN that were here before us and have not sent their numbers; LANs that were there
        # before us and have not asked for ours.
        self.awaited: set[Endpoint] = set()
        self.awaited_lans: set[Domain] = set()
        self.pinned: dict[Domain, Epoch] = {}  # LANs that were given starts in our streams
        self._unannounced: dict[Stream, Relay] = {}  # home streams with something to announce
        self._unreported: dict[Stream, Relay] = {}  # others, whose home does not know how far we are
        self.spills = Spills(context, self.running, self._settle)
        self.ways = Ways(context)
        self.repairs = Repairs(context, self.running, forwarding, self.ways, self.spills)
        self._announce = Alarm(context, "announce")
        self._report = Alarm(context, "report")

    @property
    def carries(self) -> bool:
        """Was any message sent in this group, as far as we know?"""
        return bool(self.unknown) or any(relay.inbound.high > 0 for relay in self.running.values())

    # Streams come and go

    def expect(self, stream: Stream, stamp: Stamp, role: Role) -> None:
        """A sender of our LAN that was there before us: it will send its number (`StartSync.first`)."""
        self.unknown[stream] = UnknownStream(stamp, role)

    def begin(self, stream: Stream, stamp: Stamp, role: Role, start: int) -> Relay:
        """Store and forward the stream from here on. All receivers that have their starts are pinned at
        once."""
        relay = self.running[stream] = Relay(stream, stamp, role, start)
        self.unknown.pop(stream, None)
        self.parted.pop(stream, None)
        for receiver in self.receivers | self.newcomers:
            if self.hears(receiver, stream):
                relay.pins.pin(receiver, start)
        if relay.lan == self._context.lan:
            for lan, epoch in self.pinned.items():
                relay.pins.pin_lan(lan, epoch, start)
            for lan, until in self.expected.items():
                relay.pins.expect_lan(lan, start, until)
        self._context.note("stream begins", f"{stream} at {start}")
        source = self.early.source(stream) or self._context.lan
        for run in self.early.take(stream):
            self._store(relay, Data(stream, run, run.end - 1, start - 1), source)
        return relay

    def left(self, stream: Stream, why: str, last_seq: int | None) -> None:
        if stream in self.unknown:
            self.drop(stream)
        relay = self.running.get(stream)
        if relay is None:
            return
        inbound, final = relay.inbound, relay.final
        match why:
            case "left":
                final = inbound.high if last_seq is None else last_seq
                inbound.hear_high(final)
                self.repairs.look_for_holes(relay)
            case "disconnected":
                final = inbound.high
            case _ if relay.lan == self._context.lan:
                # Its agent may live and say its last number; else our LAN knows best how far it got.
                relay.state = RelayPolling(inbound.next)
                self._context.cast(Poll(stream))
                self._context.set_timer(POLL_WAIT_S, "poll", stream)
            case _:
                relay.state = RelayAwaitingEnd()
        if final is not None:
            relay.state = RelayDraining(final)
        config = self._config
        owed = final is None or relay.pins.stable < final or relay.pins.serves_debts
        for_s = config.drain_s
        if why != "disconnected" and owed:
            for_s = config.farewell_s if why == "left" else config.linger_s
        self._context.set_timer(for_s, "drain", stream)
        self._end_if_settled(relay)

    def lost(self, stream: Stream) -> None:
        """Lost with its domain: remember where our LAN would go on (X-066)."""
        relay = self.running.get(stream)
        if relay is not None:
            until = self._context.now + self._config.resume_s
            self.tidy()
            self.parted[stream] = PartedStream(relay.stamp, relay.pins.least(relay.inbound.next), until)
        self.left(stream, "disconnected", None)

    def drop(self, stream: Stream) -> None:
        self.unknown.pop(stream, None)
        for table in (self.running, self._unannounced, self._unreported):
            table.pop(stream, None)
        self.repairs.drop(stream)
        self.early.take(stream)
        self._context.cancel_timer("drain", stream)

    def drain_timed_out(self, stream: Stream) -> None:
        relay = self.running.get(stream)
        if relay is not None and relay.has_left:
            self.drop(stream)

    def poll_ended(self, stream: Stream) -> None:
        """What the receivers of our LAN have together is all there is: announce its end (X-050)."""
        relay = self.running.get(stream)
        if relay is not None and isinstance(relay.state, RelayPolling):
            final = relay.state.furthest - 1
            relay.state = RelayDraining(final)
            relay.inbound.hear_high(final)
            self.repairs.look_for_holes(relay)
            self._announce_soon(relay, at_once=True)

    def _end_if_settled(self, relay: Relay) -> None:
        match relay.state:
            case RelayDraining(final) if relay.lan == self._context.lan:
                settled = relay.pins.stable >= final and not relay.pins.serves_debts
                if settled and relay.announced >= final:
                    self.drop(relay.stream)

    def skip(self, relay: Relay, first: int) -> None:
        """The sender has nothing below this number any more: our predecessor announced it as stable
        (X-101)."""
        if relay.inbound.next < first:
            relay.inbound.skip_to(first)
            relay.inbound.told = relay.inbound.next
            relay.pins.lift(first - 1)
            self.repairs.look_for_holes(relay)
            self._settle(relay)

    # Pins

    def entry(self, relay: Relay, start: int) -> CutEntry:
        return CutEntry(relay.stream, relay.stamp, relay.role, start, relay.final)

    def hears(self, receiver: Endpoint, stream: Stream) -> bool:
        """Has this receiver a member besides the sender of this stream?"""
        members = self.sharing.get(receiver, ())
        return len(members) > 1 or stream not in members

    def receives(self, member: Endpoint, receiver: Endpoint) -> None:
        """A member of our LAN, and the receiver it is counted as. If there was one member so far, its stream
        has a reader there now, which is owed what flows from now on."""
        members = self.sharing.setdefault(receiver, set())
        alone = members - {member} if len(members) == 1 else ()
        members.add(member)
        self.receiver[member] = receiver
        for stream in alone:
            relay = self.running.get(stream)
            if relay is not None and not relay.has_left:
                relay.pins.pin(receiver, relay.inbound.next)

    def expect_receiver(self, receiver: Endpoint) -> None:
        """A newcomer of our LAN that has yet to ask for its starts. It is owed what flows from now on: a
        sender gets its join notice no sooner than we do, so a welcome reaches it."""
        if receiver in self.receivers or receiver in self.newcomers:
            return  # it shares what others there are owed already
        self.newcomers.add(receiver)
        for relay in self.running.values():
            if not relay.has_left and self.hears(receiver, relay.stream):
                relay.pins.pin(receiver, relay.inbound.next)

    def expect_lan(self, lan: Domain) -> None:
        """The same for a LAN whose member is noticed before its delegate is. That takes some round trips to
        join, and no sender shall wait for it: what it will be owed is kept, as for a LAN that was lost
        (X-066)."""
        if lan not in self.pinned and self.expected.get(lan, 0.0) <= self._context.now:
            until = self.expected[lan] = self._context.now + self._config.resume_s
            for relay in self.running.values():
                if relay.lan == self._context.lan and not relay.has_left:
                    relay.pins.expect_lan(lan, relay.inbound.next, until)

    def await_receiver(self, receiver: Endpoint) -> None:
        """A receiver that was here before us, and will send its numbers. Of streams that it does not name it
        is owed all that we are."""
        self.newcomers.add(receiver)
        self.awaited.add(receiver)

    def arrived(self, receiver: Endpoint) -> None:
        """A receiver asks for its starts; it is given none in streams that ended since it was noticed."""
        self.receivers.add(receiver)
        if receiver in self.newcomers:
            self.newcomers.discard(receiver)
            for _, relay in sorted(self.running.items()):
                if relay.final is not None and relay.pins.unpin(receiver):
                    self._settle(relay)

    def lan_arrived(self, lan: Domain, epoch: Epoch) -> bool:
        """The delegate of a LAN asks for its starts. True if the LAN was expected."""
        self.pinned[lan] = epoch
        return self.expected.pop(lan, None) is not None

    def hand_over(self, lan: Domain) -> None:
        """Send what was kept for it together with its starts: as much of each stream as its delegate can
        buffer before it knows them. It requests the rest."""
        for _, relay in sorted(self.running.items()):
            start = relay.pins.owed_to(lan)
            if relay.lan == self._context.lan and start is not None:
                room = self._config.early_bytes
                last = min(relay.inbound.next, start + self._config.early_messages) - 1
                for run in relay.inbound.store.get(start, last):
                    room -= len(run.block)
                    if room < 0:
                        break
                    # One hop more than an answer to a question, by which its delegate would measure the way.
                    again = Data(relay.stream, run, relay.inbound.high, relay.pins.stable, repair=True, hop=1)
                    self._context.transmit(lan, again)

    def offer(self, relay: Relay, receiver: Endpoint, needs: int | None) -> int:
        """Give a local receiver its start, and pin it there in the same step (X-025, X-026, TX-17)."""
        kept = self.spills.resumes(relay, receiver, needs)
        if kept is not None and needs is not None and receiver in self.receivers:
            relay.pins.pin(receiver, kept)
            self._announce_soon(relay, at_once=False)
            return needs
        if needs is None:
            needs = relay.pins.local.get(receiver)  # since it came, or the stream began: it is owed the rest
        start = relay.start_for(needs)
        if receiver in self.receivers:
            relay.pins.pin(receiver, start)
            self._tell_debtor(relay, receiver)
        return start

    def offer_lan(self, relay: Relay, lan: Domain, epoch: Epoch, needs: int | None) -> int:
        """The same for another LAN, in a stream of ours. One that was lost goes on where it was, if that is
        still here. One that asks again is given the same start: we do not know which of the two answers it
        uses, and what lies between them must stay (X-022)."""
        debt, pinned = relay.pins.debts.get(lan), relay.pins.lans.get(lan)
        if needs is None and debt is not None:
            needs = debt.next
        elif needs is None and pinned is not None:
            needs = pinned[1]  # by a predecessor, too: its successor does not know how far that was
        start = relay.start_for(needs)
        relay.pins.pin_lan(lan, epoch, start)
        self._tell_debtor(relay, lan)
        return start

    def _tell_debtor(self, relay: Relay, who: str) -> None:
        """A receiver is back and lacks messages that all others have: announce the last number, for the
        sender may have fallen silent."""
        if who in relay.pins.debts:
            self._announce_soon(relay, at_once=False)

    def unpin(self, member: Endpoint, *, cut_off: bool = False) -> None:
        """A member is gone, and so is its receiver, unless other members share it."""
        receiver = self.receiver.pop(member, None)
        if receiver is None:
            return
        members = self.sharing[receiver]
        members.discard(member)
        if members:
            for stream in members if len(members) == 1 else ():
                relay = self.running.get(stream)
                if relay is not None and relay.pins.unpin(receiver):
                    self._settle(relay)
            return
        del self.sharing[receiver]
        self.heard_of(receiver)
        self.receivers.discard(receiver)
        self.newcomers.discard(receiver)
        until = self._context.now + self._config.resume_s if cut_off else None
        self.spills.part(receiver, until)
        for _, relay in sorted(self.running.items()):
            if relay.pins.unpin(receiver, until):
                self._settle(relay)

    def unpin_lan(self, lan: Domain, *, cut_off: bool) -> None:
        self.heard_of_lan(lan)
        self.pinned.pop(lan, None)
        until = self._context.now + self._config.resume_s if cut_off else None
        for _, relay in sorted(self.running.items()):
            if relay.lan == self._context.lan and relay.pins.unpin_lan(lan, until):
                self._settle(relay)

    def heard_of(self, receiver: Endpoint) -> None:
        """This receiver has sent its numbers, or is gone."""
        if receiver in self.awaited:
            self.awaited.discard(receiver)
            self._settle_all()

    def heard_of_lan(self, lan: Domain) -> None:
        """This LAN has asked for its starts, or is gone."""
        if lan in self.awaited_lans:
            self.awaited_lans.discard(lan)
            self._settle_all()

    def await_no_longer(self) -> None:
        """A LAN that has not asked by now will not, or is lost."""
        self.awaited_lans.clear()
        self._settle_all()

    def _settle_all(self) -> None:
        for stream in sorted(self.running):
            relay = self.running.get(stream)
            if relay is not None:
                self._settle(relay)

    def status(self, status: Status) -> None:
        receiver = self.receiver.get(status.endpoint, status.endpoint)
        for stream, next in status.have:
            relay = self.running.get(stream)
            if self.spills.acknowledged(receiver, stream, next) or relay is None:
                continue
            if relay.pins.acknowledge(receiver, next):
                self._settle(relay)
            elif next <= relay.pins.stable + 1:
                self._announce_soon(relay, at_once=False)  # it does not know that this is stable
                self._end_if_settled(relay)

    def report(self, source: Domain, report: Report) -> None:
        """Acknowledgements of LANs: counted at home, forwarded unchanged elsewhere."""
        onward: dict[Domain, list[Progress]] = {}
        for entry in report.entries:
            relay = self.running.get(entry.stream)
            if relay is None:
                continue
            if relay.lan == self._context.lan:
                if relay.pins.acknowledge_lan(entry.lan, entry.epoch, entry.next):
                    self._settle(relay)
                elif entry.next <= relay.pins.stable + 1:
                    self._context.transmit(source, Heartbeat((self._pulse_of(relay),), 1))
                    self._end_if_settled(relay)  # it may have been the last that was owed something
            else:
                towards = self.repairs.towards_home(relay)
                if towards != source:
                    onward.setdefault(towards, []).append(entry)
        if report.hop < self._config.hops:
            for lan in sorted(onward):
                self._context.transmit(lan, Report(tuple(onward[lan]), report.hop + 1))

    def _settle(self, relay: Relay) -> None:
        """Recompute what is stable, or our report, after a receiver advanced or left. Nothing becomes stable
        while a receiver that was given its starts by our predecessor has not sent its numbers (X-101); and
        nothing of a stream of ours that was lost: it will go on where it was then, so its sender must keep it
        (X-066)."""
        if self.awaited:
            return
        if relay.lan == self._context.lan:
            if self.awaited_lans or relay.stream in self.parted:
                return
            if relay.pins.settle(relay.inbound.next):
                relay.inbound.stable = relay.pins.stable
                self._forget(relay)
                self._announce_soon(relay, at_once=self._is_news(relay, relay.pins.stable - relay.announced))
        else:
            entry = relay.pins.least(relay.inbound.next)
            if entry > relay.reported:
                self._unreported[relay.stream] = relay
                if self._is_news(relay, entry - relay.reported):
                    self.say_reports(only=relay)
                else:
                    self._report.at(self._context.now + self._config.status_wan_s)

    def _is_news(self, relay: Relay, messages: int) -> bool:
        """Is this progress worth a datagram at once, so that a fast sender is not blocked?"""
        config = self._config
        return messages >= config.status_messages or relay.unsettled_bytes >= config.window_bytes // 8

    # Data

    def data(self, source: Domain, data: Data) -> None:
        relay = self.running.get(data.stream)
        if relay is None:
            if not self.early.keep(data.stream, data.run, source):
                self._context.ignore("Data", "no room for early data")
        elif data.hop > self._config.hops:
            self._context.ignore("Data", "too many hops")
        elif (final := relay.final) is not None and data.run.end - 1 > final:
            self.early.keep(data.stream, data.run, source)
        else:
            self._store(relay, data, source)

    def _store(self, relay: Relay, data: Data, source: Domain) -> None:
        inbound = relay.inbound
        if inbound.holes.holes:
            self.repairs.measure(relay, data, source)
        pieces = inbound.take(data.run, self._config.held_messages)
        inbound.told = inbound.next
        inbound.hear_high(data.high)
        if not pieces:
            self._context.ignore("Data", "duplicate")
        elif not data.repair and source in self._forwarding.present:
            relay.via = source
            relay.everywhere = data.hop == self._config.hops
        for piece in pieces:
            relay.unsettled_bytes += len(piece.block)
            self._forward(relay, data, piece, source)
        if relay.lan != self._context.lan and data.stable > relay.pins.stable:
            self._hear_stable(relay, data.stable)
        if inbound.next <= inbound.high or inbound.holes.holes:
            self.repairs.look_for_holes(relay)
        if pieces:
            self._settle(relay)
            if self.spills.willing:
                self.spills.tend(relay)

    def _forward(self, relay: Relay, data: Data, piece: Run, source: Domain) -> None:
        context = self._context
        stable = relay.pins.stable
        onward = Data(data.stream, piece, relay.inbound.high, stable, data.repair, data.hop + 1)
        if relay.lan != context.lan and self.receivers:
            context.cast(onward)
        # The delegate towards home requests its own repairs: one that came round through us would make its
        # stream depend on whether we are here.
        nearer = self._forwarding.towards(relay.lan) if data.repair and relay.lan != context.lan else None
        onward_to = [lan for lan in self._onward(relay) if lan not in (source, nearer)]
        for lan in onward_to:
            self.ways.said(lan)
        self._spread(relay, onward_to, onward)
        if relay.askers:
            self.repairs.answer_askers(relay, onward, self._onward(relay))

    def _onward(self, relay: Relay) -> Iterable[Domain]:
        if relay.lan == self._context.lan:
            return self._from_home
        return () if relay.everywhere else self._forwarding.neighbours

    @property
    def _from_home(self) -> tuple[Domain, ...]:
        """The delegates that we send the streams of our own LAN: all of them, if that costs one datagram."""
        if self._says_it_once:
            return tuple(sorted(self._forwarding.present))
        return (*self._forwarding.neighbours, *self._forwarding.direct)

    @property
    def _says_it_once(self) -> bool:
        """Is one multicast enough for all delegates? Not while a way is silent: the tree routes around it."""
        return self._config.between == "multicast" and not self.ways.silent

    def _spread(self, relay: Relay, lans: Sequence[Domain], data: Data) -> None:
        """To other delegates: to each, or to all by multicast. No hops are left then, so that none forwards
        it. Heartbeats go to each of them in any case: a delegate that multicast does not reach detects the
        loss."""
        if relay.lan == self._context.lan and self._says_it_once:
            if lans:
                self._context.broadcast(lans, replace(data, hop=self._config.hops))
            return
        for lan in lans:
            self._context.transmit(lan, data)

    def pulse(self, source: Domain, pulse: Pulse, hop: int) -> None:
        """A heartbeat: of a sender of ours, or on its way from its home."""
        relay = self.running.get(pulse.stream)
        if relay is None or hop > self._config.hops:
            return
        at_home = relay.lan == self._context.lan
        if not at_home and source not in (relay.via, relay.lan):
            # It is true from any source. But it has no number of its own, so it is forwarded only from where
            # its data came, or comes in the tree: else it would run in circles while links of two trees are
            # in use (TX-20). News from elsewhere mean that the tree has changed.
            if self._is_new(relay, pulse):
                if source in self._forwarding.present:
                    relay.via = source
            elif source != self._forwarding.towards(relay.lan):
                self._context.ignore("Heartbeat", "not from its own direction")
                return
        if relay.final is None:
            relay.inbound.hear_high(pulse.high)
        if pulse.final and isinstance(relay.state, RelayPolling | RelayAwaitingEnd):
            relay.state = RelayDraining(pulse.high)
        if not at_home:
            self._hear_stable(relay, pulse.stable)
        elif pulse.stable < relay.pins.stable:
            self._announce_soon(relay, at_once=False)  # its sender missed what we said
        self.repairs.look_for_holes(relay)
        onward = Heartbeat((Pulse(pulse.stream, pulse.high, relay.pins.stable, pulse.final),), hop + 1)
        if not at_home and self.receivers:
            self._context.cast(onward)
        for lan in self._onward(relay):
            if lan != source:
                if relay.pins.stable < pulse.high:
                    self.ways.said(lan)
                self._context.transmit(lan, onward)
        self._end_if_settled(relay)

    def _is_new(self, relay: Relay, pulse: Pulse) -> bool:
        return (
            relay.via is None
            or (pulse.high > relay.inbound.high and relay.final is None)
            or pulse.stable > relay.pins.stable
            or (pulse.final and relay.final is None)
        )

    def _hear_stable(self, relay: Relay, stable: int) -> None:
        """Every receiver has everything up to here, says its home."""
        if stable > relay.pins.stable:
            # What our own receivers miss is kept, should home have given us up without our knowing.
            relay.pins.stable = min(stable, relay.pins.least(relay.inbound.next) - 1)
            relay.inbound.stable = relay.pins.stable
            self._forget(relay)
            if relay.state == RelayDraining(stable):
                self._context.set_timer(self._config.drain_s, "drain", relay.stream)  # no receiver needs it

    def _forget(self, relay: Relay) -> None:
        share = int(self._config.resume_share * self._config.window_messages)
        relay.inbound.store.forget(relay.pins.keep_from(self._context.now, share) - 1)

    # What others have

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes of this stream may be kept in parts, if we wait for this number of it."""
        relay, config = self.running.get(stream), self._config
        if relay is None or (relay.final is not None and number > relay.final):
            return config.early_bytes
        return config.parts_bytes if relay.inbound.waits_for(number, config.held_messages) else 0

    def below(self, below: Below) -> None:
        """A holder has forgotten what we miss. If home has, no holder is left, and our LAN must know
        (TX-13)."""
        relay = self.running.get(below.stream)
        if relay is None or relay.lan == self._context.lan:
            return
        if below.holder == relay.lan and below.lowest > relay.inbound.next:
            self._context.note("stream lost a part", f"{below.stream} up to {below.lowest - 1}")
            relay.inbound.skip_to(below.lowest)
            relay.inbound.told = relay.inbound.next
            self.repairs.look_for_holes(relay)
            self._settle(relay)

    def polled(self, polled: Polled) -> None:
        relay = self.running.get(polled.stream)
        if relay is not None and isinstance(relay.state, RelayPolling):
            relay.state = RelayPolling(max(relay.state.furthest, polled.next))

    # Announcements and reports

    def _announce_soon(self, relay: Relay, *, at_once: bool) -> None:
        self._unannounced[relay.stream] = relay
        if at_once:
            self.say_announcements(only=relay)
        else:
            self._announce.at(self._context.now + self._config.status_s)

    def say_announcements(self, only: Relay | None = None) -> None:
        """From home to all delegates and its LAN: the stable number, and the last one. The latter until the
        stream is over, the former until receivers that came back have it. Elsewhere: to the own LAN, where a
        receiver has missed it."""
        if only is None:
            self._announce.fired()
        relays = [self._unannounced[each] for each in sorted(self._unannounced)] if only is None else [only]
        for begin in range(0, len(relays), ENTRIES_MAX):
            some = relays[begin : begin + ENTRIES_MAX]
            self._context.cast(Heartbeat(tuple([self._pulse_of(relay) for relay in some])))
            ours = tuple([self._pulse_of(relay) for relay in some if relay.lan == self._context.lan])
            if ours:
                for lan in self._from_home:
                    self._context.transmit(lan, Heartbeat(ours, 1))
        for relay in relays:
            relay.announced = relay.pins.stable
            relay.unsettled_bytes = 0
            if isinstance(relay.state, RelayDraining):
                self._announce.at(self._context.now + self._config.status_s)
            elif relay.pins.serves_debts or self.spills.is_unasked(relay.stream):
                self._announce.at(self._context.now + self._config.heartbeat_max_s)
            else:
                self._unannounced.pop(relay.stream, None)
            self._end_if_settled(relay)

    def _pulse_of(self, relay: Relay) -> Pulse:
        if isinstance(relay.state, RelayDraining):
            return Pulse(relay.stream, relay.state.final, relay.pins.stable, final=True)
        # Not the last number that we have: then receivers would detect losses whenever another receiver
        # acknowledges, so sooner or later as others come and go. The sender's own pulses carry it.
        return Pulse(relay.stream, relay.pins.stable, relay.pins.stable)

    def say_reports(self, only: Relay | None = None) -> None:
        """Towards each stream's home: the acknowledgement of our LAN, until home has it. Every second
        repetition goes home directly: two delegates may each take the other for the next hop, if their last
        data came by trees of different versions."""
        if only is None:
            self._report.fired()
        relays = [self._unreported[each] for each in sorted(self._unreported)] if only is None else [only]
        by_link: dict[Domain, list[Progress]] = {}
        for relay in relays:
            entry = relay.pins.least(relay.inbound.next)
            relay.repeated = relay.repeated + 1 if entry == relay.reported else 0
            relay.reported = entry
            relay.unsettled_bytes = 0
            progress = Progress(relay.stream, self._context.lan, self._epoch(), entry)
            towards = relay.lan if relay.repeated % 2 else self.repairs.towards_home(relay)
            by_link.setdefault(towards, []).append(progress)
            if entry - 1 <= relay.pins.stable:
                self._unreported.pop(relay.stream, None)
        for lan in sorted(by_link):
            entries = by_link[lan]
            for begin in range(0, len(entries), ENTRIES_MAX):
                self._context.transmit(lan, Report(tuple(entries[begin : begin + ENTRIES_MAX])))
        if self._unreported:
            self._report.at(self._context.now + self._config.status_wan_s)

    def tidy(self) -> None:
        now = self._context.now
        for stream in [stream for stream, parted in self.parted.items() if parted.until <= now]:
            del self.parted[stream]
