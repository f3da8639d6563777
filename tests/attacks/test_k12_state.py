"""K12: a member asks others for their state. It costs them one state at a time, and ends no program."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator

import pytest

import rostra
from rostra.client.transfer import MAGIC, StateMessage, StatePiece, StateReceiver, StateWanted, _encode
from rostra.names import Endpoint
from rostra.testing import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 2}, seed=3)
    yield world
    world.close()


class Giver:
    """A member with a state of a few megabytes, given in pieces that are counted."""

    def __init__(self, *, by_hand: bool = False, without_end: bool = False) -> None:
        self.by_hand, self.without_end = by_hand, without_end
        self.begun = self.pieces = 0
        self.items: list[object] = []
        self.group: rostra.Ordered | None = None

    async def state(self) -> AsyncIterator[bytes]:
        self.begun += 1
        while self.without_end or self.pieces % 50 != 49:
            self.pieces += 1
            yield bytes(60_000)

    async def run(self) -> None:
        async with rostra.connect(name="giver") as me:
            give = None if self.by_hand else self.state
            async with me.join("book", "paris", membership="agreed", delivery="atomic", give=give) as group:
                self.group = group
                async for item in group:
                    self.items.append(item)
                    if isinstance(item, rostra.StateAsked):
                        async for piece in self.state():
                            await item.give(piece)


class Asker:
    """Joins, and says about state what it likes."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.me: rostra.Me | None = None

    async def run(self) -> None:
        async with rostra.connect(name="asker") as me:
            self.me = me
            async with me.join("book", "paris", membership="agreed", delivery="atomic") as group:
                await group.ready()
                giver = next(each.endpoint for each in group.members if each.endpoint != me.endpoint)
                for id in range(1, self.times + 1):
                    await self.say(giver, StateWanted(group.group, id))
                async for item in group:
                    if isinstance(item, rostra.Message) and item.body == b"enough":
                        return

    async def say(self, to: Endpoint, message: StateMessage) -> None:
        assert self.me is not None
        await self.me.send_to(to, MAGIC + _encode(message))


@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "by give="])
def test_one_who_takes_nothing_of_the_state_ends_no_program(world: World, by_hand: bool) -> None:
    """The program that gave it by hand was cancelled, as if it had been asked to end."""
    giver = Giver(by_hand=by_hand)
    giving = world.start("paris.h1", giver.run())
    world.run(for_s=3)
    world.start("paris.h2", Asker(1).run())
    world.run(for_s=20)
    assert giver.begun == 1 and not giving.done()
    assert giver.group is not None
    said = world.start("paris.h1", giver.group.send(b"enough"))
    world.run(for_s=5)
    assert said.result().position
    assert any(isinstance(each, rostra.Message) for each in giver.items)
    assert not giver.group._donors and not giver.group._wanted


def test_of_many_questions_of_one_member_the_last_is_answered(world: World) -> None:
    """Each was a state of its own, in memory until nobody took it, and a donor that was kept for ever."""
    giver = Giver()
    world.start("paris.h1", giver.run())
    world.run(for_s=3)
    world.start("paris.h2", Asker(200).run())
    world.run(for_s=4)
    assert giver.group is not None
    assert len(giver.group._donors) <= 1
    world.run(for_s=20)
    assert not giver.group._donors
    assert giver.begun < 100


def test_a_state_without_end_is_given_until_it_is_taken_no_more(world: World) -> None:
    giver = Giver(without_end=True)
    world.start("paris.h1", giver.run())
    world.run(for_s=3)
    world.start("paris.h2", Asker(1).run())
    world.run(for_s=20)
    assert giver.group is not None
    assert giver.pieces < 50 and not giver.group._donors


def test_pieces_without_content_count() -> None:
    """They were no bytes, so there was no end to what a donor could make a joiner keep."""

    async def receive() -> int:
        receiver = StateReceiver(OTHERS)
        receiver._donor, receiver._id = DONOR, 1
        receiver._size = rostra.client.transfer.STATE_BYTES_MAX - 10_000
        for number in range(1, 1_000):
            receiver.hear(DONOR, StatePiece(OTHERS.group, 1, 1, number, b""))
        return len(receiver._parts)

    assert asyncio.run(receive()) < 100


class Others:
    """The group of a joiner, which hears nothing else."""

    group = rostra.names.Group("book", rostra.names.Domain("paris"))

    @property
    def members(self) -> list[rostra.Member]:
        return [rostra.Member(DONOR, (1, 1))]

    def spawn(self, doing: object) -> None:
        doing.close()  # type: ignore[attr-defined]


DONOR = Endpoint("paris.h1/donor#1")
OTHERS: "rostra.Ordered" = Others()  # type: ignore[assignment]


class Mean(rostra.Replicated):
    def __init__(self) -> None:
        self.value = 0.0

    @rostra.command
    def put(self, value: float) -> None:
        self.value = value


def test_a_number_that_equals_nothing_ends_no_replica(world: World) -> None:
    """With NaN in an attribute no state could be given: the next join ended one replica after the other."""
    means = [Mean(), Mean()]

    async def hold(mean: Mean, *, puts: bool) -> None:
        async with rostra.connect() as me, me.replicate("mean", mean, "paris"):
            if puts:
                await mean.put(math.nan)
            await asyncio.sleep(3600)

    first = world.start("paris.h1", hold(means[0], puts=True))
    world.run(for_s=4)
    second = world.start("paris.h2", hold(means[1], puts=False))
    world.run(for_s=8)
    assert not first.done() and not second.done()
    assert all(each.is_current and math.isnan(each.value) for each in means)
