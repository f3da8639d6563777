"""How many programs can watch through one agent? Ten thousand, each on a connection of its own.

    python -m benchmarks.watchers [--watchers 10000] [--processes 2] [--joins 5]

Two hosts' agents and their cluster's server, three real processes; every watcher is a client of the public
API, with a socket and an endpoint of its own, on the first host. Then somebody joins on the other host, and
leaves again. Told is: how long the watchers took to come, what each costs its agent in memory, when the last
of them knew of a join, and whether the agent kept its link to the world all the while.
"""

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

import rostra
from benchmarks.crew import LINE_BYTES_MAX, Hand, everybody, obey, run
from benchmarks.peers.processes import cpu_us, resident_kb
from benchmarks.peers.rostra import CLUSTER, Deployment, RostraService

GROUP: Final = "crowd"
AT_ONCE: Final = 64
"""Connections that one client process opens at a time, as a machine full of programs would start them."""

SEEN_WITHIN_S: Final = 120.0


class Outcome(Struct, frozen=True):
    watchers: int
    came_s: float  # until every one had its list
    agent_kb_each: float
    join_ms: list[float]  # from the call of join until the last watcher was told; one for each join
    agent_ms: float  # of processor time, for each change
    links_lost: int  # by the agent, meanwhile


class Crowd:
    """What a client process does: watch, many times over, and say when the last watcher was told."""

    def __init__(self) -> None:
        self._told = 0
        self._last_ns = 0
        self._expected = 0
        self._all_told = asyncio.Event()
        self._watching: list[asyncio.Task[None]] = []

    def __call__(self, order: str) -> Callable[..., Awaitable[Any]]:
        duty: Callable[..., Awaitable[Any]] = getattr(self, order)
        return duty

    async def watch(self, address: str, scope: str, number: int) -> None:
        _allow_many_files()
        ready = asyncio.Semaphore(AT_ONCE)

        async def one() -> None:
            async with ready:
                me = await rostra.connect(address, timeout_s=60.0, silence_s=300.0)
                watch = await me.watch(GROUP, scope)
                changes = aiter(watch)
                await anext(changes)
            self._watching.append(asyncio.ensure_future(self._follow(changes)))

        await asyncio.gather(*(one() for _ in range(number)))

    async def _follow(self, changes: Any) -> None:
        async for change in changes:
            assert not isinstance(change, rostra.Gap), "nobody reads slowly here"
            self._told += 1
            self._last_ns = time.monotonic_ns()
            if self._told == self._expected:
                self._all_told.set()

    async def expect(self, changes: int) -> None:
        """From now on, each watcher is told so many."""
        self._told, self._expected = 0, changes * len(self._watching)
        self._all_told.clear()

    async def told(self) -> int:
        async with asyncio.timeout(SEEN_WITHIN_S):
            await self._all_told.wait()
        return self._last_ns


async def measure(watchers: int, processes: int, joins: int) -> Outcome:
    async with RostraService(Deployment.TWO_AGENTS) as service:
        (agent,) = service.speaks_for(0)
        hands = [await _hire() for _ in range(processes)]
        try:
            empty_kb, began = resident_kb([agent]), time.monotonic()
            shares = [len(range(first, watchers, processes)) for first in range(processes)]
            address = service.door(0)["address"]
            await asyncio.gather(
                *(
                    hand.do("watch", address=address, scope=CLUSTER, number=share)
                    for hand, share in zip(hands, shares, strict=True)
                )
            )
            came_s, full_kb = time.monotonic() - began, resident_kb([agent])
            join_ms = []
            async with rostra.connect(service.door(1)["address"], name="ann") as ann:
                used_us = cpu_us([agent])
                for _ in range(joins):
                    await everybody(hands, "expect", changes=1)
                    at = time.monotonic_ns()
                    membership = await ann.join(GROUP, CLUSTER)
                    join_ms.append((max(await everybody(hands, "told")) - at) / 1e6)
                    await everybody(hands, "expect", changes=1)
                    await membership.leave()
                    await everybody(hands, "told")
                used_us = cpu_us([agent]) - used_us
            async with rostra.connect_admin(address) as admin:
                document = await admin.inspect()
            assert len(document["watches"][f"{GROUP}@{CLUSTER}"]["watchers"]) == watchers
            lost = sum(count for name, count in document["counters"].items() if name.startswith("links_down"))
            each_kb = (full_kb - empty_kb) / watchers
            return Outcome(watchers, came_s, each_kb, join_ms, used_us / 1e3 / (2 * joins), lost)
        finally:
            await asyncio.gather(*(hand.dismiss() for hand in hands))


async def _hire() -> Hand:
    return Hand(
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.watchers", "--hand"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
    )


def _allow_many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description="How many programs can watch through one agent?")
    parser.add_argument("--watchers", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--joins", type=int, default=5)
    parser.add_argument("--hand", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.hand:
        run(obey(Crowd()))
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < words.watchers + 100:
        parser.error(f"a process may open {most} files here: raise it with ulimit -n, or ask for fewer")
    outcome = run(measure(words.watchers, words.processes, words.joins))
    joins = sorted(outcome.join_ms)
    print(f"watchers          {outcome.watchers}, on as many connections to one agent")
    print(f"until all watch   {outcome.came_s:.1f} s")
    print(f"memory            {outcome.agent_kb_each:.1f} KB of the agent for each")
    print(f"a join            known to the last of them after {joins[len(joins) // 2]:.0f} ms")
    print(f"                  (median of {len(joins)}; worst {joins[-1]:.0f} ms)")
    print(f"each change       {outcome.agent_ms:.0f} ms of the agent's processor")
    print(f"links lost        {outcome.links_lost}")


if __name__ == "__main__":
    main()
