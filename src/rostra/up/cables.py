"""Cables: TCP relays between two processes of a small world, which can be cut.

    dialling node ──▶ our port ═══ relay ═══▶ the server that it wanted
                  ◀══ back ════         ◀════

The nodes at both ends are ordinary ones, and cutting them apart needs no privilege: the dialling side is
configured with the relay's port instead of its neighbour's.

Each direction of a cable is a line of `rostra.impair`: it carries or loses bytes, at once or after a delay. A
cut is a black hole and not a hang-up: the connections stay open, neither end is notified, and all bytes are
lost, the end of a connection included. New connections are accepted and get no answer either. A TCP stream
with a hole cannot be repaired, so when a direction carries again, every connection that lost bytes on it is
closed; the links above resume on the next one, or begin a new epoch (C-032).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, cast

from rostra.impair.line import Line
from rostra.impair.quality import Constant, LineQuality
from rostra.names import Domain
from rostra.transport.addresses import TcpAddress

LOOPBACK: Final = "127.0.0.1"

ON_THE_WAY_BYTES_MAX: Final = 1 << 20
"""What a delay may hold back for each way of a connection; a faster sender waits."""

CONNECT_TIMEOUT_S: Final = 3.0


_LUCK: Final = Random()  # not asked: a stream arrives whole and in order, so only its delay matters


def line(delay_s: float = 0.0, *, cut: bool = False) -> Line:
    """One direction of a cable."""
    made = Line("", "", LineQuality(Constant(delay_s)))
    made.cut = cut
    return made


class Cable:
    """One port of ours, and the one server that it leads to."""

    def __init__(self, links: Iterable[tuple[Domain, Domain]], target: TcpAddress) -> None:
        self.links = tuple(links)  # what runs over it, each as (dialling node, server)
        self.target = target
        self.there = line()  # from the dialling side to the server
        self.back = line()
        self.calls: set[CableCall] = set()
        self._server: asyncio.Server | None = None
        self._connecting: set[asyncio.Task[None]] = set()

    async def open(self) -> TcpAddress:
        """Plug it in; the answer is where to dial."""
        self._server = await asyncio.get_running_loop().create_server(self._answer, LOOPBACK, 0)
        return TcpAddress(LOOPBACK, self._server.sockets[0].getsockname()[1])

    def lay(self, there: Line, back: Line) -> None:
        """From now on its lines are these."""
        self.there, self.back = there, back
        for call in list(self.calls):
            call.ways_changed()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connecting:
            task.cancel()
        for call in list(self.calls):
            call.break_off()

    def _answer(self) -> "CableEnd":
        call = CableCall(self)
        self.calls.add(call)
        return call.near

    def reach(self, call: "CableCall") -> None:
        """Connect a call to the server."""
        task = asyncio.get_running_loop().create_task(self._reach(call))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _reach(self, call: "CableCall") -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: call.far, self.target.host, self.target.port
                )
        except OSError:  # a TimeoutError is one of these
            call.break_off()


class CableCall:
    """One connection over a cable: the end that dialled, and the end that we dialled for it."""

    def __init__(self, cable: Cable) -> None:
        self.cable = cable
        self.near = CableEnd(self, lambda: cable.there)
        self.far = CableEnd(self, lambda: cable.back)
        self.near.other, self.far.other = self.far, self.near

    @property
    def _ends(self) -> "tuple[CableEnd, CableEnd]":
        return self.near, self.far

    def began(self) -> None:
        if self.cable.there.cut or self.cable.back.cut:
            # Either our first packet or its answer would be lost: there is no connection, and no word of it.
            self.near.has_lost = self.far.has_lost = self.far.is_gone = True
        else:
            self.near.pause_reading()
            self.cable.reach(self)

    def ways_changed(self) -> None:
        if any(end.has_lost and not end.way.cut for end in self._ends):
            self.break_off()

    def break_off(self) -> None:
        self.cable.calls.discard(self)
        for end in self._ends:
            end.abort()

    def ended(self) -> None:
        """One end is gone for good; the call is over once both are."""
        if all(end.is_gone for end in self._ends):
            self.cable.calls.discard(self)


class CableEnd(asyncio.Protocol):
    """One of the two connections of a call, and the way that begins here."""

    other: "CableEnd"

    def __init__(self, call: CableCall, way: Callable[[], Line]) -> None:
        self._call = call
        self._way = way
        self._transport: asyncio.Transport | None = None
        self._on_the_way: deque[tuple[float, bytes | None]] = deque()  # when due; none: it has closed
        self._on_the_way_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.has_lost = False  # bytes were lost here
        self.is_gone = False
        self._other_is_full = False

    @property
    def way(self) -> Line:
        return self._way()

    # From the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self is self._call.near:
            self._call.began()
        elif self.other.is_gone or self._call not in self._call.cable.calls:
            self.abort()
        else:
            self.other._look_at_pressure()

    def data_received(self, data: bytes) -> None:
        self._say(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone = True
        self._say(None)
        self._call.ended()

    def pause_writing(self) -> None:
        self.other._other_is_full = True
        self.other._look_at_pressure()

    def resume_writing(self) -> None:
        self.other._other_is_full = False
        self.other._look_at_pressure()

    # To the connection

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def abort(self) -> None:
        self.is_gone = True
        self._on_the_way.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _look_at_pressure(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._other_is_full or self._on_the_way_bytes > ON_THE_WAY_BYTES_MAX:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # The way from here to the other end

    def _say(self, data: bytes | None) -> None:
        now = self._loop.time()
        due = self.way.arrival(now, _LUCK)
        if due <= now and not self._on_the_way:
            self._arrive(data)
            return
        if self._on_the_way:
            due = max(due, self._on_the_way[-1][0])  # a shorter delay lets nothing overtake
        self._on_the_way.append((due, data))
        self._on_the_way_bytes += len(data or b"")
        self._look_at_pressure()
        if len(self._on_the_way) == 1:
            self._timer = self._loop.call_at(due, self._due)

    def _due(self) -> None:
        now = self._loop.time()
        while self._on_the_way and self._on_the_way[0][0] <= now:
            _, data = self._on_the_way.popleft()
            self._on_the_way_bytes -= len(data or b"")
            self._arrive(data)
        self._look_at_pressure()
        if self._on_the_way:
            self._timer = self._loop.call_at(self._on_the_way[0][0], self._due)

    def _arrive(self, data: bytes | None) -> None:
        if self.way.cut:
            self.has_lost = True
            return
        peer = self.other._transport
        if peer is None or peer.is_closing():
            return
        if data is None:
            peer.close()
        else:
            peer.write(data)
