"""H4: callers begin large messages and never end them: what is half received is bounded, for one and all."""

import asyncio
import contextlib
import struct
import time
from contextlib import AsyncExitStack

import pytest
from support.bystanders import unnoticed
from support.callers import Caller, call
from support.lab import WITHIN_S, Lab
from support.strangers import Stranger, stranger

from rostra.errors import Malformed
from rostra.names import Domain
from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.packets import Beat, Data, Hello
from rostra.protocols.relaxed.messages import InquiryReply
from rostra.runtime.process import PROGRAMS_BYTES_MAX, STRANGERS_BYTES_MAX
from rostra.wire import Encoder, FrameKind, FrameReader, ProgramHello, Refusal
from rostra.wire.frames import BODY_BYTES_MAX, FRAME_BYTES_MAX, HANDSHAKE_BYTES_MAX, world_tag

HELLO = Hello(1, 0, "lab", Domain("eu.h9"), 1, 0, Domain("eu"))


def part(size: int, kind: FrameKind = FrameKind.PART, world: str = "lab") -> bytes:
    return struct.pack(">IBB4s", 6 + size, 1, kind, world_tag(world)) + bytes(size)


def large_data() -> Data:
    from rostra.protocols.relaxed.messages import MessageId

    id = MessageId(Domain("eu.h9"), 1, 1)
    return Data(
        1, 2, 1, 0, tuple(InquiryReply(id, Domain("eu"), Domain("eu.h9"), bytes(8_000)) for _ in range(40))
    )


# The reader alone


def test_a_neighbour_that_is_not_up_holds_no_more_than_a_greeting_may() -> None:
    reader = FrameReader("lab", FrameKind.LINK, trusted=False)
    assert reader.feed(Encoder("lab").packet(HELLO)) == [HELLO]
    assert reader.feed(part(HANDSHAKE_BYTES_MAX - 100)) == []
    assert reader.bytes_held <= HANDSHAKE_BYTES_MAX
    (error,) = reader.feed(part(BODY_BYTES_MAX)[:10])
    assert isinstance(error, Malformed) and reader.over and reader.bytes_held == 0


@pytest.mark.parametrize("cut", [1, 7, 100, 60_000, 1 << 20])
def test_what_follows_the_greeting_is_read_when_the_driver_trusts_it_by_then(cut: int) -> None:
    """Both may come in one chunk, or byte by byte: that must not decide whether it counts."""
    reader, packets = FrameReader("lab", FrameKind.LINK, trusted=False), (HELLO, large_data(), Beat(1, 2, 0))
    octets = b"".join(map(Encoder("lab").packet, packets))
    items: list[object] = []
    for at in range(0, len(octets), cut):
        fed = reader.feed(octets[at : at + cut])
        while fed or reader.stalled:
            items += fed
            if HELLO in items:
                reader.trust()
            fed = reader.feed(b"") if reader.stalled else []
    assert items == list(packets)


def test_and_is_refused_when_it_does_not() -> None:
    reader = FrameReader("lab", FrameKind.LINK, trusted=False)
    assert reader.feed(b"".join(map(Encoder("lab").packet, (HELLO, large_data())))) == [HELLO]
    assert reader.stalled
    (error,) = reader.feed(b"")
    assert isinstance(error, Malformed) and reader.over


# Real processes


async def greet_only(ghost: Stranger, name: str) -> None:
    """It never says that it hears us, and so is never up."""
    now_ms = time.time_ns() // 1_000_000
    ghost.hello(f"eu.{name}", "eu", now_ms, now_ms * SESSIONS_PER_LIFE + 1)
    assert isinstance(await ghost.hears(), Hello)


async def test_a_host_that_is_not_up_begins_no_large_message(world: Lab) -> None:
    async with unnoticed(world, "h4-one"), stranger(world, "eu") as ghost:
        await greet_only(ghost, "h4-ghost")
        ghost.write(part(BODY_BYTES_MAX)[:70_000])
        told = await refusal_of(ghost)
        assert told is not None and told.code == "MALFORMED" and "or more" in told.what


async def test_all_strangers_together_hold_a_bounded_number_of_bytes(world: Lab) -> None:
    """Each holds less than it may. Who waits longest for the rest gives way, and no neighbour does."""
    size = HANDSHAKE_BYTES_MAX - 500
    fit = STRANGERS_BYTES_MAX // size
    async with unnoticed(world, "h4-all"), AsyncExitStack() as stack:
        ghosts = [await stack.enter_async_context(stranger(world, "eu")) for _ in range(fit + 30)]
        for number, ghost in enumerate(ghosts):
            await greet_only(ghost, f"h4-ghost{number}")
            ghost.write(part(size)[:-1])
        assert await ends_by_refusal(ghosts[0]) and await ends_by_refusal(ghosts[20])


async def ends_by_refusal(ghost: Stranger) -> bool:
    told = await refusal_of(ghost)
    return told is not None and "begun here and not ended" in told.what


async def refusal_of(ghost: Stranger) -> Refusal | None:
    """How it is hung up on; one that is not hears hellos for ever."""
    async with asyncio.timeout(WITHIN_S):
        while (told := await ghost.hears()) is not None:
            if isinstance(told, Refusal):
                return told
    return None


async def test_all_programs_together_hold_a_bounded_number_of_bytes(world: Lab) -> None:
    size = FRAME_BYTES_MAX - 100
    async with unnoticed(world, "h4-programs"), AsyncExitStack() as stack:
        callers = [await begin(world, stack, size) for _ in range(PROGRAMS_BYTES_MAX // size + 20)]
        *_, last = await callers[0].said(FrameKind.TO_PROGRAM)
        assert isinstance(last, Refusal) and "begun here and not ended" in last.what


async def begin(world: Lab, stack: AsyncExitStack, size: int) -> Caller:
    caller = await stack.enter_async_context(call(world, "eu.h1"))
    caller.writer.write(Encoder("lab").to_agent(ProgramHello("lab", "h4")))
    caller.writer.write(part(size, FrameKind.TO_AGENT)[:-1])
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(WITHIN_S):
            await caller.writer.drain()
    return caller
