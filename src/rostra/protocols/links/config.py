"""Every bound and timer of a link."""

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.protocols.detect.config import DetectConfig


class LinkConfig(Struct, frozen=True, kw_only=True):
    """How two neighbours keep in touch. The defaults are the `wan` profile over connections.

    Names of the spec's configuration table that are spelt differently here: `suspect_after_s` is
    `detect.down_after_s`, `endpoint_probe_s` is `detect.program_ping_after_s`, and `reconnect_backoff_s` (0.2
    doubling to 5.0) is the pair `reconnect_backoff_s`, `reconnect_backoff_max_s`.

    `detect`
        When a silent peer is suspected and when it is given up; see `DetectConfig`.
    `reconnect_backoff_s`, `reconnect_backoff_max_s`
        While apart, a hello is repeated after the first of these, then after twice that, up to the second.
        Defaults 0.2 and 5.0, lan 0.1 and 1.0. Raising them: slower merges, less load while cut.
    `queue_messages_max`
        Messages submitted and not acknowledged; one more ends the epoch (C-180). It must hold what a
        neighbour is sent at link-up (one message per group with members below) and during
        `detect.down_after_s`. Default 250,000. Raising it: a slow neighbour may cost more memory, about 0.5
        KB per message, before it is given up.
    `queue_bytes_max`
        What these messages carry for programs, and lists that were asked for. It bounds what a neighbour that
        acknowledges nothing may cost us. Default 256 MiB, four times what an agent lets its programs send
        ahead.
    `window_packets_max`
        Data packets sent and not acknowledged; further ones wait. It bounds what a peer that stops reading
        can pile up in the buffers below us, and what we keep of packets that arrive before their turn.
        Default 1024. Raising it: more in flight on long paths, ``window_packets_max / round trip`` packets
        per second at most.
    `packet_messages_max`
        A larger batch is sent as several packets. Default 512: of the largest messages that programs send
        (64 KiB) that is half of what the wire takes in one packet. Raising it: bigger frames, so that a
        heartbeat behind one waits longer; above 1000, packets that cannot be sent.
    `acknowledge_messages`
        Received messages that are acknowledged at once if no other packet of ours did since; fewer wait
        for the next tick. At most `window_packets_max`, or the window could stand still. Default 128. Raising
        it: fewer packets under one-way load, more kept by the sender.
    `resend_after_s`
        Packets are sent again after this long without an acknowledgement. None (the default) where the
        channel itself loses nothing until it closes, such as TCP. Where packets are lost one by one it should
        exceed a round trip and a tick: see `over_datagrams`. Raising it: slower repair, fewer needless
        copies.
    `failover_grace_s`
        How long a neighbour that has replicas may be down before it is announced (C-162): one of them is
        expected to take its place. Counts for no other neighbour. Default 3.0. Raising it: more time for a
        takeover, later news of a real failure.
    """

    detect: DetectConfig = DetectConfig()
    reconnect_backoff_s: float = 0.2
    reconnect_backoff_max_s: float = 5.0
    queue_messages_max: int = 250_000
    queue_bytes_max: int = 256 << 20
    window_packets_max: int = 1024
    packet_messages_max: int = 512
    acknowledge_messages: int = 128
    resend_after_s: float | None = None
    failover_grace_s: float = 3.0

    def __post_init__(self) -> None:
        _require(
            0 < self.reconnect_backoff_s <= self.reconnect_backoff_max_s,
            "reconnect_backoff_s must be positive and not more than reconnect_backoff_max_s",
        )
        _require(self.queue_messages_max >= 1, "queue_messages_max must be at least 1")
        _require(self.queue_bytes_max >= 1 << 20, "queue_bytes_max must be at least 1 MiB")
        _require(self.packet_messages_max >= 1, "packet_messages_max must be at least 1")
        _require(
            1 <= self.acknowledge_messages <= self.window_packets_max,
            "acknowledge_messages must be at least 1 and not more than window_packets_max",
        )
        _require(
            self.resend_after_s is None or self.resend_after_s > 0, "resend_after_s must be positive, or none"
        )
        _require(self.failover_grace_s > 0, "failover_grace_s must be positive")

    @classmethod
    def wan(cls) -> "LinkConfig":
        return cls()

    @classmethod
    def lan(cls) -> "LinkConfig":
        return cls(detect=DetectConfig.lan(), reconnect_backoff_s=0.1, reconnect_backoff_max_s=1.0)

    def over_datagrams(self, round_trip_s: float = 0.25) -> "LinkConfig":
        """The same link over a network that loses, duplicates and reorders single packets."""
        return replace(self, resend_after_s=round_trip_s + 2 * self.tick_s)

    @property
    def tick_s(self) -> float:
        """The period of the node's tick timer."""
        return self.detect.tick_s


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise BadInput(f"link settings: {rule}", fix="start from LinkConfig.lan() or LinkConfig.wan()")
