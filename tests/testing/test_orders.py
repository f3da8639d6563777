"""Groups with ``delivery="atomic"`` in each order that programs can choose: the same scenarios, one promise.

`hub`: one station orders for all. `negotiated`: the paper's, in which each sender's station does (A-045).
"""

import asyncio
from collections.abc import Iterator

import pytest
from support.ampnet import BUS, sound
from support.ampnet import members as bus_members

import rostra
from rostra.client import ordered
from rostra.errors import Excluded, InDoubt, Rejected
from rostra.names import Domain, Group
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.calls import DrainHost, HostDrained
from rostra.protocols.agreed.stays import StayInside
from rostra.protocols.atomic import station
from rostra.protocols.atomic.agent import ORDER_AGENT
from rostra.testing import World
from rostra.wire import NO_ENDPOINT

PLACES = ("fr.paris.h1", "fr.paris.h2", "fr.lyon.h1")
LEDGER = Group("ledger", Domain("fr"))
BOTH = pytest.mark.parametrize("order", ["hub", "negotiated"])


class Member:
    """Joins, and keeps what it is given."""

    def __init__(self, order: str, name: str, *, scope: str = "fr", slow: str = "throttle") -> None:
        self.order, self.name, self.scope, self.slow = order, name, scope, slow
        self.items: list[rostra.AtomicItem | rostra.Messages] = []
        self.receipts: list[rostra.Receipt] = []
        self.group: rostra.Ordered | None = None
        self.endpoint = ""
        self.reads = asyncio.Event()
        self.reads.set()
        self.error: rostra.RostraError | None = None  # that ended it
        self.unsent: rostra.RostraError | None = None

    async def run(self, survive: str = "any") -> None:
        async with rostra.connect(name=self.name) as me:
            self.endpoint = me.endpoint
            self.group = await me.join(
                *("ledger", self.scope),
                membership="agreed",
                delivery="atomic",
                order=self.order,
                survive=survive,
                slow=self.slow,
            )
            try:
                async for item in self.group:
                    self.items.append(item)
                    await self.reads.wait()
            except rostra.RostraError as error:
                self.error = error
            await asyncio.sleep(3600)

    async def say(self, count: int, size: int = 10, every_s: float | None = None) -> None:
        try:
            await self._say(count, size, every_s)
        except rostra.RostraError as error:
            self.unsent = error

    async def _say(self, count: int, size: int, every_s: float | None) -> None:
        assert self.group is not None
        said = [f"{self.name} {len(self.receipts) + n}".encode().ljust(size) for n in range(count)]
        if every_s is None:
            self.receipts += await self.group.send_many(said)
            return
        for each in said:
            self.receipts.append(await self.group.send(each))
            await asyncio.sleep(every_s)

    @property
    def log(self) -> list[tuple[int, str, bytes]]:
        return [(m.position, m.sender, m.body) for m in self.items if isinstance(m, rostra.Message)]

    @property
    def views(self) -> list[rostra.View]:
        return [each for each in self.items if isinstance(each, rostra.View)]


@pytest.fixture
def wide() -> Iterator[World]:
    """Two hosts of one cluster, and one of another."""
    world = World({"fr.paris": 2, "fr.lyon": 1}, seed=7)
    yield world
    world.close()


@pytest.fixture
def lan() -> Iterator[World]:
    world = World({"paris": 3}, seed=5)
    yield world
    world.close()


def enter(world: World, order: str, *hosts: str, scope: str = "fr", survive: str = "any") -> list[Member]:
    members = [Member(order, name, scope=scope) for name, _ in zip("abcdefgh", hosts, strict=False)]
    for host, member in zip(hosts, members, strict=True):
        world.start(host, member.run(survive))
        world.run(for_s=3)
    return members


def agree(*members: Member) -> None:
    """Each log is the end of the longest one, positions included; and so are the views (A-100, A-073)."""
    longest = max((member.log for member in members), key=len)
    for member in members:
        assert member.log and member.log == longest[-len(member.log) :]
        positions = [position for position, *_ in member.log]
        assert positions == sorted(set(positions))
        for receipt, (position, sender, _) in zip(
            member.receipts, [each for each in member.log if each[1] == member.endpoint], strict=False
        ):
            assert (receipt.position, member.endpoint) == (position, sender)


