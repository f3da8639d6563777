"""The documents of all nodes that can be asked directly from here.

No node knows the whole world (C-023, C-024): an agent knows its own groups, a server its own links. A wider
question is asked of several nodes, and the answer names those that were asked and those that did not answer.

    the agent we are connected to
    the servers that its world file names, at their addresses there
    in a world of `rostra up`: every node, through its socket

A node may lie. Its document counts for that node alone, and only if it has the right shape. The servers'
addresses come from the first node, so a token is sent only to addresses that the user named: in `--agent` or
`connect`, or in the world file at ``$ROSTRA_WORLD``.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from rostra.client.admin import Admin, connect_admin
from rostra.client.group import Entering
from rostra.config import load_world
from rostra.errors import UNDECODABLE, Malformed, NotAllowed, RostraError, Unreachable
from rostra.names import Domain
from rostra.transport.addresses import SMALL_WORLD_PREFIX, SocketPath, find_agent, parse_address

AT_ONCE: Final = 32
ASK_WITHIN_S: Final = 1.5
"""For each node besides the first. A server behind a firewall or a cut keeps a command no longer."""

NO_TOKEN: Final = ""
TOKEN_KEPT: Final = "a token is sent only to addresses that you name: in --agent, or in $ROSTRA_WORLD's file"


class RecordShape(Struct, frozen=True):
    names: list[str]
    scope: str = ""


class GroupShape(Struct, frozen=True):
    members: list[Any]
    watchers: list[str] = []
    online: list[Any] = []


class CoreShape(Struct, frozen=True):
    server: str
    cluster: bool = False
    groups: dict[str, GroupShape] = {}
    rows: dict[str, Any] = {}
    registry: list[RecordShape] = []
    permanent: dict[str, RecordShape] = {}
    endpoints: list[str] = []


class ProgramShape(Struct, frozen=True):
    program: str
    endpoints: list[str]
    suspected: bool
    behind: bool
    missed: int


class LinkShape(Struct, frozen=True):
    up: bool
    suspected: bool
    silence_s: float
    expected_s: float
    phi: float
    heard_s: float | None = None


class EventShape(Struct, frozen=True):
    event: str
    values: dict[str, Any]


class Shape(Struct, frozen=True):
    """What every document has, whatever else is in it."""

    node: str
    nodes: list[str]
    world: str
    profile: str
    incarnation: int
    core: CoreShape
    programs: list[ProgramShape]
    links: dict[str, LinkShape]
    recent: list[EventShape]
    recorded: int
    servers: dict[str, str] = {}
    replicas: dict[str, list[str]] = {}
    http: str | None = None


class Sight(Struct, frozen=True):
    start: Domain  # whom we are connected to
    world: str
    documents: Mapping[Domain, Mapping[str, Any]]
    unseen: Mapping[Domain, str]  # whom we know of and could not ask, and why
    reached: Mapping[Domain, str] = {}  # at which address each of the documents was given to us

    @property
    def first(self) -> Mapping[str, Any]:
        return self.documents[self.start]

    def describe(self) -> str:
        """From where this was seen."""
        seen = sorted(self.documents, key=lambda path: (path != self.start, path))
        unseen = sorted(self.unseen)
        text = f"seen from {_named_some(seen)}"
        if unseen:
            why = f" ({self.unseen[unseen[0]]})" if len(unseen) == 1 else ""
            nodes = f"{len(unseen)} of {len(unseen) + len(seen)} nodes"
            text += f"; {nodes} could not be asked: {_named_some(unseen)}{why}"
        return text


def _named_some(nodes: Sequence[Domain]) -> str:
    return ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")


async def look(admin: Admin, address: str | None = None, *, within_s: float = ASK_WITHIN_S) -> Sight:
    """Ask the node that we are connected to, and the nodes that it names."""
    first = await _document(admin, admin.path)
    documents: dict[Domain, Mapping[str, Any]] = {admin.path: first}
    reached = {admin.path: address or str(find_agent())}
    unseen: dict[Domain, str] = {}
    places = {node: at for node, at in _places(address, first).items() if node != admin.path}
    turn = asyncio.Semaphore(AT_ONCE)
    named = _named()

    async def ask(node: Domain, where: str) -> None:
        token = named.get(where, NO_TOKEN)
        try:
            async with turn, asyncio.timeout(within_s):
                async with connect_admin(where, token, domain=node or None, timeout_s=within_s) as other:
                    document = documents[node] = await _document(other, node)
                    reached[node] = where
                for also in map(Domain, document["nodes"]):
                    if also not in documents and also not in places:
                        async with connect_admin(where, token, domain=also, timeout_s=within_s) as other:
                            documents[also] = await _document(other, also)
                            reached[also] = where
        except TimeoutError as error:
            unseen[node] = error.what if isinstance(error, RostraError) else "no answer"
        except NotAllowed as error:
            withheld = token == NO_TOKEN and "token" in error.what
            unseen[node] = f"{error.what}; {TOKEN_KEPT}" if withheld else error.what
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
    return Sight(admin.path, first["world"], documents, unseen, reached)


async def _document(admin: Admin, node: Domain) -> dict[str, Any]:
    """What this node says of itself."""
    document = await admin.inspect()
    if admin.path != node:
        raise Malformed(f"{node} answers as {admin.path}")
    return checked(document, node)


def checked(document: dict[str, Any], node: Domain) -> dict[str, Any]:
    """This document, if it has the shape of one and is of that node."""
    try:
        said = msgspec.convert(document, Shape)
    except UNDECODABLE as error:
        raise Malformed(f"{node} answers with something else than its state: {error}") from None
    if said.node != node:
        raise Malformed(f"{node} answers with the state of {said.node!r}")
    return document


@contextlib.asynccontextmanager
async def reach(node: Domain, address: str | None, first: Mapping[str, Any]) -> AsyncIterator[Admin]:
    """Connect to that node directly, past the world's own links, if there is a way."""
    (*others, last) = _places(address, first).get(node, ("",))
    if not last:
        raise Unreachable(f"no address of {node} is known here")
    named = _named()

    def connection(where: str) -> Entering[Admin]:
        return connect_admin(where, named.get(where, NO_TOKEN), domain=node, timeout_s=ASK_WITHIN_S)

    async with contextlib.AsyncExitStack() as stack:
        for where in others:
            with contextlib.suppress(RostraError):
                admin = await stack.enter_async_context(connection(where))
                break
        else:
            admin = await stack.enter_async_context(connection(last))
        yield admin


def _named() -> dict[str, None]:
    """The addresses in the user's own world file, each with None: that our token may be sent there."""
    file = os.environ.get("ROSTRA_WORLD")
    if not file:
        return {}
    world = load_world(Path(file))
    return {str(address): None for domain in world.servers for address in world.addresses(domain)}


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
