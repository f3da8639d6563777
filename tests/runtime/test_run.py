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

from rostra.client import connect, connect_admin
from rostra.errors import StoreFailed

TOLD_WHILE_OPENING = """
import os, sys
from rostra.cli import main
from rostra.runtime.listener import Listener

number, listen = int(sys.argv.pop()), Listener.listen

async def told_to_stop(door, *where):
    opened = await listen(door, *where)
    os.kill(os.getpid(), number)
    return opened

Listener.listen = told_to_stop
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


def test_a_full_disk_refuses_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    world, socket = tmp_path / "world.toml", tmp_path / "socket"
    world.write_text('[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n')
    words = ["agent", "lab.h1", "--world", str(world), "--socket", str(socket), "--state", str(tmp_path)]

    def group(number: int) -> str:
        return f"group-{number}-{'x' * 200}"

    async def fill(agent: int) -> None:
        async with connect_admin(str(socket)) as admin, connect(str(socket), name="ann") as ann:
            await admin.register(group(0), "lab.h1")
            _, unlimited = resource.prlimit(agent, resource.RLIMIT_FSIZE)
            size = max(each.stat().st_size for each in tmp_path.glob("*.sqlite*"))  # and no more than that
            resource.prlimit(agent, resource.RLIMIT_FSIZE, (size, unlimited))
            with pytest.raises(StoreFailed, match="cannot write") as refused:
                for number in range(1, 1000):
                    await admin.register(group(number), "lab.h1")
            assert refused.value.retriable and "free some space" in refused.value.fix
            registered = str((await admin.inspect())["core"]["registry"])
            assert group(number - 1) in registered and group(number) not in registered
            async with ann.join("chess", "lab.h1"):
                assert len((await ann.resolve("chess", "lab.h1")).members) == 1
            counters = (await admin.inspect())["counters"]
            assert counters["disk_refused{records}"] >= 1
            resource.prlimit(agent, resource.RLIMIT_FSIZE, (unlimited, unlimited))
            async with asyncio.timeout(60):
                while group(number) not in str((await admin.inspect())["core"]["registry"]):
                    with contextlib.suppress(StoreFailed):
                        await admin.register(group(number), "lab.h1")

    with subprocess.Popen(
        [sys.executable, "-m", "rostra", *words], stderr=subprocess.PIPE, text=True
    ) as agent:
        try:
            assert agent.stderr is not None
            while " configured " not in (said := agent.stderr.readline()):
                assert said, "it ended before it was configured"
            asyncio.run(fill(agent.pid))
            agent.terminate()
            told = agent.stderr.read()
            assert agent.wait(WITHIN_S) == 0
        finally:
            agent.kill()
    assert "Traceback" not in told
    assert " disk_refused node=lab.h1 what=records because='cannot write " in told
