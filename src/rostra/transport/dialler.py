"""How a client opens connections to agents.

Usually through the sockets of this machine. An event loop may provide its own dialler instead: that of
`rostra.testing` connects into a simulated world, with virtual time and seeded randomness.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from rostra.errors import BadInput, NotAllowed
from rostra.names import parse_endpoint_name
from rostra.transport.addresses import Address, TcpAddress, find_agent, parse_address
from rostra.transport.connection import Connection
from rostra.transport.tokens import read_token
from rostra.transport.trusted import check_directory, check_peer

NAME_LENGTH_MAX: Final = 40

_unnamed = itertools.count(1)


class Dialler(Protocol):
    luck: Random  # for the pauses between attempts, so that programs do not come back all at once

    def find(self, address: str | None) -> Any:
        """Resolve this address; None is the nearest agent."""

    async def dial(self, where: Any, connection: Connection) -> None: ...

    def name(self, stem: str) -> str:
        """A default name for an endpoint, unique to this process."""

    def program(self) -> str:
        """The name of this program, for the agent's log."""


class Sockets:
    """The default dialler: real sockets."""

    luck = Random()

    def find(self, address: str | None) -> Address:
        return find_agent() if address is None else parse_address(address)

    async def dial(self, where: Any, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(where, TcpAddress):
            await loop.create_connection(lambda: connection, where.host, where.port)
        else:
            check_directory(Path(where.path).parent)
            transport, _ = await loop.create_unix_connection(lambda: connection, where.path)
            try:
                check_peer(transport.get_extra_info("socket"), where)
            except NotAllowed as error:
                connection.abort(error.what)
                raise

    def name(self, stem: str) -> str:
        number = next(_unnamed)
        return name_like(stem, f"-{os.getpid()}" + (f"-{number}" if number > 1 else ""))

    def program(self) -> str:
        return f"{program_name()[:60]} pid {os.getpid()}"


_sockets: Final = Sockets()


def dialler() -> Dialler:
    """The one of the event loop that runs."""
    own: Dialler | None = getattr(asyncio.get_running_loop(), "rostra_dialler", None)
    return _sockets if own is None else own


def own_token(token: str | None) -> str:
    """What to show to an agent that asks for a token: this; else ``$ROSTRA_TOKEN``; else what stands in the
    file that ``$ROSTRA_TOKEN_FILE`` names."""
    if token is not None:
        if not isinstance(token, str):
            raise BadInput(f"token is of type {type(token).__name__}", fix="it is a text: token.decode()")
        return token
    if told := os.environ.get("ROSTRA_TOKEN"):
        return told
    file = os.environ.get("ROSTRA_TOKEN_FILE")
    return read_token(Path(file)) if file and file != "none" else ""


def program_name() -> str:
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else "python"


def name_like(stem: str, ending: str) -> str:
    """An endpoint's name that reminds of this text, whatever is in it."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in stem)
    return parse_endpoint_name((plain.lstrip("._-")[:NAME_LENGTH_MAX] or "python") + ending)
