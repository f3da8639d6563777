"""A state directory without room, as a real file system without room says it."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.cluster import start
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.client import Admin, Me, connect_admin
from rostra.errors import StoreFailed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes, where labs in `tmp_path` keep their state."""
    if os.geteuid() != 0:
        pytest.skip("a file system can only be mounted by root")
    state = tmp_path / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(state)], check=True)
    yield state
    subprocess.run(["umount", str(state)], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(512))


def free(disk: Path) -> None:
    (disk / "ballast").unlink()


@contextlib.asynccontextmanager
async def running(lab: Lab) -> AsyncIterator[None]:
    try:
        await lab.start()
        yield
    finally:
        lab.close()


async def opens_many(me: Me) -> None:
    """More endpoints than numbers are reserved for at a time: these find room in the place of the last."""
    async with contextlib.AsyncExitStack() as stack:
        for number in range(1100):
            await stack.enter_async_context(me.open(f"n{number}"))


async def registered_again(admin: Admin, name: str) -> None:
    """The disk is looked at every second."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(StoreFailed):
                return await admin.register(name)
            await asyncio.sleep(0.1)


async def test_a_server_refuses_what_needs_the_disk_and_goes_on(tmp_path: Path, small_disk: Path) -> None:
    lab = Lab(tmp_path, servers=("eu",), hosts=("eu.h1", "eu.h2"), namespaces=False, more=FORGIVING)
    async with (
        running(lab),
        lab.program("eu.h1", "ann") as ann,
        lab.program("eu.h2", "bob") as bob,
        connect_admin(lab.socket("eu"), domain="eu") as admin,
    ):
        fill(small_disk)
        kept = 0
        with pytest.raises(StoreFailed, match="full"):
            for kept in range(1000):
                await admin.register(f"{kept}-{'x' * 240}")
        with pytest.raises(StoreFailed, match="full"):
            await bob.join("ledger", scope="eu", membership="agreed", survive="majority")
        await opens_many(ann)
        async with ann.join("chess") as chess, bob.join("chess", delivery="none") as also:
            await until(lambda: len(chess.members) == len(also.members) == 2, "they see each other")
        free(small_disk)
        await registered_again(admin, "x" * 250)
        async with bob.join("ledger", scope="eu", membership="agreed", survive="majority"):
            pass
        counted = (await lab.inspect("eu"))["counters"]
        assert any(name.startswith("disk_refused{") for name in counted), counted
        assert " disk_refused node=" in lab["eu"].log and "Traceback" not in lab["eu"].log
    async with running(lab):
        registered = str((await lab.inspect("eu"))["core"]["registry"])
        assert "x" * 250 in registered and all(f"{number}-x" in registered for number in range(kept))
        assert f"{kept}-x" not in registered


def test_an_agent_that_begins_on_a_full_disk_says_so_and_ends_with_1(
    tmp_path: Path, small_disk: Path
) -> None:
    world = tmp_path / "world.toml"
    world.write_text('[world]\nname = "w"\n[servers]\neu = "127.0.0.1:1"\n')
    fill(small_disk)
    with start("agent", "eu.h1", "-w", str(world), "--state", str(small_disk)) as agent:
        said = agent.communicate(timeout=WITHIN_S)[1]
    assert agent.returncode == 1 and "full" in said and said.endswith("  free some space on that disk\n")


async def test_replicas_elect_in_the_room_that_votes_keep_and_acknowledge_no_more_than_fits(
    tmp_path: Path, small_disk: Path
) -> None:
    lab = Lab(
        tmp_path, servers=("eu",), hosts=("eu.h1",), namespaces=False, more=FORGIVING, replicas={"eu": 3}
    )
    async with running(lab):
        await lab.register("before", "eu")
        fill(small_disk)
        (await lab.leader("eu")).kill()
        leader = (await lab.leader("eu")).nodes[0]
        kept = 0
        with pytest.raises(StoreFailed, match="have room on their disks"):
            for kept in range(1000):
                await lab.register(f"{kept}-{'x' * 240}", "eu")
        lab[leader].kill()
        free(small_disk)
        for voter in lab.voters[lab.servers[0]]:
            if not lab[voter].is_running:
                lab[voter].start()
        await lab.leader("eu")
        registered = str((await lab.inspect("eu"))["core"]["registry"])
        assert all(f"{number}-x" in registered for number in range(kept)) and "before" in registered
        assert f"{kept}-x" not in registered
        await lab.register("after", "eu")
        for voter in lab.voters[lab.servers[0]]:
            assert "Traceback" not in lab[voter].log
