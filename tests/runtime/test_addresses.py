"""Where an agent is, as a user writes it and as a program finds it."""

import socket
from pathlib import Path

import pytest

from rostra.errors import BadInput
from rostra.runtime.addresses import SocketPath, TcpAddress, default_socket, find_agent, parse_address


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


def test_a_program_finds_the_agent_it_is_told_of_or_the_nearest_socket(tmp_path: Path) -> None:
    assert find_agent({"ROSTRA_AGENT": "h3:7701"}) == TcpAddress("h3", 7701)
    usual = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert default_socket(usual) == SocketPath(f"{tmp_path}/rostra/agent.sock")
    (tmp_path / "rostra").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/rostra/agent.sock")
        assert find_agent(usual) == default_socket(usual)
