"""Minutes of ordinary trouble in one world, and what they cost; `make soak` takes an hour of it."""

import pytest

from tests.faults.soak import Slice, Soak

EVERY_SEED_THAT_EVER_FAILED = [
    1,  # members never learned of a lost message, since heartbeats came from another side than repairs
]


def per_message(slices: tuple[Slice, ...]) -> float:
    return sum(each.events for each in slices) / sum(each.said for each in slices)


@pytest.mark.spec("X-005", "X-006", "X-084", "X-092", "X-120", "X-126")
@pytest.mark.parametrize("seed", EVERY_SEED_THAT_EVER_FAILED)
def test_six_minutes_keep_every_promise_and_cost_what_their_messages_cost(seed):
    outcome = Soak(seed, for_s=360.0).soak()
    assert outcome.talk.verdicts[0].ok and outcome.talk.given > 5_000
    assert per_message(outcome.slices[3:]) < 1.5 * per_message(outcome.slices[:3])
