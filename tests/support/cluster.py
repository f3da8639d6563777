"""A small real cluster in this process's own children: one server and two agents on loopback, for commands.

`rostra` runs a command in this process, as typer's own runner does; what takes a terminal's time (Ctrl-C,
pipes) runs in a process of its own: `start`.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from support.forks import Forked
from support.lab import FORGIVING, ROSTRA, Lab
from typer.testing import CliRunner

from rostra.cli import application


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def jsonl(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.lines]


def rostra(*words: str, env: Mapping[str, str | None] | None = None) -> Answer:
    """Run a command here, to its end."""
    variables = {name: None for name in os.environ if name.startswith("ROSTRA_")}
    done = CliRunner().invoke(application(), list(words), env={**variables, "NO_COLOR": "1", **(env or {})})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Answer(done.exit_code, done.stdout, done.stderr)


def start(*words: str, env: Mapping[str, str] | None = None, **options: Any) -> "subprocess.Popen[str]":
    """Run a command in a process of its own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ROSTRA_")}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    options["env"] = {**plain, "PYTHONUNBUFFERED": "1", **(env or {})}
    if "start_new_session" in options:
        return subprocess.Popen([*ROSTRA, *words], **options)
    return Forked(words, **options)


class Cluster(Lab):
    """Two clusters under two regions, all processes on loopback, in the profile that notices soon. Commands
    show the token without which servers are not inspected over TCP."""

    def __init__(self, directory: Path) -> None:
        self.token = "of-this-cluster-5d1e"
        self._token = directory / "token"
        self._token.write_text(self.token)
        super().__init__(
            directory,
            servers=("eu", "us"),
            hosts=("eu.h1", "eu.h2", "us.h1"),
            namespaces=False,
            more=f'[agents]\ntoken_file = "{self._token}"\n{FORGIVING}',
        )

    def run(self, *words: str, host: str = "eu.h1", env: Mapping[str, str | None] | None = None) -> Answer:
        return rostra(*words, env={**self._shown(host), **(env or {})})

    def begin(self, *words: str, host: str = "eu.h1", **options: Any) -> "subprocess.Popen[str]":
        return start(*words, env=self._shown(host), **options)

    def _shown(self, host: str) -> dict[str, str]:
        """As in its operator's shell: a token is sent only to addresses that this world file has."""
        return {
            "ROSTRA_AGENT": self.socket(host),
            "ROSTRA_TOKEN_FILE": str(self._token),
            "ROSTRA_WORLD": str(self.world_file),
        }

    def calmly(self) -> "Cluster":
        asyncio.run(self.calm())
        return self


def python(script: str, *words: str) -> Sequence[str]:
    return (sys.executable, "-c", script, *words)