@BOTH
@pytest.mark.spec("A-002", "A-003", "A-011", "A-045", "A-046", "A-100", "A-105")
def test_members_of_several_hosts_and_clusters_get_one_order(wide: World, order: str) -> None:
    """XA-01, XA-02."""
    members = enter(wide, order, *PLACES, "fr.paris.h1")
    for host, member in zip((*PLACES, "fr.paris.h1"), members, strict=True):
        wide.start(host, member.say(100))
        wide.start(host, member.say(5, every_s=0.1))
    wide.run(for_s=8)
    agree(*members)
    assert [len(each.receipts) for each in members] == [105] * 4
    assert {len(each.log) for each in members} == {420}
    assert [view.number for view in members[0].views] == [1, 2, 3, 4]


@BOTH
@pytest.mark.spec("A-039", "A-102", "A-104")
def test_what_is_lost_comes_again_large_messages_too(wide: World, order: str) -> None:
    """XA-03 to XA-05: frames that fit no datagram come in parts, of which some are lost."""
    members = enter(wide, order, *PLACES)
    wide.lose(0.2)
    for host, member in zip(PLACES, members, strict=True):
        wide.start(host, member.say(60, 900))
        wide.start(host, member.say(2, 400_000))
    wide.run(for_s=40)
    agree(*members)
    assert [len(each.receipts) for each in members] == [62] * 3


@BOTH
@pytest.mark.spec("A-052", "A-089", "A-101")
def test_what_a_dead_sender_was_acknowledged_is_delivered_by_all(wide: World, order: str) -> None:
    """XA-08: its host fails while all speak."""
    members = enter(wide, order, *PLACES)
    for host, member in zip(PLACES, members, strict=True):
        wide.start(host, member.say(50, every_s=0.02))
    wide.run(for_s=0.7)
    wide.crash("fr.paris.h1")
    wide.run(for_s=25)
    ann, ben, cem = members
    agree(ben, cem)
    assert len(ben.receipts) == len(cem.receipts) == 50
    delivered = {(position, sender) for position, sender, _ in ben.log}
    assert ann.receipts and all((each.position, ann.endpoint) in delivered for each in ann.receipts)
    assert cem.views[-1].failed == (ann.endpoint,) and cem.views[-1].rank == 1
    assert ben.views[-1].id == cem.views[-1].id


@BOTH
@pytest.mark.spec("A-016", "A-048", "A-074")
def test_a_host_that_comes_back_is_another_station(lan: World, order: str) -> None:
    """XA-09: nothing of its earlier life is taken for one of its new life."""
    hosts = [f"paris.h{n}" for n in (1, 2, 3)]
    members = enter(lan, order, *hosts, scope="paris")
    lan.start(hosts[0], members[0].say(30, every_s=0.01))
    lan.run(for_s=0.1)
    lan.crash(hosts[0])
    lan.restart(hosts[0])
    again = Member(order, "a", scope="paris")
    lan.run(for_s=1)
    lan.start(hosts[0], again.run())
    lan.run(for_s=10)
    lan.start(hosts[0], again.say(10))
    lan.run(for_s=3)
    agree(members[1], members[2], again)
    assert len(again.receipts) == 10 and len(again.log) == 10
    numbers = [m.number for m in members[1].items if isinstance(m, rostra.Message)]
    assert numbers[-10:] == list(range(1, 11))


