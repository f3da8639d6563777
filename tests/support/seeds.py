"""How many random networks a scenario runs over: few in the suite, as many as you like by hand."""

import os
from typing import Any

import pytest


def seeds(few: int) -> range:
    """From nought on. `ROSTRA_SEEDS=200` is what the specifications ask for."""
    return range(int(os.environ.get("ROSTRA_SEEDS", few)))


def few_of(few: int, many: int) -> list[Any]:
    """The first few in the suite; the others of as many are with the tests that take long."""
    others = [pytest.param(seed, marks=pytest.mark.long) for seed in range(few, many)]
    return [*seeds(few), *(others if "ROSTRA_SEEDS" not in os.environ else ())]
