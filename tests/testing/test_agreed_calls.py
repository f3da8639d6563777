"""Calls about agreed groups (Table 2): in a pretended world of one cluster, and of three sites."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import rostra
from rostra.client.leadership import Candidacy
from rostra.errors import (
    BadInput,
    Excluded,
    NameTaken,
    NoSuchGroup,
    NotAllowed,
    NotInScope,
    NotMember,
    Terminated,
    TooLarge,
    ViewUnknown,
)
from rostra.groups.items import AgreedItem, AgreedViewId
from rostra.names import Domain, Group, host_of
from rostra.protocols.agreed import call_server, groups
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.testing import World

WORLDS = {
    "cluster": ("paris", ("paris.h1", "paris.h2", "paris.h3"), {"paris": 3}),
    "sites": ("eu", ("eu.fr.h1", "eu.de.h1", "eu.it.h1"), {"eu.fr": 1, "eu.de": 1, "eu.it": 1}),
}


class Place:
    """A world, the scope of its groups, and three hosts."""

    def __init__(self, name: str) -> None:
        self.scope, self.hosts, domains = WORLDS[name]
        self.world = World(domains, seed=5)

    def do(self, program: Callable[[rostra.Me], Awaitable[Any]], host: int = 0, for_s: float = 30.0) -> Any:
        """What a program on this host gets, as long as it takes."""

        async def run() -> Any:
            async with rostra.connect() as me:
                return await program(me)

        task = self.world.start(self.hosts[host], run())
        self.world.run(for_s=for_s)
        return task.result()

    def join(self, *hosts: int, group: str = "db", **more: Any) -> "list[Player]":
        players = []
        for host in hosts:
            player = Player(group, self.scope, more)
            self.world.start(self.hosts[host], player.run())
            self.world.run(for_s=6)
            players.append(player)
        return players


class Player:
    def __init__(self, group: str, scope: str, more: dict[str, Any]) -> None:
        self.group, self.scope, self.more = group, scope, more
        self.items: list[rostra.View | rostra.Blocked | rostra.Moved] = []
        self.ended: BaseException | None = None
        self.stay: rostra.AgreedMembership | None = None
        self.endpoint = ""

    async def run(self) -> None:
        async with rostra.connect() as me:
            self.endpoint = me.endpoint
            try:
                async with me.join(self.group, self.scope, membership="agreed", **self.more) as stay:
                    self.stay = stay
                    async for item in stay:
                        self.items.append(item)
            except rostra.RostraError as error:
                self.ended = error
            await asyncio.Event().wait()

    @property
    def view(self) -> rostra.View:
        return [each for each in self.items if isinstance(each, rostra.View)][-1]

    @property
    def hosts(self) -> list[str]:
        return [str(host_of(each.endpoint)) for each in self.view.members]


@pytest.fixture(params=sorted(WORLDS))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(request.param)
    yield place
    place.world.close()


@pytest.mark.spec("V-040")
def test_a_created_group_has_view_0_and_no_members_and_cannot_be_created_twice(place: Place) -> None:
    """V-040."""

    async def twice(me: rostra.Me) -> rostra.GroupInfo:
        info = await me.groups.create("db", place.scope, survive="majority", attributes={"tier": "gold"})
        with pytest.raises(NameTaken, match="there is a group db@"):
            await me.groups.create("db", place.scope)
        return info

    info = place.do(twice)
    assert (info.view.number, info.view.members, info.attributes) == (0, (), {"tier": "gold"})
    assert (info.survive, info.exclusive) == ("majority", True)


def test_who_does_not_create_takes_the_group_as_it_is(place: Place) -> None:
    """V-056: without create, an unknown name is refused; a created group is joined as what it is."""
    (early,) = place.join(0, create=False)
    assert isinstance(early.ended, NoSuchGroup) and "create" in early.ended.fix

    async def create(me: rostra.Me) -> None:
        await me.groups.create("db", place.scope, survive="majority")

    place.do(create)
    (other_kind,) = place.join(1, create=False, survive="size > 1")
    assert isinstance(other_kind.ended, NotAllowed) and "majority" in other_kind.ended.what
    (one,) = place.join(1, create=False)
    assert one.view.rank == 0 and one.view.fence is not None
    (wrong,) = place.join(2)  # survive="any"
    assert isinstance(wrong.ended, NotAllowed)


@pytest.mark.spec("V-042", "V-052")
def test_attributes_of_a_group_are_agreed_and_raise_the_revision(place: Place) -> None:
    """V-042, V-052: what was set is seen through the same agent at once, and by all."""
    players = place.join(0, 1)

    async def change(me: rostra.Me) -> tuple[rostra.GroupInfo, rostra.GroupInfo]:
        first = await me.groups.set_attributes("db", place.scope, attributes={"a": "1", "b": "2"})
        await me.groups.set_attributes("db", place.scope, attributes={"b": None, "c": "3"})
        return first, await me.groups.look("db", place.scope)

    first, second = place.do(change, host=2)
    assert (first.attributes, second.attributes) == ({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
    assert first.view.id is not None and second.view.id is not None
    assert (first.view.number, second.view.number) == (2, 2)
    assert second.view.id.revision == first.view.id.revision + 1
    assert [player.view.id for player in players] == [second.view.id] * 2


@pytest.mark.spec("V-044", "V-049", "V-051", "V-053", "V-054")
def test_attributes_of_members_are_seen_by_all_and_select(place: Place) -> None:
    """V-044, V-049, V-051, V-053, V-054, V-055."""
    one, two = place.join(0, 1, attributes={"type": "web"}, meta=b"port 80")

    async def turn(me: rostra.Me) -> None:
        await me.groups.set_attributes("db", place.scope, attributes={"type": "db"}, of=two.endpoint)

    place.do(turn, host=2)
    for player in (one, two):
        assert player.stay is not None
        assert player.stay.attributes_of(two.endpoint) == {"type": "db"}
        assert player.stay.attributes_of(one.endpoint) == {"type": "web"}
        assert player.stay.matching({"type": "db"}) == (two.endpoint,)
        assert [each.meta for each in player.view.members] == [b"port 80"] * 2

    async def ask(me: rostra.Me) -> tuple[Any, ...]:
        now = await me.groups.look("db", place.scope)
        assert now.view.id is not None
        before = await me.groups.look("db", place.scope, at=now.view.number, revision=0)
        return (
            now.matching({"type": "db"}),
            before.matching({"type": "db"}),
            await me.groups.sites("db", place.scope, hosts=True),
            await me.groups.sites(["db"], place.scope, where={"type": "db"}, hosts=True),
            len(await me.groups.sites("db", place.scope)),
        )

    found, was, hosts, some, clusters = place.do(ask, host=2)
    assert (found, was) == ((two.endpoint,), ())
    assert (hosts, some) == (tuple(sorted(place.hosts[:2])), (place.hosts[1],))
    assert clusters == (1 if place.scope == "paris" else 2)


@pytest.mark.spec("V-055")
def test_a_message_goes_to_members_that_match(place: Place) -> None:
    """V-055: the result lists the targets and the view; the message carries it, and a receiver that is in
    another one by then can tell."""
    got: dict[str, list[tuple[bytes, AgreedViewId | None]]] = {}
    stays: dict[str, rostra.AgreedMembership] = {}

    async def listen(kind: str) -> None:
        async with (
            rostra.connect() as me,
            me.join("db", place.scope, membership="agreed", attributes={"type": kind}) as stay,
        ):
            mail = me.messages()
            await stay.ready()
            got[kind], stays[kind] = [], stay
            async for message in mail:
                assert isinstance(message, rostra.Message)
                if message.view is not None:
                    assert message.view.group == stay.group
                got[kind].append((message.body, None if message.view is None else message.view.id))

    for host, kind in enumerate(("web", "db")):
        place.world.start(place.hosts[host], listen(kind))
        place.world.run(for_s=6)

    async def send(me: rostra.Me) -> tuple[int, int, AgreedViewId]:
        async with me.join("db", place.scope, membership="agreed") as stay:
            await stay.ready()
            targets, view = await stay.send_to({"type": "db"}, b"vacuum")
            assert stay.view is not None and view == stay.view.id
            nobody, _ = await stay.send_to({"type": "none"}, b"?")
            await me.send_to(targets, b"by the way")
            return len(targets), len(nobody), view

    targets, nobody, view = place.do(send, host=2)
    assert (targets, nobody) == (1, 0)
    assert got == {"web": [], "db": [(b"vacuum", view), (b"by the way", None)]}
    last = stays["db"].view
    assert last is not None and last.id is not None
    assert (view.number, last.id.number) == (3, 4), "the sender has left since"


@pytest.mark.spec("V-047", "V-048", "V-096")
def test_views_of_the_past_are_kept_and_those_to_come_are_unknown(place: Place) -> None:
    """V-047, V-048, V-096."""
    players = place.join(0, 1)

    async def ask(me: rostra.Me) -> tuple[rostra.GroupInfo, rostra.GroupInfo]:
        with pytest.raises(ViewUnknown, match="is at view 2, and 7 is not agreed yet"):
            await me.groups.look("db", place.scope, at=7)
        with pytest.raises(BadInput):
            await me.groups.look("db", place.scope, at=-1)
        with pytest.raises(BadInput, match="of no view"):
            await me.groups.look("db", place.scope, revision=0)
        with pytest.raises(ViewUnknown, match=r"revision 3 of view 1 of db@.* is not kept"):
            await me.groups.look("db", place.scope, at=1, revision=3)
        now = await me.groups.look("db", place.scope, history=10)
        return now, await me.groups.look("db", place.scope, at=1)

    now, first = place.do(ask, host=2)
    for player in players:
        assert (now.view.id, player.hosts) == (
            player.view.id,
            [host_of(each.endpoint) for each in now.view.members],
        )
    assert (len(now.view.members), len(first.view.members)) == (2, 1)
    assert [each.number for each in now.history] == [0, 1]
    assert [len(each.joined) for each in now.history] == [0, 1]
    assert len(now.core) == (1 if place.scope == "paris" else 4)


@pytest.mark.spec("V-058")
def test_an_idle_member_is_told_every_view_the_partition_the_merge_and_the_end(place: Place) -> None:
    """V-058: its items are the views of its group, one by one."""
    idle, other = place.join(0, 1)
    place.join(2)
    place.world.crash(place.hosts[2])
    place.world.run(for_s=10)
    assert [len(each.members) for each in idle.items if isinstance(each, rostra.View)] == [1, 2, 3, 2]

    async def ask(me: rostra.Me) -> rostra.GroupInfo:
        return await me.groups.look("db", place.scope, history=10)

    info = place.do(ask, host=1)
    agreed = [each.id for each in (*info.history, info.view) if each.number > 0]
    assert [each.id for each in idle.items if isinstance(each, rostra.View)] == agreed
    away = "eu.de" if place.scope == "eu" else place.hosts[1]
    place.world.cut(f"{away} | {away.rpartition('.')[0]}" if place.scope == "paris" else away)
    place.world.run(for_s=20)
    assert idle.hosts == [place.hosts[0]]
    place.world.heal()
    place.world.run(for_s=40)
    assert sorted(idle.hosts) == sorted(other.hosts) == sorted(place.hosts[:2])
    if place.scope == "eu":  # two sides went on, and met
        assert len(idle.view.parts) == 2

    async def delete(me: rostra.Me) -> None:
        await me.groups.delete("db", place.scope)

    place.do(delete, host=1)
    assert idle.view.members == () and isinstance(idle.ended, Terminated)


@pytest.mark.spec("V-043")
def test_a_deleted_group_has_a_last_view_of_nobody_and_ends(place: Place) -> None:
    """V-043."""
    players = place.join(0, 1)

    async def delete(me: rostra.Me) -> None:
        await me.groups.delete("db", place.scope)
        with pytest.raises(NoSuchGroup):
            await me.groups.look("db", place.scope)
        with pytest.raises(NoSuchGroup):
            await me.groups.delete("db", place.scope)
        assert (await me.resolve("db", place.scope, fresh=True)).members == ()

    place.do(delete, host=2)
    for player in players:
        assert player.view.members == () and player.view.number == 3
        assert isinstance(player.ended, Terminated) and "it was deleted" in player.ended.what
    (again,) = place.join(0)
    assert (again.view.rank, again.view.number) == (0, 4)


def test_a_host_that_missed_the_end_hears_of_it_when_it_is_back(place: Place) -> None:
    """V-043: no host brings a deleted group back."""
    players = place.join(0, 1)
    place.world.cut(f"{place.hosts[0]} | {place.hosts[0].rpartition('.')[0]}")

    async def delete(me: rostra.Me) -> None:
        await me.groups.delete("db", place.scope)

    place.do(delete, host=2)
    assert players[0].ended is None
    place.world.heal()
    place.world.run(for_s=30)
    assert isinstance(players[1].ended, Terminated)

    async def look(me: rostra.Me) -> None:
        with pytest.raises(NoSuchGroup):
            await me.groups.look("db", place.scope)

    place.do(look, host=2)
    assert isinstance(players[0].ended, Terminated), players[0].items


@pytest.mark.spec("V-045")
def test_a_split_keeps_the_order_and_members_go_on_in_the_new_groups(place: Place) -> None:
    """V-045: union and disjointness; no member sees anything in between."""
    (a,) = place.join(0, attributes={"disk": "ssd"})
    (b,) = place.join(1)
    (c,) = place.join(2, attributes={"disk": "ssd"})

    async def split(me: rostra.Me) -> None:
        await me.groups.split("db", "hot", "cold", place.scope, where={"disk": "ssd"})
        with pytest.raises(NoSuchGroup):
            await me.groups.look("db", place.scope)

    place.do(split, host=1)
    assert [str(each.stay.group.name) for each in (a, b, c) if each.stay] == ["hot", "cold", "hot"]
    assert (a.hosts, b.hosts, c.hosts) == (
        [place.hosts[0], place.hosts[2]],
        [place.hosts[1]],
        [place.hosts[0], place.hosts[2]],
    )
    for player in (a, b, c):
        moved, view = player.items[-2:]
        assert isinstance(moved, rostra.Moved) and isinstance(view, rostra.View)
    place.world.crash(place.hosts[0])
    place.world.run(for_s=30)
    assert (c.view.rank, c.hosts) == (0, [place.hosts[2]])

    async def resolve(me: rostra.Me) -> int:
        return len((await me.resolve("hot", place.scope, fresh=True)).members)

    assert place.do(resolve, host=1) == 1


@pytest.mark.spec("V-046")
def test_merged_groups_have_the_members_of_the_first_and_then_of_the_second(place: Place) -> None:
    """V-046: who was in both is there once."""
    (a,) = place.join(0, group="one")
    (b,) = place.join(1, group="two")

    async def both() -> None:
        async with (
            rostra.connect() as me,
            me.join("two", place.scope, membership="agreed") as two,
            me.join("one", place.scope, membership="agreed") as one,
        ):

            async def follow(stay: rostra.AgreedMembership) -> None:
                with contextlib.suppress(Terminated):  # the second one: it is in the new group once
                    async for _ in stay:
                        pass

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(follow(one))
                tasks.create_task(follow(two))

    place.world.start(place.hosts[2], both())
    place.world.run(for_s=6)

    async def merge(me: rostra.Me) -> rostra.GroupInfo:
        await me.groups.merge("one", "two", "all", place.scope)
        return await me.groups.look("all", place.scope)

    info = place.do(merge)
    order = [place.hosts[0], place.hosts[2], place.hosts[1]]
    assert [str(host_of(each.endpoint)) for each in info.view.members] == order
    assert (a.hosts, b.hosts) == (order, order)
    (d,) = place.join(1, group="all")
    assert d.view.rank == 3


@pytest.mark.spec("V-057")
def test_only_admins_change_a_group_that_has_some(place: Place) -> None:
    """V-057: a change without the right is refused, and says who has it."""
    (admin,) = place.join(0, attributes={"admin": "yes"})
    (other,) = place.join(1)
    (pushy,) = place.join(2, attributes={"admin": "yes"})
    assert isinstance(pushy.ended, NotAllowed)

    async def outsider(me: rostra.Me) -> None:
        for call in (
            me.groups.delete("db", place.scope),
            me.groups.set_attributes("db", place.scope, attributes={"a": "b"}),
            me.groups.remove("db", admin.endpoint, place.scope),
            me.groups.split("db", "x", "y", place.scope, where={}),
        ):
            with pytest.raises(NotAllowed, match="admin=yes"):
                await call

    place.do(outsider, host=2)

    async def own() -> None:
        assert other.stay is not None and admin.stay is not None
        await other.stay.set_attributes({"type": "db"})
        with pytest.raises(NotAllowed):
            await other.stay.set_attributes({"admin": "yes"})
        await admin.stay.me.groups.remove("db", other.endpoint, place.scope)

    place.world.run(own())
    place.world.run(for_s=5)
    assert admin.view.left == (other.endpoint,)
    assert isinstance(other.ended, Excluded) and "put out" in other.ended.what
    assert other.ended.fix == "ask those who may change the group before you join it again"


def test_a_subgroup_has_only_members_of_its_group(place: Place) -> None:
    """V-041."""

    async def create(me: rostra.Me) -> None:
        await me.groups.create("db/hot", place.scope, within="db")

    place.join(0)
    place.do(create, host=2)
    (stranger,) = place.join(1, group="db/hot", create=False)
    assert isinstance(stranger.ended, NotAllowed)
    whole = f"db@{place.scope}"
    assert stranger.ended.what == f"db/hot@{place.scope} is for members of {whole} alone"
    assert stranger.ended.fix == "join that first"


@pytest.mark.spec("V-041")
def test_who_leaves_a_group_is_out_of_its_subgroup_as_well(place: Place) -> None:
    """V-041: in a change that follows; others there go on."""

    async def create(me: rostra.Me) -> None:
        await me.groups.create("db/hot", place.scope, within="db")

    place.do(create, host=2)
    ended: dict[str, BaseException] = {}
    hot: dict[str, rostra.AgreedMembership] = {}

    async def program(leaves: bool) -> None:
        async with rostra.connect() as me, contextlib.AsyncExitStack() as stays:
            db = await stays.enter_async_context(me.join("db", place.scope, membership="agreed"))
            await db.ready()
            inner = me.join("db/hot", place.scope, membership="agreed", create=False)
            hot[me.endpoint] = stay = await stays.enter_async_context(inner)
            await stay.ready()
            if leaves:
                await asyncio.sleep(10)
                await db.leave()
            try:
                async for _ in stay:
                    pass
            except Excluded as error:
                ended[me.endpoint] = error

    place.world.start(place.hosts[0], program(True))
    place.world.start(place.hosts[1], program(False))
    place.world.run(for_s=8)
    assert [len(each.members) for each in hot.values()] == [2, 2]
    place.world.run(for_s=20)
    ((who, error),) = ended.items()
    assert isinstance(error, Excluded) and f"it left db@{place.scope}" in error.what
    assert error.fix == f"join db@{place.scope} first"
    (other,) = [each for each in hot if each != who]
    assert [each.endpoint for each in hot[other].members] == [other]


@pytest.mark.spec("V-045", "V-041")
def test_a_group_that_is_kept_in_a_split_goes_on_beside_its_subgroups(place: Place) -> None:
    """V-045: one agreed change; a program is told which subgroup it is in, and joins it where it wants."""
    (a,) = place.join(0, attributes={"disk": "ssd"})
    (b,) = place.join(1)
    before = a.view

    async def split(me: rostra.Me) -> list[rostra.GroupInfo]:
        await me.groups.split("db", "hot", "cold", place.scope, where={"disk": "ssd"}, keep_parent=True)
        return [await me.groups.look(name, place.scope) for name in ("db", "hot", "cold")]

    whole, hot, cold = place.do(split, host=2)
    assert whole.view.id == before.id and (hot.within, cold.within) == ("db", "db")
    assert [each.endpoint for each in hot.view.members] == [a.endpoint]
    assert [each.endpoint for each in cold.view.members] == [b.endpoint]
    for player, name in ((a, "hot"), (b, "cold")):
        (added,) = [each for each in player.items if isinstance(each, rostra.Added)]
        assert added.group.name == name and added.because and player.items[-1] is added
    views: list[AgreedItem] = []

    async def follow() -> None:
        assert a.stay is not None
        async with a.stay.me.join("hot", place.scope, membership="agreed", create=False) as stay:
            while True:
                views.append(await anext(stay))

    place.world.start(place.hosts[0], follow())
    place.world.run(for_s=5)
    (view,) = views
    assert isinstance(view, rostra.View) and (view.number, view.rank) == (hot.view.number, 0)
    (c,) = place.join(2)
    assert c.view.number == before.number + 1 and a.view.id == c.view.id
    (d,) = place.join(1, group="hot", create=False)
    assert isinstance(d.ended, NotAllowed), "it is not in db"


@pytest.mark.spec("V-040", "V-096")
def test_of_a_group_with_a_short_history_older_views_are_not_known(place: Place) -> None:
    """V-040: its length stays what it was, in what it is split into as well."""

    async def create(me: rostra.Me) -> int:
        for length in (0, 257, -1):
            with pytest.raises(BadInput, match="history="):
                await me.groups.create("db", place.scope, history=length)
        return (await me.groups.create("db", place.scope, history=2)).history_length

    assert place.do(create) == 2
    place.join(0, 1, 2, create=False)

    async def look(me: rostra.Me) -> None:
        info = await me.groups.look("db", place.scope, history=64)
        assert ([each.number for each in info.history], info.history_length) == ([2], 2)
        assert len((await me.groups.look("db", place.scope, at=2)).view.members) == 2
        with pytest.raises(ViewUnknown, match="view 1 of db") as unknown:
            await me.groups.look("db", place.scope, at=1)
        assert "from 2 to 3" in unknown.value.fix
        await me.groups.set_attributes("db", place.scope, attributes={"a": "b"})
        await me.groups.split("db", "x", "y", place.scope, where={})
        assert (await me.groups.look("x", place.scope)).history_length == 2

    place.do(look)


@pytest.mark.spec("V-041")
def test_a_program_that_is_in_a_group_joins_its_subgroup_and_is_out_of_both_when_it_leaves(
    place: Place,
) -> None:
    """As two members: each join has a stamp of its own."""

    async def create(me: rostra.Me) -> None:
        await me.groups.create("db/hot", place.scope, within="db")

    async def both(me: rostra.Me) -> None:
        db = await me.join("db", place.scope, membership="agreed")
        hot = await me.join("db/hot", place.scope, membership="agreed", create=False)
        first = await anext(aiter(hot))
        assert isinstance(first, rostra.View)
        assert [each.endpoint for each in first.members] == [me.endpoint]
        await db.leave()
        await asyncio.sleep(2)
        assert (await me.groups.look("db/hot", place.scope)).view.members == ()

    place.join(1)
    place.do(create, host=2)
    place.do(both)


def test_a_group_that_is_full_takes_nobody_in_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MEMBERS_MAX", 1)
    (first,) = place.join(0)
    (second,) = place.join(1)
    assert isinstance(second.ended, TooLarge) and "as many members" in second.ended.what
    assert second.ended.fix == "join another one" and len(first.view.members) == 1


@pytest.mark.spec("V-050", "V-057")
def test_groups_are_listed_and_left_by_their_attributes(place: Place) -> None:
    """V-050, V-057."""

    async def program(me: rostra.Me) -> tuple[Any, ...]:
        for name, tier in (("a", "gold"), ("b", "gold"), ("c", "tin")):
            await me.groups.create(name, place.scope, attributes={"tier": tier})
        async with (
            me.join("a", place.scope, membership="agreed", create=False) as a,
            me.join("c", place.scope, membership="agreed", create=False) as c,
        ):
            await a.ready()
            await c.ready()
            every = await me.groups.list(place.scope)
            gold = await me.groups.list(place.scope, where={"tier": "gold"})
            mine = await me.groups.list(place.scope, member=me.endpoint)
            left = await me.groups.leave({"tier": "gold"})
            await asyncio.sleep(5)  # until the servers have agreed on it
            return every, gold, mine, left, await me.groups.list(place.scope, member=me.endpoint)

    lists = [[each.name for each in groups] for groups in place.do(program, for_s=60)]
    assert lists == [["a", "b", "c"], ["a", "b"], ["a", "c"], ["a"], ["c"]]


def test_what_cannot_be_is_refused_with_what_to_do(place: Place) -> None:
    """Bad input: each error says what to do."""

    numbers: Any = {"a": 1}

    async def program(me: rostra.Me) -> None:
        with pytest.raises(BadInput, match="at character 10: majority ▸andd"):
            await me.groups.create("x", place.scope, survive="majority andd")
        with pytest.raises(NotInScope):
            await me.groups.create("x", "mars")
        with pytest.raises(NotAllowed, match="a group of one host"):
            await me.groups.create("x", me.host)
        with pytest.raises(BadInput, match="texts"):
            await me.groups.create("x", place.scope, attributes=numbers)
        with pytest.raises(NoSuchGroup) as missing:
            await me.groups.set_attributes("x", place.scope, attributes={"a": "1"})
        assert "create" in missing.value.fix
        await me.groups.create("x", place.scope)
        with pytest.raises(NotMember):
            await me.groups.remove("x", me.endpoint, place.scope)
        with pytest.raises(BadInput, match="two other groups"):
            await me.groups.split("x", "y", "y", place.scope, where={})
        with pytest.raises(NoSuchGroup):
            await me.groups.merge("x", "y", "z", place.scope)

    place.do(program, for_s=60)


def test_a_rule_asks_for_attributes_of_members(place: Place) -> None:
    """V-098: the side with such a member lives; what is set later counts from then on."""
    rule = "has(type='db')"
    (a,) = place.join(0, survive=rule, attributes={"type": "db"})
    (b,) = place.join(1, survive=rule)
    (c,) = place.join(2, survive=rule)

    def cut_off(host: int) -> None:
        place.world.cut(f"{place.hosts[host]} | {place.hosts[host].rpartition('.')[0]}")
        place.world.run(for_s=30)

    cut_off(1)
    assert a.hosts == c.hosts == [place.hosts[0], place.hosts[2]]
    assert isinstance(b.items[-1], rostra.Blocked)
    place.world.heal()
    place.world.run(for_s=30)

    async def hand_on(me: rostra.Me) -> None:
        with pytest.raises(rostra.errors.Refused, match="no side of db@"):
            await me.groups.set_attributes("db", place.scope, attributes={"type": None}, of=a.endpoint)
        await me.groups.set_attributes("db", place.scope, attributes={"type": "db"}, of=b.endpoint)
        await me.groups.set_attributes("db", place.scope, attributes={"type": None}, of=a.endpoint)

    place.do(hand_on, host=2)
    cut_off(0)
    assert sorted(b.hosts) == sorted(c.hosts) == sorted(place.hosts[1:])
    assert isinstance(a.items[-1], rostra.Blocked)


@pytest.mark.spec("V-098", "V-099", "V-100")
@pytest.mark.parametrize(
    ("rule", "four_live"),
    [("size > 3 and has(type='db')", False), ("size > 3 and has(type='db') or has(rank 0)", True)],
)
def test_of_seven_that_are_cut_who_has_not_what_the_rule_asks_stands_still_until_all_are_back(
    rule: str, four_live: bool
) -> None:
    """XV-14: the source's rule, the only db on the side of three. Nobody is put out, however long it is."""
    hosts = [*[f"eu.fr.h{n}" for n in range(1, 5)], *[f"eu.de.h{n}" for n in range(1, 4)]]
    world = World({"eu.fr": 4, "eu.de": 3}, seed=5)
    players = []
    for host in hosts:
        has = {"type": "db"} if host == hosts[-1] else {}
        players.append(Player("db", "eu", {"survive": rule, "attributes": has}))
        world.start(host, players[-1].run())
        world.run(for_s=6)
    assert all(each.hosts == hosts and isinstance(each.items[-1], rostra.View) for each in players)
    world.cut("eu.de | eu.fr")
    world.cut("eu.de | eu")
    for _ in range(2):
        world.run(for_s=60)
        stand = [isinstance(each.items[-1], rostra.Blocked) for each in players]
        assert stand == [not four_live] * 4 + [True] * 3
    assert players[0].hosts == (hosts[:4] if four_live else hosts)
    world.heal()
    world.run(for_s=60)
    assert [each.ended for each in players] == [None] * 7
    assert all(sorted(each.hosts) == sorted(hosts) for each in players)
    assert all(isinstance(each.items[-1], rostra.View) for each in players)
    world.close()