@BOTH
@pytest.mark.spec("A-042", "A-073", "A-075")
def test_who_comes_and_goes_under_load_costs_no_message(lan: World, order: str) -> None:
    """XA-14, XA-15: two leave and two come while all speak."""
    hosts = [f"paris.h{n}" for n in (1, 2, 3)]
    members = enter(lan, order, *hosts, hosts[1], scope="paris")
    for host, member in zip((*hosts, hosts[1]), members, strict=True):
        lan.start(host, member.say(60, every_s=0.02))
    lan.run(for_s=0.3)
    late = [Member(order, "x", scope="paris"), Member(order, "y", scope="paris")]
    for host, member in zip(hosts, late, strict=False):
        lan.start(host, member.run())
    lan.run(for_s=0.2)

    async def leave(member: Member) -> None:
        assert member.group is not None
        await member.group.leave()

    lan.start(hosts[2], leave(members[2]))
    lan.start(hosts[1], leave(members[3]))
    lan.run(for_s=6)
    agree(members[0], members[1], *late)
    assert len(members[0].receipts) == len(members[1].receipts) == 60
    assert {view.id for view in members[0].views} >= {view.id for view in members[1].views}
    assert members[0].views[-1].id == late[0].views[-1].id == late[1].views[-1].id
    gone = {endpoint for view in members[0].views for endpoint in view.left}
    assert gone == {members[2].endpoint, members[3].endpoint}
    assert not any(view.failed for view in members[0].views)


@BOTH
@pytest.mark.spec("A-041", "A-056")
def test_the_smaller_side_of_a_partition_delivers_nothing_more(wide: World, order: str) -> None:
    """XA-19: the sender is in it; it is back after the partition."""
    members = enter(wide, order, *PLACES, survive="majority")
    cem = members[2]
    wide.cut("fr.lyon")
    wide.start("fr.lyon.h1", cem.say(1, every_s=0.0))
    wide.run(for_s=20)
    assert isinstance(cem.items[-1], rostra.Blocked) or cem.error is not None
    assert not cem.log and not cem.receipts
    for host, member in zip(PLACES, members[:2], strict=False):
        wide.start(host, member.say(5))
    wide.run(for_s=5)
    agree(*members[:2])
    assert len(members[0].log) == 10
    assert members[1].views[-1].failed == (cem.endpoint,)
    wide.heal()
    wide.run(for_s=20)
    assert isinstance(cem.error, Excluded)
    assert isinstance(cem.unsent, InDoubt | Rejected)


@pytest.mark.parametrize(("order", "after_s"), [("hub", 0.15), ("negotiated", 0.15)])
@pytest.mark.spec("A-056", "A-089")
def test_a_member_that_joins_while_its_host_is_put_out_is_in_the_group_as_the_others_have_it(
    wide: World, order: str, after_s: float
) -> None:
    """It asks after the two sides have met, and before those of its host know what that means for them."""
    ann, _, cem = enter(wide, order, *PLACES)
    wide.cut("fr.lyon")
    wide.run(for_s=20)
    for host, member in (("fr.lyon.h1", cem), ("fr.paris.h1", ann)):
        wide.start(host, member.say(2))
    wide.run(for_s=2)
    group = wide.sim.processes[Domain("fr.lyon.h1")].stack[AGREED_AGENT].groups[LEDGER]
    alone = group.view
    wide.heal()
    while group.view == alone:
        wide.run(for_s=0.01)
    wide.run(for_s=after_s)
    dan = Member(order, "d")
    wide.start("fr.lyon.h1", dan.run())
    while cem.error is None:
        wide.run(for_s=0.01)
    assert isinstance(cem.error, Excluded)
    assert [isinstance(each.stage, StayInside) for each in group.members.values()] == [False]
    wide.run(for_s=10)
    assert dan.error is None
    for host, member in (("fr.lyon.h1", dan), ("fr.paris.h1", ann)):
        wide.start(host, member.say(2))
    wide.run(for_s=3)
    agree(ann, dan)
    assert len(dan.log) == 4


@pytest.fixture
def soon_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(station, "BACKLOG_BYTES", 40_000)
    monkeypatch.setattr(ordered, "UNREAD_BYTES_MAX", 20_000)


