"""Control messages that came before the join notice of their sender: kept, within a bound per host."""

from collections.abc import Container
from typing import Final

from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.fifo.messages import Control

KEPT_PER_HOST_MAX: Final = 256
"""Messages of one host. If it sends more, or its endpoints never become members, its oldest are dropped, and
no other host's; members ask again."""


class EarlyControl:
    """The kept messages, in the order they came; a repeated message is kept once."""

    def __init__(self) -> None:
        self._by_host: dict[Domain, dict[tuple[Endpoint, Control], int]] = {}
        self._number = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_host.values()))

    def add(self, source: Endpoint, message: Control) -> None:
        those = self._by_host.setdefault(host_of(source), {})
        if (source, message) not in those:
            if len(those) >= KEPT_PER_HOST_MAX:
                del those[next(iter(those))]
            self._number += 1
            those[source, message] = self._number

    def take(self, sources: Container[Endpoint] | None = None) -> list[tuple[Endpoint, Control]]:
        """Remove and return those of these sources, or all."""
        found = [
            (number, key)
            for those in self._by_host.values()
            for key, number in those.items()
            if sources is None or key[0] in sources
        ]
        for _, (source, message) in found:
            those = self._by_host[host_of(source)]
            del those[source, message]
            if not those:
                del self._by_host[host_of(source)]
        return [key for _, key in sorted(found, key=lambda each: each[0])]
