"""Groups with ``delivery="atomic"`` and real processes: two hosts, one order."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Literal

import pytest
from support.lab import WITHIN_S, Lab, until

import rostra
from rostra.client import CallAsked, Message, Ordered, StateAsked, View

SPEAKER = """
import asyncio, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1], name="victim") as me:
        async with me.join("order", "eu", membership="agreed", delivery="atomic") as group:
            number = 0
            while True:
                await group.send(b"%d" % number)
                number += 1

asyncio.run(main())
"""

Log = list[tuple[int, str, bytes]]


class Heard:
    """Two members, what each of them was given, and a third one that speaks until it is killed."""

    def __init__(self, *groups: Ordered) -> None:
        self.groups = groups
        self.logs: list[Log] = [[] for _ in groups]
        self.views: list[list[View]] = [[] for _ in groups]
        self._readers = [
            asyncio.create_task(read(group, log, seen))
            for group, log, seen in zip(groups, self.logs, self.views, strict=True)
        ]

    async def while_killed(self, speaker: str, socket: str, sender: str, *, count: int) -> None:
        """All have one order, and each receipt names the place in it."""
        with subprocess.Popen([sys.executable, "-c", speaker, socket]) as victim:
            await until(lambda: min(map(len, self.logs)) > 20, "both hear it")
            async with asyncio.timeout(WITHIN_S):
                bodies = [b"%d" % n * 100 for n in range(count)]
                one, other = await asyncio.gather(*[each.send_many(bodies) for each in self.groups])
            os.kill(victim.pid, signal.SIGKILL)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(*self._readers)
        assert self.logs[1] == self.logs[0][-len(self.logs[1]) :]
        mine = [position for position, each, _ in self.logs[0] if each == sender]
        assert mine == [each.position for each in one] and len(other) == count
        assert self.views[0][-1].id == self.views[1][-1].id


async def read(group: Ordered, log: Log, views: list[View]) -> None:
    async for item in group:
        if isinstance(item, Message):
            log.append((item.position, item.sender, item.body))
        elif isinstance(item, View):
            views.append(item)
            if any("/victim#" in each for each in item.failed):
                return


@pytest.mark.spec("A-003", "A-100")
async def test_two_hosts_have_one_order_while_a_member_is_killed(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("order", "eu", membership="agreed", delivery="atomic") as anns,
        lab.program("eu.h2", "bob") as bob,
        bob.join("order", "eu", membership="agreed", delivery="atomic") as bobs,
    ):
        heard = Heard(anns, bobs)
        async with asyncio.timeout(WITHIN_S):
            await bobs.ready()
        await heard.while_killed(SPEAKER, lab.socket("eu.h2"), ann.endpoint, count=300)
        positions = [position for position, *_ in heard.logs[0]]
        assert positions == sorted(positions)


@pytest.mark.spec("A-090", "A-100")
@pytest.mark.parametrize("membership", ["relaxed", "led"])
async def test_a_group_with_its_own_monitor_goes_on_while_a_member_is_killed(
    lab: Lab, membership: Literal["relaxed", "led"]
) -> None:
    speaker = SPEAKER.replace("agreed", membership)
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("order", "eu", membership=membership, delivery="atomic") as anns,
        lab.program("eu.h2", "bob") as bob,
        bob.join("order", "eu", membership=membership, delivery="atomic") as bobs,
    ):
        await Heard(anns, bobs).while_killed(speaker, lab.socket("eu.h2"), ann.endpoint, count=100)


def test_threads_have_one_order_ask_each_other_and_give_a_joiner_the_state(lab: Lab) -> None:
    taken: list[bytes] = []
    with (
        rostra.sync.connect(lab.socket("eu.h1"), name="ann") as ann,
        ann.join("threads", "eu", membership="agreed", delivery="atomic") as anns,
        rostra.sync.connect(lab.socket("eu.h2"), name="bob") as bob,
    ):
        items = anns.items(timeout_s=WITHIN_S)
        said: list[object] = []

        def read() -> None:
            for item in items:
                said.append(item)
                if isinstance(item, CallAsked):
                    item.answer(b"I")
                elif isinstance(item, StateAsked):
                    item.give(b"the ")
                    item.give(b"state")
                elif isinstance(item, Message) and item.body == b"enough":
                    return

        reader = threading.Thread(target=read)
        reader.start()
        receipts = anns.ready(deadline_s=WITHIN_S).send_many([b"one", b"two"], deadline_s=WITHIN_S)
        assert receipts[1].position == receipts[0].position + 1
        with bob.join("threads", "eu", membership="agreed", delivery="atomic", take=taken.append) as bobs:
            assert isinstance(next(bobs.items(timeout_s=WITHIN_S)), View) and taken == [b"the state"]
            assert (anns.rank, bobs.rank, bobs.blocked) == (0, 1, None)
            assert bobs.call(b"who?", "first", deadline_s=WITHIN_S) == {ann.endpoint: b"I"}
            place = bobs.send(b"enough", deadline_s=WITHIN_S).position
        reader.join(WITHIN_S)
        assert isinstance(said[-1], Message) and said[-1].position == place
