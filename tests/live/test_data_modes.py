"""How a LAN is spoken to, between real machines: by multicast, from host to host, or by its server."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.lab import FORGIVING, TOOLS_PATH, WITHIN_S, Lab, Machine, until, why_no_namespaces
from support.speakers import kill_the_first

import rostra
from rostra.client import Conversation
from rostra.client.ordered import OrderName
from rostra.names import Domain
from rostra.protocols.channel.messages import LAN
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of
from rostra.transport.multicast import group_address
from rostra.wire.datagrams import Datagrams

HURRY_S = 2 * WITHIN_S
HOSTS = ("eu.h1", "eu.h2", "eu.h3")
GROUP = group_address("lab", Domain("eu"))


def lan(directory: Path, mode: str) -> Iterator[Lab]:
    """One cluster of three hosts, each on a machine of its own, and its server on a fourth."""
    if (why := why_no_namespaces()) is not None:
        pytest.skip(f"machines cannot be made here: {why}")
    data = f'[data]\nworld = {{ mode = "{mode}", datagram_bytes = 1200 }}\n'
    with Lab(directory, servers=("eu",), hosts=HOSTS, more=data + FORGIVING) as lab:
        yield lab


@pytest.fixture(scope="module")
def auto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lan(tmp_path_factory.mktemp("auto"), "auto")


@pytest.fixture(scope="module")
def fanout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lan(tmp_path_factory.mktemp("fanout"), "fanout")


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


async def numbers(talk: Conversation, sender: str, upto: int, due: int = 1) -> None:
    """Everything that it says, once and in order, to the last."""
    async with asyncio.timeout(HURRY_S):
        async for item in talk.items(batch=1000):
            assert not isinstance(item, rostra.Gap)
            if isinstance(item, rostra.Messages) and item.sender.startswith(sender):
                assert item.first == due
                due += len(item)
                if due > upto:
                    return


async def mode_of(lab: Lab, node: str) -> str:
    return str((await lab.inspect(node))["data"]["mode"])


async def all_by(lab: Lab, mode: str) -> None:
    """Until every host speaks so, and hears so."""

    async def so() -> bool:
        modes = [await mode_of(lab, host) for host in HOSTS]
        hears = [each["hears_multicast"] for each in (await lab.inspect("eu"))["data"]["hosts"].values()]
        return set(modes) == {mode} and (mode != "multicast" or hears == [True] * len(HOSTS))

    await until(so, f"all speak by {mode}", HURRY_S, look_s=0.1)


def packets_sent(machine: Machine) -> int:
    """By its network interface, since it was made."""
    told = subprocess.run(
        machine.command("cat", "/proc/net/dev"), capture_output=True, text=True, check=True
    ).stdout
    (line,) = [line for line in told.splitlines() if line.strip().startswith("eth0:")]
    return int(line.split(":")[1].split()[9])


SAID = [bytes(1000)] * 1000
"""One datagram each: none has room for two."""


@pytest.mark.spec("X-107")
async def test_by_multicast_one_datagram_leaves_the_sender_for_all(auto: Lab) -> None:
    lab = auto
    async with speaking(lab, "once", *HOSTS) as (ann, *others):
        await all_by(lab, "multicast")
        lab.count_packets("eu.h1", f"-d {GROUP}")
        await ann.send_many(SAID)
        for other in others:
            await numbers(other, "eu.h1/", len(SAID))
        # A thousand of them once; and heartbeats besides, far fewer than a second copy.
        assert len(SAID) <= lab.packets("eu.h1") < 1.9 * len(SAID)
        server = (await lab.inspect("eu"))["data"]
        assert server["mode"] == "multicast" and server["sealed"]
    lab.heal()


@pytest.mark.spec("X-107")
async def test_from_host_to_host_one_datagram_leaves_the_sender_for_each(fanout: Lab) -> None:
    lab = fanout
    async with speaking(lab, "each", *HOSTS) as (ann, *others):
        await all_by(lab, "fanout")
        sender, server = lab["eu.h1"].machine, lab["eu"].machine
        before = packets_sent(sender), packets_sent(server)
        await ann.send_many(SAID)
        for other in others:
            await numbers(other, "eu.h1/", len(SAID))
        assert packets_sent(sender) - before[0] >= 3 * len(SAID)  # two hosts and the server
        assert packets_sent(server) - before[1] < len(SAID)  # which passes nothing on


@pytest.mark.spec("X-107", "X-081")
async def test_what_multicast_loses_is_repaired_and_a_host_it_does_not_reach_is_served_by_the_server(
    auto: Lab,
) -> None:
    lab = auto
    async with speaking(lab, "deaf", *HOSTS) as (ann, bob, eve):
        await all_by(lab, "multicast")
        lab.deafen("eu.h2", f"-d {GROUP} -m statistic --mode random --probability 0.3")
        lab.deafen("eu.h3", f"-d {GROUP}")  # in the middle of the conversation
        for first in range(0, 1000, 100):
            await ann.send_many(SAID[first : first + 100])
        await numbers(bob, "eu.h1/", 1000)
        await numbers(eve, "eu.h1/", 1000)

        async def given_up() -> bool:
            hosts = (await lab.inspect("eu"))["data"]["hosts"]
            return not hosts["eu.h3"]["hears_multicast"]

        await until(given_up, "the server serves the deaf host itself", HURRY_S, look_s=0.1)
        await until(lambda: "multicast_fails" in lab["eu"].log, "and says so")
        await ann.send_many(SAID)
        await numbers(eve, "eu.h1/", 2000, due=1001)
    lab.heal()


@pytest.mark.spec("X-107")
async def test_without_multicast_auto_is_the_server(auto: Lab) -> None:
    lab = auto
    for node in ("eu", *HOSTS):
        lab.deafen(node, f"-d {GROUP}")
    async with speaking(lab, "none", *HOSTS) as (ann, *others):
        await ann.send_many(SAID)
        for other in others:
            await numbers(other, "eu.h1/", len(SAID))
        await all_by(lab, "reflect")
        for host in HOSTS:
            said = f"multicast_fails node=eu host={host} "
            await until(lambda said=said: said in lab["eu"].log, f"it is said of {host}", HURRY_S)
    lab.heal()


async def one_order(lab: Lab, group: str, order: str) -> None:
    """All members say something at once, one of them more than fits a datagram; all have the same log."""
    async with AsyncExitStack() as stack:
        members = []
        for host in HOSTS:
            me = await stack.enter_async_context(lab.program(host, "two"))
            join = me.join(group, "eu", membership="agreed", delivery="atomic", order=order)
            members.append(await stack.enter_async_context(join))
        await until(lambda: all(len(each.members) == len(HOSTS) for each in members), "all are in", HURRY_S)
        said = [b"%d" % n for n in range(50)]
        async with asyncio.timeout(HURRY_S):
            await asyncio.gather(*[each.send_many([*said, bytes(20_000)]) for each in members])
            logs = [await _places(each, len(HOSTS) * 51) for each in members]
        assert logs[0] == logs[1] == logs[2]


async def _places(group: rostra.Ordered, count: int) -> list[tuple[int, str, int]]:
    found: list[tuple[int, str, int]] = []
    async for item in group:
        if isinstance(item, rostra.Message):
            found.append((item.position, item.sender, item.number))
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("order", ["hub", "negotiated"])
@pytest.mark.spec("A-045", "A-100", "A-091")
async def test_one_order_by_multicast(auto: Lab, order: str) -> None:
    async with speaking(auto, f"woken-{order}", *HOSTS):
        await all_by(auto, "multicast")
        await one_order(auto, f"cast-{order}", order)


@pytest.mark.parametrize("order", ["hub", "negotiated"])
@pytest.mark.spec("A-045", "A-100")
async def test_one_order_from_host_to_host(fanout: Lab, order: str) -> None:
    await one_order(fanout, f"each-{order}", order)


@pytest.mark.parametrize("order", ["hub", "negotiated"])
@pytest.mark.spec("A-045", "A-100")
async def test_one_order_by_the_server(auto: Lab, order: str) -> None:
    """Multicast reaches none of them."""
    for node in ("eu", *HOSTS):
        auto.deafen(node, f"-d {GROUP}")
    await one_order(auto, f"relay-{order}", order)
    auto.heal()


@asynccontextmanager
async def spoken_to_by(lab: Lab, mode: str) -> AsyncIterator[None]:
    """All hosts of this lab speak so. Afterwards all is as before, whatever was killed."""
    try:
        if mode == "reflect":
            for node in ("eu", *HOSTS):
                lab.deafen(node, f"-d {GROUP}")
        async with speaking(lab, f"woken-by-{mode}", *HOSTS):
            await all_by(lab, mode)
        yield
    finally:
        await lab.calm()


@pytest.fixture(params=["multicast", "fanout", "reflect"])
def way(request: pytest.FixtureRequest) -> tuple[Lab, str]:
    lab = request.getfixturevalue("fanout" if request.param == "fanout" else "auto")
    return lab, request.param


@pytest.mark.parametrize("order", ["hub", "negotiated"])
@pytest.mark.spec("A-073", "A-089", "A-100", "A-101")
async def test_one_order_goes_on_by_every_way_when_its_first_host_is_killed(
    way: tuple[Lab, str], order: OrderName
) -> None:
    """XA-02, 08, 11, 14 and 15: a member comes and leaves under load, and then the first agent is killed."""
    lab, mode = way
    async with spoken_to_by(lab, mode):
        await kill_the_first(lab, HOSTS, f"killed-{mode}-{order}", order)


SITES = ("eu", "us", "ap")
BETWEEN = "239.192.77.1:7790"


@pytest.fixture(scope="module")
def three_sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three clusters of one host each, whose servers hear each other by multicast."""
    if (why := why_no_namespaces()) is not None:
        pytest.skip(f"machines cannot be made here: {why}")
    data = f'[data]\nworld = {{ mode = "reflect", datagram_bytes = 1200, between = "{BETWEEN}" }}\n'
    hosts = tuple([f"{site}.h1" for site in SITES])
    with Lab(tmp_path_factory.mktemp("between"), servers=SITES, hosts=hosts, more=data + FORGIVING) as lab:
        yield lab


