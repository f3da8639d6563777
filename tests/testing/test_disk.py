"""Groups with ``stable="disk"`` in a pretended world: what was acknowledged is there after all hosts were
lost."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pytest

import rostra
from rostra.core.effects import Event
from rostra.core.logs import LogBatch, kept_logs
from rostra.core.observer import Seen
from rostra.core.stack import Stack
from rostra.errors import Excluded, NotAvailable, Terminated
from rostra.names import Domain, Group
from rostra.protocols.agreed.refusals import check_disk
from rostra.protocols.atomic import agent as order_agent
from rostra.protocols.atomic import station as gallery
from rostra.protocols.atomic.agent import ORDER_AGENT
from rostra.protocols.atomic.held import HeldBack
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.hub_order import HubOrder
from rostra.protocols.atomic.messages import HubHave, HubReport, decode_entry
from rostra.protocols.claims.agent import CLAIM_AGENT
from rostra.protocols.fifo.events import Transmit
from rostra.protocols.relaxed.registry import Registry
from rostra.testing import World

HOSTS = ("paris.h1", "paris.h2", "paris.h3")


class Keeper:
    """A member of a group that is on disk: what it was given before its first view, and after."""

    def __init__(self, name: str, *, reads: bool = True, group: str = "ledger") -> None:
        self.name = name
        self.reads = reads  # else it is expelled when too much waits for it
        self.named = group
        self.before: list[bytes] = []
        self.after: list[bytes] = []
        self.items: list[object] = []
        self.acknowledged: list[bytes] = []
        self.group: rostra.Ordered | None = None
        self.stop = asyncio.Event()
        self.excluded = ""

    async def run(self) -> None:
        slow: Literal["throttle", "expel"] = "throttle" if self.reads else "expel"
        async with rostra.connect(name=self.name) as me:
            self.group = await me.join(
                *(self.named, "paris"),
                membership="agreed",
                delivery="atomic",
                survive="majority",
                stable="disk",
                slow=slow,
            )
            reading = asyncio.create_task(self.read(self.group) if self.reads else self.stop.wait())
            await self.stop.wait()
            if not self.excluded:
                await self.group.leave()
            await reading

    async def read(self, group: rostra.Ordered) -> None:
        seen = self.before
        try:
            async for item in group:
                self.items.append(item)
                if isinstance(item, rostra.View):
                    seen = self.after
                elif isinstance(item, rostra.Message):
                    seen.append(item.body)
        except (Excluded, Terminated) as error:
            self.excluded = str(error)
            self.stop.set()

    async def say(self, *bodies: bytes) -> None:
        assert self.group is not None
        for body in bodies:
            await self.group.send(body)
            self.acknowledged.append(body)

    @property
    def waits_for(self) -> str:
        last = self.items[-1] if self.items else None
        return last.because if isinstance(last, rostra.Blocked) else ""


class Written:
    """Whatever a host reports that it has, others may count on: it is on its disk by then."""

    def __init__(self, world: World) -> None:
        self.world = world

    def saw(self, now: float, path: Domain, event: Event, outputs: Sequence[Seen]) -> None:
        for each in outputs:
            if isinstance(each, Transmit) and isinstance(each.message, HubHave | HubReport):
                process = self.world.sim.processes[path]
                station = process.stack[ORDER_AGENT].stations[each.group]
                assert isinstance(station, Station)
                batches = [one for one in process.disk if isinstance(one, LogBatch) and one.entries]
                last = [one.entries[-1][1] for one in batches if one.log == str(each.group)][-1:]
                ends = [entry.end for data in last if (entry := decode_entry(data)) is not None]
                assert each.message.next <= max(ends, default=station.log.low), f"{path}: {each.message}"


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 3}, seed=5)
    world.sim.observe(Written(world))
    yield world
    world.close()


def begin(world: World, *hosts: str) -> list[Keeper]:
    keepers = [Keeper(host.replace(".", "-")) for host in hosts]
    for host, keeper in zip(hosts, keepers, strict=True):
        world.start(host, keeper.run())
        world.run(for_s=2)
    return keepers


def lose_all(world: World) -> None:
    """At one moment: their server agrees on no view between."""
    world.crash("paris")
    for host in HOSTS:
        world.crash(host)
    world.run(for_s=3)
    world.restart("paris")


def test_what_was_acknowledged_is_there_after_all_hosts_were_lost(world: World) -> None:
    first, *others = begin(world, *HOSTS)
    world.start("paris.h1", first.say(b"a", b"b", b"c"))
    world.run(for_s=2)
    assert first.acknowledged == [b"a", b"b", b"c"] == others[1].after
    lose_all(world)
    again = come_back(world, *HOSTS)
    world.run(for_s=3)
    assert again[0].before == [b"a", b"b", b"c"]
    assert again[1].before == again[0].before
    world.start("paris.h1", again[0].say(b"d"))
    world.run(for_s=2)
    assert [each.after[-1:] for each in again] == [[b"d"]] * 3


def come_back(world: World, *hosts: str) -> list[Keeper]:
    """Their server waits a while for the others."""
    for host in hosts:
        world.restart(host)
    world.run(for_s=3)
    keepers = begin(world, *hosts)
    world.run(for_s=15)
    return keepers


def test_a_minority_that_is_back_waits_and_names_the_hosts_that_it_waits_for(world: World) -> None:
    first, *_ = begin(world, *HOSTS)
    world.start("paris.h1", first.say(b"a"))
    world.run(for_s=2)
    lose_all(world)
    (alone,) = come_back(world, "paris.h3")
    world.run(for_s=60)
    assert "paris.h1, paris.h2" in alone.waits_for and not alone.before
    (second,) = come_back(world, "paris.h2")
    world.run(for_s=3)
    assert alone.before == second.before == [b"a"] and not alone.waits_for


def lose_disk(world: World, host: str) -> None:
    process = world.sim.processes[world.sim.path(host)]
    process.disk.clear()


def test_a_host_whose_disk_is_lost_gets_the_order_from_the_others(world: World) -> None:
    first, *_ = begin(world, *HOSTS)
    world.start("paris.h1", first.say(b"a"))
    world.run(for_s=2)
    lose_all(world)
    lose_disk(world, "paris.h1")
    empty, second = come_back(world, "paris.h1", "paris.h2")
    assert "paris.h1, paris.h3" in empty.waits_for  # one disk of three is no majority
    (third,) = come_back(world, "paris.h3")
    assert empty.before == second.before == third.before == [b"a"]


def test_an_order_is_not_begun_twice(world: World) -> None:
    """Where the only disk with it is lost, a group stands until that is back, or the group is deleted."""
    (first,) = begin(world, "paris.h1")
    world.start("paris.h1", first.say(b"a"))
    world.run(for_s=2)
    lose_all(world)
    lose_disk(world, "paris.h1")
    (empty,) = come_back(world, "paris.h1")
    assert "no host is here that has this group's order" in empty.waits_for


def test_after_an_orderly_end_of_all_the_order_goes_on(world: World) -> None:
    keepers = begin(world, *HOSTS)
    world.start("paris.h1", keepers[0].say(b"a"))
    world.run(for_s=2)
    for keeper in keepers[::-1]:
        world.start("paris.h1", keepers[0].say(b"more"))
        world.run(for_s=1)
        keeper.stop.set()
        world.run(for_s=2)
    third, second = begin(world, "paris.h3", "paris.h2")  # without the last one, who may have more
    assert "paris.h1" in third.waits_for and "paris.h1" in second.waits_for
    (first,) = begin(world, "paris.h1")
    world.run(for_s=2)
    assert first.before == second.before == third.before == [b"a", b"more", b"more", b"more"]


def test_a_host_that_was_lost_alone_gets_all_that_is_kept(world: World) -> None:
    """Then it can bring the group back without the others who gave it to it."""
    first, *_ = begin(world, *HOSTS)
    world.start("paris.h1", first.say(b"a", b"b"))
    world.run(for_s=2)
    world.crash("paris.h3")
    world.run(for_s=6)
    world.start("paris.h1", first.say(b"c"))
    world.run(for_s=2)
    lose_disk(world, "paris.h3")
    (third,) = come_back(world, "paris.h3")
    assert third.before == [] and isinstance(third.items[-1], rostra.View)
    lose_all(world)
    third, second = come_back(world, "paris.h3", "paris.h2")
    world.run(for_s=3)
    assert third.before == second.before == [b"a", b"b", b"c"]


def test_a_host_without_room_says_so_and_acknowledges_nothing(world: World) -> None:
    first, second, third = begin(world, *HOSTS)
    world.sim.fill_disk("paris.h3")
    world.run(for_s=2)
    assert "no room on its disk" in third.excluded and "; make room on the disk" in third.excluded
    world.start("paris.h1", first.say(b"a"))
    world.run(for_s=2)
    assert first.acknowledged == [b"a"] and third.after == []
    lose_all(world)
    world.sim.fill_disk("paris.h3", full=False)
    third, second = come_back(world, "paris.h3", "paris.h2")
    world.run(for_s=3)
    assert "paris.h1" in third.waits_for  # what two had may be with the one that is not back
    (first,) = come_back(world, "paris.h1")
    world.run(for_s=3)
    assert first.before == second.before == third.before == [b"a"]


def test_a_group_that_was_deleted_is_gone_from_all_disks_and_can_begin_anew(world: World) -> None:
    first, _ = begin(world, "paris.h1", "paris.h2")
    world.start("paris.h1", first.say(b"a"))
    world.run(for_s=2)

    async def delete() -> None:
        async with rostra.connect() as me:
            await me.groups.delete("ledger", "paris")

    world.start("paris.h3", delete())
    world.run(for_s=5)
    disks = [world.sim.processes[world.sim.path(host)].disk for host in HOSTS]
    assert [kept_logs(disk) for disk in disks] == [{}, {}, {}]
    (again,) = begin(world, "paris.h3")
    world.run(again.say(b"b"))
    assert again.before == [] and again.after == [b"b"]


# Replicated objects


class Counter(rostra.Replicated):
    def __init__(self) -> None:
        self.total = 0
        self.names: dict[str, int] = {}

    @rostra.command
    def add(self, name: str, amount: int) -> int:
        self.total += amount
        self.names[name] = self.names.get(name, 0) + 1
        return self.total


class Replica:
    def __init__(self, name: str, adds: int = 0, size: int = 0) -> None:
        self.name, self.adds, self.size = name, adds, size
        self.counter: Counter | None = None
        self.answers: list[int] = []

    async def run(self) -> None:
        async with (
            rostra.connect(name=self.name) as me,
            me.replicate("visits", Counter(), "paris", stable="disk") as counter,
        ):
            self.counter = counter
            for _ in range(self.adds):
                self.answers.append(await counter.add(self.name.ljust(self.size, "."), 1))
            await asyncio.Event().wait()


def test_a_replicated_object_survives_all_its_programs_and_agents(world: World) -> None:
    replicas = [Replica(host.replace(".", "-"), adds=20) for host in HOSTS]
    for host, replica in zip(HOSTS, replicas, strict=True):
        world.start(host, replica.run())
        world.run(for_s=3)
    world.run(for_s=5)
    assert sorted(replicas[0].answers + replicas[1].answers + replicas[2].answers) == list(range(1, 61))
    lose_all(world)
    for host in HOSTS:
        world.restart(host)
    world.run(for_s=3)
    again = [Replica(host.replace(".", "-"), adds=1) for host in HOSTS]
    for host, replica in zip(HOSTS, again, strict=True):
        world.start(host, replica.run())
    world.run(for_s=20)
    assert sorted([answer for each in again for answer in each.answers]) == [61, 62, 63]
    assert {each.counter.total for each in again if each.counter} == {63}


def test_what_a_saved_state_has_is_not_kept(world: World) -> None:
    """8 MB of commands, and a state of 16 kB: a part of them is on disk in the end; the object is whole."""
    replicas = [Replica(host.replace(".", "-"), adds=500, size=8_000) for host in HOSTS[:2]]
    for host, replica in zip(HOSTS, replicas, strict=False):
        world.start(host, replica.run())
        world.run(for_s=3)
    world.run(for_s=60)
    assert [len(each.answers) for each in replicas] == [500, 500]
    (log,) = kept_logs(world.sim.processes[world.sim.path("paris.h1")].disk).values()
    assert log.size < 7_000_000
    lose_all(world)
    for host in HOSTS:
        world.restart(host)
    world.run(for_s=3)
    again = [Replica(host.replace(".", "-")) for host in HOSTS[:2]]
    for host, replica in zip(HOSTS, again, strict=False):
        world.start(host, replica.run())
    world.run(for_s=20)
    assert [each.counter.total for each in again if each.counter] == [1_000, 1_000]


def acknowledged_then_lost(world: World) -> list[bytes]:
    """What is kept of one message whose host is lost as soon as it is acknowledged."""
    (first,) = begin(world, "paris.h1")
    world.run(first.say(b"a"))
    assert first.acknowledged == [b"a"]
    lose_all(world)
    (again,) = come_back(world, "paris.h1")
    return again.before


def test_nothing_is_acknowledged_before_it_is_on_disk(world: World) -> None:
    assert acknowledged_then_lost(world) == [b"a"]


def test_what_is_written_after_it_was_acknowledged_is_found_to_be_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldBack, "hold", lambda self, batches, effects: [*batches, *effects])
    assert acknowledged_then_lost(world) == []


def test_an_agent_without_a_state_directory_refuses_what_it_cannot_promise() -> None:
    """Of one without room the disk says so: `test_a_host_without_room_says_so_and_acknowledges_nothing`."""
    registry = Registry()
    check_disk(registry, Group("ledger", Domain("paris")), Domain("paris.h1"))
    registry.logs = None
    with pytest.raises(NotAvailable, match="no state directory"):
        check_disk(registry, Group("ledger", Domain("paris")), Domain("paris.h1"))


def test_a_host_reports_what_is_on_its_disk_while_a_slow_member_of_it_is_expelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the group is looked at again within that step."""
    monkeypatch.setattr(gallery, "BACKLOG_BYTES", 1 << 20)
    first, second = begin(world, "paris.h1", "paris.h2")
    slow = Keeper("slow", reads=False)
    world.start("paris.h2", slow.run())
    world.run(for_s=2)
    assert slow.group is not None
    world.start("paris.h1", first.say(*[bytes(300_000)] * 40))
    world.run(for_s=20)
    assert len(first.acknowledged) == 40 == len(second.after)
    views = [each for each in second.items if isinstance(each, rostra.View)]
    assert [len(each.members) for each in views] == [2, 3, 2], "it did not read, and had to go"


