"""How many random networks a scenario runs over: few in the suite, as many as you like by hand."""

import os


def seeds(few: int) -> range:
    """From nought on. `ROSTRA_SEEDS=200` is what the specifications ask for."""
    return range(int(os.environ.get("ROSTRA_SEEDS", few)))
