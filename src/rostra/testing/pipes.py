"""Connections inside one process: what a Unix socket does, without the socket.

    program ── write ──▶ │ inbox of the agent's end │ ──▶ read, in a later callback ──▶ agent
            ◀── read ─── │ inbox of the program's   │ ◀── write ──

Bytes arrive in order and in lumps, as they do from a stream socket. A reader that pauses lets the other's
writes pile up, until that one is paused. An end that is **held** belongs to a process that is stopped.
"""

import asyncio
from typing import Any, Final

from rostra.transport.connection import Connection

KERNEL_BYTES: Final = 64 << 10
"""What the system itself would keep of what is not read yet."""


class PipeEnd(asyncio.Transport):
    """One side, as the transport of its protocol."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Connection) -> None:
        super().__init__()
        self.peer: PipeEnd
        self._loop = loop
        self._protocol: Connection | None = protocol
        self._inbox: list[bytes] = []
        self._waiting = 0  # bytes in the inbox
        self._gone = False  # the other side, once all that it wrote is read
        self._reset: Exception | None = None  # it went without a word, and what it wrote is lost
        self._closing = False
        self._paused = False
        self._held = False
        self._pumping = False
        self._high = KERNEL_BYTES
        self._full = False

    # What a protocol asks of its transport

    def write(self, data: Any) -> None:
        if not self._closing:
            self.peer._arrive(bytes(data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._lost, None)
            self.peer._end(None)

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._lost, None)
            self.peer._end(ConnectionResetError("connection reset"))

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._pump_soon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = KERNEL_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, self.peer._waiting - KERNEL_BYTES)

    # What the world does

    def hold(self) -> None:
        """The process at this end stands still: it reads nothing."""
        self._held = True

    def release(self) -> None:
        self._held = False
        self._pump_soon()

    def vanish(self) -> None:
        """The process at this end is no more. Only the other one hears of it."""
        self._protocol, self._closing = None, True
        self.peer._end(None)

    # From the other end

    def _arrive(self, data: bytes) -> None:
        self._inbox.append(data)
        self._waiting += len(data)
        self._pump_soon()
        self.peer._look_how_full()

    def _end(self, reset: Exception | None) -> None:
        if not self._gone:
            self._gone, self._reset = True, reset
            self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and not self._held:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._held or self._protocol is None or self._closing:
            return
        if self._inbox and not self._paused and self._reset is None:
            room = self._protocol.get_buffer(-1)
            data = b"".join(self._inbox)
            lump, rest = data[: len(room)], data[len(room) :]
            self._inbox = [rest] if rest else []
            self._waiting = len(rest)
            room[: len(lump)] = lump
            self._protocol.buffer_updated(len(lump))
            self.peer._look_how_full()
            if self._inbox or self._gone:
                self._pump_soon()
        elif self._gone and (self._reset is not None or not self._inbox):
            self._closing = True
            self._lost(self._reset)

    def _look_how_full(self) -> None:
        size, protocol = self.get_write_buffer_size(), self._protocol
        if protocol is not None and not self._full and size > self._high:
            self._full = True
            protocol.pause_writing()
        elif protocol is not None and self._full and size <= self._high // 4:
            self._full = False
            protocol.resume_writing()

    def _lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)


def connect(loop: asyncio.AbstractEventLoop, program: Connection, agent: Connection) -> PipeEnd:
    """Join two protocols; the answer is the agent's end."""
    here, there = PipeEnd(loop, program), PipeEnd(loop, agent)
    here.peer, there.peer = there, here
    agent.connection_made(there)
    program.connection_made(here)
    return there
