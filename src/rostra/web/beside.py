"""A node's HTTP server: in a thread with an event loop of its own, beside the node's.

    node's loop                                  HTTP's loop
      vitals_of(process)  ◀── call_soon ───────── /livez, /readyz, /metrics
      its program socket  ◀── as any program ──── the dashboard, which sleeps without viewers

A slow reader, a flood of requests or a bug here does not disturb the node: it spends a few microseconds on
its numbers and nothing else. And if the node's loop is stuck, this one can still report it.
"""

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from typing import Final

from rostra.errors import RostraError
from rostra.names import Domain, domain_of_replica, route
from rostra.runtime.process import Process
from rostra.runtime.vitals import Vitals, vitals_of
from rostra.transport.addresses import Address, TcpAddress
from rostra.web.api import dashboard
from rostra.web.health import LATE_S, Ask, health
from rostra.web.observatory import Observatory
from rostra.web.places import ClientPlace
from rostra.web.serve import serving

PLACES_MAX: Final = 64
"""Nodes that a node's own dashboard looks at: itself, and the servers of the world file that are nearest."""

STOP_WITHIN_S: Final = 5.0


@contextlib.asynccontextmanager
async def http_beside(process: Process, at: TcpAddress | socket.socket, own: Address) -> AsyncIterator[None]:
    """Serve while inside. `own` is where programs reach the nodes of this process."""
    ask = _asking(process)
    places = _places(process, own)
    started: concurrent.futures.Future[TcpAddress] = concurrent.futures.Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        try:
            async with (
                Observatory(places) as observatory,
                serving(
                    dashboard(observatory, more=health(ask)), at, closing=observatory.end_streams
                ) as where,
            ):
                started.set_result(where)
                await stop.wait()
        except RostraError as error:
            if not started.done():
                started.set_exception(error)

    def run() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(serve())
            loop.run_until_complete(loop.shutdown_asyncgens())

    thread = threading.Thread(target=run, name="http", daemon=True)
    thread.start()
    where = await asyncio.wrap_future(started)
    process.http = str(where)
    process.record.note("http_listening", address=str(where))
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # its loop is over already
            loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, STOP_WITHIN_S)


def _asking(process: Process) -> Ask:
    node_loop = process.loop

    async def ask() -> Vitals:
        answer: concurrent.futures.Future[Vitals] = concurrent.futures.Future()

        def look() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(vitals_of(process))
                except Exception as error:
                    answer.set_exception(error)

        try:
            node_loop.call_soon_threadsafe(look)
        except RuntimeError:
            raise TimeoutError from None  # the node's loop is over
        async with asyncio.timeout(LATE_S):
            return await asyncio.wrap_future(answer)

    return ask


def _places(process: Process, own: Address) -> list[ClientPlace]:
    """Ourselves, then the servers, the nearest first. Of a server with replicas, whichever leads."""
    world = process.world
    own_nodes = [path for path in process.hosted_nodes if path not in world.replicas]
    secret = process.secret if isinstance(own, TcpAddress) else None
    here = [
        ClientPlace(path, str(own), token=secret) for path in own_nodes if domain_of_replica(path) is None
    ]
    start = process.default_node()
    near = domain_of_replica(start.path) or start.path
    others = [domain for domain in world.servers if domain not in own_nodes]
    others.sort(key=lambda domain: (_distance(near, domain, start.is_agent), domain))
    there = others[: PLACES_MAX - len(here)]
    return here + [ClientPlace(domain, *map(str, world.addresses(domain))) for domain in there]


def _distance(start: Domain, to: Domain, from_host: bool) -> int:
    return len(route(start, to, from_host=from_host))
