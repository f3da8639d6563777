"""A checker is worth what it catches: real histories, then the same with a lie, a loss or a repetition."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rostra.names import ROOT, Domain, Endpoint, Group, host_of
from rostra.protocols.effects import Because
from rostra.protocols.resolve.messages import Cause
from rostra.protocols.resolve.requests import Absolute, Gap, Joined, Left, Only, Without
from rostra.sim.checkers import (
    Verdict,
    both_sides_told,
    heals_alone,
    per_source_order,
    stable_truth,
    watch_complete,
)
from rostra.sim.history import Answered, AnyRecord, Detected, History, Settled, Told, WorldMade
from rostra.sim.world import World

CHESS = Group("chess", ROOT)
BOUND_S = 6.0
"""Detection in the wan profile, one heartbeat, and the way there; a merge adds the next try to connect."""
HEAL_S = 10.0


@pytest.fixture(scope="module")
def calm() -> History:
    """Three members; one leaves and joins again; a watcher; a resolve at rest."""
    world = World(1, domains={"haifa": ("a", "b"), "paris": ("c",)}).settle()
    a, b, c = (world.program(host) for host in ("haifa.a", "haifa.b", "paris.c"))
    for program in (a, b, c):
        program.join(CHESS)
    watcher = world.program("paris.c", "watcher")
    watcher.watch(CHESS)
    world.settle()
    c.leave(CHESS)
    world.settle()
    c.join(CHESS)
    world.settle()
    b.resolve(CHESS)
    world.settle()
    assert world.history is not None
    return world.history


@pytest.fixture(scope="module")
def parted() -> History:
    """Two clusters lose each other and find each other again."""
    world = World(1, domains={"haifa": ("a", "b"), "paris": ("c", "d")}).settle()
    for host in world.tree.hosts:
        world.program(host).join(CHESS)
    world.settle()
    world.cut("haifa | paris").settle()
    world.heal().settle()
    assert world.history is not None
    return world.history


CHECKERS: dict[str, Callable[[History], Verdict]] = {
    "per-source-order": per_source_order,
    "stable-truth": stable_truth,
    "watch-complete": watch_complete,
    "both-sides-told": lambda history: both_sides_told(history, bound_s=BOUND_S),
    "heals-alone": lambda history: heals_alone(history, bound_s=HEAL_S),
}


def first(history: History, wanted: Callable[[Any], bool]) -> int:
    return next(place for place, record in enumerate(history) if wanted(record))


def told(kind: type, to: str = "") -> Callable[[Any], bool]:
    return lambda record: (
        isinstance(record, Told)
        and isinstance(record.notice, kind)
        and (not to or host_of(record.endpoint) == to)
    )


def without(history: History, *places: int) -> History:
    return [record for place, record in enumerate(history) if place not in places]


def instead(history: History, place: int, record: AnyRecord) -> History:
    return [*history[:place], record, *history[place + 1 :]]


def twice(history: History, place: int) -> History:
    return [*history[: place + 1], *history[place:]]


def assert_catches(verdict: Verdict, *, saying: str) -> None:
    assert verdict.broken, str(verdict)
    assert saying in verdict.why
    assert verdict.where is not None


@pytest.mark.parametrize("promise", ["per-source-order", "stable-truth", "watch-complete"])
def test_a_calm_history_keeps_its_promises(calm, promise):
    assert CHECKERS[promise](calm).ok, str(CHECKERS[promise](calm))


@pytest.mark.parametrize("promise", list(CHECKERS))
def test_a_parted_and_mended_world_breaks_none(parted, promise):
    verdict = CHECKERS[promise](parted)
    assert not verdict.broken, str(verdict)
    if promise in ("both-sides-told", "heals-alone", "stable-truth"):
        assert verdict.ok


@pytest.mark.parametrize("promise", list(CHECKERS))
def test_an_empty_world_gives_no_verdict(promise):
    world = World(1, domains={"haifa": 2}).settle()
    assert world.history is not None
    assert CHECKERS[promise](world.history).answer == "cannot tell"


@pytest.mark.parametrize("promise", list(CHECKERS))
def test_a_history_without_its_beginning_gives_no_verdict_or_judges_what_it_can(calm, promise):
    headless = [record for record in calm if not isinstance(record, WorldMade)]
    verdict = CHECKERS[promise](headless)
    assert verdict.answer == ("yes" if promise == "per-source-order" else "cannot tell")


# per-source-order


@pytest.mark.spec("C-067")
def test_news_that_is_older_than_what_was_told_before_is_found(calm):
    left = first(calm, told(Left, "haifa.a"))
    again = first(calm[left:], told(Joined, "haifa.a")) + left
    swapped = instead(instead(calm, left, calm[again]), again, calm[left])
    assert_catches(per_source_order(swapped), saying="after")


@pytest.mark.spec("C-069")
def test_a_second_answer_older_than_the_first_is_found(calm):
    place = first(calm, lambda r: isinstance(r, Answered) and isinstance(r.result, Absolute))
    answer = calm[place]
    members = answer.result.members
    older = replace(answer.result, members=(replace(members[0], stamp=(0, 0)), *members[1:]))
    doctored = [*calm[: place + 1], replace(answer, result=older), *calm[place + 1 :]]
    assert_catches(per_source_order(doctored), saying="answered")


@pytest.mark.spec("C-027")
def test_a_detector_that_says_down_twice_is_found(parted):
    down = first(parted, lambda r: isinstance(r, Detected) and r.change == "down")
    assert_catches(per_source_order(twice(parted, down)), saying="twice running")


# stable-truth


@pytest.mark.spec("C-070")
def test_a_ghost_is_found(calm):
    left = first(calm, told(Left, "haifa.a"))
    assert_catches(stable_truth(without(calm, left)), saying="ghosts paris.c/app")


@pytest.mark.spec("C-070")
def test_a_missing_member_is_found(calm):
    left = first(calm, told(Left, "haifa.a"))
    again = first(calm[left:], told(Joined, "haifa.a")) + left
    assert_catches(stable_truth(without(calm, again)), saying="missing paris.c/app")


@pytest.mark.spec("C-045")
def test_a_follower_without_a_snapshot_is_found(calm):
    snapshot = first(calm, told(Absolute, "haifa.b"))
    assert_catches(stable_truth(without(calm, snapshot)), saying="never got a snapshot")


@pytest.mark.spec("C-071")
def test_a_wrong_answer_at_rest_is_found(calm):
    place = first(calm, lambda r: isinstance(r, Answered) and isinstance(r.result, Absolute))
    answer = calm[place]
    short = replace(answer.result, members=answer.result.members[1:])
    assert_catches(
        stable_truth(instead(calm, place, replace(answer, result=short))), saying="answered a wrong"
    )


@pytest.mark.spec("C-063", "C-070")
def test_a_side_that_was_not_told_of_a_cut_is_found(parted):
    lost = first(parted, told(Without, "haifa.a"))
    assert_catches(stable_truth(without(parted, lost)), saying="ghosts paris.c")


# watch-complete


def test_a_change_that_was_told_twice_is_found(calm):
    left = first(calm, told(Left, "paris.c"))
    again = first(calm[left:], told(Joined, "paris.c")) + left
    assert_catches(watch_complete(twice(calm, again)), saying="joined, joined")


def test_a_change_that_was_not_told_is_found(calm):
    left = first(calm, told(Left, "haifa.b"))
    assert_catches(watch_complete(without(calm, left)), saying="what happened: left")


def test_a_gap_without_a_new_snapshot_is_found(calm):
    left = first(calm, told(Left, "haifa.b"))
    record = calm[left]
    gap = replace(record, notice=Gap(1, (CHESS,)))
    assert_catches(
        watch_complete(instead(calm, left, gap)), saying="no snapshot of chess@world after its Gap"
    )


def test_a_gap_with_a_new_snapshot_is_as_promised(calm):
    left = first(calm, told(Left, "haifa.b"))
    record = calm[left]
    others = tuple(member for member in calm[first(calm, told(Absolute, "haifa.b"))].notice.members)
    others = tuple(member for member in others if member.endpoint != record.notice.endpoint)
    gap = replace(record, notice=Gap(1, (CHESS,)))
    snapshot = replace(record, notice=Absolute(CHESS, others))
    assert not watch_complete([*calm[:left], gap, snapshot, *calm[left + 1 :]]).broken


# both-sides-told


@pytest.mark.spec("C-062", "C-063")
def test_one_side_that_hears_nothing_is_found(parted):
    silent = [place for place, record in enumerate(parted) if told(Without, "paris.d")(record)]
    assert_catches(CHECKERS["both-sides-told"](without(parted, *silent)), saying="was not told within")


def test_being_told_too_late_is_found(parted):
    lost = first(parted, told(Without, "haifa.a"))
    late = replace(parted[lost], at=parted[lost].at + BOUND_S)
    settled = first(parted[lost:], lambda r: isinstance(r, Settled)) + lost
    doctored = [*parted[:lost], *parted[lost + 1 : settled], late, *parted[settled:]]
    assert_catches(CHECKERS["both-sides-told"](doctored), saying="was not told within")


@pytest.mark.spec("C-064", "C-112")
def test_being_told_of_one_failure_twice_is_found(parted):
    lost = first(parted, told(Without, "haifa.a"))
    assert_catches(CHECKERS["both-sides-told"](twice(parted, lost)), saying="twice of one failure")


@pytest.mark.spec("C-064")
def test_being_told_member_by_member_is_found(parted):
    lost = first(parted, told(Without, "haifa.a"))
    record = parted[lost]
    gone = first(parted, lambda r: getattr(r, "change", "") == "joined" and host_of(r.endpoint) == "paris.c")
    alone = replace(record, notice=Left(CHESS, parted[gone].endpoint, (9999, 1), Cause.CRASH))
    assert_catches(
        CHECKERS["both-sides-told"](instead(parted, lost, alone)), saying="alone, not of its domain"
    )


def test_only_counts_as_being_told_too(parted):
    """Keeping only one's own side is the same news from the other end."""
    lost = first(parted, told(Without, "haifa.a"))
    keep = Only(Domain("haifa"), Because(Domain("haifa"), Domain("world"), "silent"))
    assert not CHECKERS["both-sides-told"](instead(parted, lost, replace(parted[lost], notice=keep))).broken


