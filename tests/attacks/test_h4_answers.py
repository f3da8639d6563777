"""H4, the other way: a program asks in one frame for more than memory holds, and reads none of it, or all.

What is answered is written as far as it is read, and questions beyond a share wait for the next turn: so the
host keeps its place in the cluster meanwhile.
"""

import asyncio
from typing import Any

import pytest
from support.bystanders import unnoticed
from support.callers import Caller, call
from support.lab import WITHIN_S, Lab
from support.memory import forget_peak, peak_mb

from rostra.names import Domain, Group
from rostra.protocols.relaxed.requests import Absolute, Inspect, Join, Open, Resolve
from rostra.wire import NO_ENDPOINT, Answered, Ask, Encoder, FrameKind, FrameReader, ProgramHello

HOST = "eu.h1"
ENCODER = Encoder("lab")
MEMBERS, QUESTIONS = 100, 30_000
ATTACHMENT = b"\x92" + bytes(255)  # looks like one of the system's own, until it is decoded
PEAK_MB = 200


class Mallory:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._reader = FrameReader("lab", FrameKind.TO_PROGRAM)
        self.say(ENCODER.to_agent(ProgramHello("lab", "mallory")))

    def say(self, frames: bytes) -> None:
        self._caller.writer.write(frames)

    async def answers(self, count: int) -> list[Any]:
        found: list[Any] = []
        async with asyncio.timeout(WITHIN_S):
            while len(found) < count:
                items = self._reader.feed(await self._caller.reader.read(1 << 20))
                assert not self._reader.over, items
                found += [item for item in items if isinstance(item, Answered)]
        return found

    async def fill(self, group: Group) -> int:
        """Be in the group many times; the answer is the number of one who is."""
        self.say(ENCODER.asks([Ask(n, NO_ENDPOINT, Open(f"m{n}")) for n in range(MEMBERS)]))
        opened = await self.answers(MEMBERS)
        numbers = [int(each.answer.endpoint.rpartition("#")[2]) for each in opened]
        self.say(ENCODER.asks([Ask(number, number, Join(group, meta=ATTACHMENT)) for number in numbers]))
        await self.answers(MEMBERS)
        return numbers[0]


@pytest.mark.parametrize("reads", [False, True], ids=["reads nothing", "reads all"])
async def test_questions_without_number_in_one_frame(world: Lab, reads: bool) -> None:
    group = Group("all" if reads else "none", Domain("eu"))
    async with unnoticed(world, f"h4-ask-{reads}", HOST), call(world, HOST) as caller:
        mallory, before = Mallory(caller), forget_peak(world, HOST)
        me = await mallory.fill(group)
        count = QUESTIONS // 5 if reads else QUESTIONS
        asks = ENCODER.asks([Ask(n, me, Resolve(group.name, group.scope)) for n in range(count)])
        assert len(asks) < 1 << 20, "in one frame"
        mallory.say(asks)
        if reads:
            answers = await mallory.answers(count)
            assert [each.token for each in answers] == list(range(count))
            assert all(isinstance(each.answer, Absolute) for each in answers)
            assert {len(each.answer.members) for each in answers} == {MEMBERS}
        async with world.program(HOST, "ann") as ann:
            assert len((await ann.resolve(group.name, scope="eu", fresh=True)).members) == MEMBERS
        assert peak_mb(world, HOST) - before < PEAK_MB


async def test_documents_without_number_in_one_frame(world: Lab) -> None:
    async with unnoticed(world, "h4-inspect", HOST), call(world, HOST) as caller:
        mallory, before = Mallory(caller), forget_peak(world, HOST)
        mallory.say(ENCODER.asks([Ask(n, NO_ENDPOINT, Inspect()) for n in range(QUESTIONS)]))
        await mallory.answers(1)
        assert peak_mb(world, HOST) - before < PEAK_MB
    assert HOST in (await world.inspect("eu"))["links"]
