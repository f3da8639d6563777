"""Congestion control from one delegate to another: a send rate, unlimited until most of what is sent is lost.

    unlimited ── most of it is requested again ──▶ paced: frames wait for their turn
        ▲                                            │  loss above the usual share of this path: slower
        └──────── no frame waited for a while ───────┘  no more than that: faster

A path that is too narrow for a stream loses what does not fit, and repairs make it worse (X-090). `Nak`s tell
the sending delegate what was lost, so the rate needs no messages of its own. Loss alone does not mean
congestion: a radio link may lose a fifth at any rate, and by chance half of some twenty frames. So a path is
paced only when chance does not explain the loss; the share that it loses while unlimited is remembered; and
if a lower rate does not lower that share, the rate goes up again. A rate at which too much was lost is
approached in small steps, and forgotten once it was passed without loss, as in CUBIC. Relatives: TFRC (a
rate, not a window) and NORM (loss known from naks).

While a path is paced, a `Nak` for a frame that waits for its turn, or that has just been sent, is not
answered again.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable
from math import inf, sqrt
from typing import Final

from msgspec import Struct, field

from rostra.core.effects import Instant
from rostra.names import Group
from rostra.protocols.flow.messages import Data, Nak, Numbered, Parity, Range, Stream

Frame = Data | Numbered | Parity
Number = tuple[Group, Stream, int]

JUDGED: Final = 8
"""Frames that must have been sent before the loss of a paced path is judged; twice as many on an unlimited
one."""

LONGEST_S: Final = 2.0
"""If fewer were sent in this time, the path is judged by these; older ones are not counted."""

QUEUE_S: Final = 0.5
"""What the queue of a narrow path holds before it drops something."""

ARRIVED: Final = 0.75
EVIDENCE_THRESHOLD: Final = 13.0
"""Each lost frame adds to the evidence for a narrow path, each that arrives takes away, by so much; from this
sum on the path is paced. Twenty frames of which two arrive are enough. Where a fifth is lost by chance, ten
million are not."""

REMEMBERED: Final = 0.125
"""The weight of the latest interval in the moving average of what a path loses while unlimited."""

LOSS_MARGIN: Final = 0.15
"""A paced path that loses so much above its usual share, and more than chance explains, is still too fast."""

LEAST_CHANCE: Final = 0.05
"""The least loss that is expected of any path: one lost frame of five does not make a rate too fast."""

FASTER: Final = 1.1
MUCH_FASTER: Final = 4.0
"""The factors by which a rate grows: near a rate that was too fast, or while clearly more than the usual
share is lost; and elsewhere."""

USED: Final = 0.5
"""A rate of which no more than this part was used is untested: a loss does not make it too fast."""

IDLE_S: Final = 5.0
"""After so long without a frame that had to wait, a path is unlimited again."""


Unit = tuple[int, int, int]
"""The first and the last number that a frame, or the parts of one message, carried; and how many units were
sent before it."""


class Waiting(Struct, frozen=True, gc=False):
    group: Group
    frame: Frame
    size: int


class SendWindow(Struct, gc=False):
    """What was sent in one interval, and what of it was requested again."""

    began: Instant
    frames: int = 0
    bytes: int = 0
    lost: int = 0
    ended: Instant = 0.0

    @property
    def lost_share(self) -> float:
        return min(1.0, self.lost / max(1, self.frames))

    @property
    def sent(self) -> float:
        """Bytes per second."""
        return self.bytes / max(self.ended - self.began, 0.05)

    @property
    def arrived(self) -> float:
        return self.sent * (1.0 - self.lost_share)


class LossProbe(Struct, gc=False):
    """What was sent for the first time on an unlimited path, and which of it was requested again.

    Only frames that this delegate sent itself count, and only once however often they are requested: what its
    predecessor sent, what it misses itself, and a hole whose repair was lost too, say nothing about the path.
    The unit is one frame, however many messages it carries: they are lost together. A message in many parts
    is one unit too, of which a fraction may be lost: its frames leave at one moment, and say no more about a
    path than a single one does.
    """

    began: Instant
    frames: int = 0
    bytes: int = 0
    units: int = 0
    ended: Instant = 0.0
    sent_units: dict[tuple[Group, Stream], list[Unit]] = field(default_factory=dict)
    parts: dict[Number, int] = field(default_factory=dict)  # of messages in parts: how many frames
    known: int = 0  # so many of the units, in the order in which they were sent, the other end knows of
    lost: dict[Number, float] = field(default_factory=dict)  # which share of a unit

    def sent(self, now: Instant, group: Group, frame: Frame, size: int) -> None:
        data = frame.data if isinstance(frame, Numbered) else frame
        if isinstance(data, Parity) or data.repair:
            return
        if not self.frames:
            self.began = now
        self.ended = now
        if self.is_long:
            self.sent_units.clear()
            self.parts.clear()
        self.frames += 1
        self.bytes += size
        units = self.sent_units.setdefault((group, data.stream), [])
        if data.size:
            number = (group, data.stream, data.run.first)
            self.parts[number] = self.parts.get(number, 0) + 1
            if units and units[-1][1] == data.run.first:
                return
        units.append((data.run.first, data.run.end - 1, self.units))
        self.units += 1

    def asked(self, group: Group, nak: Nak, frame_bytes: int) -> None:
        units = self.sent_units.get((group, nak.stream), ())
        missing = _lost_frames(nak, frame_bytes)
        for first, last in nak.ranges:
            for low, _, place in units[bisect_left(units, first, key=_last_number) :]:
                if low > last:
                    break
                number = (group, nak.stream, low)
                whole = self.parts.get(number, 1)
                lost = min(1.0, missing.get(low, whole) / whole)
                self.lost[number] = max(self.lost.get(number, 0.0), lost)
                self.known = max(self.known, place + 1)

    @property
    def is_long(self) -> bool:
        """Nothing was requested for too long: nothing is lost here, or the path was cut."""
        return self.ended - self.began > LONGEST_S

    @property
    def unknown(self) -> int:
        """Units that the other end may not know of. It asks for none of these, lost or not: a narrow way has
        a queue, and what does not fit into it is noticed by what comes later."""
        return max(0, self.units - self.known)

    @property
    def lost_share(self) -> float:
        return min(1.0, sum(self.lost.values()) / max(1, self.units))


class Pace:
    """The path to one delegate, for frames of so many bytes at most."""

    __slots__ = (
        "_before",
        "_closed",
        "_due_at",
        "_epoch",
        "_evidence",
        "_frame_bytes",
        "_last",
        "_least",
        "_lowered",
        "_natural",
        "_news",
        "_now",
        "_pending",
        "_probe",
        "_repairs",
        "_said",
        "_said_since",
        "_sent_at",
        "_too_fast",
        "_turn_s",
        "_waited_at",
        "rate",
    )

    def __init__(self, frame_bytes: int) -> None:
        self.rate: float | None = None  # bytes per second
        self._repairs: deque[Waiting] = deque()  # go first: others wait behind what they fill
        self._news: deque[Waiting] = deque()
        self._frame_bytes = frame_bytes
        self._least = frame_bytes / 2  # bytes per second that are always allowed
        self._pending: Counter[Number] = Counter()  # what is in the queue
        self._sent_at: dict[Number, tuple[Instant, int]] = {}  # what was sent lately, in how many frames
        self._last: tuple[Instant, Group, Data] | None = None  # the repair that was handed over last
        self._due_at: Instant = 0.0  # when the next may leave
        self._turn_s = 0.0  # how long the last one kept the way busy
        self._waited_at: Instant = 0.0  # when something last had to wait
        self._natural = 0.0  # the share that the way loses whatever the rate
        self._lowered: tuple[float, float] | None = None  # the rate and the share lost, before it was lowered
        self._too_fast = inf  # a rate at which more was lost than usual, until it was passed
        self._epoch: int | None = None  # of the delegate there
        self._probe = LossProbe(0.0)  # while the way is unlimited
        self._closed: LossProbe | None = None  # and before: the last of it may still be asked for
        self._evidence = 0.0  # that the way is narrow
        self._said_since: Instant = 0.0
        self._said = (0, 0)  # bytes in the last stretch of time, and in this one
        self._now = SendWindow(0.0)  # while it is paced
        self._before: SendWindow | None = None  # has had its time to be asked for again; to be judged

    def meet(self, now: Instant, epoch: int | None) -> None:
        """The delegate at the other end is this one. What its predecessor lost says nothing about the
        path."""
        if epoch is not None and epoch != self._epoch:
            self._epoch = epoch
            self._unlimited(now)

    def send(self, now: Instant, group: Group, frame: Frame) -> bool:
        """May it leave now? Else it waits; or it is dropped, if it is here already."""
        size = _size(frame)
        if self.rate is None:
            self._probe.sent(now, group, frame, size)
            if now - self._said_since > LONGEST_S:
                self._said = (self._said[1] if now - self._said_since < 2 * LONGEST_S else 0, 0)
                self._said_since = now
            self._said = (self._said[0], self._said[1] + size)
            return True
        number = _number(group, frame)
        is_repair = isinstance(frame, Data) and frame.repair
        if isinstance(frame, Data) and frame.repair:
            if self._last == (now, group, frame) or (not frame.size and number in self._pending):
                return False  # the second copy of an answer: there is no room for it here
            self._last = (now, group, frame)
        if not self.waiting and now >= self._due_at:
            self._leave(now, group, frame, size)
            return True
        self._waited_at = now
        queue = self._repairs if is_repair else self._news
        queue.append(Waiting(group, frame, size))
        if number is not None:
            self._pending[number] += 1
        return False

    def due(self, now: Instant) -> list[Waiting]:
        """The frames whose turn has come."""
        ready: list[Waiting] = []
        while self.waiting and (self.rate is None or now >= self._due_at - 1e-9):
            waiting = (self._repairs or self._news).popleft()
            if (number := _number(waiting.group, waiting.frame)) is not None:
                self._pending[number] -= 1
                if not self._pending[number]:
                    del self._pending[number]
            self._leave(now, waiting.group, waiting.frame, waiting.size)
            ready.append(waiting)
        if self.waiting:
            self._waited_at = now
        return ready

    @property
    def waiting(self) -> int:
        return len(self._repairs) + len(self._news)

    def wait(self, now: Instant) -> float | None:
        """Seconds until the next turn, if a frame waits for it."""
        return max(0.0, self._due_at - now) if self.waiting else None

    def _leave(self, now: Instant, group: Group, frame: Frame, size: int) -> None:
        self._now.frames += 1
        self._now.bytes += size
        if self.rate is not None:
            self._turn_s = size / self.rate
            self._due_at = max(now, self._due_at) + self._turn_s
            if (number := _number(group, frame)) is not None:
                self._sent_at[number] = (now, 1 + self._sent_at.get(number, (now, 0))[1])

    def asked(self, now: Instant, group: Group, nak: Nak, again_s: float) -> Nak | None:
        """A `Nak` from there: so much was lost. Returns it without what is on its way already."""
        if self.rate is None:
            for probe in (self._closed, self._probe):
                if probe is not None:
                    probe.asked(group, nak, self._frame_bytes)
            self._judge_unlimited(now, again_s)
            return nak
        ranges: list[Range] = []
        stream = (group, nak.stream)
        known: list[int] | None = (
            None  # if fewer than are asked for: a range may be as wide as its sender likes
        )
        if sum(last - first + 1 for first, last in nak.ranges) > len(self._pending) + len(self._sent_at):
            known = sorted({each[2] for each in (*self._pending, *self._sent_at) if each[:2] == stream})
        frames = _lost_frames(nak, self._frame_bytes)
        for first, last in nak.ranges:
            numbers: Iterable[int] = range(first, last + 1)
            if known is not None:
                numbers = known[bisect_left(known, first) : bisect_right(known, last)]
            for number in numbers:
                if self._is_on_its_way(now, (*stream, number), again_s, frames.get(number)):
                    if first < number:
                        ranges.append((first, number - 1))
                    first = number + 1
            if first <= last:
                ranges.append((first, last))
        return Nak(nak.stream, tuple(ranges), nak.asker, nak.attempt, nak.parts) if ranges else None

    def heard(self, now: Instant, again_s: float) -> None:
        """Any message from there. If it requested nothing for a while, nothing was lost, which counts too."""
        if self.rate is not None:
            self._judge(now, again_s)

    def _is_on_its_way(self, now: Instant, number: Number, again_s: float, missing: int | None) -> bool:
        """If not, it counts as lost: all its frames, or as many of them as are missing."""
        if number in self._pending:
            return True
        if number not in self._sent_at:
            return False
        sent_at, frames = self._sent_at[number]
        if sent_at > now - self._patience(again_s):
            return True
        del self._sent_at[number]
        lost = frames if missing is None else min(frames, missing)
        if sent_at >= self._now.began:
            self._now.lost += lost
        elif self._before is not None and sent_at >= self._before.began:
            self._before.lost += lost
        return False

    def _patience(self, again_s: float) -> float:
        """When what was sent must have arrived: a narrow path needs a while for each frame, and has a
        queue."""
        return 2 * (again_s + self._turn_s) + QUEUE_S

    def _judge_unlimited(self, now: Instant, again_s: float) -> None:
        """Judge the loss, once all that was sent has had its time to be requested."""
        if self._closed is None and self._probe.frames >= 2 * JUDGED:
            self._closed, self._probe = self._probe, LossProbe(now)
        closed = self._closed
        if closed is None or now < closed.ended + again_s:
            return
        unknown = closed.unknown
        if unknown and not closed.is_long and now < closed.ended + LONGEST_S:
            return
        self._closed = None
        if closed.is_long or now > closed.ended + again_s + LONGEST_S:
            # Asked for too late to be about the rate: the other end was cut off, or did not know the stream.
            self._evidence = 0.0
            return
        if self._probe.is_long:
            self._probe = LossProbe(now)  # by our own waiting
        closed.units -= unknown
        lost = closed.lost_share
        lost_units = lost * closed.units
        self._evidence = max(0.0, self._evidence + lost_units - ARRIVED * (closed.units - lost_units))
        if self._evidence >= EVIDENCE_THRESHOLD:
            arrived = closed.bytes * (1.0 - lost) / max(now - closed.began, 0.05)
            # It may have been cut for a moment: to say all of it again in about that time must be possible.
            self._lower(now, max(arrived, max(self._said) / LONGEST_S, self._least), lost, rate=None)
        elif not self._evidence:
            self._natural += REMEMBERED * (lost - self._natural)

    def _judge(self, now: Instant, again_s: float) -> None:
        """Judge the loss of the previous interval: what was sent since may still be requested."""
        elapsed, patience_s = now - self._now.began, self._patience(again_s)
        if elapsed < patience_s or (self._now.frames < JUDGED and elapsed < max(LONGEST_S, 2 * patience_s)):
            return
        self._now.ended = now
        window, self._before, self._now = self._before, self._now, SendWindow(now)
        if window is None or self.rate is None:
            return
        lost = window.lost_share
        if self._lowered is not None and lost > 0.7 * self._lowered[1]:
            # Much less was sent, and the same share of it was lost: this path loses that much at any rate.
            self._natural, self.rate = lost, max(self.rate, self._lowered[0])
            self._lowered = None
        elif lost > self._natural + LOSS_MARGIN + self._chance(window.frames):
            too_fast = self.rate if window.sent > USED * self.rate else inf
            to = max(self._least, 0.95 * window.arrived)
            self._lower(now, to, lost, rate=self.rate, too_fast=too_fast)
        else:
            self._lowered = None
            if self._waited_at >= window.began:
                carried = window.arrived / (1.0 - min(self._natural, 0.9))
                if window.sent > self._too_fast:
                    self._too_fast = inf  # it is not, or no longer
                near = MUCH_FASTER * self.rate > self._too_fast
                faster = FASTER if lost > self._natural + LOSS_MARGIN / 2 or near else MUCH_FASTER
                self.rate = min(faster * self.rate, max(self.rate, MUCH_FASTER * carried))
            elif now - self._waited_at > IDLE_S:
                self._unlimited(now)
            if lost < self._natural:
                self._natural += REMEMBERED * (lost - self._natural)
        since = now - 4 * max(LONGEST_S, patience_s)
        old = [number for number, (at, _) in self._sent_at.items() if at < since]
        for number in old:
            del self._sent_at[number]

    def _chance(self, frames: int) -> float:
        """How far chance may lift the loss of so many frames above the usual share; it is seldom more."""
        share = max(self._natural, LEAST_CHANCE)
        return 2.0 * sqrt(share * (1.0 - share) / max(1, frames))

    def _unlimited(self, now: Instant) -> None:
        self.rate, self._before, self._probe = None, None, LossProbe(now)
        self._closed, self._evidence = None, 0.0
        self._sent_at.clear()

    def _lower(
        self, now: Instant, to: float, lost: float, *, rate: float | None, too_fast: float = inf
    ) -> None:
        if rate is None:
            self._waited_at, self._due_at = now, now
        self._too_fast = too_fast
        self._lowered = (rate, lost) if rate is not None and to < 0.7 * rate else None
        self.rate = to
        # What is under way was sent too fast, and says nothing about the new rate.
        self._before, self._now = None, SendWindow(now)


def _size(frame: Frame) -> int:
    match frame:
        case Data(run=run) | Numbered(data=Data(run=run)):
            return len(run.block) + 64  # and what is around it, or about that
        case Parity(code=code):
            return len(code) + 64


def _lost_frames(nak: Nak, frame_bytes: int) -> dict[int, int]:
    """How many frames of messages that came in part are missing."""
    return {
        number: sum([-((first - last - 1) // frame_bytes) for first, last in missing])
        for number, missing in nak.parts
    }


def _last_number(unit: Unit) -> int:
    return unit[1]


def _number(group: Group, frame: Frame) -> Number | None:
    match frame:
        case Data(stream=stream, run=run) | Numbered(data=Data(stream=stream, run=run)):
            return (group, stream, run.first)
        case _:
            return None
