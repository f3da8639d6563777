"""Records of one turn are one commit, and on disk before anything leaves that may rest on them."""

import asyncio
from typing import Any

import pytest

from rostra.config import WorldConfig
from rostra.core.effects import Answer, Secure, SetTimer
from rostra.core.records import KeyedRecord
from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.protocols.links.events import Transmit
from rostra.protocols.links.packets import Bye
from rostra.protocols.relaxed.requests import Done
from rostra.runtime.process import BESIDE, HostedNode, Process
from rostra.runtime.store import MemoryStore

PEER, NEAR = Domain("eu.fr"), Domain("eu.h1")
BYE = Bye(1, 1, "")


class Disk(MemoryStore):
    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self._log = log

    def persist(self, record: Any) -> None:
        self._log.append(record.key)

    def sync(self) -> None:
        self._log.append("sync")


class Ear:
    """A channel, or programs."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def send(self, packet: object) -> None:
        self._log.append("sent")

    def answer(self, answer: Answer) -> None:
        self._log.append("answered")


def secure(number: int) -> Secure:
    return Secure(KeyedRecord(f"r{number}", number, b""))


class Bare:
    """A node that does nothing by itself."""

    path = Domain("eu")


@pytest.mark.parametrize(
    ("orders", "log"),
    [
        ([secure(1), secure(2), Transmit(PEER, BYE)], ["r1", "r2", "sync", "sent"]),
        ([secure(1), Answer(1, Done()), Answer(2, Done())], ["r1", "sync", "answered", "answered"]),
        ([Answer(1, Done()), secure(1), Answer(2, Done())], ["answered", "r1", "sync", "answered"]),
        (
            [secure(1), Transmit(NEAR, BYE), secure(2), Answer(1, Done())],
            ["r1", "r2", "sync", "answered"],
        ),
        ([secure(1), SetTimer(("t",), 1.0)], ["r1"]),
    ],
    ids=["to a peer", "to a program", "before it", "inside of the process", "to nobody"],
)
def test_what_is_sent_goes_after_the_records_before_it_are_on_disk(orders: list[Any], log: list[str]) -> None:
    async def scene() -> None:
        process = Process(WorldConfig("syncs", {}), EventLog(quiet=True))
        seen: list[str] = []
        node: Any = Bare()
        hosted = HostedNode(node, Disk(seen), is_agent=True)
        ear: Any = Ear(seen)
        hosted.channels[PEER] = ear
        process.programs[hosted.path] = ear
        process.hosted_nodes[NEAR] = hosted
        process._carry_out(hosted, BESIDE, orders)
        assert seen == log
        process._inner.clear()
        process._begin_turn()
        await asyncio.sleep(0.01)
        assert seen.count("sync") == 1, "at the latest when the turn ends, and once"
        for timer in hosted.timers.values():
            timer.cancel()

    asyncio.run(scene())
