"""K4, K4b: a stranger invents children of a server: hosts without number, subdomains, names of the system."""

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from support.bystanders import unnoticed
from support.lab import FORGIVING, Lab, until
from support.strangers import stranger

from rostra import node as nodes
from rostra.config import parse_world
from rostra.core.effects import Effect, Event, Ignored, TimerFired
from rostra.core.stack import Service, ServiceName, Stack
from rostra.errors import BadInput
from rostra.names import Domain, Group
from rostra.node import TICK, Node
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.events import ChannelOpened, Forgotten, PacketArrived
from rostra.protocols.links.packets import Beat, Data, Hello
from rostra.protocols.relaxed.messages import Interest, InterestChanged, MessageId
from rostra.sim import World
from rostra.wire import Refusal

PARIS = Domain("eu.paris")


# Labels of the system (K4b)


def greeting(path: str, to: str, yours: int = 0, world: str = "sim") -> Hello:
    return Hello(SESSIONS_PER_LIFE + 1, yours, world, Domain(path), 1, 0, Domain(to))


@pytest.mark.parametrize("label", ["-delegate", "-seat-1", "-seat-9", "-"])
def test_a_core_has_no_child_with_a_label_of_the_system(label: str) -> None:
    """It would be taken for the server's own delegate."""
    world = World(1, domains={"eu": 1}, fifo=True).settle()
    server, ghost = world.processes[Domain("eu")].node, Domain(f"eu.{label}")
    assert server is not None
    for event in (ChannelOpened(ghost), PacketArrived(ghost, greeting(ghost, "eu"))):
        assert server.step(world.now, event) == [Ignored(type(event).__name__, "not a neighbour")]
    assert ghost not in server.links


