"""What happens to a packet between two sites. No clock, no network: packets and times in, arrivals out.

    offer(now, size) ──▶ cut? ──▶ queue and rate ──▶ lost? ──▶ delay, jitter, held back? ──▶ arrivals

Every link between two sites is two **ways**, one in each direction, each with its own `WayQuality`. What a
way does to its n-th packet depends on its seed, and not on its settings: three throws for every packet,
whether they matter or not. Two runs with the same seed and the same packets lose the same ones.

Jitter wanders and does not jump: the delay moves in straight lines between points drawn every `KNOT_S`, and
never so steeply that one packet would overtake another. A real path is like that; independent draws, as the
usual tools make them, put packets out of order, which TCP takes for loss, and whoever wants that asks for
`reorder`. For the same reason a packet queues behind the one before when a link is made faster.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict, fields

from rostra.errors import BadInput

KNOT_S: Final = 0.02
"""How often jitter is drawn anew; or four times the jitter, if longer: its slope is at most a half."""

ON_THE_WAY_BYTES_MAX: Final = 64 << 20
"""What one way holds of packets that have not arrived. More is dropped: memory has an end, also in a lab."""

CUT, QUEUE, LOSS, FULL, KERNEL = "cut", "queue", "loss", "full", "kernel"


class WayQuality(Struct, frozen=True, kw_only=True):
    """How good one way is. Times in seconds; shares of packets from 0 to 1.

    `delay_s`, `jitter_s`
        Every packet takes ``delay_s``, give or take up to ``jitter_s``.
    `loss`
        The share that is lost, each packet by itself. Two numbers: it drifts from the first to the second and
        back, in ``drift_s``.
    `duplicate`
        The share that arrives twice.
    `reorder`, `reorder_s`
        The share that is held back for ``reorder_s`` more, so that others overtake it.
    `rate_bps`, `queue_bytes`
        Bits per second, headers included, and how many bytes may wait for their turn; the rest is dropped.
        A rate of 0 is none.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float | tuple[float, float] = 0.0
    drift_s: float = 60.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_s: float = 0.01
    rate_bps: float = 0.0
    queue_bytes: int = 256 << 10

    def __post_init__(self) -> None:
        for name in ("duplicate", "reorder"):
            _check_share(name, getattr(self, name))
        for share in self.loss if isinstance(self.loss, tuple) else (self.loss,):
            _check_share("loss", share)
        for name in ("delay_s", "jitter_s", "reorder_s", "rate_bps", "queue_bytes"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise BadInput(f"{name} is {getattr(self, name)}", fix="use 0 or more")
        if not 0 < self.drift_s < float("inf"):
            raise BadInput(f"drift_s is {self.drift_s}", fix="use more than 0 seconds for one drift and back")
        if self.jitter_s > self.delay_s:
            raise BadInput(
                f"a jitter of {self.jitter_s} s is more than the delay of {self.delay_s} s",
                fix="no packet arrives before it was sent: choose a jitter up to the delay",
            )

    def loss_at(self, now_s: float) -> float:
        if not isinstance(self.loss, tuple):
            return self.loss
        first, second = self.loss
        phase = now_s / self.drift_s % 1.0
        return first + (second - first) * (1.0 - abs(1.0 - 2.0 * phase))

    def but(self, **changes: Any) -> "WayQuality":
        """This quality with some things changed, by name."""
        unknown = [name for name in changes if name not in QUALITY]
        if unknown:
            raise BadInput(f"a link has no {unknown[0]!r}", fix=f"it has: {', '.join(QUALITY)}")
        if isinstance(changes.get("loss"), list):
            changes["loss"] = tuple(changes["loss"])
        for name, value in changes.items():
            numbers = value if name == "loss" and isinstance(value, tuple) and len(value) == 2 else (value,)
            if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
                raise BadInput(f"{name} is {value!r}", fix="use a number; loss may be two, to drift between")
        return WayQuality(**{**asdict(self), **changes})


QUALITY: Final = tuple(each.name for each in fields(WayQuality))


def _check_share(name: str, share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise BadInput(f"{name} {share} is not a share of packets", fix="use a number from 0 to 1")


class Counts(Struct):
    """What became of the packets of one way so far. What is not counted as arrived or dropped is on its way;
    a copy counts as arrived too."""

    packets: int = 0  # offered by the sender's site
    bytes: int = 0
    arrived_packets: int = 0
    arrived_bytes: int = 0
    copies: int = 0
    held_back: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # by reason

    @property
    def dropped_packets(self) -> int:
        return sum(self.dropped.values())


class LabWay:
    """One direction of one link."""

    __slots__ = (
        "_behind",
        "_free_at",
        "_luck",
        "_on_the_way",
        "_seed",
        "_wander",
        "counts",
        "is_cut",
        "quality",
        "source",
        "to",
    )

    def __init__(self, source: str, to: str, quality: WayQuality, seed: int | str = 1) -> None:
        self.source = source
        self.to = to
        self.quality = quality
        self.is_cut = False
        self.counts = Counts()
        self._seed = f"{seed} {source} {to}"
        self._luck = Random(self._seed)
        self._wander = (-1, 0.0, 0.0)  # a stretch of time, and where in the jitter it begins and ends
        self._free_at = 0.0  # when the sender of a rated link has said everything that waits
        self._behind = 0.0  # when the last packet that keeps its place arrives
        self._on_the_way = 0

    def change(self, quality: WayQuality) -> None:
        """From now on it is this good; what is on its way already is not touched."""
        self.quality = quality
        self._wander = (-1, 0.0, 0.0)

    def offer(self, now_s: float, size: int) -> tuple[float, ...]:
        """One more packet. The answer is when it arrives: once, twice, or never. Times never go back."""
        luck = self._luck.random
        lost, doubled, held_back = luck(), luck(), luck()
        quality, counts = self.quality, self.counts
        counts.packets += 1
        counts.bytes += size
        if self.is_cut:
            return self._drop(CUT)
        if self._on_the_way + size > ON_THE_WAY_BYTES_MAX:
            return self._drop(FULL)
        leaves = now_s
        if quality.rate_bps:
            waits_s = max(0.0, self._free_at - now_s)
            if waits_s * quality.rate_bps / 8 + size > quality.queue_bytes:
                return self._drop(QUEUE)
            leaves = self._free_at = now_s + waits_s + size * 8 / quality.rate_bps
        if lost < quality.loss_at(now_s):
            return self._drop(LOSS)
        arrives = leaves + quality.delay_s + self._jitter(leaves)
        if held_back < quality.reorder:
            counts.held_back += 1
            arrives += quality.reorder_s
        else:
            arrives = self._behind = max(arrives, self._behind)
        self._on_the_way += size
        if doubled >= quality.duplicate:
            return (arrives,)
        counts.copies += 1
        self._on_the_way += size
        return arrives, arrives

    def arrive(self, size: int) -> bool:
        """A packet is due. Does it arrive? Nothing does on a way that was cut meanwhile."""
        self._on_the_way -= size
        if self.is_cut:
            self._drop(CUT)
            return False
        self.counts.arrived_packets += 1
        self.counts.arrived_bytes += size
        return True

    def refused(self, size: int) -> None:
        """The receiver's site did not take what had arrived."""
        self.counts.arrived_packets -= 1
        self.counts.arrived_bytes -= size
        self._drop(KERNEL)

    def _jitter(self, at_s: float) -> float:
        jitter_s = self.quality.jitter_s
        if not jitter_s:
            return 0.0
        knot_s = max(KNOT_S, 4 * jitter_s)
        number, share = divmod(at_s, knot_s)
        if self._wander[0] != number:
            self._wander = (int(number), self._knot(int(number)), self._knot(int(number) + 1))
        _, begins, ends = self._wander
        return jitter_s * (begins + (ends - begins) * share / knot_s)

    def _knot(self, number: int) -> float:
        """Where in its range the delay is then, from -1 to 1; the same however often it is asked."""
        return Random(f"{self._seed} {number}").uniform(-1.0, 1.0)

    def _drop(self, why: str) -> tuple[float, ...]:
        self.counts.dropped[why] = self.counts.dropped.get(why, 0) + 1
        return ()


class Wan:
    """All the ways between some sites, and what is under way on them."""

    def __init__(self, ways: Iterable[LabWay], networks: Mapping[bytes, str]) -> None:
        """`networks`: which site has which addresses, by their first three bytes."""
        self.ways = {(way.source, way.to): way for way in ways}
        self.strays: dict[str, int] = {}  # packets that were for no way, by reason
        self._networks = dict(networks)
        self._under_way: list[tuple[float, int, LabWay, bytes]] = []
        self._number = 0

    def send(self, now_s: float, source: str, packet: bytes) -> None:
        """A site sends an IP packet to another."""
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return self._stray("not IPv4")
        to = self._networks.get(packet[16:19])
        if to is None:
            # Multicast stays inside a site, as it does in the paper: routers between sites know none.
            return self._stray("multicast" if 224 <= packet[16] < 240 else "for no site")
        way = self.ways.get((source, to))
        if way is None:
            return self._stray("no link")
        for arrives_s in way.offer(now_s, len(packet)):
            self._number += 1  # of two packets that are due at once, the first stays the first
            heapq.heappush(self._under_way, (arrives_s, self._number, way, packet))
        return None

    @property
    def next_s(self) -> float | None:
        """When the next packet is due."""
        return self._under_way[0][0] if self._under_way else None

    def due(self, now_s: float) -> Iterator[tuple[float, LabWay, bytes]]:
        """The packets that have arrived by now, in order: when each was due, on which way, and what it is."""
        while self._under_way and self._under_way[0][0] <= now_s:
            due_s, _, way, packet = heapq.heappop(self._under_way)
            if way.arrive(len(packet)):
                yield due_s, way, packet

    def _stray(self, why: str) -> None:
        self.strays[why] = self.strays.get(why, 0) + 1
