"""What happens to a packet between two sites. No clock, no network: packets and times in, arrivals out.

The lines are those of `rostra.impair`. What a way does to its n-th packet depends on its seed and not on its
settings: three random numbers are drawn for every packet, used or not. Two runs with the same seed and the
same packets lose the same ones.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Final

from msgspec import Struct, field

from rostra.impair.line import Line
from rostra.impair.quality import LineQuality

ON_THE_WAY_BYTES_MAX: Final = 64 << 20
"""What one way holds of packets that have not arrived. More is dropped: memory has an end, also in a lab."""

CUT, QUEUE, LOSS, FULL, KERNEL = "cut", "queue", "loss", "full", "kernel"


USUAL: Final = LineQuality(reorder_s=0.01)
"""The default of a link."""


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


class LabWay(Line):
    """One direction of one link, with luck of its own, and what became of its packets."""

    __slots__ = ("_luck", "_on_the_way", "counts")

    def __init__(self, source: str, to: str, quality: LineQuality, seed: int | str = 1) -> None:
        super().__init__(source, to, quality, seed)
        self.counts = Counts()
        self._luck = Random(self.seed)
        self._on_the_way = 0

    def offer(self, now_s: float, size: int) -> tuple[float, ...]:
        """One more packet. The answer is when it arrives: once, twice, or never. Times never go back."""
        luck = self._luck.random
        lost, doubled, held_back = luck(), luck(), luck()
        quality, counts = self.quality, self.counts
        counts.packets += 1
        counts.bytes += size
        if self.cut:
            return self._drop(CUT)
        if self._on_the_way + size > ON_THE_WAY_BYTES_MAX:
            return self._drop(FULL)
        leaves = self.depart(now_s, size)
        if leaves is None:
            return self._drop(QUEUE)
        if lost < quality.loss_at(now_s):
            return self._drop(LOSS)
        strays = held_back < quality.reorder
        counts.held_back += strays
        arrives = self.arrival(leaves, self._luck, strays)
        self._on_the_way += size
        if doubled >= quality.duplicate:
            return (arrives,)
        counts.copies += 1
        self._on_the_way += size
        return arrives, arrives

    def arrive(self, size: int) -> bool:
        """A packet is due. Does it arrive? Nothing does on a way that was cut meanwhile."""
        self._on_the_way -= size
        if self.cut:
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

    def _drop(self, why: str) -> tuple[float, ...]:
        self.counts.dropped[why] = self.counts.dropped.get(why, 0) + 1
        return ()


class Wan:
    """All the ways between some sites, and what is under way on them."""

    def __init__(self, ways: Iterable[LabWay], networks: Mapping[bytes, str]) -> None:
        """`networks`: which site has which addresses, by their first three bytes."""
        self.ways = {(way.sender, way.to): way for way in ways}
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
