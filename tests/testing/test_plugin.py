"""The plugin, as a project that uses it would meet it: a run of pytest of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
import asyncio, rostra
from rostra.testing import Worlds

def test_plain(rostra_world: Worlds):
    world = rostra_world({"eu.paris": 1})
    world.run(for_s=5)
    assert world.now > 5

async def test_coroutine(rostra_world: Worlds):
    world = rostra_world({"eu.paris": 1})
    async with rostra.connect("eu.paris.h1") as me, me.join("chess") as chess:
        await chess.ready()
        await asyncio.sleep(600)
    assert world.now > 600

def test_without_a_world():
    pass
"""

FAILS = """
import asyncio, rostra
from rostra.testing import Worlds

async def test_that_fails(rostra_world: Worlds):
    world = rostra_world({"eu.paris": 1, "us.boston": 1})
    async with rostra.connect("eu.paris.h1", name="ann") as me, me.join("chess") as chess:
        await chess.ready()
        world.cut("eu | us")
        await world.settled()
        assert world.now == 0, "no"

def test_that_fails_at_its_end(rostra_world: Worlds):
    world = rostra_world({"eu.paris": 1})
    async def program():
        try:
            await asyncio.sleep(100)
        finally:
            raise ValueError("unseen")
    world.start("eu.paris.h1", program())
    world.run(for_s=1)

def test_two_worlds(rostra_world: Worlds):
    rostra_world({"eu.paris": 1})
    rostra_world({"eu.paris": 1})
"""


OTHERS = [
    word for name in ("cacheprovider", "hypothesispytest", "xdist", "anyio") for word in ("-p", f"no:{name}")
]
"""Plugins that happen to be installed here: they take longer to load than these tests to run."""


def run(directory: Path, source: str, *arguments: str) -> tuple[int, str]:
    (directory / "test_it.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *OTHERS, *arguments, "test_it.py"],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_plain_tests_and_coroutines_run_in_worlds_of_their_own(tmp_path: Path) -> None:
    code, output = run(tmp_path, TEST)
    assert (code, "3 passed" in output) == (0, True), output


def test_each_test_of_a_world_can_be_run_with_many_seeds(tmp_path: Path) -> None:
    code, output = run(tmp_path, TEST, "--rostra-seeds", "5", "--rostra-seed", "7", "-vv")
    assert (code, "11 passed" in output) == (0, True), output
    assert "test_plain[7]" in output and "test_coroutine[11]" in output and "test_without_a_world " in output


def test_a_failure_says_how_to_repeat_it_and_what_happened(tmp_path: Path) -> None:
    code, output = run(tmp_path, FAILS, "--rostra-seed", "42")
    assert code == 1 and "2 failed" in output and "1 error" in output, output
    assert "seed 42; to repeat:  pytest test_it.py::test_that_fails --rostra-seed 42" in output
    assert "cut eu | us" in output and re.search(r"\[eu\] +us is down: silent", output)
    assert "unseen" in output and "this test has a world already" in output


def test_the_command_that_a_failure_prints_repeats_it_line_by_line(tmp_path: Path) -> None:
    def trace(*arguments: str) -> str:
        _, output = run(tmp_path, FAILS, "-k", "test_that_fails and not end", *arguments)
        section = re.search(r"-+ rostra world -+\n(.*?)\n=", output, re.S)
        assert section is not None, output
        return section[1]

    first = trace("--rostra-seed", "3")
    command = re.search(r"to repeat:  pytest (\S+) (.*)", first)
    assert command is not None and command[1] == "test_it.py::test_that_fails"
    assert trace(*command[2].split()) == first
    assert trace("--rostra-seed", "4") != first


@pytest.mark.parametrize("module", ["rostra.sim", "asyncio", "rostra.client"])
def test_the_plugin_itself_costs_other_projects_nothing(module: str) -> None:
    code = f"import sys; import _pytest, rostra.testing.plugin; print({module!r} in sys.modules)"
    without = f"import sys; import pytest; print({module!r} in sys.modules)"
    loaded, usual = (
        subprocess.check_output([sys.executable, "-c", each], text=True).strip() for each in (code, without)
    )
    assert loaded == usual
