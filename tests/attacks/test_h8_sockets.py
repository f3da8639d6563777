"""H8: another user of the machine makes the directory of a socket before its owner does."""

import asyncio
import os
import socket
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from support.another_user import NOBODY, another_user, needs_root, open_directory
from support.cluster import rostra, start
from support.lab import WITHIN_S

import rostra as library
from rostra.errors import NotAllowed
from rostra.transport.addresses import small_worlds
from rostra.transport.trusted import TRUST_USER

pytestmark = [pytest.mark.live, needs_root]

TOKEN = "open-sesame-h8"


def lurk(pipe: Connection, directory: Path) -> None:
    """Make the directory, listen in it as an agent would, and pass on what callers say."""
    directory.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "agent.sock"))
        (directory / "agent.sock").chmod(0o666)
        listener.listen()
        pipe.send(b"ready")
        while True:
            caller, _ = listener.accept()
            caller.settimeout(WITHIN_S)
            pipe.send(caller.recv(4096))


@pytest.fixture
def runtime() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


def test_a_program_says_nothing_to_another_users_socket(runtime: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with another_user(lurk, runtime / "rostra") as attacker:
        assert attacker.recv() == b"ready"
        answer = rostra("members", "chess", env={"ROSTRA_TOKEN": TOKEN})
        assert answer.code == 3, answer.err
        assert answer.err.startswith(
            f"error: {runtime}/rostra is no safe place for a socket: nobody may change"
        )
        assert not attacker.poll(), "it got to hear something"


def test_nor_to_one_in_a_directory_that_is_everybodys(runtime: Path) -> None:
    """Such as /tmp itself: there the kernel says who listens."""
    with another_user(lurk, runtime) as attacker:
        assert attacker.recv() == b"ready"

        async def connect() -> None:
            async with library.connect(str(runtime / "agent.sock"), token=TOKEN, on_lost="raise"):
                pass

        with pytest.raises(NotAllowed, match="runs as nobody"):
            asyncio.run(connect())
        assert attacker.recv() == b"", "it was called, and nothing was said"


def test_a_user_who_is_trusted_by_name_is_talked_to(runtime: Path) -> None:
    for name in ("nobody", str(NOBODY)):
        with another_user(lurk, runtime / f"of-{name}") as attacker:
            assert attacker.recv() == b"ready"
            words = (
                "members",
                "chess",
                "-a",
                str(runtime / f"of-{name}" / "agent.sock"),
                "--deadline",
                "0.5",
            )
            assert rostra(*words, env={TRUST_USER: name, "ROSTRA_TOKEN": TOKEN}).code != 3
            said = attacker.recv()
            assert said and TOKEN.encode() not in said, "a socket asks for no token"


def make(pipe: Connection, directory: Path, mode: int) -> None:
    directory.mkdir()
    directory.chmod(mode)
    pipe.send(b"ready")
    pipe.recv()


def test_an_agent_does_not_listen_in_another_users_directory(runtime: Path) -> None:
    with another_user(make, runtime / "rostra", 0o777) as attacker:
        assert attacker.recv() == b"ready"
        assert f"{runtime}/rostra is no safe place for a socket: nobody may change" in first_words(runtime)
        assert os.listdir(runtime / "rostra") == []


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_nor_in_one_of_its_own_that_it_left_open(runtime: Path, mode: int) -> None:
    """With the sticky bit others may add files, and not replace its socket: as in /tmp."""
    (runtime / "rostra").mkdir()
    (runtime / "rostra").chmod(mode)
    assert ("everybody may change" in first_words(runtime)) == (mode == 0o777)


def first_words(runtime: Path) -> str:
    """What an agent says that is to listen there: that it does, or why it does not."""
    world = runtime / "world.toml"
    world.write_text('[world]\nname = "w"\n[servers]\nlab = "127.0.0.1:1"\n')
    with start("agent", "lab.h1", "-w", str(world), env={"XDG_RUNTIME_DIR": str(runtime)}) as agent:
        assert agent.stderr is not None
        try:
            for line in agent.stderr:
                if "listening" in line or line.startswith("error:"):
                    return line
        finally:
            agent.kill()
    raise AssertionError("it ended without a word")


def pretend_to_be_up(pipe: Connection, directory: Path) -> None:
    import fcntl

    world = directory / "up-1"
    world.mkdir(parents=True)
    with (world / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pipe.send(b"ready")
        pipe.recv()


def test_a_small_world_of_another_user_is_not_taken_for_ours(runtime: Path) -> None:
    with another_user(pretend_to_be_up, runtime / "rostra") as attacker:
        assert attacker.recv() == b"ready"
        found = small_worlds({"XDG_RUNTIME_DIR": str(runtime)})
        assert not [path for path in found if path.is_relative_to(runtime)]
