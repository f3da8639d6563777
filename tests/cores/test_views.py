"""A program's own copy of who is in its groups: notices in, differences out (C-139 to C-142)."""

import pytest

from rostra.core.effects import Ignored
from rostra.groups.members import Because, Cause, Member, Part
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed import view as view_module
from rostra.protocols.relaxed.requests import Absolute, Gap, Joined, Left, Life, Only, Without
from rostra.protocols.relaxed.view import NOT_FOLLOWED, ViewChanged, Views

EU, US = Domain("eu"), Domain("us")
CHESS, GOLF = Group("chess", Domain("world")), Group("golf", Domain("world"))
BECAUSE = Because(EU, US, "silent")


def member(text: str, counter: int = 1, meta: bytes = b"") -> Member:
    return Member(Endpoint(text), (1, counter), meta)


ANN, BOB, EVE = member("eu.c1.h1/ann#1"), member("eu.c1.h2/bob#1"), member("us.c1.h1/eve#1")


def following(*groups: Group, members: tuple[Member, ...] = (ANN, BOB, EVE)) -> Views:
    views = Views()
    for group in groups or (CHESS,):
        views.follow(group)
        views.apply(Absolute(group, members))
    return views


@pytest.mark.spec("C-139", "C-066")
def test_the_first_absolute_makes_the_view_known_and_is_reported_whole() -> None:
    views = Views()
    chess = views.follow(CHESS)
    early = views.apply(Joined(CHESS, (BOB,), Cause.JOIN))
    absolute = Absolute(CHESS, (ANN, BOB))

    reports = views.apply(absolute)

    assert early == []
    assert reports == [ViewChanged(CHESS, (ANN, BOB), (), absolute, first=True)]
    assert chess.members == (ANN, BOB)


@pytest.mark.spec("C-139", "C-066")
def test_what_came_before_the_first_absolute_and_is_not_in_it_was_superseded() -> None:
    views = Views()
    chess = views.follow(CHESS)
    views.apply(Joined(CHESS, (EVE,), Cause.JOIN))

    [changed] = views.apply(Absolute(CHESS, (ANN,)))

    assert chess.members == (ANN,)
    assert (changed.joined, changed.left) == ((ANN,), ())  # type: ignore[union-attr]


@pytest.mark.spec("C-139", "C-141")
def test_an_empty_group_becomes_known_too() -> None:
    views = Views()
    views.follow(CHESS)
    absolute = Absolute(CHESS, ())

    assert views.apply(absolute) == [ViewChanged(CHESS, (), (), absolute, first=True)]
    assert views.apply(absolute) == []


@pytest.mark.spec("C-139", "C-141")
def test_a_later_absolute_replaces_the_view_and_reports_only_the_difference() -> None:
    views = following(members=(ANN, EVE))
    absolute = Absolute(CHESS, (ANN, BOB))

    assert views.apply(absolute) == [ViewChanged(CHESS, (BOB,), (EVE,), absolute)]


@pytest.mark.spec("C-139")
def test_joins_add_and_leaves_remove() -> None:
    views = following(members=(ANN,))
    joined = Joined(CHESS, (BOB,), Cause.JOIN)
    left = Left(CHESS, ANN.endpoint, (1, 2), Cause.LEAVE, b"bye")

    assert views.apply(joined) == [ViewChanged(CHESS, (BOB,), (), joined)]
    assert views.apply(left) == [ViewChanged(CHESS, (), (ANN,), left)]
    assert views.groups[CHESS].members == (BOB,)


@pytest.mark.spec("C-059", "C-139")
@pytest.mark.parametrize(
    ("part", "left"),
    [(Part(True, US), (EVE,)), (Part(False, US), (ANN, BOB)), (Part(True, CHESS.scope), (ANN, BOB, EVE))],
)
def test_a_baseline_drops_what_is_of_its_part_and_not_in_its_list(
    part: Part, left: tuple[Member, ...]
) -> None:
    views = following()
    baseline = Joined(CHESS, (), Cause.MERGE, part)

    assert views.apply(baseline) == [ViewChanged(CHESS, (), left, baseline)]


@pytest.mark.spec("C-059", "C-141")
def test_a_merge_that_brings_nothing_new_is_silent() -> None:
    views = following()

    assert views.apply(Joined(CHESS, (EVE,), Cause.MERGE, Part(True, US))) == []
    assert views.apply(Joined(CHESS, (ANN, BOB, EVE), Cause.MERGE, Part(True, CHESS.scope))) == []
    assert views.apply(Without(Domain("us.c2"), BECAUSE)) == []
    assert views.apply(Left(CHESS, Endpoint("us.c1.h1/nobody#1"), (1, 9), Cause.LEAVE)) == []


