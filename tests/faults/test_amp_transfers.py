"""AMp: transfers of one run, on the bus of the paper and on a lossy network (XA-01 to XA-07, XA-10)."""

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace
from support.ampnet import BUS, NET, Lost, losing, members, results, sound, views

from rostra.impair.quality import LineQuality, Uniform
from rostra.protocols.atomic.amp_state import AccessGained, AccessLost, FrameReceived
from rostra.protocols.atomic.frames import (
    ACK,
    ORDER,
    WAIT,
    AmpStationId,
    DataFrame,
    DecisionFrame,
    DecisionRequestFrame,
    FrameControl,
    FrameRef,
    InvestigateFrame,
    PendingFrame,
    ResponseFrame,
)

BOTH = pytest.mark.parametrize("kind", [BUS, NET])


@BOTH
@pytest.mark.spec("A-002", "A-003", "A-004", "A-020", "A-035", "A-053")
def test_a_plain_transfer_takes_n_plus_one_frames_and_all_deliver_at_one_position(kind: str) -> None:
    """XA-01."""
    net, (a, *others) = members(kind)
    began = net.now
    net.give(a, b"hello")
    net.run(0.1)

    assert Counter(type(each.frame).__name__ for each in net.of_data(a, 1)) == {
        "DataFrame": 1,
        "ResponseFrame": 3,
        "DecisionFrame": 1,
    }
    assert net.frames(since=began)[0].frame.control.attributes == ACK | WAIT | ORDER
    runs = [net.logs[each].runs() for each in (a, *others)]
    assert [[(run.items, run.position) for run in each] for each in runs] == [
        [((b"hello",), 5)]
    ] * 4  # behind four views
    assert results(net, a) == ["accepted"]
    sound(net)


@pytest.mark.spec("A-045", "A-033", "A-028", "A-046", "A-031", "A-100", "A-104")
@pytest.mark.parametrize("kind", [BUS, NET])
def test_a_storm_leaves_identical_logs(kind: str) -> None:
    """XA-02: five members send 40 each at once, and frames pass each other."""
    net, stations = members(kind, 5)
    if kind == NET:
        net.medium.quality = LineQuality(Uniform(0.0005, 0.004), reorder=0.3, reorder_s=0.01)
    for number in range(40):
        for each in stations:
            net.give(each, b"%d" % number)
    most = 0

    def watch(who: AmpStationId, event: object, effects: object) -> None:
        nonlocal most
        most = max(most, len([run for run in net.gates[who].state.queue if not run.decided]))

    net.watch = watch
    net.run(30)
    assert [len(log.messages()) for log in net.logs.values()] == [200] * 5
    assert len({tuple(run.data for run in log.runs()) for log in net.logs.values()}) == 1
    assert most == 5
    sound(net)


@pytest.mark.spec("A-009", "A-106")
def test_arrival_is_no_order_on_a_network() -> None:
    """The same run, delivered by raw arrival: the checker must see it (TA1)."""
    net, stations = members(NET, 4)
    a, b, c, d = stations
    net.medium.late = {(a, c): 0.01, (b, d): 0.01}
    arrived: dict[AmpStationId, list[tuple[AmpStationId, int]]] = {each: [] for each in stations}

    def watch(who: AmpStationId, event: object, effects: object) -> None:
        if isinstance(event, FrameReceived) and isinstance(event.frame, DataFrame):
            data = event.frame.control.sa, event.frame.control.mdn
            if data not in arrived[who]:
                arrived[who].append(data)

    net.watch = watch
    for number in range(10):
        for each in stations:
            net.give(each, b"%d" % number)
    net.run(5)
    assert [each for each in arrived[c] if each[0] in (a, b)] != [
        each for each in arrived[d] if each[0] in (a, b)
    ]
    assert len({tuple(run.data for run in log.runs()) for log in net.logs.values()}) == 1
    sound(net)


