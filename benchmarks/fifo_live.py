"""Two streams that were once too slow, with real servers, agents and programs on the lab's network.

    python -m benchmarks.fifo_live             both
    python -m benchmarks.fifo_live behind      one that did not read for 20 s, with slow="spill", catches up
    python -m benchmarks.fifo_live large       18 MiB in messages of 1 MiB, while a fifth of all is lost

The sender is at one site, the receivers at another, 20 ms one way. Of the first it prints how fast the one
that was behind is served, and beside it one that was not, while the sender goes on and after it has stopped.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import rostra
from rostra.client import Conversation, Message
from rostra.client.conversation import RoleName, SlowName
from rostra.lab import Lab, parse_plan
from rostra.lab.world import LabWorld

GROUP: Final = "table"
RATE: Final = 1700  # messages per second
TURN_S: Final = 0.02
BEHIND_S: Final = 20.0
LARGE: Final = 18
READY_WITHIN_S: Final = 60.0
WITHIN_S: Final = 300.0


@asynccontextmanager
async def two_sites(loss: float) -> AsyncIterator[LabWorld]:
    plan = '[lab]\nname = "table"\nseed = 1\n[sites]\ns1 = 1\ns2 = 2\n[[links]]\nbetween = ["s1", "s2"]\n'
    async with Lab(parse_plan(f"{plan}round_trip_ms = 40\nloss = {loss}\n")) as lab:
        yield await LabWorld(lab, detect={"down_after_s": 12.0}, keeps_state=True).start()


async def member(
    stack: AsyncExitStack, world: LabWorld, host: str, role: RoleName, slow: SlowName = "throttle"
) -> Conversation:
    me = await stack.enter_async_context(rostra.connect(world.socket(host), name=role))
    talk = await stack.enter_async_context(me.join(GROUP, delivery="fifo", role=role, slow=slow))
    return await talk.ready(deadline_s=READY_WITHIN_S)


class Reader:
    """How far it has read, without a hole."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.last = 0

    async def read(self) -> None:
        async for item in self._talk:
            if isinstance(item, Message):
                assert item.number == self.last + 1, f"{item.number} after {self.last}"
                self.last = item.number

    async def until(self, last: int) -> None:
        async with asyncio.timeout(WITHIN_S):
            while self.last < last:
                await asyncio.sleep(TURN_S)


async def behind(size: int) -> None:
    async with two_sites(0.0) as world, AsyncExitStack() as stack:
        sender = await member(stack, world, "s1.h1", "send")
        quick, slow = [
            Reader(await member(stack, world, host, "receive", "spill")) for host in ("s2.h1", "s2.h2")
        ]
        reading = [asyncio.create_task(quick.read())]
        said, began = 0, time.monotonic()

        async def speak(for_s: float) -> None:
            nonlocal said
            until = time.monotonic() + for_s
            while (now := time.monotonic()) < until:
                due = int((now - began) * RATE) - said
                if due > 0:
                    said += await sender.send_many([bytes(size)] * due)
                await asyncio.sleep(TURN_S)

        await speak(BEHIND_S)
        reading.append(asyncio.create_task(slow.read()))
        for what, go_on in (("while it is said", speak(BEHIND_S / 2)), ("and after", quick.until(said))):
            before, at = (quick.last, slow.last), time.monotonic()
            print(f"{said} said, {said - slow.last} behind", flush=True)
            await go_on
            if what == "and after":
                await slow.until(said)
            took_s = time.monotonic() - at
            rates = [(reader.last - had) / took_s for reader, had in zip((quick, slow), before, strict=True)]
            print(f"{what}, {took_s:.1f} s: {rates[0]:.0f} messages/s, the one behind {rates[1]:.0f}")
        for task in reading:
            task.cancel()


async def large() -> None:
    async with two_sites(0.2) as world, AsyncExitStack() as stack:
        sender = await member(stack, world, "s1.h1", "send")
        reader = Reader(await member(stack, world, "s2.h1", "receive"))
        reading = asyncio.create_task(reader.read())
        at = time.monotonic()
        await sender.send_many([bytes(1 << 20)] * LARGE)
        await reader.until(LARGE)
        print(f"{LARGE} MiB in messages of 1 MiB at 20 % loss: {time.monotonic() - at:.1f} s")
        reading.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("behind", "large"))
    parser.add_argument("--size", type=int, default=1000)
    chosen = parser.parse_args()
    if chosen.what != "large":
        asyncio.run(behind(chosen.size))
    if chosen.what != "behind":
        asyncio.run(large())


if __name__ == "__main__":
    main()
