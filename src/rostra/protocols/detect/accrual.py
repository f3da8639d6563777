"""The phi accrual detector: how suspicious is this silence? A number that grows, instead of a timeout.

A `Rhythm` is what we have learnt about the time between two signs of life; `phi` says how surprising a
silence is for a peer with that rhythm. At phi 1 one such silence in ten means nothing, at phi 8 one in a
hundred million.

Where we differ from Hayashibara et al., *The phi accrual failure detector*, and why:

- They keep the last thousand intervals; we keep two decaying averages, which forget at the same pace and cost
  two floats per link instead of a window. A domain server may have a thousand links.
- They sample every heartbeat; here any traffic is life, so a busy second would fill the memory with
  milliseconds and the first quiet one would look like death. We sample once per heartbeat interval, the
  longest gap in it, and never less than the interval itself: that is all the peer has promised.
"""

from math import erfc, log10, sqrt
from typing import Final

from msgspec import Struct

PHI_MAX: Final = 300.0
"""Where phi stops growing: the tail of the distribution is no longer a floating-point number."""


class Rhythm(Struct, frozen=True):
    """The usual time between two signs of life, and how much it varies."""

    mean_s: float
    variance_s2: float = 0.0

    def after(self, gap_s: float, memory: int) -> "Rhythm":
        """What one more observed gap teaches; the last `memory` gaps carry most of the weight."""
        weight = 1.0 / memory
        surprise_s = gap_s - self.mean_s
        return Rhythm(
            self.mean_s + weight * surprise_s,
            (1.0 - weight) * (self.variance_s2 + weight * surprise_s * surprise_s),
        )

    @property
    def deviation_s(self) -> float:
        return sqrt(self.variance_s2)


def phi(silence_s: float, rhythm: Rhythm, deviation_min_s: float) -> float:
    """-log10 of the chance that a peer with this rhythm, alive, is silent for so long.

    Without `deviation_min_s` a perfectly regular peer would be suspected for being a millisecond late.
    """
    deviations = (silence_s - rhythm.mean_s) / max(rhythm.deviation_s, deviation_min_s)
    chance = 0.5 * erfc(deviations / sqrt(2.0))
    return min(PHI_MAX, -log10(chance)) if chance > 0.0 else PHI_MAX
