"""The dashboard of a small world: every node is a place, and the supervisor is the lab."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rostra.errors import BadInput
from rostra.transport.addresses import TcpAddress
from rostra.up.cables import LOOPBACK
from rostra.up.world import SmallWorld
from rostra.web.api import dashboard
from rostra.web.observatory import Observatory
from rostra.web.places import ClientPlace
from rostra.web.serve import serving

PORT: Final = 7780
PORTS_TRIED: Final = 20


@contextlib.asynccontextmanager
async def dashboard_of(world: SmallWorld, port: int | None) -> AsyncIterator[str]:
    """Serve it while inside; yields its address. Without a port, the first free one from 7780 on."""
    places = [ClientPlace(node, str(world.socket(node))) for node in world.plan.nodes]
    async with Observatory(places, lab=world, stays_awake=True) as observatory:
        app = dashboard(observatory)
        async with contextlib.AsyncExitStack() as stack:
            ports = range(PORT, PORT + PORTS_TRIED) if port is None else (port,)
            for number in ports:
                try:
                    served = serving(app, TcpAddress(LOOPBACK, number), closing=observatory.end_streams)
                    address = await stack.enter_async_context(served)
                    break
                except BadInput:
                    if number == ports[-1]:
                        raise
            yield f"http://{address}"
