"""A partial cut of seven servers: three and two cannot see each other, two see all. A set makes two parts of
it, not more, and of a group whose rule lets one side live, one lives."""

import itertools
from collections import Counter
from random import Random

import pytest
from support.seeds import seeds

from rostra.names import Domain, Group
from rostra.protocols.agreed import groups
from rostra.protocols.agreed.rules import Verdict
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

LEDGER = Group("ledger", Domain("world"))
SITES = ("a", "b", "c", "d", "e", "f", "g")
"""Children of the root, which has no server of its own: the set is these seven alone."""


def parts_of(world: World) -> Counter[frozenset[Domain]]:
    """The views that the servers have of their set."""
    views = []
    for site in SITES:
        view = world.processes[Domain(site)].stack[AGREED_SERVER].sets[Domain("world")].core.state.view
        views.append(frozenset([each.server for each in view.servers]))
    return Counter(views)


def living(programs: list[SimProgram]) -> list[SimProgram]:
    return [each for each in programs if not each.agreed[LEDGER].blocked]


def cut_world(seed: int) -> tuple[World, list[SimProgram], set[str]]:
    """And who are the two that are cut off from three others."""
    world = World(seed, domains=dict.fromkeys(SITES, 1), timers=LinkConfig.lan().over_datagrams())
    world.run(4.0)
    programs = []
    for site in SITES:
        program = world.program(f"{site}.h1", f"p{site}")
        call = program.join_agreed(LEDGER, survive="majority")
        world.run(2.0)
        assert call.result == Done(), call.result
        programs.append(program)
    assert parts_of(world) == {frozenset(map(Domain, SITES)) | others(world): 7}
    luck = Random(f"partial cut {seed}")
    sites = luck.sample(SITES, 7)
    two = sites[3:5]
    links = list(itertools.product(sites[:3], two))
    luck.shuffle(links)
    world.run(luck.uniform(0.0, 1.0))
    for one, other in links:
        world.cut(f"link {one} | {other}")
    return world, programs, set(two)


def others(world: World) -> frozenset[Domain]:
    """The root's server, if this world has one."""
    root = Domain("world")
    return frozenset([root] if root in world.processes and world.processes[root].node is not None else [])


def outside_later(programs: list[SimProgram]) -> list[str]:
    """Of those that live now, who is not in the view of another that has a later one?"""
    views = [(each.host, each.agreed[LEDGER]) for each in living(programs)]
    return [
        f"{host} lives outside of the view of {other}"
        for host, one in views
        for other, two in views
        if one.view is not None and two.view is not None and (one.view.fence or 0) < (two.view.fence or 0)
        if not any(str(member).startswith(f"{host}/") for member in two.members)
    ]


@pytest.mark.spec("V-091")
@pytest.mark.parametrize("seed", [*seeds(1), 4])
def test_a_partial_cut_makes_two_parts_and_the_larger_one_lives(seed: int) -> None:
    """Those between go with the three: five of seven stay together."""
    world, programs, two = cut_world(seed)
    for _ in range(40):
        world.run(0.5)
        assert not outside_later(programs)
    parts = parts_of(world)
    assert sorted([len(part - others(world)) for part in parts]) == [2, 5], parts
    alive = living(programs)
    assert {str(each.host)[0] for each in alive} == {*SITES} - two
    for each in alive:
        assert len(each.agreed[LEDGER].members) == 5
    world.heal()
    world.run(30.0)
    assert len(living(programs)) == 7 and len(parts_of(world)) == 1


def test_a_rule_that_is_not_asked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "standing", lambda *_: Verdict(True, ""))
    world, programs, _ = cut_world(0)
    world.run(20.0)
    assert len(living(programs)) == 7, "both sides"
