"""Local programs that live and do not answer."""

import pytest

from rostra.core.effects import Effect, Ignored
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.detect.programs import (
    TOGETHER_MIN,
    TOGETHER_TIMES,
    ProgramClosed,
    ProgramHeard,
    ProgramOpened,
    ProgramRemoved,
    ProgramSuspected,
    ProgramTrusted,
    ProgramWatch,
    SendPing,
)
from rostra.protocols.links.events import Ticked

CONFIG = DetectConfig.wan()


def watching(*programs: int) -> ProgramWatch:
    watch = ProgramWatch(CONFIG)
    for program in programs:
        assert watch.step(0.0, ProgramOpened(program)) == []
    return watch


def tick(watch: ProgramWatch, start: float, until: float) -> list[tuple[float, Effect]]:
    """Every effect of the ticks in (start, until], with its time."""
    effects: list[tuple[float, Effect]] = []
    now = start
    while now + CONFIG.tick_s <= until:
        now += CONFIG.tick_s
        effects += [(now, effect) for effect in watch.step(now, Ticked())]
    return effects


def test_a_quiet_program_is_pinged_once_and_an_answer_is_all_it_owes() -> None:
    watch = watching(1)
    assert tick(watch, 0.0, 1.0) == [(0.5, SendPing(1))]
    assert watch.step(1.0, ProgramHeard(1)) == []
    assert tick(watch, 1.0, 1.5) == [(1.5, SendPing(1))]


def test_a_program_that_talks_is_not_pinged() -> None:
    watch = watching(1)
    for count in range(1, 100):
        watch.step(count * 0.25, ProgramHeard(1))
        assert watch.step(count * 0.25, Ticked()) == []


@pytest.mark.spec("C-176")
def test_a_program_stopped_for_two_seconds_is_suspected_and_keeps_its_place() -> None:
    watch = watching(1)
    effects = tick(watch, 0.0, 2.0)

    assert [type(effect) for _, effect in effects] == [SendPing, ProgramSuspected]
    assert effects[1][0] <= 1.75
    assert watch.suspected == (1,)
    assert watch.step(2.0, ProgramHeard(1)) == [ProgramTrusted(1, after_s=2.0)]
    assert watch.suspected == ()


@pytest.mark.spec("C-176")
def test_a_program_that_never_answers_is_removed_with_evidence() -> None:
    watch = watching(1)
    effects = tick(watch, 0.0, 20.0)

    [(removed_at, removed)] = [(at, effect) for at, effect in effects if isinstance(effect, ProgramRemoved)]
    assert removed_at == 0.5 + CONFIG.program_down_after_s
    assert removed.evidence.quiet_s == removed_at
    assert removed.evidence.unanswered_s == CONFIG.program_down_after_s
    assert watch.step(20.0, ProgramHeard(1)) == [Ignored("ProgramHeard", "unknown program")]


def crowd_stalls(programs: int, wakes_at: dict[int, float]) -> list[tuple[float, ProgramRemoved]]:
    """All of them stall from the beginning; who wakes then answers every ping."""
    watch = watching(*range(programs))
    removed: list[tuple[float, ProgramRemoved]] = []
    for count in range(1, 400):
        now = count * CONFIG.tick_s
        for program, wakes in wakes_at.items():
            if wakes <= now:
                watch.step(now, ProgramHeard(program))
        effects = watch.step(now, Ticked())
        removed += [(now, effect) for effect in effects if isinstance(effect, ProgramRemoved)]
    return removed


def test_programs_that_stall_together_have_six_times_as_long() -> None:
    removed = crowd_stalls(TOGETHER_MIN, {})

    assert {at for at, _ in removed} == {0.5 + TOGETHER_TIMES * CONFIG.program_down_after_s}
    assert {gone.evidence.down_after_s for _, gone in removed} == {60.0} and len(removed) == TOGETHER_MIN
    assert {at for at, _ in crowd_stalls(TOGETHER_MIN - 1, {})} == {0.5 + CONFIG.program_down_after_s}


def test_the_last_of_a_crowd_keeps_the_time_that_the_crowd_had() -> None:
    others = dict.fromkeys(range(1, TOGETHER_MIN), 12.0)
    assert crowd_stalls(TOGETHER_MIN, others | {0: 40.0}) == []


def test_one_that_stalls_after_its_crowd_woke_has_the_usual_time() -> None:
    watch = watching(*range(TOGETHER_MIN))
    tick(watch, 0.0, 5.0)
    for program in range(TOGETHER_MIN):
        watch.step(5.0, ProgramHeard(program))
    removed: list[float] = []
    for count in range(1, 80):
        now = 5.0 + count * CONFIG.tick_s
        for program in range(1, TOGETHER_MIN):
            watch.step(now, ProgramHeard(program))
        removed += [now for each in watch.step(now, Ticked()) if isinstance(each, ProgramRemoved)]
    assert removed == [5.0 + 0.5 + CONFIG.program_down_after_s]


def test_programs_are_judged_one_by_one() -> None:
    watch = watching(1, 2, 3)
    suspected: list[Effect] = []
    for count in range(1, 13):
        watch.step(count * 0.25, ProgramHeard(2))
        suspected += [
            effect for effect in watch.step(count * 0.25, Ticked()) if isinstance(effect, ProgramSuspected)
        ]
    assert watch.suspected == (1, 3)
    assert len(suspected) == 2


def test_while_the_agent_itself_was_away_its_programs_owed_nothing() -> None:
    watch = watching(1)
    tick(watch, 0.0, 0.5)

    assert watch.step(30.75, Ticked(late_s=30.0)) == []
    assert watch.step(31.0, ProgramHeard(1)) == [], "it was never suspected"


def test_after_the_agents_absence_a_stalled_program_is_suspected_as_usual() -> None:
    watch = watching(1)
    tick(watch, 0.0, 0.5)
    watch.step(30.75, Ticked(late_s=30.0))

    effects = tick(watch, 30.75, 32.0)

    assert [type(effect) for _, effect in effects] == [ProgramSuspected]


def test_a_program_that_closed_is_forgotten() -> None:
    watch = watching(1)
    assert watch.step(0.1, ProgramClosed(1)) == []
    assert tick(watch, 0.0, 20.0) == []
    assert watch.step(1.0, ProgramClosed(1)) == [Ignored("ProgramClosed", "unknown program")]
