"""Starts a planned world and runs it until a signal ends it.

first Ctrl-C, SIGTERM or SIGHUP    every program leaves, every process ends in good order, exit 0
second one                         every process is killed
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Protocol

from msgspec import Struct

from rostra.names import Domain
from rostra.transport.addresses import SocketPath, find_agent
from rostra.up.dashboard import dashboard_of
from rostra.up.home import About, WorldHome, others
from rostra.up.plan import WorldPlan
from rostra.up.world import SmallWorld, Starting

EXIT_OK: Final = 0


class UpSettings(Struct, frozen=True, kw_only=True):
    plan: WorldPlan
    port: int | None = None  # of the dashboard; none: the first free one from 7780 on
    seed: str = "1"
    wan_delay_s: float = 0.0
    journal: str | None = None  # where every process writes down what happens
    record: bool = False  # and what it is given


class Up(Struct, frozen=True):
    """What there is to say about a world that is up."""

    plan: WorldPlan
    took_s: float
    people: int
    dashboard: str
    home: WorldHome
    is_found: bool  # commands and programs without an address find this world
    others: tuple[About, ...]

    def socket(self, host: Domain) -> str:
        return str(self.home.socket(host))


class Screen(Protocol):
    """What reports to the user."""

    def starting(self, starting: Starting) -> None: ...
    def up(self, up: Up) -> None: ...
    def say(self, what: str) -> None: ...
    def complain(self, what: str) -> None: ...
    def ending(self) -> None: ...


async def run(settings: UpSettings, screen: Screen) -> int:
    began = time.monotonic()
    with _home() as home:
        world = SmallWorld(
            settings.plan,
            home,
            seed=settings.seed,
            wan_delay_s=settings.wan_delay_s,
            journal=settings.journal,
            record=settings.record,
            say=screen.say,
            complain=screen.complain,
        )
        # The dashboard outlasts the world: its viewers see it end, and nodes that have ended are not asked.
        with _told_to_stop(world) as stop:
            async with dashboard_of(world, settings.port) as dashboard:
                try:
                    if not await _unless(stop, world.start(screen.starting)):
                        return EXIT_OK
                    screen.up(_up(settings.plan, world, dashboard, time.monotonic() - began))
                    await stop.wait()
                finally:
                    screen.ending()
                    await world.stop()
    return EXIT_OK


def _up(plan: WorldPlan, world: SmallWorld, dashboard: str, took_s: float) -> Up:
    """Report where this world is, to the user and in its directory."""
    earlier = tuple(others())
    world.home.tell(About(os.getpid(), dashboard))
    is_found = find_agent() == SocketPath(str(world.home.front_door))
    return Up(plan, took_s, world.people, dashboard, world.home, is_found, earlier)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do this unless a signal stops us meanwhile; was it done?"""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done()
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


@contextlib.contextmanager
def _told_to_stop(world: SmallWorld) -> Iterator[asyncio.Event]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    killing: list[asyncio.Task[None]] = []

    def told() -> None:
        if stop.is_set() and not killing:
            killing.append(loop.create_task(world.kill()))
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _home() -> Iterator[WorldHome]:
    home = WorldHome.make()
    try:
        yield home
    finally:
        home.remove()
