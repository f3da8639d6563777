"""What a server of a set promised to the others: how long it removes no server whose lease it confirmed."""

from collections.abc import Iterable
from math import inf

from rostra.core.effects import Instant
from rostra.names import Domain
from rostra.protocols.agreed.changes import AnyChange, ServerId, ServersFailed, SetSplit


class GivenLeases:
    """Servers that we confirmed (`lease.py`), and until when they may live by that."""

    def __init__(self) -> None:
        self._until: dict[ServerId, Instant] = {}
        self._doomed: dict[ServerId, Instant] = {}
        self._lost: dict[Domain, Instant] = {}
        self.floor: Instant = -inf  # before this any may: who had our place before us gave them leases

    def give(self, now: Instant, who: ServerId, for_s: float) -> bool:
        if now < self._doomed.get(who, -inf):
            return False
        self._until[who] = now + for_s
        return True

    def prolong(self, now: Instant, servers: Iterable[ServerId], for_s: float) -> None:
        """A change may need more of us to live than the last view did. What these servers lent by that view,
        before they acknowledged the change, runs on: no shorter than from now on."""
        self._until.update(dict.fromkeys(servers, now + for_s))

    def is_awaited(self, now: Instant) -> bool:
        """Does a removal wait for such a lease to run out?"""
        return any(now < until and now < self._doomed.get(who, -inf) for who, until in self._until.items())

    def lost(self, now: Instant, peer: Domain, for_s: float) -> None:
        """Its link ended, and not of silence: others may live by its word for as long as that."""
        self._lost[peer] = now + for_s

    def are_running(self, now: Instant, servers: tuple[ServerId, ...], doom_s: float) -> bool:
        """Do leases of these servers still run, so that their removal must wait? For `doom_s` they get no
        other lease."""
        self._until = {who: until for who, until in self._until.items() if until > now}
        self._doomed = {who: until for who, until in self._doomed.items() if until > now}
        self._lost = {peer: until for peer, until in self._lost.items() if until > now}
        self._doomed.update(dict.fromkeys(servers, now + doom_s))
        return now < self.floor or any(each in self._until or each.server in self._lost for each in servers)


def removed_by(change: AnyChange, me: ServerId | None = None) -> tuple[ServerId, ...]:
    """The servers that a change goes on without; of a split, that our own side does. We are not among them,
    if we say who we are."""
    match change:
        case ServersFailed(failed):
            return failed
        case SetSplit(first, second) if me is not None:
            return second if me in first else first
    return ()
