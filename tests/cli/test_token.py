"""Commands that show a token to an agent over TCP; and where the token never appears."""

import io
import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from support.cluster import rostra, start
from support.lab import WITHIN_S, member
from support.ports import free_port

pytestmark = pytest.mark.live

RIGHT, WRONG = "open-sesame-7f3a", "close-sesame-9b1c"


class Agent:
    """One that asks for a token over TCP; or not."""

    def __init__(
        self, directory: Path, *, mode: int = 0o600, asks: bool = True, at: str = "127.0.0.1:0"
    ) -> None:
        self.token, self.world = directory / "token", directory / "world.toml"
        self.socket = str(directory / "s")
        self.token.write_text(f"{RIGHT}\n")
        self.token.chmod(mode)
        self.world.write_text('[world]\nname = "w"\n[servers]\nlab = "127.0.0.1:1"\n')
        self._process = start(
            *("agent", "lab.h1", "-w", str(self.world), "--socket", self.socket),
            *("--programs-at", at, *(("--token-file", str(self.token)) if asks else ())),
        )
        assert self._process.stderr is not None
        self._stderr = self._process.stderr
        self._log = ""
        while not (found := re.search(r"listening address=([\d.]+:\d+)", self._log)):
            line = self._stderr.readline()
            assert line, f"it ended before it listened: {self._log}"
            self._log += line
        self.tcp = found[1]

    def end(self) -> str:
        """All that it logged. `communicate` would lose the lines that came in one read with the address."""
        self._process.terminate()
        self._log += self._stderr.read()
        self._process.wait(timeout=WITHIN_S)
        return self._log

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    yield agent
    agent.kill()


def test_a_command_shows_the_token_that_it_was_given(agent: Agent) -> None:
    words = ("resolve", "chess", "--agent", agent.tcp)
    refused = rostra(*words)
    assert refused.code == 3
    assert refused.err.splitlines() == [
        "error: lab.h1 lets programs in over TCP only with its token",
        "  connect(address, token=...), $ROSTRA_TOKEN, or --token-file FILE after a command",
    ]
    nobody = 1  # is in the group: we were let in
    assert rostra(*words, "--token-file", str(agent.token)).code == nobody
    assert rostra(*words, env={"ROSTRA_TOKEN_FILE": str(agent.token)}).code == nobody
    assert rostra(*words, env={"ROSTRA_TOKEN": RIGHT}).code == nobody
    assert rostra(*words, "--token-file", str(agent.token), env={"ROSTRA_TOKEN": WRONG}).code == nobody
    wrong = rostra(*words, env={"ROSTRA_TOKEN": WRONG})
    assert (wrong.code, wrong.err.splitlines()[0]) == (
        3,
        "error: lab.h1 lets programs in over TCP only with its token, and was shown another",
    )
    assert "ROSTRA_TOKEN_FILE" not in os.environ  # it was for those commands only


@pytest.fixture
def open_agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path, asks=False)
    yield agent
    agent.kill()


def test_without_a_token_members_are_shown_and_their_health_is_unknown(open_agent: Agent) -> None:
    with member(open_agent.socket, "ann", "chess", "world"):
        table = rostra("members", "chess", "-a", open_agent.tcp)
        whole = rostra("members", "chess", "-a", open_agent.tcp, "-o", "json")
        domains = rostra("domains", "-a", open_agent.tcp)
    assert table.code == 0 and table.lines[2].split()[1:] == ["lab.h1", "unknown"]
    assert table.err.startswith("health is unknown: lab.h1 says it over TCP only to those who show a token")
    assert whole.json["members"][0]["health"] == "unknown"
    assert domains.code == 3 and domains.err.startswith(
        "error: lab.h1 is inspected and administered over TCP"
    )


@pytest.mark.parametrize("word", ["members", "resolve"])
def test_without_a_token_an_empty_group_is_empty_and_no_more_is_said(open_agent: Agent, word: str) -> None:
    answer = rostra(word, "chess", "-a", open_agent.tcp)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1] == "nobody is in chess@world"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"asks": False, "at": "0.0.0.0:0"},
            "unprotected address=0.0.0.0:0 because='every machine that reach",
        ),
        ({"mode": 0o644}, "chmod 600 "),
        ({"mode": 0o640}, None),
        ({"asks": False}, None),
        ({"at": "0.0.0.0:0"}, None),
    ],
)
def test_a_door_or_a_token_that_is_open_to_all_is_logged(
    tmp_path: Path, options: dict[str, Any], said: str | None
) -> None:
    agent = Agent(tmp_path, **options)
    log = agent.end()
    agent.kill()
    assert log.count(" unprotected ") == (said is not None)
    assert said is None or said in log


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    answer = rostra("members", "chess", "--token-file", str(tmp_path / "none"))
    assert answer.code == 2
    assert answer.err.startswith(f"error: cannot use the token file {tmp_path}/none: No such file")


def test_the_dashboard_of_a_server_shows_the_token_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(RIGHT)
    world = tmp_path / "world.toml"
    world.write_text(
        '[world]\nname = "w"\n[servers]\nlab = "127.0.0.1:0"\n'
        f'[agents]\ntoken_file = "{tmp_path}/token"\n[http]\nservers = "127.0.0.1:0"\n'
    )
    with start("server", "-d", "lab", "-w", str(world), "--listen", f"127.0.0.1:{free_port()}") as server:
        try:
            assert server.stderr is not None
            while not (found := re.search(r"http_listening address=(\S+)", server.stderr.readline())):
                assert server.poll() is None
            places: dict[str, Any] = {}
            deadline = time.monotonic() + WITHIN_S
            while not places or places["lab"]["incarnation"] is None:
                assert time.monotonic() < deadline, places
                with urlopen(f"http://{found[1]}/api/places", timeout=WITHIN_S) as answer:
                    places = msgspec.json.decode(answer.read())["places"]
                time.sleep(0.1)
        finally:
            server.kill()


def test_a_token_appears_in_no_log_no_setting_and_no_archive(agent: Agent, tmp_path: Path) -> None:
    said = [
        rostra("members", "chess", "-a", agent.tcp, env={"ROSTRA_TOKEN": WRONG}),
        rostra(
            "config", "show", "-w", str(agent.world), "--origin", env={"ROSTRA_TOKEN_FILE": str(agent.token)}
        ),
        rostra("config", "show", "-w", str(agent.world), "-o", "json", env={"ROSTRA_TOKEN": RIGHT}),
    ]
    archive = tmp_path / "debug.tar.gz"
    for env in ({"ROSTRA_TOKEN": RIGHT}, {"ROSTRA_TOKEN_FILE": str(agent.token)}):
        said.append(rostra("debug", "-f", str(archive), "-a", agent.tcp, env=env))
        assert said[-1].code == 0
        with tarfile.open(archive) as parts:
            files = [(parts.extractfile(name) or io.BytesIO()).read() for name in parts.getnames()]
        assert len(files) > 4
        for secret in (RIGHT, WRONG):
            assert not any(secret.encode() in file for file in files)
    log = agent.end()
    for secret in (RIGHT, WRONG):
        assert not any(secret in answer.out + answer.err for answer in said) and secret not in log
    assert f"{agent.token} (from --token-file)" in log  # where it is may be known
