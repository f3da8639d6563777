"""Watching: a list, numbered changes, and going on where one left off. Virtual time."""

import asyncio

import pytest

import rostra
from rostra import Change, Gap, Joined, Left, View
from rostra.client import streams
from rostra.errors import BadInput, NotInScope
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.testing import World, Worlds

H1, H2, FAR = "eu.paris.h1", "eu.paris.h2", "us.boston.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 2, "us.boston": 1}, config=RelaxedConfig(watch_changes_max=8))


async def read(watch: rostra.Watch, count: int) -> list[Change]:
    changes = aiter(watch)
    return [await anext(changes) for _ in range(count)]


async def come_and_go(me: rostra.Me, times: int) -> None:
    """Two changes each."""
    for _ in range(times):
        async with me.join("chess"):
            pass


async def test_a_watch_is_a_list_and_then_every_change_under_the_next_number(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(FAR, name="bob") as bob, bob.join("chess"):
        await world.settled()
        seen: list[Change] = []
        async for change in ann.watch("chess"):
            seen.append(change)
            if len(seen) == 1:
                await come_and_go(await bob.open("cid"), 2)
            if len(seen) == 5:
                break
        assert [type(change) for change in seen] == [View, Joined, Left, Joined, Left]
        assert [change.number for change in seen] == [0, 1, 2, 3, 4]
        assert len({change.period for change in seen}) == 1
        assert seen[3].token == f"{seen[0].period}:3" and seen[3].token.startswith(f"{H1}:1000:")


async def test_a_token_goes_on_from_there_in_another_life_of_the_program(world: World) -> None:
    async with rostra.connect(FAR) as bob:
        async with rostra.connect(H1) as ann, ann.watch("chess") as watch:
            (last,) = await read(watch, 1)
            await come_and_go(bob, 2)
            await world.settled()
        await come_and_go(bob, 1)
        await world.settled()
        async with rostra.connect(H1) as ann, ann.watch("chess", resume=last.token) as watch:
            await watch.ready()
            missed = await read(watch, 6)
            assert [change.number for change in missed] == [1, 2, 3, 4, 5, 6]
            assert not any(isinstance(change, View | Gap) for change in missed)
            await come_and_go(bob, 1)
            changes = aiter(watch)  # a second loop begins like any other
            assert isinstance(await anext(changes), View)
        async with rostra.connect(H1) as ann, ann.watch("chess", resume=missed[-2].token) as watch:
            assert [change.number for change in await read(watch, 3)] == [6, 7, 8]
            assert watch.members == ()


async def test_what_the_agent_has_forgotten_is_a_gap_that_says_how_much(world: World) -> None:
    async with rostra.connect(FAR) as bob, rostra.connect(H1) as ann:
        async with ann.watch("chess") as watch:
            (view,) = await read(watch, 1)
        await come_and_go(bob, 5)
        await bob.join("chess")
        await world.settled()
        async with ann.watch("chess", resume=view.token) as watch:
            gap, now = await read(watch, 2)
            assert gap == Gap(11)
            assert isinstance(now, View) and now.number == 11 and len(now.members) == 1
            assert gap.token == "" and now.token


async def test_a_token_is_worth_nothing_after_a_while_nor_elsewhere_and_that_is_said(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(H2) as bob:
        async with ann.watch("chess") as watch:
            (view,) = await read(watch, 1)
        async with bob.watch("chess", resume=view.token) as watch:
            assert (await read(watch, 2))[0] == Gap(None)
        await asyncio.sleep(29)
        async with ann.watch("chess", resume=view.token) as watch:
            await watch.ready()
            assert not watch._first or not watch._first._items  # nothing was missed, and nothing is told
        await asyncio.sleep(31)
        assert (await ann.inspect())["watches"] == {}
        async with ann.watch("chess", resume=view.token) as watch:
            gap, _ = await read(watch, 2)
            assert gap == Gap(None)


async def test_a_second_watch_may_resume_from_where_the_first_one_has_passed(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(FAR) as bob, ann.watch("chess") as first:
        (view,) = await read(first, 1)
        await come_and_go(bob, 1)
        await world.settled()
        async with ann.watch("chess", resume=view.token) as second:
            assert (await read(second, 2))[0] == Gap(2)
        here = first._watched.view()
        assert here is not None
        async with ann.watch("chess", resume=here.token) as second:
            changes = aiter(second)
            await come_and_go(bob, 1)
            assert (await anext(changes)).number == 3
        assert first.is_known  # the end of one watch is not the end of the other


@pytest.mark.parametrize(
    "token", ["x", "eu.h1:1:2", "eu.h1:1:2:3:4", "eu.h1:a:2:3", ":1:2:3", "eu.h1:1:2:-3"]
)
async def test_a_token_that_is_none_is_refused_at_once(world: World, token: str) -> None:
    async with rostra.connect(H1) as ann:
        with pytest.raises(BadInput, match="is not a resume token"):
            ann.watch("chess", resume=token)


async def test_a_refused_watch_leaves_nothing_behind(world: World) -> None:
    async with rostra.connect(H1) as ann:
        with pytest.raises(NotInScope):
            await ann.watch("chess", "us")
        assert ann._watches == {} and ann._watched._copies == {}
        watching = asyncio.ensure_future(ann.watch("chess").__aenter__())
        await asyncio.sleep(0)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.sleep(40)
        assert (await ann.inspect())["watches"] == {} and ann._watches == {}


async def test_a_slow_reader_gets_a_gap_and_the_present(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STREAM_LENGTH_MAX", 4)
    async with rostra.connect(H1) as ann, rostra.connect(H2) as bob, ann.watch("chess") as watch:
        changes = aiter(watch)
        await watch.ready()
        await come_and_go(bob, 5)
        await world.settled()
        seen = [await anext(changes) for _ in range(6)]
        assert [change.number for change in seen[:4]] == [0, 1, 2, 3]
        assert seen[4] == Gap(7)
        assert isinstance(seen[5], View) and seen[5].number == 10


async def test_batches_are_what_is_there_up_to_a_bound(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(H2) as bob, ann.watch("chess") as watch:
        batches = watch.batches(4)
        assert [len(await anext(batches))] == [1]
        stream = aiter(watch)
        await come_and_go(bob, 3)
        await world.settled()
        assert [len(await stream.take(4)), len(await stream.take(4))] == [4, 3]
        async with bob.join("chess") as chess:
            await world.settled()
            async for items in chess.batches():
                assert [type(item) for item in items] == [View]
                break
        with pytest.raises(BadInput, match="batches of 0"):
            await anext(watch.batches(0))
        async for changes in ann.watch("chess").batches(2):
            assert len(changes) == 1
            break


async def test_a_batched_loop_over_a_group_that_is_left_just_ends(world: World) -> None:
    async with rostra.connect(H1) as ann:
        chess = await ann.join("chess")

        async def loop() -> list[int]:
            return [len(items) async for items in chess.batches()]

        reading = asyncio.create_task(loop())
        await chess.ready()
        await asyncio.sleep(1)
        await chess.leave()
        assert await reading == [1]


async def test_ten_thousand_watchers_cost_the_world_one_follower(world: World) -> None:
    """And whoever changes the group is not kept waiting for them."""
    async with rostra.connect(H1) as ann, rostra.connect(FAR) as bob:
        watchers = await asyncio.gather(*(ann.open(f"w{number}") for number in range(10_000)))
        watches = await asyncio.gather(*(each.watch("chess") for each in watchers))
        await world.settled()
        async with bob.join("chess"):
            await world.settled()
            assert all(len(watch.members) == 1 for watch in watches)
            assert {id(watch.members) for watch in watches} == {id(watches[0].members)}
            document = await ann.inspect()
            assert len(document["core"]["groups"]["chess@world"]["watchers"]) == 1
            assert len(document["watches"]["chess@world"]["watchers"]) == 10_000


async def test_who_watches_and_is_in_a_group_hears_of_itself_only_in_the_watch(world: World) -> None:
    async with rostra.connect(H1) as me, me.watch("chess") as watch:
        await watch.ready()
        async with me.join("chess") as chess:
            await world.settled()
            assert watch.members == chess.members != ()
            assert (await me.resolve("chess")).from_copy
            view, joined = await read(watch, 1), watch._watched._copy.number
            assert isinstance(view[0], View) and joined == 1
        await world.settled()
        assert watch.members == ()
        assert (await me.resolve("chess")).from_copy
