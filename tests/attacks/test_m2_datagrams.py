"""M2: a body is decoded before its seal is looked at, and a run of 2^40 messages is an exception."""

import re
import socket
from typing import Any

import pytest
from support.bystanders import unnoticed
from support.lab import Lab, until

from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.channel.messages import LAN, Datagram, Unreadable
from rostra.protocols.flow.messages import Data, Run
from rostra.wire.datagrams import Datagrams

CHESS = Group("chess", ROOT)
HOST, ANN = Domain("eu.h1"), Endpoint("eu.h1/ann#1")
NOBODY = Domain("zz.h1")  # no key is known of it
KEY = b"k" * 16
FRONT = b"\x94\x92\xa5chess\xa5world\xa5eu.h1\xa0"  # group, speaker and listener, as a datagram begins


def datagram(*messages: Any, source: Domain = HOST, to: Domain = LAN, key: bytes = b"") -> bytes:
    [pieces] = Datagrams("lab").pack(CHESS, source, to, messages, 60_000, key)
    return b"".join(pieces)


RUN = Data(ANN, Run(1, 1, b"\xc4\x02e4"), 1, 0)
ENDLESS = Data(ANN, Run(1, 2**40, b"\xc4\x02e4"), 2**40, 0)


@pytest.mark.parametrize(
    "rest",
    [b"\x91\xa1\xff", b"\x91" * 20_000, b"\x91\xc1", b"\x01"],
    ids=["UTF-8", "nesting", "no code", "type"],
)
def test_what_is_not_sealed_is_not_decoded(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands behind the names is not looked at, so it is the seal that is missed."""
    octets = datagram(RUN)[:5] + FRONT + rest
    looked: list[Any] = []
    monkeypatch.setattr("rostra.wire.datagrams._decode_messages", looked.append)
    found = Datagrams("lab").read(octets, lambda source, to: KEY)
    assert isinstance(found, Unreadable) and looked == []


def test_who_has_no_seal_is_told_by_that_and_not_by_what_it_says() -> None:
    octets = datagram(RUN)[:5] + FRONT + b"\x91\x01"
    read = Datagrams("lab").read
    assert read(octets, lambda source, to: KEY) == Unreadable("not sealed by its speaker")
    assert read(octets, lambda source, to: b"") == Unreadable("not a datagram")
    assert isinstance(read(datagram(RUN, key=KEY), lambda source, to: KEY), Datagram)


@pytest.mark.parametrize("count", [0, 2, 2**31, 2**32, 2**40, 2**62])
def test_a_run_of_any_count_is_a_block_or_nothing(count: int) -> None:
    found = Datagrams("lab").read(datagram(Data(ANN, Run(1, count, b"\xc4\x02e4"), 1, 0)))
    assert found in (Unreadable("not a block of messages"), Unreadable("bad name or number"))


async def test_a_stranger_sends_endless_runs_to_a_servers_port(world: Lab) -> None:
    opened = re.search(r"data_channel .*udp (\S+):(\d+)", world["eu"].log)
    assert opened is not None, "where is its data channel?"
    place = (opened[1], int(opened[2]))

    async def ignored() -> int:
        counters = (await world.inspect("eu"))["counters"]
        return sum(times for name, times in counters.items() if "datagrams_ignored" in name)

    before = await ignored()
    async with unnoticed(world, "m2"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for _ in range(10):
                for to in (LAN, Domain("eu")):
                    stranger.sendto(datagram(ENDLESS, source=NOBODY, to=to), place)
                stranger.sendto(datagram(ENDLESS), place)

        async def all_ignored() -> bool:
            return await ignored() >= before + 30

        await until(all_ignored, "the server has counted them")
