"""Agreed views with real servers, agents and programs, on the lab's network: for `wan_views.py`, as root."""

import asyncio
import signal
import statistics
import time
from contextlib import AsyncExitStack
from typing import Final

import rostra
from rostra.client import AgreedMembership, Me
from rostra.errors import RostraError
from rostra.lab import Lab, load_plan
from rostra.lab.plan import LabPlan
from rostra.lab.world import LabWorld

SITES: Final = ("huji", "mit", "ntu")
GROUP: Final = "views"
WITHIN_S: Final = 60.0


async def on_the_lab(turns: int) -> tuple[dict[str, tuple[float, float]], float]:
    plan = load_plan()
    ways = tuple((source, to, quality.but(loss=0.0)) for source, to, quality in plan.ways)
    async with Lab(LabPlan(plan.name, plan.sites, ways, plan.seed)) as lab, AsyncExitStack() as stack:
        world = await LabWorld(lab, urgent=True, root="mit").start()
        stack.callback(world.stop)
        members = {}
        for site in SITES:
            me = await stack.enter_async_context(rostra.connect(world.socket(f"{site}.h1"), name="member"))
            members[site] = await _let_in(me)
        found = {site: await _joins(world, members, site, turns) for site in ("mit", "huji")}
        return found, await _death(world, members)


async def _let_in(me: Me) -> AgreedMembership:
    """Sets form a few seconds after their servers are linked."""
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            stay = await me.join(GROUP, membership="agreed", deadline_s=WITHIN_S)
            return await stay.ready(deadline_s=WITHIN_S)
        except RostraError as refusal:
            if not refusal.retriable or time.monotonic() > until:
                raise


async def _joins(
    world: LabWorld, members: dict[str, AgreedMembership], site: str, turns: int
) -> tuple[float, float]:
    firsts, lasts = [], []
    async with rostra.connect(world.socket(f"{site}.h1"), name="joiner") as me:
        for _ in range(turns):
            waits = [asyncio.create_task(_seen(each, me, is_in=True)) for each in members.values()]
            began = time.monotonic()
            joined = await me.join(GROUP, membership="agreed", deadline_s=WITHIN_S)
            times = await asyncio.gather(*waits)
            firsts.append(1e3 * (min(times) - began))
            lasts.append(1e3 * (max(times) - began))
            waits = [asyncio.create_task(_seen(each, me, is_in=False)) for each in members.values()]
            await joined.leave()
            await asyncio.gather(*waits)
    return statistics.median(firsts), statistics.median(lasts)


async def _seen(member: AgreedMembership, me: Me, *, is_in: bool) -> float:
    """When the view came that has this endpoint in it, or not in it any more."""
    async with asyncio.timeout(WITHIN_S):
        async for item in member:
            members = [each.endpoint for each in item.members] if isinstance(item, rostra.View) else None
            if members is not None and (me.endpoint in members) is is_in:
                return time.monotonic()
    raise AssertionError("the group ended")


async def _death(world: LabWorld, members: dict[str, AgreedMembership]) -> float:
    """Seconds from kill -9 of mit's server to the view without its members, at the last of the others."""
    gone = members.pop("mit").me
    waits = [asyncio.create_task(_seen(each, gone, is_in=False)) for each in members.values()]
    began = time.monotonic()
    world.processes["mit"].send_signal(signal.SIGKILL)
    return max(await asyncio.gather(*waits)) - began
