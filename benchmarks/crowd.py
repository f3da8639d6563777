"""A crowd: every program of a machine joins the same group at the same moment, as after a restart.

    python -m benchmarks.crowd [--programs 1000] [--only "fifo, 1 agent"]

Agents and their cluster's server are real processes. Every program is a client of the public API with a
connection and an endpoint of its own, connected before the clock starts; four to ten client processes hold
them. At one instant all of them join. The clock stops when the last one has the whole list.

What is printed besides: the most memory that an agent ever had resident, its processor time, the longest that
its loop was silent, the longest turn in its own processor time, and links that it lost meanwhile.
"""

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

import rostra
from benchmarks.crew import LINE_BYTES_MAX, Hand, HandFailed, everybody, obey, run
from benchmarks.peers.processes import cpu_us
from benchmarks.peers.rostra import CLUSTER, Deployment, RostraService

GROUP: Final = "crowd"

CONNECT_AT_ONCE: Final = 64
"""Connections that one client process opens at a time."""

HEAD_START_S: Final = 0.5
"""From the order to join until the instant at which all do."""

END_WITHIN_S: Final = 300.0

TURN_CPU_MS: Final = 50
"""The bar for the longest turn of an agent, in its own processor time."""

SILENCE_GOAL_MS: Final = 100
"""The goal for the longest silence of an agent's loop on the wall clock, on an idle machine."""


class Scene(Struct, frozen=True):
    """Who joins where, and what must hold."""

    name: str
    programs: int
    agents: int
    delivery: str  # fifo | none
    within_s: float | None  # None: that it ends is all
    memory_mb: float | None


class Outcome(Struct, frozen=True):
    scene: Scene
    took_s: float  # until the last program had the whole list
    memory_mb: float  # the most that an agent had resident
    agent_cpu_s: float  # of the busiest agent
    silent_ms: float  # the longest that an agent's loop did not come back to its sockets
    turn_cpu_ms: float  # the longest turn of an agent, in processor time
    links_lost: int


def scenes(programs: int) -> list[Scene]:
    """At the default of 1,000 programs these are the bars."""
    return [
        Scene("plain, 1 agent", programs, 1, "none", 1.5, None),
        Scene("fifo, 1 agent", programs, 1, "fifo", 6.0, 250.0),
        Scene("fifo, 4 agents", programs, 4, "fifo", 6.0, 250.0),
        Scene("fifo, 10 agents", 5 * programs, 10, "fifo", None, None),
    ]


