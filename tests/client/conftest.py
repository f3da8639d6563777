"""A real agent, alone on a host, for what cannot be pretended: sockets, threads and signals."""

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it listens. Its cluster's server does not exist, so its world is this host."""
    home = tmp_path_factory.mktemp("agent")
    world, socket = home / "world.toml", home / "socket"
    world.write_text('[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n')
    command = [sys.executable, "-m", "rostra", "agent", "lab.h1", "--world", str(world)]
    with subprocess.Popen(
        [*command, "--socket", str(socket), "--state", str(home)], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while "listening" not in said:
                said = process.stderr.readline()
                assert said, "the agent ended before it listened"
            yield str(socket)
        finally:
            process.terminate()
            process.communicate()
