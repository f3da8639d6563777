"""One buffer for all connections of a loop, and none shared between loops. Whatever is to end, ends."""

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rostra.transport.connection import Connection
from rostra.wire import FrameKind, FrameReader


class Wire(asyncio.Transport):
    """Remembers that it was cut."""

    cut = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None:
        self.cut = True


def buffer() -> object:
    """What a connection of this thread reads into."""
    connection = Connection(None, FrameReader("lab", FrameKind.LINK))  # type: ignore[arg-type]
    connection.connection_made(Wire())
    return connection.get_buffer(-1).obj


def test_loops_in_two_threads_read_into_two_buffers() -> None:
    """An agent's loop and that of `rostra.sync` may live in one process; one read would spoil the other."""
    with ThreadPoolExecutor(1) as another_thread:
        there = another_thread.submit(buffer).result()
    assert buffer() is buffer()
    assert buffer() is not there


def test_a_connection_that_was_given_up_before_the_loop_made_it_ends_when_it_is_made() -> None:
    """A door may turn a caller away in the turn in which it knocks."""
    connection = Connection(None, FrameReader("lab", FrameKind.LINK))  # type: ignore[arg-type]
    connection.abort("no room")
    wire = Wire()
    connection.connection_made(wire)
    assert wire.cut


class Line(Wire):
    """One that has a socket."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sock if name == "socket" else default

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_connection_that_carries_messages_asks_for_room_on_this_machine_alone(family: int) -> None:
    connection = Connection(None, FrameReader("lab", FrameKind.LINK))  # type: ignore[arg-type]
    with socket.socket(family) as sock:
        before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        connection.connection_made(Line(sock))
        connection.carry_messages()
        after = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert (after > before) == (family == socket.AF_UNIX)


def test_a_file_is_handed_over_on_a_socket_of_this_machine() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    connection = Connection(None, FrameReader("lab", FrameKind.LINK))  # type: ignore[arg-type]
    connection.connection_made(Line(here))
    with here, there, open(__file__) as file:
        assert connection.is_local and connection.hand_over(file.fileno())
        said, (copy,), _, _ = socket.recv_fds(there, 10, 10)
        assert said == b"\x00" and os.path.sameopenfile(copy, file.fileno())
        os.close(copy)


def test_no_file_is_handed_over_to_another_machine() -> None:
    connection = Connection(None, FrameReader("lab", FrameKind.LINK))  # type: ignore[arg-type]
    assert not connection.is_local and not connection.hand_over(0)
    with socket.socket(socket.AF_INET) as sock:
        connection.connection_made(Line(sock))
        assert not connection.is_local and not connection.hand_over(0)
