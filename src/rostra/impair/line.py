"""One direction of one link, and what is being done to it at the moment."""

from random import Random

from rostra.impair.quality import LineQuality


class Line:
    __slots__ = (
        "cut",
        "free_at",
        "least_s",
        "loss",
        "quality",
        "queue_bytes",
        "rate_bps",
        "rate_free_at",
        "seed",
        "sender",
        "to",
    )

    def __init__(self, sender: str, to: str, quality: LineQuality, seed: int | str = 1) -> None:
        self.sender = sender
        self.to = to
        self.seed = f"{seed} {sender} {to}"  # of its jitter
        self.cut = False
        self.least_s = 0.0  # a fault: at least this slow
        self.free_at = 0.0  # when the last packet arrives; the next one queues behind it
        self.rate_free_at = 0.0  # when a line with a rate has sent everything that waits
        self.change(quality)

    def change(self, quality: LineQuality) -> None:
        """From now on it is this good; what is on its way already is not touched."""
        self.quality = quality
        self.loss = quality.loss
        self.rate_bps, self.queue_bytes = quality.rate_bps, quality.queue_bytes

    def depart(self, now: float, size: int) -> float | None:
        """When a packet of so many bytes has left; None if too much waits before it."""
        if not self.rate_bps:
            return now
        waits_s = max(0.0, self.rate_free_at - now)
        if waits_s * self.rate_bps / 8 + size > self.queue_bytes:
            return None
        self.rate_free_at = now + waits_s + size * 8 / self.rate_bps
        return self.rate_free_at

    def arrival(self, departs: float, luck: Random, strays: bool | None = None) -> float:
        """When a packet arrives that is not lost. It keeps its place unless it `strays`, which is
        random if not given."""
        quality = self.quality
        arrives = departs + max(quality.delay.draw(luck, departs, self.seed), self.least_s)
        if strays is None:
            strays = quality.reorder > 0.0 and luck.random() < quality.reorder
        if strays:
            return arrives + quality.reorder_s
        arrives = self.free_at = max(arrives, self.free_at)
        return arrives
