"""Groups with ``delivery="atomic"`` and real processes: two hosts, one order."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Literal

import pytest
from support.lab import WITHIN_S, Lab, until

from rostra.client import Message, Ordered, View

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
        logs: list[Log] = [[], []]
        views: list[list[View]] = [[], []]
        readers = [
            asyncio.create_task(read(group, log, seen))
            for group, log, seen in zip((anns, bobs), logs, views, strict=True)
        ]
        async with asyncio.timeout(WITHIN_S):
            await bobs.ready()
        with subprocess.Popen([sys.executable, "-c", SPEAKER, lab.socket("eu.h2")]) as victim:
            await until(lambda: len(logs[0]) > 20 and len(logs[1]) > 20, "both hear it")
            async with asyncio.timeout(WITHIN_S):
                said = [b"%d" % n * 100 for n in range(300)]
                one, other = await asyncio.gather(anns.send_many(said), bobs.send_many(said))
            os.kill(victim.pid, signal.SIGKILL)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(*readers)
        assert logs[1] == logs[0][-len(logs[1]) :]
        assert [position for position, *_ in logs[0]] == sorted(position for position, *_ in logs[0])
        mine = [position for position, sender, _ in logs[0] if sender == ann.endpoint]
        assert mine == [each.position for each in one] and len(other) == 300
        assert views[0][-1].id == views[1][-1].id


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
        logs: list[Log] = [[], []]
        views: list[list[View]] = [[], []]
        readers = [
            asyncio.create_task(read(group, log, seen))
            for group, log, seen in zip((anns, bobs), logs, views, strict=True)
        ]
        with subprocess.Popen([sys.executable, "-c", speaker, lab.socket("eu.h2")]) as victim:
            await until(lambda: len(logs[0]) > 5 and len(logs[1]) > 5, "both hear it")
            async with asyncio.timeout(WITHIN_S):
                said = [b"%d" % n * 100 for n in range(100)]
                one, other = await asyncio.gather(anns.send_many(said), bobs.send_many(said))
            os.kill(victim.pid, signal.SIGKILL)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(*readers)
        assert logs[1] == logs[0][-len(logs[1]) :]
        mine = [position for position, sender, _ in logs[0] if sender == ann.endpoint]
        assert mine == [each.position for each in one] and len(other) == 100
        assert views[0][-1].id == views[1][-1].id
