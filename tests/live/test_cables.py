"""Cables between processes, alone: what they carry, what they swallow, and what they break."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from support.lab import until

from rostra.impair.line import Line
from rostra.names import Domain
from rostra.transport.addresses import TcpAddress
from rostra.up.cables import Cable, line

LOST = line(cut=True)
SOON_S = 60.0
MOMENT_S = 0.2
"""Long enough for loopback to carry a few bytes many times over: what has not come by then was swallowed."""


class SimConversation:
    """One side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, words: bytes) -> None:
        self.writer.write(words)

    async def hears(self, words: bytes) -> None:
        async with asyncio.timeout(SOON_S):
            assert await self.reader.readexactly(len(words)) == words

    async def hears_nothing(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(MOMENT_S):
                heard = await self.reader.read(1)
                raise AssertionError(f"heard {heard!r}, not silence")

    async def is_broken(self) -> None:
        async with asyncio.timeout(SOON_S):
            with contextlib.suppress(ConnectionError):
                assert await self.reader.read() == b""


class Wired:
    """A server, a cable to it, and whoever dials."""

    def __init__(self, cable: Cable, port: TcpAddress) -> None:
        self.cable, self.port = cable, port
        self.callers: asyncio.Queue[SimConversation] = asyncio.Queue()
        self._talks: list[SimConversation] = []

    async def dial(self) -> SimConversation:
        near = SimConversation(*await asyncio.open_connection(self.port.host, self.port.port))
        self._talks.append(near)
        return near

    async def connect(self) -> tuple[SimConversation, SimConversation]:
        near = await self.dial()
        async with asyncio.timeout(SOON_S):
            return near, await self.callers.get()

    def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = SimConversation(reader, writer)
        self._talks.append(talk)
        self.callers.put_nowait(talk)

    def close(self) -> None:
        for talk in self._talks:
            talk.writer.transport.abort()


@contextlib.asynccontextmanager
async def wired() -> AsyncIterator[Wired]:
    them: list[Wired] = []
    server = await asyncio.start_server(lambda r, w: them[0].answer(r, w), "127.0.0.1", 0)
    cable = Cable([(Domain("eu"), Domain("us"))], TcpAddress("127.0.0.1", server.sockets[0].getsockname()[1]))
    them.append(Wired(cable, await cable.open()))
    try:
        yield them[0]
    finally:
        them[0].close()
        cable.close()
        server.close()


async def test_a_cable_carries_both_ways_and_every_byte() -> None:
    async with wired() as them:
        near, far = await them.connect()
        much = bytes(range(256)) * 40_000
        near.say(much)
        far.say(b"pong")
        await far.hears(much)
        await near.hears(b"pong")


async def test_a_side_that_closes_is_seen_to_close_after_its_last_words() -> None:
    async with wired() as them:
        near, far = await them.connect()
        near.say(b"bye")
        near.writer.close()
        await far.hears(b"bye")
        await far.is_broken()
        await until(lambda: not them.cable.calls, "the cable forgets the call")


async def test_a_server_that_is_not_there_breaks_the_call() -> None:
    async with wired() as them:
        them.cable.target = TcpAddress("127.0.0.1", 1)
        near = await them.dial()
        await near.is_broken()


async def test_a_cut_swallows_what_is_said_and_tells_nobody() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(LOST, LOST)
        near.say(b"hello?")
        far.say(b"hello?")
        await asyncio.gather(near.hears_nothing(), far.hears_nothing())


async def test_a_cut_swallows_the_news_that_the_other_side_has_closed() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(LOST, LOST)
        near.writer.close()
        await far.hears_nothing()
        them.cable.lay(line(), line())
        await far.is_broken()


async def test_a_connection_with_a_hole_in_it_is_broken_when_the_cable_is_whole_again() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(LOST, LOST)
        near.say(b"lost")
        await far.hears_nothing()
        them.cable.lay(line(), line())
        await asyncio.gather(near.is_broken(), far.is_broken())
        near, far = await them.connect()
        near.say(b"again")
        await far.hears(b"again")


async def test_a_connection_that_lost_nothing_survives_a_cut() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(LOST, LOST)
        await asyncio.sleep(MOMENT_S)
        them.cable.lay(line(), line())
        near.say(b"still here")
        await far.hears(b"still here")


async def test_a_cut_one_way_lets_the_other_way_speak() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(LOST, line())
        near.say(b"lost")
        far.say(b"heard")
        await near.hears(b"heard")
        await far.hears_nothing()
        them.cable.lay(line(), line())
        await asyncio.gather(near.is_broken(), far.is_broken())


async def test_a_way_that_is_still_cut_does_not_break_what_it_swallowed() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(LOST, line())
        near.say(b"lost")
        await far.hears_nothing()
        them.cable.lay(LOST, LOST)
        them.cable.lay(LOST, line())
        far.say(b"heard")
        await near.hears(b"heard")


@pytest.mark.parametrize(("there", "back"), [(LOST, LOST), (LOST, line()), (line(), LOST)])
async def test_whoever_dials_over_a_cut_cable_reaches_nobody_and_hears_nothing(
    there: Line, back: Line
) -> None:
    async with wired() as them:
        them.cable.lay(there, back)
        near = await them.dial()
        near.say(b"hello?")
        await near.hears_nothing()
        assert them.callers.empty()
        them.cable.lay(line(), line())
        await near.is_broken()


async def test_callers_who_give_up_on_a_cut_cable_are_forgotten() -> None:
    async with wired() as them:
        them.cable.lay(LOST, LOST)
        near = await them.dial()
        await until(lambda: them.cable.calls, "the call is taken")
        near.writer.close()
        await until(lambda: not them.cable.calls, "the cable forgets the call")


async def test_a_delay_holds_everything_back_and_changes_no_order() -> None:
    async with wired() as them:
        near, far = await them.connect()
        them.cable.lay(line(0.3), line())
        before = time.monotonic()
        near.say(b"one ")
        await asyncio.sleep(0.05)
        them.cable.lay(line(), line())
        near.say(b"two")
        await far.hears(b"one two")
        assert time.monotonic() - before >= 0.3
        far.say(b"at once")
        await near.hears(b"at once")


async def test_what_is_on_the_way_when_a_cable_is_cut_is_lost_too() -> None:
    for _ in range(10):
        async with wired() as them:
            near, far = await them.connect()
            them.cable.lay(line(1.0), line())
            said = time.monotonic()
            near.say(b"on the way")
            await asyncio.sleep(0.05)
            them.cable.lay(LOST, line())
            if time.monotonic() - said > 0.9:
                continue  # the machine stood still, and it may have arrived meanwhile
            await asyncio.sleep(1.0)
            await far.hears_nothing()
            them.cable.lay(line(), line())
            await asyncio.gather(near.is_broken(), far.is_broken())
            return
    raise AssertionError("never was anything on the way")


async def test_a_reader_that_stops_reading_stops_the_writer_and_not_the_cable() -> None:
    async with wired() as them:
        near, far = await them.connect()
        much = bytes(48 << 20)  # more than the system's own buffers take
        near.say(much)
        await asyncio.sleep(MOMENT_S)
        assert near.writer.transport.get_write_buffer_size() > 0
        other, server = await them.connect()
        other.say(b"not delayed")
        await server.hears(b"not delayed")
        await far.hears(much)
