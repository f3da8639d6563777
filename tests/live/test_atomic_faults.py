"""Groups with ``delivery="atomic"`` under load, with real processes: the agent that orders is killed; a donor
is killed half way. What is looked at is safety: `make bench ARGS="--only W12"` has the times."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until
from support.speakers import kill_the_first

from rostra.client import Me, Message, Ordered

HOSTS = ("eu.h1", "eu.h2", "eu.h3")
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


@pytest.mark.spec("A-100", "A-101")
async def test_what_was_acknowledged_is_kept_when_the_orderers_agent_is_killed(three_hosts: Lab) -> None:
    await kill_the_first(three_hosts, HOSTS, "killed")


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
