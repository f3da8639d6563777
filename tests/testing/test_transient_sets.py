"""Transient sets and sequences in a pretended world: programs use the library, through crashes and cuts."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import rostra
from rostra.errors import BadInput, NoSuchGroup, NotInScope, NotOwner, Unreachable, VehicleBroken
from rostra.names import host_of
from rostra.protocols.led.requests import ChangeSet
from rostra.testing import World


class Endpoints:
    """A program that is there, keeps what it is told of sets, and answers each message of a sequence."""

    def __init__(self, group: str = "", *, closed: bool = False) -> None:
        self.me: rostra.Me
        self.items: list[object] = []
        self.group, self.closed = group, closed
        self.joined: rostra.Membership | None = None

    async def run(self) -> None:
        async with rostra.connect() as self.me:
            if self.group:
                self.joined = await self.me.join(
                    self.group,
                    "eu",
                    membership="led",
                    online=False,
                    hears="members" if self.closed else "all",
                )
            async for item in self.me.sets():
                self.items.append(item)
                if isinstance(item, rostra.SequenceMessage):
                    await self.me.reply(item, b"heard " + item.body)

    @property
    def bodies(self) -> list[bytes]:
        return [item.body for item in self.items if isinstance(item, rostra.SequenceMessage)]

    @property
    def added(self) -> list[str]:
        kinds = {rostra.SetAdded: "added", rostra.SetLost: "lost"}
        return [kinds[type(item)] for item in self.items if type(item) in kinds]


class Owner:
    """Makes a set, and does in it what the test says."""

    def __init__(self, *, readmit: bool = True) -> None:
        self.readmit = readmit
        self.set: rostra.TransientSet
        self.items: list[object] = []
        self.me: rostra.Me
        self.over = asyncio.Event()

    async def run(self) -> None:
        async with (
            rostra.connect() as self.me,
            self.me.create_set("eu", readmit=self.readmit) as self.set,
        ):
            reading = asyncio.create_task(self.read())
            await self.over.wait()
            reading.cancel()

    async def read(self) -> None:
        async for item in self.set:
            self.items.append(item)

    @property
    def hosts(self) -> list[str]:
        return [str(host_of(endpoint)) for endpoint in self.set.members]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"eu.paris": 3, "eu.rome": 3}, seed=5)
    yield world
    world.close()


def there(world: World, *hosts: str, group: str = "", closed: bool = False) -> list[Endpoints]:
    programs = [Endpoints(group, closed=closed) for _ in hosts]
    for host, program in zip(hosts, programs, strict=True):
        world.start(host, program.run())
    world.run(for_s=3)
    return programs


def owned(world: World, members: list[Endpoints], *, readmit: bool = True) -> Owner:
    owner = Owner(readmit=readmit)
    world.start("eu.paris.h1", owner.run())
    world.run(for_s=1)
    do(world, "eu.paris.h1", owner.set.add(*[each.me.endpoint for each in members]))
    world.run(for_s=3)
    return owner


def do(world: World, host: str, work: object, for_s: float = 3) -> list[object]:
    """Its result, or how it failed."""
    found: list[object] = []

    async def run() -> None:
        try:
            found.append(await work)  # type: ignore[misc]
        except rostra.RostraError as error:
            found.append(error)

    world.start(host, run())
    world.run(for_s=for_s)
    return found


@pytest.mark.spec("S-018", "S-072", "S-073", "S-074", "S-076", "S-077", "S-078", "S-079", "S-009")
def test_xs_19_a_transient_set_from_its_making_to_the_death_of_its_owner(world: World) -> None:
    members = there(world, "eu.paris.h1", "eu.paris.h2", "eu.rome.h1", "eu.rome.h2")
    owner = owned(world, members)
    assert owner.hosts == ["eu.paris.h1", "eu.paris.h2", "eu.rome.h1", "eu.rome.h2"]
    assert [each.added for each in members] == [["added"]] * 4

    name, outsider = owner.set.name, there(world, "eu.rome.h3")[0]
    assert name.startswith(f"{owner.me.endpoint}~")
    (found,) = do(world, "eu.rome.h3", outsider.me.resolve(name, "eu"))
    assert isinstance(found, rostra.Resolution) and len(found.members) == 4
    (error,) = do(world, "eu.rome.h3", outsider.me._ask(_change(owner.set.group, outsider.me.endpoint)))
    assert isinstance(error, NotOwner)

    do(world, "eu.paris.h2", members[1].me.leave_set(name, "eu"))  # one leaves by itself,
    do(world, "eu.paris.h1", owner.set.delete(members[0].me.endpoint))  # and one is deleted
    assert owner.hosts == ["eu.rome.h1", "eu.rome.h2"]
    assert [each.added for each in members[:2]] == [["added", "lost"], ["added"]]

    world.cut("eu.rome")
    world.run(for_s=30)
    assert owner.hosts == []
    assert [each.added for each in members[2:]] == [["added", "lost"]] * 2
    (error,) = do(world, "eu.rome.h3", outsider.me.resolve(name, "eu"), for_s=30)
    assert isinstance(error, Unreachable)

    world.heal()
    world.run(for_s=60)
    assert owner.hosts == ["eu.rome.h1", "eu.rome.h2"]
    assert [each.added for each in members[2:]] == [["added", "lost", "added"]] * 2

    owner.over.set()
    world.run(for_s=5)
    assert [each.added[-1] for each in members[2:]] == ["lost", "lost"]
    (error,) = do(world, "eu.rome.h3", outsider.me.resolve(name, "eu"), for_s=10)
    assert isinstance(error, NoSuchGroup)


def _change(group: rostra.Group, endpoint: rostra.Endpoint) -> ChangeSet:
    return ChangeSet(group, add=(endpoint,))


@pytest.mark.spec("S-078")
def test_without_readmission_who_was_out_of_reach_stays_out(world: World) -> None:
    members = there(world, "eu.paris.h2", "eu.rome.h1")
    owner = owned(world, members, readmit=False)
    world.cut("eu.rome")
    world.run(for_s=30)
    world.heal()
    world.run(for_s=60)
    assert owner.hosts == ["eu.paris.h2"]


@pytest.mark.spec("S-078", "S-074")
def test_who_left_is_not_in_again_after_a_partition(world: World) -> None:
    members = there(world, "eu.paris.h2", "eu.rome.h1")
    owner = owned(world, members)
    world.cut("eu.rome")
    world.run(for_s=30)
    do(world, "eu.rome.h1", members[1].me.leave_set(owner.set.name, "eu"))
    world.heal()
    world.run(for_s=60)
    # It was told that the set is lost, and did not want to be in it again.
    assert owner.hosts == ["eu.paris.h2"]
    assert members[1].added == ["added", "lost"]
    do(world, "eu.paris.h1", owner.set.add(members[1].me.endpoint))
    assert owner.hosts == ["eu.paris.h2", "eu.rome.h1"]  # only its owner can add it again


@pytest.mark.spec("S-075")
def test_an_endpoint_that_is_not_there_is_reported_to_the_owner(world: World) -> None:
    (member,) = there(world, "eu.rome.h1")
    owner = owned(world, [member])
    do(world, "eu.paris.h1", owner.set.add("eu.rome.h1/nobody#77"))
    refused = [item for item in owner.items if isinstance(item, rostra.AddRefused)]
    assert [item.endpoint for item in refused] == ["eu.rome.h1/nobody#77"]
    assert owner.hosts == ["eu.rome.h1"]


@pytest.mark.spec("S-080", "S-081", "S-082", "S-084", "S-085", "S-086", "S-087")
def test_xs_20_the_destinations_of_a_sequence_become_fewer_and_never_more(world: World) -> None:
    members = there(world, "eu.paris.h2", "eu.rome.h1", "eu.rome.h2", group="chess")
    source = there(world, "eu.rome.h3")[0]  # in no group
    opened = do(world, "eu.rome.h3", source.me.sequence("chess", "eu"), for_s=8)
    (sequence,) = opened
    assert isinstance(sequence, rostra.Sequence)
    assert len(sequence.destinations) == 3
    do(world, "eu.rome.h3", sequence.send(b"one"))
    assert [each.bodies for each in members] == [[b"one"]] * 3

    late = there(world, "eu.paris.h3", group="chess")[0]  # joins later: not a destination
    assert members[0].joined is not None
    do(world, "eu.paris.h2", members[0].joined.leave())  # leaves, and is a destination until it closes
    do(world, "eu.rome.h3", sequence.send(b"two"))
    assert [each.bodies for each in members] == [[b"one", b"two"]] * 3
    assert late.bodies == []

    world.crash("eu.rome.h1")
    world.run(for_s=30)
    assert [str(host_of(each)) for each in sequence.destinations] == ["eu.paris.h2", "eu.rome.h2"]
    do(world, "eu.paris.h2", members[0].me.close())
    do(world, "eu.rome.h3", sequence.send(b"three"))
    assert [str(host_of(each)) for each in sequence.destinations] == ["eu.rome.h2"]
    assert members[2].bodies == [b"one", b"two", b"three"]

    heard = [item.body for item in sequence._items._items if isinstance(item, rostra.SequenceReply)]
    assert heard.count(b"heard one") == 3 and heard.count(b"heard three") == 1

    (another,) = do(world, "eu.rome.h3", source.me.sequence("chess", "eu"), for_s=8)
    assert isinstance(another, rostra.Sequence)
    assert [str(host_of(each)) for each in another.destinations] == ["eu.paris.h3", "eu.rome.h2"]

    world.crash("eu.rome.h2")
    world.run(for_s=30)
    ended = [item for item in sequence._items._items if isinstance(item, rostra.SequenceEnded)]
    assert [len(item.served) for item in ended] == [1]
    (error,) = do(world, "eu.rome.h3", sequence.send(b"four"))
    assert isinstance(error, VehicleBroken)


@pytest.mark.spec("S-089")
def test_a_closed_member_hears_those_on_the_list_and_no_outsider(world: World) -> None:
    (member,) = there(world, "eu.rome.h1", group="chess", closed=True)
    (fellow,) = there(world, "eu.paris.h2", group="chess")
    (outsider,) = there(world, "eu.paris.h3")
    (inside,) = do(world, "eu.paris.h2", fellow.me.sequence("chess", "eu"), for_s=8)
    (outside,) = do(world, "eu.paris.h3", outsider.me.sequence("chess", "eu"), for_s=8)
    assert isinstance(inside, rostra.Sequence) and isinstance(outside, rostra.Sequence)
    do(world, "eu.paris.h2", inside.send(b"from a member"), for_s=8)
    do(world, "eu.paris.h3", outside.send(b"from outside"), for_s=8)
    assert member.bodies == [b"from a member"]
    assert fellow.bodies == [b"from outside"]  # it is open
    assert [str(host_of(each)) for each in outside.destinations] == ["eu.paris.h2"]


@pytest.mark.spec("S-016")
def test_each_operation_is_for_its_kind_of_set(world: World) -> None:
    (member,) = there(world, "eu.rome.h1", group="chess")
    owner = owned(world, [member])
    public = rostra.Group("chess", rostra.Domain("eu"))
    (error,) = do(world, "eu.rome.h1", member.me._ask(_change(public, member.me.endpoint)))
    assert isinstance(error, BadInput)
    (error,) = do(world, "eu.rome.h1", _joined(member.me, owner.set.name))
    assert isinstance(error, rostra.RostraError)  # nobody joins a transient set
    (found,) = do(world, "eu.rome.h1", member.me.resolve(owner.set.name, "eu"))
    assert isinstance(found, rostra.Resolution) and len(found.members) == 1


async def _joined(me: rostra.Me, name: str) -> object:
    return await me.join(name, "eu", membership="led")


@pytest.mark.spec("S-003")
def test_who_is_outside_the_scope_is_refused_at_once() -> None:
    world = World({"eu.paris": 2, "us.boston": 1}, seed=5)
    try:
        inside, *_ = there(world, "eu.paris.h2", "eu.paris.h1", group="team")
        outside, *_ = there(world, "us.boston.h1")
        owner = owned(world, [inside])
        asked = (outside.me.sequence("team", "eu"), outside.me.resolve(owner.set.name, "eu"))
        for [refused] in [do(world, "us.boston.h1", each, for_s=0.2) for each in asked]:
            assert isinstance(refused, NotInScope)
            assert "use a scope that contains it: us.boston.h1, us.boston, us, world" in refused.fix
    finally:
        world.close()


def test_loops_over_sets_and_sequences_end_with_their_endpoint(world: World) -> None:
    (member,) = there(world, "eu.paris.h2")
    ended: list[str] = []

    async def follow(items: Any, name: str) -> None:
        async for _ in items:
            pass
        ended.append(name)

    async def run() -> None:
        async with rostra.connect() as me, asyncio.TaskGroup() as tasks:
            mine = await me.create_set("eu")
            await mine.add(member.me.endpoint)
            async for _ in mine:
                break
            tasks.create_task(follow(mine, "set"))
            tasks.create_task(follow(await mine.sequence(), "sequence"))
            await asyncio.sleep(1.0)
            await me.close()

    world.start("eu.paris.h1", run())
    world.run(for_s=5)
    assert sorted(ended) == ["sequence", "set"]


def test_a_sequence_to_a_group_of_another_kind_says_what_it_is_for(world: World) -> None:
    member, *_ = there(world, "eu.paris.h1")
    do(world, "eu.paris.h1", member.me.join("lounge", "eu"))
    [refused] = do(world, "eu.paris.h1", member.me.sequence("lounge", "eu"), for_s=10)
    assert isinstance(refused, NoSuchGroup)
    assert refused.what == "there is no led group or transient set lounge@eu"
