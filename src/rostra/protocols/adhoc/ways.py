"""Which other delegates can be reached on the data channel: the servers' word is about links, not about data.

    said something ── heard nothing for a while: ask, again and again ──▶ silent ── anything is heard ──▶ fine

An empty heartbeat asks whether it is heard, and an empty report says that it is. Nothing is asked as long as
what we say is confirmed anyway. A silent way is told to the coordinator, as one that is endlessly long; the
next tree goes around it, through a third site, and back when it is heard again (X-071). Where there is no
third site, its streams stand still, and it is noted which way it is.
"""

from rostra.names import Domain
from rostra.protocols.adhoc.messages import Heartbeat
from rostra.protocols.adhoc.voice import Alarm, Voice
from rostra.protocols.effects import Instant

QUESTION = Heartbeat(())


class Ways:
    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._silent_s = voice.config.silent_s
        self._waiting: dict[Domain, Instant] = {}  # since when nothing was heard after something was said
        self._alarm = Alarm(voice, "ways")
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
        self.silent.discard(lan)

    def ask(self) -> bool:
        """Has another way fallen silent?"""
        self._alarm.fired()
        voice, now = self._voice, self._voice.now
        news = False
        for lan in sorted(self._waiting):
            quiet_s = now - self._waiting[lan]
            if quiet_s >= self._silent_s / 3 - 1e-9:
                voice.transmit(lan, QUESTION)
            if quiet_s >= self._silent_s and lan not in self.silent:
                self.silent.add(lan)
                voice.note("way is silent", lan)
                news = True
        if self._waiting:
            self._alarm.at(now + self._silent_s / 10)
        return news
