"""Entering a group with delivery: the join does not wait until it is known which kind of group it is."""

from collections.abc import Iterator

import pytest

from rostra.errors import AlreadyMember
from rostra.groups.attributes import FifoAttributes, Role
from rostra.groups.kinds import FIFO
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.front.admission import Admission, EnteringPrograms
from rostra.protocols.relaxed.requests import Absolute, Denied, Done, denied

G = Group("chess", Domain("world"))
ME = Endpoint("huji.h1/me#1")
MYSELF = Member(ME, (1, 3), b"", FIFO, FifoAttributes(Role.BOTH, 1))
SPEAKER = Member(Endpoint("huji.h1/a#1"), (1, 1), b"", FIFO, FifoAttributes(Role.BOTH, 1))
HEARER = Member(Endpoint("huji.h1/b#1"), (1, 2), b"")


class Newcomer:
    def __init__(self, me: Endpoint = ME, entering: EnteringPrograms | None = None) -> None:
        entering = EnteringPrograms() if entering is None else entering
        self.answers: list[object] = []
        self.left = 0
        self.admission = Admission(G, me, entering, self.answers.append, self.leave)

    def leave(self) -> None:
        self.left += 1


@pytest.mark.parametrize(
    "listing",
    [
        Absolute(G, ()),
        Absolute(G, (MYSELF, SPEAKER)),
        Absolute(G, (SPEAKER, HEARER)),  # who does not speak is a guest
        Denied("late", "", "", True),
    ],
)
@pytest.mark.parametrize("joined_first", [True, False])
def test_a_program_is_answered_when_it_has_joined_and_the_group_is_known_to_speak(listing, joined_first):
    entering = Newcomer()
    steps = [lambda: entering.admission.joined(Done()), lambda: entering.admission.listed(listing)]
    for step in steps if joined_first else reversed(steps):
        assert entering.answers == []
        step()
    assert entering.answers == [Done()] and not entering.left


@pytest.mark.parametrize("joined_first", [True, False])
def test_who_has_joined_a_group_of_the_other_kind_leaves_it_and_is_refused(joined_first):
    entering = Newcomer()
    if joined_first:
        entering.admission.joined(Done())
    entering.admission.listed(Absolute(G, (HEARER, MYSELF)))
    if not joined_first:
        entering.admission.joined(Done())
    [refusal] = entering.answers
    assert isinstance(refusal, Denied) and 'is a group with delivery="none"' in refusal.what
    assert entering.left == 1


def test_a_join_that_is_refused_is_answered_once_and_at_once():
    entering = Newcomer()
    refusal = denied(AlreadyMember("it is in chess already", fix="leave first"))
    entering.admission.joined(refusal)
    entering.admission.listed(Absolute(G, (HEARER,)))
    assert entering.answers == [refusal] and not entering.left


def test_two_who_enter_a_group_of_the_other_kind_at_once_do_not_let_each_other_in():
    together = EnteringPrograms()
    one, other = Newcomer(ME, together), Newcomer(SPEAKER.endpoint, together)
    for each in (one, other):
        each.admission.joined(Done())
    for each in (one, other):
        each.admission.listed(Absolute(G, (HEARER, MYSELF, SPEAKER)))
    assert [type(each.answers[0]) for each in (one, other)] == [Denied, Denied]
    assert one.left == other.left == 1


class CountedList(tuple[Member, ...]):
    """Counts how often it is read."""

    read = 0

    def __iter__(self) -> Iterator[Member]:
        self.read += 1
        return super().__iter__()


def test_a_list_that_hundreds_get_is_searched_for_its_kind_once() -> None:
    entering, listed = EnteringPrograms(), CountedList([SPEAKER, MYSELF])
    crowd = [Newcomer(Endpoint(f"huji.h1/p{number}#1"), entering) for number in range(100)]
    for each in crowd:
        each.admission.joined(Done())
        each.admission.listed(Absolute(G, listed))
    assert all(each.answers == [Done()] for each in crowd)
    assert listed.read <= 1 + len(crowd), "once for its kind, and each as far as its first member that speaks"
