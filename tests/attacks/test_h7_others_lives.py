"""A compromised agent speaks of endpoints that are not its own (H7)."""

import pytest

from rostra.core.effects import Send
from rostra.names import Domain, Endpoint
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import InquiryReply, LifeTold, MessageId, Undeliverable
from rostra.protocols.relaxed.requests import Life, NotDelivered, Recall, Recalled
from rostra.sim import World
from rostra.sim.history import NoticeRecord
from rostra.sim.programs import SimProgram

VICTIM, WATCHER, ATTACKER = Domain("eu.h1"), Domain("us.h1"), Domain("eu.h2")


def told(simulated: World, program: SimProgram, kind: type) -> list[object]:
    records = simulated.history or ()
    return [
        r.notice
        for r in records
        if isinstance(r, NoticeRecord) and r.endpoint == program.endpoint and isinstance(r.notice, kind)
    ]


def forge(simulated: World, message: object) -> None:
    """The attacker's node says this to its server, whatever its own core thinks."""
    node = simulated.processes[ATTACKER].node
    assert node is not None
    node._perform([Send(Domain("eu"), message)], [])
    simulated.nodes.dirty[simulated.processes[ATTACKER]] = None
    simulated.run(1.0)


@pytest.fixture
def simulated() -> World:
    return World(1, domains={"eu": ("h1", "h2"), "us": ("h1",)}).settle()


@pytest.fixture
def victim(simulated: World) -> SimProgram:
    return simulated.program(VICTIM, "victim")


@pytest.fixture
def watcher(simulated: World) -> SimProgram:
    return simulated.program(WATCHER, "watcher")


def test_the_life_of_an_endpoint_on_another_host_is_not_ended(
    simulated: World, victim: SimProgram, watcher: SimProgram
) -> None:
    watcher.watch_life(victim)
    simulated.settle()
    for author in (VICTIM, ATTACKER):
        forge(
            simulated, LifeTold(MessageId(author, 1_000, 1 << 40), WATCHER, victim.address, False, "crashed")
        )
    assert told(simulated, watcher, Life) == [Life(victim.address, True)]
    victim.kill()
    simulated.settle()
    assert told(simulated, watcher, Life)[1:] == [Life(victim.address, False, "crashed")]


def test_a_message_to_another_host_is_not_called_undeliverable(
    simulated: World, victim: SimProgram, watcher: SimProgram
) -> None:
    watcher.send(b"hello", victim)
    simulated.settle()
    lie = Undeliverable(MessageId(ATTACKER, 1_000, 1), watcher.address, (victim.address,), "gone")
    forge(simulated, lie)
    assert told(simulated, watcher, NotDelivered) == []


def test_the_memory_of_another_server_is_not_forged(simulated: World, watcher: SimProgram) -> None:
    simulated.settle()
    simulated.hold("link eu.h1 > eu")  # the true answer is on its way
    asked = watcher.ask(Recall("eu.h1", VICTIM))
    simulated.run(0.5)
    (id,) = simulated.processes[WATCHER].stack[AGENT].inquiries.open
    forge(simulated, InquiryReply(id, WATCHER, VICTIM, b'{"all": "lies"}'))
    simulated.release()
    simulated.settle()
    assert isinstance(asked.result, Recalled) and b"lies" not in asked.result.document


def test_an_agent_believes_nobody_else_about_its_own_endpoints(simulated: World, victim: SimProgram) -> None:
    """Not even its own server."""
    other = simulated.program(VICTIM, "other")
    other.watch_life(victim)
    simulated.settle()
    server = simulated.processes[Domain("eu")].node
    assert server is not None
    lie = LifeTold(MessageId(VICTIM, 1_000, 1 << 40), VICTIM, Endpoint(victim.address), False, "crashed")
    server._perform([Send(VICTIM, lie)], [])
    simulated.nodes.dirty[simulated.processes[Domain("eu")]] = None
    simulated.settle()
    assert told(simulated, other, Life) == [Life(victim.address, True)]
