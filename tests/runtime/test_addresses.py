"""Where an agent is, as a user writes it and as a program finds it."""

import contextlib
import fcntl
import os
import socket
from pathlib import Path

import pytest

from rostra.errors import BadInput
from rostra.transport.addresses import SocketPath, TcpAddress, default_socket, find_agent, parse_address


@pytest.mark.parametrize(
    "text", ["h3:7701", "10.0.0.1:0", "[::1]:65535", "/run/rostra/agent.sock", "./a.sock"]
)
def test_an_address_is_printed_as_it_is_read(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text", ["", "h3", ":7700", "h3:", "h3:x", "h3:-1", "h3:65536", "::1:7700", "h3:٣", "/" + "x" * 120]
)
def test_what_is_no_address_is_refused_with_a_fix(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_address(text)
    assert caught.value.fix


def test_a_socket_here_that_lacks_its_slash_is_told_how_to_get_it() -> None:
    with pytest.raises(BadInput) as caught:
        parse_address("ann.sock")
    assert "./ann.sock" in caught.value.fix


def test_a_program_finds_the_agent_it_is_told_of_or_the_nearest_socket(tmp_path: Path) -> None:
    assert find_agent({"ROSTRA_AGENT": "h3:7701"}) == TcpAddress("h3", 7701)
    usual = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert default_socket(usual) == SocketPath(f"{tmp_path}/rostra/agent.sock")
    (tmp_path / "rostra").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/rostra/agent.sock")
        assert find_agent(usual) == default_socket(usual)


def test_without_an_agent_a_world_that_is_up_is_found_while_it_lives(tmp_path: Path) -> None:
    usual = {"XDG_RUNTIME_DIR": str(tmp_path)}
    worlds = [tmp_path / "rostra" / name for name in ("up-2", "up-1")]  # in the order in which they began
    with contextlib.ExitStack() as open_files:
        for number, world in enumerate(worlds):
            world.mkdir(parents=True)
            listener = open_files.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(world / "agent.sock"))
            lock = open_files.enter_context((world / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.utime(world / "lock", ns=(number, number))
        assert find_agent(usual) == SocketPath(f"{worlds[0]}/agent.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{tmp_path}/rostra/agent.sock")
            assert find_agent(usual) == default_socket(usual)
        (tmp_path / "rostra" / "agent.sock").unlink()
    # Both were killed: their files say nothing any more. (Another one may live on this machine.)
    assert find_agent(usual) not in [SocketPath(f"{world}/agent.sock") for world in worlds]
