"""AMp: failures, monitors, gates and views, on the bus and on a lossy network (XA-08 to XA-20)."""

import pytest
from support.ampnet import BUS, NET, Lost, losing, members, results, sound, views, world

from rostra.impair.quality import LineQuality, Uniform
from rostra.protocols.atomic.amp_state import (
    FrameReceived,
    GateAsked,
    GateState,
    StationSuspected,
    ViewForced,
)
from rostra.protocols.atomic.frames import (
    AmpStationId,
    DataFrame,
    DecisionFrame,
    DecisionRequestFrame,
    GetViewFrame,
    InvestigateFrame,
    NewViewFrame,
    OpenGateFrame,
    ResponseFrame,
    SuspensionLevel,
)
from rostra.sim.explore.monitor import MonitorBounds, MonitorModel
from rostra.sim.explore.search import explore

BOTH = pytest.mark.parametrize("kind", [BUS, NET])

CRASHES = {
    "before data": (),
    "data reached one": (b"x",),
    "data reached all": (b"x",),
    "all answered": (b"x",),
    "accept reached one": (b"x",),
    "accept reached all": (b"x",),
}


@pytest.mark.parametrize("when", CRASHES)
@BOTH
@pytest.mark.spec("A-066", "A-068", "A-069", "A-070", "A-073", "A-101", "A-105", "A-058", "A-057")
def test_a_run_of_a_dead_emitter_is_decided_alike_by_all(kind: str, when: str) -> None:
    """XA-08."""
    net, (a, b, c, d) = members(kind, omissions=3)
    accepted = when.startswith("accept")
    if when == "data reached one":
        losing(net, Lost(DataFrame, to=c), Lost(DataFrame, to=d))
    elif when == "all answered":
        losing(net, Lost(DecisionFrame, times=3))
    elif when == "accept reached one":
        losing(net, Lost(DecisionFrame, to=c), Lost(DecisionFrame, to=d))
    if when != "before data":
        net.give(a, *CRASHES[when])
        if accepted or when == "all answered":
            net.run_until(lambda: bool(net.frames(DecisionFrame, since=net.given[a, 1][0])), 1)
    net.crash(a)
    net.run(0.02)
    net.give(b, b"later")
    net.run(3)
    expected = [b"x", b"later"] if accepted else [b"later"]
    assert [net.logs[each].messages() for each in (b, c, d)] == [expected] * 3
    assert views(net) == [(b, c, d)]
    assert len({len(net.logs[each].views[-1].runs) for each in (b, c, d)}) == 1
    sound(net)


@BOTH
@pytest.mark.spec("A-016", "A-048")
def test_a_restarted_emitter_decides_nothing_of_its_earlier_life(kind: str) -> None:
    """XA-09: its answer is proof that the earlier one failed, and saves all further requests."""
    net, (a, b, c, d) = members(kind)
    losing(net, Lost(DecisionFrame, times=3))
    net.give(a, b"x")
    net.run_until(lambda: bool(net.frames(DecisionFrame, since=net.given[a, 1][0])), 1)
    net.restart(a)
    net.run(3)
    assert [net.logs[each].messages() for each in (b, c, d)] == [[]] * 3
    assert views(net) == [(b, c, d)]
    asked = [each for each in net.frames(DecisionRequestFrame) if each.sender == b]
    assert len(asked) == 1
    sound(net)


@pytest.mark.parametrize(
    ("kind", "frame"),
    [
        *((NET, InvestigateFrame), (NET, NewViewFrame), (NET, DecisionFrame)),
        *((BUS, InvestigateFrame), (BUS, NewViewFrame)),  # there the view is in force without an accept
    ],
)
@pytest.mark.parametrize("reached", [0, 1, 2])
@pytest.mark.spec("A-062", "A-072", "A-107", "A-108", "A-099")
def test_when_a_monitor_dies_the_next_one_decides_the_same(kind: str, frame: type, reached: int) -> None:
    """XA-11."""
    net, (a, b, c, d, e) = members(kind, 5)
    losing(net, Lost(DecisionFrame, to=c, change=None), Lost(DecisionFrame, to=d, change=None))
    net.give(a, b"x")
    net.run(0.02)
    net.crash(a)
    began = net.now
    net.tell(b, StationSuspected(a))

    def done() -> bool:
        return any(each.sender == b and type(each.frame) is frame for each in net.frames(since=began))

    others = [Lost(frame, to=each, times=9) for each in (c, d, e)[reached:]]
    losing(net, *others)
    net.run_until(done, 2)
    assert done()
    net.run(0.006)
    net.crash(b)
    losing(net)
    net.run(4)
    assert [net.logs[each].messages() for each in (c, d, e)] == [[b"x"]] * 3
    net.give(c, b"on")
    net.run(3)
    assert [net.logs[each].messages() for each in (c, d, e)] == [[b"x", b"on"]] * 3
    assert views(net) == [(c, d, e)]
    if kind == BUS:
        del net.logs[b]  # it may have died in a view that none of the others has seen
    sound(net)


