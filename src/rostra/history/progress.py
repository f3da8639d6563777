"""A progress line for everything that takes more than two seconds: how far Spark is.

Spark Connect reports progress to its clients; a session in our own process is asked from a thread. In a pipe
or a log, where a line cannot be redrawn, it is printed once.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.status import Status

from rostra.history.session import is_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_FOR_S: Final = 2.0
EVERY_S: Final = 0.25


class ProgressLine:
    """One line, from the third second on: on a terminal it is drawn again and again."""

    def __init__(self, doing: str) -> None:
        self._doing, self._began = doing, time.monotonic()
        self._console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._over = False

    def say(self, how_far: str = "") -> None:
        with self._lock:
            took = time.monotonic() - self._began
            if self._over or took < QUIET_FOR_S:
                return
            text = f"{self._doing}  {took:.0f} s  {how_far}".rstrip()
            if not self._console.is_terminal:
                print(f"{self._doing} ...", file=sys.stderr, flush=True)
                self._over = True
            elif self._status is None:
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
def waiting(doing: str, how_far: Callable[[], str] = str) -> Iterator[ProgressLine]:
    """Draw it from time to time; without `how_far`, for work that reports no progress, such as starting
    Spark."""
    line = ProgressLine(doing)
    over = threading.Event()

    def tick() -> None:
        with suppress(Exception):  # Java has ended: the job that uses it reports that
            while not over.wait(EVERY_S):
                line.say(how_far())

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
    if is_here(spark):
        with waiting(doing, lambda: how_far_here(spark)):
            yield
        return
    done_of = [0, 0]

    def hear(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        done_of[:] = (
            sum(stage.num_completed_tasks for stage in stages or ()),
            sum(stage.num_tasks for stage in stages or ()),
        )

    handler: Any = hear
    spark.registerProgressHandler(handler)
    try:
        with waiting(doing, lambda: tasks_done(*done_of)):
            yield
    finally:
        spark.removeProgressHandler(handler)


def how_far_here(spark: "SparkSession") -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(stage.numTasks for stage in stages if stage)
    done = sum(stage.numCompletedTasks for stage in stages if stage)
    return tasks_done(done, total)


def tasks_done(done: int, total: int) -> str:
    return f"{done} of {total} tasks" if total else ""
