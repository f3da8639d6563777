"""What pytest learns from this package: the fixture `rostra_world`, and how to repeat a failure.

    def test_it(rostra_world):                              async def test_it(rostra_world):
        world = rostra_world({"eu.paris": 2})                   world = rostra_world({"eu.paris": 2})
        world.start("eu.paris.h1", program())                   me = await rostra.connect("eu.paris.h1")
        world.run(for_s=10)                                     await asyncio.sleep(10)

A test that is a coroutine and asks for `rostra_world` runs in the world's own time. ``--rostra-seed 7`` is
the seed of every world; ``--rostra-seeds 50`` runs each such test with fifty of them.

This module is imported in every run of pytest, so the simulator itself is imported only by tests that ask.
"""

import inspect
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from rostra.testing.worlds import Worlds

TRACE_LINES: Final = 40
"""The end of the trace that is shown with a failure."""

_WORLDS: Final = pytest.StashKey["Worlds"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options = parser.getgroup("rostra")
    options.addoption("--rostra-seed", type=int, default=0, help="the seed of every rostra_world")
    options.addoption(
        "--rostra-seeds", type=int, default=1, help="run each test of a rostra_world with so many seeds"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, count = (metafunc.config.getoption(name) for name in ("rostra_seed", "rostra_seeds"))
    if "rostra_seed" in metafunc.fixturenames and count > 1:
        metafunc.parametrize("rostra_seed", range(first, first + count), indirect=True)


@pytest.fixture
def rostra_seed(request: pytest.FixtureRequest) -> int:
    """What all chance in the test's world comes from."""
    seed: int = getattr(request, "param", request.config.getoption("rostra_seed"))
    return seed


@pytest.fixture
def rostra_world(request: pytest.FixtureRequest, rostra_seed: int) -> "Iterator[Worlds]":
    """Builds the world of this test: ``rostra_world({"eu.paris": 2, "us.boston": 2})``."""
    from rostra.testing.worlds import Worlds

    worlds = Worlds(rostra_seed)
    request.node.stash[_WORLDS] = worlds
    yield worlds
    worlds.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    worlds = pyfuncitem.stash.get(_WORLDS, None)
    if worlds is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    worlds.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    worlds = item.stash.get(_WORLDS, None)
    report = outcome.get_result()
    if worlds is not None and report.failed:
        place, _, _ = item.nodeid.partition("[")
        lines = [f"seed {worlds.seed}; to repeat:  pytest {place} --rostra-seed {worlds.seed}"]
        if trace := worlds.trace:
            skipped = len(trace) - TRACE_LINES
            lines += ["", f"the last of what happened{f' ({skipped} lines before)' if skipped > 0 else ''}:"]
            lines += trace[-TRACE_LINES:]
        report.sections.append(("rostra world", "\n".join(lines)))
