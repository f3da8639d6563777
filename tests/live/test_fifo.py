"""Speaking to a group, between real programs: in order, without gap or duplicate, from the first message."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.lab import Lab

import rostra
from rostra.client import Conversation

HURRY_S = 20.0


@asynccontextmanager
async def speaking(lab: Lab, host: str, name: str, group: str, **how: str) -> AsyncIterator[Conversation]:
    """A program that is in the group, and knows who else is."""
    async with lab.program(host, name) as me, me.join(group, delivery="fifo", **how) as talk:
        await talk.ready(deadline_s=HURRY_S)
        yield talk


async def everybody_sees(talks: list[Conversation], count: int) -> None:
    """Until each of them knows of so many members."""
    async with asyncio.timeout(HURRY_S):
        while any(len(talk.members) < count for talk in talks):
            await asyncio.sleep(0.02)


async def heard(talk: Conversation, count: int, *senders: str) -> dict[str, list[bytes]]:
    """The next so many messages, by the name of who said them; numbers are checked on the way."""
    got: dict[str, list[bytes]] = {}
    numbers: dict[str, int] = {}
    async with asyncio.timeout(HURRY_S):
        async for item in talk:
            if isinstance(item, rostra.Message):
                name = item.sender.partition("/")[2].partition("#")[0]
                assert item.number == numbers.get(name, item.number - 1) + 1, f"{name} has a hole"
                numbers[name] = item.number
                got.setdefault(name, []).append(item.body)
                count -= 1
                if count == 0:
                    break
    return got


def lines(word: str, count: int) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


@pytest.mark.spec("X-004")
@pytest.mark.parametrize(
    ("one", "other"),
    [("eu.h1", "eu.h1"), ("eu.h1", "eu.h2"), ("eu.h1", "us.h1")],
    ids=["one host", "two hosts of a cluster", "two clusters"],
)
async def test_two_programs_hear_each_other_from_the_first_message_on(lab: Lab, one: str, other: str) -> None:
    group = f"talk-{other}"
    async with speaking(lab, one, "ann", group) as ann, speaking(lab, other, "bob", group) as bob:
        await everybody_sees([ann, bob], 2)
        await ann.send(b"e4")
        await bob.send_many(lines("bob", 500))
        assert await heard(bob, 1) == {"ann": [b"e4"]}
        assert await heard(ann, 500) == {"bob": lines("bob", 500)}
