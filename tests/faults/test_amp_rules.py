"""AMp: rules that matter in a moment only, each in that moment. Without the rule the test fails."""

import pytest
from msgspec.structs import replace
from support.ampnet import BUS, NET, Lost, losing, members, results, sound, views, world

from rostra.names import Domain
from rostra.protocols.atomic.amp_state import AccessLost, FrameReceived, StationSuspected
from rostra.protocols.atomic.emitter import ATTRIBUTES
from rostra.protocols.atomic.frames import (
    ACK,
    SUSPEND,
    AmpStationId,
    AmpView,
    AmpViewId,
    DataFrame,
    DataId,
    DecisionFrame,
    DecisionRequestFrame,
    FrameControl,
    FrameRef,
    InvestigateFrame,
    NewViewFrame,
    PendingFrame,
    ResponseFrame,
    RunOutcome,
    SuspensionLevel,
    ViewChange,
)

BOTH = pytest.mark.parametrize("kind", [BUS, NET])


@pytest.mark.spec("A-022", "A-070")
def test_an_emitter_that_has_answered_an_investigation_decides_nothing() -> None:
    """The last answer to its run comes while the monitor decides of it: what it says then is too late."""
    net, (a, b, c, d) = members(NET)
    lost = Lost(ResponseFrame, to=a)
    lost.sender = b
    losing(net, lost)
    net.give(a, b"x")
    net.run(0.02)
    answer = next(each.frame for each in net.of_data(a, 1) if each.sender == b)
    losing(net, Lost(ResponseFrame, to=c, times=99))  # the monitor waits
    net.crash(d)
    net.tell(c, StationSuspected(d))
    net.run_until(lambda: net.gates[a].state.suspended is not None, 1)
    net.tell(a, FrameReceived(b.host, answer))
    assert [each for each in net.frames(DecisionFrame) if each.frame.control.mdn == 1] == []
    losing(net)
    net.run(3)
    assert [net.logs[each].messages() for each in (a, b, c)] == [[b"x"]] * 3
    assert results(net, a) == ["accepted"]
    sound(net)


@pytest.mark.spec("A-021", "A-058")
def test_while_a_monitor_is_active_nothing_new_is_queued() -> None:
    net, (a, b, c, d) = members(NET)
    losing(net, Lost(NewViewFrame, times=3))  # it takes a round more
    net.crash(d)
    net.tell(c, StationSuspected(d))
    net.run_until(lambda: net.gates[b].state.suspended is not None, 1)
    control = FrameControl(net.group, a, 90, 1, net.gates[b].state.view.id, ATTRIBUTES["atomic"])
    net.tell(b, FrameReceived(a.host, DataFrame(control, (b"x",))))
    assert net.gates[b].state.queue == ()
    assert [each.frame.answer for each in net.sent[-1:]] == ["SUSPENDED"]
    losing(net)
    net.run(2)
    assert views(net) == [(a, b, c)]


@BOTH
@pytest.mark.spec("A-023")
def test_a_copy_of_what_is_queued_already_is_answered_while_traffic_is_suspended(kind: str) -> None:
    """Else a run that all hold would be rejected because an answer was lost."""
    net, (a, b, _c, d) = members(kind)
    lost = Lost(ResponseFrame, to=a)
    lost.sender = b
    losing(net, lost)
    net.give(a, b"x")
    net.run(0.02)
    net.give(d, b"!", profile="urgent", more=True)
    net.run(0.5)
    answers = [each.frame.answer for each in net.of_data(a, 1) if isinstance(each.frame, ResponseFrame)]
    assert set(answers) == {"CAN_ACCEPT"}
    assert net.frames(DecisionFrame)[-2].frame.accept and results(net, a) == ["accepted"]


@BOTH
@pytest.mark.spec("A-024", "A-025")
def test_a_member_that_flushes_for_longer_than_all_rounds_is_removed_by_nobody(kind: str) -> None:
    """TA8: with w = 1, two rounds; the decision that it waits for is lost, and asked for after more."""
    net, (a, b, c, d) = members(kind, omissions=1)
    assert net.config.wait_decision_s > net.config.rounds * net.config.response_s
    losing(net, Lost(DecisionFrame, to=d, times=2))
    net.give(a, b"slow")
    net.run(0.01)
    net.give(b, b"wall", profile="barrier")
    net.run(0.02)
    if kind == NET:
        assert d not in [each.station for each in net.gates[b].state.transfer.answers]
    net.run(3)
    assert views(net) == [(a, b, c, d)]
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"slow", b"wall")}
    sound(net)