def test_a_report_of_what_is_not_written_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldBack, "hold", lambda self, batches, effects: [*batches, *effects])
    with pytest.raises(AssertionError, match="HubHave"):
        begin(world, "paris.h1", "paris.h2")


# An order is recorded before anything of it is acknowledged


def run_until(world: World, host: str, is_so: Callable[[Stack], object]) -> None:
    process = world.sim.processes[world.sim.path(host)]
    for _ in range(2_000):
        if is_so(process.stack):
            return
        world.run(for_s=0.0005)
    raise AssertionError("that did not happen")


def begun_without_a_record(world: World) -> Keeper:
    """The server of the scope has no room from the moment on at which the order is on the first disk."""
    first = Keeper("paris-h1")
    world.start("paris.h1", first.run())
    run_until(world, "paris.h1", lambda stack: stack[CLAIM_AGENT].begun)
    world.sim.fill_disk("paris")
    world.run(for_s=6)
    return first


def test_nothing_is_given_of_an_order_that_its_scope_has_not_recorded(world: World) -> None:
    first = begun_without_a_record(world)
    assert "has not recorded yet" in first.waits_for and not first.after
    world.sim.fill_disk("paris", full=False)
    world.run(for_s=5)
    world.run(first.say(b"a"))
    assert first.acknowledged == [b"a"] == first.after


