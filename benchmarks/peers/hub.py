"""The floor: a uvloop server that knows nothing of groups, and passes frames on.

    frame = 4 bytes length, 1 byte kind, body
    E  echo: goes back to its sender
    W  watch: this connection wants shouts from now on
    S  shout: goes to every watching connection
    N  name: if this connection breaks, shout "-name"

No membership, no recovery, no order beyond TCP's, one connection per client process. What a peer takes longer
than this is the price of what it promises.
"""

import asyncio
import struct
import sys
from typing import Final, cast

from benchmarks.crew import run

HEAD: Final = struct.Struct(">IB")


def frame(kind: bytes, body: bytes) -> bytes:
    return HEAD.pack(len(body), kind[0]) + body


def frames(buffer: bytearray) -> list[tuple[int, bytes]]:
    """Take the complete frames off the front of the buffer."""
    found, at = [], 0
    while len(buffer) - at >= HEAD.size:
        size, kind = HEAD.unpack_from(buffer, at)
        if len(buffer) - at - HEAD.size < size:
            break
        at += HEAD.size
        found.append((kind, bytes(buffer[at : at + size])))
        at += size
    del buffer[:at]
    return found


class Connection(asyncio.Protocol):
    def __init__(self, watching: set[asyncio.Transport]) -> None:
        self._watching = watching
        self._buffer = bytearray()
        self._names: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        echoes = bytearray()
        for kind, body in frames(self._buffer):
            if kind == ord("E"):
                echoes += frame(b"E", body)
            elif kind == ord("S"):
                self._shout(body)
            elif kind == ord("W"):
                self._watching.add(self._transport)
            elif kind == ord("N"):
                self._names.append(body)
        if echoes:
            self._transport.write(bytes(echoes))

    def connection_lost(self, error: Exception | None) -> None:
        assert self._transport is not None
        self._watching.discard(self._transport)
        for name in self._names:
            self._shout(b"-" + name)

    def _shout(self, body: bytes) -> None:
        shout = frame(b"S", body)
        for transport in self._watching:
            transport.write(shout)


async def serve(path: str) -> None:
    watching: set[asyncio.Transport] = set()
    server = await asyncio.get_running_loop().create_unix_server(lambda: Connection(watching), path)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    run(serve(sys.argv[1]))
