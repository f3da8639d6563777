"""W9: locks taken and given back per second, and how long until the next leads when a leader is killed.

Redis has its usual recipe: ``SET name token NX PX ttl``, a script that deletes it if it holds the token, a
renewal every third of the time to live, and a look every 20 ms by those who wait. It has no fence, and two
may hold it: after a stop that outlives the time to live, and after a failover. A Rostra lock is an agreed
group, whose member of rank 0 holds it, with a fence.
"""

import asyncio
import contextlib
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from benchmarks.crew import Crew
from benchmarks.figures import Measures, percentile
from benchmarks.peers.base import Program, Service
from benchmarks.workloads import Size

Lock = Callable[[str], AbstractAsyncContextManager[object]]

LOOK_S: Final = 0.02
UNLOCK: Final = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"
RENEW: Final = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end"
)


def lock_of(program: Program) -> Lock:
    """How a client of this peer locks."""
    client: Any = program
    return client.me_locks if hasattr(client, "me_locks") else _redis_lock(client._asking, client._ttl_ms)


def _redis_lock(redis: Any, ttl_ms: int) -> Lock:
    @asynccontextmanager
    async def lock(name: str) -> AsyncIterator[None]:
        key, token = f"lock:{name}", uuid.uuid4().hex
        while not await redis.set(key, token, nx=True, px=ttl_ms):
            await asyncio.sleep(LOOK_S)

        async def renew() -> None:
            while True:
                await asyncio.sleep(ttl_ms / 3e3)
                await redis.eval(RENEW, 1, key, token, ttl_ms)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            await redis.eval(UNLOCK, 1, key, token)

    return lock


# In a client process


async def lock_for(lock: Lock, names: list[str], for_s: float) -> float:
    """Take and give back locks of these names, all names at once; how many per second."""
    until = time.monotonic() + for_s
    times = 0

    async def again_and_again(name: str) -> None:
        nonlocal times
        while time.monotonic() < until:
            async with lock(name):
                times += 1

    began = time.monotonic()
    await asyncio.gather(*map(again_and_again, names))
    return times / (time.monotonic() - began)


class Leading:
    """Waits for a lock, and keeps it until the process ends."""

    def __init__(self) -> None:
        self.since_ns = 0
        self._task: asyncio.Task[None] | None = None

    def begin(self, lock: Lock, name: str) -> None:
        self._task = asyncio.create_task(self._lead(lock, name))

    async def _lead(self, lock: Lock, name: str) -> None:
        async with lock(name):
            self.since_ns = time.monotonic_ns()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()


# What is measured


async def locks_per_second(service: Service, size: Size) -> Measures:
    async with Crew() as crew:
        (hand,) = await crew.hire(1, service.name, **service.door())
        found: Measures = {}
        for at_once in (1, 16):
            names = [f"free-{at_once}-{nth}" for nth in range(at_once)]
            found[f"{at_once}: per s"] = await hand.do("lock_for", names=names, for_s=size.ask_s)
        return found


async def failover(service: Service, size: Size) -> Measures:
    """kill -9 of the leader's process; until the next one in line leads."""
    took = []
    async with Crew() as crew:
        for nth in range(size.kills):
            name = f"lead-{nth}"
            (leader,) = await crew.hire(1, service.name, **service.door())
            await leader.do("lead", name=name)
            while not await leader.do("leads"):
                await asyncio.sleep(0.01)
            (other,) = await crew.hire(1, service.name, **service.door(place=service.places - 1))
            await other.do("lead", name=name)
            await asyncio.sleep(size.settle_s)
            killed_ns = time.monotonic_ns()
            leader.signal(signal.SIGKILL)
            while not (since_ns := await other.do("leads")):
                await asyncio.sleep(0.005)
            took.append(since_ns - killed_ns)
    return {"failover p50 ms": percentile(took, 0.5) / 1e6, "failover max ms": max(took) / 1e6}
