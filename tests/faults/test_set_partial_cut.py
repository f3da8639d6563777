"""A site that reaches its siblings and not its parent: reachability is not transitive.

P-1 to P-4 speak of partitions: agents that all reach each other, and nothing else. A partial cut makes none.
What holds then is less, and is tried here: no cycle, no list but a leader's, members that were in stay on
a list, and after healing one leader with all members."""

import pytest

from rostra.names import Domain, Group
from rostra.protocols.led.invariants import exact_list, no_cycle, one_leader
from rostra.protocols.relaxed.requests import Absolute, Denied, Done
from rostra.sim.set_storm import agents_of, states_of
from rostra.sim.shapes import clusters
from rostra.sim.world import World

OLD, NEW = Group("chess", Domain("eu")), Group("go", Domain("eu"))
SITES = ("eu.de", "eu.fr", "eu.it")
LATE = Domain("eu.fr.h2")


def leaders(world: World, group: Group) -> list[Domain]:
    return [path for path, led in agents_of(world).items() if group in led.trees and led.trees[group].leads]


def registrars(world: World) -> set[object]:
    found = [led.registrars.get(OLD.scope) for led in agents_of(world).values()]
    return {each for each in found if each is not None}


@pytest.mark.spec("S-066", "S-067", "S-068")
@pytest.mark.parametrize("site", SITES)
def test_sets_of_a_partial_cut_have_one_leader_and_an_exact_list_after_it(site: str) -> None:
    world = World(1, clusters({"eu.de": 1, "eu.fr": 2, "eu.it": 1}), history=False)
    world.run(4.0)
    hosts = [host for host in sorted(world.tree.hosts) if host != LATE]
    programs = [world.program(host, f"p{number}") for number, host in enumerate(hosts)]
    for program in programs:
        program.join_led(OLD)
        world.run(1.0)
    assert leaders(world, OLD) == ["eu.de.h1"]

    world.cut(f"link {site} | eu")
    world.run(30.0)  # the lease of a leader that does not reach the registrar is over
    late = world.program(LATE, "late")
    joins = [
        (each, group, each.join_led(group)) for each, group in ((late, OLD), *[(p, NEW) for p in programs])
    ]
    world.run(40.0)
    assert len(registrars(world)) == 2, "the cut site has another registrar: P-1 does not hold"
    assert "eu.de.h1" in leaders(world, OLD), "a tree that stands needs no registrar"
    # The leader cannot tell the registrar that it leads, and the late one hears of no leader.
    assert len(leaders(world, OLD)) == (2 if site == "eu.de" else 1)
    for each, _, join in joins:
        if join.result != Done():  # a claim that does not reach the server of the scope
            assert isinstance(join.result, Denied) and join.result.retriable and each.host.startswith(site)
    for group in (OLD, NEW):
        assert not no_cycle(states_of(world, group))
        calls = [each.resolve(group) for each in programs]
        world.run(10.0)
        for call in calls:
            assert isinstance(call.result, Absolute) or (
                isinstance(call.result, Denied) and call.result.retriable
            )

    world.heal()
    world.run(10.0)
    for each, group, join in joins:
        if join.result != Done():
            each.join_led(group)
    world.run(40.0)
    assert len(registrars(world)) == 1
    for group, members in ((OLD, 4), (NEW, 3)):
        states = states_of(world, group)
        assert not one_leader(states)
        (leader,) = leaders(world, group)
        entries = agents_of(world)[leader].trees[group].entries
        assert not exact_list(entries, states) and sum(len(each.members) for each in entries) == members
