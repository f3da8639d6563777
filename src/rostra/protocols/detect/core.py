"""One peer's signs of life, and what their absence means.

    Alive ──phi reaches suspect_phi──▶ Overdue ──silence exceeds the bound──▶ Gone
      ▲                                  │
      └───────────── heard ──────────────┘

A detector judges, it does not act: the link above says `Suspected`, `Trusted` and `LinkDown`. `heard` is on
the path of every packet, so it only notes the time; everything else happens on ticks.
"""

from enum import Enum

from rostra.core.effects import Instant
from rostra.protocols.detect.accrual import Rhythm, phi
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.detect.health import lateness_after


class PeerVerdict(Enum):
    ALIVE = "alive"
    OVERDUE = "overdue"
    GONE = "gone"


class Detector:
    """Watches one peer while its link is up. The rhythm it learnt outlives an epoch: the path is the same."""

    __slots__ = (
        "_config",
        "_heard_at",
        "_longest_gap_s",
        "_sampled_at",
        "_ticked_at",
        "own_lateness_s",
        "rhythm",
    )

    def __init__(self, config: DetectConfig) -> None:
        self._config = config
        self._heard_at: Instant = 0.0
        self._longest_gap_s = 0.0  # since the rhythm was last sampled
        self._sampled_at: Instant = 0.0
        self._ticked_at: Instant = 0.0
        self.own_lateness_s = 0.0
        self.rhythm = Rhythm(config.heartbeat_interval_s)

    def begin(self, now: Instant) -> None:
        """The first sign of life of the peer in a new epoch."""
        self._heard_at = self._sampled_at = now
        self._longest_gap_s = 0.0

    def heard(self, now: Instant) -> None:
        gap_s = now - self._heard_at
        if gap_s > self._longest_gap_s:
            self._longest_gap_s = gap_s
        self._heard_at = now

    def ticked(self, now: Instant, late_s: float) -> None:
        """Time passed; of it, our own loop was late by `late_s`, which is no silence of the peer."""
        if late_s > 0.0 or self.own_lateness_s > 0.0:
            elapsed_s = now - self._ticked_at
            self.own_lateness_s = lateness_after(
                self.own_lateness_s, elapsed_s, late_s, self._config.health_half_life_s
            )
            self._heard_at = min(now, self._heard_at + late_s)
            self._longest_gap_s = max(0.0, self._longest_gap_s - late_s)
        self._ticked_at = now
        interval_s = self._config.heartbeat_interval_s
        if self._longest_gap_s > 0.0 and now - self._sampled_at >= interval_s:
            self.rhythm = self.rhythm.after(max(self._longest_gap_s, interval_s), self._config.memory_gaps)
            self._longest_gap_s = 0.0
            self._sampled_at = now

    def stepped_back(self, now: Instant) -> None:
        """Our clock jumped back: nothing can have arrived later than now."""
        self._heard_at = min(self._heard_at, now)
        self._sampled_at = min(self._sampled_at, now)
        self._ticked_at = now

    def judge(self, now: Instant) -> PeerVerdict:
        silence_s = now - self._heard_at
        config = self._config
        if silence_s <= config.heartbeat_interval_s:
            return PeerVerdict.ALIVE
        if silence_s >= self.down_bound_s():
            return PeerVerdict.GONE
        if self.phi(now) >= config.suspect_phi or silence_s - self._stretch_s() >= config.suspect_latest_s:
            return PeerVerdict.OVERDUE
        return PeerVerdict.ALIVE

    def silence_s(self, now: Instant) -> float:
        """Since anything arrived, our own absences left out."""
        return now - self._heard_at

    def phi(self, now: Instant) -> float:
        return phi(now - self._heard_at - self._stretch_s(), self.rhythm, self._config.deviation_min_s)

    def down_bound_s(self) -> float:
        config, rhythm = self._config, self.rhythm
        usual_lateness_s = rhythm.mean_s + rhythm.deviation_s - config.heartbeat_interval_s
        return config.down_after_s + min(usual_lateness_s + self.own_lateness_s, config.stretch_max_s)

    def _stretch_s(self) -> float:
        return min(self.own_lateness_s, self._config.stretch_max_s)
