"""AMp: rules that in a whole run are hidden by another one. Each is looked at where it alone acts."""

from typing import Any

import pytest
from msgspec.structs import replace
from support.ampnet import BUS, NET, Lost, losing, members, sound, views, world

from benchmarks.amp_world import AmpWorld
from rostra.core.effects import Event
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_state import FrameReceived, RunDelivered, StationSuspected, ViewExecuted
from rostra.protocols.atomic.emitter import ATTRIBUTES
from rostra.protocols.atomic.frames import (
    ACK,
    SUSPEND,
    AmpStationId,
    AmpView,
    AmpViewId,
    CloseGateFrame,
    DataFrame,
    DataId,
    DecidedEntry,
    DecisionFrame,
    FrameControl,
    FrameRef,
    GetViewFrame,
    InvestigateFrame,
    OpenGateFrame,
    PendingRun,
    ResponseFrame,
    RunOutcome,
    StationReport,
    SuspensionLevel,
)
from rostra.protocols.atomic.monitor import exception_decisions

BOTH = pytest.mark.parametrize("kind", [BUS, NET])


def answers(net: AmpWorld, who: AmpStationId, to: AmpStationId, since: float = 0.0) -> list[str]:
    sent = [each for each in net.frames(ResponseFrame, since) if (each.sender, each.to) == (who, to)]
    return [each.frame.answer for each in sent]


def control(net: AmpWorld, at: AmpStationId, sa: AmpStationId, **fields: Any) -> FrameControl:
    """Of a frame from `sa`, as `at` would take it."""
    view = net.gates[at].state.view
    assert view is not None
    return replace(FrameControl(net.group, sa, 90, 0, view.id), **fields)


# Transfers


@pytest.mark.spec("A-043")
def test_a_late_copy_of_an_earlier_transmission_takes_no_new_place_on_a_medium() -> None:
    net, (a, b, c, _d) = members(BUS)
    lost = Lost(ResponseFrame, to=a)
    lost.sender = b
    losing(net, lost)
    net.give(a, b"x")
    net.run_until(lambda: len(net.frames(DataFrame)) == 2, 1)
    net.paused.add(a)  # it decides nothing
    net.run(0.005)
    net.give(c, b"y")
    net.run(0.005)
    first, again = [each.frame for each in net.frames(DataFrame)[:2]]
    assert first.control.mtn < again.control.mtn
    net.tell(b, FrameReceived(a.host, first))
    assert [run.data.sa for run in net.gates[b].state.queue] == [a, c]
    assert net.gates[b].state.queue[0].mtn == again.control.mtn


@pytest.mark.spec("A-038")
def test_on_a_medium_members_that_lose_different_transmissions_have_one_order() -> None:
    """Answers to two transmissions do not add up: each of the two has another place."""
    net, (a, b, c, _d) = members(BUS)
    deaf = {1: b, 2: c}
    transmissions: list[int] = []

    def adversary(sender: AmpStationId, to: AmpStationId, frame: Any) -> bool:
        if type(frame) is not DataFrame or sender != a:
            return False
        if frame.control.mtn not in transmissions:
            transmissions.append(frame.control.mtn)
        return deaf.get(len(transmissions)) == to

    losing(net, adversary)
    net.give(a, b"x")
    net.run(0.005)
    net.give(c, b"between")
    net.run(1)
    assert len(transmissions) == 3
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"between", b"x")}
    sound(net)


@pytest.mark.spec("A-038")
def test_on_a_medium_an_answer_to_an_earlier_transmission_does_not_end_a_round() -> None:
    net, (a, b, _c, _d) = members(BUS)
    late = Lost(ResponseFrame, to=a, times=2)
    late.sender = b
    losing(net, late)
    net.give(a, b"x")
    net.run_until(lambda: len(net.frames(DataFrame)) == 2, 1)
    net.run(0.005)  # the others have answered the second one
    old = next(each.frame for each in net.of_data(a, 1) if each.sender == b)
    net.tell(a, FrameReceived(b.host, old))
    assert not [each for each in net.of_data(a, 1) if isinstance(each.frame, DecisionFrame)]
    net.run(1)
    sound(net)


