"""Programs over TCP show a token, if the agent asks for one. A real agent."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.privileges import without_privileges

import rostra
from rostra.errors import BadInput, NotAllowed
from rostra.transport.tokens import read_token

WORLD = '[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:1"\n[agents]\ntoken_file = "%s"\n'


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where it listens: the socket, and the TCP address."""
    home = tmp_path_factory.mktemp("agent")
    (home / "token").write_text("open sesame\n")
    (home / "world.toml").write_text(WORLD % (home / "token"))
    socket = str(home / "socket")
    command = [sys.executable, "-m", "rostra", "agent", "lab.h1", "--world", str(home / "world.toml")]
    with subprocess.Popen(
        [*command, "--socket", socket, "--programs-at", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            address = ""
            while not address:
                said = process.stderr.readline()
                assert said, "the agent ended before it listened"
                address = said.partition("address=127")[2].strip()
            yield socket, f"127{address}"
        finally:
            process.terminate()
            process.communicate()


async def _host(address: str, token: str | None = None) -> str:
    async with rostra.connect(address, token) as me:
        return me.host


def test_the_token_opens_and_nothing_else_does(
    agent: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tcp = agent
    monkeypatch.delenv("ROSTRA_TOKEN", raising=False)
    for wrong in (None, "", "open sesam", "open sesame!", "öpen sesame"):
        with pytest.raises(NotAllowed, match="only with its token") as refused:
            asyncio.run(_host(tcp, wrong))
        assert "ROSTRA_TOKEN" in refused.value.fix and not refused.value.retriable
    assert asyncio.run(_host(tcp, "open sesame")) == "lab.h1"
    monkeypatch.setenv("ROSTRA_TOKEN", "open sesame")
    assert asyncio.run(_host(tcp)) == "lab.h1"
    with rostra.sync.connect_admin(tcp) as admin:
        assert admin.path == "lab.h1"


def test_programs_of_the_host_need_none(agent: tuple[str, str]) -> None:
    assert asyncio.run(_host(agent[0])) == "lab.h1"


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "x" * 1000, "\x00"])
def test_a_token_file_that_cannot_be_meant_stops_the_agent(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(BadInput, match="token file"):
        read_token(file)


def test_a_token_file_that_may_not_be_read_stops_the_agent(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    file.chmod(0)
    script = "import sys, pathlib, rostra.transport.tokens as t; t.read_token(pathlib.Path(sys.argv[1]))"
    reader = [*without_privileges(), sys.executable, "-c", script, str(file)]
    done = subprocess.run(reader, capture_output=True, text=True)
    assert "BadInput" in done.stderr and "Permission denied" in done.stderr


def test_a_token_file_that_is_not_there_stops_the_agent(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_token(tmp_path / "nowhere")
