"""Suspicion and our own part in it: the pure functions, the detector, and what it means for a link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.links import Pair, assert_settled

from rostra.core.effects import LinkDown
from rostra.errors import BadInput
from rostra.protocols.detect.accrual import PHI_MAX, Rhythm, phi
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.detect.core import Detector, PeerVerdict
from rostra.protocols.detect.health import lateness_after
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import Removed, Suspected, Trusted

PROFILES = {"lan": DetectConfig.lan(), "wan": DetectConfig.wan()}
seconds = st.floats(0.0, 100.0)


# phi


def test_phi_says_how_rare_such_a_silence_is() -> None:
    rhythm = Rhythm(1.0, 0.01)
    assert phi(1.0, rhythm, 0.001) == pytest.approx(0.301, abs=0.001), "every second gap is longer than usual"
    assert phi(1.1282, rhythm, 0.001) == pytest.approx(1.0, abs=0.001), "one in ten"
    assert phi(1.2326, rhythm, 0.001) == pytest.approx(2.0, abs=0.001), "one in a hundred"
    assert phi(99.0, rhythm, 0.001) == PHI_MAX


@given(seconds, seconds, st.floats(0.01, 10.0), st.floats(0.0, 10.0))
def test_phi_never_falls_while_silence_lasts(
    one: float, other: float, mean_s: float, variance: float
) -> None:
    shorter, longer = sorted((one, other))
    rhythm = Rhythm(mean_s, variance)
    assert 0.0 <= phi(shorter, rhythm, 0.01) <= phi(longer, rhythm, 0.01) <= PHI_MAX


def test_a_perfectly_regular_peer_is_not_suspected_for_being_a_moment_late() -> None:
    regular = Rhythm(1.0)
    assert phi(1.05, regular, 0.1) < 1.0


@given(st.lists(st.floats(0.1, 5.0), min_size=300, max_size=300))
def test_a_rhythm_stays_within_what_was_observed(gaps: list[float]) -> None:
    rhythm = Rhythm(1.0)
    for gap_s in gaps:
        rhythm = rhythm.after(gap_s, memory=20)
    assert min(gaps) - 0.01 <= rhythm.mean_s <= max(gaps) + 0.01
    assert rhythm.deviation_s <= max(gaps) - min(gaps) + 0.01


def test_a_rhythm_forgets_what_it_started_from() -> None:
    rhythm = Rhythm(1.0)
    for turn in range(1000):
        rhythm = rhythm.after(2.0 if turn % 2 else 3.0, memory=50)
    assert rhythm.mean_s == pytest.approx(2.5, abs=0.02)
    assert rhythm.deviation_s == pytest.approx(0.5, abs=0.02)


# Our own health


def test_lateness_is_forgiven_by_half_every_half_life() -> None:
    lateness_s = lateness_after(0.0, 0.0, 4.0, half_life_s=10.0)
    assert lateness_s == 4.0
    assert lateness_after(lateness_s, 10.0, 0.0, half_life_s=10.0) == 2.0
    assert lateness_after(lateness_s, 20.0, 0.5, half_life_s=10.0) == 1.5


# The detector


def silence_until(
    detector: Detector, config: DetectConfig, verdict: PeerVerdict, late_s: float = 0.0
) -> float:
    """Tick in silence from time 0 until this verdict, and say when that was."""
    now = 0.0
    while now < 100.0:
        now += config.tick_s + late_s
        detector.ticked(now, late_s)
        if detector.judge(now) is verdict:
            return now
    raise AssertionError(f"never {verdict}")


def watching(config: DetectConfig) -> Detector:
    detector = Detector(config)
    detector.begin(0.0)
    return detector


@pytest.mark.spec("C-029")
@pytest.mark.parametrize(
    ("profile", "suspected_s", "gone_s"),
    [("lan", (0.45, 0.56), (1.0, 1.06)), ("wan", (1.5, 1.8), (4.0, 4.01))],
)
def test_each_profile_suspects_and_gives_up_when_it_says(
    profile: str, suspected_s: tuple[float, float], gone_s: tuple[float, float]
) -> None:
    config = PROFILES[profile]
    assert suspected_s[0] <= silence_until(watching(config), config, PeerVerdict.OVERDUE) <= suspected_s[1]
    assert gone_s[0] <= silence_until(watching(config), config, PeerVerdict.GONE) <= gone_s[1]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_busy_second_does_not_make_the_next_quiet_one_suspicious(profile: str) -> None:
    config = PROFILES[profile]
    detector, now = watching(config), 0.0
    while now < 50.0:
        now += 0.005
        detector.heard(now)
        detector.ticked(now, 0.0)

    assert detector.rhythm.mean_s == config.heartbeat_interval_s
    detector.ticked(now + 1.2 * config.heartbeat_interval_s, 0.0)
    assert detector.judge(now + 1.2 * config.heartbeat_interval_s) is PeerVerdict.ALIVE


@pytest.mark.spec("C-029")
@pytest.mark.parametrize("profile", PROFILES)
@given(st.lists(st.floats(0.2, 4.9), max_size=150), st.floats(0.0, 20.0))
def test_whatever_was_observed_a_silent_peer_is_overdue_and_then_gone_within_the_bound(
    profile: str, gaps: list[float], own_lateness_s: float
) -> None:
    config = PROFILES[profile]
    detector, now = Detector(config), 0.0
    for gap in gaps:
        now += gap * config.heartbeat_interval_s
        detector.heard(now)
        detector.ticked(now, 0.0)
    detector.own_lateness_s = own_lateness_s
    detector.begin(now)

    verdicts: list[PeerVerdict] = []
    start = now
    while PeerVerdict.GONE not in verdicts:
        now += config.tick_s
        detector.ticked(now, 0.0)
        verdicts.append(detector.judge(now))

    assert PeerVerdict.OVERDUE in verdicts, "nobody is given up without having been suspected"
    assert (
        config.down_after_s - 1e-9 <= now - start <= config.down_after_s + config.heartbeat_interval_s + 1e-9
    )


def test_an_irregular_peer_is_suspected_later_than_a_regular_one() -> None:
    config = DetectConfig.wan()
    irregular, now = Detector(config), 0.0
    for turn in range(200):
        now += 1.0 if turn % 3 else 1.6
        irregular.heard(now)
        irregular.ticked(now, 0.0)
    irregular.begin(0.0)

    assert silence_until(irregular, config, PeerVerdict.OVERDUE) > silence_until(
        watching(config), config, PeerVerdict.OVERDUE
    )
    assert silence_until(irregular, config, PeerVerdict.GONE) > silence_until(
        watching(config), config, PeerVerdict.GONE
    )


def test_time_in_which_our_own_loop_was_away_is_not_silence() -> None:
    config = DetectConfig.wan()
    detector = watching(config)
    detector.heard(0.5)
    detector.ticked(10.5, 9.75)

    assert detector.judge(10.5) is PeerVerdict.ALIVE
    assert detector.silence_s(10.5) == pytest.approx(0.25)
    assert detector.own_lateness_s == 9.75


@pytest.mark.spec("C-029")
def test_a_node_that_was_late_itself_suspects_later_but_not_much() -> None:
    config = DetectConfig.wan()
    late = watching(config)
    late.own_lateness_s = 30.0

    extra_s = silence_until(late, config, PeerVerdict.OVERDUE) - silence_until(
        watching(config), config, PeerVerdict.OVERDUE
    )

    assert extra_s == config.stretch_max_s == 0.75


def test_our_own_absence_does_not_teach_us_that_the_peer_is_slow() -> None:
    config = DetectConfig.wan()
    detector = watching(config)
    detector.heard(10.5)  # its packets waited in the socket, and were read before the late tick
    detector.ticked(10.5, 9.75)

    assert detector.rhythm.mean_s == pytest.approx(1.0)


def test_a_loop_that_is_always_late_still_gives_up_a_dead_peer() -> None:
    config = DetectConfig.wan()
    detector = watching(config)

    gone = silence_until(detector, config, PeerVerdict.GONE, late_s=config.tick_s)

    listened = gone / 2
    assert config.down_after_s <= listened <= config.down_after_s + config.heartbeat_interval_s


# What it means for a link


@pytest.mark.spec("C-035")
def test_a_two_second_stall_is_suspected_and_costs_nothing_in_the_default_profile() -> None:
    pair = Pair(LinkConfig())
    pair.run(10.3)
    pair.pause(pair.b, 2.0)
    paused_at = pair.now
    pair.run(5.0)

    [suspected_at] = pair.a.when(Suspected)
    [trusted] = pair.a.reports(Trusted)
    assert isinstance(trusted, Trusted)
    assert 0.5 <= suspected_at - paused_at <= 1.81
    assert 1.9 <= trusted.after_s <= 3.1
    assert pair.a.ups_and_downs() == pair.b.ups_and_downs() == ["up"]
    assert pair.b.reports(Suspected) == [], "the one that stalled blames nobody else"
    assert_settled(pair)


@pytest.mark.spec("C-029")
def test_a_silent_host_is_down_within_a_second_and_a_fifth_in_the_lan_profile() -> None:
    pair = Pair(LinkConfig.lan())
    pair.run(10.3)
    pair.cut(pair.b)
    cut_at = pair.now
    pair.run(3.0)

    [down_at] = pair.a.when(LinkDown)
    assert down_at - cut_at <= 1.2


@pytest.mark.spec("C-029")
def test_a_process_that_was_stopped_for_ten_seconds_does_not_give_up_its_peers() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(5.0)
    pair.pause(pair.b, 10.0)
    pair.run(9.9)
    assert pair.a.ups_and_downs() == ["up", "down: silent"], "the others have to"
    pair.run(6.0)

    assert pair.b.ups_and_downs() == ["up", "down: ended by peer", "up"]
    assert pair.b.reports(Suspected) == []
    assert_settled(pair)


@pytest.mark.spec("C-029")
def test_after_its_own_absence_a_process_still_notices_a_dead_peer_within_the_bound() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(5.0)
    pair.pause(pair.b, 10.0)
    pair.cut(pair.a)
    pair.run(10.0)
    back_at = pair.now
    pair.run(6.0)

    [down_at] = pair.b.when(LinkDown)
    assert 2.0 <= down_at - back_at <= 5.0
    [removed] = pair.b.reports(Removed)
    assert isinstance(removed, Removed)
    assert removed.evidence.own_lateness_s > 5.0, "the evidence tells how much to believe it"


@pytest.mark.parametrize("late_s", [0.02, 0.2, 1.0])
def test_a_slow_loop_does_not_suspect_a_peer_that_beats_in_time(late_s: float) -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(5.0)
    for _ in range(100):
        pair.pause(pair.b, late_s)
        pair.run(late_s + 0.25)

    assert pair.b.reports(Suspected) == []
    assert pair.b.ups_and_downs() == ["up"]


def test_two_healthy_neighbours_never_suspect_each_other() -> None:
    pair = Pair(LinkConfig.lan(), delay_s=(0.0, 0.03))
    pair.run(300.0)
    assert pair.a.reports(Suspected) == pair.b.reports(Suspected) == []


@pytest.mark.parametrize("step_s", [-3600.0, -3.0, 3.0, 3600.0])
def test_a_clock_that_jumps_gives_nobody_up_and_stops_no_beats(step_s: float) -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(5.0)
    pair.b.clock_ahead_s = step_s
    pair.run(20.0)

    assert pair.a.ups_and_downs() == pair.b.ups_and_downs() == ["up"]
    assert pair.a.reports(Suspected) == pair.b.reports(Suspected) == []
    cut_at = pair.now
    pair.cut()
    pair.run(6.0)
    for end in (pair.a, pair.b):
        [down_at] = end.when(LinkDown)
        assert down_at - cut_at <= 5.0


@pytest.mark.spec("C-029")
def test_a_peer_that_dies_as_our_clock_jumps_back_is_given_up_within_the_bound() -> None:
    pair = Pair(LinkConfig.wan())
    pair.run(5.0)
    pair.b.clock_ahead_s = -3600.0
    pair.cut()
    cut_at = pair.now
    pair.run(6.0)

    [down_at] = pair.b.when(LinkDown)
    assert down_at - cut_at <= 5.25


def test_a_clock_that_jumps_back_while_apart_does_not_stop_the_hellos() -> None:
    pair = Pair(LinkConfig.wan())
    pair.cut()
    pair.run(30.0)
    pair.a.clock_ahead_s = pair.b.clock_ahead_s = -3600.0
    pair.heal()
    pair.run(6.0)

    assert_settled(pair)


# Settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_interval_s": 0.0},
        {"down_after_s": 1.0},
        {"suspect_phi": 0.0},
        {"deviation_min_s": 0.0},
        {"memory_gaps": 0},
        {"health_half_life_s": 0.0},
        {"program_ping_after_s": 0.0},
        {"program_suspect_s": 10.0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        DetectConfig(**wrong)  # type: ignore[arg-type]


def test_the_default_profile_is_wan() -> None:
    assert DetectConfig() == DetectConfig.wan()