@BOTH
@pytest.mark.spec("A-059", "A-060", "A-061", "A-064", "A-065")
def test_of_two_candidates_one_remains(kind: str) -> None:
    """XA-12: each holds half of the members."""
    net, (a, b, c, d, e) = members(kind, 5)
    net.crash(a)
    toward_d, toward_e = Lost(InvestigateFrame, to=d), Lost(InvestigateFrame, to=e)
    toward_d.sender, toward_e.sender = c, b
    losing(net, toward_d, toward_e)
    began = net.now
    net.tell(b, StationSuspected(a))
    net.tell(c, StationSuspected(a))
    net.run(3)
    assert views(net) == [(b, c, d, e)]
    last = DecisionFrame if kind == NET else NewViewFrame  # with which a view is in force
    changes = [each.frame.change for each in net.frames(last, since=began) if each.frame.change is not None]
    assert len({each.view.id for each in changes}) == 1
    assert net.noted("monitor_standby")
    sound(net)


@pytest.mark.spec("A-061", "A-013")
def test_a_late_suspension_has_no_effect() -> None:
    """XA-13: neither of the view before, nor of this one after it was resumed."""
    net, (a, b, c, d) = members(NET)
    net.crash(a)
    net.tell(b, StationSuspected(a))
    net.run(2)
    late = net.frames(InvestigateFrame)[0]
    net.tell(c, FrameReceived(b.host, late.frame))
    assert net.gates[c].state.suspended is None
    net.give(d, b"!", profile="urgent")
    net.run(1)
    urgent = next(each.frame for each in net.frames(DataFrame) if each.frame.control.sl is not None)
    net.tell(c, FrameReceived(d.host, urgent))
    assert net.gates[c].state.suspended is None
    sound(net)


@BOTH
@pytest.mark.spec("A-075", "A-077", "A-078", "A-042")
def test_a_join_under_load_loses_nothing_and_no_sender_sees_an_error(kind: str) -> None:
    """XA-14."""
    net, (a, b, c) = members(kind, 3)
    for number in range(10):
        for each in (a, b, c):
            net.give(each, b"%d" % number)
    net.run(0.01)
    new = net.add("x")
    net.run(8)
    assert views(net) == [(a, b, c, new)]
    assert all(set(results(net, each)) == {"accepted"} for each in (a, b, c))
    assert {len(net.logs[each].messages()) for each in (a, b, c)} == {30}
    behind = [run for view in net.logs[a].views if new in view.view.members for run in view.runs]
    assert [run.position for run in net.logs[new].runs()] == [run.position for run in behind]
    sound(net)


@BOTH
@pytest.mark.spec("A-076", "A-080", "A-084")
def test_leaves_and_a_join_at_once_come_in_one_order(kind: str) -> None:
    """XA-15."""
    net, (a, b, c, d) = members(kind)
    for number in range(5):
        net.give(a, b"%d" % number)
    net.leave(b)
    net.leave(c)
    new = net.add("x")
    net.run(12)
    assert views(net) == [(a, d, new)]
    assert [mark.because for mark in net.logs[b].marks] == ["left"]
    assert [view.view.id for view in net.logs[a].views[-3:]] == [
        view.view.id for view in net.logs[d].views[-3:]
    ]
    for each in (a, d, new):
        net.leave(each)
        net.run(3)
    assert views(net) == []
    sound(net)


@pytest.mark.spec("A-005", "A-016")
def test_of_a_gate_that_was_opened_and_closed_a_thousand_times_nothing_is_left() -> None:
    """But its numbers, which go on: no late frame is taken for one of its next membership."""
    net, (a, b) = members(NET, 2)
    for _ in range(1_000):
        net.give(b, b"x")
        net.leave(b)
        net.run_until(lambda: net.gates[b].state.standing == "closed", 2)
        state = net.gates[b].state
        assert state == GateState(b, net.group, mtn=state.mtn, mdn=state.mdn)
        net.run_until(lambda: net.gates[a].state.suspended is None, 2)
        net.tell(b, GateAsked())
        net.run_until(lambda: net.gates[b].state.standing == "open", 2)
    assert net.gates[b].state.mdn == 1_000
    assert {each.sa for each in net.gates[a].state.table} <= {a, b}
    assert len(net.logs[a].messages()) == 1_000


