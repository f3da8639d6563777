"""`debug`, `config show` and `completion`; and how every command begins."""

import gc
import io
import os
import pty
import select
import shlex
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import msgspec
import pytest
from support.cluster import Cluster, rostra
from support.lab import ROSTRA, member

from rostra.cli.completion import Shell, script
from rostra.cli.debug import REMOVED, environment, without_attachments, without_secrets


@pytest.fixture
def world(tmp_path: Path) -> Path:
    file = tmp_path / "world.toml"
    file.write_text(
        '[world]\nname = "w"\n[servers]\neu = "h:1"\n[agents]\nstate = "/var/lib/rostra"\n'
        '[http]\nagents = "127.0.0.1:7780"\nservers = "127.0.0.1:7781"\n[detect]\ndown_after_s = 2.5\n'
    )
    return file


def test_garbage_is_looked_for_again_from_the_moment_a_command_begins() -> None:
    gc.disable()  # as `rostra.__main__` does while it imports
    try:
        assert rostra("version").code == 0
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


# config show


def test_every_setting_says_where_it_comes_from(world: Path) -> None:
    shown = rostra(
        "config", "show", "-w", str(world), "-o", "json", env={"ROSTRA_PROFILE": "lan", "ROSTRA_HTTP": "none"}
    ).json
    assert shown["state"] == {"value": "/var/lib/rostra", "origin": f"{world} [agents] state"}
    assert shown["profile"] == {"value": "lan", "origin": "ROSTRA_PROFILE"}
    assert shown["http"] == {"value": None, "origin": "ROSTRA_HTTP"}
    assert shown["socket_mode"] == {"value": "0660", "origin": "default"}
    assert shown["detect.down_after_s"] == {"value": 2.5, "origin": f"{world} [detect] down_after_s"}
    assert shown["detect.heartbeat_interval_s"] == {"value": 0.2, "origin": "default of profile lan"}
    assert shown["servers.eu"]["value"] == "h:1"


def test_the_table_shows_origins_only_if_asked(world: Path) -> None:
    plain = rostra("config", "show", "--world", str(world)).lines
    assert plain[0].split() == ["SETTING", "VALUE"]
    told = rostra("config", "show", "--world", str(world), "--origin", "--role", "server").lines
    assert told[0].split() == ["SETTING", "VALUE", "FROM"]
    assert any(line.split()[:2] == ["http", "127.0.0.1:7781"] for line in told)


def test_a_role_that_does_not_exist_is_wrong_use(world: Path) -> None:
    answer = rostra("config", "show", "-w", str(world), "--role", "king")
    assert (answer.code, answer.err) == (2, "error: 'king' is no role\n  use agent or server\n")


# completion


@pytest.mark.parametrize("shell", list(Shell))
def test_there_is_a_script_for_every_shell(shell: Shell) -> None:
    answer = rostra("completion", shell.value)
    assert answer.code == 0 and answer.out.strip() == script(shell).strip()
    assert "_ROSTRA_COMPLETE" in answer.out and "rostra" in answer.out


def test_a_shell_that_we_do_not_know_is_wrong_use() -> None:
    answer = rostra("completion", "tcsh")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error: there is no completion for 'tcsh'\n  use one of: bash, zsh, fish\n"


def complete(words: str, position: int, **env: str) -> list[str]:
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(position), "_ROSTRA_COMPLETE": "complete_bash"}
    done = subprocess.run(
        ROSTRA, env={**os.environ, **variables, **env}, capture_output=True, text=True, timeout=30
    )
    return done.stdout.split()


def test_tab_completes_commands_and_options() -> None:
    assert complete("rostra mem", 1) == ["members"]
    assert complete("rostra watch --res", 2) == ["--resume"]


def test_tab_completes_groups_that_the_agent_knows(cluster: Cluster) -> None:
    with member(cluster.socket("eu.h1"), "ann", "tabbed", "world"):
        assert complete("rostra members tab", 2, ROSTRA_AGENT=cluster.socket("eu.h1")) == ["tabbed@world"]
    assert complete("rostra members tab", 2, ROSTRA_AGENT="/nowhere/agent.sock") == []


def on_screen(written: str) -> str:
    """What a terminal shows of this: it goes back over what it will write anew."""
    lines: list[list[str]] = [[]]
    column = 0
    for char in written:
        if char == "\n":
            lines.append([])
        elif char == "\b":
            column -= 1
        elif char not in "\r\a":
            lines[-1][column : column + 1] = [char]
        column = 0 if char in "\r\n" else column + (char not in "\b\a")
    return "\n".join("".join(line) for line in lines)


