"""Names that administrators assign: they outlive members, servers and the network (S-002, S-010)."""

import asyncio
from typing import Any

import pytest

import rostra
from rostra.core.observer import Reporter
from rostra.errors import BadInput, NameTaken, NotAllowed
from rostra.names import Domain, Group
from rostra.protocols.access.events import NameUnassigned
from rostra.protocols.access.requests import AssignName, NamesAsked, NamesTold, ReleaseName
from rostra.protocols.relaxed.requests import Done
from rostra.testing import World, Worlds

EU = Domain("eu")
CHESS, GO = Group("lounge/chess", EU), Group("lounge/go", EU)
H1, H2 = "eu.paris.h1", "eu.rome.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 1, "eu.rome": 1})


def ask(world: World, request: Any) -> Any:
    return world.sim.administer(EU, request).result


def assigned(world: World) -> tuple[tuple[str, str], ...]:
    told = ask(world, NamesAsked())
    assert isinstance(told, NamesTold)
    return told.assigned


@pytest.mark.spec("S-010")
async def test_a_name_has_one_holder_until_it_is_released(world: World) -> None:
    assert ask(world, AssignName(CHESS, "the club of Paris")) == Done()
    assert ask(world, AssignName(CHESS, "the club of Paris")) == Done()
    assert ask(world, AssignName(CHESS, "another club")).code == NameTaken.code
    assert ask(world, AssignName(GO, "")).code == BadInput.code
    assert ask(world, AssignName(GO, "a\nb")).code == BadInput.code
    transient = Group("eu.paris.h1/a#1~1-1", EU)
    assert ask(world, AssignName(transient, "me")).code == BadInput.code
    assert ask(world, AssignName(Group("go", Domain("world")), "me")).code == NotAllowed.code
    assert assigned(world) == (("lounge/chess", "the club of Paris"),)
    assert ask(world, ReleaseName(CHESS)) == Done()
    assert ask(world, AssignName(CHESS, "another club")) == Done()


@pytest.mark.spec("S-010")
async def test_joining_a_name_that_nobody_was_assigned_is_allowed_and_seen(world: World) -> None:
    seen: list[Any] = []

    class Sees(Reporter):
        def __init__(self) -> None:
            self.shows = {NameUnassigned: lambda at, path, each: seen.append((path, each))}

    world.sim.observe(Sees())
    async with rostra.connect(H1) as ann, rostra.connect(H2) as bob:
        async with ann.join("lounge/go", "eu", membership="led"):
            assert seen == []  # where no name is assigned at all, nobody cares
        assert ask(world, AssignName(CHESS, "the club")) == Done()
        async with ann.join("lounge/chess", "eu", membership="led"):
            assert seen == []
        async with (
            ann.join("lounge/go", "eu", membership="led"),
            bob.join("lounge/go", "eu", membership="led"),
        ):
            await asyncio.sleep(2.0)
        assert seen == [(EU, NameUnassigned(GO, Domain(H1)))]  # once


@pytest.mark.spec("S-002")
async def test_an_assigned_name_outlives_the_whole_network(world: World) -> None:
    assert ask(world, AssignName(CHESS, "the club")) == Done()
    async with rostra.connect(H1) as ann, ann.join("lounge/chess", "eu", membership="led"):
        await world.settled()
    everyone = [path for path in world.sim.processes if path != "world"]
    for path in everyone:
        world.crash(path)
    await asyncio.sleep(60.0)
    for path in everyone:
        world.restart(path)
    await world.settled()
    assert assigned(world) == (("lounge/chess", "the club"),)
    async with rostra.connect(H2) as bob:
        assert (await bob.resolve("lounge/chess", "eu")).members == ()