@BOTH
@pytest.mark.spec("A-027")
def test_the_last_decision_of_an_urgent_block_lets_the_others_go_on_at_once(kind: str) -> None:
    net, (a, b, *_) = members(kind)
    net.give(a, b"u1", profile="urgent", more=True)
    net.give(a, b"u2", profile="urgent")
    net.run(0.05)
    assert all(gate.state.suspended is None for gate in net.gates.values())
    net.give(b, b"next")
    net.run(0.05)
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"u1", b"u2", b"next")}
    assert not net.frames(InvestigateFrame)


@pytest.mark.spec("A-030", "A-034")
def test_a_failure_that_is_reported_within_a_transfer_waits_for_its_end_and_comes_before_the_next() -> None:
    net, (a, b, c, d) = members(NET)
    lost = Lost(ResponseFrame, to=a)
    lost.sender = c
    losing(net, lost)
    net.give(a, b"one")
    net.give(a, b"two")
    net.run(0.01)
    net.crash(d)  # it has answered
    net.tell(a, StationSuspected(d))
    assert not net.frames(InvestigateFrame)
    net.run(2)
    kinds = [
        (type(each.frame).__name__, each.frame.control.mdn)
        for each in net.sent
        if each.sender == a and isinstance(each.frame, DataFrame | DecisionFrame | InvestigateFrame)
    ]
    first = kinds.index(("InvestigateFrame", 0))
    assert kinds[first - 1] == ("DecisionFrame", 1)
    assert ("DataFrame", 2) not in kinds[:first] and ("DataFrame", 2) in kinds[first:]
    assert views(net) == [(a, b, c)]
    sound(net)


@BOTH
@pytest.mark.spec("A-037")
def test_one_that_cannot_and_one_that_is_silent_reject_at_once(kind: str) -> None:
    net, (a, b, c, _d) = members(kind)
    net.tell(c, AccessLost("user"))
    lost = Lost(ResponseFrame, to=a)
    lost.sender = b
    losing(net, lost)
    began = net.now
    net.give(a, b"no")
    net.run(net.config.response_s * 0.9)
    assert [each.frame.accept for each in net.frames(DecisionFrame, since=began)] == [False]


@pytest.mark.spec("A-048")
def test_an_emitter_that_says_that_it_is_not_done_is_alive() -> None:
    """TA17: each such answer begins the count of unanswered questions anew."""
    net, (a, b) = members(NET, 2)
    losing(net, Lost(DecisionFrame, to=b, times=99))
    net.give(a, b"x")
    net.run(0.02)
    net.paused.add(a)
    for _ in range(3 * net.config.rounds):
        before = len(net.frames(DecisionRequestFrame))
        net.run_until(lambda before=before: len(net.frames(DecisionRequestFrame)) > before, 1)
        control = FrameControl(net.group, a, 0, 1, net.gates[b].state.view.id)
        net.tell(b, FrameReceived(a.host, PendingFrame(control, FrameRef(a, 1))))
    assert len(net.frames(DecisionRequestFrame)) == 3 * net.config.rounds
    assert not net.noted("suspect")


@pytest.mark.spec("A-050")
def test_a_newer_frame_that_does_not_name_what_is_pending_decides_nothing() -> None:
    net, (a, b, *_) = members(NET)
    losing(net, Lost(DecisionFrame, to=b, times=99))
    net.give(a, b"x")
    net.run(0.02)
    data = next(each.frame for each in net.frames(DataFrame))
    control = replace(data.control, mtn=90, mdn=3)
    for previous in (None, RunOutcome(DataId(a, 2), accept=True, position=9)):
        net.tell(b, FrameReceived(a.host, DataFrame(control, (b"later",), previous)))
    assert net.logs[b].messages() == []
    assert [each.frame.ref.mdn for each in net.frames(DecisionRequestFrame)] == [1, 1]
    rejected = RunOutcome(DataId(a, 1), accept=False)
    net.tell(b, FrameReceived(a.host, DataFrame(control, (b"later",), rejected)))
    assert net.logs[b].messages() == [] and [run.data.mdn for run in net.gates[b].state.queue] == [3]


@BOTH
@pytest.mark.spec("A-032", "A-051")
def test_a_reject_is_repeated_to_one_that_is_silent(kind: str) -> None:
    net, (a, b, c, d) = members(kind)
    net.tell(c, AccessLost("user"))
    losing(net, Lost(DecisionFrame, to=b, times=2))
    net.give(a, b"no")
    net.run(1)
    assert len(net.frames(DecisionFrame)[-3:]) == 3
    sent = [each.frame for each in net.of_data(a, 1) if isinstance(each.frame, DecisionFrame)]
    assert [each.accept for each in sent] == [False] * 3
    assert results(net, a) == ["rejected"] and views(net) == [(a, b, c, d)]


