"""An endpoint: a program's presence on a host, and everything that it can do there."""

import asyncio
import contextlib
import itertools
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from rostra.client.changes import Gap, Life, Message, NotDelivered, Resolution
from rostra.client.connection import AgentConnection
from rostra.client.copies import Follow
from rostra.client.group import Entering, Membership, Watch, Watching
from rostra.client.streams import Stream, again
from rostra.errors import BadInput, DeadlineExceeded, RostraError, Unreachable
from rostra.names import (
    Domain,
    Endpoint,
    Group,
    host_of,
    incarnation_of,
    make_group,
    name_of,
    parse_endpoint,
    parse_endpoint_name,
    parse_group_name,
    parse_scope,
)
from rostra.protocols.resolve import requests
from rostra.protocols.resolve.requests import AnyNotice, AnyRequest
from rostra.runtime.addresses import find_agent, parse_address
from rostra.wire import NO_ENDPOINT

CONNECT_TIMEOUT_S: Final = 10.0

DEADLINE_GRACE_S: Final = 1.0
"""The agent keeps deadlines. If even its refusal does not come, this much later, the program stops waiting
itself."""

_unnamed = itertools.count(1)


def connect(
    address: str | None = None, *, name: str | None = None, timeout_s: float = CONNECT_TIMEOUT_S
) -> "Entering[Me]":
    """Connect to an agent and open an endpoint there.

    `address` is a socket's path or ``host:port``; without it, ``$ROSTRA_AGENT`` or this machine's agent.
    `name` is what the endpoint is called; without it, the program's own name and process number.

        async with rostra.connect() as me: ...
        me = await rostra.connect("h3:7701", name="web-1"); ...; await me.close()
    """
    program = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else "python"
    where = find_agent() if address is None else parse_address(address)
    called = default_name(program) if name is None else parse_endpoint_name(name)

    async def enter() -> Me:
        connection = AgentConnection(where, f"{program[:60]} pid {os.getpid()}")
        await connection.open(timeout_s)
        try:
            return await Me._open(connection, called, owns_connection=True)
        except BaseException:
            await connection.close()
            raise

    return Entering(enter)


def default_name(program: str) -> str:
    """A name that no other endpoint of this machine chooses by default."""
    stem = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in program)
    number = next(_unnamed)
    return parse_endpoint_name(
        f"{stem.lstrip('._-')[:40] or 'python'}-{os.getpid()}" + (f"-{number}" if number > 1 else "")
    )


