"""Tests of the dashboard. Coroutines run in a loop of their own, and not for ever; those that need a browser
say so loudly if there is none."""

import warnings
from collections.abc import Iterator

import pytest
from support.browser import Browser, why_no_browser
from support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from support.stage import Stage, stage


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
