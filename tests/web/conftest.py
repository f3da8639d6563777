"""Tests of the dashboard. Coroutines run in a loop of their own, and not for ever; those that need a browser
say so loudly if there is none."""

import asyncio
import contextlib
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from support.browser import Browser, why_no_browser
from support.pretend import Pretend, pretending

TEST_TIMEOUT_S = 60.0

T = TypeVar("T")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(_in_time(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})))
    return True


async def _in_time(test: Any) -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S):
        await test


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
        assert self._ready.wait(TEST_TIMEOUT_S), "the pretend world did not come up"
        return self

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(TEST_TIMEOUT_S)

    def do(self, act: Callable[[Pretend], T]) -> T:
        """Do something to the world, between two of its turns."""

        async def acting() -> T:
            assert self._pretend is not None
            return act(self._pretend)

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(TEST_TIMEOUT_S)


@contextlib.contextmanager
def stage(**options: Any) -> Iterator[Stage]:
    opened = Stage(**options).open()
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="session")
def chromium() -> None:
    """Ask for this in tests that open a browser."""
    why = why_no_browser()
    if why is not None:
        warnings.warn(f"NO BROWSER: {why}. The dashboard's pages are NOT tested.", stacklevel=1)
        pytest.skip(why)


@pytest.fixture
def world() -> Iterator[Stage]:
    with stage() as opened:
        yield opened


@pytest.fixture
def browser(chromium: None) -> Iterator[Browser]:
    """A fresh browser. Nothing may go wrong in the page that nobody looked at."""
    with Browser.open() as opened:
        yield opened
        assert opened.complaints() == []
