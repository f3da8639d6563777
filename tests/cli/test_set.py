"""`rostra set`: what nodes say of a led set, made into one picture."""

import pytest

from rostra.cli.set import document, show
from rostra.client.sight import Sight
from rostra.names import Domain, Group
from rostra.protocols.led.requests import CreateSet
from rostra.runtime.led_state import led_document
from rostra.sim.shapes import clusters
from rostra.sim.world import World

CHESS = Group("chess", Domain("eu"))
START = Domain("eu.fr.h1")


def sight_of(world: World) -> Sight:
    nodes = {path: process.node for path, process in world.processes.items()}
    documents = {
        path: {"led": led_document(node.stack, world.now)} for path, node in nodes.items() if node is not None
    }
    return Sight(START, "sim", documents, {})


@pytest.fixture(scope="module")
def world() -> World:
    world = World(3, tree=clusters({"eu.fr": 2, "eu.de": 1}), history=False)
    world.run(4.0)
    for host in ("eu.fr.h1", "eu.de.h1", "eu.fr.h2"):
        world.program(Domain(host), "p").join_led(CHESS)
        world.run(3.0)
    return world


def test_the_leader_the_registrar_and_the_tree_are_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(CHESS, sight_of(world))
    assert found["leaders"] == ["eu.fr.h1"]
    assert found["registrars"]["eu"]["leader"] == "eu.fr.h1"
    assert {each["parent"] for each in found["agents"].values()} == {None, "eu.fr.h1"}
    lists = found["agents"]["eu.fr.h1"]["lists"]
    assert [(each["origin"], each["members"]) for each in lists] == [
        ("eu.de.h1", 1),
        ("eu.fr.h1", 1),
        ("eu.fr.h2", 1),
    ]
    show(found)
    said = capsys.readouterr().out
    assert "chess@eu   led by eu.fr.h1   3 members" in said
    assert "registrar: eu names eu.fr.h1" in said
    assert "eu.fr.h1   leader, 1 of its own\n  eu.de.h1   child, 1 of its own\n  eu.fr.h2   child" in said


def test_two_leaders_and_a_parent_out_of_sight_are_shown_as_they_are(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    sight = sight_of(world)
    alone = Sight(START, "sim", {"eu.de.h1": sight.documents[Domain("eu.de.h1")]}, {})  # type: ignore[dict-item]
    found = document(CHESS, alone)
    assert found["leaders"] == []
    show(found)
    said = capsys.readouterr().out
    assert "no leader is in sight" in said
    assert "eu.de.h1   child, 1 of its own, its parent eu.fr.h1 is not in sight" in said


def test_a_transient_set_is_led_by_its_owners_agent(world: World) -> None:
    owner = world.program(START, "owner")
    call = owner.ask(CreateSet(Domain("eu"), 5))
    world.run(1.0)
    found = document(call.result.group, sight_of(world))
    assert found["leaders"] == ["eu.fr.h1"] and found["registrars"] == {}
