"""Speaking over a bad wide-area network: three sites, real processes, packets lost, people coming and going.

Every receiver gets each sender's messages in order, without hole or duplicate, or is told of a `Gap` of
exactly what is missing.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from support.lab import WITHIN_S, until

import rostra
from rostra.client import Conversation
from rostra.errors import BadInput
from rostra.lab import Lab, parse_plan
from rostra.lab.namespaces import check_possible
from rostra.lab.world import LabWorld

PATIENCE_S = 3 * WITHIN_S

SITES = """
[lab]
name = "lossy"
seed = 5
[sites]
mit = 2
huji = 1
ntu = 1
"""


def sites(loss: float) -> str:
    """A star of short links, all equally bad."""
    links = (("mit", "huji", 20), ("mit", "ntu", 20), ("huji", "ntu", 40))
    return SITES + "".join(
        f'[[links]]\nbetween = ["{one}", "{other}"]\nround_trip_ms = {ms}\nloss = {loss}\n'
        for one, other, ms in links
    )


@asynccontextmanager
async def world(loss: float, **data: object) -> AsyncIterator[LabWorld]:
    try:
        check_possible()
    except BadInput as error:
        pytest.skip(f"no lab here: {error}")
    async with Lab(parse_plan(sites(loss))) as lab:
        yield await LabWorld(lab, data=data).start(within_s=PATIENCE_S)


class Ear:
    """Reads a conversation, and fails at the first message that is not the next of its sender."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self.next: dict[str, int] = {}  # by sender
        self.missed: dict[str, int] = {}
        self.bodies: dict[str, list[int]] = {}
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for item in self.talk:
            match item:
                case rostra.Message(sender=sender, number=number, body=body):
                    due = self.next.get(sender, number)
                    assert number == due, f"{sender}: {number} instead of {due}"
                    self.next[sender] = number + 1
                    self.bodies.setdefault(sender, []).append(int(body))
                case rostra.Gap(sender=sender, first=first, missed=missed) if sender is not None:
                    assert first == self.next.get(sender, first), "a gap begins where the last message ended"
                    self.next[sender] = first + missed
                    self.missed[sender] = self.missed.get(sender, 0) + missed

    def has(self, sender: Conversation, upto: int) -> bool:
        """The last of them, or the word that it is missing."""
        if self.reading.done():
            self.reading.result()
        return self.next.get(sender.me.endpoint, 0) > upto


async def speaks(
    stack: AsyncExitStack, world: LabWorld, host: str, name: str, role: str = "both"
) -> Conversation:
    me = await stack.enter_async_context(rostra.connect(world.socket(host), name=name))
    talk = await stack.enter_async_context(me.join("talk", delivery="fifo", role=role))
    return await talk.ready(deadline_s=PATIENCE_S)


async def stream(talk: Conversation, first: int, last: int) -> None:
    """One after the other, a hundred in a second."""
    for number in range(first, last + 1):
        await talk.send(b"%d" % number)
        await asyncio.sleep(0.01)


async def all_have(ears: list[Ear], senders: dict[Conversation, int]) -> None:
    for talk, upto in senders.items():
        await until(
            lambda talk=talk, upto=upto: all(ear.has(talk, upto) for ear in ears),
            f"everybody has {upto} of {talk.me.endpoint}",
            PATIENCE_S,
        )


@pytest.mark.spec("X-005", "X-002", "X-049")
@pytest.mark.parametrize("loss", [0.05, 0.20])
async def test_two_streams_reach_all_sites_whoever_comes_goes_or_is_killed(loss: float) -> None:
    async with world(loss) as lossy, AsyncExitStack() as stack:
        ann = await speaks(stack, lossy, "huji.h1", "ann")
        bob = await speaks(stack, lossy, "ntu.h1", "bob")
        ears = [
            Ear(await speaks(stack, lossy, host, "ear", "receive"))
            for host in ("mit.h1", "huji.h1", "ntu.h1")
        ]
        members = [ann, bob, *(ear.talk for ear in ears)]
        await until(lambda: all(len(talk.members) == 5 for talk in members), "all are there", PATIENCE_S)
        streams = [asyncio.create_task(stream(talk, 1, 150)) for talk in (ann, bob)]
        async with AsyncExitStack() as visit:  # meanwhile somebody comes, hears, and goes
            guest = Ear(await speaks(visit, lossy, "mit.h2", "guest", "receive"))
            await until(lambda: len(guest.next) == 2, "the guest hears both", PATIENCE_S)
            guest.reading.cancel()
        lossy.processes["mit.h2"].send_signal(signal.SIGKILL)  # its agent: nobody else may notice
        await asyncio.gather(*streams)
        await all_have(ears, {ann: 150, bob: 150})
        for ear in ears:
            ear.reading.cancel()
            if not ear.missed:  # nobody was parted from anybody
                assert all(bodies == list(range(bodies[0], 151)) for bodies in ear.bodies.values())


@pytest.mark.spec("X-064", "X-066")
async def test_after_a_cut_a_stream_goes_on_or_its_gap_is_told() -> None:
    async with world(0.05) as lossy, AsyncExitStack() as stack:
        ann = await speaks(stack, lossy, "huji.h1", "ann")
        ear = Ear(await speaks(stack, lossy, "ntu.h1", "ear", "receive"))
        await until(lambda: len(ann.members) == 2 == len(ear.talk.members), "both are there", PATIENCE_S)
        await stream(ann, 1, 50)
        lossy.lab.cut("ntu")
        await until(lambda: len(ann.members) == 1 == len(ear.talk.members), "both know of it", PATIENCE_S)
        await stream(ann, 51, 100)
        lossy.lab.heal("ntu")
        await until(lambda: len(ann.members) == 2 == len(ear.talk.members), "and see each other", PATIENCE_S)
        await stream(ann, 101, 150)
        await all_have([ear], {ann: 150})
        ear.reading.cancel()
        heard = sum(map(len, ear.bodies.values()))
        assert heard + sum(ear.missed.values()) == 150


@pytest.mark.spec("X-086")
async def test_parity_between_sites_makes_up_for_losses() -> None:
    async with world(0.10, parity_frames=4) as lossy, AsyncExitStack() as stack:
        ann = await speaks(stack, lossy, "huji.h1", "ann")
        ear = Ear(await speaks(stack, lossy, "ntu.h1", "ear", "receive"))
        await until(lambda: len(ann.members) == 2 == len(ear.talk.members), "both are there", PATIENCE_S)
        await stream(ann, 1, 100)
        await all_have([ear], {ann: 100})
        ear.reading.cancel()
        assert lossy.ended() == []  # once a server ended at its first parity
