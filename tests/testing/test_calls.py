"""Calls to a group with one order, in pretended worlds: answers, members that go, late answers."""

import asyncio
from collections.abc import Iterator

import pytest

import rostra
from rostra.errors import BadInput, DeadlineExceeded
from rostra.names import name_of
from rostra.testing import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 1}, seed=3)
    yield world
    world.close()


def joined(me: rostra.Me) -> rostra.client.group.Entering[rostra.Ordered]:  # type: ignore[name-defined]
    return me.join("oracle", "paris", membership="agreed", delivery="atomic")


async def answers(name: str, after_s: float, leaves: bool = False) -> None:
    async with rostra.connect("paris.h1", name=name) as me, joined(me) as group:
        async for item in group.items(batch=100):
            if isinstance(item, rostra.CallAsked):
                await asyncio.sleep(after_s)
                if leaves:
                    return
                await item.answer(item.body + b" says " + name.encode())


def start(world: World, **members: float) -> None:
    for name, after_s in members.items():
        world.start("paris.h1", answers(name, after_s))
    world.run(for_s=2)


def named(found: dict[rostra.Endpoint, bytes | rostra.Gone]) -> dict[str, bytes | None]:
    return {name_of(who): None if isinstance(each, rostra.Gone) else each for who, each in found.items()}


def test_a_call_is_printed_as_its_message(world: World) -> None:
    start(world)

    async def asks() -> None:
        async with rostra.connect("paris.h1", name="zoe") as me, joined(me) as group:
            await group.call(b"one")
            async for item in group:
                if isinstance(item, rostra.CallAsked):
                    assert (
                        repr(item)
                        == f"CallAsked(sender={me.endpoint!r}, body=b'one', position={item.position})"
                    )
                    return

    world.run(asks())


def test_all_the_first_or_a_majority_answer(world: World) -> None:
    start(world, ann=0.1, ben=1.0, cem=5.0)

    async def asks() -> None:
        async with rostra.connect("paris.h1", name="zoe") as me, joined(me) as group:
            await group.ready()
            mail = me.messages()
            assert named(await group.call(b"one", "first")) == {"ann": b"one says ann"}
            assert named(await group.call(b"two", "majority")) == {
                "ann": b"two says ann",
                "ben": b"two says ben",
            }
            everyone = named(await group.call(b"\xc1three"))
            assert everyone == {name: b"\xc1three says " + name.encode() for name in ("ann", "ben", "cem")}
            await asyncio.sleep(10)  # late answers to the first two calls are not mail
            assert not mail._items
            with pytest.raises(DeadlineExceeded, match=r"^paris.h1/cem#\d+ did not answer a call to oracle@"):
                await group.call(b"four", deadline_s=2)
            with pytest.raises(BadInput):
                await group.call(b"five", "some")  # type: ignore[arg-type]

    world.run(asks())


def test_a_member_that_leaves_before_it_answers_is_gone(world: World) -> None:
    start(world, ann=0.1)
    world.start("paris.h1", answers("ben", 3.0, leaves=True))
    world.run(for_s=2)

    async def asks() -> None:
        async with rostra.connect("paris.h1", name="zoe") as me, joined(me) as group:
            await group.ready()
            assert named(await group.call(b"one")) == {"ann": b"one says ann", "ben": None}

    world.run(asks())


def test_who_joins_while_a_request_is_on_its_way_is_not_waited_for() -> None:
    """Its order begins after the request: it has nothing to answer. Whether its view is here before we look
    where our request is, is a matter of microseconds."""
    world = World({"paris": 2}, seed=3)
    start(world, ann=0.0)

    async def asks() -> None:
        async with rostra.connect("paris.h2", name="zoe") as me, joined(me) as group:
            await group.ready()
            for _ in range(40):
                joining = asyncio.create_task(newcomer())
                while len(group.members) < 3:
                    assert named(await group.call(b"one", deadline_s=5.0)).keys() >= {"ann"}
                joining.cancel()
                while len(group.members) > 2:
                    await asyncio.sleep(0.01)

    async def newcomer() -> None:
        async with rostra.connect("paris.h2", name="new") as me, joined(me) as group:
            async for item in group.items(batch=100):
                if isinstance(item, rostra.CallAsked):
                    await item.answer(b"new")

    world.run(asks())
    world.close()


def test_nobody_else_is_there(world: World) -> None:
    async def asks() -> None:
        async with rostra.connect("paris.h1", name="zoe") as me, joined(me) as group:
            await group.ready()
            assert await group.call(b"hello?") == {}

    world.run(asks())


def test_calls_stand_at_their_place_and_bytes_that_look_like_one_are_none(
    world: World,
) -> None:
    seen: list[object] = []

    async def hears() -> None:
        async with rostra.connect("paris.h1", name="ann") as me, joined(me) as group:
            async for item in group.items(batch=100):
                match item:
                    case rostra.Messages(bodies=bodies):
                        seen.extend(bodies)
                    case rostra.Message(body=body):
                        seen.append(body)
                    case rostra.CallAsked(body=body):
                        seen.append((body, item.position))
                        await item.answer(b"")

    world.start("paris.h1", hears())
    world.run(for_s=2)

    async def asks() -> None:
        async with rostra.connect("paris.h1", name="zoe") as me, joined(me) as group:
            await group.ready()
            await group.send_many([b"a", b"\xc1\x01" + bytes(16), b"\xc1"])
            await group.call(b"who?")
            receipt = await group.send(b"b")
            await asyncio.sleep(1)
            assert seen == [b"a", b"\xc1\x01" + bytes(16), b"\xc1", (b"who?", receipt.position - 1), b"b"]

    world.run(asks())
