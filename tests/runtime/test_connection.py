"""One buffer for all connections of a loop, and none shared between loops."""

from concurrent.futures import ThreadPoolExecutor

from rostra.runtime.connection import Connection
from rostra.wire import FrameKind, FrameReader


def buffer() -> memoryview:
    connection = Connection(None, FrameReader("lab", FrameKind.LINK))  # type: ignore[arg-type]
    return connection.get_buffer(-1)


def test_loops_in_two_threads_read_into_two_buffers() -> None:
    """An agent's loop and that of `rostra.sync` may live in one process; one read would spoil the other."""
    with ThreadPoolExecutor(1) as another_thread:
        there = another_thread.submit(buffer).result()
    assert buffer() is buffer()
    assert buffer() is not there
