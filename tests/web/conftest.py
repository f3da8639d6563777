"""Browsers for tests of the dashboard."""

import contextlib
from collections.abc import Iterator

import pytest
from support.browser import NARROW, WIDE, Browser, Font, why_no_browser
from support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from support.stage import Stage, stage


@contextlib.contextmanager
def opened(font: Font) -> Iterator[Browser]:
    why = why_no_browser()
    if why is not None:
        pytest.skip(why)
    with Browser.open(font) as browser:
        yield browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests. Its font is a wide one: a page that fits in it fits in most."""
    with opened(WIDE) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser as if it were new. Nothing may go wrong in a page that no test looked for."""
    yield from as_new(chromium)


def as_new(browser: Browser) -> Iterator[Browser]:
    browser.reset()
    yield browser
    assert [each for each in browser.complaints() if "/api/events" not in each] == []


@pytest.fixture(scope="session")
def narrow() -> Iterator[Browser]:
    with opened(NARROW) as browser:
        yield browser


@pytest.fixture(params=["chromium", "narrow"], ids=["wide", "narrow"])
def in_each_font(request: pytest.FixtureRequest) -> Iterator[Browser]:
    yield from as_new(request.getfixturevalue(request.param))


@pytest.fixture
def world() -> Iterator[Stage]:
    with stage() as opened:
        yield opened
