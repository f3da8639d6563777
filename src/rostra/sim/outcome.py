"""The result of a storm without a violation."""

from msgspec import Struct

from rostra.sim.checkers import CheckVerdict


class StormOutcome(Struct, frozen=True):
    virtual_s: float
    events: int
    comparisons: int
    verdicts: tuple[CheckVerdict, ...] = ()