def left_before_the_record(world: World, first: Keeper) -> Keeper:
    """Another host has begun the group."""
    first.stop.set()
    world.run(for_s=3)
    world.sim.fill_disk("paris", full=False)
    world.run(for_s=5)
    (second,) = begin(world, "paris.h2")
    world.run(for_s=5)
    world.run(second.say(b"b"))
    return second


def test_an_order_that_was_not_recorded_gives_way_to_the_one_that_was(world: World) -> None:
    """Its member leaves before the server of the scope has room again, and another host begins the group."""
    second = left_before_the_record(world, begun_without_a_record(world))
    (first,) = begin(world, "paris.h1")
    world.run(for_s=5)
    world.run(first.say(b"c"))
    world.run(for_s=1)
    assert not first.excluded and second.after == [b"b", b"c"]
    lose_all(world)
    first, second = come_back(world, "paris.h1", "paris.h2")
    assert first.before == second.before == [b"b", b"c"]


def test_two_orders_are_found_where_receipts_do_not_wait_for_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = HubOrder._advance

    def at_once(self: HubOrder) -> bool:
        if self.disk is not None:
            self.disk.recorded = True
        return advance(self)

    monkeypatch.setattr(HubOrder, "_advance", at_once)
    first = begun_without_a_record(world)
    world.run(first.say(b"a"))
    second = left_before_the_record(world, first)
    assert first.acknowledged == [b"a"] and second.before == []