@pytest.mark.spec("X-108")
async def test_between_sites_by_multicast_one_datagram_leaves_the_server_for_all_of_them(
    three_sites: Lab,
) -> None:
    lab = three_sites
    async with speaking(lab, "wide", *(f"{site}.h1" for site in SITES)) as (ann, *others):
        lab.count_packets("eu", f"-d {BETWEEN.partition(':')[0]}")
        await ann.send_many(SAID)
        for other in others:
            await numbers(other, "eu.h1/", len(SAID))
        assert len(SAID) <= lab.packets("eu") < 1.9 * len(SAID), "not one for each of the two others"
        assert (await lab.inspect("eu"))["data"]["between"] == BETWEEN
    lab.heal()


@pytest.mark.spec("X-108", "X-083")
async def test_what_multicast_between_sites_loses_is_repaired_even_if_nothing_arrives(
    three_sites: Lab,
) -> None:
    lab = three_sites
    group = BETWEEN.partition(":")[0]
    async with speaking(lab, "lossy", *(f"{site}.h1" for site in SITES)) as (ann, bob, eve):
        lab.deafen("us", f"-d {group} -m statistic --mode random --probability 0.3")
        lab.deafen("ap", f"-d {group}")
        await ann.send_many(SAID[:200])
        await numbers(bob, "eu.h1/", 200)
        await numbers(eve, "eu.h1/", 200)
    lab.heal()