@BOTH
@pytest.mark.spec("A-014", "A-015", "A-037", "A-102")
def test_lost_data_is_sent_once_more_under_the_same_number(kind: str) -> None:
    """XA-03."""
    net, (a, b, *__) = members(kind)
    losing(net, Lost(DataFrame, to=b))
    net.give(a, b"x")
    net.run(0.3)
    sent = [each.frame.control for each in net.of_data(a, 1) if isinstance(each.frame, DataFrame)]
    assert [each.mdn for each in sent] == [1, 1]
    assert sent[0].mtn < sent[1].mtn
    assert [len(log.runs()) for log in net.logs.values()] == [1] * 4
    sound(net)


@pytest.mark.spec("A-038")
def test_on_a_medium_a_retransmission_takes_a_new_place_in_the_order() -> None:
    net, (a, b, c, _d) = members(BUS)
    losing(net, Lost(DataFrame, to=b))
    net.give(a, b"late")
    net.run(0.005)
    net.give(c, b"between")
    net.run(0.5)
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"between", b"late")}
    answers = [each.frame.ref.mtn for each in net.of_data(a, 1) if isinstance(each.frame, ResponseFrame)]
    assert len(answers) == 2 + 3  # those of the first round do not count in the second
    sound(net)


@pytest.mark.spec("A-039")
@pytest.mark.parametrize(("answers_lost", "rounds_max"), [(False, 2.0), (True, 2.5)])
def test_negotiated_answers_add_up_over_rounds(answers_lost: bool, rounds_max: float) -> None:
    """Of 20 stations, 5 % loss: 1.7 rounds are expected if only data is lost, 2.0 if answers are as well. If
    each round began anew, it would be 2.7 and 7."""
    net, stations = members(NET, 20)
    luck = Random(7)
    kinds = (DataFrame, ResponseFrame) if answers_lost else (DataFrame,)
    losing(net, lambda sender, to, frame: isinstance(frame, kinds) and luck.random() < 0.05)
    for number in range(40):
        net.give(stations[0], b"%d" % number)
    net.run(10)
    rounds = [each for each in net.frames(DataFrame) if each.sender == stations[0]]
    assert {each.frame.control.mdn for each in rounds} == set(range(1, 41))
    assert len(rounds) / 40 < rounds_max
    sound(net)


@BOTH
@pytest.mark.spec("A-007")
def test_a_response_twice_does_not_stand_for_one_that_is_missing(kind: str) -> None:
    """TA2."""
    net, (a, b, c, _d) = members(kind)
    lost = Lost(ResponseFrame, to=a)
    lost.sender = c
    losing(net, lost)
    net.give(a, b"x")
    net.run(0.01)
    again = next(each for each in net.of_data(a, 1) if each.sender == b)
    net.tell(a, FrameReceived(b.host, again.frame))
    assert net.gates[a].state.transfer is not None
    assert net.frames(DecisionFrame, since=net.now - 0.01) == []
    net.run(0.3)
    assert results(net, a) == ["accepted"]
    sound(net)


@BOTH
@pytest.mark.spec("A-049", "A-050")
def test_a_lost_accept_is_learnt_from_the_next_frame(kind: str) -> None:
    """XA-04."""
    net, (a, b, _c, _d) = members(kind)
    losing(net, Lost(DecisionFrame, to=b))
    net.give(a, b"one")
    net.run(0.02)
    assert net.logs[b].messages() == []
    net.give(b, b"mine")  # what the others answer implies nothing
    net.run(0.02)
    net.give(a, b"two")
    net.run(0.02)
    assert net.frames(DecisionRequestFrame) == []
    assert [who for _, who, _ in net.noted("implicit_accept")] == [b]
    net.run(1)
    sound(net)


@BOTH
@pytest.mark.spec("A-026", "A-047", "A-048")
def test_a_lost_accept_is_asked_for_when_nothing_follows(kind: str) -> None:
    """XA-05."""
    net, (a, b, _c, _d) = members(kind)
    losing(net, Lost(DecisionFrame, to=b))
    net.give(a, b"one")
    net.run(1)
    asked = net.frames(DecisionRequestFrame)
    assert [(each.sender, each.to) for each in asked] == [(b, a)]
    assert net.logs[b].messages() == [b"one"]
    assert len(net.of_data(a, 1)) == 5 + 2
    sound(net)


