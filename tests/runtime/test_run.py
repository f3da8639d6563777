"""From settings to a running process, and back to nothing."""

import asyncio
import contextlib
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.lab import WITHIN_S

from rostra.client import connect_admin
from rostra.errors import RostraError

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
        timeout=WITHIN_S,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"{number.name} received" in ended.stderr
    assert not socket.exists(), "its door is closed behind it"


def test_a_full_disk_ends_an_agent_with_one_line_that_says_so(tmp_path: Path) -> None:
    world, socket = tmp_path / "world.toml", tmp_path / "socket"
    world.write_text('[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n')
    words = ["agent", "lab.h1", "--world", str(world), "--socket", str(socket), "--state", str(tmp_path)]

    async def fill() -> None:
        async with connect_admin(str(socket)) as admin:
            for number in range(1000):
                await admin.register(f"group-{number}-{'x' * 200}", "lab.h1")

    with subprocess.Popen(
        [sys.executable, "-m", "rostra", *words], stderr=subprocess.PIPE, text=True
    ) as agent:
        try:
            assert agent.stderr is not None
            while " configured " not in (said := agent.stderr.readline()):
                assert said, "it ended before it was configured"
            resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (32_768, 32_768))
            with contextlib.suppress(RostraError):
                asyncio.run(fill())
            told = agent.stderr.read()
            agent.wait(WITHIN_S)
        finally:
            agent.kill()
    assert agent.returncode == 1
    assert "Traceback" not in told
    assert " failed because='cannot write " in told.splitlines()[-1]
