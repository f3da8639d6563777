"""M7: a program of one user takes all that a host's agent has."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab

import rostra
from rostra.client import Me
from rostra.errors import TooLarge, Unreachable

pytestmark = pytest.mark.live

MALLORY, ANN = 65534, 1
LIMITS = {"programs_max": 40, "endpoints_max": 80, "memberships_max": 60, "questions_max": 100}


@contextlib.contextmanager
def user(uid: int) -> Iterator[None]:
    """Whoever connects inside is this user for the kernel, and so for the agent."""
    if os.geteuid() != 0:
        pytest.skip("only root can be several users")
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


async def connect(lab: Lab, uid: int, name: str) -> Me:
    with user(uid):
        return await rostra.connect(lab.socket("eu.h1"), name=name, on_lost="raise")


@contextlib.asynccontextmanager
async def program(lab: Lab, uid: int, name: str) -> AsyncIterator[Me]:
    me = await connect(lab, uid, name)
    try:
        yield me
    finally:
        await me.close()


@contextlib.asynccontextmanager
async def host(directory: Path) -> AsyncIterator[Lab]:
    limits = "".join(f"{name} = {limit}\n" for name, limit in LIMITS.items())
    lab = Lab(
        directory,
        servers=("eu",),
        hosts=("eu.h1",),
        namespaces=False,
        more=f'{FORGIVING}[agents]\nsocket_mode = "0666"\n{limits}',
    )
    Path(lab.socket("eu.h1")).parent.chmod(0o755)
    try:
        yield await lab.start()
    finally:
        lab.close()


async def test_places_endpoints_and_memberships_are_left_for_others(tmp_path: Path) -> None:
    async with host(tmp_path) as lab, contextlib.AsyncExitStack() as stack:
        mallory = await stack.enter_async_context(program(lab, MALLORY, "mallory"))
        with pytest.raises(TooLarge, match="uid 65534 holds 40 endpoints") as refused:
            for number in range(80):
                await stack.enter_async_context(mallory.open(f"m{number}"))
        assert "endpoints_max" in refused.value.fix
        with pytest.raises(TooLarge, match="uid 65534 holds 30 memberships"):
            for number in range(60):
                await stack.enter_async_context(mallory.join(f"g{number}", meta=b"m"))
        with pytest.raises(TooLarge, match="memberships"):
            await stack.enter_async_context(mallory.watch("g60"))
        await _ann_finds_room(lab)
        await mallory.close()
        async with contextlib.AsyncExitStack() as places:
            with pytest.raises(Unreachable, match="uid 65534 holds 20 programs"):
                for number in range(40):
                    await places.enter_async_context(program(lab, MALLORY, f"p{number}"))
            await _ann_finds_room(lab)
        async with program(lab, MALLORY, "again"):
            pass
        counted = (await lab.inspect("eu.h1"))["counters"]
        for what in ("endpoints", "memberships", "programs"):
            assert counted[f"over_share{{{what}}}"] >= 1, counted


async def _ann_finds_room(lab: Lab) -> None:
    async with program(lab, ANN, "ann") as ann, ann.open("more") as more, more.join("hers") as hers:
        await hers.ready(deadline_s=WITHIN_S)


async def test_questions_are_left_for_others(tmp_path: Path) -> None:
    async with (
        host(tmp_path) as lab,
        program(lab, MALLORY, "mallory") as mallory,
        program(lab, ANN, "ann") as ann,
    ):
        lab["eu"].signal(signal.SIGSTOP)
        asked = [
            asyncio.create_task(mallory.resolve(f"g{number}", "eu", fresh=True)) for number in range(100)
        ]
        refused = [each for each in await _answered(asked, 50) if isinstance(each, TooLarge)]
        assert len(refused) == 50 and "uid 65534 holds 50 questions" in refused[0].what
        hers = asyncio.create_task(ann.resolve("hers", "eu", fresh=True))
        await asyncio.sleep(0.2)
        lab["eu"].signal(signal.SIGCONT)
        await hers
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert len([each for each in answers if isinstance(each, TooLarge)]) == 50
        await mallory.resolve("g", "eu", fresh=True)


async def test_hosts_of_sets_are_left_for_others(tmp_path: Path) -> None:
    """Two programs of one user share what one of them may name."""
    async with (
        host(tmp_path) as lab,
        program(lab, MALLORY, "m1") as m1,
        program(lab, MALLORY, "m2") as m2,
        program(lab, ANN, "ann") as ann,
        m1.create_set("eu") as first,
        m2.create_set("eu") as second,
        ann.create_set("eu") as hers,
    ):
        await first.add(*[f"eu.no{number}/x#1" for number in range(600)])
        with pytest.raises(TooLarge, match="uid 65534 has sets and sequences with 600 hosts"):
            await second.add(*[f"eu.or{number}/x#1" for number in range(600)])
        await hers.add(*[f"eu.un{number}/x#1" for number in range(600)])


async def _answered(asked: list[asyncio.Task[object]], count: int) -> list[BaseException | None]:
    """What the first so many were refused with."""
    async with asyncio.timeout(WITHIN_S):
        while len(done := [each for each in asked if each.done()]) < count:
            await asyncio.sleep(0.01)
    return [each.exception() for each in done]
