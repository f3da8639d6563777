"""All shapes of storms: those of the simulator, and those of programs that use the real library."""

from pathlib import Path
from typing import Final

from rostra.sim import storm as simulated
from rostra.sim.outcome import StormOutcome
from rostra.testing.state_storm import StateStorm

KINDS: Final = {**simulated.KINDS, "states": StateStorm}

STORMS: Final = (*simulated.STORMS, "states")


def storm(seed: int, shape_name: str, *, journal: str | Path | None = None) -> StormOutcome:
    return simulated.storm(seed, shape_name, journal=journal, kinds=KINDS)
