"""Something is said about anything that takes more than two seconds: how far Spark is, on one line.

Spark Connect tells its clients by itself; a session of our own is asked from a thread. In a pipe nothing is
drawn.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.status import Status

from rostra.history.session import is_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_FOR_S: Final = 2.0
EVERY_S: Final = 0.25


class Line:
    """One line on a terminal, drawn from the third second on."""

    def __init__(self, doing: str) -> None:
        self._doing, self._began = doing, time.monotonic()
        self._console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._over = not self._console.is_terminal

    def say(self, how_far: str = "") -> None:
        with self._lock:
            took = time.monotonic() - self._began
            if self._over or took < QUIET_FOR_S:
                return
            text = f"{self._doing}  {took:.0f} s  {how_far}".rstrip()
            if self._status is None:
                self._status = self._console.status(text, spinner="dots")
                self._status.start()
            else:
                self._status.update(text)

    def end(self) -> None:
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()


@contextmanager
def waiting(doing: str) -> Iterator[Line]:
    """For what says nothing of itself, such as the start of Spark."""
    line = Line(doing)
    over = threading.Event()

    def tick() -> None:
        while not over.wait(EVERY_S):
            line.say()

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        line.end()
        thread.join(1)


@contextmanager
def progress(spark: "SparkSession", doing: str) -> Iterator[None]:
    """While Spark works: so many of its tasks are done."""
    line = Line(doing)
    over = threading.Event()
    told = how_far_here if is_here(spark) else None

    def hear(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        total = sum(stage.num_tasks for stage in stages or ())
        ready = sum(stage.num_completed_tasks for stage in stages or ())
        line.say(f"{ready} of {total} tasks" if total else "")

    handler: Any = hear

    def ask() -> None:
        with suppress(Exception):  # a Java that has ended does not answer; whoever works with it says so
            while not over.wait(EVERY_S):
                line.say(told(spark) if told else "")

    if told is None:
        spark.registerProgressHandler(handler)
    thread = threading.Thread(target=ask, daemon=True)
    if told is not None:
        thread.start()
    try:
        yield
    finally:
        over.set()
        line.end()
        if told is None:
            spark.removeProgressHandler(handler)
        else:
            thread.join(1)


def how_far_here(spark: "SparkSession") -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(stage.numTasks for stage in stages if stage)
    done = sum(stage.numCompletedTasks for stage in stages if stage)
    return f"{done} of {total} tasks" if total else ""
