"""The disk of a cluster's server for backlogs of slow receivers: bounded, in order, and of one life."""

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import pytest

from rostra.names import ROOT, Domain, Group
from rostra.observe.log import EventLog
from rostra.protocols.fifo.events import ForgetSpilled, ReadSpilled, Spill, Spilled, SpilledRead
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of, payloads
from rostra.runtime.spill import SpillDisk

G = Group("g", ROOT)
EU = Domain("eu")

P = ParamSpec("P")


def in_a_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*words: P.args, **named: P.kwargs) -> None:
        async def once() -> None:
            await test(*words, **named)

        asyncio.run(asyncio.wait_for(once(), 60))

    return run


def run_of(first: int, count: int, size: int = 10) -> Run:
    return Run(
        first, count, block_of([f"{n}".encode().ljust(size) for n in range(first, first + count)]), 1.5
    )


class Desk:
    """A disk, and what it answered."""

    def __init__(self, directory: Path | None, bytes_max: int = 1 << 20) -> None:
        self.answers: asyncio.Queue[Spilled | SpilledRead] = asyncio.Queue()
        self.record = EventLog(stream=io.StringIO())
        self.disk = SpillDisk(directory, EU, self.record, self.answers.put_nowait, bytes_max)

    async def keep(self, backlog: int, *runs: Run) -> str:
        self.disk.keep(Spill(G, backlog, runs))
        answer = await self.answers.get()
        assert isinstance(answer, Spilled) and answer.backlog == backlog
        return answer.why

    async def read(self, backlog: int, first: int, end: int, bytes_max: int = 1 << 20) -> SpilledRead:
        self.disk.read(ReadSpilled(G, backlog, first, end, bytes_max))
        answer = await self.answers.get()
        assert isinstance(answer, SpilledRead) and answer.backlog == backlog
        return answer


def numbers(read: SpilledRead) -> list[int]:
    return [int(body) for run in read.runs for body in payloads(run)]


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """Where the file is, while there is one."""
    yield tmp_path / "eu.spill.sqlite"


@pytest.mark.spec("X-091")
@in_a_loop
async def test_what_was_kept_is_read_back_in_order_and_in_parts(tmp_path: Path, left: Path) -> None:
    desk = Desk(tmp_path)
    assert await desk.keep(7, run_of(1, 10), run_of(11, 5)) == ""
    assert await desk.keep(8, run_of(100, 3)) == ""
    assert await desk.keep(7, run_of(16, 10)) == ""
    assert numbers(await desk.read(7, 4, 20)) == list(range(4, 20))
    assert numbers(await desk.read(8, 100, 200)) == [100, 101, 102]
    assert numbers(await desk.read(7, 1, 20, bytes_max=1)) == list(range(1, 11))  # a run at least
    assert (await desk.read(7, 4, 20)).runs[0].at == 1.5
    assert left.exists()
    desk.disk.close()
    assert not left.exists()


@pytest.mark.spec("X-091")
@in_a_loop
async def test_never_more_than_its_bound_and_what_is_taken_makes_room(tmp_path: Path, left: Path) -> None:
    desk = Desk(tmp_path, bytes_max=250)
    assert await desk.keep(7, run_of(1, 10)) == ""
    assert await desk.keep(7, run_of(11, 10)) == ""
    assert await desk.keep(8, run_of(1, 5)) == "no room for its backlog"
    assert desk.record.counted()["spills_refused{no room for its backlog}"] == 1
    assert numbers(await desk.read(7, 1, 30)) == list(range(1, 21))  # and nothing else is lost
    desk.disk.forget(ForgetSpilled(G, 7, below=11))
    assert await desk.keep(8, run_of(1, 5)) == ""
    assert numbers(await desk.read(7, 11, 30)) == list(range(11, 21))
    desk.disk.forget(ForgetSpilled(G, 7))
    desk.disk.forget(ForgetSpilled(G, 8))
    assert (await desk.read(7, 11, 30)).runs == ()
    assert desk.disk.bytes == 0
    desk.disk.close()
    assert not left.exists()


@in_a_loop
async def test_other_users_cannot_read_it_whatever_the_umask(tmp_path: Path, left: Path) -> None:
    desk, umask = Desk(tmp_path), os.umask(0)
    try:
        assert await desk.keep(1, run_of(1, 3)) == ""
    finally:
        os.umask(umask)
    assert left.stat().st_mode & 0o777 == 0o600
    desk.disk.close()


@pytest.mark.spec("X-091")
@in_a_loop
async def test_what_is_taken_is_forgotten_without_a_look_at_the_rest(tmp_path: Path) -> None:
    """Every acknowledgement once went through all that was left: one that was far behind stayed so."""
    work = []
    for rows in (100, 10_000):
        directory = tmp_path / str(rows)
        directory.mkdir()
        desk = Desk(directory, 1 << 30)
        await desk.keep(1, *[run_of(first, 1) for first in range(1, rows + 1)])
        thread, steps = desk.disk._thread, [0]
        assert thread is not None

        def count(desk: Desk = desk, steps: list[int] = steps) -> None:
            def step() -> None:
                steps[0] += 1

            desk.disk._opened().set_progress_handler(step, 10)

        await asyncio.wrap_future(thread.submit(count))
        desk.disk.forget(ForgetSpilled(G, 1, 10))
        assert (await desk.read(1, 10, 12)).runs
        work.append(steps[0])
        desk.disk.close()
    assert work[1] < 2 * work[0]


@in_a_loop
async def test_a_hole_is_never_read_over(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert await desk.keep(7, run_of(1, 5), run_of(10, 5)) == ""
    assert numbers(await desk.read(7, 1, 30)) == [1, 2, 3, 4, 5]
    assert (await desk.read(7, 7, 30)).runs == ()
    desk.disk.close()


@in_a_loop
async def test_what_an_earlier_life_left_is_removed_at_the_start(tmp_path: Path, left: Path) -> None:
    left.write_bytes(b"whatever was in it when the server died")
    desk = Desk(tmp_path)
    assert not left.exists()
    assert await desk.keep(7, run_of(1, 5)) == ""
    desk.disk.close()


@pytest.mark.spec("X-091")
@in_a_loop
async def test_a_disk_that_fails_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "not there")
    assert await desk.keep(7, run_of(1, 5)) == "the disk failed"
    assert (await desk.read(7, 1, 5)).why == "the disk failed"
    assert desk.record.counted()["spills_refused{the disk failed}"] == 2
    desk.disk.close()


@in_a_loop
async def test_without_a_state_directory_nothing_is_kept_and_it_is_said_what_to_do() -> None:
    desk = Desk(None)
    assert await desk.keep(7, run_of(1, 5)) == "its server has no state directory"
    [note] = [each for each in desk.record.recent if each.event == "spill_refused"]
    assert note.values["because"] == "give it one with --state"
    desk.disk.close()
