"""Tests that share something costly share a worker; a scheduler that forgets it makes everything twice."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[2]


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
    recipes = (ROOT / "Makefile").read_text()
    for mark, folders in rules.HOME.items():
        (recipe,) = re.findall(rf"pytest -q -n 2 -m \"?{mark}.*", recipes)
        assert all(folder.rstrip("/") in recipe.split() for folder in folders), recipe


def test_of_four_workers_two_begin_with_what_waits(tmp_path: Path) -> None:
    for kind in ("live", "cores"):
        (tmp_path / "tests" / kind).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "tests" / kind / f"test_{kind}_{number}.py").write_text("def test_it(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n", "4", "-p", "conftest", "--rootdir", ".", "tests"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    ran = re.findall(r"\[(gw\d)\].* PASSED tests/(\w+)/", done.stdout)
    assert len(ran) == 8, done.stdout
    assert {kind for worker, kind in ran if worker in ("gw0", "gw1")} == {"cores"}
    assert {kind for worker, kind in ran if worker in ("gw2", "gw3")} == {"live"}


def test_xdist_still_asks_for_the_group_of_a_test_by_its_name() -> None:
    assert callable(LoadScopeScheduling._split_scope)