@BOTH
@pytest.mark.usefixtures("soon_full")
@pytest.mark.spec("A-036", "A-054")
def test_a_member_that_does_not_read_holds_up_the_others_until_it_does(lan: World, order: str) -> None:
    """XA-06: senders wait, and lose nothing."""
    members = enter(lan, order, "paris.h1", "paris.h2", scope="paris")
    ann, ben = members
    ben.reads.clear()
    lan.start("paris.h1", ann.say(800, 1000))
    lan.run(for_s=5)
    held = len(ann.receipts), len(ann.log)
    assert held[1] < 700
    ben.reads.set()
    lan.run(for_s=5)
    assert len(ann.receipts) == 800
    assert ann.log == ben.log and len(ann.log) == 800


@pytest.mark.usefixtures("soon_full")
@pytest.mark.spec("A-055")
def test_a_member_that_does_not_read_for_longer_than_is_allowed_is_put_out(lan: World) -> None:
    members = enter(lan, "negotiated", "paris.h1", "paris.h2", scope="paris")
    ann, ben = members
    ben.reads.clear()
    lan.start("paris.h1", ann.say(800, 1000))
    lan.run(for_s=40)
    assert len(ann.receipts) == 800
    assert ben.endpoint not in ann.views[-1].members
    ben.reads.set()
    lan.run(for_s=3)
    assert isinstance(ben.error, Excluded) and "did not read" in str(ben.error)


@pytest.mark.spec("A-001")
def test_a_program_in_two_hundred_groups_is_given_in_each_what_was_said_there(lan: World) -> None:
    given: dict[tuple[int, str], list[bytes]] = {}

    async def member(nth: int, name: str) -> None:
        async with rostra.connect() as me:
            groups = [
                await me.join(f"g{number}", "paris", membership="agreed", delivery="atomic")
                for number in range(200)
            ]
            async with asyncio.TaskGroup() as tasks:
                for group in groups:
                    tasks.create_task(one(nth, name, group))

    async def one(nth: int, name: str, group: rostra.Ordered) -> None:
        own = group.group.name.encode()
        async for item in group:
            if isinstance(item, rostra.View) and len(item.members) == 2:
                group.send_soon(own)
            elif isinstance(item, rostra.Message):
                given.setdefault((nth, group.group.name), []).append(item.body)

    for nth, host in enumerate(("paris.h1", "paris.h2")):
        lan.start(host, member(nth, host))
    lan.run(for_s=20)
    assert given == {(nth, f"g{n}"): [f"g{n}".encode()] * 2 for nth in range(2) for n in range(200)}


@BOTH
@pytest.mark.spec("A-005")
def test_of_groups_that_were_entered_and_left_an_agent_keeps_nothing(lan: World, order: str) -> None:
    async def comes_and_goes() -> None:
        async with rostra.connect() as me:
            for number in range(40):
                group = await me.join(
                    f"g{number % 7}", "paris", membership="agreed", delivery="atomic", order=order
                )
                await group.ready()
                await group.send(b"x")
                await group.leave()
            assert not me._agreed
            left.append(me)
            await asyncio.sleep(3600)

    left: list[rostra.Me] = []
    for host in ("paris.h1", "paris.h2", "paris.h3"):
        lan.start(host, comes_and_goes())
    lan.run(for_s=60)
    assert len(left) == 3
    for host in ("paris.h1", "paris.h2", "paris.h3"):
        stack = lan.sim.processes[Domain(host)].stack
        assert not stack[ORDER_AGENT].stations and not stack[AGREED_AGENT].groups


@BOTH
@pytest.mark.spec("A-008", "A-057")
def test_a_group_that_waits_for_a_lost_host_holds_up_no_other(lan: World, order: str) -> None:
    """XA-22, small: one of ten groups loses a host."""
    took: dict[str, list[float]] = {}

    async def speak(name: str) -> None:
        async with rostra.connect() as me:
            group = await me.join(name, "paris", membership="agreed", delivery="atomic", order=order)
            while True:
                began = lan.now
                await group.send(name.encode())
                took.setdefault(name, []).append(lan.now - began)
                await asyncio.sleep(0.3)

    for number in range(10):
        lan.start("paris.h1", speak(f"g{number}"))
        lan.start("paris.h2", speak(f"g{number}"))
    lan.start("paris.h3", speak("g0"))
    lan.run(for_s=4)
    lan.crash("paris.h3")
    took.clear()
    lan.run(for_s=6)
    slowest = {name: max(each) for name, each in took.items()}
    assert slowest.pop("g0") > 0.5
    assert max(slowest.values()) < 0.1