# Disks that fail


def test_a_host_that_cannot_write_its_first_log_is_out_of_that_group_and_goes_on(world: World) -> None:
    first, second = begin(world, "paris.h1", "paris.h2")
    world.sim.nodes.fail_logs("paris.h3", "No space left on device")
    (third,) = begin(world, "paris.h3")
    world.run(for_s=5)
    assert "cannot write the order" in third.excluded and "No space" in third.excluded
    world.run(first.say(b"a"))
    world.run(for_s=1)
    assert second.after == [b"a"]
    world.sim.nodes.fail_logs("paris.h3", "")
    (third,) = begin(world, "paris.h3")  # the same agent: nothing of it was on disk
    world.run(third.say(b"b"))
    world.run(for_s=1)
    assert third.after == [b"b"] == first.after[1:]


def test_the_only_host_that_cannot_write_acknowledges_nothing_and_begins_nothing(world: World) -> None:
    world.sim.nodes.fail_logs("paris.h1", "No space left on device")
    (first,) = begin(world, "paris.h1")
    world.run(for_s=5)
    assert "No space" in first.excluded and not first.after
    (second,) = begin(world, "paris.h2")  # no order stands in its way
    world.run(for_s=5)
    world.run(second.say(b"a"))
    assert second.acknowledged == [b"a"]


