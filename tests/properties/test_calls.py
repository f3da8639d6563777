"""Calls to a group: each member answers or is gone, and a call ends."""

from hypothesis import given
from hypothesis import strategies as st

from rostra.client.calls import CallTally, all_escaped, answer, escaped, has_marks, opened, request
from rostra.groups.items import Gone
from rostra.names import Endpoint

MEMBERS = [Endpoint(f"eu.paris.h1/p#{n}") for n in range(5)]


@given(st.binary(max_size=40))
def test_a_message_of_a_program_comes_out_as_it_went_in(payload: bytes) -> None:
    assert opened(escaped(payload)) == (b"", b"", payload)
    assert has_marks([payload]) is (payload[:1] == b"\xc1")


@given(st.lists(st.binary(max_size=3) | st.just(b"\xc1plain"), max_size=5))
def test_messages_that_are_sent_together_come_out_as_they_went_in(payloads: list[bytes]) -> None:
    assert [opened(each) for each in all_escaped(payloads)] == [(b"", b"", each) for each in payloads]
    assert has_marks(payloads) is any(each.startswith(b"\xc1") for each in payloads)


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=20))
def test_requests_and_answers_are_told_apart(token: bytes, payload: bytes) -> None:
    assert opened(request(token, payload)) == (b"\xc1\x01", token, payload)
    assert opened(answer(token, payload)) == (b"\xc1\x02", token, payload)


@given(
    st.sampled_from(["all", "first", "majority"]),
    st.sets(st.sampled_from(MEMBERS)),
    st.permutations(MEMBERS),
    st.lists(st.sampled_from(["answers", "leaves", "comes again"]), min_size=5, max_size=5),
    st.integers(0, 5),
)
def test_a_call_ends_when_each_has_answered_or_is_gone_and_not_before_enough_have(
    want: str, called: set[Endpoint], order: list[Endpoint], deeds: list[str], known_after: int
) -> None:
    """`known_after` so many of these we learn where the request has its place: in the first view."""
    tally = CallTally(want)
    here = sorted(called)
    tally.viewed(1, here, ())
    number = 1
    given_ = 0
    for nth, (who, deed) in enumerate(zip(order, deeds, strict=True)):
        if nth == known_after:
            tally.placed(1)
        waiting = called - tally.answers.keys()
        enough = {"all": False, "first": given_ > 0, "majority": 2 * given_ > len(called)}[want]
        assert tally.is_done is (nth >= known_after and (enough or not waiting))
        if deed == "answers":
            tally.answered(who, b"yes")
            tally.answered(who, b"twice")
            given_ += who in called
        else:
            number += 1
            here = [each for each in here if each != who or deed == "comes again"]
            tally.viewed(number, here, [who] if deed == "comes again" else ())
            if nth >= known_after:
                tally.answered(who, b"too late")
    if known_after == 5:
        assert not tally.is_done
        tally.placed(1)

    assert tally.is_done
    assert tally.answers == {
        who: b"yes" if deed == "answers" else Gone(who)
        for who, deed in zip(order, deeds, strict=True)
        if who in called
    }


def test_who_comes_after_the_request_was_given_its_place_is_not_waited_for() -> None:
    """The view with a newcomer may be here before we have looked where our request is."""
    ann, ben, cem, *_ = MEMBERS
    tally = CallTally("all")
    tally.viewed(1, [ann], ())
    tally.viewed(2, [ann, ben], [ben])  # before the request: it is given it
    tally.viewed(3, [ann, ben, cem], [cem])
    tally.placed(2)
    tally.answered(ann, b"yes")
    tally.answered(cem, b"what?")
    assert not tally.is_done
    tally.answered(ben, b"yes")
    assert tally.is_done and tally.answers == {ann: b"yes", ben: b"yes"}


def test_a_view_that_ends_a_standstill_takes_nobody_out() -> None:
    ann, ben, *_ = MEMBERS
    tally = CallTally("all")
    tally.viewed(4, [ann, ben], [ben])
    tally.placed(4)
    tally.viewed(4, [ann, ben], [ben])
    assert not tally.answers