async def test_a_datagram_that_nobody_sealed_speaks_for_nobody(auto: Lab) -> None:
    """Not even from the right machine: another program of it is not its agent."""
    lab = auto
    async with speaking(lab, "forged", *HOSTS[:2]) as (ann, bob):
        lie = Data(ann.me.endpoint, Run(1, 1, block_of([b"lie"])), 1, 0)
        [pieces] = Datagrams("lab").pack(ann.group, Domain("eu.h1"), LAN, [lie], 1200)
        script = (
            "import socket, sys; sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
            "sock.sendto(bytes.fromhex(sys.argv[1]), (sys.argv[2], 7700))"
        )
        server = lab["eu"].machine.address
        forger = lab["eu.h1"].machine.command(sys.executable, "-c", script, b"".join(pieces).hex(), server)
        subprocess.run(forger, check=True, env={**os.environ, "PATH": TOOLS_PATH})

        async def refused() -> bool:
            counters = (await lab.inspect("eu"))["counters"]
            return counters.get("datagrams_ignored{not sealed by its speaker}", 0) > 0

        await until(refused, "the server does not believe it", HURRY_S)
        await ann.send(b"truth")
        async with asyncio.timeout(HURRY_S):
            said = [item async for item in _messages(bob, 1)]
        assert [(each.number, each.body) for each in said] == [(1, b"truth")]


async def _messages(talk: Conversation, count: int) -> AsyncIterator[rostra.Message]:
    async for item in talk:
        if isinstance(item, rostra.Message):
            yield item
            count -= 1
            if count == 0:
                return
