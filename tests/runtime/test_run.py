"""From settings to a running process, and back to nothing."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOLD_WHILE_OPENING = """
import os, sys
from rostra.cli import main
from rostra.runtime.door import Door

number, listen = int(sys.argv.pop()), Door.listen

async def told_to_stop(door, *where):
    opened = await listen(door, *where)
    os.kill(os.getpid(), number)
    return opened

Door.listen = told_to_stop
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_told_to_stop_while_it_starts_shuts_down_as_at_any_other_time(
    tmp_path: Path, number: signal.Signals
) -> None:
    world, socket = tmp_path / "world.toml", tmp_path / "socket"
    world.write_text('[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n')
    agent = ["agent", "lab.h1", "--world", str(world), "--socket", str(socket), "--state", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-c", TOLD_WHILE_OPENING, *agent, str(int(number))],
        timeout=30,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"{number.name} received" in ended.stderr
    assert not socket.exists(), "its door is closed behind it"
