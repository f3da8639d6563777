"""Crowds join in one turn, in the middle of a storm: all end up with everything, and no turn is long."""

from collections.abc import Sequence

import pytest

from rostra.core.effects import Effect, Event, Send
from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.protocols.fifo.events import Deliver, Joined
from rostra.protocols.front.core import JOINS_AT_ONCE, FrontCore
from rostra.protocols.relaxed.events import JoinsEnd
from rostra.protocols.relaxed.messages import EndpointsJoined, Routed
from rostra.sim.storm import storm
from rostra.sim.taps import RuleBroken, TurnWork, tapped
from rostra.sim.world import World


@pytest.mark.parametrize("seed", [*range(6), 1058])
def test_crowds_join_in_a_storm(seed):
    assert storm(seed, "crowd").verdicts


def test_a_turn_whose_work_grows_with_the_square_of_its_members_is_found():
    world = World(1, domains={"s": 1}, fifo=True)
    stack = world.processes[Domain("s.h1")].node.stack
    told = Deliver("s.h1/a#1", Group("g", Domain("s")), Joined("s.h1/b#2", "both"))
    TurnWork().stepped(Domain("s.h1"), stack, JoinsEnd(), [told] * 20)
    with pytest.raises(RuleBroken):
        TurnWork().stepped(Domain("s.h1"), stack, JoinsEnd(), [told] * 100)


class Notices:
    """How many join notices an agent sends, and how many joins are in the longest."""

    def __init__(self) -> None:
        self.joins: list[int] = []

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        sent = [each.message for each in effects if isinstance(each, Send)]
        self.joins += [len(each.members) for each in sent if isinstance(each, EndpointsJoined)]


def test_a_crowd_that_does_not_fit_into_a_turn_joins_in_several():
    """The work of a turn is bounded, and resumes where it stopped."""
    notices, group = Notices(), Group("g", Domain("s"))
    world = World(1, domains={"s": 1}, watching=tapped(notices), turn_steps=8)
    programs = [world.program("s.h1", f"p{number}") for number in range(100)]
    world.settle()
    world.gather_joins("s.h1", True)
    for program in programs:
        program.join(group)
    world.gather_joins("s.h1", False)
    world.settle()
    assert sum(notices.joins) == 100 and max(notices.joins) == JOINS_AT_ONCE
    assert all(len(program.members_of(group)) == 100 for program in programs)


def test_what_many_programs_ask_in_one_turn_is_answered_in_several():
    """The front asserts the bound: of a turn that was long, seven of eight questions were answered in it."""
    group = Group("g", Domain("s"))
    world = World(1, domains={"s": 1}, turn_steps=8)
    programs = [world.program("s.h1", f"p{number}") for number in range(100)]
    world.settle()
    world.gather_joins("s.h1", True)
    calls = [program.resolve(group) for program in programs]
    world.gather_joins("s.h1", False)
    world.settle()
    assert all(call.result is not None for call in calls)


def test_the_bound_on_the_steps_of_a_turn_is_checked(monkeypatch):
    monkeypatch.setattr(FrontCore, "has_no_time", lambda self: False)
    with pytest.raises(AssertionError, match="steps in one turn"):
        test_what_many_programs_ask_in_one_turn_is_answered_in_several()


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
    world = World(1, domains={"s": 4}, fifo=True, watching=tapped(cost), turn_steps=1000)
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
    assert all(len(program.conversation(group).members) == 4 * each for program in programs)
    return cost


def test_a_crowd_four_times_as_large_costs_as_many_messages_and_four_times_the_bytes_and_items():
    """The order in which they joined is not that of their names, which made each of them a question to the
    delegate, with the names of all others in it, and an item of its own for each of the others."""
    few, many = cost_of_a_crowd(10), cost_of_a_crowd(40)
    assert many.messages <= few.messages + 4
    assert many.bytes < 5 * few.bytes
    assert many.items <= 4 * few.items


def test_a_crowd_that_is_lost_and_comes_back_costs_each_reader_as_many_items_however_large_it_is():
    few, many = cost_of_a_crowd(10, cut_off=True), cost_of_a_crowd(40, cut_off=True)
    assert many.messages <= few.messages + 4
    assert many.bytes < 5 * few.bytes
    assert many.items <= 4 * few.items


class LongestStep:
    def __init__(self) -> None:
        self.effects = 0

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        self.effects = max(self.effects, len(effects))


def longest_steps(each: int, *, speaking: bool) -> tuple[int, int]:
    """Two sites with so many members each: of the cut between them, and of the merge."""
    longest, group = LongestStep(), Group("g", Domain("world"))
    world = World(1, domains={"a": 1, "b": 1}, fifo=True, watching=tapped(longest))
    programs = [world.program(host, f"p{n}") for host in ("a.h1", "b.h1") for n in range(each)]
    world.settle()
    for program in programs:
        program.join_fifo(group)
    world.run(8.0)
    longest.effects = 0
    world.cut("a | b").run(20.0)
    lost, longest.effects = longest.effects, 0
    if speaking:
        for program in programs:
            program.say(group, b"alone")
        world.run(1.0)
        longest.effects = 0
    world.heal().run(15.0)
    assert all(len(program.conversation(group).members) == 2 * each for program in programs)
    return lost, longest.effects


@pytest.mark.parametrize("speaking", [False, True], ids=["silent", "speaking"])
def test_the_longest_step_of_a_cut_and_of_a_merge_grows_as_the_number_of_members(speaking):
    """It grew as its square: `Left`, `Gap` and `Joined` of each lost member, to each reader (X-064)."""
    few, many = longest_steps(10, speaking=speaking), longest_steps(40, speaking=speaking)
    assert many[0] <= 4 * few[0]
    assert many[1] <= 4 * few[1]
