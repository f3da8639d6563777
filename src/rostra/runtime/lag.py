"""How late is our own event loop? Measured all the time: a node whose loop is late suspects its peers.

A timer that is due every 250 ms measures how much later it runs, for a histogram. A long delay is recorded:
it explains why others suspected us. For every turn the time away from the sockets and the processor time are
measured too.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from rostra.observe.log import EventLog

EVERY_S: Final = 0.25

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds; one more bucket takes the rest."""

LATE_S: Final = 0.5
"""Recorded, at most once a minute."""

SAMPLE_S: Final = 0.002
"""How old the reading of our processor time may be when a turn begins: to ask for it costs a system call. A
turn seems longer by as much at most."""

WORST_OF: Final = 240
"""The worst of this many looks is shown: of the last minute."""


class Lag:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, record: EventLog, cpu_clock: Callable[[], float]
    ) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0
        self._latest: deque[float] = deque(maxlen=WORST_OF)
        self._silences: deque[float] = deque([0.0], maxlen=WORST_OF)  # the longest turn between two looks
        self._turns_cpu: deque[float] = deque([0.0], maxlen=WORST_OF)
        self._cpu_clock = cpu_clock
        self.cpu_s = cpu_clock()  # when a turn ended, at most `SAMPLE_S` before the last one did
        self._sampled_at = -inf
        self._loop = loop
        self._record = record
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure: the start of the process is not a turn."""
        self.cpu_s = self._cpu_clock()
        self._arm()

    def _arm(self) -> None:
        self._due = self._loop.time() + EVERY_S
        self._timer = self._loop.call_at(self._due, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def worst_s(self) -> float:
        """The longest delay of the last minute."""
        return max(self._latest, default=0.0)

    @property
    def silent_s(self) -> float:
        """The longest that the loop did not come back to its sockets, in the last minute."""
        return max(self._silences)

    @property
    def turn_cpu_s(self) -> float:
        """The longest turn in our own processor time, in the last minute."""
        return max(self._turns_cpu)

    def turn_ended(self, began: float, now: float) -> None:
        if now - began > self._silences[-1]:
            self._silences[-1] = now - began
        if now - self._sampled_at >= SAMPLE_S:
            cpu_s = self._cpu_clock()
            self._turns_cpu[-1] = max(self._turns_cpu[-1], cpu_s - self.cpu_s)
            self.cpu_s = cpu_s
            self._sampled_at = now

    def _look(self) -> None:
        late_s = max(0.0, self._loop.time() - self._due)
        self.counts[bisect_left(BUCKETS_S, late_s)] += 1
        self.sum_s += late_s
        self._latest.append(late_s)
        self._silences.append(0.0)
        self._turns_cpu.append(0.0)
        if late_s >= LATE_S:
            self._record.note_rarely(
                "loop_late", "loop_late", late_s=round(late_s, 3), because="busy or stopped"
            )
        self._arm()