@pytest.mark.spec("A-047")
def test_without_any_answer_the_monitor_acts_after_all_requests() -> None:
    net, (a, b, _c, _d) = members(NET)
    lost = Lost(DecisionFrame, to=b, times=100, change=None)
    losing(net, lost)
    net.give(a, b"one")
    net.run(0.8)
    assert len([each for each in net.frames(DecisionRequestFrame) if each.sender == b]) == 4
    assert net.frames(InvestigateFrame)[0].sender == b
    lost.left = 0
    net.run(2)
    assert [log.messages() for log in net.logs.values()] == [[b"one"]] * 4
    sound(net)


@pytest.mark.spec("A-048")
def test_an_emitter_answers_from_its_last_decision_or_that_it_is_not_done() -> None:
    net, (a, b, c, _d) = members(NET)
    losing(net, Lost(DataFrame, to=c, times=2))
    net.give(a, b"slow")
    net.run(0.02)
    gate = net.gates[b].state
    assert gate.view is not None
    ask = DecisionRequestFrame(FrameControl(gate.group, b, 0, 1, gate.view.id), FrameRef(a, 1))
    net.tell(a, FrameReceived(b.host, ask))
    assert [(each.sender, each.to) for each in net.frames(PendingFrame)] == [(a, b)]
    net.run(1)
    for text in (b"next", b"and the next"):
        net.give(a, text)
        net.run(1)
    before = len(net.sent)
    net.tell(a, FrameReceived(b.host, ask))
    assert len(net.sent) == before
    assert net.ignored("older than the last")


@BOTH
@pytest.mark.spec("A-036", "A-051", "A-052", "A-054", "A-103")
def test_a_full_buffer_rejects_for_all_and_removes_nobody(kind: str) -> None:
    """XA-06."""
    net, (a, b, c, d) = members(kind)
    net.tell(c, AccessLost("buffer"))
    net.give(a, b"no")
    net.run(1)
    assert results(net, a) == ["rejected"]
    assert len(net.of_data(a, 1)) == 2 * 4
    assert all(log.messages() == [] for log in net.logs.values())
    net.tell(c, AccessGained("buffer"))
    net.give(a, b"yes")
    net.run(1)
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"yes",)}
    assert views(net) == [(a, b, c, d)]
    sound(net)


@pytest.mark.spec("A-055")
def test_a_gate_that_is_inaccessible_for_too_long_closes() -> None:
    net, (a, b, c, d) = members(NET)
    net.tell(c, AccessLost("buffer"))
    net.run(1.9)
    assert views(net) == [(a, b, c, d)]
    net.run(2)
    assert views(net) == [(a, b, d)]
    assert [mark.because for mark in net.logs[c].marks] == ["left"]
    sound(net)


@BOTH
@pytest.mark.spec("A-032")
def test_nothing_new_is_sent_before_all_have_confirmed_a_reject(kind: str) -> None:
    """XA-07: one negative and one missing answer reject at once."""
    net, (a, b, c, _d) = members(kind)
    net.tell(c, AccessLost("user"))
    lost = Lost(ResponseFrame, to=a, times=2)
    lost.sender = b
    losing(net, lost)
    net.give(a, b"no")
    net.give(a, b"next")
    net.run(0.04)
    assert {each.frame.control.mdn for each in net.frames(DataFrame)} == {1}
    net.tell(c, AccessGained("user"))
    net.run(1)
    assert results(net, a) == ["rejected", "accepted"]
    sound(net)


@BOTH
@pytest.mark.spec("A-043")
def test_a_late_copy_of_a_rejected_frame_is_dropped(kind: str) -> None:
    """XA-10."""
    net, (a, b, c, d) = members(kind)
    net.tell(c, AccessLost("user"))
    net.give(a, b"no")
    net.run(0.5)
    net.tell(c, AccessGained("user"))
    net.give(a, b"yes")
    net.run(0.5)
    copy = next(each.frame for each in net.frames(DataFrame) if each.frame.control.mdn == 1)
    for each in (b, c, d):
        net.tell(each, FrameReceived(a.host, copy))
        net.tell(each, FrameReceived(a.host, replace(copy, control=replace(copy.control, mtn=99))))
    assert len(net.ignored("late copy")) == 6
    net.run(2)
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"yes",)}
    sound(net)


