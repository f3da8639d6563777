"""M2: a host that has its LAN's key tells others how, and where, to speak. Only their server may."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from support.bystanders import unnoticed
from support.lab import FORGIVING, Lab, until
from support.strangers import stranger

from rostra.names import Domain, Group
from rostra.protocols.channel.messages import Call, ChannelMessage, Datagram, Directory
from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.packets import Beat, Hello
from rostra.wire.datagrams import Datagrams

LAN, LIAR, VICTIM = Domain("eu"), Domain("eu.liar"), Domain("eu.h1")
GROUP = Group("m2", LAN)


@pytest.fixture
def fanout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(
        tmp_path_factory.mktemp("fanout"),
        servers=("eu",),
        hosts=("eu.h1", "eu.h2"),
        namespaces=False,
        more=f'{FORGIVING}[data]\nworld = {{ mode = "fanout" }}\n',
    ) as lab:
        yield lab


@contextlib.asynccontextmanager
async def key_of(lab: Lab) -> AsyncIterator[bytes]:
    """What any host is told that is let in."""
    now_ms = time.time_ns() // 1_000_000
    mine = now_ms * SESSIONS_PER_LIFE + 1
    async with stranger(lab, "eu") as caller:
        caller.hello(LIAR, "eu", now_ms, mine)
        heard = await caller.hears()
        assert isinstance(heard, Hello)
        caller.hello(LIAR, "eu", now_ms, mine, heard.mine)

        async def live() -> None:
            while True:
                caller.say(Beat(mine, heard.mine, 0))
                await asyncio.sleep(0.2)

        living = asyncio.create_task(live())
        try:
            yield heard.key
        finally:
            living.cancel()


@pytest.mark.live
async def test_how_a_lan_is_spoken_to_is_believed_of_its_server_alone(fanout: Lab) -> None:
    lab, datagrams = fanout, Datagrams("lab")
    host, _, port = lab.address("eu").rpartition(":")
    async with unnoticed(lab, "m2-directory", "eu.h1", "eu.h2"), key_of(lab) as key:
        assert key
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
            mouth.bind((host, 0))
            mouth.setblocking(False)

            def say(to: Domain, word: ChannelMessage, at: tuple[str, int]) -> None:
                mouth.sendto(b"".join(datagrams.word(GROUP, LIAR, to, word, key)), at)

            def places() -> dict[str, tuple[str, int]]:
                """Where the hosts are, as the server tells all of them."""
                say(LAN, Call(), (host, int(port)))
                with contextlib.suppress(BlockingIOError):
                    while True:
                        told = datagrams.read(mouth.recv(65_536))
                        if isinstance(told, Datagram) and isinstance(told.word, Directory):
                            found = {name: (ip, at) for name, ip, at in told.word.hosts}
                            if VICTIM in found:
                                return found
                return {}

            victim = (await until(places, "the server tells where the victim is"))[VICTIM]
            before = await refused(lab)

            async def was_heard() -> bool:
                say(VICTIM, Directory("reflect", hosts=(("eu.h2", *mouth.getsockname()),)), victim)
                mode = (await lab.inspect(VICTIM))["data"]["mode"]
                return await refused(lab) > before or mode != "fanout"

            await until(was_heard, "the victim has heard the lie")
            assert (await lab.inspect(VICTIM))["data"]["mode"] == "fanout"


async def refused(lab: Lab) -> int:
    return int((await lab.inspect(VICTIM))["counters"].get("datagrams_ignored{a stranger}", 0))
