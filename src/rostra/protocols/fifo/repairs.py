"""Loss recovery at a delegate: it requests what it misses, and repairs for others.

      requests   from where the stream comes, then its home; at home from its sender, then the whole LAN
      repairs    at once what it holds; what it lacks itself it sends to a requesting delegate when it comes

Round trips are measured here, from requests that were sent once: of a repeated one it is not known which was
answered (Karn's rule).
"""

from collections.abc import Iterable, Mapping

from rostra.names import Domain, host_of, inside
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.fifo.relay import Relay
from rostra.protocols.fifo.spill import Spills
from rostra.protocols.fifo.ways import Ways
from rostra.protocols.flow.fragments import held, places, questions
from rostra.protocols.flow.messages import RANGES_MAX, Below, Data, Nak, Stream
from rostra.protocols.flow.recovery import Hole, Recent
from rostra.protocols.flow.tree import Forwarding

TWICE_BYTES = 16 << 10
"""Up to so much is sent twice to a delegate that requests it again; more takes further requests in any
case."""

OVERTAKEN_LESS = 0.9
"""The factor by which a repair shortens the time that requests wait for data that may only be late."""

ASKERS_MAX = 64
"""Requests of other delegates for what we miss ourselves that are remembered, per stream."""


class Repairs:
    def __init__(
        self,
        context: StepContext,
        running: Mapping[Stream, Relay],
        forwarding: Forwarding,
        ways: Ways,
        spills: Spills,
    ) -> None:
        self._context, self._config = context, context.config
        self._running, self._forwarding, self._ways, self._spills = running, forwarding, ways, spills
        self.round_trips: dict[Domain, float] = {}
        self.overtaken_s: dict[Domain, float] = {}  # how late reordered data still comes
        self._troubled: dict[Stream, Relay] = {}
        self._alarm = Alarm(context, "recover")

    def drop(self, stream: Stream) -> None:
        self._troubled.pop(stream, None)

    def towards_home(self, relay: Relay) -> Domain:
        via = relay.via
        return via if via is not None and via in self._forwarding.present else relay.lan

    def look_for_holes(self, relay: Relay) -> None:
        wait = 0.0
        if relay.lan != self._context.lan:
            wait = self._config.parity_wait_s + self.overtaken_s.get(self.towards_home(relay), 0.0)
        relay.inbound.look_for_holes(self._config.held_messages, self._context.now + wait)
        self._watch(relay)

    def _watch(self, relay: Relay) -> None:
        due = relay.inbound.holes.next_due
        if due is None:
            self._troubled.pop(relay.stream, None)
        else:
            self._troubled[relay.stream] = relay
            self._alarm.at(due)

    def recover(self) -> None:
        """Request what is missing: at once, then once per round trip, then with back-off (X-083)."""
        self._alarm.fired()
        for stream in sorted(self._troubled):
            relay = self._troubled[stream]
            due = relay.inbound.holes.due(self._context.now, RANGES_MAX)
            due = self._context.parts.not_coming(self._context.now, stream, due, self._config.nak_extra_s)
            new, old = [each for each in due if not each.asked], [each for each in due if each.asked]
            for holes in (new, old):
                if holes:
                    self._ask(relay, holes)
            self._watch(relay)

    def _ask(self, relay: Relay, holes: list[Hole]) -> None:
        context, config, now = self._context, self._config, self._context.now
        attempt = max(hole.asked for hole in holes) + 1
        at_home = relay.lan == context.lan
        target = host_of(relay.stream)
        if not at_home:
            target = self.towards_home(relay) if attempt % 2 else relay.lan
        for nak in questions(relay.stream, holes, context.lan, attempt, context.parts):
            if at_home and attempt % 2 == 0:
                context.cast(nak)
            else:
                context.transmit(target, nak)
        for hole in holes:
            hole.asked += 1
            hole.asked_at, hole.asked_of = now, target
            if at_home:
                hole.due = now + config.nak_wait_max_s * min(2**attempt, config.backoff_max)
            else:
                wait_s = config.again_after(self.round_trips.get(target), hole.asked)
                hole.due = now + (
                    max(wait_s, config.heartbeat_max_s) if target in self._ways.silent else wait_s
                )

    def asked(self, nak: Nak) -> None:
        """Repair at once what is here, and request the rest ourselves. A delegate that requests a little
        again is sent it twice: it has lost a round trip already, on a path that loses repairs too."""
        relay = self._running.get(nak.stream)
        lowest = None if relay is None else relay.lowest
        is_gone = bool(nak.ranges) and (lowest is None or nak.ranges[0][0] < lowest)
        on_disk = is_gone and self._spills.asked(nak)
        if relay is None:
            if not on_disk:
                self._context.ignore("Nak", "stream is not known")
            return
        context, inbound = self._context, relay.inbound
        at_home = inside(context.lan, nak.asker)
        missed = 0
        if not on_disk and any(first < relay.lowest for first, _ in nak.ranges):
            # Forgotten, or from before our own time: it must be requested elsewhere (TX-13).
            context.transmit(nak.asker, Below(nak.stream, relay.lowest, context.lan))
        for first, last in nak.ranges:
            if last >= inbound.next and inbound.store.holes(max(first, inbound.next), last):
                if last >= inbound.next + self._config.window_messages:
                    context.ignore("Nak", "further ahead of us than a sender can be")
                elif relay.final is None or last <= relay.final:
                    missed = max(missed, last)
                if not at_home and len(relay.askers) < ASKERS_MAX:
                    relay.askers[first, last, nak.asker] = None
        self._repair(relay, nak, at_home)
        if missed:
            inbound.hear_high(missed)
            self.look_for_holes(relay)

    def _repair(self, relay: Relay, nak: Nak, at_home: bool) -> None:
        context, config, inbound = self._context, self._config, relay.inbound
        asker = context.lan if at_home else nak.asker
        within_s = config.repair_wait_min_s
        if not at_home:
            within_s = self.round_trips.get(asker, 0.0) / 2
        if asker not in relay.recent and len(relay.recent) >= ASKERS_MAX:
            relay.recent.clear()
        asked = relay.recent.setdefault(asker, Recent()).fresh(context.now, places(nak), within_s)
        again = [
            Data(nak.stream, run, inbound.high, relay.pins.stable, True, 0, offset, size)
            for run, offset, size in held(inbound.store, asked, config.datagram_bytes, config.repair_bytes)
        ]
        few = sum([len(data.run.block) for data in again]) <= TWICE_BYTES
        for data in again:
            if at_home:
                context.cast(data)
                continue
            for _ in range(2 if nak.attempt > 1 and few else 1):
                context.transmit(nak.asker, data)

    def answer_askers(self, relay: Relay, data: Data, onward: Iterable[Domain]) -> None:
        first, last = data.run.first, data.run.end - 1
        waiting: dict[tuple[int, int, Domain], None] = {}
        for low, high, lan in relay.askers:
            if low <= last and first <= high and lan not in onward:
                self._context.transmit(lan, data)
            elif high >= relay.inbound.next:
                waiting[low, high, lan] = None
        relay.askers = waiting

    def measure(self, relay: Relay, data: Data, source: Domain) -> None:
        """A repair that was requested once gives an upper bound of the round trip. If the original comes
        after all, it was only reordered: from now on requests to there wait for as long as it was late, and
        less with every repair, so that what is only late is neither repaired nor counted as lost."""
        hole = relay.inbound.holes.at(data.run.first)
        if hole is None or hole.asked != 1 or hole.asked_of != source:
            return
        seconds = self._context.now - hole.asked_at
        overtaken_s = self.overtaken_s.get(source, 0.0)
        if not data.repair:
            most_s = self._config.again_after(self.round_trips.get(source))
            self.overtaken_s[source] = max(overtaken_s, min(overtaken_s + seconds, most_s))
        elif data.hop == 0:
            self.measured(source, seconds)
            self.overtaken_s[source] = OVERTAKEN_LESS * overtaken_s

    def measured(self, lan: Domain, seconds: float) -> None:
        """The minimum counts: retransmissions on the way only add to it. If it is much less than before, the
        coordinator should know."""
        before = self.round_trips.get(lan)
        if before is None or seconds < before:
            self.round_trips[lan] = seconds
            if before is not None and seconds < 0.9 * before:
                self._context.set_timer(self._config.settle_s, "distances")
