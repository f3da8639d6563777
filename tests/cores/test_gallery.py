"""The members of one host in one order: what each of them is given of a view."""

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.events import DeliverAll
from rostra.protocols.atomic.logs import MovesBetween, shown_view
from rostra.protocols.atomic.messages import ShownView, StationId, ViewKey
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.atomic.station import Gallery, is_next, since

ANN, BOB = Endpoint("eu.h1/ann#1"), Endpoint("eu.h1/bob#1")


def view(number: int, *members: Endpoint) -> ShownView:
    return ShownView(ViewKey(number, 0, ""), tuple([(each, b"") for each in members]), number)


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
    given = {
        me: each.item
        for each in out
        if isinstance(each, DeliverAll) and isinstance(each.item, MemberView)
        for me in each.endpoints
    }
    assert given[ANN].members is None, "it has the one before"
    assert given[BOB].members == ((ANN, b""), (BOB, b""))


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
