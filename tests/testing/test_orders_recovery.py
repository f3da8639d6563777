"""Recovery in groups with ``delivery="atomic"``, frame by frame, in whole worlds: the monitor dies half way,
two hosts recover at once, frames come late, a joiner dies half way (XA-11, 12, 13, 17, 18).

The monitor is the first station of the next agreed view: in hub order the next orderer, in negotiated order
the station that carries the view out. Its INVESTIGATE is `HubAsk`, a member's answer `HubReport`, NEWVIEW
`HubStart`, and accept the view's mark in the log.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rostra.core.effects import Effect
from rostra.errors import Excluded
from rostra.names import Domain, Group
from rostra.protocols.atomic.agent import ORDER_AGENT, OrderAgent
from rostra.protocols.atomic.events import FramesHeard
from rostra.protocols.atomic.frames import DecisionFrame, InvestigateFrame, NewViewFrame
from rostra.protocols.atomic.messages import HubAsk, HubData, HubHave, HubPulse, HubReport, HubStart, Way
from rostra.testing import World
from tests.testing.test_orders import BOTH, LEDGER, Member, agree, enter

PLEDGER = Group("ledger", Domain("paris"))
H1, H2, H3, H4, H5 = HOSTS = tuple([f"paris.h{n}" for n in range(1, 6)])


class Wire:
    """What stations hear of each other: what is let through, and what comes of it."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.heard: list[tuple[str, str, Any]] = []  # from, to, message
        self.dead: set[str] = set()
        self.passes: Callable[[str, str, Any], bool] = lambda source, to, message: True
        wire, hear = self, OrderAgent._heard

        def filtered(
            self: OrderAgent, now: float, group: Group, source: Domain, messages: Any, out: list[Effect]
        ) -> None:
            those = [each for each in messages if wire._arrives(source, self.host, each)]
            hear(self, now, group, source, those, out)

        patch.setattr(OrderAgent, "_heard", filtered)

    def _arrives(self, source: str, to: str, message: Any) -> bool:
        if source in self.dead or to in self.dead or not self.passes(source, to, message):
            return False
        self.heard.append((source, to, message))
        return True

    def crash(self, host: str) -> None:
        """Now: what it does in this step is the last."""
        if host not in self.dead:
            self.dead.add(host)
            self.world.loop.call_soon(self.world.crash, host)

    def again(self, source: str, to: str, message: Any, group: Group = PLEDGER) -> None:
        """A late copy."""
        self.world.sim.enter(Domain(to), FramesHeard(group, Domain(source), (message,)))

    def of(self, kind: type, *, to: str = "") -> list[tuple[str, str, Any]]:
        return [each for each in self.heard if isinstance(each[2], kind) and to in ("", each[1])]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 5}, seed=5)
    yield world
    world.close()


def speaking(world: World, order: str, hosts: tuple[str, ...] = HOSTS, **how: Any) -> list[Member]:
    members = enter(world, order, *hosts, scope="paris", **how)
    for host, member in zip(hosts, members, strict=True):
        world.start(host, member.say(40, every_s=0.02))
    world.run(for_s=0.3)
    return members


def go_on(world: World, members: list[Member], hosts: tuple[str, ...]) -> None:
    """They have the same log and views, and traffic runs."""
    before = [len(each.receipts) for each in members]
    for host, member in zip(hosts, members, strict=True):
        world.start(host, member.say(5))
    world.run(for_s=3)
    agree(*members)
    assert [len(each.receipts) - count for each, count in zip(members, before, strict=True)] == [5] * len(
        members
    )
    ends = [[view.id for view in each.views[-2:]] for each in members]
    assert ends.count(ends[0]) == len(ends)
    assert {each.endpoint for each in members} == {each.endpoint for each in members[0].views[-1].members}
    assert not any(each.error for each in members)


MONITOR = {
    "hub": (HubAsk, HubReport, HubStart, HubData, HubPulse),
    "negotiated": (InvestigateFrame, NewViewFrame, DecisionFrame),
}


@pytest.mark.parametrize(
    ("order", "kind"), [(order, kind) for order, kinds in MONITOR.items() for kind in kinds]
)
@pytest.mark.parametrize("reached", [0, 1, 2])
@pytest.mark.spec("A-062", "A-072", "A-089", "A-107")
def test_when_the_monitor_dies_the_next_one_decides_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, order: str, kind: type, reached: int
) -> None:
    """XA-11: after so many of its frames of this kind have come; with `HubReport`, of the answers to it."""
    members = speaking(world, order, survive="majority")
    wire = Wire(world, monkeypatch)
    wire.crash(H1)
    arrived: set[str] = set()

    def passes(source: str, to: str, message: Any) -> bool:
        other = source if kind is HubReport else to
        if type(message) is not kind or H2 not in (source, to) or (source == H2) is (kind is HubReport):
            return True
        if len(arrived | {other}) > reached:
            wire.crash(H2)
            return False
        arrived.add(other)
        return True

    wire.passes = passes
    world.run(for_s=30)
    assert H2 in wire.dead and len(arrived) == reached
    go_on(world, members[2:], (H3, H4, H5))
    assert members[2].views[-1].number <= 7


