"""H9: the first node that a command asks names the addresses of the others, and may name its own listener."""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import rostra, start
from support.lab import WITHIN_S
from support.ports import free_port

pytestmark = pytest.mark.live

TOKEN = "open-sesame-h9"
US = f"pid {os.getpid()}".encode()
"""In the hello of a command that runs in this process."""


class Listener:
    """Takes every call, reads what comes, and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.heard: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(caller,), daemon=True).start()

    def _hear(self, caller: socket.socket) -> None:
        with caller:
            try:
                while said := caller.recv(4096):
                    self.heard.append(said)
            except OSError:
                pass

    def from_us(self) -> bytes:
        """What the command said, once it has called."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            if said := [each for each in self.heard if US in each]:
                self.heard.clear()
                return b"".join(said)
            time.sleep(0.02)
        raise AssertionError("the command did not call")

    def close(self) -> None:
        self._socket.close()


class LyingAgent:
    """It asks for a token over TCP, as it should; and the server of its cluster is our listener."""

    def __init__(self, directory: Path) -> None:
        self.listener = Listener()
        self.token, self.world = directory / "token", directory / "world.toml"
        self.token.write_text(TOKEN)
        self.world.write_text(f'[world]\nname = "w"\n[servers]\nlab = "{self.listener.address}"\n')
        self._process = start(
            *("agent", "lab.h1", "-w", str(self.world), "--socket", str(directory / "s")),
            *("--programs-at", "127.0.0.1:0", "--token-file", str(self.token)),
        )
        assert self._process.stderr is not None
        log = ""
        while not (found := re.search(r"address=(127\S+)", log)):
            line = self._process.stderr.readline()
            assert line, f"it ended before it listened: {log}"
            log += line
        self.tcp = found[1]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self.listener.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[LyingAgent]:
    agent = LyingAgent(tmp_path)
    yield agent
    agent.close()


@pytest.mark.parametrize("words", ["domains", "groups", "members chess", "why lab"])
def test_a_token_is_sent_only_to_whom_the_user_named(agent: LyingAgent, words: str) -> None:
    asked = (*words.split(), "-a", agent.tcp, "--token-file", str(agent.token))
    rostra(*asked)
    assert TOKEN.encode() not in agent.listener.from_us()


def test_the_users_own_world_file_names_too(agent: LyingAgent) -> None:
    words = ("domains", "-a", agent.tcp, "--token-file", str(agent.token))
    rostra(*words, env={"ROSTRA_WORLD": str(agent.world)})
    assert TOKEN.encode() in agent.listener.from_us()


def test_a_server_that_asks_for_a_token_is_seen_by_who_names_it(tmp_path: Path) -> None:
    """The other way round: nobody lies here."""
    world, token, socket_file = tmp_path / "world.toml", tmp_path / "token", str(tmp_path / "s")
    token.write_text(TOKEN)
    world.write_text(f'[world]\nname = "w"\n[servers]\nlab = "127.0.0.1:{free_port()}"\n')
    server = start("server", "-d", "lab", "-w", str(world), "--token-file", str(token))
    agent = start("agent", "lab.h1", "-w", str(world), "--socket", socket_file)
    try:
        for process in (server, agent):
            assert process.stderr is not None
            while "listening" not in (line := process.stderr.readline()):
                assert line
        words = ("domains", "-a", socket_file, "-o", "json", "--token-file", str(token))
        assert "a token is sent only to addresses that you name" in rostra(*words).json["unseen"]["lab"]
        assert rostra(*words, env={"ROSTRA_WORLD": str(world)}).json["unseen"] == {}
    finally:
        for process in (server, agent):
            process.kill()
            process.communicate()