@pytest.mark.spec("A-045")
def test_a_clock_follows_the_positions_of_accepts() -> None:
    """Who proposed it may be gone when the next run gets its position."""
    net, (a, b, c, _d) = members(NET)
    data = control(net, b, a, mdn=1, attributes=ATTRIBUTES["atomic"])
    net.tell(b, FrameReceived(a.host, DataFrame(data, (b"x",))))
    net.tell(b, FrameReceived(a.host, DecisionFrame(replace(data, mtn=91, attributes=0), True, 50)))
    assert net.logs[b].messages() == [b"x"]
    net.tell(b, FrameReceived(c.host, DataFrame(replace(data, sa=c), (b"y",))))
    assert net.sent[-1].frame.position == 51


@pytest.mark.spec("A-045", "A-078")
def test_one_that_comes_in_begins_with_the_largest_clock_and_what_was_decided() -> None:
    net, (a, b, _c) = members(NET, 3)
    for number in range(20):
        net.give(a, b"%d" % number)
    net.run(1)
    new = net.add("x")
    net.run(1)
    state = net.gates[new].state
    assert state.clock >= max(each.frame.position for each in net.frames(DecisionFrame)) > 19
    [entry] = [each for each in state.table if each.sa == a]
    assert (entry.decided, entry.accepted) == (20, 20)
    copy = replace(net.frames(DataFrame)[0].frame, control=control(net, new, a, mdn=1, mtn=9_999))
    net.tell(new, FrameReceived(a.host, copy))
    assert net.gates[new].state.queue == () and net.ignored("late copy")
    net.give(b, b"on")
    net.run(1)
    sound(net)


@BOTH
@pytest.mark.spec("A-046")
def test_each_keeps_its_order_and_a_reply_comes_after_what_it_answers(kind: str) -> None:
    """Each station answers the message whose number is its turn, when it is given that."""
    net, stations = members(kind, 5)
    if kind == NET:
        net.medium.quality = LineQuality(Uniform(0.0005, 0.004), reorder=0.3, reorder_s=0.01)

    def replies(who: AmpStationId, event: Event, effects: Any) -> None:
        for each in effects:
            if isinstance(each, RunDelivered) and each.items[0].startswith(b"reply"):
                number = int(each.items[0].split()[1])
                if number < 40 and stations[number % 5] == who:
                    net.give(who, b"reply %d" % (number + 1))

    net.watch = replies
    for number in range(12):
        for each in stations:
            net.give(each, b"%s %d" % (str(each).encode(), number))
    net.give(stations[4], b"reply 0")
    net.run(30)
    [log] = {tuple(log.messages()) for log in net.logs.values()}
    for who in [b"reply", *[str(each).encode() for each in stations]]:
        said = [int(each.split()[1]) for each in log if each.startswith(who + b" ")]
        assert said == list(range(41 if who == b"reply" else 12))
    sound(net)


# Suspensions


@pytest.mark.spec("A-059")
def test_who_finds_traffic_suspended_acts_when_it_is_resumed() -> None:
    net, (a, b, _c, d) = members(NET)
    net.give(a, b"u1", profile="urgent", more=True)
    net.run(0.05)
    assert net.gates[b].state.suspended is not None
    net.tell(b, StationSuspected(d))
    net.run(0.05)
    assert not net.frames(InvestigateFrame)
    net.give(a, b"u2", profile="urgent")
    net.run(1)
    assert {each.sender for each in net.frames(InvestigateFrame)} == {b}
    assert net.logs[d].messages() == [b"u1", b"u2"]
    sound(net)


