"""A pretend world and its dashboard behind a thread, for tests that wait for a browser."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from support.pretend import Pretend, pretending

TIMEOUT_S = 60.0

T = TypeVar("T")


class Stage:
    """A pretend world and its dashboard, in a thread of their own, so that a test may wait for a browser."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._play(),))
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._pretend: Pretend | None = None
        self.address = ""

    async def _play(self) -> None:
        async with pretending(**self._options) as (pretend, address):
            self._pretend, self.address = pretend, f"http://{address}"
            self._ready.set()
            await self._stop.wait()

    def open(self) -> "Stage":
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S), "the pretend world did not come up"
        return self

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(TIMEOUT_S)

    def do(self, act: Callable[[Pretend], T]) -> T:
        """Do something to the world, between two of its turns."""

        async def acting() -> T:
            assert self._pretend is not None
            return act(self._pretend)

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(TIMEOUT_S)


@contextlib.contextmanager
def stage(**options: Any) -> Iterator[Stage]:
    opened = Stage(**options).open()
    try:
        yield opened
    finally:
        opened.close()
