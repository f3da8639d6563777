"""Crowds join in one turn, in the middle of a storm: all end up with everything, and no turn is long."""

from collections.abc import Sequence

import pytest

from rostra.core.effects import Effect, Event, Send
from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.protocols.fifo.events import Deliver, Joined
from rostra.protocols.relaxed.events import JoinsEnd
from rostra.protocols.relaxed.messages import Routed
from rostra.sim.storm import CROWD, storm
from rostra.sim.taps import RuleBroken, TurnWork, tapped
from rostra.sim.world import World


@pytest.mark.parametrize("seed", [*range(6), 1058])
def test_crowds_join_in_a_storm(seed):
    assert storm(seed, CROWD).verdicts


def test_a_turn_whose_work_grows_with_the_square_of_its_members_is_found():
    world = World(1, domains={"s": 1}, fifo=True)
    stack = world.processes[Domain("s.h1")].node.stack
    told = Deliver("s.h1/a#1", Group("g", Domain("s")), Joined("s.h1/b#2", "both"))
    TurnWork().stepped(Domain("s.h1"), stack, JoinsEnd(), [told] * 30)
    with pytest.raises(RuleBroken):
        TurnWork().stepped(Domain("s.h1"), stack, JoinsEnd(), [told] * 100)


class CrowdCost:
    """Messages through the servers, the bytes of questions to the delegate and its answers, and items."""

    def __init__(self) -> None:
        self.messages = self.bytes = self.items = 0

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message=message):
                    self.messages += 1
                    self.bytes += len(message.data) if isinstance(message, Routed) else 0
                case Deliver():
                    self.items += 1


def cost_of_a_crowd(each: int, *, cut_off: bool = False) -> CrowdCost:
    """Four hosts, on which so many join in two turns, in another order than that of their names."""
    cost, group = CrowdCost(), Group("g", Domain("s"))
    world = World(1, domains={"s": 4}, fifo=True, watching=tapped(cost))
    hosts = [f"s.h{number}" for number in range(1, 5)]
    crowds = {host: [world.program(host, f"p{number}") for number in range(each)] for host in hosts}
    world.settle()
    for half in (slice(each // 2, None), slice(each // 2)):
        for host in hosts:
            world.gather_joins(host, True)
            for program in reversed(crowds[host][half]):
                program.join_fifo(group)
            world.gather_joins(host, False)
        world.run(0.02)
    world.run(8.0)
    if cut_off:
        cost.messages = cost.bytes = cost.items = 0
        world.cut("s.h1 | s").run(20.0)
        world.heal().run(10.0)
    programs = [program for crowd in crowds.values() for program in crowd]
    assert all(len(program.talk(group).members) == 4 * each for program in programs)
    return cost


def test_a_crowd_four_times_as_large_costs_as_many_messages_and_four_times_the_bytes_and_items():
    """The order in which they joined is not that of their names, which made each of them a question to the
    delegate, with the names of all others in it, and an item of its own for each of the others."""
    few, many = cost_of_a_crowd(10), cost_of_a_crowd(40)
    assert many.messages <= few.messages + 4
    assert many.bytes < 5 * few.bytes
    assert many.items <= 4 * few.items


def test_a_crowd_that_comes_back_costs_as_many_messages_however_large_it_is():
    few, many = cost_of_a_crowd(10, cut_off=True), cost_of_a_crowd(40, cut_off=True)
    assert many.messages <= few.messages + 4
    assert many.bytes < 5 * few.bytes