@pytest.mark.parametrize("loss", [0.0, 0.5])
@pytest.mark.spec("A-081", "A-082")
def test_five_first_members_become_one_group(loss: float) -> None:
    """XA-16. Where frames are lost two groups may begin; beacons bring them together."""
    net = world(NET, beacon_s=1.0)
    net.medium.quality = LineQuality(Uniform(0.0005, 0.004), loss=loss)
    stations = {host: net.add(host) for host in "abcde"}
    for turn in range(60):
        if turn == 4:
            net.medium.quality = LineQuality(Uniform(0.0005, 0.004))
        net.run(0.5)
        for host, who in list(stations.items()):
            if net.gates[who].state.standing == "closed":
                del net.gates[who]
                stations[host] = net.add(host, who.life + 1)
    assert [sorted(each) for each in views(net)] == [sorted(stations.values())]


@pytest.mark.spec("A-081")
def test_five_first_members_on_a_bus_are_never_two_groups() -> None:
    net = world(BUS)
    stations = [net.add(host) for host in "abcde"]
    net.run(10)
    assert [sorted(each) for each in views(net)] == [sorted(stations)]
    assert len({log.views[0].view.id.number for log in net.logs.values()}) == 5
    sound(net)


@pytest.mark.parametrize("frame", [GetViewFrame, OpenGateFrame, DecisionFrame])
@BOTH
@pytest.mark.spec("A-083", "A-079")
def test_when_an_opener_dies_the_group_goes_on(kind: str, frame: type) -> None:
    """XA-17."""
    net, (a, b, c) = members(kind, 3)
    began = net.now
    new = net.add("x")
    net.run_until(
        lambda: any(each.sender == new and type(each.frame) is frame for each in net.frames(since=began)), 2
    )
    losing(net, Lost(frame, to=c, times=3))
    net.run(0.003)
    net.crash(new)
    losing(net)
    net.run(2)
    net.give(a, b"on")
    net.run(4)
    assert views(net) == [(a, b, c)]
    assert [net.logs[each].messages() for each in (a, b, c)] == [[b"on"]] * 3
    sound(net)


@pytest.mark.spec("A-022", "A-041", "A-074")
def test_an_accept_that_comes_after_the_answer_to_an_investigation_waits() -> None:
    """XA-18 (TA22)."""
    net, (a, b, c, d) = members(NET)
    losing(net, Lost(DecisionFrame, times=3))
    net.give(a, b"x")
    net.run(0.02)
    accept = net.frames(DecisionFrame)[-1].frame
    net.crash(a)
    net.tell(c, StationSuspected(a))
    net.run_until(lambda: net.gates[b].state.suspended is not None, 1)
    net.tell(b, FrameReceived(a.host, accept))
    assert net.logs[b].messages() == []
    assert net.ignored("frozen")
    net.run(3)
    assert [net.logs[each].messages() for each in (b, c, d)] == [[]] * 3
    assert views(net) == [(b, c, d)]
    sound(net)


@pytest.mark.spec("A-022")
def test_a_decision_passes_a_plain_suspension() -> None:
    net, (a, b, _c, d) = members(NET)
    losing(net, Lost(DecisionFrame, to=b))
    net.give(a, b"x")
    net.run(0.02)
    accept = net.frames(DecisionFrame)[-1].frame
    net.give(d, b"!", profile="urgent", more=True)
    net.run_until(lambda: net.gates[b].state.suspended is not None, 1)
    net.tell(b, FrameReceived(a.host, accept))
    assert net.logs[b].messages() == [b"x"]


@pytest.mark.spec("A-041", "A-056", "A-072", "A-074")
def test_the_small_part_of_a_partition_delivers_nothing_more() -> None:
    """XA-19."""
    net, (a, b, c, d, e) = members(NET, 5)
    net.medium.cut = {
        (x, y) for x in (a, b, c, d, e) for y in (a, b, c, d, e) if (x in (a, b)) != (y in (a, b))
    }
    net.give(a, b"lost")
    net.give(c, b"kept")
    net.run(4)
    assert [net.logs[each].messages() for each in (a, b)] == [[]] * 2
    assert [net.logs[each].messages() for each in (c, d, e)] == [[b"kept"]] * 3
    assert [net.logs[each].marks[0].because for each in (a, b)] == ["excluded"] * 2
    assert results(net, a) == ["excluded"]
    net.medium.cut = set()
    for each in (a, b):
        del net.gates[each]
        net.add(each.host, 2)
        net.run(3)
    assert [len(each) for each in views(net)] == [5]
    sound(net)


