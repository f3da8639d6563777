"""The gate of a member of an agreed group with ``delivery="fifo"``: no message before its view (D13)."""

from rostra.names import Endpoint, Group, make_group
from rostra.protocols.fifo.events import Delivered, Gap, Item, Left, ViewGiven
from rostra.protocols.fifo.gate import WAITING_BYTES_MAX, ReaderGate
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of

CHESS: Group = make_group("chess", "eu")
ME, ANN, BOB = Endpoint("eu.h1/me#1"), Endpoint("eu.h2/ann#1"), Endpoint("eu.h3/bob#1")


def message(sender: Endpoint, number: int, view: int, body: bytes = b"x") -> Delivered:
    return Delivered(sender, Run(number, 1, block_of([body]), 0.0, view))


def view(number: int, *members: Endpoint) -> ViewGiven:
    return ViewGiven(ME, CHESS, number, members)


def inside(*members: Endpoint, number: int = 3) -> ReaderGate:
    gate = ReaderGate()
    assert list(gate.given(view(number, *members))) == []
    return gate


def test_a_message_of_a_view_that_is_here_is_delivered_at_once() -> None:
    gate = inside(ME, ANN)
    assert list(gate.passes(message(ANN, 1, 3))) == [message(ANN, 1, 3)]


def test_a_message_of_a_later_view_waits_for_it_and_so_does_the_rest_of_its_stream() -> None:
    gate = inside(ME, ANN, BOB)
    assert list(gate.passes(message(ANN, 1, 4))) == []
    assert list(gate.passes(message(ANN, 2, 4))) == []
    assert list(gate.passes(message(BOB, 7, 3))) == [message(BOB, 7, 3)], "nothing else stops"
    assert list(gate.given(view(4, ME, ANN, BOB))) == [message(ANN, 1, 4), message(ANN, 2, 4)]
    assert gate.waits == 0


def test_a_joiner_that_speaks_is_heard_in_the_view_that_it_joins_in() -> None:
    gate = inside(ME, ANN)
    assert list(gate.passes(message(BOB, 1, 4))) == []
    joined = ViewGiven(ME, CHESS, 4, None, joined=(BOB,))
    assert list(gate.given(joined)) == [message(BOB, 1, 4)]


def test_what_was_sent_before_our_first_view_is_not_for_us() -> None:
    gate = ReaderGate()
    assert list(gate.passes(message(ANN, 5, 2))) == []
    assert list(gate.passes(Gap(ANN, 6, 6))) == []
    assert list(gate.passes(message(ANN, 7, 3))) == []
    assert list(gate.given(view(3, ME, ANN))) == [message(ANN, 7, 3)]
    assert list(gate.passes(Gap(ANN, 8, 9))) == [Gap(ANN, 8, 9)], "from now on we are owed its stream"


def test_the_last_messages_of_a_member_that_was_removed_still_come() -> None:
    gate = inside(ME, ANN)
    gate.given(ViewGiven(ME, CHESS, 4, None, gone=(ANN,)))
    assert list(gate.passes(message(ANN, 1, 3))) == [message(ANN, 1, 3)]
    assert list(gate.passes(message(ANN, 2, 4))) == [], "but not of a view that it has without us"


def test_what_a_side_agreed_apart_from_ours_is_heard_after_the_merge() -> None:
    gate = inside(ME, ANN)
    gate.given(ViewGiven(ME, CHESS, 4, None, gone=(ANN,)))
    assert list(gate.passes(message(ANN, 9, 4))) == []
    assert list(gate.given(ViewGiven(ME, CHESS, 5, None, joined=(ANN,)))) == [message(ANN, 9, 4)]


def test_a_sender_that_came_and_went_between_two_views_of_ours_leaves_nothing() -> None:
    gate = inside(ME, ANN)
    gate.passes(message(BOB, 1, 4))
    gate.passes(Left(BOB, "failed", 1))
    assert list(gate.given(view(5, ME, ANN))) == []
    assert gate.waits == 0


def test_too_much_of_a_sender_in_no_view_is_dropped_and_told_of_when_it_comes_in() -> None:
    gate = inside(ME, ANN)
    large = message(BOB, 1, 4, b"x" * WAITING_BYTES_MAX)
    later: list[Item] = []
    assert list(gate.passes(large)) == [] and gate.is_full
    assert gate.give_up() and not gate.is_full
    later += gate.passes(message(BOB, 2, 4))
    later += gate.given(ViewGiven(ME, CHESS, 4, None, joined=(BOB,)))
    later += gate.passes(message(BOB, 3, 4))
    assert later == [Gap(BOB, 1, 2), message(BOB, 3, 4)]


def test_what_waits_for_a_member_is_not_given_up() -> None:
    gate = inside(ME, ANN)
    gate.passes(message(ANN, 1, 4, b"x" * WAITING_BYTES_MAX))
    assert gate.is_full and not gate.give_up() and gate.is_full