@pytest.mark.spec("A-059", "A-065")
def test_a_candidate_that_hears_a_higher_level_goes_back_to_standby_at_once() -> None:
    net, (_a, b, c, d) = members(NET)
    losing(net, Lost(InvestigateFrame, times=99))  # nobody hears it
    net.tell(b, StationSuspected(d))
    net.run(0.01)
    assert net.gates[b].state.action is not None
    higher = SuspensionLevel(2, c)
    frame = InvestigateFrame(control(net, b, c, attributes=ACK | SUSPEND, sl=higher), (d,))
    net.tell(b, FrameReceived(c.host, frame))
    assert net.gates[b].state.action is None and net.gates[b].state.suspended.sl == higher


@pytest.mark.spec("A-060", "A-061")
def test_a_level_that_is_not_higher_is_refused_and_a_higher_one_stands() -> None:
    net, (_a, b, c, d) = members(NET)
    net.give(c, b"u1", profile="urgent", more=True)
    net.run(0.05)
    held = SuspensionLevel(1, c)
    assert net.gates[d].state.suspended.sl == held

    def ask(sa: AmpStationId, sl: SuspensionLevel) -> ResponseFrame:
        frame = InvestigateFrame(control(net, d, sa, attributes=ACK | SUSPEND, sl=sl), ())
        net.tell(d, FrameReceived(sa.host, frame))
        answer: ResponseFrame = net.sent[-1].frame
        return answer

    refused = ask(b, SuspensionLevel(1, b))
    assert (refused.answer, refused.sl, refused.held) == ("SUSPENDED", held, True)
    assert net.gates[d].state.suspended.sl == held and not net.gates[d].state.suspended.frozen
    higher = SuspensionLevel(2, b)
    assert ask(b, higher).answer == "CAN_ACCEPT"
    assert net.gates[d].state.suspended.sl == higher
    again = ask(c, held)  # of which it has answered frames
    assert (again.answer, again.sl) == ("SUSPENDED", higher)


@pytest.mark.spec("A-060", "A-061")
def test_the_level_of_a_suspension_that_is_over_does_not_suspend_again() -> None:
    net, (_a, _b, c, d) = members(NET)
    net.give(d, b"!", profile="urgent")
    net.run(0.1)
    assert net.gates[c].state.suspended is None
    late = control(net, c, d, attributes=ACK | SUSPEND, sl=SuspensionLevel(1, d))
    net.tell(c, FrameReceived(d.host, InvestigateFrame(late, ())))
    assert net.gates[c].state.suspended is None
    assert [each.frame.answer for each in net.sent[-1:]] == ["SUSPENDED"]


# What a monitor decides

ONE, TWO, DEAD = (AmpStationId(Domain(host), 1) for host in ("one", "two", "dead"))
RUN = DataId(ONE, 7)
HELD = PendingRun(RUN, 4, 1)
HELD_LATER = PendingRun(RUN, 9, 1)
VIEW = AmpView(AmpViewId(3, ONE), (ONE, TWO, DEAD))

