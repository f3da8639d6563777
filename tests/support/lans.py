"""One cluster, each host on a machine of its own, whose hosts speak by multicast, from host to host, or by
their server."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until, why_no_namespaces

from rostra.client import Conversation
from rostra.names import Domain
from rostra.transport.multicast import group_address

HURRY_S = 2 * WITHIN_S
GROUP = group_address("lab", Domain("eu"))


def lan(directory: Path, mode: str, hosts: Sequence[str]) -> Iterator[Lab]:
    """One cluster of these hosts, each on a machine of its own, and its server on one more."""
    if (why := why_no_namespaces()) is not None:
        pytest.skip(f"machines cannot be made here: {why}")
    data = f'[data]\nworld = {{ mode = "{mode}", datagram_bytes = 1200 }}\n'
    with Lab(directory, servers=("eu",), hosts=hosts, more=data + FORGIVING) as lab:
        yield lab


@asynccontextmanager
async def speaking(lab: Lab, group: str, *hosts: str) -> AsyncIterator[list[Conversation]]:
    """A member on each of these, all of whom know of each other."""
    async with AsyncExitStack() as stack:
        talks = []
        for host in hosts:
            me = await stack.enter_async_context(lab.program(host, "one"))
            talks.append(await stack.enter_async_context(me.join(group, delivery="fifo")))
        for talk in talks:
            await talk.ready(deadline_s=HURRY_S)
        await until(lambda: all(len(talk.members) == len(hosts) for talk in talks), "all are there", HURRY_S)
        yield talks


async def mode_of(lab: Lab, node: str) -> str:
    return str((await lab.inspect(node))["data"]["mode"])


async def all_by(lab: Lab, mode: str) -> None:
    """Until every host speaks so, and hears so."""

    async def so() -> bool:
        modes = [await mode_of(lab, host) for host in lab.hosts]
        hears = [each["hears_multicast"] for each in (await lab.inspect("eu"))["data"]["hosts"].values()]
        return set(modes) == {mode} and (mode != "multicast" or hears == [True] * len(lab.hosts))

    await until(so, f"all speak by {mode}", HURRY_S, look_s=0.1)


def heal(lab: Lab, mode: str) -> None:
    """What was cut is whole again, and all speak as before."""
    lab.heal()
    if mode == "reflect":
        for node in ("eu", *lab.hosts):
            lab.deafen(node, f"-d {GROUP}")


@asynccontextmanager
async def spoken_to_by(lab: Lab, mode: str) -> AsyncIterator[None]:
    """All hosts of this lab speak so. Afterwards all is as before, whatever was killed."""
    try:
        heal(lab, mode)
        async with speaking(lab, f"woken-by-{mode}", *lab.hosts):
            await all_by(lab, mode)
        yield
    finally:
        await lab.calm()
