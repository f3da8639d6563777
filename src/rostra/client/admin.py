"""A connection to a server for administration: permanent groups, and what it knows."""

from collections.abc import Iterable
from typing import Any

import msgspec

from rostra.client.connection import AgentConnection
from rostra.client.group import Entering
from rostra.errors import UNDECODABLE, BadInput, Malformed
from rostra.names import Domain, make_group, parse_scope, parse_subject
from rostra.protocols.access.requests import (
    AssignName,
    CloseGroup,
    NamesAsked,
    ReleaseName,
    ReopenGroup,
    Revoke,
)
from rostra.protocols.agreed.calls import (
    AdministerSet,
    DrainedGroup,
    DrainHost,
    HostDrained,
    SetShown,
    SetVerb,
)
from rostra.protocols.relaxed import requests
from rostra.transport.dialler import dialler, own_token
from rostra.wire import NO_ENDPOINT

CONNECT_TIMEOUT_S = 10.0


class Admin:
    """One server, of a domain or a host. If its connection ends, everything raises the reason."""

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection

    @property
    def path(self) -> Domain:
        """The domain of the server that we are connected to, or the agent's host."""
        return self._connection.path

    async def register(self, group: str, scope: str | None = None) -> None:
        """Make this a permanent group of the server's own domain (C-012)."""
        await self._connection.ask(NO_ENDPOINT, requests.Register(make_group(group, scope or self.path)))

    async def unregister(self, group: str, scope: str | None = None) -> None:
        await self._connection.ask(NO_ENDPOINT, requests.Unregister(make_group(group, scope or self.path)))

    async def close_group(self, group: str, allowed: Iterable[str] = (), scope: str | None = None) -> None:
        """From now on a group of the server's own domain is for these domains and hosts alone (C-167). The
        list cannot be changed, only taken away. A restricted name needs none: its authority decides then not
        only who may join, but also for whose hosts the group is there at all."""
        if isinstance(allowed, str):
            raise BadInput(f"allowed={allowed!r}", fix=f"write a list: [{allowed!r}]")
        paths = tuple([parse_scope(path) for path in allowed])
        key = make_group(group, scope or self.path)
        await self._connection.ask(NO_ENDPOINT, CloseGroup(key, paths))

    async def reopen_group(self, group: str, scope: str | None = None) -> None:
        await self._connection.ask(NO_ENDPOINT, ReopenGroup(make_group(group, scope or self.path)))

    async def assign_name(self, group: str, holder: str, scope: str | None = None) -> None:
        """Assign this name of the server's own domain to a holder, a text for people (S-010). `NameTaken` if
        another holder has it. Members need no assignment, and the name keeps its holder without members."""
        await self._connection.ask(NO_ENDPOINT, AssignName(make_group(group, scope or self.path), holder))

    async def release_name(self, group: str, scope: str | None = None) -> None:
        await self._connection.ask(NO_ENDPOINT, ReleaseName(make_group(group, scope or self.path)))

    async def names(self) -> dict[str, str]:
        """The assigned names of the server's own domain, each with its holder."""
        return dict((await self._connection.ask(NO_ENDPOINT, NamesAsked())).assigned)

    async def revoke(self, revocation: bytes) -> None:
        """Spread a revocation to all nodes. It is signed, so any program may send it."""
        await self._connection.ask(NO_ENDPOINT, Revoke(revocation))

    async def inspect(self, *, after: int = 0, wait_s: float = 0.0) -> dict[str, Any]:
        """What the server knows, and what it recorded after that number: at once, or as soon as there is
        something, or after `wait_s`."""
        return await inspect(self._connection, after, wait_s)

    async def recall(self, about: str, of: str | None = None) -> dict[str, Any]:
        """What is remembered about an endpoint, a host or a domain: here, or, through the world, by another
        server; see `rostra.client.why`."""
        whose = self.path if of is None else parse_scope(of)
        recalled = await self._connection.ask(NO_ENDPOINT, requests.Recall(parse_subject(about), whose))
        return _read(recalled.document)

    async def drain(self, *, look: bool = False) -> tuple[DrainedGroup, ...]:
        """At an agent: move its members behind all others in their agreed groups, before it is stopped.
        Returns the groups that have members here and elsewhere; with `look` it does nothing else."""
        drained: HostDrained = await self._connection.ask(NO_ENDPOINT, DrainHost(look))
        return drained.groups

    async def change_set(
        self, domain: str, verb: SetVerb, servers: Iterable[str] = (), names: Iterable[str] = ()
    ) -> SetShown:
        """At a server: change a set that it is in, and wait until that is agreed on; or look at it. See
        `rostra.protocols.agreed.administration`."""
        paths = tuple([parse_scope(path) for path in servers])
        order = AdministerSet(parse_scope(domain), verb, paths, tuple(names))
        shown: SetShown = await self._connection.ask(NO_ENDPOINT, order)
        return shown

    async def close(self) -> None:
        await self._connection.close()


def connect_admin(
    address: str | None = None,
    token: str | None = None,
    *,
    domain: str | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> Entering[Admin]:
    """Connect to the server of a domain (or to an agent). `domain` chooses among several at one address."""
    to = Domain("") if domain is None else parse_scope(domain)

    async def enter() -> Admin:
        connection = AgentConnection(dialler().find(address), token=own_token(token))
        await connection.open(timeout_s, to)
        return Admin(connection)

    return Entering(enter)


async def inspect(connection: AgentConnection, after: int = 0, wait_s: float = 0.0) -> dict[str, Any]:
    inspected = await connection.ask(NO_ENDPOINT, requests.Inspect(after, wait_s))
    return _read(inspected.document)


def _read(octets: bytes) -> dict[str, Any]:
    """Decode a document; it may be of any node of the world."""
    try:
        return msgspec.json.decode(octets, type=dict[str, Any])
    except UNDECODABLE as error:
        raise Malformed(f"a document that cannot be read: {error}") from None
