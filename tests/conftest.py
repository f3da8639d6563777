"""What every test may ask for, and what is said of all of them at the end."""

import gc
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

# A machine that is busy with something else is no reason to fail; a failure must print how to repeat it.
settings.register_profile("rostra", deadline=None, print_blob=True)
settings.load_profile("rostra")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write what the code does now into the golden files; the diff is the review",
    )


# With several workers: who shares a world or a Spark stays in one worker, else each would start its own.

ALONE = {"test_benchmarks.py", "test_journal.py"}
"""Live tests of which each has a world of its own."""

COURT = {
    *("test_audits.py", "test_clean.py", "test_led_audits.py", "test_order_audits.py", "test_parity.py"),
    *("test_plants.py", "test_sample.py", "test_view_audits.py"),
}
"""They share one history (the fixture `court`), which is half of what Spark takes. In two workers all of it
would be lived and judged twice."""


def together(nodeid: str) -> str:
    """Tests of which this says the same run one after another in one worker."""
    path = nodeid.partition("::")[0]
    folder, _, file = path.rpartition("/")
    if folder == "tests/history":
        return "the long half of Spark" if file in COURT else "the other half of Spark"
    if folder == "tests/faults" or file in ALONE:  # long ones, and nothing is shared
        return nodeid
    return path


FIRST = tuple(
    f"tests/live/test_{few_but_long}.py"
    for few_but_long in (
        *("audited", "warm", "tutorial", "replicas", "fifo_lossy", "led", "agreed"),
        *("hierarchy", "clocks", "full_disk", "submitting", "authorities"),
    )
)
"""Files of many tests are first anyway. What is left for the end is short, so that workers end at the same
time."""

COMPUTING = ("gw0", "gw1")
"""Of three workers, those that begin with what computes, and step back for the third whenever it needs the
processor: live tests and the browser wait most of their time."""


def waits(scope: str) -> bool:
    return scope.startswith(tuple(folder for folders in HOME.values() for folder in folders))


YOUNG_OBJECTS = 50_000
"""So many new ones before Python looks for garbage among them. Raising it: memory. Lowering it: with 700, its
own measure, every seventh second of small tests goes into that."""


def pytest_collection_finish() -> None:
    """What tests are made of is here to stay."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 5, 5)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected
    worker = getattr(config, "workerinput", None)
    if worker is not None and worker["workercount"] > len(COMPUTING) and worker["workerid"] in COMPUTING:
        os.nice(5)


# `make live` and `make browser` look for their tests in these folders only, since looking takes its time.

HOME = {"live": ("tests/live/", "tests/cli/", "tests/attacks/"), "browser": ("tests/web/",)}

LONG = ("tests/faults/", "tests/testing/", "tests/history/", "tests/live/")
"""Where `make long-storms`, `make long-history` and `make long-live` look for what takes long."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        sizes = Counter(together(item.nodeid) for item in items)
        items.sort(key=lambda item: (together(item.nodeid) not in FIRST, -sizes[together(item.nodeid)]))
    for item in items:
        if "court" in getattr(item, "fixturenames", ()) and item.path.name not in COURT:
            raise pytest.UsageError(f"{item.nodeid} asks for the court: name its file in COURT")
        if item.get_closest_marker("long") and not item.nodeid.startswith(LONG):
            raise pytest.UsageError(f"{item.nodeid} takes long, and no target of make would find it")
        for mark, folders in HOME.items():
            is_so = item.get_closest_marker(mark) and not (
                mark == "live" and item.get_closest_marker("browser")
            )
            if is_so and not item.nodeid.startswith(folders):
                raise pytest.UsageError(f"{item.nodeid} is {mark}, and `make {mark}` would not find it")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By the names of tests, and not by `xdist_group`: pytest 9 and xdist 3.8 together ignore that mark."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return together(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            computes = node.gateway.id in COMPUTING
            preferred = next((scope for scope in self.workqueue if waits(scope) != computes), None)
            if preferred is not None:
                self.workqueue.move_to_end(preferred, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False  # workers have sorted them
    return Together(config, log)


ALL_REQUIRED = "ROSTRA_ALL_REQUIRED"
"""Set in CI, where a test that cannot be run has failed."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(ALL_REQUIRED):
        report.outcome = "failed"
        report.longrepr = f"not run, and {ALL_REQUIRED} is set: {why_not_run(report)}"
    return report


def why_not_run(report: pytest.TestReport) -> str:
    _, _, reason = report.longrepr  # type: ignore[misc]
    return str(reason).removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for some in terminalreporter.stats.values()
        for report in some
        if isinstance(report, pytest.TestReport)
    ]
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
    if len(seconds) > 10:
        terminalreporter.section("the ten slowest files")
        for file, took in seconds.most_common(10):
            terminalreporter.line(f"{took:7.1f} s  {file}")
    not_run = Counter(why_not_run(report) for report in reports if report.skipped)
    if not_run:
        terminalreporter.section("NOT RUN")
        for why, tests in not_run.most_common():
            terminalreporter.line(f"{tests} test{'s' * (tests > 1)}: {why}")


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    """Shall this test write its golden file anew, instead of comparing with it?"""
    return bool(request.config.getoption("--rewrite-goldens"))