@pytest.mark.spec("C-062", "C-063", "C-139", "C-149")
def test_filters_edit_every_group_at_once() -> None:
    views = following(GOLF, CHESS)
    without = Without(US, BECAUSE)
    only = Only(Domain("eu.c1.h1"), BECAUSE)

    assert views.apply(without) == [
        ViewChanged(CHESS, (), (EVE,), without),
        ViewChanged(GOLF, (), (EVE,), without),
    ]
    assert views.apply(only) == [ViewChanged(CHESS, (), (BOB,), only), ViewChanged(GOLF, (), (BOB,), only)]


@pytest.mark.spec("C-140")
def test_a_record_older_than_a_known_leave_is_ignored_wherever_it_comes_from() -> None:
    views = following()
    views.apply(Left(CHESS, BOB.endpoint, (1, 5), Cause.CRASH))
    ignored = Ignored("Member", why="older stamp")

    assert views.apply(Joined(CHESS, (BOB,), Cause.MERGE)) == [ignored]
    assert views.apply(Absolute(CHESS, (ANN, BOB, EVE))) == [ignored]
    assert views.groups[CHESS].members == (ANN, EVE)


@pytest.mark.spec("C-140")
def test_one_that_left_and_joined_again_is_welcome() -> None:
    views = following()
    views.apply(Left(CHESS, BOB.endpoint, (1, 5), Cause.LEAVE))
    again = member(BOB.endpoint, 6)

    views.apply(Joined(CHESS, (again,), Cause.JOIN))

    assert views.groups[CHESS].members == (ANN, again, EVE)


@pytest.mark.spec("C-140")
def test_a_leave_older_than_the_join_we_know_removes_nobody() -> None:
    views = following(members=(member(BOB.endpoint, 6),))

    assert views.apply(Left(CHESS, BOB.endpoint, (1, 5), Cause.LEAVE)) == [Ignored("Left", why="older stamp")]
    assert BOB.endpoint in views.groups[CHESS]


@pytest.mark.spec("C-140")
def test_an_older_leave_does_not_make_us_forget_a_later_one() -> None:
    views = following()
    views.apply(Left(CHESS, BOB.endpoint, (1, 5), Cause.LEAVE))
    views.apply(Left(CHESS, BOB.endpoint, (1, 3), Cause.LEAVE))

    assert views.apply(Joined(CHESS, (member(BOB.endpoint, 4),), Cause.MERGE)) == [
        Ignored("Member", why="older stamp")
    ]


@pytest.mark.spec("C-140")
def test_only_the_latest_leaves_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "LEAVES_REMEMBERED", 2)
    views = following()
    for left in (ANN, BOB, EVE):
        views.apply(Left(CHESS, left.endpoint, (1, 5), Cause.LEAVE))

    views.apply(Joined(CHESS, (ANN, BOB, EVE), Cause.MERGE))

    assert views.groups[CHESS].members == (ANN,)


@pytest.mark.spec("C-139", "C-082")
def test_an_unseen_leave_and_return_shows_as_both() -> None:
    views = following()
    again = member(BOB.endpoint, 7, b"new")
    absolute = Absolute(CHESS, (ANN, again, EVE))

    assert views.apply(absolute) == [ViewChanged(CHESS, (again,), (BOB,), absolute)]


@pytest.mark.spec("C-052")
def test_a_group_that_is_not_followed_has_no_view() -> None:
    views = following()
    views.unfollow(CHESS)

    for notice in (Absolute(CHESS, (ANN,)), Joined(CHESS, (ANN,), Cause.JOIN)):
        assert views.apply(notice) == [Ignored(type(notice).__name__, why="not followed")]
    assert views.groups == {}


@pytest.mark.spec("C-139")
def test_an_answer_asked_for_before_following_does_not_touch_the_view() -> None:
    views = Views()
    asked_as_stranger = views.period(CHESS)
    views.follow(CHESS)
    asked_earlier = views.period(CHESS)
    views.unfollow(CHESS)
    views.follow(CHESS)
    asked_now = views.period(CHESS)

    assert asked_as_stranger == NOT_FOLLOWED
    assert views.answered(Absolute(CHESS, (EVE,)), asked_as_stranger) == []
    assert views.answered(Absolute(CHESS, (EVE,)), asked_earlier) == []
    assert not views.groups[CHESS].known
    [changed] = views.answered(Absolute(CHESS, (ANN,)), asked_now)
    assert changed.joined == (ANN,)  # type: ignore[union-attr]


def test_following_twice_keeps_the_view() -> None:
    views = following()

    assert views.follow(CHESS).members == (ANN, BOB, EVE)


def test_a_gap_leaves_the_view_behind_until_the_next_absolute() -> None:
    views = following()

    assert views.apply(Gap(12, (CHESS, GOLF))) == []
    assert views.groups[CHESS].behind
    views.apply(Absolute(CHESS, (ANN,)))
    assert not views.groups[CHESS].behind


def test_what_concerns_no_view_changes_nothing() -> None:
    assert following().apply(Life(ANN.endpoint, False, "crashed")) == []


def test_a_view_that_did_not_change_is_read_without_making_it_again() -> None:
    chess = following().groups[CHESS]

    assert chess.members is chess.members
    assert len(chess) == 3
