"""The same world arranged differently: in one process or in many, on these ports or on others."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.client import Conversation, Joined, Left, Message, View
from rostra.names import name_of

SERVERS = ("world", "eu", "eu.c1", "eu.c2")
HOSTS = ("eu.c1.h1", "eu.c2.h1")
LEVELS_TOGETHER = (("world", "eu", "eu.c1", "eu.c2"),)


def words(change: Any) -> str:
    """A change without what differs from life to life."""
    match change:
        case View():
            return f"view {sorted(name_of(member.endpoint) for member in change.members)}"
        case Joined():
            return (
                f"joined {sorted(name_of(member.endpoint) for member in change.members)} {change.cause.value}"
            )
        case Left():
            return f"left {sorted(map(name_of, change.endpoints))} {change.cause.value}"
    return type(change).__name__


async def life(lab: Lab) -> tuple[list[str], dict[str, Any]]:
    """What one member is told while others come and go, and what each server's core then says of itself."""
    heard: list[str] = []
    async with lab.program("eu.c1.h1", "ann") as ann, ann.join("g") as group:
        changes = aiter(group)
        heard.append(words(await anext(changes)))
        async with lab.program("eu.c2.h1", "bob") as bob, bob.join("g") as joined:
            heard.append(words(await anext(changes)))
            # His agent resolves the group when he joins. While that is open, a resolve shares it (C-107).
            await anext(aiter(joined))
            async with lab.program("eu.c1.h1", "eve") as eve, eve.join("g", "eu"), eve.join("g"):
                heard.append(words(await anext(changes)))
                found = await bob.resolve("g", fresh=True)
                heard.append(f"resolved {sorted(map(name_of, found.endpoints))}")
            heard.append(words(await anext(changes)))
        heard.append(words(await anext(changes)))
        rows = await until(lambda: one_row(lab, "g@world"), "all servers hold the one row that is left")
    return heard, rows


async def one_row(lab: Lab, row: str) -> dict[str, Any] | None:
    """What each server's core says of itself, once its rows are those of the one member that is left."""
    rows = {path: (await lab.inspect(path))["core"]["rows"] for path in ("eu.c1", "eu.c2", "eu")}
    return rows if [list(each) for each in rows.values()] == [[row], [], [row]] else None


@pytest.mark.spec("C-017", "C-091")
async def test_one_process_or_many_and_other_ports_give_the_same_traces(tmp_path: Path) -> None:
    told = []
    for number, together in enumerate(((), LEVELS_TOGETHER)):
        place = tmp_path / str(number)
        place.mkdir()
        lab = Lab(place, servers=SERVERS, hosts=HOSTS, together=together, namespaces=False, more=FORGIVING)
        try:
            await lab.start()
            told.append(await life(lab))
        finally:
            await asyncio.to_thread(lab.close)
    separate, one_process = told
    assert separate == one_process
    assert separate[0] == [
        "view ['ann']",
        "joined ['bob'] join",
        "joined ['eve'] join",
        "resolved ['ann', 'bob', 'eve']",
        "left ['eve'] leave",
        "left ['bob'] leave",
    ]


async def hears(talk: Conversation, name: str, said: list[bytes]) -> None:
    """Exactly this from the program of that name, in order."""
    got: list[bytes] = []
    async with asyncio.timeout(WITHIN_S):
        async for item in talk:
            if isinstance(item, Message) and name_of(item.sender) == name:
                got.append(item.body)
                if len(got) == len(said):
                    break
    assert got == said


@pytest.mark.spec("C-017", "X-107")
@pytest.mark.parametrize(
    "together",
    [("eu", "eu.fr"), ("eu", "eu.fr.h1")],
    ids=["a cluster", "a host"],
)
async def test_who_shares_a_process_with_the_server_above_hears_what_other_clusters_say(
    tmp_path: Path, together: tuple[str, ...]
) -> None:
    """The neighbour's name says that `eu` is above it; what it says is for the cluster beside it."""
    lab = Lab(
        tmp_path,
        servers=("eu", "eu.fr", "eu.de"),
        hosts=("eu.fr.h1", "eu.de.h1"),
        together=(together,),
        namespaces=False,
    )
    said = [f"{number}".encode() for number in range(200)]
    try:
        await lab.start()
        async with (
            lab.program("eu.fr.h1", "ann") as ann,
            lab.program("eu.de.h1", "bob") as bob,
            ann.join("g", delivery="fifo") as french,
            bob.join("g", delivery="fifo") as german,
        ):
            for talk in (french, german):
                await talk.ready(deadline_s=WITHIN_S)
            await until(lambda: len(french.members) == len(german.members) == 2, "both see each other")
            for talk in (french, german):
                await talk.send_many(said)
            await hears(german, "ann", said)
            await hears(french, "bob", said)
    finally:
        await asyncio.to_thread(lab.close)


@pytest.mark.spec("C-055")
async def test_membership_opens_no_data_sockets(tmp_path: Path) -> None:
    lab = Lab(tmp_path, servers=("eu",), hosts=("eu.h1", "eu.h2"), namespaces=False)
    try:
        await lab.start()
        async with (
            lab.program("eu.h1", "ann") as ann,
            lab.program("eu.h2", "bob") as bob,
            ann.join("g"),
            bob.join("g") as group,
        ):
            await until(lambda: len(group.members) == 2, "both see each other")
            for agent in (lab["eu.h1"], lab["eu.h2"]):
                # One control link to the cluster's server; no datagrams, and nothing between agents.
                assert len(inet_sockets(agent.pid, "tcp")) == 1
                assert inet_sockets(agent.pid, "udp") == []
    finally:
        await asyncio.to_thread(lab.close)


def inet_sockets(pid: int, kind: str) -> list[str]:
    """The open internet sockets of one process, as the kernel lists them."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(link)
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    rows = []
    for family in ("", "6"):
        table = Path(f"/proc/{pid}/net/{kind}{family}")
        rows += [line for line in table.read_text().splitlines()[1:] if line.split()[9] in inodes]
    return rows
