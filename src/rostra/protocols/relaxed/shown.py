"""Proofs of endpoints, by group: those of an agent's own programs, or those that hosts below a server showed.

A gate looks here for each record of a group that its authority closes, so a look-up must not scan: how many
proofs each host and domain has is counted as they come and go. A server checks for expired ones a few at a
time, at each step.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, MutableMapping
from itertools import islice

from rostra.names import Domain, Endpoint, Group, enclosing, host_of

Stay = tuple[Endpoint, Group]


class ProofTable(MutableMapping[Stay, bytes]):
    def __init__(self) -> None:
        self._turns: OrderedDict[Stay, None] = OrderedDict()  # whom to look at next
        self._of: dict[Group, dict[Endpoint, bytes]] = {}
        self._around: Counter[tuple[Group, str]] = Counter()  # of each group: by host, and all around it
        self._of_host: Counter[Domain] = Counter()

    def __getitem__(self, stay: Stay) -> bytes:
        me, group = stay
        return self._of[group][me]

    def __setitem__(self, stay: Stay, proof: bytes) -> None:
        """A renewed one takes the place of the old."""
        if stay not in self._turns:
            self._count(stay, 1)
            self._turns[stay] = None
        me, group = stay
        self._of.setdefault(group, {})[me] = proof

    def __delitem__(self, stay: Stay) -> None:
        del self._turns[stay]
        self._count(stay, -1)
        me, group = stay
        del self._of[group][me]
        if not self._of[group]:
            del self._of[group]

    def __iter__(self) -> Iterator[Stay]:
        return iter(self._turns)

    def __len__(self) -> int:
        return len(self._turns)

    def _count(self, stay: Stay, change: int) -> None:
        me, group = stay
        host = host_of(me)
        self._of_host[host] += change
        if not self._of_host[host]:
            del self._of_host[host]
        for each in enclosing(host):
            self._around[group, each] += change
            if not self._around[group, each]:
                del self._around[group, each]

    def of(self, group: Group) -> dict[Endpoint, bytes]:
        """In the order in which they came."""
        return self._of.get(group, {})

    def of_host(self, host: Domain) -> int:
        return self._of_host[host]

    def is_inside(self, group: Group, address: str) -> bool:
        """Is there a proof of this endpoint, or of one of this host or domain?"""
        return (group, address) in self._around or address in self.of(group)

    def next(self, count: int) -> list[tuple[Endpoint, Group, bytes]]:
        """The next proofs to check for expiry: those that were checked longest ago."""
        stays = list(islice(self._turns, count))
        for stay in stays:
            self._turns.move_to_end(stay)
        return [(*stay, self[stay]) for stay in stays]
