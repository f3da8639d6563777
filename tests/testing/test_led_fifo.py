"""Led groups with ``delivery="fifo"``: the leader's list says who is there, and messages go by streams."""

import asyncio
from collections.abc import Iterator

import pytest

import rostra
from rostra.errors import NotAllowed
from rostra.groups.members import Members
from rostra.names import host_of
from rostra.testing import World

HOSTS = ("eu.paris.h1", "eu.paris.h2", "eu.rome.h1")


class Speaker:
    """Joins, says one thing, and keeps what it is told."""

    def __init__(self, says: bytes = b"") -> None:
        self.says = says
        self.heard: list[bytes] = []
        self.talk: rostra.Conversation | None = None

    async def run(self) -> None:
        async with (
            rostra.connect() as me,
            me.join("chess", "eu", membership="led", delivery="fifo", meta=b"m") as self.talk,
        ):
            await self.talk.ready()
            if self.says:
                await self.talk.send(self.says)
            async for item in self.talk:
                if isinstance(item, rostra.Message):
                    self.heard.append(item.body)


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"eu.paris": 3, "eu.rome": 2}, seed=5)
    yield world
    world.close()


def started(world: World) -> list[Speaker]:
    speakers = [Speaker(host.encode()) for host in HOSTS]
    for host, speaker in zip(HOSTS, speakers, strict=True):
        world.start(host, speaker.run())
        world.run(for_s=5)
    return speakers


def hosts_in(members: Members) -> list[str]:
    return [str(host_of(member.endpoint)) for member in members]


def hosts_of(found: rostra.Resolution) -> list[str]:
    return hosts_in(found.members)


@pytest.mark.spec("S-088")
def test_the_list_is_the_leaders_and_messages_go_by_streams(world: World) -> None:
    speakers = started(world)
    # Who joined earlier hears those who came later; each stream begins with the join (S-085, X-).
    assert speakers[0].heard == [b"eu.paris.h2", b"eu.rome.h1"]
    assert speakers[1].heard == [b"eu.rome.h1"]
    found: list[list[str]] = []
    metas: list[bytes] = []

    async def look() -> None:
        async with rostra.connect() as me:
            answer = await me.resolve("chess", "eu")
            found.append(hosts_of(answer))
            metas.extend(member.meta for member in answer.members)
            answer = await me.resolve("chess", None)
            found.append(hosts_of(answer))

    world.start("eu.rome.h2", look())
    world.run(for_s=10)
    assert found == [list(HOSTS), list(HOSTS)]
    assert metas == [b"m"] * 3


@pytest.mark.spec("S-003", "S-015")
def test_an_outsider_speaks_to_a_led_group_and_is_not_on_its_list(world: World) -> None:
    speakers = started(world)
    lists: list[list[str]] = []

    async def submit() -> None:
        async with (
            rostra.connect() as me,
            me.join("chess", "eu", membership="led", delivery="fifo", role="submit") as talk,
        ):
            await talk.send(b"from outside")
            lists.append(hosts_of(await me.resolve("chess", "eu")))
            await asyncio.Event().wait()

    world.start("eu.paris.h3", submit())
    world.run(for_s=10)
    assert [speaker.heard[-1] for speaker in speakers] == [b"from outside"] * 3
    assert lists == [list(HOSTS)]


def test_a_led_group_with_delivery_is_of_one_kind(world: World) -> None:
    started(world)
    refused: list[str] = []

    async def others() -> None:
        async with rostra.connect() as me:
            for membership, delivery in (("led", "none"), ("relaxed", "fifo"), ("agreed", "none")):
                with pytest.raises(NotAllowed, match="led, fifo"):
                    await me.join("chess", "eu", membership=membership, delivery=delivery)  # type: ignore[call-overload]
                refused.append(membership)

    world.start("eu.rome.h2", others())
    world.run(for_s=20)
    assert refused == ["led", "relaxed", "agreed"]


@pytest.mark.spec("S-029")
def test_the_list_follows_deaths_and_cuts_and_a_watcher_is_told(world: World) -> None:
    watched: list[list[str]] = []

    async def watch() -> None:
        async with rostra.connect() as me, me.watch("chess", "eu") as chess:
            watched.append([])
            async for _ in chess:
                watched[-1] = hosts_in(chess.members)

    world.start("eu.paris.h3", watch())
    world.run(for_s=1)
    speakers = started(world)
    assert watched[-1] == list(HOSTS)
    world.cut("eu.rome")
    world.run(for_s=40)
    assert watched[-1] == list(HOSTS[:2])
    world.heal()
    world.run(for_s=60)
    assert watched[-1] == list(HOSTS)
    world.crash(HOSTS[0])
    world.run(for_s=30)
    assert watched[-1] == list(HOSTS[1:])
    assert speakers[1].talk is not None
    assert [str(host_of(each.endpoint)) for each in speakers[1].talk.members] == list(HOSTS[1:])


def test_a_speaker_that_leaves_is_not_listed_any_more(world: World) -> None:
    started(world)
    late = Speaker()
    world.start("eu.paris.h3", late.run())
    world.run(for_s=5)
    lists: list[int] = []

    async def look() -> None:
        async with rostra.connect() as me:
            lists.append(len((await me.resolve("chess", "eu")).members))

    async def leave() -> None:
        assert late.talk is not None
        await late.talk.leave()

    world.start("eu.rome.h2", look())
    world.run(for_s=5)
    world.start("eu.paris.h3", leave())
    world.run(for_s=15)
    world.start("eu.rome.h2", look())
    world.run(for_s=5)
    assert lists == [4, 3]
