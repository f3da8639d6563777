"""Unicast between endpoints: servers forward messages hop by hop along the tree (C-152, C-157).

    agent ─▶ cluster ─▶ ... up ... ─▶ across one sibling link ─▶ ... down ... ─▶ cluster ─▶ agent

This is the path, and these are the links, that membership notices take (C-019), so an endpoint's messages and
the notices about it arrive in order (C-153). A message to several destinations is split where their paths
part. If the next link is down, the message is dropped and the sender is sent `Undeliverable`, or a `LifeTold`
or `InquiryReply` that says "unreachable" (C-156). That reply may be lost too; the failure notice for the link
is not.

A neighbour is believed only about its own side of the link: a message is forwarded if its source is on the
side that it came from, and a reply if its subject is. A faulty node can lie only about its own subtree
(C-125).
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored, Send, ignored
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.relaxed.messages import (
    Inquiry,
    InquiryReply,
    LifeAsked,
    LifeTold,
    MessageId,
    Routed,
    ServerMessage,
    Undeliverable,
)
from rostra.protocols.relaxed.neighbours import Neighbours, Relation

OUTSIDE: Final = "source outside the sender's side"

Routable = Routed | Undeliverable | LifeAsked | LifeTold | Inquiry | InquiryReply


class Router:
    def __init__(self, neighbours: Neighbours, new_id: Callable[[], MessageId]) -> None:
        self._neighbours = neighbours
        self._new_id = new_id

    def step(self, sender: Domain, relation: Relation, message: Routable) -> list[Effect]:
        match message:
            case Routed(source=source) if self._neighbours.next_hop(host_of(source)) == sender:
                return self._split(sender, relation, message)
            case Undeliverable(source=source, destinations=destinations) if self._are_behind(
                sender, destinations
            ):
                return self._forward(sender, relation, host_of(source), message)
            case LifeAsked(watcher=watcher, endpoint=endpoint) if (
                self._neighbours.next_hop(watcher) == sender
            ):
                effects = self._forward(sender, relation, host_of(endpoint), message)
                if isinstance(effects[0], Ignored) and not message.stop:
                    unreachable = LifeTold(self._new_id(), watcher, endpoint, False, "unreachable")
                    effects.append(Send(sender, unreachable))
                return effects
            case LifeTold(watcher=watcher, endpoint=endpoint) if self._are_behind(sender, (endpoint,)):
                return self._forward(sender, relation, watcher, message)
            case Inquiry(id=id, asker=asker, to=to) if self._neighbours.next_hop(asker) == sender:
                hop = self._neighbours.hop_towards(to)
                effects = self._pass(sender, relation, hop, message)
                if isinstance(effects[0], Ignored):
                    why = f"{self._neighbours.domain} cannot reach {hop or to}"
                    effects.append(Send(sender, InquiryReply(id, asker, to, b"", why)))
                return effects
            case InquiryReply(asker=asker, of=of) if self._neighbours.hop_towards(of) == sender:
                return self._forward(sender, relation, asker, message)
            case _:
                return [ignored(message, OUTSIDE)]

    def _are_behind(self, sender: Domain, endpoints: Iterable[Endpoint]) -> bool:
        hops = {self._neighbours.next_hop(host_of(endpoint)) for endpoint in endpoints}
        return hops <= {sender}

    def _split(self, sender: Domain, relation: Relation, message: Routed) -> list[Effect]:
        by_hop = split_by_hop(self._neighbours, sender, relation, message.destinations, host_of)
        nowhere = by_hop.pop(None, ())
        effects: list[Effect] = []
        for hop, destinations in sorted((hop, way) for hop, way in by_hop.items() if hop is not None):
            if hop in self._neighbours.up:
                part = tuple(destinations)
                whole = part == message.destinations
                effects.append(Send(hop, message if whole else replace(message, destinations=part)))
            else:
                why = f"{self._neighbours.domain} cannot reach {hop}"
                effects += self._undeliverable(sender, message, destinations, "next hop is down", why)
        if nowhere:
            why = f"{self._neighbours.domain} knows no way there"
            effects += self._undeliverable(sender, message, nowhere, "off the unique path", why)
        return effects

    def _undeliverable(
        self, sender: Domain, message: Routed, destinations: Iterable[Endpoint], reason: str, why: str
    ) -> list[Effect]:
        word = Undeliverable(self._new_id(), message.source, tuple(destinations), why)
        return [ignored(message, reason), Send(sender, word)]

    def _forward(
        self, sender: Domain, relation: Relation, host: Domain, message: ServerMessage
    ) -> list[Effect]:
        return self._pass(sender, relation, self._neighbours.next_hop(host), message)

    def _pass(
        self, sender: Domain, relation: Relation, hop: Domain | None, message: ServerMessage
    ) -> list[Effect]:
        hop = self._neighbours.onward(sender, relation, hop)
        if hop is None:
            return [ignored(message, "off the unique path")]
        if hop not in self._neighbours.up:
            return [ignored(message, "next hop is down")]
        return [Send(hop, message)]


T = TypeVar("T")


def split_by_hop(
    neighbours: Neighbours,
    sender: Domain,
    relation: Relation,
    items: Iterable[T],
    host: Callable[[T], Domain],
) -> dict[Domain | None, list[T]]:
    """What goes to several hosts is split where their paths part. None: it may go nowhere."""
    by_hop: dict[Domain | None, list[T]] = {}
    for item in items:
        hop = neighbours.onward(sender, relation, neighbours.next_hop(host(item)))
        by_hop.setdefault(hop, []).append(item)
    return by_hop