# heals-alone


@pytest.mark.spec("C-060")
def test_a_side_that_is_never_merged_is_found(parted):
    back = [
        place for place, record in enumerate(parted) if told(Joined, "haifa.b")(record) and _merge(record)
    ]
    assert back
    assert_catches(CHECKERS["heals-alone"](without(parted, *back)), saying="again within")


def test_a_merge_that_comes_too_late_is_found(parted):
    strict = heals_alone(parted, bound_s=0.001)
    assert_catches(strict, saying="again within")


@pytest.mark.parametrize("promise", ["both-sides-told", "heals-alone"])
def test_a_history_that_ends_too_early_gives_no_verdict(parted, promise):
    def fateful(record: AnyRecord) -> bool:
        return getattr(record, "change", "") == ("cut" if promise == "both-sides-told" else "healed")

    last = max(place for place, record in enumerate(parted) if fateful(record))
    assert CHECKERS[promise](parted[: last + 1]).answer == "cannot tell"


def _merge(record: Told) -> bool:
    return isinstance(record.notice, Joined) and record.notice.cause is Cause.MERGE


def test_a_verdict_reads_as_a_sentence(parted):
    lost = first(parted, told(Without, "haifa.a"))
    verdict = stable_truth(without(parted, lost))
    assert str(verdict).startswith("stable-truth: no (haifa.a/app#")
    assert Endpoint(str(verdict.where.at))  # type: ignore[union-attr]
