"""``membership="relaxed"`` and "led" with ``delivery="atomic"``, through the library: the same `Ordered`."""

import asyncio
from collections.abc import Iterator
from typing import Literal

import pytest

import rostra
from rostra.errors import BadInput, Excluded, NoSuchGroup, NotAllowed, NotAvailable, TooLarge
from rostra.protocols.atomic import monitored
from rostra.testing import World

PLACES = ("paris.h1", "paris.h2", "paris.h3")
Weak = Literal["relaxed", "led"]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 3}, seed=5)
    yield world
    world.close()


class Teller:
    """Joins, says `count` messages, and keeps what it is given."""

    def __init__(self, name: str, membership: Weak, count: int = 0) -> None:
        self.name, self.membership, self.count = name, membership, count
        self.items: list[rostra.AtomicItem | rostra.Messages] = []
        self.receipts: list[rostra.Receipt] = []
        self.stop = asyncio.Event()
        self.ended: Excluded | None = None

    async def run(self) -> None:
        async with (
            rostra.connect(name=self.name) as me,
            me.join("ledger", "paris", membership=self.membership, delivery="atomic") as group,
        ):
            reading = asyncio.create_task(self.read(group))
            for n in range(self.count):
                self.receipts.append(await group.send(f"{self.name} {n}".encode()))
            await self.stop.wait()
            await group.leave()
            await reading

    async def read(self, group: rostra.Ordered) -> None:
        try:
            async for item in group:
                self.items.append(item)
        except Excluded as end:
            self.ended = end

    @property
    def log(self) -> list[tuple[int, str, bytes]]:
        return [
            (each.position, each.sender, each.body) for each in self.items if isinstance(each, rostra.Message)
        ]


@pytest.mark.spec("A-003", "A-090")
@pytest.mark.parametrize("membership", ["relaxed", "led"])
def test_members_get_all_messages_in_one_order_with_receipts(world: World, membership: Weak) -> None:
    tellers = [Teller(f"t{n}", membership, 10) for n in range(3)]
    for place, each in zip(PLACES, tellers, strict=True):
        world.start(place, each.run())
        world.run(for_s=2)
    world.run(for_s=5)
    assert [len(each.receipts) for each in tellers] == [10] * 3
    first, *others = [each.log for each in tellers]
    assert all(each == first[-len(each) :] for each in others), "from when each came in"
    mine = {receipt.position for receipt in tellers[2].receipts}
    assert mine == {position for position, sender, _ in first if "t2" in sender}
    views = [each for each in tellers[0].items if isinstance(each, rostra.View)]
    assert len(views[-1].members) == 3 and views[-1].rank == 0
    for each in tellers:
        each.stop.set()
    world.run(for_s=3)


@pytest.mark.spec("A-056")
def test_a_member_that_is_cut_off_is_blocked_then_excluded_and_comes_again(world: World) -> None:
    tellers = [Teller(f"t{n}", "relaxed") for n in range(3)]
    for place, each in zip(PLACES, tellers, strict=True):
        world.start(place, each.run())
    world.run(for_s=5)
    world.cut("paris.h3")
    world.run(for_s=15)
    lost = tellers[2]
    assert isinstance(lost.items[-1], rostra.Blocked) and "majority" in lost.items[-1].because
    assert lost.ended is not None and lost.ended.retriable
    world.heal()
    world.run(for_s=5)
    again = Teller("again", "relaxed", 3)
    world.start("paris.h3", again.run())
    world.run(for_s=5)
    assert len(again.receipts) == 3
    assert tellers[0].log == tellers[1].log == again.log


def test_the_kind_belongs_to_the_group_and_what_it_has_not_is_refused(world: World) -> None:
    async def ask() -> None:
        async with rostra.connect() as me:
            with pytest.raises(NotAvailable, match="majority of the hosts"):
                me.join("g", "paris", delivery="atomic", survive="has(rank 0)")
            with pytest.raises(BadInput, match="permanent"):
                me.join("g", "paris", delivery="atomic", permanent=True)
            with pytest.raises(NoSuchGroup):
                await me.join("g", "paris", delivery="atomic", create=False)
            async with me.join("g", "paris", delivery="atomic"):
                with pytest.raises(NotAllowed, match="relaxed, atomic"):
                    async with rostra.connect() as other:
                        await other.join("g", "paris", membership="led", delivery="atomic")

    asked = world.start("paris.h1", ask())
    world.run(for_s=8)
    assert asked.done() and asked.exception() is None


def test_a_joiner_gets_the_state_and_a_replicated_object_goes_on(world: World) -> None:
    class Counter(rostra.Replicated):
        def __init__(self) -> None:
            self.count = 0

        @rostra.command
        def add(self, by: int) -> int:
            self.count += by
            return self.count

    counters: list[Counter] = []

    async def run(times: int) -> None:
        async with (
            rostra.connect() as me,
            me.replicate("count", Counter(), "paris", membership="relaxed") as counter,
        ):
            counters.append(counter)
            for _ in range(times):
                await counter.add(1)
            await asyncio.sleep(60)

    for n, place in enumerate(PLACES):
        world.start(place, run(4 + n))
        world.run(for_s=3)
    assert [each.count for each in counters] == [15] * 3


def test_a_host_that_a_full_group_has_no_room_for_is_refused_with_that_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitored, "STATIONS_MAX", 2)
    inside, refused = [Teller(f"t{n}", "relaxed") for n in range(2)], []

    async def late() -> None:
        try:
            await Teller("late", "relaxed").run()
        except TooLarge as why:
            refused.append(str(why))

    for place, each in zip(PLACES, inside, strict=False):
        world.start(place, each.run())
        world.run(for_s=3)
    world.start(PLACES[2], late())
    world.run(for_s=20)
    assert len(refused) == 1 and "hosts at most" in refused[0]
    for each in inside:
        assert each.ended is None
        each.stop.set()
    world.run(for_s=3)