@pytest.mark.spec("A-044", "A-045", "A-046", "A-102")
def test_the_same_sends_in_all_three_orders_are_the_same_messages() -> None:
    """Each in one order of its own, in which each sender's messages stand as it sent them. `medium` is on the
    simulated bus; the others are over datagrams."""
    hosts = [f"paris.h{n}" for n in (1, 2, 3)]
    logs: dict[str, list[list[bytes]]] = {}
    for order in ("hub", "negotiated"):
        world = World({"paris": 3}, seed=5)
        members = enter(world, order, *hosts, scope="paris")
        for host, member in zip(hosts, members, strict=True):
            world.start(host, member.say(30, every_s=0.01))
        world.run(for_s=4)
        world.close()
        logs[order] = [[body for _, _, body in member.log] for member in members]
    net, stations = bus_members(BUS, 3)
    for number in range(30):
        for name, each in zip("abc", stations, strict=True):
            net.give(each, f"{name} {number}".encode().ljust(10))
        net.run(0.01)
    net.run(2)
    sound(net)
    logs["medium"] = [net.logs[each].messages() for each in stations]
    for each in logs.values():
        assert each[0] == each[1] == each[2] and len(each[0]) == 90
        for name in (b"a", b"b", b"c"):
            numbers = [int(body.split()[1]) for body in each[0] if body.startswith(name)]
            assert numbers == list(range(30))
    assert sorted(logs["hub"][0]) == sorted(logs["negotiated"][0]) == sorted(logs["medium"][0])


@BOTH
@pytest.mark.spec("A-056", "A-100")
def test_a_member_that_hears_nothing_is_removed_and_stops(lan: World, order: str) -> None:
    """XA-20: what it says still arrives."""
    hosts = ("paris.h1", "paris.h2", "paris.h3")
    members = enter(lan, order, *hosts, scope="paris", survive="majority")
    ann, ben, cem = members
    lan.cut("paris > paris.h3")
    for host, member in zip(hosts, members, strict=True):
        lan.start(host, member.say(20, every_s=0.05))
    lan.run(for_s=20)
    assert ben.views[-1].failed == (cem.endpoint,)
    assert len(ann.receipts) == len(ben.receipts) == 20
    agree(ann, ben)
    assert cem.log == ann.log[: len(cem.log)] and len(cem.log) < 20
    lan.heal()
    lan.run(for_s=20)
    assert isinstance(cem.error, Excluded)
    assert cem.log == ann.log[: len(cem.log)]


async def drain() -> HostDrained:
    """As `rostra drain` does at this host."""
    async with rostra.connect() as me:
        drained: HostDrained = await me._connection.ask(NO_ENDPOINT, DrainHost())
        return drained


@BOTH
@pytest.mark.spec("A-042", "A-089")
def test_a_host_that_is_drained_passes_its_seniority_on_and_no_member_is_out(lan: World, order: str) -> None:
    """Under load: nobody is excluded, and every message has its place."""
    hosts = ("paris.h1", "paris.h2", "paris.h3")
    members = enter(lan, order, *hosts, scope="paris", survive="majority")
    for host, member in zip(hosts, members, strict=True):
        lan.start(host, member.say(60, every_s=0.02))
    lan.run(for_s=0.3)
    drained = lan.start(hosts[0], drain())
    lan.run(for_s=5)
    assert [each.refused for each in drained.result().groups] == [""]
    assert [each.error for each in members] == [None] * 3
    agree(*members)
    assert [len(each.receipts) for each in members] == [60] * 3
    ann, ben, _ = members
    assert ann.views[-1].members[0].endpoint == ben.endpoint and ann.views[-1].rank == 2
    for view in (each.views[-1] for each in members):
        assert not (view.joined or view.left or view.failed)