@BOTH
@pytest.mark.spec("A-059", "A-060", "A-061", "A-065")
def test_of_two_monitors_with_half_the_members_each_one_remains(order: str) -> None:
    """XA-12: the orderer dies while the two clusters do not see each other, and each begins with a monitor of
    its own. When they meet, one of the two orders goes on; who was in the other one comes to it again."""
    world = World({"fr.paris": 3, "fr.lyon": 2}, seed=5)
    hosts = ("fr.paris.h1", "fr.paris.h2", "fr.paris.h3", "fr.lyon.h1", "fr.lyon.h2")
    members = enter(world, order, *hosts)
    world.cut("fr.paris | fr.lyon")
    world.cut("fr.paris | fr")
    world.crash(hosts[0])
    world.run(for_s=20)
    paris, lyon = members[1:3], members[3:]
    for host, member in zip(hosts[1:], (*paris, *lyon), strict=True):
        world.start(host, member.say(5))
    world.run(for_s=3)
    for side in (paris, lyon):
        agree(*side)
        assert all(len(each.receipts) == 5 and len(each.views[-1].members) == 2 for each in side)
    world.heal()
    world.run(for_s=30)
    assert all(each.error is None for each in paris)
    assert all(isinstance(each.error, Excluded) for each in lyon)
    again = [Member(order, name) for name in ("x", "y")]
    for host, member in zip(hosts[3:], again, strict=True):
        world.start(host, member.run())
    world.run(for_s=10)
    for host, member in zip(hosts[1:], (*paris, *again), strict=True):
        world.start(host, member.say(5))
    world.run(for_s=5)
    agree(*paris, *again)
    assert len({each.views[-1].id for each in (*paris, *again)}) == 1
    assert [len(each.receipts) for each in (*paris, *again)] == [10, 10, 5, 5]
    if order == "hub":
        stations = [
            world.sim.processes[Domain(host)].stack[ORDER_AGENT].stations[LEDGER] for host in hosts[1:]
        ]
        assert [each.orders for each in stations] == [True, False, False, False]
    world.close()


@pytest.mark.parametrize(
    ("order", "kinds"),
    [("hub", (HubAsk, HubStart, HubReport)), ("negotiated", (InvestigateFrame, NewViewFrame))],
)
@pytest.mark.spec("A-013", "A-016", "A-061")
def test_frames_of_a_recovery_that_come_again_when_it_is_over_change_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, order: str, kinds: tuple[type, ...]
) -> None:
    """XA-13: at once, and after the next recovery."""
    members = speaking(world, order, survive="majority")
    wire = Wire(world, monkeypatch)
    alive = list(zip(HOSTS, members, strict=True))
    for dies in (H1, H2):
        world.crash(dies)
        alive = [(host, member) for host, member in alive if host != dies]
        world.run(for_s=20)
        late = [each for kind in kinds for each in wire.of(kind)]
        assert {type(message) for *_, message in late} == {*kinds}
        views = [len(member.views) for _, member in alive]
        for host, member in alive:
            world.start(host, member.say(20, every_s=0.01))
        began = world.now
        for source, to, message in late[:200]:
            if to not in (H1, dies):
                wire.again(source, to, message)
        world.run(for_s=0.5)
        assert all(member.receipts[-1].position and len(member.log) for _, member in alive)
        assert [len(member.views) for _, member in alive] == views, f"since {began}"
        go_on(world, [member for _, member in alive], tuple([host for host, _ in alive]))


@pytest.mark.parametrize("kind", [HubReport, HubStart, HubHave])
@pytest.mark.spec("A-079", "A-083")
def test_when_a_joiner_dies_half_way_the_group_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """XA-17, in hub order: after each frame with which its station comes, or is let in."""
    hosts = HOSTS[:3]
    members = speaking(world, "hub", hosts)
    wire = Wire(world, monkeypatch)

    def passes(source: str, to: str, message: Any) -> bool:
        if type(message) is kind and H4 in (source, to):
            wire.crash(H4)
        return True

    wire.passes = passes
    new = Member("hub", "x", scope="paris")
    world.start(H4, new.run())
    world.run(for_s=15)
    assert H4 in wire.dead
    assert [len(each.receipts) for each in members] == [40] * 3
    go_on(world, members, hosts)
    seen = [sum(new.endpoint in view.joined for view in each.views) for each in members]
    gone = [sum(new.endpoint in view.failed for view in each.views) for each in members]
    assert seen == gone == [seen[0]] * 3


@pytest.mark.parametrize("kind", [HubData, HubPulse])
@pytest.mark.spec("A-022", "A-041", "A-074", "A-089")
def test_an_accept_that_comes_after_the_answer_to_an_investigation_counts_for_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """XA-18 (TA22), in hub order: the orderer dies, and what it sent last comes to one station when that has
    reported how far its log goes."""
    members = speaking(world, "hub", survive="majority")
    world.run(for_s=2)
    wire = Wire(world, monkeypatch)
    held: list[Any] = []

    def passes(source: str, to: str, message: Any) -> bool:
        if source == H1 and type(message) in (HubData, HubPulse) and message.way is Way.DOWN:
            if to == H3:
                held.extend([message] if type(message) is kind else [])
            return kind is HubPulse and type(message) is HubData
        return True

    wire.passes = passes
    world.start(H1, members[0].say(1))
    world.run(for_s=0.3)
    assert held and not any(b"a 40" in body for *_, body in members[2].log)
    wire.dead.add(H1)
    world.crash(H1)
    passed: list[int] = []

    def late(source: str, to: str, message: Any) -> bool:
        if source == H3 and type(message) is HubReport and not passed:
            station = world.sim.processes[Domain(H3)].stack[ORDER_AGENT].stations[PLEDGER]
            passed.append(station.log.next)
            world.loop.call_soon(come, station)
        return True

    def come(station: Any) -> None:
        for message in held:
            wire.again(H1, H3, message)
        passed.append(station.log.next)

    wire.dead.clear()  # what it sent last is still on its way
    wire.passes = late
    world.run(for_s=20)
    assert len(passed) == 2 and passed[0] == passed[1], "a log that was reported does not grow"
    go_on(world, members[1:], HOSTS[1:])
    counts = {sum(b"a 40" in body for *_, body in each.log) for each in members[1:]}
    assert counts == ({0} if kind is HubData else {1})
