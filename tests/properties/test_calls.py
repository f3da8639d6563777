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
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_a_call_ends_when_each_has_answered_or_is_gone_and_not_before_enough_have(
    want: str, called: set[Endpoint], order: list[Endpoint], leaves: list[bool]
) -> None:
    tally = CallTally(want, sorted(called))
    here = set(MEMBERS)
    given_ = 0
    for who, is_gone in zip(order, leaves, strict=True):
        waiting = called - tally.answers.keys()
        enough = {"all": False, "first": given_ > 0, "majority": 2 * given_ > len(called)}[want]
        assert tally.is_done is (enough or not waiting)
        if is_gone:
            here.discard(who)
            tally.viewed(here)
            tally.answered(who, b"too late")
        else:
            tally.answered(who, b"yes")
            tally.answered(who, b"twice")
            given_ += who in called

    assert tally.is_done
    assert tally.answers == {
        who: Gone(who) if is_gone else b"yes"
        for who, is_gone in zip(order, leaves, strict=True)
        if who in called
    }
