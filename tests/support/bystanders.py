"""Two programs in two clusters that talk while others attack: the world must not notice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from support.lab import WITHIN_S, Lab, until

import rostra
from rostra.client import Conversation


@contextlib.asynccontextmanager
async def unnoticed(lab: Lab, group: str, one: str = "eu.h2", other: str = "us.h1") -> AsyncIterator[None]:
    """What happens inside does not touch two programs on these hosts, which talk in `group`: no message is
    lost, no member goes, a third can still join, every process is the one it was, and none logs a
    traceback."""
    processes = set(lab.processes.values())
    before = {process: (process.pid, process.log.count("Traceback")) for process in processes}
    async with (
        lab.program(one, "bystander-ann") as ann,
        lab.program(other, "bystander-bob") as bob,
        ann.join(group, delivery="fifo") as anns,
        bob.join(group, delivery="fifo") as bobs,
    ):
        await until(lambda: len(anns.members) == len(bobs.members) == 2, "the bystanders see each other")
        await _talk(anns, bobs, b"before")
        yield
        for process in processes:
            assert process.is_running, f"{process.nodes[0]} has ended:\n{process.log[-3000:]}"
        await _talk(anns, bobs, b"after")
        async with (
            lab.program(one, "bystander-cid") as cid,
            cid.join(group, delivery="fifo") as cids,
        ):
            await cids.ready(deadline_s=WITHIN_S)
            await until(lambda: len(anns.members) == len(bobs.members) == 3, "the bystanders see a third")
    after = {process: (process.pid, process.log.count("Traceback")) for process in processes}
    assert after == before, "a process was started again, or has logged a traceback"


async def _talk(one: Conversation, other: Conversation, body: bytes) -> None:
    """Both ways."""
    for speaker, listener in ((one, other), (other, one)):
        await speaker.send(body)
        assert await _next_message(listener) == body


async def _next_message(talk: Conversation) -> bytes:
    """The next message; nothing but views of those who come may stand before it."""
    async with asyncio.timeout(WITHIN_S):
        async for item in talk:
            if isinstance(item, rostra.Message):
                return item.body
            assert isinstance(item, rostra.View | rostra.Joined), f"a bystander was told {item!r}"
    raise AssertionError("the conversation is over")
