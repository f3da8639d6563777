"""What the tests need is installed or named; what could not be run is said, and in CI is a failure."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ALWAYS_THERE = ("sh", "find", "grep", "python3")
"""On a bare Debian with Python."""


def needs(tmp_path: Path, uid: int, *words: str, apt: str = "exit 0") -> tuple[list[str], list[str]]:
    """What `tools/needs` says on a machine that has next to nothing, and how it calls apt-get there."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ALWAYS_THERE:
        (programs / name).symlink_to(shutil.which(name) or name)
    calls = tmp_path / "calls"
    calls.touch()
    for name, script in {"id": f"echo {uid}", "apt-get": f'echo "$@" >> {calls}; {apt}'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / "tools" / "needs", *words], env={"PATH": str(programs)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines(), calls.read_text().splitlines()


def test_root_has_it_installed_and_is_told_first(tmp_path: Path) -> None:
    (said,), (update, install) = needs(tmp_path, 0)
    assert said.startswith("installing what the tests need (once): ")
    assert update.startswith("update")
    for package in ("default-jre-headless", "redis-server", "chromium", "chromium-driver", "curl"):
        assert package in install.split() and package in said.split()


def test_others_are_given_one_line_to_type(tmp_path: Path) -> None:
    said, calls = needs(tmp_path, 1000)
    assert calls == []
    assert said[1].startswith("  apt-get install -y ") and "default-jre-headless" in said[1]


def test_afterwards_the_line_is_only_said(tmp_path: Path) -> None:
    said, calls = needs(tmp_path, 0, "--say")
    assert calls == [] and said[1].startswith("  apt-get install -y ")


def test_without_a_network_the_tests_go_on_with_what_there_is(tmp_path: Path) -> None:
    said, _ = needs(tmp_path, 0, apt="exit 100")
    assert said[1].startswith("it could not be installed") and said[2].startswith("  apt-get install -y ")


@pytest.mark.parametrize("required", [False, True])
def test_what_was_not_run_is_said_and_a_failure_where_all_is_required(tmp_path: Path, required: bool) -> None:
    for number in range(11):
        (tmp_path / f"test_{number}.py").write_text("def test_it(): pass\n")
    (tmp_path / "test_late.py").write_text("import time\ndef test_it(): time.sleep(0.2)\n")
    (tmp_path / "test_skipped.py").write_text("import pytest\ndef test_it(): pytest.skip('no moon')\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "ROSTRA_ALL_REQUIRED": "1" * required}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "conftest", "-c", "/dev/null", str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == required, done.stdout
    lines = done.stdout.splitlines()
    (slowest,) = [at for at, line in enumerate(lines) if "the ten slowest files" in line]
    assert lines[slowest + 1].endswith("test_late.py")
    if required:
        assert any("not run, and ROSTRA_ALL_REQUIRED is set: no moon" in line for line in lines)
    else:
        assert "1 test: no moon" in lines