class Bash:
    """Somebody at a real bash, on a terminal of its own."""

    def __init__(self, directory: Path, agent: str) -> None:
        self._screen, other = pty.openpty()
        shim = directory / "rostra"
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(ROSTRA)} "$@"\n')
        shim.chmod(0o755)
        (directory / "tab").write_text(rostra("completion", "bash").out)
        path = f"{directory}:{os.environ['PATH']}"
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-i"],
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=directory,
            start_new_session=True,
            env={"PATH": path, "HOME": str(directory), "TERM": "dumb", "PS1": "$ ", "ROSTRA_AGENT": agent},
        )
        os.close(other)
        self.type("bind 'set bell-style none'; source ./tab; echo re''ady\n")
        self.reads("ready")

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def reads(self, text: str, within_s: float = 15.0) -> None:
        """Until this stands on the screen."""
        written, deadline = "", time.monotonic() + within_s
        while text not in on_screen(written):
            ready, _, _ = select.select([self._screen], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was never shown: {on_screen(written)!r}"
            written += os.read(self._screen, 4096).decode()

    def completes(self, typed: str, whole: str) -> None:
        self.type(f"{typed}\t")
        self.reads(whole)
        self.type("\x15")  # Ctrl-U: an empty line again

    def close(self) -> None:
        self._bash.kill()
        self._bash.wait()
        os.close(self._screen)


def test_tab_works_in_a_real_bash_which_takes_names_apart_at_the_at_sign(
    cluster: Cluster, tmp_path: Path
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    bash = Bash(tmp_path, cluster.socket("eu.h1"))
    try:
        with (
            member(cluster.socket("eu.h1"), "theodora", "chessboard", "eu"),
            member(cluster.socket("eu.h1"), "theo", "chessboard", "world"),
        ):
            bash.completes("rostra memb", "rostra members ")
            bash.completes("rostra watch --res", "--resume ")
            bash.completes("rostra members chessb", "chessboard@")
            bash.completes("rostra members chessboard@e", "chessboard@eu ")
            bash.completes("rostra members chessboard@w", "chessboard@world ")
            bash.completes("rostra why eu.h1/theod", "eu.h1/theodora ")
            bash.completes("rostra why e", "rostra why eu")
            bash.completes("rostra completion z", "rostra completion zsh ")
    finally:
        bash.close()


# debug


def test_one_archive_holds_what_all_nodes_in_sight_know(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "debug.tar.gz"
    with member(cluster.socket("eu.h1"), "ann", "archived", "world"):
        answer = cluster.run("debug", "-f", str(file), env={"ROSTRA_TOKEN": cluster.token})
    assert (answer.code, answer.out) == (0, f"{file}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        names = archive.getnames()
        everything = b"".join((archive.extractfile(name) or io.BytesIO()).read() for name in names)
        nodes = archive.extractfile("debug/nodes/eu.h1.json")
        assert nodes is not None
        document = msgspec.json.decode(nodes.read())
    assert {"debug/nodes/eu.json", "debug/nodes/us.json", "debug/machine.json"} <= set(names)
    assert document["recent"] and "archived@world" in document["core"]["groups"]
    assert cluster.token.encode() not in everything


def test_secrets_and_attachments_are_removed() -> None:
    assert environment({"ROSTRA_TOKEN": "x", "ROSTRA_WORLD": "w.toml", "HOME": "/root"}) == {
        "ROSTRA_TOKEN": REMOVED,
        "ROSTRA_WORLD": "w.toml",
    }
    member = ["eu.h1/ann#1", [1, 2], "bXkgc2VjcmV0"]
    document = {"members": [member], "meta": "hi", "secret": "s", "links": {"us": {"up": True}}}
    assert without_attachments(document) == {
        "members": [["eu.h1/ann#1", [1, 2], REMOVED]],
        "meta": REMOVED,
        "secret": REMOVED,
        "links": {"us": {"up": True}},
    }
    assert without_secrets('connect token=abc password: "d e" node=eu') == (
        f"connect token={REMOVED} password: {REMOVED} node=eu"
    )


def test_an_archive_that_cannot_be_written_is_named(cluster: Cluster) -> None:
    answer = cluster.run("debug", "-f", "/nowhere/debug.tar.gz")
    assert answer.code == 2
    assert "error: cannot write /nowhere/debug.tar.gz: No such file or directory" in answer.err