@pytest.mark.spec("A-059", "A-064", "A-065")
def test_when_all_notice_one_failure_at_once_there_is_one_monitor_action() -> None:
    net, (a, b, c, d, e) = members(NET, 5)
    net.crash(e)
    began = net.now
    for each in (a, b, c, d):
        net.tell(each, StationSuspected(e))
    net.run(3)
    assert views(net) == [(a, b, c, d)]
    assert len({each.sender for each in net.frames(NewViewFrame, since=began)}) == 1
    [change] = {each.frame.change for each in net.frames(NewViewFrame, since=began)}
    assert change.view.id.number == 6
    sound(net)


@pytest.mark.spec("A-061")
def test_a_late_suspension_below_the_highest_of_this_view_has_no_effect() -> None:
    """TA13: the highest level is remembered after traffic was resumed."""
    net, (a, b, c, d) = members(NET)
    net.give(d, b"!", profile="urgent")
    net.run(0.1)
    gate = net.gates[c].state
    assert gate.suspended is None and gate.top == SuspensionLevel(1, d)
    control = FrameControl(net.group, b, 90, 0, gate.view.id, ACK | SUSPEND, SuspensionLevel(1, b))
    net.tell(c, FrameReceived(b.host, InvestigateFrame(control, ())))
    assert net.gates[c].state.suspended is None
    net.give(a, b"on")
    net.run(0.1)
    assert net.logs[c].messages() == [b"!", b"on"]


@pytest.mark.spec("A-074", "A-013")
def test_a_member_that_stood_still_is_told_at_its_first_frame_that_it_is_out() -> None:
    net, (a, b, c, d) = members(NET)
    net.paused.add(d)
    net.tell(a, StationSuspected(d))
    net.run(10)
    assert net.gates[a].state.view.members == (a, b, c)
    net.paused.discard(d)
    began = net.now
    net.give(d, b"late")
    net.run(net.config.response_s / 2)
    answers = {each.frame.answer for each in net.frames(ResponseFrame, since=began) if each.to == d}
    assert answers == {"NOT_MEMBER"}
    assert [mark.because for mark in net.logs[d].marks] == ["excluded"]
    assert results(net, d) == ["excluded"]
    sound(net)


@pytest.mark.spec("A-099", "A-056")
def test_a_member_that_is_two_views_behind_is_out() -> None:
    """What was decided in the view between the two is not in the newer one."""
    net, (a, b, c, d) = members(NET)
    losing(net, lambda sender, to, frame: to == d)
    new = AmpView(AmpViewId(6, a), (a, b, c, d))
    between = AmpViewId(5, a)
    control = FrameControl(net.group, a, 90, 0, new.id)
    ref = FrameRef(d, 1, 1)
    net.tell(d, FrameReceived(a.host, ResponseFrame(control, ref, "NEWER", change=ViewChange(between, new))))
    assert [mark.because for mark in net.logs[d].marks] == ["excluded"]


@pytest.mark.spec("A-082", "A-107")
def test_of_two_groups_of_one_name_the_smaller_gives_up_when_they_meet() -> None:
    """Nobody heard the other while they began."""
    net = world(NET, beacon_s=1.0)
    hosts = "abcde"
    stations = [AmpStationId(Domain(host), 1) for host in hosts]
    left, right = stations[:2], stations[2:]
    net.medium.cut = {(one, other) for one in left for other in right}
    net.medium.cut |= {(other, one) for one, other in net.medium.cut}
    for host in hosts:
        net.add(host)
        net.run(1)
    assert views(net) == [tuple(left), tuple(right)]
    net.medium.cut = set()
    net.run(1.5)
    assert [[mark.because for mark in net.logs[each].marks] for each in stations] == [["excluded"]] * 2 + [
        []
    ] * 3
    assert views(net) == [tuple(right)]
    net.give(stations[4], b"on")
    net.run(1)
    assert [net.logs[each].messages() for each in right] == [[b"on"]] * 3


@pytest.mark.spec("A-084")
def test_the_last_member_closes_at_once() -> None:
    net, (a,) = members(NET, 1)
    before = len(net.sent)
    net.leave(a)
    assert net.gates[a].state.standing == "closed" and len(net.sent) == before
    assert [mark.because for mark in net.logs[a].marks] == ["left"]
