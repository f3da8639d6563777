"""Every bound and timer of failure detection."""

from msgspec import Struct

from rostra.errors import BadInput


class DetectConfig(Struct, frozen=True, kw_only=True):
    """When a silent peer is suspected, and when it is given up. The defaults are the `wan` profile.

    `heartbeat_interval_s`
        Something is sent to every neighbour at least this often; a heartbeat only if nothing else was.
        Default 1.0, lan 0.2. Raising it: fewer idle packets, slower suspicion.
    `down_after_s`
        A peer silent for this long is given up. The bound adapts to what was observed:
        ``down_after_s + min(usual lateness of this peer + own lateness, heartbeat_interval_s - tick_s)``.
        With the tick that looks, a dead peer is down within ``down_after_s + heartbeat_interval_s`` of time
        in which our own loop was running (C-029). The spec's configuration table calls this field
        `suspect_after_s`. Default 4.0, lan 1.0. Raising it: longer stalls have no effect, real
        failures are reported later.
    `suspect_phi`
        A peer is suspected when phi of its silence reaches this. 8 means about ``mean + 5.6 deviations``: on
        a calm link 1.6 s in wan, 0.5 s in lan; at the latest at ``0.75 * down_after_s``, so that no peer is
        given up without having been suspected. Default 8.0. Raising it: fewer and later suspicions. Nothing
        is lost by one.
    `deviation_min_s`
        The least deviation that phi reckons with, however regular the peer. Default 0.1, lan 0.05; heartbeats
        leave on ticks, so about a tick of it is ordinary. Raising it: later suspicions on calm links.
    `memory_gaps`
        How many observed gaps (one per heartbeat interval) the rhythm of a peer remembers; it starts from the
        promised interval. Default 100. Raising it: slower to learn that a link became irregular, and to
        forget it.
    `health_half_life_s`
        How fast our own lateness is forgiven. Default 10.0, lan 2.0. Raising it: longer caution after we were
        late.
    `program_ping_after_s`
        A program that was silent for this long is pinged (the spec's `endpoint_probe_s`; here local
        programs are pinged too, so that a stall is seen). Default 0.5. Raising it: fewer wake-ups of idle
        programs, later suspicion.
    `program_suspect_s`
        A program that left a ping unanswered for this long is suspected. Default 0.75: together with the ping
        and two ticks, a stall of two seconds is always seen. Raising it: later suspicion.
    `program_down_after_s`
        A program that left a ping unanswered for this long is removed. Default 10.0 in both profiles: a
        program that died is known by its socket at once, so this bound only has to outlast stalls. Six times
        as long for 16 and more that stall at once (`detect/programs.py`). Raising it: a program that hangs
        for ever stays a member for longer.
    """

    heartbeat_interval_s: float = 1.0
    down_after_s: float = 4.0
    suspect_phi: float = 8.0
    deviation_min_s: float = 0.1
    memory_gaps: int = 100
    health_half_life_s: float = 10.0
    program_ping_after_s: float = 0.5
    program_suspect_s: float = 0.75
    program_down_after_s: float = 10.0

    def __post_init__(self) -> None:
        _require(self.heartbeat_interval_s > 0, "heartbeat_interval_s must be positive")
        _require(
            self.down_after_s > self.heartbeat_interval_s,
            "down_after_s must be longer than a heartbeat interval",
        )
        _require(self.suspect_phi > 0, "suspect_phi must be positive")
        _require(self.deviation_min_s > 0, "deviation_min_s must be positive")
        _require(self.memory_gaps >= 1, "memory_gaps must be at least 1")
        _require(self.health_half_life_s > 0, "health_half_life_s must be positive")
        _require(
            0 < self.program_suspect_s < self.program_down_after_s,
            "program_suspect_s must be positive and less than program_down_after_s",
        )
        _require(self.program_ping_after_s > 0, "program_ping_after_s must be positive")

    @classmethod
    def wan(cls) -> "DetectConfig":
        """Sites apart: a silent server is given up within 5 s; a stall of 2 s is seen and costs nothing."""
        return cls()

    @classmethod
    def lan(cls) -> "DetectConfig":
        """One site: a silent host is given up within 1.2 s."""
        return cls(heartbeat_interval_s=0.2, down_after_s=1.0, deviation_min_s=0.05, health_half_life_s=2.0)

    @property
    def tick_s(self) -> float:
        """How often to look: four times per heartbeat interval, so that looking adds little to any bound."""
        return self.heartbeat_interval_s / 4

    @property
    def stretch_max_s(self) -> float:
        """The most that lateness, the peer's usual one and our own, may add to `down_after_s`."""
        return self.heartbeat_interval_s - self.tick_s

    @property
    def suspect_latest_s(self) -> float:
        """Silence of this length is suspected whatever the rhythm."""
        return 0.75 * self.down_after_s


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise BadInput(
            f"detection settings: {rule}", fix="start from DetectConfig.lan() or DetectConfig.wan()"
        )
