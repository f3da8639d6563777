"""One stream socket: bytes in, decoded items out, with bounds so that no peer starves the others.

All connections of a process share one read buffer, so an idle connection costs none. A peer that sends more
than its share in one turn waits for the next one; a peer that does not read fills a bounded buffer, after
which its `ConnectionRole` decides what to give up.

A connection begins unidentified. Its first item decides which `ConnectionRole` takes over: the far end of a
link, or a program.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import sys
import termios
import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from rostra.errors import PeerError, RostraError, Unreachable
from rostra.protocols.front.port import Hold
from rostra.wire.encoder import Encoder
from rostra.wire.frames import Refusal
from rostra.wire.reader import Arrived, FrameReader

READ_BYTES: Final = 64 << 10
READ_BYTES_BULK: Final = 256 << 10
BULK_ITEMS_MAX: Final = 64
"""The most that one read takes; more if the last one brought that much in a few large frames, as blocks of
messages are: the fewer frames are cut in two by the end of a buffer, the fewer are copied to be joined."""

READ_PER_TURN_BYTES_MAX: Final = 256 << 10
READ_PER_TURN_ITEMS_MAX: Final = 2_000
"""What one connection may bring into one turn, and what one read brings besides. Raising them lets
a flooding peer delay the others for longer: so many small questions are a twentieth of a second's work, and
so much of blocks with messages, which are passed on unread, is far less."""

WRITE_BUFFER_BYTES_MAX: Final = 1024 << 10
"""What may wait in the transport before its role is notified that the peer does not read."""

MESSAGES_BYTES: Final = 1024 << 10
"""What the kernel may hold on its way from an agent to a program that receives messages, or back. Raising it:
fewer, larger reads; more memory for a program that does not read."""

RESEND_S_MAX: Final = 1.0
"""How long TCP may wait before it sends again what was lost, between neighbours. Left alone it doubles its
wait with every loss, up to two minutes: at a fifth lost, two sites were parted several times a minute by
nothing but waiting, and after a cut a link stood still for as long as the cut had lasted. Raising it: fewer
packets into a dead line."""

TCP_THIN_LINEAR_TIMEOUTS: Final = 16  # who says little, as heartbeats do, does not double its wait at all
TCP_RTO_MAX_MS: Final = 44  # Linux 6.15 and later; the module socket names neither

LINGER_S: Final = 1.0
"""How long a connection that we close may take to read our last words."""


class _Shared(threading.local):
    """The read buffer that all connections of a loop share: it is filled and emptied within one callback.
    Each thread has its own, so two loops do not share one."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_BYTES_BULK))


_shared: Final = _Shared()


