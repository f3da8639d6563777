"""Tests that share something costly share a worker; a scheduler that forgets it makes everything twice."""

from collections.abc import Callable

import pytest
from xdist.scheduler import LoadScopeScheduling


@pytest.fixture
def together(pytestconfig: pytest.Config) -> Callable[[str], str]:
    (found,) = [each for each in pytestconfig.pluginmanager.get_plugins() if hasattr(each, "together")]
    rule: Callable[[str], str] = found.together
    return rule


def test_tests_of_one_world_share_a_worker(together: Callable[[str], str]) -> None:
    assert together("tests/live/test_up.py::one") == together("tests/live/test_up.py::two")
    assert together("tests/live/test_up.py::one") != together("tests/live/test_lab.py::one")
    assert together("tests/live/test_benchmarks.py::one") != together("tests/live/test_benchmarks.py::two")
    assert together("tests/cores/test_names.py::one") != together("tests/cores/test_names.py::two")


def test_there_are_two_sparks_and_no_more(together: Callable[[str], str]) -> None:
    files = ("test_audits.py", "test_report.py", "test_ingest.py", "test_sample.py", "test_questions.py")
    assert len({together(f"tests/history/{file}::any") for file in files}) == 2


def test_xdist_still_asks_for_the_group_of_a_test_by_its_name() -> None:
    assert callable(LoadScopeScheduling._split_scope)
