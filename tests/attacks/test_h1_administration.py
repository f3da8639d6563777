"""H1: a stranger administers a server, and looks into it, over TCP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest
from support.bystanders import unnoticed
from support.cluster import start
from support.lab import WITHIN_S, Lab, until
from support.ports import free_port

import rostra
from rostra.client import Admin, connect_admin
from rostra.errors import NotAllowed


async def refuses_everything(admin: Admin) -> None:
    for attempt in (
        admin.register("stolen"),
        admin.unregister("stolen"),
        admin.inspect(),
        admin.recall("eu.h1"),
        admin.recall("eu.h1", of="eu.h1"),
    ):
        with pytest.raises(NotAllowed, match="over TCP only by those who show a token") as refused:
            await attempt
        assert "--token-file" in refused.value.fix and "--socket" in refused.value.fix


async def test_a_stranger_at_a_servers_port_is_refused(world: Lab) -> None:
    async with (
        unnoticed(world, "h1-talk"),
        connect_admin(world.address("eu"), token="guessed", domain="eu") as admin,
    ):
        await refuses_everything(admin)
    assert "stolen" not in str((await world.inspect("eu"))["core"]["registry"])


@contextlib.asynccontextmanager
async def cluster(directory: Path, *, token: str = "") -> AsyncIterator[Lab]:
    """One that takes programs over TCP."""
    more = '[agents]\nlisten = "127.0.0.1:0"\n'
    if token:
        (directory / "token").write_text(token)
        more += f'token_file = "{directory / "token"}"\n'
    lab = Lab(directory, servers=("eu",), hosts=("eu.h1",), namespaces=False, more=more)
    try:
        yield await lab.start()
    finally:
        lab.close()


def listens_at(lab: Lab, node: str) -> str:
    return lab[node].log.rpartition("listening address=127.0.0.1:")[2].split()[0]


@pytest.mark.live
async def test_a_program_over_tcp_is_a_program_and_no_more(tmp_path: Path) -> None:
    async with cluster(tmp_path) as lab:
        address = f"127.0.0.1:{listens_at(lab, 'eu.h1')}"
        async with connect_admin(address) as admin:
            await refuses_everything(admin)
        async with rostra.connect(address, name="ann") as ann, ann.join("chess") as chess:
            await chess.ready()
        async with connect_admin(lab.socket("eu"), domain="eu") as admin:
            await admin.register("chess/finals")


@pytest.mark.live
async def test_whoever_shows_the_token_may(tmp_path: Path) -> None:
    async with cluster(tmp_path, token="open sesame") as lab:
        async with connect_admin(lab.address("eu"), token="open sesame", domain="eu") as admin:
            await admin.register("chess/finals")
            assert "chess/finals" in str((await admin.inspect())["core"]["registry"])
        with pytest.raises(NotAllowed, match="only with its token"):
            async with connect_admin(lab.address("eu"), token="open sesam", domain="eu"):
                pass


@pytest.mark.live
async def test_a_servers_own_dashboard_needs_neither_token_nor_socket(tmp_path: Path) -> None:
    at = f"127.0.0.1:{free_port()}"
    world = tmp_path / "world.toml"
    world.write_text(f'[world]\nname = "test"\n[servers]\nlab = "127.0.0.1:{free_port()}"\n')
    with start("server", "-d", "lab", "-w", str(world), "--http", at) as server:
        try:

            def place() -> dict[str, object]:
                with urlopen(f"http://{at}/api/places", timeout=WITHIN_S) as answer:
                    (node,) = msgspec.json.decode(answer.read())["places"].values()
                    return dict(node)

            node = await until(lambda: asyncio.to_thread(place), "the dashboard answers")
            assert (node["path"], node["state"]) == ("lab", "answers"), node
        finally:
            server.terminate()
