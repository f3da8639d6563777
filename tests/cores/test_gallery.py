"""The members of one host in one order: what each of them is given of a view."""

from msgspec.structs import replace

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.logs import MovesBetween, shown_view
from rostra.protocols.atomic.messages import ShownView, StationId, ViewKey
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.atomic.station import Gallery, is_next, since
from rostra.protocols.fifo.events import DeliverAll
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of

ANN, BOB = Endpoint("eu.h1/ann#1"), Endpoint("eu.h1/bob#1")


def view(number: int, *members: Endpoint) -> ShownView:
    return ShownView(ViewKey(number, 0, ""), tuple([(each, b"") for each in members]), number)


def views(effects: list[Effect]) -> dict[Endpoint, MemberView]:
    """The last that each was given."""
    return {
        me: each.item
        for each in effects
        if isinstance(each, DeliverAll) and isinstance(each.item, MemberView)
        for me in each.endpoints
    }


def test_a_member_that_was_out_of_a_view_is_given_the_next_one_whole() -> None:
    """A difference is to the last one, which it was not given (storm 830033 of shape kept)."""
    gallery = Gallery(Group("ledger", Domain("eu")), "disk")
    out: list[Effect] = []
    for me in (ANN, BOB):
        gallery.enter(me, Slow.THROTTLE)
    gallery.give_view(view(1, ANN, BOB), 1, None, out)
    gallery.give_view(view(2, ANN), 2, None, out)
    out.clear()
    gallery.give_view(view(3, ANN, BOB), 3, None, out)
    given = views(out)
    assert given[ANN].members is None, "it has the one before"
    assert given[BOB].members == ((ANN, b""), (BOB, b""))


def test_a_member_that_came_again_before_it_was_given_anything_begins_with_its_new_view() -> None:
    """It came with view 2 first, and was out of view 3 (storm 4000103 of shape order)."""
    gallery = Gallery(Group("ledger", Domain("eu")), "all")
    out: list[Effect] = []
    gallery.enter(ANN, Slow.THROTTLE, (1, 0))
    gallery.enter(BOB, Slow.THROTTLE, (4, 4))
    for each in (view(1, ANN), view(2, ANN, BOB)):
        gallery.give_view(each, each.number, None, out)
    gallery.give_run(ANN, Run(1, 1, block_of([b"hello"]), 0.0), 3, out)
    assert not [each for each in out if isinstance(each, DeliverAll) and BOB in each.endpoints]
    gallery.give_view(replace(view(4, ANN, BOB), joined=(BOB,), failed=(BOB,)), 4, None, out)
    given = views(out)
    assert given[BOB].members == ((ANN, b""), (BOB, b""))
    assert (given[BOB].failed, given[ANN].failed) == ((), (BOB,))


def test_a_member_that_left_and_came_again_between_two_places_has_left_and_joined() -> None:
    """The agreed view without it has no place. Else the others would take it for one that has their state."""
    cem = Endpoint("eu.h1/cem#1")
    stayed, again = MemberId(ANN, (1, 1)), MemberId(BOB, (1, 2))
    moves = MovesBetween()
    for number, members, joined, left in (
        (5, (MemberId(BOB, (1, 1)), stayed), (stayed,), ()),
        (6, (stayed,), (), (MemberId(BOB, (1, 1)),)),
        (7, (stayed, again), (again,), ()),
    ):
        those = tuple([AgreedMember(each, 7) for each in members])  # whatever that says: it changes
        agreed = AgreedNow(
            ViewKey(number, 0, ""),
            AgreedView(number, 0, None, those, joined, left),
            (StationId(Domain("eu.h1"), 1),),
            number,
        )
        moves.agreed(agreed)
        if number == 5:
            moves.placed(agreed.key)
    before = view(5, BOB, cem, ANN)

    shown = shown_view(agreed, before, moves)

    assert (shown.joined, shown.left, shown.failed) == ((BOB,), (BOB,), (cem,))
    told = since(before, shown)
    assert (told.joined, told.left, told.failed) == ((BOB,), (BOB,), (cem,))
    assert is_next(before, told)
    assert since(view(6, ANN), shown).joined == (BOB,)
    moves.placed(agreed.key)
    assert not shown_view(agreed, view(7, ANN, BOB), moves).joined
