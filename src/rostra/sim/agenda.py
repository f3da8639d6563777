"""The event queue of a simulated world.

    heap of (when, turn, what, to whom)
        │ pop the earliest: now = when
        ▼
    what(whom, about), which puts more into the heap

Events of one instant run in the order in which they were scheduled.
"""

import heapq
import math
from collections.abc import Callable
from typing import Any


class Agenda:
    """`rest` is called at the end of each instant; it returns whether there was anything to do."""

    def __init__(self, rest: Callable[[], bool]) -> None:
        self.now = 0.0
        self.events = 0  # handled since the beginning
        self.running = False
        self._rest = rest
        self._heap: list[tuple[float, int, Callable[[Any, Any], None], Any, Any]] = []
        self._turn = 0

    def at(self, when: float, what: Callable[[Any, Any], None], whom: Any, about: Any) -> None:
        self._turn += 1
        heapq.heappush(self._heap, (when, self._turn, what, whom, about))

    @property
    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def run_until(self, until: float) -> None:
        heap, pop = self._heap, heapq.heappop
        self.running = True
        try:
            while True:
                if not (heap and heap[0][0] <= self.now) and self._rest():
                    continue
                if not heap or heap[0][0] > until:
                    break
                self.now, _, what, whom, about = pop(heap)
                self.events += 1
                what(whom, about)
        finally:
            self.running = False
        self.now = max(self.now, until)
