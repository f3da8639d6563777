"""Who owns which key: all agree, few move, weights count."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rostra.groups.items import View
from rostra.groups.members import Member
from rostra.groups.shares import owner_of, share_of
from rostra.names import Endpoint

MEMBERS = [Endpoint(f"eu.paris.h{n}/worker#{n + 7}") for n in range(8)]
KEYS = range(4000)


@given(st.sets(st.sampled_from(MEMBERS), min_size=2), st.integers(0, 99))
def test_only_the_keys_of_a_member_that_left_move(members: set[Endpoint], key: int) -> None:
    order = sorted(members)
    owner = owner_of(key, order)
    for gone in order:
        after = owner_of(key, [each for each in reversed(order) if each != gone])
        assert (after == owner) is (gone != owner)


def test_shares_are_about_equal_and_all_keys_are_owned_once() -> None:
    shares = [share_of(each, KEYS, MEMBERS) for each in MEMBERS]

    assert sorted(key for share in shares for key in share) == list(KEYS)  # type: ignore[type-var]
    assert all(400 < len(share) < 600 for share in shares)


def test_a_member_of_twice_the_weight_owns_twice_as_much_and_one_without_none() -> None:
    weights = {MEMBERS[0]: 2.0, MEMBERS[1]: 0.0, MEMBERS[2]: float("nan")}

    owned = Counter(owner_of(key, MEMBERS, weights) for key in KEYS)

    assert owned[MEMBERS[1]] == owned[MEMBERS[2]] == 0
    assert 1.6 < owned[MEMBERS[0]] / owned[MEMBERS[3]] < 2.4
    assert owner_of(1, MEMBERS[1:3], weights) is None and owner_of(1, ()) is None


def test_a_restarted_program_gets_its_keys_back() -> None:
    again = [Endpoint(MEMBERS[0].replace("#7", "#99")), *MEMBERS[1:]]

    assert share_of(again[0], KEYS, again) == share_of(MEMBERS[0], KEYS, MEMBERS)


def test_a_view_says_who_owns_what_and_what_is_ours() -> None:
    view = View(tuple([Member(each, (0, 0)) for each in MEMBERS]), rank=3)

    assert view.share_of(KEYS) == share_of(MEMBERS[3], KEYS, MEMBERS)
    assert all(view.owner(key) == MEMBERS[3] for key in view.share_of(KEYS))
    assert view.share_of(KEYS, of=MEMBERS[0]) == share_of(MEMBERS[0], KEYS, MEMBERS)
    assert View(()).owner("x") is None and View(()).share_of(["x"]) == ()
