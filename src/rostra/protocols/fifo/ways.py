"""Which other delegates can be reached on the data channel: the servers' word is about links, not about data.

    said something ── heard nothing for a while: ask, again and again ──▶ silent ── anything is heard ──▶ fine

An empty heartbeat asks whether it is heard, and an empty report says that it is. Nothing is asked as long as
what we say is confirmed anyway. A silent way is told to the coordinator, as one that is endlessly long; the
next tree goes around it, through a third site, and back when it is heard again (X-071). Where there is no
third site, its streams stand still, and it is noted which way it is.

The same question measures a way when its delegate comes. What servers carry is resent when it is lost: on a
bad network an answer through them tells how long it can take, and not how long it takes. Who believes that
asks too late for what it misses, and makes trees that go around.
"""

from rostra.core.effects import Instant
from rostra.names import Domain
from rostra.protocols.fifo.voice import Alarm, StepContext
from rostra.protocols.flow.messages import Heartbeat

QUESTION = Heartbeat(())

MEASURE_S = 1.0
"""When to ask again how long a way is, at least."""


class Ways:
    def __init__(self, voice: StepContext) -> None:
        self._voice = voice
        self._silent_s = voice.config.silent_s
        self._waiting: dict[Domain, Instant] = {}  # since when nothing was heard after something was said
        self._alarm = Alarm(voice, "ways")
        self._measuring: dict[Domain, Instant] = {}  # when it was asked, and no other question since
        self.silent: set[Domain] = set()

    def said(self, to: Domain) -> None:
        if to not in self._waiting:
            self._waiting[to] = self._voice.now
            self._alarm.at(self._voice.now + self._silent_s / 3)

    def heard(self, source: Domain) -> bool:
        """Is this news?"""
        self._waiting.pop(source, None)
        if source not in self.silent:
            return False
        self.silent.discard(source)
        self._voice.note("way is heard again", source)
        return True

    def gone(self, lan: Domain) -> None:
        """Its delegate is not in the group any more: nothing is expected of it."""
        self._waiting.pop(lan, None)
        self._measuring.pop(lan, None)
        self._voice.cancel_timer("measure", lan)
        self.silent.discard(lan)

    def measure(self, lan: Domain, at_most_s: float) -> None:
        """How long is this way? Asked again when an answer to this question cannot come any more."""
        self._measuring[lan] = self._voice.now
        self._voice.transmit(lan, QUESTION)
        self._voice.set_timer(max(MEASURE_S, 2 * at_most_s), "measure", lan)

    def answered(self, lan: Domain) -> float | None:
        """How long it is, if that was the answer to a question that measures."""
        asked_at = self._measuring.pop(lan, None)
        if asked_at is None:
            return None
        self._voice.cancel_timer("measure", lan)
        return self._voice.now - asked_at

    def ask(self) -> bool:
        """Has another way fallen silent?"""
        self._alarm.fired()
        voice, now = self._voice, self._voice.now
        news = False
        for lan in sorted(self._waiting):
            quiet_s = now - self._waiting[lan]
            if quiet_s >= self._silent_s / 3 - 1e-9:
                voice.transmit(lan, QUESTION)
                self._measuring.pop(lan, None)  # which of the two will be answered?
            if quiet_s >= self._silent_s and lan not in self.silent:
                self.silent.add(lan)
                voice.note("way is silent", lan)
                news = True
        if self._waiting:
            self._alarm.at(now + self._silent_s / 10)
        return news