def test_a_restarted_server_knows_the_attributes_that_a_rule_asks_for() -> None:
    place = Place("cluster")
    (a,) = place.join(0, survive="has(type='db')", attributes={"type": "db"})
    (b,) = place.join(1, survive="has(type='db')")
    place.world.restart("paris")
    place.world.run(for_s=60)
    for player in (a, b):
        assert isinstance(player.items[-1], rostra.View) and len(player.view.members) == 2
    place.world.close()


def test_a_created_group_without_members_and_a_deleted_one_outlive_their_server() -> None:
    """No host knows of them: the cluster's server has them on its disk."""
    place = Place("cluster")

    async def create(me: rostra.Me) -> None:
        await me.groups.create("db", place.scope, history=5, attributes={"tier": "gold"})
        await me.groups.create("old", place.scope)
        await me.groups.delete("old", place.scope)

    async def look(me: rostra.Me) -> rostra.GroupInfo:
        with pytest.raises(NoSuchGroup):
            await me.groups.look("old", place.scope)
        return await me.groups.look("db", place.scope)

    place.do(create)
    place.world.restart("paris")
    place.world.run(for_s=20)
    info = place.do(look)
    assert (info.attributes, info.history_length) == ({"tier": "gold"}, 5)
    place.world.close()


@pytest.mark.spec("V-040")
def test_a_host_creates_as_many_groups_as_its_share_and_others_have_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_server, "HOST_CREATED_MAX", 3)
    place = Place("sites")

    async def create(me: rostra.Me, names: str) -> None:
        for name in names:
            await me.groups.create(name, place.scope)

    async def delete(me: rostra.Me) -> None:
        await me.groups.delete("b", place.scope)

    place.do(lambda me: create(me, "abc"))
    with pytest.raises(TooLarge, match="has created 3 groups"):
        place.do(lambda me: create(me, "d"))
    place.do(lambda me: create(me, "def"), host=1)
    place.do(delete)
    place.do(lambda me: create(me, "g"))

    async def create_at_once(me: rostra.Me) -> list[object]:
        calls = [me.groups.create(name, place.scope) for name in "wxyz"]
        return [each for each in await asyncio.gather(*calls, return_exceptions=True) if each]

    assert sum(isinstance(each, TooLarge) for each in place.do(create_at_once, host=2)) == 1
    place.world.restart("eu.fr")
    place.world.run(for_s=20)
    with pytest.raises(TooLarge):
        place.do(lambda me: create(me, "h"))
    place.world.close()


def test_the_turn_of_a_leader_is_not_lost_to_a_subgroup_that_it_is_put_into(place: Place) -> None:
    """The view and what comes after it may be there before the program looks."""

    async def program(me: rostra.Me) -> list[AgreedItem]:
        group = Group("lead/x", Domain(place.scope))
        candidacy = Candidacy(me, JoinAgreed(group))
        candidacy._put(rostra.View((), number=1, rank=0, fence=7))
        candidacy._put(rostra.Added(group, "it was split, and goes on"))
        return list(candidacy._unread)

    (view,) = place.do(program, for_s=1)
    assert isinstance(view, rostra.View) and view.fence == 7