@pytest.mark.parametrize("label", ["-delegate", "-seat-1", "-"])
async def test_a_stranger_with_a_label_of_the_system_is_refused(world: Lab, label: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    async with unnoticed(world, f"k4{label}"), stranger(world, "eu") as ghost:
        mine = now_ms * SESSIONS_PER_LIFE + 1
        ghost.hello(f"eu.{label}", "eu", now_ms, mine)
        told = await ghost.hears()
        if isinstance(told, Hello):  # what it would do next: want a group, as the delegate does
            ghost.hello(f"eu.{label}", "eu", now_ms, mine, told.mine)
            id, group = MessageId(Domain(f"eu.{label}"), 1, 1), Group("k4", Domain("eu"))
            ghost.say(Data(mine, told.mine, 1, 0, (InterestChanged(id, group, Interest.ALL),)))
            ghost.say(Beat(mine, told.mine, 0))
            while isinstance(told, Hello | Beat | Data):
                told = await ghost.hears()
        assert isinstance(told, Refusal) and told.code == "NOT_ALLOWED", told
        assert "no neighbour" in told.what


def test_nobody_is_called_so_in_a_world_file_or_on_a_command_line() -> None:
    text = '[world]\nname = "w"\n[servers]\neu = "127.0.0.1:1"\n'
    with pytest.raises(BadInput, match="begins with '-'"):
        parse_world(text + '"eu.-seat-1" = "127.0.0.1:2"\n')
    with pytest.raises(BadInput, match="begins with '-'"):
        parse_world(text).check_host(Domain("eu.-delegate"))
    parse_world(text).check_host(Domain("eu.h-1"))


# Subdomains that no world file names


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(
        tmp_path_factory.mktemp("deep"),
        servers=("eu", "eu.paris"),
        hosts=("eu.paris.h1",),
        together=(("eu", "eu.paris", "eu.paris.h1"),),
        namespaces=False,
        more=FORGIVING,
    ) as lab:
        yield lab


@pytest.mark.live
async def test_below_a_domain_that_is_no_cluster_only_listed_servers_are_let_in(deep: Lab) -> None:
    now_ms = time.time_ns() // 1_000_000
    async with stranger(deep, "eu") as ghost:
        ghost.hello("eu.ghost", "eu", now_ms, now_ms * SESSIONS_PER_LIFE + 1)
        told = await ghost.hears()
        assert isinstance(told, Refusal) and told.code == "NOT_ALLOWED", told
    assert "eu.ghost" not in (await deep.inspect("eu"))["links"]
    async with stranger(deep, "eu.paris") as host:  # any host may come: who it is, a later step asks
        await host.link("eu.paris.h9", "eu.paris", now_ms, now_ms * SESSIONS_PER_LIFE + 1)


# Hosts without number


class Quiet(Service):
    name = ServiceName("any")

    def step(self, now: float, event: Event) -> list[Effect]:
        return []


def server(**more: object) -> Node:
    stack, links = Stack(Quiet()), LinkConfig.lan()
    made = Node("sim", PARIS, stack, incarnation=1, config=links, accepts_children=True, **more)
    made.start(0.0)
    return made


def come(made: Node, now: float, host: str, *, up: bool = False) -> list[object]:
    path = Domain(f"eu.paris.{host}")
    outputs: list[object] = [*made.step(now, ChannelOpened(path))]
    if up:
        for _ in range(2):
            hello = greeting(path, PARIS, made.links[path]._mine)
            outputs += made.step(now, PacketArrived(path, hello))
        assert made.is_up(path)
    return outputs


def test_children_that_are_not_heard_of_for_ten_minutes_are_forgotten() -> None:
    made = server()
    for number in range(50):
        come(made, 1.0, f"ghost{number}")
    come(made, 1.0, "h1", up=True)
    assert len(made.links) == 52
    outputs: list[object] = []
    for minute in range(12):
        outputs += made.step(60.0 * minute, TimerFired(TICK))
    assert Forgotten(Domain("eu.paris.ghost7")) in outputs
    assert set(made.links) == {"eu", "eu.paris.h1"}, "h1 was up until a few minutes ago"
    for minute in range(12, 30):
        made.step(60.0 * minute, TimerFired(TICK))
    assert set(made.links) == {"eu"}


@pytest.mark.parametrize("luck", [0, 7])
def test_a_child_that_was_forgotten_begins_above_its_earlier_sessions(luck: int) -> None:
    """It may have stood still, in an epoch that must not come again."""
    made = server(luck=luck)
    come(made, 0.0, "h1", up=True)
    before = made.links[Domain("eu.paris.h1")]._mine
    for minute in range(30):
        made.step(60.0 * minute, TimerFired(TICK))
    assert Domain("eu.paris.h1") not in made.links
    come(made, 1800.0, "h1")
    assert made.links[Domain("eu.paris.h1")]._mine > before + 1


def test_there_is_a_bound_and_those_who_are_up_keep_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "CHILDREN_MAX", 3)
    made = server()
    come(made, 0.0, "h1", up=True)
    for number in range(100):
        come(made, 1.0, f"ghost{number}")
    assert len(made.links) == 4 and made.is_up(Domain("eu.paris.h1"))
    for number in (2, 3):
        come(made, 2.0, f"h{number}", up=True)
    assert not made.has_room_for(Domain("eu.paris.h4"))
    assert come(made, 3.0, "h4") == [Ignored("ChannelOpened", "not a neighbour")]
    assert set(made.links) == {"eu", "eu.paris.h1", "eu.paris.h2", "eu.paris.h3"}


async def test_fifty_ghosts_come_and_go_and_nobody_notices(world: Lab) -> None:
    now_ms = time.time_ns() // 1_000_000
    async with unnoticed(world, "k4-ghosts"), AsyncExitStack() as stack:
        for number in range(50):
            ghost = await stack.enter_async_context(stranger(world, "eu"))
            await ghost.link(f"eu.ghost{number}", "eu", now_ms, now_ms * SESSIONS_PER_LIFE + 1)
        await stack.aclose()
        await until(lambda: ghosts_are_down(world), "they are given up")


async def ghosts_are_down(world: Lab) -> bool:
    links = (await world.inspect("eu"))["links"]
    return not any(link["up"] for peer, link in links.items() if "ghost" in peer)
