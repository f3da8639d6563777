"""Tests of the dashboard. Coroutines run in a loop of their own, and not for ever; those that need a browser
say so loudly if there is none."""

import asyncio
import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Browser, why_no_browser
from support.stage import Stage, stage

TEST_TIMEOUT_S = 300.0
"""Ends what would hang for ever. No test measures with it."""


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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    why = why_no_browser()
    if why is not None:
        warnings.warn(f"NO BROWSER: {why}. The dashboard's pages are NOT tested.", stacklevel=1)
        pytest.skip(why)
    with Browser.open() as opened:
        yield opened


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser as if it were new. Nothing may go wrong in a page that no test looked for."""
    chromium.reset()
    yield chromium
    assert [each for each in chromium.complaints() if "/api/events" not in each] == []


@pytest.fixture
def world() -> Iterator[Stage]:
    with stage() as opened:
        yield opened
