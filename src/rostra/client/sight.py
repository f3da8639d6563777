"""What can be seen from here: the documents of all nodes that can be asked directly.

Nobody knows the whole world (C-023, C-024). An agent knows its own groups, a server its own links; so whoever
wants a wider look asks several, and says whom it asked and who did not answer.

    the agent we are connected to
    the servers that its world file names, at their addresses there
    in a world of `rostra up`: every node, through its socket
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rostra.client.admin import Admin, connect_admin
from rostra.errors import RostraError, Unreachable
from rostra.names import Domain
from rostra.runtime.addresses import SMALL_WORLD_PREFIX, SocketPath, find_agent, parse_address

AT_ONCE: Final = 32
ASK_WITHIN_S: Final = 1.5
"""For each node besides the first. A server behind a firewall or a cut keeps a command no longer."""


class Sight(Struct, frozen=True):
    start: Domain  # whom we are connected to
    world: str
    documents: Mapping[Domain, Mapping[str, Any]]
    unseen: Mapping[Domain, str]  # whom we know of and could not ask, and why

    @property
    def first(self) -> Mapping[str, Any]:
        return self.documents[self.start]

    def describe(self) -> str:
        """From where this was seen."""
        seen = sorted(self.documents, key=lambda path: (path != self.start, path))
        names = ", ".join(seen[:4]) + (f" and {len(seen) - 4} more" if len(seen) > 4 else "")
        return f"seen from {names}" + (
            f"; {len(self.unseen)} of {len(self.unseen) + len(seen)} nodes could not be asked"
            if self.unseen
            else ""
        )


async def look(admin: Admin, address: str | None = None, *, within_s: float = ASK_WITHIN_S) -> Sight:
    """Ask the node that we are connected to, and whomever it leads to."""
    first = await admin.inspect()
    documents: dict[Domain, Mapping[str, Any]] = {admin.path: first}
    unseen: dict[Domain, str] = {}
    places = {node: at for node, at in _places(address, first).items() if node != admin.path}
    turn = asyncio.Semaphore(AT_ONCE)

    async def ask(node: Domain, where: str) -> None:
        try:
            async with turn, asyncio.timeout(within_s):
                async with connect_admin(where, domain=node or None, timeout_s=within_s) as other:
                    document = await other.inspect()
                documents[Domain(document["node"])] = document
                for also in document["nodes"]:
                    if also not in documents and also not in places:
                        async with connect_admin(where, domain=also, timeout_s=within_s) as other:
                            documents[Domain(also)] = await other.inspect()
        except TimeoutError as error:
            unseen[node] = error.what if isinstance(error, RostraError) else "no answer"
        except RostraError as error:
            unseen[node] = error.what

    async def ask_in_turn(node: Domain, at: tuple[str, ...]) -> None:
        for where in at:
            unseen.pop(node, None)
            await ask(node, where)
            if node not in unseen:
                return

    async with asyncio.TaskGroup() as asking:
        for node, at in places.items():
            asking.create_task(ask_in_turn(node, at))
    unseen = {node: why for node, why in unseen.items() if node not in documents}
    return Sight(admin.path, str(first["world"]), documents, unseen)


@contextlib.asynccontextmanager
async def reach(node: Domain, address: str | None, first: Mapping[str, Any]) -> AsyncIterator[Admin]:
    """Connect to that node directly, past the world's own links, if there is a way."""
    (*others, last) = _places(address, first).get(node, ("",))
    if not last:
        raise Unreachable(f"no address of {node} is known here")
    async with contextlib.AsyncExitStack() as stack:
        for where in others:
            with contextlib.suppress(RostraError):
                admin = await stack.enter_async_context(
                    connect_admin(where, domain=node, timeout_s=ASK_WITHIN_S)
                )
                break
        else:
            admin = await stack.enter_async_context(connect_admin(last, domain=node, timeout_s=ASK_WITHIN_S))
        yield admin


def small_world_sockets(address: str | None) -> dict[Domain, str]:
    """Where each node of a world of `rostra up` listens, if this address is of one."""
    where = find_agent() if address is None else parse_address(address)
    if not isinstance(where, SocketPath):
        return {}
    directory = Path(where.path).parent
    if not directory.name.startswith(SMALL_WORLD_PREFIX):
        return {}
    sockets = (path for path in sorted(directory.glob("*.sock")) if not path.is_symlink())
    return {Domain(path.stem): str(path) for path in sockets}


def _places(address: str | None, first: Mapping[str, Any]) -> dict[Domain, tuple[str, ...]]:
    """Where each node can be reached, as far as we know: one with replicas at one of several places."""
    if sockets := small_world_sockets(address):
        return {node: (where,) for node, where in sockets.items()}
    replicas = first.get("replicas", {})
    return {
        Domain(domain): tuple(map(str, replicas.get(domain, [server])))
        for domain, server in first.get("servers", {}).items()
    }
