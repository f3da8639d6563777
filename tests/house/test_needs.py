"""What the tests need is installed, or named in one line to type."""

import shutil
import subprocess
from pathlib import Path

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