CASES = {
    "its emitter says that it was accepted": (
        StationReport(VIEW, last=RunOutcome(RUN, True, 11)),
        StationReport(VIEW, pending=(HELD,)),
        RunOutcome(RUN, True, 11),
    ),
    "its emitter says that it was rejected": (
        StationReport(VIEW, last=RunOutcome(RUN, False)),
        StationReport(VIEW, pending=(HELD,)),
        RunOutcome(RUN, False),
    ),
    "another one has accepted it": (
        StationReport(VIEW, table=(DecidedEntry(ONE, 7, 7, 12),)),
        StationReport(VIEW, pending=(HELD,)),
        RunOutcome(RUN, True, 12),
    ),
    "it is being sent, and all hold it": (
        StationReport(VIEW, pending=(HELD,), transmitting=RUN),
        StationReport(VIEW, pending=(HELD_LATER,)),
        RunOutcome(RUN, True, 9),
    ),
    "it is being sent, and one lacks it": (
        StationReport(VIEW, pending=(HELD,), transmitting=RUN),
        StationReport(VIEW),
        RunOutcome(RUN, False),
    ),
    "all hold it, and its emitter sends another one": (
        StationReport(VIEW, pending=(HELD,), transmitting=DataId(ONE, 8)),
        StationReport(VIEW, pending=(HELD_LATER,)),
        RunOutcome(RUN, False),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.spec("A-070")
def test_a_monitor_decides_every_run_that_somebody_holds_undecided(case: str) -> None:
    mine, theirs, outcome = CASES[case]
    found = exception_decisions(AmpConfig(), (ONE, TWO), {ONE: mine, TWO: theirs})
    assert found == (outcome,)


@pytest.mark.spec("A-070")
def test_two_runs_of_one_emitter_that_different_members_hold_are_decided_each() -> None:
    """The one that held the earlier did not hear that it was decided."""
    later = replace(HELD_LATER, data=DataId(ONE, 8))
    reports = {
        TWO: StationReport(VIEW, pending=(HELD,)),
        DEAD: StationReport(VIEW, table=(DecidedEntry(ONE, 7, 7, 12),), pending=(later,)),
    }
    found = exception_decisions(AmpConfig(), (TWO, DEAD), reports)
    assert found == (RunOutcome(RUN, True, 12), RunOutcome(later.data, False))


# Gates


@BOTH
@pytest.mark.spec("A-076", "A-024")
def test_a_close_is_acknowledged_when_nothing_is_undecided(kind: str) -> None:
    net, (a, b, c, _d) = members(kind)
    losing(net, Lost(DecisionFrame, to=c))
    net.give(a, b"x")
    net.run(0.02)
    assert net.logs[c].messages() == []
    began = net.now
    net.leave(b)
    net.run(0.01)
    assert net.frames(CloseGateFrame) and set(answers(net, c, b, began)) == {"FLUSHING"}
    net.run(2)
    assert answers(net, c, b, began)[-1] == "CAN_ACCEPT"
    assert net.logs[c].messages() == [b"x"] and [mark.because for mark in net.logs[b].marks] == ["left"]
    sound(net)


@BOTH
@pytest.mark.spec("A-076")
def test_a_close_waits_for_a_suspension_of_another_one(kind: str) -> None:
    net, (a, b, c, d) = members(kind)
    net.give(a, b"u1", profile="urgent", more=True)
    net.run(0.03)
    net.leave(b)
    net.leave(c)
    net.run(0.03)
    assert not net.frames(CloseGateFrame)
    net.give(a, b"u2", profile="urgent")
    net.run(3)
    assert views(net) == [(a, d)]
    assert net.logs[d].messages() == [b"u1", b"u2"]
    sound(net)


@BOTH
@pytest.mark.spec("A-078")
def test_an_opener_waits_for_the_answers_of_all_that_are_listed(kind: str) -> None:
    net, (a, b, c) = members(kind, 3)
    began = net.now
    new = AmpStationId(Domain("x"), 1)
    lost = Lost(ResponseFrame, to=new, times=2)
    lost.sender = c
    losing(net, lost)
    net.add("x")
    net.run_until(lambda: len(net.frames(GetViewFrame, began)) == 3, 1)
    assert not net.frames(OpenGateFrame, began)
    net.run(1)
    assert views(net) == [(a, b, c, new)] and not net.frames(InvestigateFrame)
    sound(net)


@pytest.mark.spec("A-078", "A-072")
def test_of_different_views_an_opener_takes_the_highest() -> None:
    net = world(NET)
    new = net.add("x")
    a, b = (AmpStationId(Domain(host), 1) for host in "ab")
    asked = net.frames(GetViewFrame)[-1].frame.control
    for sa, number in ((a, 4), (b, 5), (a, 4)):
        view = AmpView(AmpViewId(number, a), (a, b, AmpStationId(Domain("c"), 1)))
        head = FrameControl(net.group, sa, 0, 0, view.id)
        ref = FrameRef(new, 0, asked.mtn)
        net.tell(
            new, FrameReceived(sa.host, ResponseFrame(head, ref, "CAN_ACCEPT", report=StationReport(view)))
        )
    action = net.gates[new].state.action
    assert action is not None and action.base is not None and action.base.id.number == 5


@BOTH
@pytest.mark.spec("A-079")
def test_a_failure_that_is_seen_while_flushing_is_told_to_the_opener_and_it_recovers(kind: str) -> None:
    net, (a, b, c) = members(kind, 3)
    losing(net, Lost(DecisionFrame, times=9, change=None))
    net.give(a, b"x")
    net.run_until(lambda: bool(net.of_data(a, 1)) and net.gates[a].state.transfer is None, 1)
    net.crash(a)
    new = net.add("x")
    net.run(0.01)
    assert answers(net, b, new) == ["FLUSHING"]
    net.tell(b, StationSuspected(a))
    before = len(net.frames(GetViewFrame))
    net.run_until(lambda: bool(net.frames(InvestigateFrame)), 1)
    assert answers(net, b, new)[-1] == "FAILURE_SEEN"
    assert len(net.frames(GetViewFrame)) == before + 1  # its next round, and no later one
    net.run(3)
    assert {each.sender for each in net.frames(InvestigateFrame)} == {new}
    assert views(net) == [(b, c, new)]
    assert net.logs[b].messages() == net.logs[c].messages() == []


# Views that are agreed elsewhere


def executing(hosts: str) -> tuple[AmpWorld, list[AmpStationId]]:
    net = world(NET, decides="agreed")
    stations = [net.add(host) for host in hosts]
    decide(net, 1, stations)
    net.run(0.5)
    assert views(net) == [tuple(stations)]
    return net, stations


def decide(net: AmpWorld, number: int, members_: list[AmpStationId], *told: AmpStationId) -> None:
    for each in told or members_:
        net.tell(each, ViewExecuted(number, tuple(members_), b"%d" % number))


def numbers(net: AmpWorld, who: AmpStationId) -> list[int]:
    return [view.view.id.number for view in net.logs[who].views]


@pytest.mark.spec("A-089")
def test_an_older_agreed_view_that_is_told_late_is_passed_over() -> None:
    net, (a, b, c) = executing("abc")
    decide(net, 3, [a, b])
    decide(net, 2, [a, b, c], a, b)
    net.run(1)
    assert [numbers(net, each) for each in (a, b)] == [[1, 3]] * 2
    decide(net, 2, [a, b, c], a, b)
    decide(net, 3, [a, b])
    net.run(1)
    assert all(net.gates[each].state.suspended is None for each in (a, b))
    net.give(a, b"on")
    net.run(1)
    assert [net.logs[each].messages() for each in (a, b)] == [[b"on"]] * 2


@pytest.mark.spec("A-089")
def test_the_monitor_of_an_older_agreed_view_freezes_nobody() -> None:
    net, (a, b, c) = executing("abc")
    later = Lost(InvestigateFrame, to=c)  # the newer monitor is heard after the older one
    later.sender = b
    losing(net, later)
    decide(net, 3, [b, c])
    began = net.now
    decide(net, 2, [a, b, c], a)
    net.run(2)
    assert [numbers(net, each) for each in (b, c)] == [[1, 3]] * 2
    assert [each.sender for each in net.frames(InvestigateFrame, began)].count(a) > 1
    assert "CAN_ACCEPT" not in answers(net, b, a, began) + answers(net, c, a, began)


@pytest.mark.spec("A-089")
def test_only_the_first_member_of_an_agreed_view_carries_it_out() -> None:
    net, (a, b, c) = executing("abc")
    decide(net, 2, [a, b, c], c)
    sl = SuspensionLevel(2 << 16, b)
    asks = control(net, c, b, attributes=ACK | SUSPEND, sl=sl)
    net.tell(c, FrameReceived(b.host, InvestigateFrame(asks, ())))
    assert net.gates[c].state.suspended is None and not answers(net, c, b, net.now)
    decide(net, 2, [a, b, c], a, b)
    net.run(1)
    assert [numbers(net, each) for each in (a, b, c)] == [[1, 2]] * 3
