"""Reading messages out of memory that the agent shares with the program: see `runtime/arenas.py`.

Arena ──▶ fetched with its ticket, mapped ──▶ Mapped
Lent ───▶ a `Loan`: where the block is ──▶ read: messages are copied out ──▶ Returned, a few at a time
"""

import asyncio
import fcntl
import mmap
import os
import socket
from collections.abc import Callable
from typing import Final

from msgspec import msgpack

from rostra.errors import UNDECODABLE, Malformed, NotAllowed
from rostra.names import Endpoint
from rostra.transport.addresses import SocketPath
from rostra.transport.memory import is_possible
from rostra.transport.trusted import check_peer
from rostra.wire import ANY_WORLD, Arena, Encoder, Lent, Mapped, ProgramHello, Returned

RETURNED_AT_ONCE: Final = 8
RETURNED_SHARE: Final = 4
"""Blocks that are given back together: so many, or one in so many of what can be lent to us, if that is less.
Raising the first: fewer frames. Raising the second: blocks are free sooner."""

FETCH_WITHIN_S: Final = 10.0

_decoder = msgpack.Decoder(list[bytes])


class Loan:
    """Messages that stand in an arena until they are read."""

    __slots__ = ("_arenas", "_begin", "_number", "_view", "at", "count", "first", "position", "sender")

    def __init__(self, arenas: "ReadArenas", view: memoryview, lent: Lent) -> None:
        self._arenas, self._view = arenas, view
        self._number, self._begin = lent.arena, lent.begin
        self.sender: Endpoint = lent.stream
        self.first, self.count, self.at = lent.first, lent.count, lent.at
        self.position = lent.position  # of the first, where messages have one order

    @property
    def size(self) -> int:
        return len(self._view)

    def read(self) -> list[bytes]:
        """The messages, as our own copies; the block is the agent's again. Once only."""
        try:
            bodies = _decoder.decode(self._view)
        except UNDECODABLE as error:
            raise Malformed(f"a block in an arena: {error}") from None
        if len(bodies) != self.count:
            raise Malformed(f"a block of {len(bodies)} messages that was to have {self.count}")
        self.give_back()
        return bodies

    def give_back(self) -> None:
        """Unread, if need be."""
        self._view = memoryview(b"")
        self._arenas.give_back(self._number, self._begin)


class ReadArenas:
    """The arenas of one connection. `say` writes a frame to the agent."""

    def __init__(self, where: object, say: Callable[[Mapped | Returned], None]) -> None:
        self.are_possible = isinstance(where, SocketPath) and is_possible()
        self._where = where
        self._say = say
        self._views: dict[int, memoryview] = {}
        self._wanted: dict[int, asyncio.Task[None]] = {}  # those that are being fetched
        self._given_back: dict[int, list[int]] = {}
        self._at_once: dict[int, int] = {}  # how many of each are given back together

    def offered(self, arena: Arena) -> None:
        """Fetch it. Should that fail, nothing is lost: blocks go on to come through the socket."""
        if self.are_possible and arena.number not in self._wanted:
            self._wanted[arena.number] = asyncio.get_running_loop().create_task(self._fetch(arena))

    async def _fetch(self, arena: Arena) -> None:
        assert isinstance(self._where, SocketPath)
        try:
            async with asyncio.timeout(FETCH_WITHIN_S):
                file = await fetched(self._where.path, arena.ticket)
            try:
                memory = mapped(file, arena.size_bytes)
            finally:
                os.close(file)
        except (OSError, ValueError, Malformed, NotAllowed):  # TimeoutError is an OSError
            self._wanted.pop(arena.number, None)
            return
        self._wanted.pop(arena.number, None)
        self.has(arena, memory)
        self._say(Mapped(arena.number))

    def has(self, arena: Arena, memory: mmap.mmap) -> None:
        self._views[arena.number] = memoryview(memory)
        self._at_once[arena.number] = max(1, min(RETURNED_AT_ONCE, arena.share // RETURNED_SHARE))

    def retired(self, number: int) -> None:
        """The agent lends nothing more from this arena: unmap it when its unread blocks are read."""
        self._views.pop(number, None)
        self._given_back.pop(number, None)
        self._at_once.pop(number, None)
        if (task := self._wanted.pop(number, None)) is not None:
            task.cancel()

    def lent(self, lent: Lent) -> Loan:
        view = self._views.get(lent.arena)
        if view is None:
            raise Malformed(f"a block in arena {lent.arena}, which is not mapped here")
        if lent.begin + lent.size > len(view):
            raise Malformed(
                f"a block at {lent.begin}, {lent.size} bytes long, in an arena of {len(view)} bytes"
            )
        return Loan(self, view[lent.begin : lent.begin + lent.size], lent)

    def give_back(self, number: int, begin: int) -> None:
        if number in self._views:
            begins = self._given_back.setdefault(number, [])
            begins.append(begin)
            if len(begins) >= self._at_once[number]:
                del self._given_back[number]
                self._say(Returned(number, tuple(begins)))

    def end(self) -> None:
        for number in [*self._views, *self._wanted]:
            self.retired(number)


async def fetched(path: str, ticket: bytes) -> int:
    """The file that an agent hands over for this ticket, on a connection of its own."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, path)
        check_peer(sock, path)
        await loop.sock_sendall(sock, Encoder(ANY_WORLD).to_agent(ProgramHello(ANY_WORLD, "", ticket=ticket)))
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(sock.fileno(), _wake, readable)
        try:
            await readable
        finally:
            loop.remove_reader(sock.fileno())
        _, files, _, _ = socket.recv_fds(sock, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if len(files) != 1:
        raise Malformed("an agent that hands over no file for its ticket")
    return files[0]


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def mapped(file: int, size_bytes: int) -> mmap.mmap:
    """What is in it, for reading. Memory that could become shorter is refused: reading it could end us."""
    seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    if not seals & fcntl.F_SEAL_SHRINK or os.fstat(file).st_size != size_bytes:
        raise Malformed("an arena that is not sealed, or not as large as it was said to be")
    return mmap.mmap(file, size_bytes, prot=mmap.PROT_READ)
