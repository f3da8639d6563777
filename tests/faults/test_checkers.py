"""Checkers can fail: each kind of broken promise, planted in a history that was fine, is found and pointed
at."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from support.calm import calm_world

from rostra.groups.members import Because, Cause, Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.requests import Absolute, Gap, Joined, Left, Only, Resolve, Without
from rostra.sim.checkers import (
    CheckVerdict,
    both_sides_told,
    heals_alone,
    per_source_order,
    stable_truth,
    watch_complete,
)
from rostra.sim.history import (
    AnswerRecord,
    AnyRecord,
    Detected,
    History,
    LineChanged,
    MembershipChanged,
    NoticeRecord,
    ServerChanged,
    Settled,
)

G = Group("g", Domain("world"))
BOUND_S = 3.0


def peaceful() -> History:
    """A calm world, and a question at the end."""
    world = calm_world()
    world.programs[1].resolve("g")
    world.settle()
    assert world.history is not None
    return world.history


@pytest.fixture(scope="module")
def fine() -> History:
    return peaceful()


CHECKS: dict[str, Callable[[History], CheckVerdict]] = {
    "per-source-order": per_source_order,
    "stable-truth": stable_truth,
    "watch-complete": watch_complete,
    "both-sides-told": lambda history: both_sides_told(history, bound_s=BOUND_S),
    "heals-alone": lambda history: heals_alone(history, bound_s=BOUND_S),
}


@pytest.mark.parametrize("promise", CHECKS)
def test_a_peaceful_history_keeps_every_promise(promise, fine):
    verdict = CHECKS[promise](fine)
    assert verdict.ok and verdict.promise == promise and verdict.where is None, verdict


# Planting


def find(history: History, wanted: Callable[[AnyRecord], bool], nth: int = 0) -> int:
    return [place for place, record in enumerate(history) if wanted(record)][nth]


def told(endpoint: str, kind: type) -> Callable[[AnyRecord], bool]:
    return lambda record: (
        isinstance(record, NoticeRecord)
        and record.endpoint.startswith(endpoint)
        and isinstance(record.notice, kind)
    )


def without(history: History, place: int) -> History:
    return [*history[:place], *history[place + 1 :]]


def changed(history: History, place: int, **fields: object) -> History:
    return [*history[:place], replace(history[place], **fields), *history[place + 1 :]]


def again(history: History, place: int) -> History:
    """Tell the same thing twice."""
    return [*history[: place + 1], history[place], *history[place + 1 :]]


def an_older_join_after_the_newer(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Joined), -2)
    notice = history[place].notice
    old = replace(notice, members=tuple(replace(m, stamp=(1000, 0)) for m in notice.members))
    return changed(history, place, notice=old), place


def an_older_leave_after_the_newer_join(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Left))
    return changed(history, place, notice=replace(history[place].notice, stamp=(1, 1))), place


def an_older_answer_after_the_newer(history: History) -> tuple[History, int]:
    place = find(history, lambda r: isinstance(r, AnswerRecord))
    answer = history[place]
    old = replace(answer.result, members=tuple(replace(m, stamp=(1, 1)) for m in answer.result.members))
    return [*history[: place + 1], replace(answer, result=old), *history[place + 1 :]], place + 1


def an_up_after_an_up(history: History) -> tuple[History, int]:
    place = find(history, lambda r: isinstance(r, Detected) and r.change == "up")
    return again(history, place), place + 1


def a_ghost_in_a_view(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Absolute))
    notice = history[place].notice
    ghost = Member(Endpoint("paris.d/ghost#1000"), (1000, 1))
    return (
        changed(history, place, notice=replace(notice, members=(*notice.members, ghost))),
        find(history, lambda r: isinstance(r, Settled), 1),
    )


def a_member_that_nobody_was_told_of(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.b", Joined), -1)
    return without(history, place), find(without(history, place), lambda r: isinstance(r, Settled), 4)


def no_snapshot_at_all(history: History) -> tuple[History, int]:
    place = find(history, told("paris.c", Absolute))
    return without(history, place), find(without(history, place), lambda r: isinstance(r, Settled), 1)


def a_wrong_answer(history: History) -> tuple[History, int]:
    place = find(history, lambda r: isinstance(r, AnswerRecord) and isinstance(r.request, Resolve))
    answer = history[place]
    return changed(history, place, result=replace(answer.result, members=answer.result.members[1:])), place


def a_change_told_twice(history: History) -> tuple[History, int]:
    twice = again(history, find(history, told("haifa.a", Left)))
    return twice, find(twice, lambda r: isinstance(r, Settled), 2)


def a_change_never_told(history: History) -> tuple[History, int]:
    """A leave and the join before it: the view is right at the end, and still something is missing."""
    less = without(history, find(history, told("haifa.a", Left)))
    less = without(less, find(less, told("haifa.a", Joined), 1))
    return less, find(less, lambda r: isinstance(r, Settled), 2)


def changes_in_the_wrong_order(history: History) -> tuple[History, int]:
    first = find(history, told("haifa.a", Left))
    second = find(history, told("haifa.a", Joined), 1)
    swapped = list(history)
    swapped[first], swapped[second] = (
        replace(swapped[first], notice=history[second].notice),
        replace(swapped[second], notice=history[first].notice),
    )
    return swapped, find(swapped, lambda r: isinstance(r, Settled), 2)


def a_gap_without_a_snapshot(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Left))
    return changed(history, place, notice=Gap(1, (G,))), place


def one_side_is_not_told(history: History) -> tuple[History, int]:
    less = without(history, find(history, told("haifa.a", Without)))
    return less, find(less, lambda r: isinstance(r, LineChanged))


def one_side_is_told_too_late(history: History) -> tuple[History, int]:
    place = find(history, told("paris.c", Without))
    late = [r for r in history if r is not history[place] and r.at <= history[place].at + BOUND_S]
    rest = [r for r in history if r is not history[place] and r.at > history[place].at + BOUND_S]
    late.append(replace(history[place], at=late[-1].at))
    return [*late, *rest], find([*late, *rest], lambda r: isinstance(r, LineChanged))


def one_side_is_told_twice(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Without))
    return again(history, place), place + 1


def members_are_taken_away_one_by_one(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Without))
    lost = next(
        r.endpoint for r in history if isinstance(r, MembershipChanged) and r.endpoint.startswith("paris.c")
    )
    return changed(history, place, notice=Left(G, lost, (1000, 99), Cause.CRASH)), place


def a_merge_that_never_comes(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Joined), -1)
    less = without(history, place)
    return less, find(less, lambda r: isinstance(r, LineChanged) and r.change == "healed", -1)


def a_merge_without_one_member(history: History) -> tuple[History, int]:
    place = find(history, told("haifa.a", Joined), -1)
    notice = history[place].notice
    return (
        changed(history, place, notice=replace(notice, members=notice.members[1:])),
        find(history, lambda r: isinstance(r, LineChanged) and r.change == "healed", -1),
    )


PLANTED = [
    ("per-source-order", an_older_join_after_the_newer),
    ("per-source-order", an_older_leave_after_the_newer_join),
    ("per-source-order", an_older_answer_after_the_newer),
    ("per-source-order", an_up_after_an_up),
    ("stable-truth", a_ghost_in_a_view),
    ("stable-truth", a_member_that_nobody_was_told_of),
    ("stable-truth", no_snapshot_at_all),
    ("stable-truth", a_wrong_answer),
    ("watch-complete", a_change_told_twice),
    ("watch-complete", a_change_never_told),
    ("watch-complete", changes_in_the_wrong_order),
    ("watch-complete", a_gap_without_a_snapshot),
    ("both-sides-told", one_side_is_not_told),
    ("both-sides-told", one_side_is_told_too_late),
    ("both-sides-told", one_side_is_told_twice),
    ("both-sides-told", members_are_taken_away_one_by_one),
    ("heals-alone", a_merge_that_never_comes),
    ("heals-alone", a_merge_without_one_member),
]


@pytest.mark.parametrize(("promise", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_a_planted_violation_is_found_and_pointed_at(promise, plant, fine):
    broken, place = plant(fine)
    verdict = CHECKS[promise](broken)
    assert verdict.broken and verdict.why, verdict
    assert verdict.where == broken[place], f"{verdict}: {verdict.where}"


# Not enough to judge


@pytest.mark.parametrize("promise", CHECKS)
def test_an_empty_history_tells_nothing(promise):
    assert CHECKS[promise]([]).answer == "cannot tell"


@pytest.mark.parametrize("promise", ["stable-truth", "watch-complete", "both-sides-told", "heals-alone"])
def test_a_history_without_its_beginning_tells_nothing(promise, fine):
    verdict = CHECKS[promise](fine[1:])
    assert verdict.answer == "cannot tell" and "world" in verdict.why


def test_a_world_that_never_settled_tells_nothing_of_the_truth(fine):
    assert stable_truth([r for r in fine if not isinstance(r, Settled)]).answer == "cannot tell"


@pytest.mark.parametrize(
    ("check", "plant"),
    [(per_source_order, an_older_answer_after_the_newer), (stable_truth, a_wrong_answer)],
)
def test_answers_to_questions_can_be_passed_over(check, plant, fine):
    broken, _ = plant(fine)
    assert check(broken).broken and check(broken, answers=False).ok


def test_changes_in_bad_weather_tell_nothing_of_completeness(fine):
    weather = [
        extra
        for record in fine
        for extra in (
            (record, replace(find_server(fine), at=record.at)) if isinstance(record, Settled) else (record,)
        )
    ]
    assert watch_complete(weather).answer == "cannot tell"


def find_server(history: History) -> ServerChanged:
    return next(record for record in history if isinstance(record, ServerChanged))


def test_a_cut_that_heals_before_the_bound_tells_nothing(fine):
    cut = find(fine, lambda r: isinstance(r, LineChanged))
    short = [*fine[: cut + 2], *(replace(r, change="healed") for r in fine[cut : cut + 2])]
    assert both_sides_told(short, bound_s=BOUND_S).answer == "cannot tell"


def test_a_heal_that_is_cut_again_tells_nothing(fine):
    healed = find(fine, lambda r: isinstance(r, LineChanged) and r.change == "healed", -1)
    broken_again = [*fine[: healed + 1], replace(fine[healed], change="cut")]
    assert heals_alone(broken_again, bound_s=BOUND_S).answer == "cannot tell"


def test_a_gap_is_mended_by_a_snapshot(fine):
    place = find(fine, told("haifa.a", Left))
    record = fine[place]
    everybody = Absolute(G, fine[find(fine, told("haifa.a", Absolute))].notice.members)
    mended = [
        *fine[:place],
        replace(record, notice=Gap(1, (G,))),
        replace(record, notice=everybody),
        *fine[place + 1 :],
    ]
    assert watch_complete(mended).ok


def test_a_verdict_reads_like_a_sentence():
    because = Because(Domain("haifa"), Domain("paris"), "silent")
    record = NoticeRecord(1.0, 7, Endpoint("haifa.a/app#1000"), Only(Domain("haifa"), because))
    verdict = CheckVerdict("both-sides-told", "no", "told twice", record)
    assert str(verdict) == "both-sides-told: no (told twice)"
    assert verdict.broken and not verdict.ok
    assert str(CheckVerdict("stable-truth", "yes")) == "stable-truth: yes"
