"""How good one direction of a link is: delay, jitter, loss, reordering, rate."""

import math
from functools import lru_cache
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from rostra.errors import BadInput

KNOT_S: Final = 0.02
"""How often jitter is drawn anew; or four times the jitter, if longer: its slope is at most a half."""


class Constant(Struct, frozen=True, tag=True):
    seconds: float

    def draw(self, luck: Random, at_s: float = 0.0, line: str = "") -> float:
        return self.seconds


class Uniform(Struct, frozen=True, tag=True):
    low_s: float
    high_s: float

    def draw(self, luck: Random, at_s: float = 0.0, line: str = "") -> float:
        return self.low_s + (self.high_s - self.low_s) * luck.random()


class Lognormal(Struct, frozen=True, tag=True):
    """Mostly near the median, now and then far above it: how real round trips look. Never below `least_s`."""

    median_s: float
    sigma: float = 0.5
    least_s: float = 0.0

    def draw(self, luck: Random, at_s: float = 0.0, line: str = "") -> float:
        return max(self.least_s, self.median_s * math.exp(luck.gauss(0.0, self.sigma)))


class Wander(Struct, frozen=True, tag=True):
    """`delay_s`, give or take up to `jitter_s`, which wanders and does not jump: the delay moves in straight
    lines between points drawn every `KNOT_S`, and never so steeply that one packet would overtake another. A
    real path is like that; independent draws, as the usual tools make them, put packets out of order, which
    TCP takes for loss; for that there is `reorder`."""

    delay_s: float = 0.0
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        if 0 <= self.delay_s < self.jitter_s:
            raise BadInput(
                f"a jitter of {self.jitter_s} s is more than the delay of {self.delay_s} s",
                fix="no packet arrives before it was sent: choose a jitter up to the delay",
            )

    def draw(self, luck: Random, at_s: float = 0.0, line: str = "") -> float:
        if not self.jitter_s:
            return self.delay_s
        knot_s = max(KNOT_S, 4 * self.jitter_s)
        number, share = divmod(at_s, knot_s)
        begins, ends = _knot(line, int(number)), _knot(line, int(number) + 1)
        return self.delay_s + self.jitter_s * (begins + (ends - begins) * share / knot_s)


@lru_cache(maxsize=256)
def _knot(line: str, number: int) -> float:
    """Where in its range the delay is then, from -1 to 1; the same however often it is asked."""
    return Random(f"{line} {number}").uniform(-1.0, 1.0)


Delay = Constant | Uniform | Lognormal | Wander


class LineQuality(Struct, frozen=True):
    """What a line does to packets. Times in seconds; shares of packets from 0 to 1.

    `delay`
        How long a packet takes.
    `loss`, `loss_to`, `drift_s`
        The share that is lost, each packet by itself. With ``loss_to`` it drifts from the one to the other
        and back, in ``drift_s``.
    `duplicate`
        The share that arrives twice.
    `reorder`, `reorder_s`
        The share that does not queue behind the one before, and takes ``reorder_s`` longer.
    `rate_bps`, `queue_bytes`
        Bits per second, headers included, and how many bytes may wait for their turn; what comes on top is
        dropped.
        A rate of 0 is none.
    """

    delay: Delay = Wander()
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_s: float = 0.0
    rate_bps: float = 0.0
    queue_bytes: int = 256 << 10
    loss_to: float | None = None
    drift_s: float = 60.0

    def __post_init__(self) -> None:
        for name, value in {**asdict(self.delay), **asdict(self)}.items():
            if isinstance(value, int | float) and not 0 <= value < math.inf and name not in SHARES:
                raise BadInput(f"{name} is {value}", fix="use 0 or more")
        for name in SHARES:
            if not 0.0 <= (share := getattr(self, name) or 0.0) <= 1.0:
                raise BadInput(f"{name} {share} is not a share of packets", fix="use a number from 0 to 1")
        if not self.drift_s:
            raise BadInput("drift_s is 0", fix="use more than 0 seconds for one drift and back")

    @property
    def wander(self) -> Wander:
        """The delay, where people set it as one."""
        assert isinstance(self.delay, Wander), f"{self.delay} is set by a program"
        return self.delay

    @property
    def losses(self) -> tuple[float, float]:
        """The shares between which it drifts; the same twice if it does not."""
        return self.loss, self.loss if self.loss_to is None else self.loss_to

    def loss_at(self, now_s: float) -> float:
        if self.loss_to is None:
            return self.loss
        phase = now_s / self.drift_s % 1.0
        return self.loss + (self.loss_to - self.loss) * (1.0 - abs(1.0 - 2.0 * phase))

    def but(self, **changes: Any) -> "LineQuality":
        """This quality with some settings changed, by the names of `SETTINGS`; `loss` may be two numbers."""
        settings = dict(changes)
        match settings.get("loss"):
            case [first, second]:
                settings |= {"loss": first, "loss_to": second}
            case float() | int():
                settings["loss_to"] = None
        for name, value in settings.items():
            if name not in SETTINGS and name != "loss_to":
                raise BadInput(f"a link has no {name!r}", fix=f"it has: {', '.join(SETTINGS)}")
            if (isinstance(value, bool) or not isinstance(value, int | float)) and value is not None:
                raise BadInput(f"{name} is {value!r}", fix="use a number; loss may be two, to drift between")
        wander = {name: settings.pop(name) for name in WANDER if name in settings}
        return replace(self, delay=replace(self.wander, **wander) if wander else self.delay, **settings)


SHARES: Final = ("loss", "loss_to", "duplicate", "reorder")
WANDER: Final = Wander.__struct_fields__
SETTINGS: Final = (
    *WANDER,
    *[name for name in LineQuality.__struct_fields__ if name not in ("delay", "loss_to")],
)
