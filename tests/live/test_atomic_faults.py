"""Groups with ``delivery="atomic"`` under load, with real processes: the agent that orders is killed; a donor
is killed half way. What is looked at is safety: `make bench ARGS="--only W12"` has the times."""

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.client import Me, Message, Ordered, Receipt, View
from rostra.errors import Rejected, RostraError, Unreachable

HOSTS = ("eu.h1", "eu.h2", "eu.h3")
ON_THEIR_WAY = 100
STATE_BYTES = 4 << 20

DONOR = """
import asyncio, os, random, signal, sys, rostra

state = bytearray(random.Random(5).randbytes(int(sys.argv[2])))
given = 0

async def pieces(state, dies):
    for at in range(0, len(state), 1 << 16):
        if dies and at >= len(state) // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield state[at : at + (1 << 16)]

def give():
    global given
    given += 1
    return pieces(bytes(state), given == 2)

async def main():
    async with (
        rostra.connect(sys.argv[1], name="donor") as me,
        me.join("large", "eu", membership="agreed", delivery="atomic", give=give) as group,
    ):
        async for item in group:
            if isinstance(item, rostra.Message):
                state.extend(item.body)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, namespaces: bool) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("three_hosts")
    with Lab(directory, servers=("eu",), hosts=HOSTS, namespaces=namespaces, more=FORGIVING) as lab:
        yield lab


@pytest.fixture
def three_hosts(running: Lab) -> Lab:
    """A test may kill agents: they are back for the next one."""
    asyncio.run(running.calm())
    return running


class Speaker:
    """A member that speaks all the time, until it is refused; what it was given, and what became of its
    own."""

    def __init__(self, me: Me, group: Ordered) -> None:
        self.endpoint, self.group = me.endpoint, group
        self.log: list[tuple[int, str, bytes]] = []
        self.since_loss = -1  # messages, since the view that shows it
        self.receipts: dict[bytes, Receipt] = {}
        self.rejected: list[bytes] = []
        self.in_doubt: list[bytes] = []
        self._enough = False
        self.reading = asyncio.create_task(self._read())
        self.speaking = asyncio.create_task(self._speak())

    async def _read(self) -> None:
        with contextlib.suppress(Unreachable):  # the agent is killed
            async for item in self.group:
                if isinstance(item, Message):
                    self.log.append((item.position, item.sender, item.body))
                    self.since_loss += self.since_loss >= 0
                elif isinstance(item, View) and item.failed:
                    self.since_loss = 0

    async def _speak(self) -> None:
        said: deque[tuple[bytes, asyncio.Task[Receipt]]] = deque()
        number = 0
        while said or not self._enough:
            while len(said) < ON_THEIR_WAY and not self._enough:
                number += 1
                body = b"%s %d" % (self.endpoint.encode(), number)
                said.append((body, asyncio.create_task(self.group.send(body))))
            body, receipt = said.popleft()
            try:
                self.receipts[body] = await receipt
            except RostraError as error:
                self._enough = True
                (self.rejected if isinstance(error, Rejected) else self.in_doubt).append(body)

    async def end(self) -> None:
        self._enough = True
        await self.speaking


async def test_what_was_acknowledged_is_kept_when_the_orderers_agent_is_killed(three_hosts: Lab) -> None:
    speakers: list[Speaker] = []
    async with AsyncExitStack() as stack:
        for host in HOSTS:
            me = await stack.enter_async_context(three_hosts.program(host, "speaker"))
            join = me.join("killed", "eu", membership="agreed", delivery="atomic", survive="majority")
            speakers.append(Speaker(me, await (await join).ready(deadline_s=WITHIN_S)))
        ann, ben, cem = speakers
        assert ann.group.rank == 0
        await until(lambda: len(ann.receipts) > 200 and len(cem.log) > 200, "all hear it")
        if three_hosts.has_cables:  # the others never hear that it went on to acknowledge what they have
            await asyncio.to_thread(three_hosts.silence, "eu.h1", "-p udp")  # while all speak
            await asyncio.sleep(0.1)
        await asyncio.to_thread(three_hosts["eu.h1"].kill)
        await until(lambda: min(ben.since_loss, cem.since_loss) > 200, "the others go on")
        for each in speakers:
            await each.end()
        last = max(receipt.position for each in (ben, cem) for receipt in each.receipts.values())
        await until(lambda: min(ben.log[-1][0], cem.log[-1][0]) >= last, "both have all")
        since = cem.log[0][0]
        assert [each for each in ben.log if each[0] >= since] == cem.log
        given = {body: position for position, _, body in ben.log}
        assert len(given) == len(ben.log)  # nothing twice
        for each in speakers:
            kept = {body: receipt.position for body, receipt in each.receipts.items()}
            # The first ones of the founder may be from before the other two were in.
            assert kept.items() - given.items() == {
                (body, at) for body, at in kept.items() if at < ben.log[0][0]
            }
            assert not given.keys() & {*each.rejected}
        assert not any(each.rejected or each.in_doubt for each in (ben, cem))
        assert ann.rejected or ann.in_doubt


async def test_a_joiner_has_the_exact_state_though_its_donor_is_killed_half_way(three_hosts: Lab) -> None:
    kept = {"ben": bytearray(), "cem": bytearray()}  # a state, and all messages since
    gives: list[str] = []

    def given(name: str) -> bytes:
        gives.append(name)
        return bytes(kept[name])

    async def read(name: str, group: Ordered) -> None:
        async for item in group:
            if isinstance(item, Message):
                kept[name].extend(item.body)

    async def speak(group: Ordered) -> int:
        number = 0
        while not enough.is_set():
            number += len(await group.send_many([b"%d," % n for n in range(number, number + 20)]))
        return number

    enough = asyncio.Event()
    donor = [sys.executable, "-c", DONOR, three_hosts.socket("eu.h1"), str(STATE_BYTES)]
    with subprocess.Popen(donor) as victim:
        async with AsyncExitStack() as stack:
            stack.callback(victim.kill)
            observer = await stack.enter_async_context(three_hosts.program("eu.h1", "observer"))
            await until(lambda: is_founded(observer), "the donor is in")
            groups: dict[str, Ordered] = {}
            for host, name in (("eu.h2", "ben"), ("eu.h3", "cem")):
                me = await stack.enter_async_context(three_hosts.program(host, name))
                groups[name] = await me.join(
                    *("large", "eu"),
                    membership="agreed",
                    delivery="atomic",
                    take=kept[name].extend,
                    give=lambda name=name: given(name),
                )
                stack.callback(asyncio.create_task(read(name, groups[name])).cancel)
                if name == "ben":
                    await until(lambda: kept["ben"], "ben has the state")
                    speaking = asyncio.create_task(speak(groups["ben"]))
                    await until(lambda: len(kept["ben"]) > STATE_BYTES + 1000, "ben speaks")
            await until(lambda: kept["cem"], "cem has the state")
            assert await asyncio.to_thread(victim.wait, WITHIN_S) == -signal.SIGKILL and gives == ["ben"]
            enough.set()
            said = b"".join([b"%d," % n for n in range(await speaking)])
            await until(lambda: len(kept["ben"]) >= STATE_BYTES + len(said), "ben has all")
            await until(lambda: len(kept["cem"]) >= len(kept["ben"]), "cem has all")
    assert kept["ben"] == random.Random(5).randbytes(STATE_BYTES) + said
    assert kept["cem"] == kept["ben"]


async def is_founded(me: Me) -> bool:
    return bool((await me.groups.look("large", "eu")).view.members)
