"""Programs of a machine without an agent use the agent of another one, over TCP (C-175)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from support.lab import WITHIN_S, Lab

import rostra
from rostra.client import Change, Joined, View, Without

C = TypeVar("C", bound=Change)


async def next_of(changes: AsyncIterator[Change], kind: type[C]) -> C:
    async with asyncio.timeout(WITHIN_S):
        async for change in changes:
            if isinstance(change, kind):
                return change
    raise AssertionError(f"no {kind.__name__} came")


@pytest.mark.spec("C-175")
async def test_remote_programs_have_addresses_of_their_agents_host_and_are_lost_with_it(
    tmp_path: Path,
) -> None:
    lab = Lab(
        tmp_path,
        servers=("lab",),
        hosts=("lab.h1", "lab.h2"),
        together=(("lab", "lab.h1"),),
        namespaces=False,
        remote="lab.h2",
    )
    await lab.start()
    try:
        async with lab.program("lab.h1", "ann") as ann, ann.join("remote") as group:
            changes = aiter(group)
            await next_of(changes, View)
            names = ("bob", "eve")
            far = [rostra.connect(lab.remote_address, name=name, on_lost="raise") for name in names]
            async with far[0] as bob, far[1] as eve, bob.join("remote"), eve.join("remote"):
                came = [(await next_of(changes, Joined)).members[0].endpoint for _ in names]
                assert [each.partition("#")[0] for each in sorted(came)] == ["lab.h2/bob", "lab.h2/eve"]
                lab["lab.h2"].kill()
                lost = await next_of(changes, Without)
                assert lost.domain == "lab.h2" and sorted(lost.endpoints) == sorted(came)
    finally:
        lab.close()
