"""Members of a group with ``stable="majority"`` that leave, most of them at once: what a majority had is with
those who stay."""

import asyncio
from collections.abc import Iterator

import pytest

import rostra
from rostra.impair.quality import LineQuality, Uniform
from rostra.testing import World

HOSTS = tuple(f"paris.h{n}" for n in range(1, 6))
LOST = LineQuality(Uniform(0.0001, 0.001), loss=1.0)
SOUND = LineQuality(Uniform(0.0001, 0.001))


class Leaver:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.views: list[rostra.View] = []
        self.excluded: rostra.Excluded | None = None
        self.group: rostra.Ordered | None = None
        self.go = asyncio.Event()

    async def run(self, name: str) -> None:
        async with (
            rostra.connect(name=name) as me,
            me.join(
                *("ledger", "paris"),
                membership="agreed",
                delivery="atomic",
                stable="majority",
                survive="majority",
            ) as self.group,
        ):
            reading = asyncio.create_task(self.read(self.group))
            await self.go.wait()
            await self.group.leave()
            await reading

    async def read(self, group: rostra.Ordered) -> None:
        try:
            async for item in group:
                if isinstance(item, rostra.Message):
                    self.bodies.append(item.body)
                elif isinstance(item, rostra.View):
                    self.views.append(item)
        except rostra.Excluded as excluded:
            self.excluded = excluded


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 5}, seed=3)
    yield world
    world.close()


def gathered(world: World) -> list[Leaver]:
    members = [Leaver() for _ in HOSTS]
    for nth, (host, member) in enumerate(zip(HOSTS, members, strict=True)):
        world.start(host, member.run(f"m{nth}"))
        world.run(for_s=1)
    assert [len(each.views[-1].members) for each in members] == [5] * 5
    return members


def test_what_was_stable_is_with_those_who_stay_though_most_leave_the_orderer_among_them(
    world: World,
) -> None:
    members = gathered(world)
    for host in HOSTS[3:]:
        world.sim.make(host, LOST, "data")
    first = members[0].group
    assert first is not None
    said = world.start(HOSTS[0], first.send(b"stable"))
    world.run(for_s=0.1)
    assert said.result().position
    assert not members[3].bodies and not members[4].bodies
    for each in members[:3]:
        each.go.set()
    world.run(for_s=0.2)
    for host in HOSTS[3:]:
        world.sim.make(host, SOUND, "data")
    world.run(for_s=5)
    for each in members[3:]:
        assert each.excluded is None
        assert each.bodies == [b"stable"]
        assert len(each.views[-1].members) == 2 and len(each.views[-1].failed) == 0
    fourth = members[3].group
    assert fourth is not None
    again = world.start(HOSTS[3], fourth.send(b"we go on"))
    world.run(for_s=1)
    assert again.result().position and members[4].bodies == [b"stable", b"we go on"]
