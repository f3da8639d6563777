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
    looks = " ".join(re.findall(r"pytest .*-m (?:long|\"live).*", recipes))
    assert all(folder.rstrip("/") in looks.split() for folder in rules.LONG), looks


def run(directory: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run of tests of which one is slow and one cannot be run, by the rules of ours."""
    for kind in ("live", "cores"):
        (directory / "tests" / kind).mkdir(parents=True)
        for number in range(6):
            (directory / "tests" / kind / f"test_{kind}_{number}.py").write_text("def test_it(): pass\n")
    (directory / "tests/live/test_live_3.py").write_text("import time\ndef test_it(): time.sleep(0.5)\n")
    (directory / "tests/cores/test_cores_3.py").write_text(
        "import pytest\ndef test_it(): pytest.skip('no moon')\n"
    )
    command = [sys.executable, "-m", "pytest", "-v", "-p", "conftest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", ".", *words, "tests"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), **variables},
        cwd=directory,
        capture_output=True,
        text=True,
    )


def test_of_four_workers_two_begin_with_what_waits_and_the_end_says_what_was_slow_and_what_not_run(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, "-n", "4", ROSTRA_ALL_REQUIRED="")
    assert done.returncode == 0, done.stdout
    began = dict(reversed(re.findall(r"\[(gw\d)\].* [A-Z]+ tests/(\w+)/", done.stdout)))
    assert began == {"gw0": "cores", "gw1": "cores", "gw2": "live", "gw3": "live"}
    lines = done.stdout.splitlines()
    (slowest,) = [at for at, line in enumerate(lines) if "the ten slowest files" in line]
    assert lines[slowest + 1].endswith(" s  tests/live/test_live_3.py")
    assert "1 test: no moon" in lines


def test_where_all_is_required_a_test_that_cannot_be_run_has_failed(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "no:xdist", ROSTRA_ALL_REQUIRED="1")
    assert done.returncode == 1, done.stdout
    assert "not run, and ROSTRA_ALL_REQUIRED is set: no moon" in done.stdout


def test_xdist_still_asks_for_the_group_of_a_test_by_its_name() -> None:
    assert callable(LoadScopeScheduling._split_scope)
