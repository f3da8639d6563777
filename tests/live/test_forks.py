"""What labs and commands are started by (`support.forks`): a fork does what the command itself does."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from support.forks import Forked
from support.lab import ROSTRA, WITHIN_S, until


def test_a_fork_says_what_the_command_says_and_ends_as_it_does(tmp_path: Path) -> None:
    words = ["members", "chess", "--agent", str(tmp_path / "nowhere")]
    real = subprocess.run([*ROSTRA, *words], capture_output=True, text=True, timeout=WITHIN_S)
    fork = Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    assert (*fork.communicate(timeout=WITHIN_S), fork.returncode) == (
        *(real.stdout, real.stderr),
        real.returncode,
    )
    assert real.returncode == 4 and "nowhere" in real.stderr


def test_a_fork_has_an_environment_and_a_directory_of_its_own(tmp_path: Path) -> None:
    environ = {**os.environ, "ROSTRA_AGENT": "of-this-fork"}
    fork = Forked(["members", "chess"], env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with fork:
        assert fork.stderr is not None and "of-this-fork" in fork.stderr.read()
    assert "ROSTRA_AGENT" not in os.environ or os.environ["ROSTRA_AGENT"] != "of-this-fork"

    storms = Forked(["sim", "storm", "--seeds", "100000"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        assert storms.pid != os.getpid() and storms.poll() is None
        asyncio.run(until(lambda: os.readlink(f"/proc/{storms.pid}/cwd") == str(tmp_path), "it is there"))
    finally:
        storms.kill()
    assert storms.wait(WITHIN_S) == -signal.SIGKILL
    assert not Path(f"/proc/{storms.pid}").exists()
