"""A compromised agent speaks of endpoints that are not its own (H7)."""

import pytest

from rostra.names import Domain, Endpoint
from rostra.protocols.effects import Send
from rostra.protocols.resolve.messages import LifeTold, MessageId, Report, Undeliverable
from rostra.protocols.resolve.requests import Life, NotDelivered, Recall, Recalled
from rostra.sim import World
from rostra.sim.history import Told
from rostra.sim.programs import Program

VICTIM, WATCHER, ATTACKER = Domain("eu.h1"), Domain("us.h1"), Domain("eu.h2")


def told(world: World, program: Program, kind: type) -> list[object]:
    records = world.history or ()
    return [
        r.notice
        for r in records
        if isinstance(r, Told) and r.endpoint == program.endpoint and isinstance(r.notice, kind)
    ]


def forge(world: World, message: object) -> None:
    """The attacker's node says this to its server, whatever its own core thinks."""
    node = world.processes[ATTACKER].node
    assert node is not None
    node._perform([Send(Domain("eu"), message)], [])
    world._dirty[world.processes[ATTACKER]] = None
    world.run(1.0)


@pytest.fixture
def world() -> World:
    return World(1, domains={"eu": ("h1", "h2"), "us": ("h1",)}).settle()


@pytest.fixture
def victim(world: World) -> Program:
    return world.program(VICTIM, "victim")


@pytest.fixture
def watcher(world: World) -> Program:
    return world.program(WATCHER, "watcher")


def test_the_life_of_an_endpoint_on_another_host_is_not_ended(
    world: World, victim: Program, watcher: Program
) -> None:
    watcher.watch_life(victim)
    world.settle()
    for author in (VICTIM, ATTACKER):
        forge(world, LifeTold(MessageId(author, 1_000, 1 << 40), WATCHER, victim.address, False, "crashed"))
    assert told(world, watcher, Life) == [Life(victim.address, True)]
    victim.kill()
    world.settle()
    assert told(world, watcher, Life)[1:] == [Life(victim.address, False, "crashed")]


def test_a_message_to_another_host_is_not_called_undeliverable(
    world: World, victim: Program, watcher: Program
) -> None:
    watcher.send(b"hello", victim)
    world.settle()
    lie = Undeliverable(MessageId(ATTACKER, 1_000, 1), watcher.address, (victim.address,), "gone")
    forge(world, lie)
    assert told(world, watcher, NotDelivered) == []


def test_the_memory_of_another_server_is_not_forged(world: World, watcher: Program) -> None:
    world.settle()
    world.hold("link eu.h1 > eu")  # the true answer is on its way
    asked = watcher.ask(Recall("eu.h1", VICTIM))
    agent = world.processes[WATCHER].node
    assert agent is not None
    world.run(0.5)
    (id,) = agent.core.inquiries.open  # type: ignore[attr-defined]
    forge(world, Report(id, WATCHER, VICTIM, b'{"all": "lies"}'))
    world.release()
    world.settle()
    assert isinstance(asked.result, Recalled) and b"lies" not in asked.result.document


def test_an_agent_believes_nobody_else_about_its_own_endpoints(world: World, victim: Program) -> None:
    """Not even its own server."""
    other = world.program(VICTIM, "other")
    other.watch_life(victim)
    world.settle()
    server = world.processes[Domain("eu")].node
    assert server is not None
    lie = LifeTold(MessageId(VICTIM, 1_000, 1 << 40), VICTIM, Endpoint(victim.address), False, "crashed")
    server._perform([Send(VICTIM, lie)], [])
    world._dirty[world.processes[Domain("eu")]] = None
    world.settle()
    assert told(world, other, Life) == [Life(victim.address, True)]
