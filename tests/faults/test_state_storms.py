"""Programs with state and shares, by the real library, through crashes of donors, cuts, pauses and loss.

`rostra sim storm --shape states --seeds 1000` goes through more of them.
"""

from collections.abc import Callable, Iterable

import pytest

from rostra.client import ordered
from rostra.client.ordered import Ordered
from rostra.client.shares import ShareTable
from rostra.client.transfer import StateDonor, StateReceiver
from rostra.names import Endpoint
from rostra.sim.storm import StormFailed
from rostra.testing.storms import storm

FOUND_SOMETHING = (2, 30, 180, 186)
"""A group whose last member with the state was gone; a donor that was in an order before; the most senior
member of a part that had no order when it met another; a share that waited for others to let go of a key."""

OTHERS = (0, 4, 5)
"""`majority`; negotiated; `sent` where every side goes on."""

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.spec("A-075", "A-100")
@pytest.mark.parametrize("seed", [*FOUND_SOMETHING, *OTHERS])
def test_joiners_have_the_state_of_their_donors_and_keys_one_holder(seed: int) -> None:
    storm(seed, "states")


def gives_up_where_no_member_has_the_state(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StateReceiver, "_is_left_alone", False)


def counts_from_an_order_that_is_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ordered, "_begin_with", lambda *_: None)


def founds_what_others_have_founded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ordered, "founds", lambda *_: True)


def gives_one_message_less_than_it_says(patch: pytest.MonkeyPatch) -> None:
    init = StateDonor.__init__
    patch.setattr(
        StateDonor,
        "__init__",
        lambda self, group, to, id, position: init(self, group, to, id, position + 1),
    )


def mixes_what_two_donors_gave(patch: pytest.MonkeyPatch) -> None:
    def ask(self: StateReceiver, donor: Endpoint) -> None:
        self._id += 1
        self._donor = donor

    patch.setattr(StateReceiver, "_ask", ask)


def hands_keys_over_before_they_are_let_go(patch: pytest.MonkeyPatch) -> None:
    def viewed(self: ShareTable, members: tuple[Endpoint, ...]) -> None:
        self.members = list(members)
        for key in self.keys:
            self._give(key)

    patch.setattr(ShareTable, "viewed", viewed)


def keeps_what_was_let_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareTable, "_give", lambda self, key: self.holders.setdefault(key, min(self.members)))


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "states")
        except StormFailed as failure:
            return failure.what
    return ""


@pytest.mark.parametrize(
    ("plant", "seed", "found"),
    [
        (gives_up_where_no_member_has_the_state, 2, "states:"),
        (counts_from_an_order_that_is_over, 134, "state:"),
        (founds_what_others_have_founded, 180, "state:"),
        (gives_one_message_less_than_it_says, 7, "state:"),
        (mixes_what_two_donors_gave, 12, "malformed"),
        (hands_keys_over_before_they_are_let_go, 4, "one-holder:"),
        (keeps_what_was_let_go, 0, "one-holder:"),
    ],
)
def test_a_planted_bug_is_found(plant: Plant, seed: int, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert found in first_failure([seed])
