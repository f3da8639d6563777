"""Tests that share something costly share a worker; a scheduler that forgets it makes everything twice."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


@pytest.fixture
def rules(pytestconfig: pytest.Config) -> Any:
    (found,) = [each for each in pytestconfig.pluginmanager.get_plugins() if hasattr(each, "together")]
    return found


@pytest.fixture
def together(rules: Any) -> Callable[[str], str]:
    rule: Callable[[str], str] = rules.together
    return rule


def test_tests_of_one_world_share_a_worker(together: Callable[[str], str]) -> None:
    assert together("tests/live/test_up.py::one") == together("tests/live/test_up.py::two")
    assert together("tests/live/test_up.py::one") != together("tests/live/test_lab.py::one")
    assert together("tests/live/test_benchmarks.py::one") != together("tests/live/test_benchmarks.py::two")
    assert together("tests/faults/test_storms.py::one") != together("tests/faults/test_storms.py::two")


def test_there_are_two_sparks_and_no_more(together: Callable[[str], str]) -> None:
    files = ("test_audits.py", "test_report.py", "test_ingest.py", "test_sample.py", "test_questions.py")
    assert len({together(f"tests/history/{file}::any") for file in files}) == 2


def test_make_looks_for_tests_where_they_may_be(rules: Any) -> None:
    recipes = (Path(__file__).parents[2] / "Makefile").read_text()
    for mark, folders in rules.HOME.items():
        (recipe,) = re.findall(rf"pytest -q -n 2 -m \"?{mark}.*", recipes)
        assert all(folder.rstrip("/") in recipe.split() for folder in folders), recipe


def test_xdist_still_asks_for_the_group_of_a_test_by_its_name() -> None:
    assert callable(LoadScopeScheduling._split_scope)
