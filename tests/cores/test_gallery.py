"""The members of one host in one order: what each of them is given of a view."""

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.events import DeliverAll
from rostra.protocols.atomic.messages import ShownView, ViewKey
from rostra.protocols.atomic.station import Gallery

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
