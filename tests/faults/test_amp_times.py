"""AMp: how long things take, when all must be at rest again, and what its user sees (section 6)."""

from random import Random

import pytest
from support.ampnet import NET, Lost, losing, members, sound

from benchmarks import atomic_report as report
from benchmarks.atomic_hub import HubRow, hub_rows
from rostra.impair.quality import LineQuality, Uniform
from rostra.protocols.atomic.amp_invariants import at_rest
from rostra.protocols.atomic.amp_state import GateClosed, RunDelivered, StationSuspected, ViewIndicated
from rostra.protocols.atomic.frames import AmpStationId, DecisionFrame

DELAY_S = report.DELAY_S


@pytest.mark.parametrize("kind", ["bus", "network"])
@pytest.mark.spec("A-086")
def test_the_times_of_a_transfer_are_counted_in_delays(kind: str) -> None:
    """Tt: a question and its answers. Te: and the decision. Ti: on a bus all deliver at once; on a network
    the sender delivers a delay before the others."""
    took = report.plain_times(kind)
    assert took.transfer == pytest.approx(2 * DELAY_S)
    assert took.execution == pytest.approx(3 * DELAY_S)
    assert took.inconsistency == pytest.approx(0 if kind == "bus" else DELAY_S)


@pytest.mark.parametrize("kind", ["bus", "network"])
@pytest.mark.spec("A-087", "A-053")
def test_the_worst_times_are_those_of_the_rounds_that_a_correct_station_may_lose(kind: str) -> None:
    """An adversary takes all omissions that it may; both are within the bounds, and not by being idle."""
    config = report.AmpConfig().with_omissions(report.W)
    rounds_s = (report.W + 1) * config.response_s
    worst = report.worst_times(kind)
    assert rounds_s < worst.execution <= 2 * rounds_s + config.wait_decision_s
    assert config.wait_decision_s <= worst.inconsistency <= config.wait_decision_s + rounds_s
    assert worst.execution > 10 * report.plain_times(kind).execution


@pytest.mark.spec("A-053", "A-080")
def test_every_formula_of_the_report_is_what_is_counted() -> None:
    """Section 6, on the bus and on the network; and hub order beside it."""
    found: list[report.ReportRow | HubRow] = [*report.rows(), *hub_rows(report.N, DELAY_S)]
    assert len(found) > 30
    assert [row.claim for row in found if not row.holds] == []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.spec("A-108")
def test_when_faults_stop_all_is_at_rest_within_the_bound(seed: int) -> None:
    """IA-9: loss, and one station that fails in the middle; then nothing undecided is held for longer than it
    takes to notice, and two actions of a monitor."""
    net, stations = members(NET, 5, seed=seed)
    luck = Random(seed)
    losing(net, lambda sender, to, frame: luck.random() < 0.3)
    for number in range(12):
        net.give(luck.choice(stations), b"%d" % number)
        net.run(luck.uniform(0.0, 0.05))
    net.crash(stations[seed % 5])
    losing(net)
    net.medium.quality = LineQuality(Uniform(0.0005, 0.004))
    stopped = net.now
    net.run_until(lambda: _rests(net), 20)
    assert _rests(net)
    transfers_s = 12 * net.config.rounds * net.config.response_s  # what waited is sent, one after the other
    assert net.now - stopped <= bound_s(net) + transfers_s
    sound(net)


def bound_s(net: report.AmpWorld) -> float:
    """Of IA-9: to notice what is missing, that a monitor is silent, and two actions of one."""
    config = net.config
    action_s = 2 * config.rounds * config.response_s
    notice_s = config.wait_decision_s + config.rounds * config.response_s
    return notice_s + config.suspend_s + 5 * config.stagger_s + 2 * action_s


@pytest.mark.spec("A-108")
def test_a_decision_that_was_lost_is_missed_for_a_bounded_time() -> None:
    net, (a, b, *_) = members(NET, 4)
    losing(net, Lost(DecisionFrame, to=b))
    net.give(a, b"x")
    net.run(0.02)
    assert not _rests(net)
    stopped = net.now
    net.run_until(lambda: _rests(net), 20)
    assert _rests(net) and net.now - stopped <= bound_s(net)
    assert net.logs[b].messages() == [b"x"]


@pytest.mark.spec("A-108")
def test_a_group_whose_monitor_died_is_suspended_for_a_bounded_time() -> None:
    net, (a, b, c, d, e) = members(NET, 5)
    net.crash(a)
    net.tell(b, StationSuspected(a))
    net.run(0.006)  # the others are frozen
    net.crash(b)
    stopped = net.now
    assert not _rests(net)
    net.run_until(lambda: _rests(net) and net.gates[c].state.view.members == (c, d, e), 20)
    assert _rests(net) and net.now - stopped <= bound_s(net)
    sound(net)


def _rests(net: report.AmpWorld) -> bool:
    states = [gate.state for gate in net.gates.values()]
    return not at_rest(states) and not any(state.waiting for state in states)


@pytest.mark.spec("A-088")
def test_a_user_opens_sends_and_closes_and_hears_of_data_views_and_its_exclusion() -> None:
    """What it is told, with which fields; and the three things that can become of what it sends."""
    net, (a, b, c) = members(NET, 3)
    seen: dict[AmpStationId, list[object]] = {a: [], b: [], c: []}
    net.watch = lambda who, event, effects: seen[who].extend(effects)
    accepted = net.give(a, b"data")
    invalid = net.give(a)  # nothing in it
    net.run(1)
    assert [net.ended[a, token][1].result for token in (accepted, invalid)] == ["accepted", "rejected"]
    assert net.ended[a, invalid][1].because == "invalid"
    [heard] = [each for each in seen[b] if isinstance(each, RunDelivered)]
    assert (heard.data.sa, heard.items, heard.position, heard.view) == (a, (b"data",), 4, 3)
    net.leave(c)
    net.run(1)
    [view] = [each for each in seen[b] if isinstance(each, ViewIndicated)]
    assert (view.view.members, view.joined, view.left, view.failed) == ((a, b), (), (c,), ())
    assert [each.because for each in seen[c] if isinstance(each, GateClosed)] == ["left"]
    losing(net, lambda sender, to, frame: True)
    excluded = net.give(b, b"too late")
    net.run(5)
    assert net.ended[b, excluded][1].result == "excluded"
    [closed] = [each for each in seen[b] if isinstance(each, GateClosed)]
    assert closed == GateClosed("excluded", tail_in_doubt=True)
