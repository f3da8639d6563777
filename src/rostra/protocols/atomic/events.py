"""Events and effects of groups whose messages have one order, besides those that every core shares.

programs ── OrderSubmitted ──▶ OrderAgent ── DeliverAll, Deliver ──▶ programs
data channel ── FramesHeard ──▶ OrderAgent ── Transmit ──▶ data channel
"""

from typing import Any

from rostra.core.effects import Effect, Event, Observation
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.atomic.messages import AnyHubMessage, HubMessage
from rostra.protocols.fifo.events import Heard, Item
from rostra.protocols.flow.messages import DataMessage


class OrderSubmitted(Event, frozen=True, gc=False):
    """A member submits messages: `count` payloads in one block."""

    endpoint: Endpoint
    group: Group
    count: int
    block: bytes
    at: float = 0.0


class FramesHeard(Event, frozen=True, gc=False):
    """What stations of this group said in one datagram."""

    group: Group
    source: Domain
    messages: tuple[AnyHubMessage, ...]


def heard(group: Group, source: Domain, messages: tuple[Any, ...]) -> Heard | FramesHeard:
    """A datagram of a group, as an event of the service whose messages are in it."""
    if messages and isinstance(messages[0], HubMessage):
        hub: list[Any] = [each for each in messages if isinstance(each, HubMessage)]
        return FramesHeard(group, source, tuple(hub))
    flow: list[Any] = [each for each in messages if isinstance(each, DataMessage)]
    return Heard(group, source, tuple(flow))


class DeliverAll(Effect, frozen=True, gc=False):
    """Deliver one item to these members of this host, in the order of effects. It is encoded once."""

    endpoints: tuple[Endpoint, ...]
    group: Group
    item: Item


class HubPost(Effect, frozen=True, gc=False):
    """From one station to another; the agent chooses the way."""

    to: Domain
    group: Group
    message: AnyHubMessage


class OrderFlushed(Observation, frozen=True):
    """This station orders from now on: with which view it began, at which position, and how many follow."""

    group: Group
    view: int
    position: int
    stations: int