class Crowd:
    """What a client process does: connect many times, join at an instant, say when the last had all."""

    def __init__(self) -> None:
        self._programs: list[rostra.Me] = []
        self._stays: list[asyncio.Task[None]] = []

    def __call__(self, order: str) -> Callable[..., Awaitable[Any]]:
        duty: Callable[..., Awaitable[Any]] = getattr(self, order)
        return duty

    async def connect(self, addresses: list[str], number: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        places = asyncio.Semaphore(CONNECT_AT_ONCE)

        async def one(address: str) -> rostra.Me:
            async with places:
                return await rostra.connect(address, timeout_s=60.0)

        each = [addresses[index % len(addresses)] for index in range(number)]
        self._programs = await asyncio.gather(*map(one, each))

    async def join(self, at_ns: int, scope: str, delivery: str, expected: int) -> int:
        """When the last of ours had a list of as many as are expected."""
        await asyncio.sleep((at_ns - time.monotonic_ns()) / 1e9)
        complete: list[asyncio.Future[int]] = []
        for program in self._programs:
            had: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            complete.append(had)
            stay = asyncio.create_task(self._stay(program, scope, delivery, expected, had))
            stay.add_done_callback(partial(_fail, had))
            self._stays.append(stay)
        return max(await asyncio.gather(*complete))

    async def _stay(
        self, program: rostra.Me, scope: str, delivery: str, expected: int, had: asyncio.Future[int]
    ) -> None:
        if delivery == "fifo":
            items: Any = await program.join(GROUP, scope, delivery="fifo")
        else:
            items = await program.join(GROUP, scope)
        known = 0
        async for item in items:
            match item:
                case rostra.View(members):
                    known = len(members)
                case rostra.Joined(members):
                    known += len(members)
                case rostra.Left(endpoints) | rostra.Without(_, endpoints) | rostra.Only(_, endpoints):
                    known -= len(endpoints)
            if known >= expected and not had.done():
                had.set_result(time.monotonic_ns())


def _fail(had: asyncio.Future[int], stay: asyncio.Task[None]) -> None:
    if not had.done() and not stay.cancelled():
        had.set_exception(stay.exception() or RuntimeError("the group ended before its list was complete"))


async def measure(scene: Scene, processes: int) -> Outcome:
    deployment = Deployment.TOGETHER if scene.agents == 1 else Deployment.TWO_AGENTS
    async with RostraService(deployment, places=scene.agents) as service:
        agents = [service.speaks_for(place)[0] for place in range(scene.agents)]
        addresses = [service.door(place)["address"] for place in range(scene.agents)]
        hands = [await _hire() for _ in range(processes)]
        try:
            shares = [len(range(first, scene.programs, processes)) for first in range(processes)]
            for first, (hand, share) in enumerate(zip(hands, shares, strict=True)):
                turned = [addresses[(first + place) % scene.agents] for place in range(scene.agents)]
                await hand.do("connect", addresses=turned, number=share)
            used_us = [cpu_us([agent]) for agent in agents]
            at_ns = time.monotonic_ns() + int(HEAD_START_S * 1e9)
            async with asyncio.timeout(END_WITHIN_S):
                ended = await everybody(
                    hands,
                    "join",
                    at_ns=at_ns,
                    scope=CLUSTER,
                    delivery=scene.delivery,
                    expected=scene.programs,
                )
            used_us = [cpu_us([agent]) - used for agent, used in zip(agents, used_us, strict=True)]
            documents = []
            for address in addresses:
                async with rostra.connect_admin(address) as admin:
                    documents.append(await admin.inspect())
            counters = [item for document in documents for item in document["counters"].items()]
            return Outcome(
                scene=scene,
                took_s=(max(ended) - at_ns) / 1e9,
                memory_mb=max(map(_most_resident_mb, agents)),
                agent_cpu_s=max(used_us) / 1e6,
                silent_ms=max(document["loop"]["silent_ms"] for document in documents),
                turn_cpu_ms=max(document["loop"]["turn_cpu_ms"] for document in documents),
                links_lost=sum(count for name, count in counters if name.startswith("links_down")),
            )
        finally:
            await asyncio.gather(*(hand.dismiss() for hand in hands))


def _most_resident_mb(pid: int) -> float:
    """VmHWM: the peak, shared libraries included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no VmHWM for {pid}")


async def _hire() -> Hand:
    return Hand(
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.crowd", "--hand"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
    )


def report(outcome: Outcome) -> str:
    scene = outcome.scene
    bars = [
        (scene.within_s, outcome.took_s, "s"),
        (scene.memory_mb, outcome.memory_mb, "MB"),
        (TURN_CPU_MS, outcome.turn_cpu_ms, "ms of CPU in a turn"),
    ]
    verdicts = [
        f"at most {bar:g} {unit}: {'kept' if figure <= bar else 'MISSED'}"
        for bar, figure, unit in bars
        if bar is not None
    ]
    if scene.within_s is None:
        verdicts.insert(0, "that it ends: kept")
    return (
        f"{scene.name:16} {scene.programs:6} {outcome.took_s:8.2f} s {outcome.memory_mb:8.0f} MB"
        f" {outcome.agent_cpu_s:8.2f} s {outcome.silent_ms:8.0f} ms {outcome.turn_cpu_ms:8.0f} ms"
        f" {outcome.links_lost:5}   {'; '.join(verdicts)}; silence: {outcome.silent_ms:.0f} ms, the goal"
        f" {SILENCE_GOAL_MS} ms on an idle machine"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Everybody joins at once.")
    parser.add_argument("--programs", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=5, help="client processes")
    parser.add_argument("--only", help="one scene, by its name")
    parser.add_argument("--hand", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.hand:
        run(obey(Crowd()))
        return
    print(
        f"{'':16} {'joined':>6} {'all have':>10} {'memory':>11} {'CPU':>10} {'silence':>11} {'turn CPU':>11}"
        f" {'links':>5}"
    )
    print(f"{'':24} {'the list':>9} {'of an agent, at most':>45} {'lost':>14}")
    for scene in scenes(words.programs):
        if words.only in (None, scene.name):
            try:
                outcome = run(measure(scene, words.processes))
            except (HandFailed, TimeoutError) as error:
                last = (str(error).strip().splitlines() or [f"no end in {END_WITHIN_S:.0f} s"])[-1]
                print(f"{scene.name:16} {scene.programs:6}   MISSED: {last}")
            else:
                print(report(outcome))


if __name__ == "__main__":
    main()
