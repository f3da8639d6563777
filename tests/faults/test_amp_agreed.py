"""AMp under agreed views: the monitor carries out what servers have decided (A-089, XA-21)."""

import pytest
from support.ampnet import NET, Lost, losing, results, sound, views, world

from benchmarks.amp_world import AmpWorld
from rostra.protocols.atomic.amp_state import FailureReported, FrameReceived, ViewExecuted
from rostra.protocols.atomic.frames import (
    AmpStationId,
    DataFrame,
    DecisionFrame,
    DecisionRequestFrame,
    InvestigateFrame,
    NewViewFrame,
    ResponseFrame,
)


def agreed(hosts: str) -> tuple[AmpWorld, list[AmpStationId]]:
    net = world(NET, decides="agreed")
    stations = [net.add(host) for host in hosts]
    decide(net, 1, stations)
    net.run(0.5)
    assert views(net) == [tuple(stations)]
    return net, stations


def decide(net: AmpWorld, number: int, members: list[AmpStationId], *told: AmpStationId) -> None:
    for each in told or members:
        net.tell(each, ViewExecuted(number, tuple(members), b"%d" % number))


def numbers(net: AmpWorld, who: AmpStationId) -> list[int]:
    return [view.view.id.number for view in net.logs[who].views]


@pytest.mark.spec("A-070", "A-089", "A-101")
def test_a_run_that_one_member_accepted_is_accepted_by_all_in_the_view_before() -> None:
    net, (a, b, c) = agreed("abc")
    losing(net, Lost(DecisionFrame, to=c, times=99, change=None))
    net.give(a, b"x")
    net.run(0.02)
    assert net.logs[b].messages() == [b"x"] and net.logs[c].messages() == []
    net.crash(a)
    decide(net, 2, [b, c])
    net.run(1)
    assert [net.logs[each].messages() for each in (b, c)] == [[b"x"]] * 2
    assert [len(net.logs[each].views[0].runs) for each in (b, c)] == [1, 1]
    sound(net)


@pytest.mark.spec("A-041", "A-070")
def test_a_run_of_a_living_sender_that_all_hold_is_accepted_with_the_view() -> None:
    """Nothing is sent twice because of a join, and the sender sees no error."""
    net, (a, b) = agreed("ab")
    losing(net, Lost(DecisionFrame, times=99, change=None))
    d = net.add("d")
    net.give(a, b"x")
    net.run(0.003)
    decide(net, 2, [a, b, d])
    net.run(1)
    assert [net.logs[each].messages() for each in (a, b)] == [[b"x"]] * 2
    assert results(net, a) == ["accepted"]
    assert numbers(net, d) == [2]
    sound(net)


@pytest.mark.spec("A-072", "A-089")
def test_a_view_that_was_accepted_somewhere_comes_before_the_next() -> None:
    """The accept of view 2 reached its monitor and one other, and the monitor died."""
    net, (a, b, c, d) = agreed("abcd")
    losing(net, *[Lost(DecisionFrame, to=each, times=99) for each in (c, d)])
    decide(net, 2, [a, b, c, d])
    net.run_until(lambda: numbers(net, b) == [1, 2], 2)
    net.crash(a)
    losing(net)
    decide(net, 3, [b, c, d])
    net.run(2)
    assert [numbers(net, each) for each in (b, c, d)] == [[1, 2, 3]] * 3
    sound(net)


@pytest.mark.spec("A-072", "A-089")
def test_a_view_that_is_only_stored_comes_before_the_next() -> None:
    """Its monitor may have shown it to its own members before it died."""
    net, (a, b, c) = agreed("abc")
    losing(net, Lost(DecisionFrame, times=99))
    decide(net, 2, [a, b, c])
    net.run_until(lambda: numbers(net, a) == [1, 2], 2)
    net.crash(a)
    losing(net)
    decide(net, 3, [b, c])
    net.run(2)
    assert [numbers(net, each) for each in (b, c)] == [[1, 2, 3]] * 2
    sound(net)


@pytest.mark.spec("A-099", "A-062")
def test_a_station_that_missed_the_accept_of_its_first_view_asks_for_it() -> None:
    net, (a, b) = agreed("ab")
    d = net.add("d")
    losing(net, Lost(DecisionFrame, to=d))
    decide(net, 2, [a, b, d])
    net.run(2)
    assert numbers(net, d) == [2]
    net.give(d, b"on")
    net.run(1)
    sound(net)
    assert net.logs[a].messages() == [b"on"]


@pytest.mark.spec("A-099", "A-062")
def test_a_member_that_missed_an_accept_asks_for_it() -> None:
    net, (a, b, c) = agreed("abc")
    losing(net, Lost(DecisionFrame, to=c))
    decide(net, 2, [a, b, c])
    net.run(2)
    assert numbers(net, c) == [1, 2]
    assert [each.sender for each in net.frames(DecisionRequestFrame)] == [c]
    net.give(c, b"on")
    net.run(1)
    sound(net)
    assert net.logs[a].messages() == [b"on"]


