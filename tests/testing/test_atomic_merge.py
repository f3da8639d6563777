"""Two sides of a group with ``survive="any"`` meet again, each with an order of its own: ``reconcile=``."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

import rostra
from rostra.errors import BadInput
from rostra.groups.items import Message
from rostra.testing import World

HOSTS = ("fr.paris.h1", "fr.paris.h2", "fr.lyon.h1", "fr.lyon.h2")


class Shelf:
    """A member with a list of texts. What its side had and the other did not, it says again."""

    def __init__(self, name: str, reads_s: float = 0.0, patience_s: float | None = None) -> None:
        self.name, self.reads_s, self.patience_s = name, reads_s, patience_s
        self.texts: list[str] = []
        self.met: list[tuple[list[str], list[str]]] = []
        self.views: list[int] = []
        self.group: rostra.Ordered | None = None
        self.gives = asyncio.Event()
        self.gives.set()

    async def give(self) -> AsyncIterator[bytes]:
        state = msgspec.json.encode(self.texts)
        await self.gives.wait()
        yield state[:3]
        yield state[3:]

    def take(self, state: bytes) -> None:
        self.texts = msgspec.json.decode(state)

    async def reconcile(self, ours: bytes, theirs: bytes) -> None:
        mine, others = msgspec.json.decode(ours), msgspec.json.decode(theirs)
        self.met.append((mine, others))
        assert self.group is not None and self.texts == others
        for text in mine:
            if text not in others:
                await self.group.send(text.encode())

    async def run(self) -> None:
        async with (
            rostra.connect(name=self.name) as me,
            me.join(
                *("shelf", "fr"),
                membership="agreed",
                delivery="atomic",
                give=self.give,
                take=self.take,
                reconcile=self.reconcile,
            ) as self.group,
        ):
            items = self.group.items()
            while True:
                try:
                    item = await asyncio.wait_for(anext(items), self.patience_s)
                except TimeoutError:
                    continue
                if isinstance(item, Message):
                    self.texts.append(item.body.decode())
                    await asyncio.sleep(self.reads_s)
                elif isinstance(item, rostra.View):
                    self.views.append(len(item.members))


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"fr.paris": 2, "fr.lyon": 2}, seed=11)
    yield world
    world.close()


def said(world: World, host: str, shelf: Shelf, *texts: str) -> None:
    async def say() -> None:
        assert shelf.group is not None
        for text in texts:
            await shelf.group.send(text.encode())

    doing = world.start(host, say())
    world.run(for_s=3)
    assert doing.done() and doing.exception() is None


def test_the_side_without_rank_0_takes_the_others_state_and_one_of_it_reconciles(world: World) -> None:
    shelves = [Shelf(name) for name in ("ann", "ben", "cem", "dan")]
    for host, shelf in zip(HOSTS, shelves, strict=True):
        world.start(host, shelf.run())
        world.run(for_s=4)
    ann, _, cem, dan = shelves
    said(world, HOSTS[0], ann, "before")
    world.cut("fr.lyon")
    world.run(for_s=20)
    said(world, HOSTS[0], ann, "paris 1", "paris 2")
    said(world, HOSTS[3], dan, "lyon 1", "lyon 2", "lyon 3")
    assert cem.texts == ["before", "lyon 1", "lyon 2", "lyon 3"]
    world.heal()
    world.run(for_s=40)

    both = ["before", "paris 1", "paris 2", "lyon 1", "lyon 2", "lyon 3"]
    assert [each.texts for each in shelves] == [both] * 4
    assert [each.met for each in shelves] == [
        [],
        [],
        [(both[:1] + both[3:], both[:3])],
        [],
    ]  # the first of its side
    assert [each.views[-1] for each in shelves] == [4] * 4
    said(world, HOSTS[2], cem, "after")
    assert all(each.texts == [*both, "after"] for each in shelves)


def test_what_our_side_said_last_is_read_before_the_two_meet(world: World) -> None:
    """A program that reads late has read its own side's order when it makes `ours`."""
    ann, cem = Shelf("ann"), Shelf("cem", reads_s=1.0)
    for host, shelf in ((HOSTS[0], ann), (HOSTS[2], cem)):
        world.start(host, shelf.run())
        world.run(for_s=4)
    world.cut("fr.lyon")
    world.run(for_s=20)
    said(world, HOSTS[2], cem, *[f"lyon {n}" for n in range(50)])
    world.heal()
    world.run(for_s=20)
    assert len(cem.texts) < 30 and not cem.met
    world.run(for_s=100)

    assert [len(ours) for ours, _ in cem.met] == [50]
    assert ann.texts == cem.texts and len(ann.texts) == 50


