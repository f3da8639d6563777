"""Groups with ``delivery="atomic"`` are independent: what befalls one of them does not reach another."""

import asyncio

import pytest

import rostra
from rostra.groups.items import Message
from rostra.testing import World

GROUPS = 50


class Speaker:
    """A program that is in many groups: it says a word in each of them, again and again."""

    def __init__(self, world: World, names: list[str]) -> None:
        self.world, self.names = world, names
        self.groups: dict[str, rostra.Ordered] = {}
        self.took: dict[str, list[tuple[float, float]]] = {name: [] for name in names}  # when, how long
        self.heard: dict[str, list[bytes]] = {name: [] for name in names}

    async def run(self) -> None:
        async with rostra.connect() as me:
            for name in self.names:
                self.groups[name] = await me.join(name, "paris", membership="agreed", delivery="atomic")
            await asyncio.gather(*[each(name) for name in self.names for each in (self.say, self.hear)])

    async def say(self, name: str) -> None:
        while True:
            began = self.world.now
            await self.groups[name].send(name.encode())
            self.took[name].append((began, self.world.now - began))
            await asyncio.sleep(0.5)

    async def hear(self, name: str) -> None:
        async for item in self.groups[name]:
            if isinstance(item, Message):
                self.heard[name].append(item.body)


async def stay(name: str, sizes: set[int]) -> None:
    async with rostra.connect() as me:
        group = await me.join(name, "paris", membership="agreed", delivery="atomic")
        async for _ in group:
            sizes.add(len(group.members))


@pytest.mark.spec("A-001", "A-008")
def test_a_group_that_lost_a_member_holds_up_no_other() -> None:
    """XA-22: of 50 groups of one program one loses a host, and waits until that is certain. A message of one
    group is never delivered in another."""
    world = World({"paris": 3}, seed=5)
    names = [f"g{number}" for number in range(GROUPS)]
    speaker, other = Speaker(world, names), Speaker(world, names)
    world.start("paris.h1", speaker.run())
    world.start("paris.h2", other.run())
    world.run(for_s=3)
    sizes: set[int] = set()
    world.start("paris.h3", stay("g0", sizes))
    world.run(for_s=2)
    assert 3 in sizes
    crashed = world.now
    world.crash("paris.h3")
    world.run(for_s=6)
    world.close()

    since = {
        name: [took for began, took in each if began > crashed - 0.5] for name, each in speaker.took.items()
    }
    slowest = {name: max(took) for name, took in since.items()}
    before = max(took for each in speaker.took.values() for began, took in each if 3 < began < crashed - 0.5)
    assert slowest.pop("g0") > 0.5  # it waited for the one that is lost
    assert max(slowest.values()) <= 2 * before < 0.1
    for each in (speaker, other):
        assert all(set(heard) == {name.encode()} for name, heard in each.heard.items())
        assert all(len(heard) > 10 for heard in each.heard.values())
