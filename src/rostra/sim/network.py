"""The simulated lines: what happens to a packet between one server and its neighbour.

A `LinkModel` says which quality the lines of a world have (`rostra.impair`); faults change a line while the
world runs.

Lines behave like UDP: packets are lost silently, and the links above retransmit. A line keeps its packets in
order, as real paths do most of the time, unless it is set to reorder some.
"""

from msgspec import Struct
from msgspec.structs import replace

from rostra.impair.line import Line
from rostra.impair.quality import Constant, LineQuality, Lognormal, Uniform
from rostra.names import Domain


class LinkModel(Struct, frozen=True):
    """The network of a world: `lan` between a host and its cluster's server, `wan` between domain servers."""

    lan: LineQuality
    wan: LineQuality

    def losing(self, share: float) -> "LinkModel":
        return LinkModel(replace(self.lan, loss=share), replace(self.wan, loss=share))

    def duplicating(self, share: float) -> "LinkModel":
        return LinkModel(replace(self.lan, duplicate=share), replace(self.wan, duplicate=share))

    def reordering(self, share: float) -> "LinkModel":
        return LinkModel(replace(self.lan, reorder=share), replace(self.wan, reorder=share))


STEADY = LinkModel(lan=LineQuality(Constant(0.001)), wan=LineQuality(Constant(0.040)))
"""No chance in it: for stories, where every line of the trace should be easy to explain."""

LAN = LinkModel(lan=LineQuality(Uniform(0.0001, 0.0005)), wan=LineQuality(Uniform(0.0002, 0.002)))
"""A whole world in one building."""

WAN = LinkModel(lan=LineQuality(Uniform(0.0002, 0.001)), wan=LineQuality(Lognormal(0.040, 0.5, 0.005)))
"""Sites far apart."""

WILD = LinkModel(lan=LineQuality(Uniform(0.0001, 0.2)), wan=LineQuality(Uniform(0.0001, 0.6)))
"""Delays over four orders of magnitude: a race that can happen does, in some seed."""


class SimLine(Line):
    """One direction of one link between servers."""

    __slots__ = ("dead", "held", "jammed_until")

    sender: Domain
    to: Domain

    def __init__(self, sender: Domain, to: Domain, quality: LineQuality) -> None:
        super().__init__(sender, to, quality)
        self.dead = False  # replaced after a connection reset: what is still on its way is lost
        self.held: list[object] | None = None  # packets kept back until they are released
        self.jammed_until = 0.0  # when the last packet arrives that a fault has slowed
