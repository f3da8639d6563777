"""Agreed groups with ``delivery="fifo"`` and real processes: kill -9 of a member that speaks."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from support.lab import WITHIN_S, Lab, until

import rostra
import rostra.sync
from rostra.client import AgreedConversation, Message, View
from rostra.errors import DeadlineExceeded

SPEAKER = """
import asyncio, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1], name="victim") as me:
        async with me.join("spoken", "eu", membership="agreed", delivery="fifo") as group:
            await group.ready()
            number = 0
            while True:
                await group.send(b"%d" % number)
                number += 1
                await asyncio.sleep(0)

asyncio.run(main())
"""


class Told:
    """What one member was given, until the view that removes the victim."""

    def __init__(self) -> None:
        self.views: list[View] = []
        self.messages: list[Message] = []

    async def read(self, group: AgreedConversation) -> None:
        async for item in group:
            if isinstance(item, Message):
                assert self.views, "a message before the first view"
                self.messages.append(item)
            elif isinstance(item, View):
                self.views.append(item)
                if any("/victim#" in each for each in item.failed):
                    return


async def test_what_a_killed_member_said_comes_in_order_and_a_view_removes_it(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("spoken", "eu", membership="agreed", delivery="fifo") as anns,
        lab.program("eu.h2", "bob") as bob,
        bob.join("spoken", "eu", membership="agreed", delivery="fifo") as bobs,
    ):
        told = [Told(), Told()]
        readers = [asyncio.create_task(told[0].read(anns)), asyncio.create_task(told[1].read(bobs))]
        with subprocess.Popen([sys.executable, "-c", SPEAKER, lab.socket("eu.h2")]) as victim:
            await until(lambda: all(len(each.messages) > 100 for each in told), "both hear it")
            os.kill(victim.pid, signal.SIGKILL)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(*readers)
        for each in told:
            assert [view.number for view in each.views] == sorted({view.number for view in each.views})
            assert [int(item.body) for item in each.messages] == list(range(len(each.messages)))
        assert told[0].views[-1].id == told[1].views[-1].id


def test_threads_speak_in_agreed_groups(lab: Lab) -> None:
    with (
        rostra.sync.connect(lab.socket("eu.h1"), name="ann") as ann,
        ann.join("threads", "eu", membership="agreed", delivery="fifo") as anns,
        rostra.sync.connect(lab.socket("eu.h2"), name="bob") as bob,
        bob.join("threads", "eu", membership="agreed", delivery="fifo") as bobs,
    ):
        bobs.ready(deadline_s=WITHIN_S)
        items = anns.items(timeout_s=WITHIN_S)
        views = [next(items), next(items)]
        for _ in range(2):
            with pytest.raises(
                DeadlineExceeded, match="nothing happened within"
            ):  # which ends that wait alone
                items.next(0.05)
        bobs.send(b"hello", deadline_s=WITHIN_S)
        assert [type(item) for item in (*views, next(items))] == [View, View, Message]
        assert (anns.rank, bobs.rank) == (0, 1)