@pytest.mark.spec("A-056", "A-006")
def test_a_deaf_member_is_removed_and_stops() -> None:
    """XA-20."""
    net, (a, b, c, d) = members(NET)
    net.medium.cut = {(x, d) for x in (a, b, c)}
    net.give(a, b"x")
    net.run(3)
    assert views(net)[0] == (a, b, c)
    assert any("d#1" in note.about for _, who, note in net.noted("suspect"))
    net.medium.cut = set()
    net.give(d, b"deaf")
    net.run(3)
    assert net.logs[d].marks and net.logs[d].messages() == []
    assert b"deaf" not in net.logs[a].messages()
    sound(net)


@pytest.mark.spec("A-067", "A-071")
def test_failures_inside_one_action_are_one_view() -> None:
    net, (a, b, c, d, e) = members(NET, 5)
    net.crash(e)
    net.tell(a, StationSuspected(e))
    net.crash(d)
    net.run(3)
    assert views(net) == [(a, b, c)]
    assert [view.view.members for view in net.logs[a].views[-2:]] == [(a, b, c, d, e), (a, b, c)]
    sound(net)


@pytest.mark.spec("A-040")
def test_on_a_bus_the_accept_goes_out_before_the_new_view() -> None:
    net, (a, b, _c, d) = members(BUS)
    net.crash(d)
    net.give(a, b"x")
    net.run(3)
    decided = next(each.at for each in net.frames(DecisionFrame) if each.frame.control.mdn == 1)
    new = net.frames(NewViewFrame)[0].at
    assert decided < new
    assert len(net.frames(DataFrame)) == 4
    assert [run.data.mdn for run in net.logs[b].views[-2].runs] == [1]
    sound(net)


@pytest.mark.spec("A-034", "A-030")
def test_the_monitor_comes_before_the_next_send_and_never_into_a_transfer() -> None:
    net, (a, _b, _c, d) = members(BUS)
    for number in range(5):
        net.give(a, b"%d" % number)
    net.crash(d)
    net.run(5)
    frames = [each.frame for each in net.sent if each.sender == a]
    kinds = [type(each) for each in frames if not isinstance(each, ResponseFrame)]
    first = kinds.index(InvestigateFrame)
    assert kinds[first - 1] is DecisionFrame
    assert results(net, a) == ["accepted"] * 5
    assert DataFrame not in kinds[first : first + 2]
    sound(net)


@pytest.mark.spec("A-063")
def test_one_of_many_standbys_takes_over() -> None:
    net, stations = members(NET, 8)
    a, b = stations[:2]
    net.crash(a)
    net.tell(b, StationSuspected(a))
    net.run(0.01)
    net.crash(b)
    began = net.now
    net.run(3)
    candidates = {who for at, who, note in net.noted("monitor_active") if at > began}
    assert len(candidates) <= 2
    net.give(stations[2], b"on")
    net.run(3)
    assert views(net) == [tuple(stations[2:])]
    sound(net)


def test_management_may_go_on_without_a_majority() -> None:
    """TA24."""
    net, (a, b, c, d) = members(NET)
    net.crash(b)
    net.crash(c)
    net.crash(d)
    net.tell(a, ViewForced((a,)))
    net.run(2)
    assert views(net) == [(a,)]
    net.give(a, b"on")
    net.run(1)
    assert net.logs[a].messages() == [b"on"]


def test_a_level_orders_candidates() -> None:
    assert SuspensionLevel(1, AmpStationId("b", 1)) < SuspensionLevel(2, AmpStationId("a", 1))
    assert SuspensionLevel(1, AmpStationId("a", 1)) < SuspensionLevel(1, AmpStationId("b", 1))


@pytest.mark.parametrize(
    ("plant", "bounds"),
    [
        ("count-frames", {"doubles": 1, "crashes": 0, "suspicions": 0}),
        ("restart-accepts", {"restarts": 1, "suspicions": 0, "fires": 1, "losses": 1}),
        ("raw-arrival", {"stations": 2, "senders": 2, "crashes": 0, "suspicions": 0}),
        ("no-freeze", {"crashes": 0}),
    ],
)
def test_the_explorer_finds_what_is_planted(plant: str, bounds: dict[str, int]) -> None:
    assert explore(MonitorModel(MonitorBounds(**bounds), plant), states_max=20_000).violations
    sound_model = MonitorModel(MonitorBounds(**bounds))
    assert not explore(sound_model, states_max=1_500).violations


@pytest.mark.long
@pytest.mark.spec("A-022", "A-070", "A-101")
def test_every_moment_in_which_an_emitter_fails_is_tried() -> None:
    """TA22: a minute and a half. Without the freeze it is found."""
    progress = explore(MonitorModel())
    assert progress.exhausted and not progress.violations
    assert explore(MonitorModel(plant="no-freeze"), states_max=30_000).violations
