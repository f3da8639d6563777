"""Liveness of data paths between delegates. Links may work while datagrams are lost: probe a path, mark it
silent, and route around it.

    sent data ── nothing came back for a while: probe, repeatedly ──▶ silent ── any datagram ──▶ reachable

A way is the path of datagrams to another delegate. A heartbeat counts as data while not all receivers have
what it announces: the last message of a stream may have been lost beyond a delegate that is gone. The probe
is an empty heartbeat, answered by an empty report. Nothing is probed while acknowledgements come anyway. A
silent way is reported to the coordinator as infinitely long; the next tree routes around it, through a third
site, and back when datagrams arrive again (X-071). Where there is no third site its streams stall, and the
trace says which way is silent.

The same probe measures the round trip when a delegate joins. Control messages are retransmitted when they are
lost, so on a bad network the time of an answer through the servers is no round trip: with it a delegate would
request losses too late, and the tree would take detours.
"""

from rostra.core.effects import Instant
from rostra.names import Domain
from rostra.protocols.fifo.context import Alarm, StepContext
from rostra.protocols.flow.messages import Heartbeat

QUESTION = Heartbeat(())

MEASURE_S = 1.0
"""The least time after which an unanswered measurement is repeated."""


class Ways:
    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._silent_s = context.config.silent_s
        self._waiting: dict[Domain, Instant] = {}  # since when: sent to it, nothing came back
        self._alarm = Alarm(context, "ways")
        self._measuring: dict[Domain, Instant] = {}  # when its one open probe was sent
        self.silent: set[Domain] = set()

    def said(self, to: Domain) -> None:
        if to not in self._waiting:
            self._waiting[to] = self._context.now
            self._alarm.at(self._context.now + self._silent_s / 3)

    def heard(self, source: Domain) -> bool:
        """A datagram came. True if the way was silent."""
        self._waiting.pop(source, None)
        if source not in self.silent:
            return False
        self.silent.discard(source)
        self._context.note("way is heard again", source)
        return True

    def gone(self, lan: Domain) -> None:
        """The delegate at the other end has left the group."""
        self._waiting.pop(lan, None)
        self._measuring.pop(lan, None)
        self._context.cancel_timer("measure", lan)
        self.silent.discard(lan)

    def measure(self, lan: Domain, at_most_s: float) -> None:
        """Measure the round trip. Repeated when an answer to this probe cannot come any more."""
        self._measuring[lan] = self._context.now
        self._context.transmit(lan, QUESTION)
        self._context.set_timer(max(MEASURE_S, 2 * at_most_s), "measure", lan)

    def answered(self, lan: Domain) -> float | None:
        """The round trip, if that was the answer to a measuring probe."""
        asked_at = self._measuring.pop(lan, None)
        if asked_at is None:
            return None
        self._context.cancel_timer("measure", lan)
        return self._context.now - asked_at

    def ask(self) -> bool:
        """Probe those that owe an answer. True if another one counts as silent now."""
        self._alarm.fired()
        context, now = self._context, self._context.now
        news = False
        for lan in sorted(self._waiting):
            quiet_s = now - self._waiting[lan]
            if quiet_s >= self._silent_s / 3 - 1e-9:
                context.transmit(lan, QUESTION)
                self._measuring.pop(lan, None)  # which of the two will be answered?
            if quiet_s >= self._silent_s and lan not in self.silent:
                self.silent.add(lan)
                context.note("way is silent", lan)
                news = True
        if self._waiting:
            self._alarm.at(now + self._silent_s / 10)
        return news