@pytest.mark.spec("A-089", "A-107")
def test_a_station_follows_only_views_of_its_own_servers() -> None:
    """It is neither frozen nor counted before it was told, and then it is."""
    net, (a, b, c) = agreed("abc")
    decide(net, 2, [a, b, c], a, b)
    net.run(0.3)
    assert net.gates[c].state.suspended is None
    assert numbers(net, a) == [1]
    assert any(isinstance(each, FailureReported) for _, _, each in net.notes) is False
    decide(net, 2, [a, b, c], c)
    net.run(1)
    assert [numbers(net, each) for each in (a, b, c)] == [[1, 2]] * 3


@pytest.mark.spec("A-089", "A-056")
def test_who_was_behind_a_partition_is_out_when_the_sides_meet() -> None:
    """Both sides went on; the most senior station's line is the group's, whatever the numbers are."""
    net, (a, b, c, d) = agreed("abcd")
    for sender in (a, b):
        net.medium.cut |= {(sender, each) for each in (c, d)} | {(each, sender) for each in (c, d)}
    decide(net, 2, [a, b])
    decide(net, 2, [c, d])
    net.run(1)
    decide(net, 3, [c, d])
    net.give(a, b"here")
    net.give(c, b"there")
    net.run(1)
    assert views(net) == [(a, b), (c, d)]
    losing(net, Lost(ResponseFrame, to=a))
    net.give(a, b"last")  # and undecided when they meet: only those of its line count
    net.run(0.01)
    net.medium.cut.clear()
    decide(net, 4, [a, b, c, d])
    net.run(2)
    closed = [[mark.because for mark in net.logs[each].marks] for each in (a, b, c, d)]
    assert closed == [[], [], ["excluded"], ["excluded"]]
    decide(net, 5, [a, b])
    net.run(2)
    assert numbers(net, a) == numbers(net, b) == [1, 2, 4, 5]  # 4 was stored
    assert [run.items for run in net.logs[b].views[1].runs] == [(b"here",), (b"last",)]


@pytest.mark.spec("A-016", "A-043", "A-074")
def test_frames_of_an_earlier_part_in_the_group_do_nothing() -> None:
    """A station that left and came again takes no view that it had a part in before."""
    net, (a, b, c) = agreed("abc")
    decide(net, 2, [a, b, c])
    net.run(1)
    old = [each.frame for each in net.frames() if isinstance(each.frame, DecisionFrame | NewViewFrame)]
    asked = [each.frame for each in net.frames(InvestigateFrame)]
    net.leave(c)
    assert net.gates[c].state.standing == "closed"
    before = net.gates[c].state.mtn
    decide(net, 3, [a, b])
    net.run(1)
    again = net.gates[c]
    net.add("c")
    net.gates[c].state = type(again.state)(c, net.group, "opening", mtn=before)
    decide(net, 4, [a, b, c], c)
    for frame in (*asked, *old):
        net.tell(c, FrameReceived(a.host, frame))
    assert net.gates[c].state.view is None and net.gates[c].state.stored is None
    decide(net, 4, [a, b, c], a, b)
    net.run(1)
    assert views(net) == [(a, b, c)]


@pytest.mark.spec("A-047", "A-089")
def test_a_silent_station_is_asked_until_membership_decides() -> None:
    """Longer than the paper's w + 1 rounds, more and more slowly; and it is not too late then."""
    net, (a, b, c) = agreed("abc")
    net.paused.add(c)
    net.give(a, b"x")
    net.run(5)
    sent = [each.at for each in net.frames(DataFrame)]
    assert 10 < len(sent) < 40 and sent[-1] - sent[-2] > 5 * (sent[1] - sent[0])
    net.paused.discard(c)
    net.run(1)
    assert [net.logs[each].messages() for each in (a, b, c)] == [[b"x"]] * 3
    assert results(net, a) == ["accepted"]
    sound(net)


@pytest.mark.spec("A-072", "A-089")
def test_a_monitor_completes_a_view_that_it_is_not_in() -> None:
    """Two sides of a group met: the first station is new and in no view, and of the others one view is only
    stored."""
    net, (a, b, c) = agreed("abc")
    losing(net, Lost(DecisionFrame, times=99))
    decide(net, 2, [a, b, c])
    net.run_until(lambda: numbers(net, a) == [1, 2], 2)
    net.crash(a)
    losing(net)
    d = net.add("d")
    decide(net, 3, [d, b, c])
    net.run(2)
    assert [numbers(net, each) for each in (b, c, d)] == [[1, 2, 3], [1, 2, 3], [3]]
    sound(net)
