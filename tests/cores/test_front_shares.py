"""What users may hold: as much as is still free."""

import os

import pytest

from rostra.protocols.front.config import ShareLimits
from rostra.protocols.front.shares import Shares, User

OTHER = os.geteuid() + 1
"""The uid of a user who is not the one that runs these tests."""

LIMITS = ShareLimits(programs_max=60, endpoints_max=60, memberships_max=60, questions_max=60)


def greedy(shares: Shares, *users: User) -> list[int]:
    """Each takes what it can, in turns; how much each has then."""
    taking = True
    while taking:
        taking = False
        for user in users:
            if shares.refusal(user, "endpoints") is None:
                shares.take(user, "endpoints")
                taking = True
    return [user.endpoints for user in users]


@pytest.mark.parametrize(("users", "each"), [(1, 30), (2, 20), (3, 15), (5, 10)])
def test_however_many_are_greedy_as_much_is_left_as_each_of_them_has(users: int, each: int) -> None:
    shares = Shares(LIMITS, os.geteuid())
    assert greedy(shares, *(shares.user(OTHER + number, "") for number in range(users))) == [each] * users
    assert LIMITS.endpoints_max - shares.all.endpoints == each
    assert shares.refusal(shares.user(OTHER + 1000, ""), "endpoints") is None


def test_the_agents_own_user_and_root_may_take_all_there_is() -> None:
    for uid in (0, os.geteuid()):
        shares = Shares(LIMITS, os.geteuid())
        assert greedy(shares, shares.user(uid, "")) == [60]
        refusal = shares.refusal(shares.user(uid, ""), "endpoints")
        assert refusal is not None and refusal.what == "all 60 endpoints of this agent are taken"


def test_what_is_given_back_is_free_again_and_users_without_programs_are_forgotten() -> None:
    shares = Shares(LIMITS, os.geteuid())
    user = shares.user(None, "10.0.0.7")
    shares.take(user, "programs")
    assert greedy(shares, user) == [30]
    refusal = shares.refusal(user, "endpoints")
    assert refusal is not None and refusal.what.startswith("address 10.0.0.7 holds 30 endpoints")
    assert "endpoints_max" in refusal.fix
    shares.give(user, "endpoints", 30)
    shares.give(user, "programs")
    assert shares.users == {} and shares.all.endpoints == 0


def test_fewer_may_be_free_than_the_limit_says() -> None:
    shares = Shares(LIMITS, os.geteuid())
    user = shares.user(OTHER, "")
    shares.take(user, "programs", 5)
    assert shares.refusal(user, "programs", free=6) is None
    assert shares.refusal(user, "programs", free=5) is not None