def test_a_host_that_cannot_write_any_more_acknowledges_nothing_until_it_is_started_again(
    world: World,
) -> None:
    first, second, third = begin(world, *HOSTS)
    world.run(first.say(b"a"))
    world.sim.nodes.fail_logs("paris.h3", "Input/output error")
    world.run(first.say(b"b"))
    world.run(for_s=3)
    assert "Input/output error" in third.excluded and third.after == [b"a"]
    world.sim.nodes.fail_logs("paris.h3", "")
    (third,) = begin(world, "paris.h3")
    world.run(for_s=3)
    assert "; when the disk of paris.h3 is well again, start its agent again" in third.excluded
    world.crash("paris.h3")
    (third,) = come_back(world, "paris.h3")
    world.run(third.say(b"c"))
    world.run(for_s=1)
    assert first.after == [b"a", b"b", b"c"] == second.after


def test_a_host_keeps_so_many_orders_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_agent, "ORDERS_MAX", 2)
    keepers = [Keeper(name, group=name) for name in ("one", "two", "three")]
    for keeper in keepers:
        world.start("paris.h1", keeper.run())
        world.run(for_s=2)
    assert [bool(each.excluded) for each in keepers] == [False, False, True]
    assert "; delete groups that are not" in keepers[2].excluded
    assert "join it again" not in keepers[2].excluded
    keepers[0].stop.set()  # it is kept all the same
    world.run(for_s=2)
    again = Keeper("three", group="three")
    world.start("paris.h1", again.run())
    world.run(for_s=2)
    assert again.excluded
    lose_all(world)
    world.restart("paris.h1")
    world.run(for_s=3)
    back = Keeper("one", group="one")
    world.start("paris.h1", back.run())
    world.run(for_s=15)
    assert not back.excluded and isinstance(back.items[-1], rostra.View)
    orders = world.sim.processes[world.sim.path("paris.h1")].stack[ORDER_AGENT]
    assert len(orders._keeping) == 2
