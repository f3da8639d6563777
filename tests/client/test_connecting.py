"""Calls that are given up before anybody answered."""

import asyncio
import gc
from typing import Any

from rostra.client.connection import AgentConnection
from rostra.transport.addresses import SocketPath


def test_a_call_that_was_given_up_leaves_no_error_behind() -> None:
    """Nobody waits for its answer any more, so what became of it is nobody's error: Ctrl-C shows no remark of
    asyncio about an exception that was never retrieved."""
    errors: list[dict[str, Any]] = []

    async def give_up() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        AgentConnection(SocketPath("/nowhere/agent.sock")).lost("cancelled")
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(give_up())
    assert errors == []