PROFILES = {
    "atomic": (3, [5]),
    "atomic-unordered": (3, [0]),
    "atomic-confirmed": (6, [5]),
    "reliable": (3, [0]),
    "best-effort": (0, [0]),
    "barrier": (3, [5]),
    "urgent": (3, [5]),
}


@pytest.mark.parametrize("profile", PROFILES)
@BOTH
@pytest.mark.spec("A-085", "A-029")
def test_every_profile_sends_what_it_says(kind: str, profile: str) -> None:
    net, (a, *_others) = members(kind)
    net.give(a, b"x", profile=profile)
    net.run(1)
    responses, positions = PROFILES[profile]
    assert len([each for each in net.of_data(a, 1) if isinstance(each.frame, ResponseFrame)]) == responses
    assert {tuple(run.position for run in log.runs()) for log in net.logs.values()} == {tuple(positions)}
    assert results(net, a) == ["sent" if profile == "best-effort" else "accepted"]
    sound(net)


@BOTH
@pytest.mark.spec("A-021", "A-023", "A-027", "A-042")
def test_an_urgent_block_is_contiguous(kind: str) -> None:
    net, (a, b, c, _d) = members(kind)
    for number in range(10):
        net.give(b, b"b%d" % number)
        net.give(c, b"c%d" % number)
    net.run(0.004)
    for text, more in ((b"u1", True), (b"u2", True), (b"u3", False)):
        net.give(a, text, profile="urgent", more=more)
    net.run(5)
    logs = {tuple(log.messages()) for log in net.logs.values()}
    assert len(logs) == 1
    [log] = logs
    first = log.index(b"u1")
    assert log[first : first + 3] == (b"u1", b"u2", b"u3")
    assert len(log) == 23
    assert set(results(net, b)) == {"accepted"}
    sound(net)


@BOTH
@pytest.mark.spec("A-024", "A-085")
def test_a_barrier_is_answered_when_all_before_it_is_decided(kind: str) -> None:
    net, (a, b, c, d) = members(kind, omissions=3)
    losing(net, Lost(DataFrame, to=d, times=3))
    net.give(a, b"slow")
    net.run(0.005)
    net.give(b, b"wall", profile="barrier")
    net.run(0.03)
    kinds = [e.frame.answer for e in net.of_data(b, 1) if isinstance(e.frame, ResponseFrame)]
    assert "FLUSHING" in kinds
    net.run(3)
    logs = {tuple(log.messages()) for log in net.logs.values()}
    # On a medium a retransmission goes behind what passed meanwhile.
    assert logs == {(b"slow", b"wall") if kind == NET else (b"wall", b"slow")}
    assert views(net) == [(a, b, c, d)]
    sound(net)


@pytest.mark.spec("A-013")
def test_a_station_that_is_not_in_the_view_is_told_so() -> None:
    net, (a, b, _c, d) = members(NET)
    net.give(a, b"x")
    net.run(0.5)
    frame = net.frames(DataFrame)[0].frame
    stranger = AmpStationId(d.host, 9)
    net.tell(b, FrameReceived(d.host, replace(frame, control=replace(frame.control, sa=stranger, mtn=1))))
    assert [each.frame.answer for each in net.sent[-1:]] == ["NOT_MEMBER"]
    assert net.logs[b].messages() == [b"x"]


def test_a_frame_from_another_host_than_it_says_is_ignored() -> None:
    net, (a, b, c, _d) = members(NET)
    net.give(a, b"x")
    frame = net.frames(DataFrame)[0].frame
    net.tell(b, FrameReceived(c.host, frame))
    assert net.ignored("not from there")


@pytest.mark.spec("A-091")
def test_a_broken_connection_is_one_missed_round() -> None:
    net, (a, b, c, d) = members(NET)
    net.medium.cut = {(a, b), (b, a)}
    net.give(a, b"x")
    net.run(0.06)
    net.medium.cut = set()
    net.run(1)
    assert views(net) == [(a, b, c, d)]
    assert {each.frame.control.mdn for each in net.frames(DataFrame)} == {1}
    assert {tuple(log.messages()) for log in net.logs.values()} == {(b"x",)}
