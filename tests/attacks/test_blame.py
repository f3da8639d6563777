"""A neighbour makes a server fail, again after each restart; its other neighbours are served meanwhile.

The bug that makes it fail is planted here. Everything else is real, as is the supervisor's part: to start it
again at once, whenever it has ended.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.errors import BadInput, StoreFailed
from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.protocols.links.events import PacketArrived
from rostra.protocols.links.packets import Bye
from rostra.runtime.blame import MOST_S, Blame, held_off_s
from rostra.runtime.store import BLAMED_MAX, Disk, MemoryStore

FAILS = """
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.messages import InterestChanged

received = DomainServer._received

def fails(server, sender, relation, message):
    assert not (isinstance(message, InterestChanged) and message.group.name == "poison"), "planted"
    received(server, sender, relation, message)

DomainServer._received = fails
from rostra.cli import main
main()
"""
EU, BAD, GOOD = "eu", "eu.h1", "eu.h2"


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setattr("support.lab.ROSTRA", (sys.executable, "-c", FAILS))
    with Lab(tmp_path, servers=(EU,), hosts=(BAD, GOOD), namespaces=False, more=FORGIVING) as lab:
        yield lab


@contextlib.asynccontextmanager
async def supervised(lab: Lab, node: str) -> AsyncIterator[None]:
    async def keep_it_running() -> None:
        while True:
            if not lab[node].is_running:
                lab[node].start()
            await asyncio.sleep(0.1)

    supervisor = asyncio.create_task(keep_it_running())
    try:
        yield
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)


def logged(lab: Lab, event: str) -> list[str]:
    return [line for line in lab[EU].log.splitlines() if f" {event} " in line]


@pytest.mark.live
async def test_one_bad_neighbour_does_not_keep_a_server_in_a_crash_loop(fragile: Lab) -> None:
    lab = fragile
    async with (
        supervised(lab, EU),
        lab.program(BAD, "mallory") as mallory,
        lab.program(GOOD, "ann") as ann,
        lab.program(GOOD, "bob") as bob,
        ann.join("calm") as anns,
        bob.join("calm"),
    ):
        await until(lambda: len(anns.members) == 2, "ann and bob are in")
        poison = await mallory.join("poison")
        await until(lambda: len(logged(lab, "held_off")) == 4, "the server has failed four times")

        # It holds its bad neighbour off for 8 s now.
        named = [*logged(lab, "blamed"), *logged(lab, "held_off")]
        assert all(f"node={EU} peer={BAD} " in line for line in named)
        assert "planted" in logged(lab, "blamed")[0]
        waits = [line.partition("for_s=")[2].split()[0] for line in logged(lab, "held_off")]
        assert waits == ["1", "2", "4", "8"]
        await poison.leave()
        life = lab[EU].pid
        await until(lambda: is_linked(lab, GOOD), "its other neighbour is served")
        async with asyncio.timeout(WITHIN_S):
            assert len((await ann.resolve("calm", fresh=True)).members) == 2
        await until(lambda: is_linked(lab, BAD), "it is let in when its time is over")
        assert await is_linked(lab, GOOD) and lab[EU].pid == life
    refused = [line for line in logged(lab, "refused") if "held off" in line and BAD in line]
    assert refused, "it was kept waiting, and told so"


async def is_linked(lab: Lab, host: str) -> bool:
    links = (await lab.inspect(EU))["links"]
    return bool(links.get(host, {}).get("up"))


# What is written down


def test_blame_is_kept_counted_bounded_and_forgiven(tmp_path: Path) -> None:
    disk = Disk(tmp_path, Domain("eu"))
    for host in ("h1", "h2", "h1"):
        disk.blame(Domain(f"eu.{host}"))
    disk.close()
    disk = Disk(tmp_path, Domain("eu"))
    assert disk.blamed() == {"eu.h2": 1, "eu.h1": 2}
    disk.forgive(Domain("eu.h2"))
    assert disk.blamed() == {"eu.h1": 2}
    disk.close()
    disk = Disk(tmp_path, Domain("eu"))
    assert disk.blamed() == {"eu.h1": 2}
    for number in range(BLAMED_MAX - 1):
        disk.blame(Domain(f"eu.ghost{number}"))
    disk.blame(Domain("eu.h1"))
    disk.blame(Domain("eu.ghost"))
    disk.close()
    disk = Disk(tmp_path, Domain("eu"))
    assert len(disk.blamed()) == BLAMED_MAX
    assert disk.blamed()[Domain("eu.h1")] == 3 and Domain("eu.ghost0") not in disk.blamed()
    disk.close()


def test_one_that_has_done_no_harm_for_long_is_forgiven(tmp_path: Path) -> None:
    now, eu, host = 1000.0, Domain("eu"), Domain("eu.h1")
    disk = Disk(tmp_path, eu)
    disk.blame(host)
    hosted = SimpleNamespace(path=eu, store=disk, trouble={})
    process: Any = SimpleNamespace(
        loop=SimpleNamespace(time=lambda: now), hosted_nodes={eu: hosted}, record=EventLog(quiet=True)
    )
    blame = Blame(process)
    blame.remember(hosted)  # type: ignore[arg-type]
    assert blame.left_s(eu, host) == 1.0
    now += MOST_S
    blame.tick()
    assert blame.left_s(eu, host) == 0.0 and disk.blamed() == {host: 1}
    now += 2.0
    blame.tick()
    assert disk.blamed() == {}
    disk.close()


@pytest.mark.parametrize(
    ("error", "times"),
    [(AssertionError("planted"), 1), (BadInput("a rule", fix="another"), 1), (StoreFailed("full"), 0)],
)
def test_every_failure_but_one_of_the_disk_is_the_sender_s(
    tmp_path: Path, error: Exception, times: int
) -> None:
    eu, host = Domain("eu"), Domain("eu.h1")
    disk = Disk(tmp_path, eu)
    hosted: Any = SimpleNamespace(path=eu, store=disk, trouble={})
    process: Any = SimpleNamespace(
        loop=SimpleNamespace(time=lambda: 0.0), hosted_nodes={eu: hosted}, record=EventLog(quiet=True)
    )
    Blame(process).failed(hosted, PacketArrived(host, Bye(1, 1, "gone")), error)
    assert disk.blamed().get(host, 0) == times
    disk.close()


def test_without_a_directory_nobody_is_remembered() -> None:
    memory = MemoryStore()
    memory.blame(Domain("eu.h1"))
    assert memory.blamed() == {}


def test_the_wait_doubles_up_to_a_bound() -> None:
    assert [held_off_s(times) for times in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert held_off_s(11) == held_off_s(10**9) == MOST_S
