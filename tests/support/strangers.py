"""Somebody on the network who speaks the wire's language and says whatever it likes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from support.lab import WITHIN_S, Lab

from rostra.names import Domain
from rostra.protocols.links.packets import AnyPacket, Beat, Hello
from rostra.wire import Encoder, FrameKind, FrameReader


class Stranger:
    """One connection to a server's port, under any name."""

    def __init__(self, lab: Lab, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._world = lab.world
        self._in, self._out = reader, writer
        self._frames = FrameReader(lab.world, FrameKind.LINK)
        self._heard: list[object] = []

    def say(self, *packets: AnyPacket) -> None:
        for packet in packets:
            self.write(Encoder(self._world).packet(packet))

    def write(self, octets: bytes) -> None:
        self._out.write(octets)

    def hello(
        self, path: str, to: str, incarnation: int, mine: int, yours: int = 0, *, received: int = 0
    ) -> None:
        self.say(Hello(mine, yours, self._world, Domain(path), incarnation, received, Domain(to)))

    async def hears(self) -> object:
        """The next thing that it is told; None at the end."""
        async with asyncio.timeout(WITHIN_S):
            while not self._heard:
                try:
                    octets = await self._in.read(65_536)
                except ConnectionError:
                    octets = b""
                if not octets:
                    return None
                self._heard += self._frames.feed(octets)
        return self._heard.pop(0)

    async def link(self, path: str, to: str, incarnation: int, mine: int) -> int:
        """Do what a neighbour of that name would do; the answer is the server's session, once it is up."""
        self.hello(path, to, incarnation, mine)
        while True:
            heard = await self.hears()
            assert isinstance(heard, Hello), f"{path} is not let in: {heard}"
            if heard.yours == mine:
                self.say(Beat(mine, heard.mine, 0))
                return heard.mine
            self.hello(path, to, incarnation, mine, heard.mine)


@contextlib.asynccontextmanager
async def stranger(lab: Lab, server: str) -> AsyncIterator[Stranger]:
    host, _, port = lab.address(server).rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Stranger(lab, reader, writer)
    finally:
        writer.transport.abort()