class Me:
    """One endpoint. All methods belong to the event loop that it was opened in."""

    def __init__(self, connection: AgentConnection, endpoint: Endpoint, *, owns_connection: bool) -> None:
        self.endpoint = endpoint
        self._number = incarnation_of(endpoint)
        self._connection = connection
        self._copies = connection.copies
        self._owns_connection = owns_connection
        self._closed = False
        self._follows: dict[tuple[str, str | None], Follow] = {}  # by name and scope
        self._watches: Counter[Group] = Counter()
        self._mail: Stream[Message | NotDelivered | Gap] | None = None
        self._lives: dict[Endpoint, list[Stream[Life]]] = {}
        connection.listen(self._number, self._hear)
        connection.at_end(self._end)

    @classmethod
    async def _open(cls, connection: AgentConnection, name: str, *, owns_connection: bool) -> "Me":
        opened = await connection.ask(NO_ENDPOINT, requests.Open(name))
        return cls(connection, opened.endpoint, owns_connection=owns_connection)

    def __repr__(self) -> str:
        return f"<{self.endpoint}{'' if self.is_open else ', closed'}>"

    @property
    def host(self) -> Domain:
        return host_of(self.endpoint)

    @property
    def name(self) -> str:
        return name_of(self.endpoint)

    @property
    def world(self) -> str:
        return self._connection.world

    @property
    def is_open(self) -> bool:
        return not self._closed and self._connection.ended is None

    def open(self, name: str | None = None) -> "Entering[Me]":
        """One more endpoint on the same connection."""
        called = default_name(name_of(self.endpoint)) if name is None else parse_endpoint_name(name)
        return Entering(lambda: Me._open(self._connection, called, owns_connection=False))

    async def close(self) -> None:
        """Leave every group. The endpoint that `connect` gave takes the connection, and all others on it,
        with it."""
        if self._closed:
            return
        self._closed = True
        if self._owns_connection:
            await self._connection.close()
        elif self._connection.ended is None:
            with contextlib.suppress(Unreachable):
                await self._connection.ask(self._number, requests.Close())
        self._connection.deafen(self._number)
        self._connection.forget_at_end(self._end)
        self._end(None)

    # Groups

    def join(
        self,
        group: str,
        scope: str = "world",
        *,
        online: bool = True,
        meta: bytes = b"",
        permanent: bool = False,
    ) -> Entering[Membership]:
        """Be in a group: ``async with me.join("chess", scope="eu") as chess``.

        `online`: hear of changes, and hold a copy of who is in it. `meta` is shown to everybody beside our
        address. `permanent`: the group must be one that an administrator registered.
        """
        key = make_group(group, scope)

        async def enter() -> Membership:
            membership = Membership(self, key)
            if online:
                membership._follow = self._begin_follow(key)
            try:
                await self._ask(requests.Join(key, online, permanent, meta))
            except BaseException as error:
                if online:
                    self._end_follow(key)
                if isinstance(error, asyncio.CancelledError):
                    self._post_if_open(requests.Leave(key))
                raise
            return membership

        return Entering(enter)

    def watch(self, group: str, scope: str = "world") -> Watching:
        """Follow a group from outside: ``async for change in me.watch("chess")``, or ``async with`` for its
        copy."""
        key = make_group(group, scope)

        async def enter() -> Watch:
            watch = Watch(self, key)
            watch._follow = self._begin_follow(key)
            self._watches[key] += 1
            try:
                await self._ask(requests.Watch(key))
            except BaseException as error:
                ended = self._end_watch(key, tell=isinstance(error, asyncio.CancelledError))
                if ended is not None:
                    ended.cancel()  # nobody waits for the answer
                raise
            return watch

        return Watching(enter)

    async def resolve(
        self, group: str, scope: str | None = "world", *, deadline: float | None = None, fresh: bool = False
    ) -> Resolution:
        """Who is in a group? Membership is not needed.

        A group that this endpoint follows is answered from its own copy, and the answer says so; `fresh` asks
        the servers. With ``scope=None``, every group of that name around this host. After `deadline` seconds
        without an answer, `DeadlineExceeded`.
        """
        if not fresh:
            follow = self._follows.get((group, scope))
            if follow is not None:
                copy = follow.resolution
                if copy is not None:
                    return copy
        question = _question(group, scope, deadline)
        if question.scope != scope and not fresh:
            return await self.resolve(group, question.scope, deadline=deadline)
        return await self._resolve(group, question, deadline)

    async def _resolve(self, group: str, question: requests.Resolve, deadline: float | None) -> Resolution:
        period = self._copies.period(Group(group, question.scope)) if self._follows and question.scope else 0
        asking = self._ask(question, share=True)
        answer = await (asking if deadline is None else _in_time(asking, deadline))
        if type(answer) is requests.Resolved:
            everybody = {member.endpoint: member for _, members in answer.parts for member in members}
            members = tuple([everybody[endpoint] for endpoint in sorted(everybody)])
            return Resolution(members, answer.isolated, scopes=answer.parts)
        if period:
            self._copies.answered(answer, period)
        return Resolution(answer.members, answer.isolated)

    # Messages and lives

    async def send_to(self, endpoints: Endpoint | str | Iterable[Endpoint | str], data: bytes) -> None:
        """Send a message through the servers to these endpoints. Returns when the agent has it."""
        each = (endpoints,) if isinstance(endpoints, str) else tuple(endpoints)
        await self._ask(requests.SendTo(tuple([parse_endpoint(endpoint) for endpoint in each]), data))

    def messages(self) -> Stream[Message | NotDelivered | Gap]:
        """What is sent to this endpoint, from the first call of this on."""
        if self._mail is None:
            self._mail = Stream(lambda missed: (Gap(missed),))
            if self._connection.ended is not None:
                self._mail.end(self._connection.ended)
        return self._mail

    async def watch_life(self, endpoint: Endpoint | str) -> AsyncIterator[Life]:
        """Is that endpoint there, and when does it go?"""
        target = parse_endpoint(endpoint)
        stream: Stream[Life] = Stream(lambda missed: ())
        streams = self._lives.setdefault(target, [])
        streams.append(stream)
        try:
            if len(streams) == 1:
                await self._ask(requests.WatchLife(target))
            async for life in stream:
                yield life
        finally:
            streams.remove(stream)
            if not streams:
                self._lives.pop(target, None)
                self._post_if_open(requests.UnwatchLife(target))

    # Administration

    async def register(self, group: str, scope: str) -> None:
        """Make this a permanent group. For a scope beyond this host, ask its domain's server: `Admin`."""
        await self._ask(requests.Register(make_group(group, scope)))

    async def unregister(self, group: str, scope: str) -> None:
        await self._ask(requests.Unregister(make_group(group, scope)))

    async def inspect(self) -> dict[str, Any]:
        """What the agent knows and remembers."""
        return await _inspect(self._connection)

    # For groups

    async def _leave(self, group: Group, meta: bytes, *, was_online: bool) -> None:
        left = self._post(requests.Leave(group, meta))
        if was_online:
            # Silence from the moment of the call (C-052): what still arrives was sent before the agent knew.
            self._end_follow(group)
        await self._connection.settle(left)

    async def _unwatch(self, group: Group) -> None:
        ended = self._end_watch(group, tell=True)
        if ended is not None:
            await self._connection.settle(ended)

    def _end_watch(self, group: Group, *, tell: bool) -> "asyncio.Future[Any] | None":
        """One watch less. For the agent an endpoint watches a group or does not, so only the last one tells
        it."""
        self._watches[group] -= 1
        last = not self._watches[group]
        if last:
            del self._watches[group]
        ended = self._post(requests.Unwatch(group)) if last and tell and self.is_open else None
        self._end_follow(group)
        return ended

    async def _set_online(self, membership: Membership, online: bool) -> None:
        group = membership.group
        if online:
            membership._follow = self._begin_follow(group)
            try:
                await self._ask(requests.SetOnline(group, True))
            except BaseException:
                membership._follow = None
                self._end_follow(group)
                raise
        else:
            membership._follow = None
            done = self._post(requests.SetOnline(group, False))
            self._end_follow(group)
            await self._connection.settle(done)

    def _begin_follow(self, group: Group) -> Follow:
        self._check_open()
        follow = self._follows[group.name, group.scope] = self._copies.follow(group, self._number)
        return follow

    def _end_follow(self, group: Group) -> None:
        self._copies.unfollow(group, self._number)
        follow = self._follows.get((group.name, group.scope))
        if follow is not None and follow.ended is not None:
            del self._follows[group.name, group.scope]

    # What arrives

    def _hear(self, notice: AnyNotice) -> None:
        match notice:
            case requests.Message(source, data):
                if self._mail is not None:
                    self._mail.put(Message(source, data))
            case requests.NotDelivered(destinations, why):
                if self._mail is not None:
                    self._mail.put(NotDelivered(destinations, why))
            case requests.Life(endpoint, alive, why):
                for stream in self._lives.get(endpoint, ()):
                    stream.put(Life(endpoint, alive, why))
            case requests.Gap(missed):
                if self._mail is not None:
                    self._mail.miss(missed)

    def _end(self, reason: RostraError | None) -> None:
        """The connection or this endpoint is gone, and with it everything that it followed."""
        self._copies.forget(self._number, reason)
        self._follows.clear()
        if self._mail is not None:
            self._mail.end(reason)
        for streams in self._lives.values():
            for stream in streams:
                stream.end(reason)

    # Asking

    async def _ask(self, request: AnyRequest, *, share: bool = False) -> Any:
        self._check_open()
        return await self._connection.ask(self._number, request, share=share)

    def _post(self, request: AnyRequest) -> "asyncio.Future[Any]":
        self._check_open()
        return self._connection.post(self._number, request)

    def _post_if_open(self, request: AnyRequest) -> None:
        if self.is_open:
            self._post(request)

    def _check_open(self) -> None:
        if self._connection.ended is not None:
            raise again(self._connection.ended)
        if self._closed:
            raise BadInput(f"{self.endpoint} is closed", fix="open a new endpoint")


