"""Conversations in a pretended world: programs that speak and hear, through loss, cuts and crashes."""

import asyncio
from collections.abc import Iterator

import pytest

import rostra
from rostra.errors import NotAllowed, Refused
from rostra.names import host_of
from rostra.sim import WAN
from rostra.testing import World

H1, H2, FAR = "eu.paris.h1", "eu.paris.h2", "us.boston.h1"
SHAPE = {"eu.paris": 2, "us.boston": 1}


class Talker:
    """Says so many numbers, and keeps what it hears of whom."""

    def __init__(self, count: int) -> None:
        self.heard: dict[str, list[bytes]] = {}
        self.gaps: list[rostra.Gap] = []
        self.present: set[str] = set()
        self._count = count
        self.begin = asyncio.Event()

    async def run(self) -> None:
        async with rostra.connect() as me, me.join("chat", delivery="fifo") as chat:
            speaking = asyncio.ensure_future(self._speak(chat))
            async for item in chat:
                match item:
                    case rostra.Message(sender, body):
                        self.heard.setdefault(str(host_of(sender)), []).append(body)
                    case rostra.Gap():
                        self.gaps.append(item)
                self.present = {str(host_of(member.endpoint)) for member in chat.members}
            await speaking

    async def _speak(self, chat: rostra.Conversation) -> None:
        await self.begin.wait()
        for number in range(self._count):
            await chat.send(b"%d" % number)
            await asyncio.sleep(0.05)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(SHAPE, seed=5, links=WAN.losing(0.05))
    yield world
    world.close()


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def talkers_in(world: World, count: int) -> dict[str, Talker]:
    """One on each host, all of which know each other and begin now."""
    talkers = {str(host): Talker(count) for host in world.hosts}
    for host, talker in talkers.items():
        world.start(host, talker.run())
    world.settle()
    for talker in talkers.values():
        assert talker.present == set(talkers)
        talker.begin.set()
    return talkers


def test_everybody_hears_everybody_in_order_over_a_lossy_network(world: World) -> None:
    talkers = talkers_in(world, 50)
    world.run(for_s=15)
    for host, talker in talkers.items():
        assert talker.heard == {other: numbers(50) for other in talkers if other != host}


def test_a_short_cut_costs_no_message_and_a_crash_is_told(world: World) -> None:
    talkers = talkers_in(world, 100)
    world.run(for_s=2)
    world.cut("eu | us")
    world.run(for_s=1)
    world.heal()
    world.run(for_s=20)
    assert talkers[H1].heard[FAR] == talkers[H2].heard[FAR] == numbers(100)
    assert talkers[FAR].heard == {H1: numbers(100), H2: numbers(100)} and not talkers[FAR].gaps
    world.crash(H1)
    world.run(for_s=10)
    assert talkers[H2].present == talkers[FAR].present == {H2, FAR}


def test_the_kind_of_a_group_is_its_first_members_choice(world: World) -> None:
    async def both() -> None:
        async with (
            rostra.connect(H1) as ann,
            rostra.connect(FAR) as bob,
            ann.join("plain"),
            ann.join("spoken", delivery="fifo"),
        ):
            await world.settled()
            with pytest.raises(NotAllowed, match='delivery="none"'):
                await bob.join("plain", delivery="fifo")
            with pytest.raises(NotAllowed, match='delivery="fifo"'):
                await ann.join("spoken")

    world.run(both())


def test_the_same_seed_is_the_same_conversation() -> None:
    def trace(seed: int) -> tuple[str, ...]:
        world = World(SHAPE, seed=seed, links=WAN.losing(0.1))
        talkers_in(world, 20)
        world.run(for_s=10)
        world.close()
        return world.trace

    assert trace(1) == trace(1)


def test_a_member_that_a_stronger_kind_put_out_is_told_what_the_group_is_now() -> None:
    """To join it again as before would be refused."""
    world = World({"eu.paris": 2}, seed=5)

    async def weak() -> rostra.RostraError | None:
        async with rostra.connect() as me:
            try:
                async with me.join("chat", "eu", delivery="fifo") as chat:
                    async for _ in chat:
                        pass
            except rostra.RostraError as error:
                return error
        return None

    async def strong() -> None:
        async with rostra.connect() as me, me.join("chat", "eu", membership="led", delivery="fifo"):
            await asyncio.sleep(30)

    task = world.start(H1, weak())
    world.run(for_s=5)
    world.start(H2, strong())
    world.run(for_s=20)
    error = task.result()
    world.close()
    assert isinstance(error, Refused) and "chat@eu is led, fifo" in error.what
    assert error.fix == "join it so, or choose another name"
