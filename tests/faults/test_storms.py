"""Storms: safety while they blow, truth when the sky clears (see `rostra.sim.storm`).

Each is one seed on one shape of world. `make storm SEEDS=10000` runs as many as you like. A seed
that ever failed, for any reason but a mistake in the storm itself, stays here for good.
"""

import pytest

from rostra.sim.storm import storm

EVERY_SEED_THAT_EVER_FAILED: list[tuple[str, int]] = []

SEEDS = {"single": 60, "pair": 120, "uneven": 60, "T-REF": 20}


@pytest.mark.spec("C-026", "C-035", "C-070", "C-071", "C-075", "C-146", "C-159", "C-173", "C-183")
@pytest.mark.parametrize(
    ("shape", "seed"),
    [
        *EVERY_SEED_THAT_EVER_FAILED,
        *((shape, seed) for shape, count in SEEDS.items() for seed in range(count)),
    ],
)
def test_every_promise_holds_through_a_storm(shape, seed):
    outcome = storm(seed, shape)  # raises, with the command that replays it, if anything does not hold

    assert outcome.comparisons > 0
    assert not [verdict for verdict in outcome.verdicts if verdict.broken]
