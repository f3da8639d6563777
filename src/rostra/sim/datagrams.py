"""The simulated datagram network: delay, loss and duplication between hosts of a LAN, or between sites.

Messages of groups with `delivery="fifo"` have a network of their own, apart from the links between servers
(`protocols/fifo`), with other paths, delays and losses. Paths are made when they are first used: a LAN of two
hundred hosts has forty thousand of them.

**Loss is a function of the message.** Whether a datagram is lost depends on the seed, the path, its content
and how often that was sent there before, and on nothing else in the world. So two worlds with one seed do the
same to the same message, although in one of them other members join and leave: that is how the cost of a join
is measured (X-002).
"""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, Final, Protocol

from msgspec import msgpack

from rostra.impair.line import Line
from rostra.impair.quality import Constant, LineQuality
from rostra.names import Domain
from rostra.protocols.flow.messages import Data, Heartbeat, Nak, Numbered, Report, Status
from rostra.sim.network import LinkModel

QUEUE_S: Final = 0.5
PACKET_BYTES: Final = 1500
"""With a rate, so much and a packet are kept waiting for their turn on a way; what comes on top is lost, as
in a router."""

_encoder = msgpack.Encoder()


class DatagramPart(Protocol):
    """Some of the ways."""

    def covers(self, sender: Domain, to: Domain) -> bool: ...


class DatagramPath(Line):
    """One direction between two places."""

    __slots__ = ("bytes", "datagrams", "lost", "times", "wide")

    sender: Domain
    to: Domain

    def __init__(self, sender: Domain, to: Domain, quality: LineQuality, *, wide: bool) -> None:
        super().__init__(sender, to, quality)
        self.wide = wide  # between two sites
        self.datagrams: Counter[str] = Counter()  # sent, by kind; between sites only
        self.bytes = 0
        self.lost = 0
        self.times: Counter[str] = Counter()  # how often the same was sent; kept where there is chance

    @property
    def certain(self) -> bool:
        quality = self.quality
        return not (self.loss or quality.duplicate or quality.reorder) and type(quality.delay) is Constant


class DatagramNetwork:
    """All ways of one world."""

    def __init__(self, seed: int, links: LinkModel, sites: Iterable[Domain]) -> None:
        self.ways: dict[tuple[Domain, Domain], DatagramPath] = {}
        self._seed = seed
        self._links = links
        self._sites = frozenset(sites)
        self._faults: list[
            tuple[DatagramPart | None, dict[str, Any]]
        ] = []  # for ways that are yet to be made
        self._luck = Random()

    def sites(self, clusters: Iterable[Domain]) -> None:
        """Between these it is far."""
        self._sites = frozenset(clusters)

    def way(self, sender: Domain, to: Domain) -> DatagramPath:
        way = self.ways.get((sender, to))
        if way is None:
            wide = sender in self._sites and to in self._sites
            way = DatagramPath(sender, to, self._links.wan if wide else self._links.lan, wide=wide)
            self.ways[sender, to] = way
            for part, values in self._faults:
                if part is None or part.covers(sender, to):
                    _change(way, values)
        return way

    def change(self, part: DatagramPart | None, **values: Any) -> None:
        """From now on these ways are so: `cut`, `loss`, `least_s`, `rate`, `quality`. None: all of them."""
        if part is None:
            names = values.keys()
            kept = [(p, {n: v for n, v in old.items() if n not in names}) for p, old in self._faults]
            self._faults = [(p, old) for p, old in kept if old]
        self._faults.append((part, values))
        for way in self.ways.values():
            if part is None or part.covers(way.sender, way.to):
                _change(way, values)

    def arrivals(self, now: float, way: DatagramPath, message: Any) -> tuple[float, ...]:
        """When it arrives: never, once or twice."""
        if way.wide:
            way.datagrams[kind_of(message)] += 1
        departs: float | None = now
        if way.wide or way.rate_bps:
            size = len(_encoder.encode(message))
            way.bytes += size
            departs = way.depart(now, size)
        if way.cut or departs is None:
            way.lost += 1
            return ()
        if way.certain:
            return (way.arrival(departs, self._luck),)
        luck, quality = self._luck, way.quality
        what = _what(message, now)
        way.times[what] += 1
        luck.seed(f"{self._seed} {way.sender} {way.to} {what} {way.times[what]}")
        if luck.random() < way.loss:
            way.lost += 1
            return ()
        copies = 2 if quality.duplicate and luck.random() < quality.duplicate else 1
        return tuple([way.arrival(departs, luck) for _ in range(copies)])


def kind_of(message: Any) -> str:
    """The label of a message in statistics: a repair has another than the original."""
    return "Repair" if isinstance(message, Data) and message.repair else type(message).__name__


def _what(message: Any, now: float) -> str:
    """What identifies a message. One without a number is identified by its time: else one more heartbeat
    would change the fate of all that follow."""
    match message:
        case Data(stream, run, offset=offset):
            return f"Data {stream} {run.first} {offset}"
        case Numbered(_, _, data):
            return f"Numbered {data.stream} {data.run.first} {data.offset}"
        case Nak(stream, ranges):
            return f"Nak {stream} {ranges[0][0]}"
        case Heartbeat(pulses):
            return f"Heartbeat {pulses[0].stream if pulses else ''} {now:.3f}"
        case Status(endpoint):
            return f"Status {endpoint} {now:.3f}"
        case Report(entries):
            return f"Report {entries[0].stream if entries else ''} {now:.3f}"
        case _:
            return f"{type(message).__name__} {getattr(message, 'stream', '')} {now:.3f}"


def _change(way: DatagramPath, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name == "quality":
            way.quality, way.loss = value, value.loss
        elif name == "rate":
            way.rate_bps, way.queue_bytes = 8 * (value or 0.0), int(QUEUE_S * (value or 0.0)) + PACKET_BYTES
        else:
            setattr(way, name, value)
