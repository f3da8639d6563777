"""The pretend network: what happens to a packet between one server and its neighbour.

Every link is two **lines**, one in each direction, so a link can be cut, slowed or held one way only. A
line delays each packet by a draw from its distribution, and may lose it, double it, or let it overtake the
one before. What it does in good times is its `LineQuality`; a `LinkModel` says which quality the links of a
world have; faults change a line while the world runs.

The network behaves like datagrams: packets vanish without a word, and the links above it resend. A line
keeps its packets in order unless told to let some overtake, since that is what a real path does most of the
time.
"""

import math
from random import Random
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import Domain


class Delay(Protocol):
    def draw(self, luck: Random) -> float: ...


class Constant(Struct, frozen=True):
    seconds: float

    def draw(self, luck: Random) -> float:
        return self.seconds


class Uniform(Struct, frozen=True):
    low_s: float
    high_s: float

    def draw(self, luck: Random) -> float:
        return self.low_s + (self.high_s - self.low_s) * luck.random()


class Lognormal(Struct, frozen=True):
    """Mostly near the median, now and then far above it: how real round trips look. Never below `least_s`."""

    median_s: float
    sigma: float = 0.5
    least_s: float = 0.0

    def draw(self, luck: Random) -> float:
        return max(self.least_s, self.median_s * math.exp(luck.gauss(0.0, self.sigma)))


class LineQuality(Struct, frozen=True):
    """What a line does to packets while nobody interferes."""

    delay: Delay
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0  # the share of packets that do not queue behind the one before

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder"):
            share = getattr(self, name)
            if not 0.0 <= share <= 1.0:
                raise BadInput(f"{name} {share} is not a share of packets", fix="use a number from 0 to 1")


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


class SimLine:
    """One direction of one link, and what is being done to it at the moment."""

    __slots__ = (
        "cut",
        "dead",
        "free_at",
        "held",
        "jammed_until",
        "least_s",
        "loss",
        "quality",
        "sender",
        "to",
    )

    def __init__(self, sender: Domain, to: Domain, quality: LineQuality) -> None:
        self.sender = sender
        self.to = to
        self.quality = quality
        self.loss = quality.loss
        self.cut = False
        self.dead = False  # replaced after a connection reset: what is still on its way is lost
        self.held: list[object] | None = None  # packets kept back until they are released
        self.least_s = 0.0  # a fault: at least this slow
        self.free_at = 0.0  # when the last packet arrives; the next one queues behind it
        self.jammed_until = 0.0  # when the last packet arrives that a fault has slowed
