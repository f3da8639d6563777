"""Every timer and bound of FIFO multicast and of the streams below it."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import Domain

BETWEEN: Final = ("tree", "multicast")
NAKS_IN_A_ROW: Final = 3
NAK_BACKOFF_MAX: Final = 4
REPAIR_BYTES_LEAST: Final = 64 << 10


class FifoConfig(Struct, frozen=True, kw_only=True):
    """Settings of FIFO groups. The defaults are the `wan` profile. Names in brackets are the specification's.

    Joining. Control messages are reliable while both ends are connected, so these timers only matter when a
    server on the way was lost:

    `snapshot_wait_s` [T_rr], `snapshot_wait_max_s`
        How long a joiner waits for the list of members before it asks again; doubled each time up to the
        second. Defaults 3.0, 30.0. Raising them: slower joins after a lost question, fewer questions.
    `sync_wait_s` [T_sync]
        How long a member waits for its delegate's numbers before it repeats the question. Default 0.25.
    `force_wait_s` [T_force]
        How long a member waits for its delegate to join, and for a lost delegate's successor. Default 1.0.
    `peer_wait_min_s` [T_peer]
        A delegate repeats its question to another one after ``max(peer_wait_min_s, 3 * round trip)``.
        Default 1.0.
    `semi_wait_s` [T_semi]
        How long a sender may be known by its numbers alone, before the notice service is asked about it.
        Default 5.0. Raising it: its messages are held back for longer if its notice was lost.
    `cut_wait_s` [T_cut]
        How long a member waits for the numbers of one LAN before it asks again. Default 0.5.

    Data:

    `status_s` [T_status], `status_wan_s`
        How often receivers acknowledge: to their delegate, and delegates to each other. Sooner after
        ``window_messages / 8`` new messages. Defaults 0.05 and 0.2. Raising them: fewer datagrams, and
        senders keep messages for longer.
    `heartbeat_s` [T_hb], `heartbeat_max_s`
        When a sender falls silent it repeats its last number after the first of these, then after twice that,
        up to the second. Defaults 0.05 and 1.0. Raising them: a lost last message is noticed later.
    `nak_wait_min_s`, `nak_wait_max_s` [T_sup]
        A receiver sends a `Nak` to its LAN after a random wait in this range, so that one of many does.
        Defaults 0.001 and 0.010. Raising them: later repairs, fewer needless requests.
    `repair_wait_min_s`, `repair_wait_max_s` [T_rep]
        A holder that is not the delegate repairs after a random wait in this range, unless another one did;
        a delegate repairs at once, a number at most once per `repair_wait_min_s`. Defaults 0.002, 0.008.
    `round_trip_s`
        The round trip to a delegate of which none was measured yet. Default 0.25, lan 0.01. A delegate
        repeats a question for lost data after ``nak_factor * round trip + nak_extra_s`` [T_nak]; the
        fourth and later ones after two and four times that, and one in vain on a silent way after
        `heartbeat_max_s`.
    `nak_factor`, `nak_extra_s`
        Defaults 1.25 and 0.010. Raising them: later second repairs, fewer needless ones.
    `backoff_max`
        A request that other receivers sent, or that was answered, waits twice as long each time, up to this
        many times the first wait. Default 64: doubled six times.

    Ends:

    `drain_s` [T_drain]
        How long receivers look for the last messages of a sender that crashed or was cut off. Default 2.0.
    `depart_s`
        How long a leaver stays in the group while some receiver lacks its messages, so that a successor of
        its delegate still finds it. Default 8.0, lan 3.0: more than a takeover takes. Raising it: a receiver
        that does not read keeps a leaver for longer.
    `linger_s` [T_linger]
        How long a leaver repairs its last messages after that. Default 5.0.
    `farewell_s`
        How long receivers request the last messages of a member that left in an orderly way, and its home
        keeps them. Every receiver that stays connected is owed these (X-006), so it is long: it matters only
        if repairs are lost again and again. Default 30.0.
    `delegate_linger_s` [T_dlinger]
        How long a delegate stays after its last local member. Default 10.0. Raising it: cheaper returns.
    `resume_s` [T_resume], `resume_share`
        For how long, and within which share of the window, what a lost LAN has not confirmed is kept for its
        return. Defaults 30.0 and 0.25. Raising them: longer cuts without a gap, more memory.
    `remember_s` [T_tomb]
        How long an ended stream is remembered. Default 600.0.

    Bounds:

    `window_messages`, `window_bytes` [W]
        How far a sender may be ahead of its slowest receiver. Defaults 4096 and 8 MiB. Raising them: more in
        flight on long paths (``window / round trip`` per second at most), more memory at every holder.
    `held_messages` [H_max]
        Messages of one stream kept before their turn. At least the window. Default 4096.
    `early_messages`, `early_bytes`, `early_bytes_all` [E_max, E_total]
        What is kept of streams whose numbers are not known yet. Defaults 256, 1 MiB, and 16 MiB in all.
    `queue_messages` [Q_send], `queue_bytes`
        Messages that a program may submit before they are emitted. Defaults 1024 and 64 MiB. Credit for more
        is given after a quarter of the first, or a 64th of the second.
    `datagram_bytes`
        The largest piece of a block in one datagram. Default 1200: it fits every path. Raising it where the
        network allows (loopback: 60,000) makes fewer and larger datagrams.
    `message_bytes_max`
        The largest message. Default 16 MiB.
    `blocked_patience_s`
        Under `expel`, how long a receiver may be the only one that blocks a sender. Default 5.0.

    The tree between delegates:

    `fanout`
        Neighbours of one delegate away from the root. Default 8.
    `hops`
        Data that was forwarded more often than this runs in circles and is dropped. Default 16.
    `settle_s` [T_settle]
        After a change among the delegates, wait this long for the next before making a new tree; and use the
        links of the old one for this long. Default 1.0.
    `silent_s`
        A delegate that is in the group, and from which nothing came on the data channel for this long
        although it was sent data and probed, is routed around. Default 3.0. Raising it: streams stall for
        longer when data between two sites is cut off, and fewer detours on very bad networks.
    `root`
        The LAN at the root; None chooses the one with the least sum of round trips. Default None.
    `parity_frames`
        Forward error correction: after this many frames to a delegate, or a moment (2 ms for each of them),
        two more that make up for any two lost ones among them. 0, the default, is off; at most 64. Raising
        it: fewer extra datagrams, more repairs.
    `between`
        How the streams of our own LAN reach the other delegates. "tree", the default; or "multicast": one
        datagram for all of them, where the network carries that. Parity and pace are for the tree only.
    """

    snapshot_wait_s: float = 3.0
    snapshot_wait_max_s: float = 30.0
    sync_wait_s: float = 0.25
    force_wait_s: float = 1.0
    peer_wait_min_s: float = 1.0
    semi_wait_s: float = 5.0
    cut_wait_s: float = 0.5
    status_s: float = 0.05
    status_wan_s: float = 0.2
    heartbeat_s: float = 0.05
    heartbeat_max_s: float = 1.0
    nak_wait_min_s: float = 0.001
    nak_wait_max_s: float = 0.010
    repair_wait_min_s: float = 0.002
    repair_wait_max_s: float = 0.008
    round_trip_s: float = 0.25
    nak_factor: float = 1.25
    nak_extra_s: float = 0.010
    backoff_max: int = 64
    drain_s: float = 2.0
    depart_s: float = 8.0
    linger_s: float = 5.0
    farewell_s: float = 30.0
    delegate_linger_s: float = 10.0
    resume_s: float = 30.0
    resume_share: float = 0.25
    remember_s: float = 600.0
    window_messages: int = 4096
    window_bytes: int = 8 * 1024 * 1024
    held_messages: int = 4096
    early_messages: int = 256
    early_bytes: int = 1024 * 1024
    early_bytes_all: int = 16 * 1024 * 1024
    queue_messages: int = 1024
    queue_bytes: int = 64 * 1024 * 1024
    datagram_bytes: int = 1200
    message_bytes_max: int = 16 * 1024 * 1024
    blocked_patience_s: float = 5.0
    fanout: int = 8
    hops: int = 16
    settle_s: float = 1.0
    silent_s: float = 3.0
    root: Domain | None = None
    parity_frames: int = 0
    between: str = "tree"

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name not in _MAY_BE_NOTHING:
                _require(value > 0, f"{name} must be positive, and is {value}")
        _require(
            self.held_messages >= self.window_messages,
            "held_messages must be at least window_messages: what a sender may emit, a receiver must be able"
            " to hold",
        )
        _require(self.nak_factor > 1, "nak_factor must be more than 1: no repair is faster than a round trip")
        _require(
            self.remember_s > self.resume_s + self.drain_s, "remember_s must be more than resume_s + drain_s"
        )
        _require(self.linger_s >= self.drain_s, "linger_s must be at least drain_s")
        _require(self.farewell_s >= self.linger_s, "farewell_s must be at least linger_s")
        for low, high in (
            ("nak_wait_min_s", "nak_wait_max_s"),
            ("repair_wait_min_s", "repair_wait_max_s"),
        ):
            least, most = getattr(self, low), getattr(self, high)
            _require(least <= most, f"{low} must not be more than {high}")
            _require(most - least < self.status_s, f"{high} - {low} must be less than status_s")
        _require(self.heartbeat_s <= self.heartbeat_max_s, "heartbeat_s must not exceed heartbeat_max_s")
        _require(self.resume_share <= 1, "resume_share must be at most 1")
        _require(0 <= self.parity_frames <= 64, "parity_frames must be 0 to 64")
        _require(self.between in BETWEEN, f"between must be one of: {', '.join(BETWEEN)}")

    @classmethod
    def wan(cls) -> "FifoConfig":
        """Sites apart."""
        return cls()

    @classmethod
    def lan(cls) -> "FifoConfig":
        """One site, or a few close ones: round trips of milliseconds."""
        return cls(round_trip_s=0.01, peer_wait_min_s=0.25, status_wan_s=0.05, depart_s=3.0)

    def over_loopback(self) -> "FifoConfig":
        """The same group on one machine, where datagrams may be large and memory is near."""
        return replace(
            self,
            datagram_bytes=60_000,
            window_messages=65_536,
            held_messages=65_536,
            queue_messages=16_384,
        )

    def again_after(self, round_trip_s: float | None, asked: int = 1) -> float:
        """T_nak: when to request lost data from a delegate again. Requests and repairs are lost as well, so a
        few times after a round trip; then after twice as long each time, up to `NAK_BACKOFF_MAX` times."""
        wait_s = self.nak_factor * (round_trip_s or self.round_trip_s) + self.nak_extra_s
        return wait_s * min(1 << max(0, min(asked, 30) - NAKS_IN_A_ROW), NAK_BACKOFF_MAX)

    @property
    def parts_bytes(self) -> int:
        """Bytes kept of one sender's incomplete messages: the largest message, however finely it was cut."""
        return self.message_bytes_max * 3 // 2

    @property
    def repair_bytes(self) -> int:
        """Bytes that answer one `Nak` at most; a receiver that misses more requests it when these have
        come."""
        return max(self.window_bytes // 4, REPAIR_BYTES_LEAST)

    @property
    def parity_close_s(self) -> float:
        """When a block that is not full is closed."""
        return 0.002 * self.parity_frames

    @property
    def parity_wait_s(self) -> float:
        """How long a missing message may still be rebuilt, and is not requested."""
        return self.parity_close_s + self.nak_extra_s if self.parity_frames else 0.0

    @property
    def status_messages(self) -> int:
        """After so many new messages a status is sent at once."""
        return max(1, self.window_messages // 8)


_MAY_BE_NOTHING = frozenset({"between", "root", "parity_frames", "resume_share", "resume_s"})


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise BadInput(f"FIFO settings: {rule}", fix="start from FifoConfig.lan() or FifoConfig.wan()")