class HalfReceived:
    """The bytes of incomplete messages that connections of one kind hold, bounded over all of them. Above the
    bound, the connection whose message has been incomplete for longest is closed."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._held: dict[Connection, int] = {}  # those whose message began first come first

    def note(self, connection: "Connection", held: int, *, anew: bool) -> None:
        """A connection holds this many bytes now, of a new message or of the same as before."""
        if anew or not held:
            self.bytes -= self._held.pop(connection, 0)
        if held:
            self.bytes += held - self._held.get(connection, 0)
            self._held[connection] = held
        while self.bytes > self.bytes_max:
            oldest = next(iter(self._held))
            self.bytes -= self._held.pop(oldest)
            oldest.refuse(
                Unreachable(
                    f"{self.bytes_max >> 20} MiB of messages have begun here and not ended, this one first",
                    fix="send it again, at once",
                )
            )


class ConnectionRole(Protocol):
    """What a connection is for, once that is known."""

    @property
    def name(self) -> str:
        """The name of the peer, for logs; empty if it is not known."""

    def arrived(self, items: list[Arrived]) -> None: ...

    def refused(self, refusal: Refusal) -> None:
        """The peer closes the connection with this reason; `lost` follows."""

    def lost(self, why: str) -> None:
        """The connection is gone; called once."""

    def full(self) -> None:
        """The peer does not read: stop writing until `drained`."""

    def drained(self) -> None: ...


class Turns(Protocol):
    """What a connection needs of its owner."""

    turn: int  # grows by one with every turn
    encoder: Encoder

    def resume_next_turn(self, connection: "Connection") -> None:
        """This connection used up its share of the turn and is paused."""

    def hanging_up(self, connection: "Connection", error: RostraError) -> None:
        """This connection is being closed, for this reason."""


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_aborted",
        "_buffer",
        "_bulk",
        "_half_received",
        "_held",
        "_is_counted",
        "_items",
        "_paused",
        "_read",
        "_reader",
        "_transport",
        "_turn",
        "_turns",
        "_why",
        "peer",
        "role",
    )

    role: ConnectionRole

    def __init__(self, turns: Turns, reader: FrameReader) -> None:
        self.peer = ""  # for people: where the other end is
        self._turns = turns
        self._reader = reader
        self._transport: asyncio.Transport | None = None
        self._turn = 0
        self._read = self._items = 0  # bytes and items, in that turn
        self._bulk = False
        self._paused = False
        self._held = Hold.NOT
        self._half_received: HalfReceived | None = None
        self._is_counted = False  # there: it holds something
        self._why = ""
        self._aborted = False

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)
        self._buffer = _shared.buffer  # of this thread
        self.peer = _peer_name(transport)
        stream.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        if self._aborted:
            stream.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer if self._bulk else self._buffer[:READ_BYTES]

    def buffer_updated(self, size: int) -> None:
        if self._turn != self._turns.turn:
            self._turn, self._read, self._items = self._turns.turn, 0, 0
        reader = self._reader
        items = reader.feed(self._buffer[:size])
        self._bulk = size >= READ_BYTES // 2 and len(items) <= BULK_ITEMS_MAX
        self._read += size
        self._items += len(items)
        if self._read > READ_PER_TURN_BYTES_MAX or self._items > READ_PER_TURN_ITEMS_MAX:
            self._turns.resume_next_turn(self)
        came = items
        while came:
            if reader.over:
                self._take_last(came)
            else:
                self.role.arrived(came)
            came = reader.feed(b"") if reader.stalled else []
        half_received = self._half_received
        if half_received is not None and ((held := reader.bytes_held) or self._is_counted) and self.is_open:
            self._is_counted = held > 0
            half_received.note(self, held, anew=bool(items))

    def _take_last(self, items: list[Arrived]) -> None:
        *good, last = items
        if good:
            self.role.arrived(good)
        if isinstance(last, Refusal):
            self._why = last.what
            self.role.refused(last)
            self.close(last.what)
        elif isinstance(last, PeerError):
            self.refuse(last)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.count_in(None)
        self.role.lost(self._why or (str(error) if error else "closed by the peer"))

    def pause_writing(self) -> None:
        self.role.full()

    def resume_writing(self) -> None:
        self.role.drained()

    # From the role

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def unread_bytes(self) -> int:
        """What the kernel has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def unread_bytes_of_kernel(self) -> int:
        """What the kernel has taken, and the peer has not read, on this machine's own socket. Over TCP the
        kernel at the other end takes it, which says nothing about the peer: none."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or sock.family != socket.AF_UNIX:
            return 0
        try:
            octets = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:
            return 0
        return int.from_bytes(octets, sys.byteorder)

    def count_in(self, half_received: HalfReceived | None) -> None:
        """From now on incomplete messages count against this bound."""
        if self._half_received is not None:
            self._half_received.note(self, 0, anew=True)
        self._half_received = half_received

    def trust(self, half_received: HalfReceived) -> None:
        """The neighbour at the other end has acknowledged that it receives from us."""
        self._reader.trust()
        self.count_in(half_received)

    @property
    def unknown(self) -> dict[str, int]:
        return self._reader.unknown

    def write(self, frames: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames)

    def write_all(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Write several buffers without joining them first."""
        if self._transport is not None and not self._transport.is_closing():
            if len(pieces) == 1:
                self._transport.write(pieces[0])
            else:
                self._transport.writelines(pieces)

    @property
    def peer_ip(self) -> str:
        """The other end's IP address; something else if it is on this machine's own socket."""
        return self.peer.rpartition(":")[0]

    @property
    def peer_uid(self) -> int | None:
        """Which user of this machine is at the other end, as the kernel says; none over TCP."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
            return None
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(credentials)[1]
        return uid

    def be_quick_to_resend(self) -> None:
        """Set TCP options for early retransmission, where the kernel has them: for connections to
        neighbours."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is not None and sock.family != socket.AF_UNIX:
            for option, value in ((TCP_THIN_LINEAR_TIMEOUTS, 1), (TCP_RTO_MAX_MS, int(RESEND_S_MAX * 1000))):
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def carry_messages(self) -> None:
        """Enlarge the kernel's buffers of a Unix socket that carries many messages, so that the reader is
        woken less often."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is not None and sock.family == socket.AF_UNIX:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGES_BYTES)

    @property
    def is_local(self) -> bool:
        """Is the other end on this machine, on a socket that can hand over files?"""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        return sock is not None and sock.family == socket.AF_UNIX

    def hand_over(self, file: int) -> bool:
        """Pass this open file to the peer, with one byte, as the first thing that we send. It bypasses the
        transport, which cannot pass files and has nothing to write yet. False if it cannot be done."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or sock.family != socket.AF_UNIX or self.unread_bytes:
            return False
        try:
            with socket.socket(fileno=os.dup(sock.fileno())) as same:
                socket.send_fds(same, [b"\x00"], [file])
        except OSError:
            return False
        return True

    def pause_reading(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and self._paused and not self._held:
            self._paused = False
            self._transport.resume_reading()

    def hold(self, why: Hold) -> None:
        """Stop reading, until `release` was called for every reason."""
        self._held |= why
        self.pause_reading()

    def release(self, why: Hold) -> None:
        self._held &= ~why
        self.resume_reading()

    def refuse(self, error: RostraError) -> None:
        """Send the error and close the connection."""
        if self.is_open:
            self._turns.hanging_up(self, error)
            self.write(self._turns.encoder.refusal(error))
            self.close(str(error))

    def close(self, why: str) -> None:
        """Close the connection once everything is written; at once if the peer does not read."""
        if self._transport is None or self._transport.is_closing():
            return
        self._why = self._why or why
        self._transport.close()
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, self.abort, self._why)

    def abort(self, why: str) -> None:
        """Close the connection at once; if it is not established yet, as soon as it is."""
        self._aborted = True
        self._why = self._why or why
        if self._transport is not None:
            self._transport.abort()


_CREDENTIALS: Final = struct.Struct("=iII")
"""The process, user and group at the other end of a Unix socket, as Linux says it."""


def _peer_name(transport: asyncio.BaseTransport) -> str:
    name: Any = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        return f"{name[0]}:{name[1]}"
    sock = transport.get_extra_info("socket")
    if sock is not None and hasattr(socket, "SO_PEERCRED"):
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"pid {_CREDENTIALS.unpack(credentials)[0]}"
    return "local"
