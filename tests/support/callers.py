"""Callers at the sockets of a lab on loopback: they send whatever bytes a test likes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from support.lab import WITHIN_S, Lab

from rostra.names import Domain
from rostra.wire import FrameKind, FrameReader


class Caller:
    """One connection, without any client of ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def said(self, *kinds: FrameKind) -> list[object]:
        """Everything that it is sent until the connection ends."""
        async with asyncio.timeout(WITHIN_S):
            return list(FrameReader("lab", *kinds).feed(await self.reader.read()))


@contextlib.asynccontextmanager
async def call(lab: Lab, place: str) -> AsyncIterator[Caller]:
    """Connect to a server's port, or to a host's socket."""
    if Domain(place) in lab.hosts:
        streams = await asyncio.open_unix_connection(lab.socket(place))
    else:
        host, _, port = lab.address(place).rpartition(":")
        streams = await asyncio.open_connection(host, int(port))
    caller = Caller(*streams)
    try:
        yield caller
    finally:
        caller.writer.transport.abort()
