"""Merges of the links that came up: only a few are open per link at a time, and the others wait (C-178).

    link up ── one merge per group, in the order of groups ──▶ waiting ──▶ open (MERGES_MAX) ──▶ ended

The interest in all groups is announced before the first merge, so the changes of a group that waits arrive
meanwhile, and its merge is a baseline that comes later. A link with ten thousand groups costs both ends ten
thousand collections either way; with this bound, requests of other neighbours are served in between.
"""

from collections import Counter, deque
from typing import Final

from rostra.names import Domain, Group
from rostra.protocols.relaxed.collection import CollectionKind

MERGES_MAX: Final = 64
"""Open merges of one link. Raising it: a merge of many groups takes fewer round trips, and holds up more."""


class MergeQueue:
    def __init__(self) -> None:
        self._open: Counter[Domain] = Counter()
        self._waiting: dict[Domain, deque[tuple[CollectionKind, Group]]] = {}

    def add(self, peer: Domain, kind: CollectionKind, group: Group) -> None:
        self._waiting.setdefault(peer, deque()).append((kind, group))

    def next(self, peer: Domain) -> tuple[CollectionKind, Group] | None:
        """The next one to open, if there is room for it."""
        waiting = self._waiting.get(peer)
        if not waiting or self._open[peer] >= MERGES_MAX:
            return None
        due = waiting.popleft()
        if not waiting:
            del self._waiting[peer]
        return due

    def began(self, peer: Domain) -> None:
        self._open[peer] += 1

    def ended(self, peer: Domain) -> None:
        self._open[peer] -= 1
        assert self._open[peer] >= 0, f"more merges of {peer} ended than began"

    def forget(self, peer: Domain) -> None:
        """Its link is down: what waits would serve an epoch that has ended."""
        self._waiting.pop(peer, None)

    def waiting(self, peer: Domain) -> int:
        return len(self._waiting.get(peer, ()))
