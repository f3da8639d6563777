"""Groups with ``delivery="atomic"`` in a pretended world: one order for all members."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import rostra
from rostra.errors import BadInput, NotAvailable, NotMember
from rostra.testing import World


class Speaker:
    """Joins, says what it is to say in its first view, and keeps what it is given."""

    def __init__(self, count: int = 0, *, name: str = "", many: bool = False) -> None:
        self.items: list[rostra.AtomicItem | rostra.Messages] = []
        self.receipts: list[rostra.Receipt] = []
        self.count, self.name, self.many = count, name, many
        self.group: rostra.Ordered | None = None
        self.stop = asyncio.Event()

    async def run(self) -> None:
        async with (
            rostra.connect(name=self.name or None) as me,
            me.join("ledger", "paris", membership="agreed", delivery="atomic") as self.group,
        ):
            reading = asyncio.create_task(self.read(self.group))
            await self.group.ready()
            said = [f"{self.name} {n}".encode() for n in range(self.count)]
            if self.many:
                self.receipts = await self.group.send_many(said)
            else:
                self.receipts = list(await asyncio.gather(*[self.group.send(each) for each in said]))
            await self.stop.wait()
            await self.group.leave()
            await reading

    async def read(self, group: rostra.Ordered) -> None:
        async for item in group:
            self.items.append(item)

    @property
    def log(self) -> list[tuple[int, str, bytes]]:
        return [
            (each.position, each.sender, each.body) for each in self.items if isinstance(each, rostra.Message)
        ]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 2}, seed=5)
    yield world
    world.close()


@pytest.mark.spec("A-002", "A-003", "A-004", "A-011", "A-102")
def test_members_of_one_host_get_all_messages_in_one_order_their_own_among_them(world: World) -> None:
    speakers = [Speaker(5, name="ann"), Speaker(5, name="ben", many=True), Speaker(0, name="cem")]
    for speaker in speakers:
        world.start("paris.h1", speaker.run())
    world.run(for_s=5)
    first, second, third = speakers
    assert third.log and first.log[-len(third.log) :] == third.log == second.log[-len(third.log) :]
    assert len(first.log) == 10 and first.log == sorted(first.log)
    assert [each.position for each in (*first.receipts, *second.receipts)] == [
        place for name in ("ann", "ben") for place, _, body in first.log if body.startswith(name.encode())
    ]
    assert len(second.receipts) == 5


@pytest.mark.spec("A-089")
def test_a_view_has_its_place_between_the_messages(world: World) -> None:
    first, second = Speaker(3, name="ann"), Speaker(3, name="ben")
    world.start("paris.h1", first.run())
    world.run(for_s=2)
    world.start("paris.h1", second.run())
    world.run(for_s=2)
    kinds = [type(each).__name__ for each in first.items]
    assert kinds == ["View", *["Message"] * 3, "View", *["Message"] * 3]
    assert first.items[4:] and [type(each) for each in second.items] == [rostra.View, *[rostra.Message] * 3]
    assert first.log[3:] == second.log
    view = second.items[0]
    assert isinstance(view, rostra.View) and view.rank == 1 and len(view.members) == 2


def test_who_leaves_gets_its_receipts_first_and_the_others_a_view(world: World) -> None:
    first, second = Speaker(3, name="ann"), Speaker(100, name="ben", many=True)
    for speaker in (first, second):
        world.start("paris.h1", speaker.run())
        world.run(for_s=2)
    second.stop.set()
    world.run(for_s=2)
    assert len(second.receipts) == 100
    last = first.items[-1]
    assert isinstance(last, rostra.View) and len(last.members) == 1 and len(last.left) == 1
    assert second.group is not None
    with pytest.raises(NotMember, match="has left"):
        second.group.send_soon(b"late")


@pytest.mark.parametrize(
    ("choices", "error", "match"),
    [
        ({"membership": "relaxed"}, NotAvailable, "relaxed"),
        ({"membership": "agreed", "order": "negotiated"}, NotAvailable, "negotiated"),
        ({"membership": "agreed", "stable": "disk"}, NotAvailable, "disk"),
        ({"membership": "agreed", "stable": "majority"}, BadInput, "might not have"),
        ({"membership": "agreed", "stable": "maybe"}, BadInput, "use one of"),
    ],
)
def test_what_this_version_cannot_do_is_refused_by_name(
    world: World, choices: dict[str, Any], error: type[Exception], match: str
) -> None:
    async def ask() -> None:
        async with rostra.connect() as me:
            with pytest.raises(error, match=match):
                me.join("g", "paris", delivery="atomic", **choices)

    asked = world.start("paris.h1", ask())
    world.run(for_s=1)
    assert asked.done()
