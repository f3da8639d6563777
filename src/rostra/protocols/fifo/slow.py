"""Receivers that do not keep up, as their delegate sees them (X-091, TX-19).

    the delegate has      ├──────── half a window, or more ────────┤
    numbers  ─────────────┬────────────────────────────────────────┬──────▶
                          │ taken by the receiver                  │ next

Such a receiver is **behind**. What the paths between sites lose or delay, the delegate does not have either;
so it is the receiver, or its host, that is slow. Its policy says what to do: block the senders (`throttle`),
expel it (`expel`, here), or write its backlog to disk (`spill.py`).
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from rostra.names import Endpoint
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Stream

if TYPE_CHECKING:
    from rostra.protocols.fifo.relay import Relay

LOOKS: Final = 5
"""Checks of receivers that may be expelled within `blocked_patience_s`."""


def is_worth(relay: "Relay", since: int, config: FifoConfig, part: int) -> bool:
    """Does what is held from this number on fill a `part`-th of a window, in messages or bytes?"""
    inbound = relay.inbound
    if inbound.next - since >= max(1, config.window_messages // part):
        return True
    enough = config.window_bytes // part
    return inbound.store.bytes >= enough and inbound.store.bytes_between(since, inbound.next) >= enough


def is_behind(relay: "Relay", next: int, config: FifoConfig) -> bool:
    return is_worth(relay, next, config, 2)


class Patience:
    """Finds the receivers to expel: those that were behind in more checks than not, for too long. A receiver
    that reads in bursts is not behind in every check.
    """

    def __init__(self, config: FifoConfig) -> None:
        self._config = config
        self._strikes: dict[tuple[Stream, Endpoint], int] = {}

    @property
    def look_s(self) -> float:
        return self._config.blocked_patience_s / LOOKS

    def look(self, running: Mapping[Stream, "Relay"], may_go: Collection[Endpoint]) -> list[Endpoint]:
        """One check: the receivers to expel now."""
        strikes: dict[tuple[Stream, Endpoint], int] = {}
        for stream, relay in running.items():
            behind = self._alone_behind(relay, may_go)
            for who in relay.pins.local:
                if who in may_go:
                    before = self._strikes.get((stream, who), 0)
                    strikes[stream, who] = before + 1 if who in behind else max(0, before - 1)
        self._strikes = strikes
        return sorted({who for (_, who), count in strikes.items() if count > LOOKS})

    def _alone_behind(self, relay: "Relay", may_go: Collection[Endpoint]) -> set[Endpoint]:
        """The receivers that are behind; none, if a receiver that must not be expelled is as far behind."""
        local = relay.pins.local
        behind = {who for who, next in local.items() if is_behind(relay, next, self._config)}
        others = [next for who, next in local.items() if who not in may_go]
        others += [next for _, next in relay.pins.lans.values()]
        furthest = min([local[who] for who in behind], default=0)
        return set() if any(next <= furthest for next in others) else behind