@lru_cache(maxsize=1024)
def _question(group: str, scope: str | None, deadline: float | None) -> requests.Resolve:
    """Checked once; programs ask the same questions again and again."""
    if deadline is not None and not deadline > 0:
        raise BadInput(f"a deadline of {deadline} s", fix="use a positive number of seconds, or None to wait")
    parse_group_name(group)
    return requests.Resolve(group, None if scope is None else parse_scope(scope), deadline)


async def _in_time(asking: Coroutine[Any, Any, Any], deadline: float) -> Any:
    """The agent keeps deadlines; this is for when even its refusal does not come."""
    try:
        async with asyncio.timeout(deadline + DEADLINE_GRACE_S):
            return await asking
    except TimeoutError as late:
        if isinstance(late, RostraError):
            raise
        raise DeadlineExceeded(
            f"the agent did not answer within {deadline} s", fix="allow more time, or check the agent"
        ) from None


class Admin:
    """A connection to a server for administration: permanent groups, and what it knows."""

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection

    @property
    def path(self) -> Domain:
        """Whom we reached: the domain that is served here, or the agent's host."""
        return self._connection.path

    async def register(self, group: str, scope: str | None = None) -> None:
        """Make this a permanent group of the server's own domain (C-012)."""
        await self._connection.ask(NO_ENDPOINT, requests.Register(make_group(group, scope or self.path)))

    async def unregister(self, group: str, scope: str | None = None) -> None:
        await self._connection.ask(NO_ENDPOINT, requests.Unregister(make_group(group, scope or self.path)))

    async def inspect(self, *, after: int = 0, wait_s: float = 0.0) -> dict[str, Any]:
        """What the server knows, and what it recorded after that number: at once, or as soon as there is
        something, or after `wait_s`."""
        return await _inspect(self._connection, after, wait_s)

    async def close(self) -> None:
        await self._connection.close()


def connect_admin(
    address: str | None = None, *, domain: str | None = None, timeout_s: float = CONNECT_TIMEOUT_S
) -> Entering[Admin]:
    """Connect to the server of a domain (or to an agent). `domain` chooses among several at one address."""
    where = find_agent() if address is None else parse_address(address)
    to = Domain("") if domain is None else parse_scope(domain)

    async def enter() -> Admin:
        connection = AgentConnection(where, f"admin pid {os.getpid()}")
        await connection.open(timeout_s, to)
        return Admin(connection)

    return Entering(enter)


async def _inspect(connection: AgentConnection, after: int = 0, wait_s: float = 0.0) -> dict[str, Any]:
    inspected = await connection.ask(NO_ENDPOINT, requests.Inspect(after, wait_s))
    document: dict[str, Any] = msgspec.json.decode(inspected.document)
    return document
