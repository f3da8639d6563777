"""Effects that wait for a majority of replicas.

    core ── Secure(record), Send, Answer ──▶ node ── Secure(record) ──▶ driver: disk, then the other replicas
                                              │  ◀──── Secured(version) ──── a majority has it
                                              └── Send, Answer: now

Without replicas nothing waits here, unless the disk has no room (`core/disk.py`): the driver performs effects
in order, the disk first. Without room nothing is written; each new record waits with all that follows it in
its step, and comes first when there is room. A core repeats `Secure` for a record before each effect that
depends on it; a record that is already written is not written again. Effects that still wait when the node
ends are dropped: its successor may not have the record.
"""

from collections.abc import Iterable
from operator import itemgetter

from rostra.core.effects import Answer, Effect, Secure, Send
from rostra.names import Domain


class WaitingEffects:
    def __init__(self, *, replicated: bool) -> None:
        self._replicated = replicated
        self._secured = 0  # the highest version that a majority has
        self._written = 0  # the highest version that the driver was given
        self._waiting: list[tuple[int, Effect]] = []
        self._full = False  # no room on our disk
        self._unwritten: list[Effect] = []  # while that is so: records, and what follows them

    def __len__(self) -> int:
        return len(self._waiting) + len(self._unwritten)

    def must_write(self, effect: Secure) -> bool:
        """Must the driver be given this record? Not if it was already, or if the disk has no room."""
        if self._full:
            return False
        new = effect.record.version > self._written
        self._written = max(self._written, effect.record.version)
        return new

    def must_wait(self, effect: Secure) -> bool:
        """Must the effects after this record wait until `secured`?"""
        if self._full:
            return bool(effect.record.version > self._written)
        return self._replicated and effect.record.version > self._secured

    def wait(self, effect: Secure, rest: Iterable[Effect]) -> list[Secure]:
        """Keep these effects. Returns the records among them, to be written now in the order of their
        versions."""
        if self._full:
            self._unwritten += [effect, *rest]
            return []
        waiting = list(rest)
        self._waiting += [(effect.record.version, each) for each in waiting]
        self._waiting.sort(key=itemgetter(0))  # what waited for two records comes before later ones
        return [each for each in waiting if isinstance(each, Secure) and self.must_write(each)]

    def secured(self, version: int) -> list[Effect]:
        """A majority has this version: returns the effects that waited for it, in order."""
        self._secured = max(self._secured, version)
        ready = [effect for wanted, effect in self._waiting if wanted <= self._secured]
        self._waiting = [each for each in self._waiting if each[0] > self._secured]
        return ready

    def room_changed(self, lacking: str) -> list[Effect]:
        """The disk has room again, or none: returns the effects to perform now, records first. With replicas,
        the election service decides instead."""
        self._full = bool(lacking) and not self._replicated
        unwritten = [] if self._full else self._unwritten
        self._unwritten = self._unwritten if self._full else []
        return unwritten

    def forget(self, peer: Domain) -> None:
        """An epoch of that link has ended: messages that waited to be sent in it are dropped."""
        self._waiting = [each for each in self._waiting if not _is_to(peer, each[1])]
        self._unwritten = [each for each in self._unwritten if not _is_to(peer, each)]

    def unanswered(self) -> list[int]:
        """The tokens of questions whose answers wait."""
        return [effect.token for _, effect in self._waiting if isinstance(effect, Answer)]


def _is_to(peer: Domain, effect: Effect) -> bool:
    return isinstance(effect, Send) and effect.to == peer
