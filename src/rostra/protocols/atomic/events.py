"""Events and effects of groups whose messages have one order, besides those that every core shares.

programs ── OrderSubmitted ──▶ OrderAgent ── DeliverAll, Deliver ──▶ programs
"""

from rostra.core.effects import Effect, Event
from rostra.names import Endpoint, Group
from rostra.protocols.fifo.events import Item


class OrderSubmitted(Event, frozen=True, gc=False):
    """A member submits messages: `count` payloads in one block."""

    endpoint: Endpoint
    group: Group
    count: int
    block: bytes
    at: float = 0.0


class DeliverAll(Effect, frozen=True, gc=False):
    """Deliver one item to these members of this host, in the order of effects. It is encoded once."""

    endpoints: tuple[Endpoint, ...]
    group: Group
    item: Item