def test_a_reader_that_is_cancelled_while_it_gives_its_state_still_reconciles(world: World) -> None:
    ann, cem = Shelf("ann"), Shelf("cem", patience_s=1.0)
    for host, shelf in ((HOSTS[0], ann), (HOSTS[2], cem)):
        world.start(host, shelf.run())
        world.run(for_s=4)
    world.cut("fr.lyon")
    world.run(for_s=20)
    said(world, HOSTS[2], cem, "lyon")
    cem.gives.clear()
    world.heal()
    world.run(for_s=20)
    cem.gives.set()
    world.run(for_s=20)
    assert cem.met == [(["lyon"], [])]
    assert ann.texts == cem.texts == ["lyon"]


def test_who_is_cut_off_again_before_it_has_the_state_reconciles_once_with_its_own_side(world: World) -> None:
    """What the other side said meanwhile is in the state that it gets, and is not read before."""
    shelves = [Shelf(name) for name in ("ann", "ben", "cem", "dan")]
    for host, shelf in zip(HOSTS, shelves, strict=True):
        world.start(host, shelf.run())
        world.run(for_s=4)
    ann, ben, cem, _ = shelves
    world.cut("fr.lyon")
    world.run(for_s=20)
    said(world, HOSTS[0], ann, "paris 1")
    said(world, HOSTS[2], cem, "lyon 1")
    for each in (ann, ben):
        each.gives.clear()
    world.heal()
    world.run(for_s=20)
    said(world, HOSTS[0], ann, "paris 2")
    assert cem.texts == ["lyon 1"] and not cem.met
    world.cut("fr.lyon")
    world.run(for_s=20)
    said(world, HOSTS[0], ann, "paris 3")
    world.heal()
    world.run(for_s=20)
    assert cem.texts == ["lyon 1"] and not cem.met
    for each in (ann, ben):
        each.gives.set()
    world.run(for_s=30)

    paris = ["paris 1", "paris 2", "paris 3"]
    assert [each.met for each in shelves] == [[], [], [(["lyon 1"], paris)], []]
    assert [each.texts for each in shelves] == [[*paris, "lyon 1"]] * 4


def test_who_waits_for_the_state_gets_it_although_it_lost_its_agent_meanwhile(world: World) -> None:
    ann, ben = Shelf("ann"), Shelf("ben")
    world.start(HOSTS[0], ann.run())
    world.run(for_s=4)
    said(world, HOSTS[0], ann, "before")
    ann.gives.clear()
    world.start(HOSTS[1], ben.run())
    world.run(for_s=4)
    world.drop(HOSTS[1])
    world.run(for_s=10)
    ann.gives.set()
    world.run(for_s=20)
    assert ben.texts == ["before"]


@pytest.mark.parametrize("more", [{"give": None}, {"take": None}, {"survive": "majority"}])
def test_what_cannot_be_reconciled_is_refused(world: World, more: dict[str, object]) -> None:
    shelf = Shelf("ann")
    asked = {"give": shelf.give, "take": shelf.take, "reconcile": shelf.reconcile, **more}

    async def join() -> None:
        async with rostra.connect(HOSTS[0]) as me:
            await me.join("shelf", "fr", membership="agreed", delivery="atomic", **asked)  # type: ignore[call-overload]

    with pytest.raises(BadInput, match="reconcile"):
        world.run(join())
