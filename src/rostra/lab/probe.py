"""Is the network as it was configured? Probes on every way at once, before a measurement relies on it.

A probe is a UDP packet with its send time. The receiver's kernel stamps its arrival by the same clock, so
that a busy prober does not look like a slow network. The median delay is compared with the way's `delay_s`,
the loss with `loss`, or with its range while it drifts. Both should be within `TOLERANCE` (`spec/xpand.md`,
8.1); so few probes give the loss no more exactly than three standard deviations.
"""

import math
import select
import socket
import statistics
import struct
import time
from typing import Final

from msgspec import Struct

from rostra.lab.control import WayNow
from rostra.lab.lab import Lab
from rostra.lab.urgency import urgently

PROBES: Final = 1000
EVERY_S: Final = 0.001
TOLERANCE: Final = 0.02
GRACE_S: Final = 0.2
PORT: Final = 7799

_PROBE: Final = struct.Struct("!IIQ")  # which way, which number, sent when
_SO_RCVBUFFORCE: Final = 33
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@ll")


class Probed(Struct, frozen=True):
    """What probes found on one way."""

    source: str
    to: str
    sent: int
    received: int  # without copies
    copies: int
    delay_s: float  # the median
    delay_p99_s: float
    asked_delay_s: float
    asked_loss: tuple[float, float]  # from, to: the same unless it drifts

    @property
    def loss(self) -> float:
        return 1.0 - self.received / self.sent

    @property
    def delay_error(self) -> float:
        """How far off the delay is, as a share of what was asked for."""
        return abs(self.delay_s - self.asked_delay_s) / self.asked_delay_s if self.asked_delay_s else 0.0

    @property
    def loss_error(self) -> float:
        """How far off the loss is, in shares of all packets."""
        least, most = sorted(self.asked_loss)
        return max(least - self.loss, self.loss - most, 0.0)

    @property
    def loss_tolerance(self) -> float:
        share = max(self.asked_loss)
        return max(TOLERANCE, 3 * math.sqrt(share * (1 - share) / self.sent))

    @property
    def is_as_asked(self) -> bool:
        return self.delay_error <= TOLERANCE and self.loss_error <= self.loss_tolerance


def probe(lab: Lab, count: int = PROBES, every_s: float = EVERY_S) -> list[Probed]:
    """Probe every way that is not cut. Takes a second for a thousand, and the longest delay; blocks."""
    with urgently():
        return _probe(lab, count, every_s)


def _probe(lab: Lab, count: int, every_s: float) -> list[Probed]:
    ways = [way for way in lab.now().ways if not way.is_cut]
    ends = {place.name: _open_end(lab, place.name) for place in lab.sites}
    waits_s = max((_longest_s(way) for way in ways), default=0.0) + GRACE_S
    came: list[dict[int, float]] = [{} for _ in ways]
    copies = [0] * len(ways)
    try:
        number, next_s = 0, time.monotonic()
        while number < count or time.monotonic() < next_s:
            if number < count and time.monotonic() >= next_s:
                for which, way in enumerate(ways):
                    stamp = _PROBE.pack(which, number, time.time_ns())
                    ends[way.source].sendto(stamp, (lab.site(way.to).address, PORT))
                number += 1
                # A late prober does not catch up: many probes at one moment see one moment's network.
                next_s = time.monotonic() + (every_s if number < count else waits_s)
            readable, _, _ = select.select(ends.values(), [], [], max(0.0, next_s - time.monotonic()))
            for end in readable:
                for which, sequence, took_s in _received(end):
                    copies[which] += sequence in came[which]
                    came[which].setdefault(sequence, took_s)
    finally:
        for end in ends.values():
            end.close()
    return [_judged(way, count, came[which], copies[which]) for which, way in enumerate(ways)]


def _judged(way: WayNow, count: int, came: dict[int, float], copies: int) -> Probed:
    delays = sorted(came.values()) or [math.inf]
    return Probed(
        way.source,
        way.to,
        count,
        len(came),
        copies,
        statistics.median(delays),
        delays[min(len(delays) - 1, int(len(delays) * 0.99))],
        way.quality.wander.delay_s,
        way.quality.losses,
    )


def _longest_s(way: WayNow) -> float:
    quality = way.quality
    queue_s = quality.queue_bytes * 8 / quality.rate_bps if quality.rate_bps else 0.0
    return (
        quality.wander.delay_s
        + quality.wander.jitter_s
        + (quality.reorder_s if quality.reorder else 0.0)
        + queue_s
    )


def _open_end(lab: Lab, site: str) -> socket.socket:
    end = lab.site(site).socket()
    end.setblocking(False)
    end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 4 << 20)
    end.bind((lab.site(site).address, PORT))
    return end


def _received(end: socket.socket) -> list[tuple[int, int, float]]:
    """All that waits: which way, which number, how long it took."""
    found = []
    try:
        while True:
            data, notes, _, _ = end.recvmsg(64, 64)
            stamps = [data for level, kind, data in notes if kind == _SO_TIMESTAMPNS]
            seconds, nanoseconds = _TIMESPEC.unpack(stamps[0])
            which, number, sent_ns = _PROBE.unpack(data)
            found.append((which, number, (seconds * 1_000_000_000 + nanoseconds - sent_ns) / 1e9))
    except BlockingIOError:
        return found
