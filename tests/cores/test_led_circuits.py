"""Circuits between two agents, with the links that they are made of."""

from typing import Any

import pytest

from rostra.core.effects import Event
from rostra.names import Domain, Group
from rostra.protocols.led.circuits import LOOK_EVERY_S, Circuits, patient
from rostra.protocols.led.core import CircuitDown, CircuitUp, TreeReceived
from rostra.protocols.led.messages import DetachedFromSet
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.packets import Bye

H1, H2 = Domain("eu.fr.h1"), Domain("eu.fr.h2")
CHESS = Group("chess", Domain("eu"))
IDLE_S = 10.0


class Side:
    def __init__(self, me: Domain, peer: Domain) -> None:
        self.me, self.peer = me, peer
        self.circuits = Circuits("test", me, 1, patient(LinkConfig.lan()), IDLE_S)
        self.needed: set[Domain] = set()
        self.posted: list[Any] = []
        self.events: list[Event] = []

    def post(self, to: Domain, packet: Any) -> None:
        self.posted.append(packet)

    def give(self, peer: Domain, event: Event) -> None:
        self.events.append(event)

    def arrived(self, now: float, packet: Any) -> None:
        self.circuits.arrived(now, self.peer, packet, lambda: self.needed, self.post, self.give)

    def tick(self, now: float) -> None:
        self.circuits.tick(now, lambda: self.needed, self.post, self.give)


class Pair:
    """Two agents whose servers carry all letters, at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sides = [Side(H1, H2), Side(H2, H1)]
        for each in self.sides:
            each.circuits.opened(self.now, each.post, each.give)

    def flow(self) -> None:
        while any(each.posted for each in self.sides):
            for one, other in (self.sides, self.sides[::-1]):
                packets, one.posted = one.posted, []
                for packet in packets:
                    other.arrived(self.now, packet)

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while self.now < until:
            self.now += 0.5
            for each in self.sides:
                each.tick(self.now)
            self.flow()


@pytest.mark.spec("S-039", "S-061")
@pytest.mark.parametrize("is_needed", [True, False])
def test_a_circuit_that_the_other_side_ends_for_want_of_use_is_made_again_where_it_is_needed(
    is_needed: bool,
) -> None:
    """The letter that ends it crosses the first use of it."""
    pair = Pair()
    one, other = pair.sides
    one.circuits.want(pair.now, H2, one.post)
    pair.run(1.0)
    assert [type(each) for each in one.events] == [CircuitUp] == [type(each) for each in other.events]
    one.needed = {H2}
    while not any(isinstance(each, Bye) for each in other.posted):
        assert pair.now < IDLE_S + 3 * LOOK_EVERY_S, "it is not ended"
        pair.flow()
        pair.now += 0.5
        for each in pair.sides:
            each.tick(pair.now)
    one.needed = {H2} if is_needed else set()
    one.events.clear()
    pair.flow()
    pair.run(1.0)
    assert [type(each) for each in one.events] == [CircuitDown, CircuitUp][: 1 + is_needed]
    assert one.circuits.links.keys() == one.circuits.up == one.needed


@pytest.mark.spec("S-039")
def test_an_agent_without_its_server_sends_nothing_and_goes_on_where_it_was() -> None:
    pair = Pair()
    one, other = pair.sides
    one.needed, other.needed = {H2}, {H1}
    one.circuits.want(pair.now, H2, one.post)
    pair.run(1.0)
    one.circuits.closed(pair.now, one.post, one.give)
    pair.run(1.0)
    one.tick(pair.now)
    one.circuits.send(pair.now, H2, DetachedFromSet(CHESS), one.post, one.give)
    assert not one.posted and one.circuits.up == {H2}
    one.circuits.opened(pair.now, one.post, one.give)
    pair.run(1.0)
    assert [type(each) for each in other.events] == [CircuitUp, TreeReceived]
