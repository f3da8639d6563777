"""An HTTP server on the event loop of its process, which leaves that process's signal handlers alone."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from rostra.errors import BadInput
from rostra.transport.addresses import TcpAddress

BACKLOG: Final = 128
GOODBYE_S: Final = 1
"""How long answers that are under way may take when we stop."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own business."""
        yield


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, at: TcpAddress | socket.socket, *, closing: Callable[[], None] = lambda: None
) -> AsyncIterator[TcpAddress]:
    """Serve while inside; yields where, with the real number if a free port was asked for.

    `at` may have been opened before, see `listen`. `closing` is called first in the end, to end what would
    never end by itself: streams.
    """
    listener = at if isinstance(at, socket.socket) else listen(at)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="error",  # a client that does not send HTTP gets an error; our log has lines of its own
        lifespan="off",
        loop="none",
        server_header=False,
        timeout_graceful_shutdown=GOODBYE_S,
        ws="none",
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield TcpAddress(*listener.getsockname()[:2])
    finally:
        closing()
        server.should_exit = True
        await asyncio.wait([running], timeout=2 * GOODBYE_S)
        running.cancel()
        listener.close()


def listen(address: TcpAddress) -> socket.socket:
    """Take the port: callers wait from now on, and are answered once the server runs."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise BadInput(
            f"cannot serve HTTP at {address}: {os.strerror(error.errno) if error.errno else error}",
            fix="stop whatever listens there (ss -ltnp shows what), or choose another address",
        ) from None
