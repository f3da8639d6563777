"""Sets that are cut and heal, at random: in the end there is one set, and one list in every server."""

import pytest
from support.weather import Weather

from rostra.protocols.agreed.core import SetCore
from rostra.sim.explore.reform import KeepsIsolation, LeavesGroupsBehind, MergesAnyBase

SEEDS_THAT_FAILED: list[int] = []


@pytest.mark.spec("V-103", "V-105", "V-106", "V-120", "V-125")
@pytest.mark.parametrize("seed", [*SEEDS_THAT_FAILED, *range(100)])
def test_sets_that_are_cut_and_heal_end_as_one(seed: int) -> None:
    weather = Weather(seed)
    weather.blow(400)
    weather.clear()


@pytest.mark.parametrize("kind", [MergesAnyBase, KeepsIsolation, LeavesGroupsBehind])
def test_storms_with_heals_find_planted_bugs(kind: type[SetCore]) -> None:
    def breaks(seed: int) -> bool:
        weather = Weather(seed, kind)
        try:
            weather.blow(400)
            weather.clear()
        except AssertionError:
            return True
        return False

    assert any(map(breaks, range(200)))
