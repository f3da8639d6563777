"""Led groups in a pretended world: programs that use the library, through crashes and cuts."""

import asyncio
from collections.abc import Iterator

import pytest

import rostra
from rostra.errors import AlreadyMember, NotAllowed
from rostra.names import host_of
from rostra.testing import World

HOSTS = ("eu.paris.h1", "eu.paris.h2", "eu.rome.h1")


class Member:
    """Joins, and keeps the last list it is told."""

    def __init__(self, *, online: bool = True) -> None:
        self.online = online
        self.chess: rostra.Membership | None = None

    async def run(self) -> None:
        async with (
            rostra.connect() as me,
            me.join("chess", "eu", membership="led", online=self.online, meta=b"m") as chess,
        ):
            self.chess = chess
            await asyncio.Event().wait()

    @property
    def hosts(self) -> list[str]:
        assert self.chess is not None
        return [str(host_of(member.endpoint)) for member in self.chess.members]


class Outsider:
    """Is in no group, and asks."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.watched: list[list[str]] = []

    async def resolve(self) -> None:
        async with rostra.connect() as me:
            found = await me.resolve("chess", "eu")
            self.answers.append([str(host_of(member.endpoint)) for member in found.members])

    async def watch(self) -> None:
        async with rostra.connect() as me, me.watch("chess", "eu") as chess:
            async for _ in chess:
                self.watched.append([str(host_of(member.endpoint)) for member in chess.members])


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"eu.paris": 3, "eu.rome": 2}, seed=5)
    yield world
    world.close()


def started(world: World, *, online: bool = True) -> list[Member]:
    members = [Member(online=online) for _ in HOSTS]
    for host, member in zip(HOSTS, members, strict=True):
        world.start(host, member.run())
    world.run(for_s=5)
    return members


def resolved(world: World, host: str) -> list[str]:
    outsider = Outsider()
    world.start(host, outsider.resolve())
    world.run(for_s=10)
    return outsider.answers[0]


@pytest.mark.spec("S-003", "S-050", "S-030")
def test_members_are_told_the_leaders_list_and_outsiders_may_ask_for_it(world: World) -> None:
    members = started(world)
    assert [member.hosts for member in members] == [list(HOSTS)] * 3
    assert resolved(world, "eu.rome.h2") == list(HOSTS)
    assert resolved(world, "eu.paris.h1") == list(HOSTS)


def test_a_watcher_is_told_of_every_change(world: World) -> None:
    outsider = Outsider()
    world.start("eu.rome.h2", outsider.watch())
    world.run(for_s=2)
    started(world)
    assert outsider.watched[0] == []
    assert outsider.watched[-1] == list(HOSTS)
    world.crash("eu.paris.h1")
    world.run(for_s=30)
    assert outsider.watched[-1] == list(HOSTS[1:])


@pytest.mark.spec("S-004", "S-064", "S-067")
def test_both_sides_of_a_cut_have_a_list_of_their_own_and_one_list_after_it(world: World) -> None:
    members = started(world)
    world.cut("eu.rome")
    world.run(for_s=40)
    assert [member.hosts for member in members] == [list(HOSTS[:2])] * 2 + [[HOSTS[2]]]

    world.heal()
    world.run(for_s=60)
    assert [member.hosts for member in members] == [list(HOSTS)] * 3
    assert resolved(world, "eu.rome.h2") == list(HOSTS)


@pytest.mark.spec("S-033", "S-029")
def test_a_member_whose_program_dies_is_not_listed_any_more(world: World) -> None:
    members = started(world)
    late = Member()
    task = world.start("eu.paris.h3", late.run())
    world.run(for_s=3)
    assert len(members[0].hosts) == 4
    task.cancel()
    world.run(for_s=3)
    assert members[0].hosts == list(HOSTS)


def test_a_group_is_of_one_kind(world: World) -> None:
    started(world)
    agreed = Outsider()

    async def join_agreed() -> None:
        async with rostra.connect() as me:
            with pytest.raises(NotAllowed, match="led, none"):
                await me.join("chess", "eu", membership="agreed")
            agreed.answers.append([])

    world.start("eu.rome.h2", join_agreed())
    world.run(for_s=5)
    assert agreed.answers == [[]]


def test_a_member_that_is_not_online_is_told_nothing_and_may_ask(world: World) -> None:
    members = started(world, online=False)
    assert all(member.chess is not None and not member.chess.is_online for member in members)
    assert resolved(world, "eu.paris.h2") == list(HOSTS)


def test_an_endpoint_is_a_member_once_and_a_second_join_costs_the_first_nothing(world: World) -> None:
    async def twice() -> list[int]:
        async with rostra.connect() as me, me.join("chess", "eu", membership="led") as chess:
            with pytest.raises(AlreadyMember):
                await me.join("chess", "eu", membership="led")
            await asyncio.sleep(5)
            before = len(chess.members)
            await asyncio.sleep(10)
            return [before, len(chess.members)]

    task = world.start("eu.rome.h1", twice())
    world.run(for_s=12)
    member = Member()
    world.start("eu.paris.h1", member.run())
    world.run(for_s=20)
    assert task.result() == [1, 2]
