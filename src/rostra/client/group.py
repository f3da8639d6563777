"""A group as one endpoint sees it: joined, or watched from outside.

Both are a **follow**: a copy of the membership that the agent keeps up to date, and any number of streams
that report how it changes. Reading the copy costs a look-up.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet

from rostra.client.changes import Cause, Change, Gap, Joined, Left, Members, Only, Resolution, View, Without
from rostra.client.connection import again
from rostra.client.streams import Stream
from rostra.errors import BadInput, NotMember, RostraError, Unreachable
from rostra.names import Endpoint, Group
from rostra.protocols.resolve import requests
from rostra.protocols.resolve.view import GroupView, ViewChanged

if TYPE_CHECKING:
    from rostra.client.me import Me


class Follow:
    """The copy of one group that one endpoint follows, for whatever reasons."""

    __slots__ = ("_isolated", "_ready", "_resolution", "_streams", "ended", "group", "view")

    def __init__(self, view: GroupView) -> None:
        self.group = view.group
        self.view = view
        self.ended: RostraError | None = None
        self._isolated = False
        self._resolution: Resolution | None = None
        self._streams: WeakSet[Stream[Change]] = WeakSet()
        self._ready: asyncio.Future[None] | None = None

    @property
    def resolution(self) -> Resolution | None:
        """The copy as an answer; none while it is not known, or known to be behind."""
        if self._resolution is None and self.view.known and not self.view.behind and self.ended is None:
            self._resolution = Resolution(self.view.members, self._isolated, from_copy=True)
        return self._resolution

    async def ready(self) -> None:
        """Until the copy is known."""
        while not self.view.known:
            if self.ended is not None:
                raise again(self.ended)
            if self._ready is None:
                self._ready = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ready)

    def stream(self) -> Stream[Change]:
        stream: Stream[Change] = Stream(self._catch_up)
        if self.ended is not None:
            stream.end(self.ended)
        elif self.view.known:
            stream.put(View(self.view.members, self._isolated))
        self._streams.add(stream)
        return stream

    def changed(self, change: ViewChanged) -> None:
        self._resolution = None
        if isinstance(change.why, requests.Absolute):
            self._isolated = change.why.isolated
        elif isinstance(change.why, requests.Joined):
            self._isolated = False
        if self._ready is not None:
            self._ready.set_result(None)
            self._ready = None
        if self._streams:
            for news in _as_changes(change, self._isolated):
                for stream in self._streams:
                    stream.put(news)

    def fell_behind(self, missed: int) -> None:
        self._resolution = None
        for stream in self._streams:
            stream.miss(missed)

    def caught_up(self, isolated: bool) -> None:
        """The list that mends a gap is here: whoever missed something may see it."""
        self._isolated = isolated
        self._resolution = None
        for stream in self._streams:
            stream.look_again()

    def end(self, reason: RostraError | None) -> None:
        self.ended = reason or NotMember(
            f"{self.group} is not followed any more", fix="join or watch it again"
        )
        self._resolution = None
        for stream in self._streams:
            stream.end(reason)
        if self._ready is not None:
            self._ready.set_result(None)
            self._ready = None

    def _catch_up(self, missed: int) -> tuple[Change, ...]:
        if self.view.behind or not self.view.known:
            return ()
        return Gap(missed), View(self.view.members, self._isolated)


def _as_changes(change: ViewChanged, isolated: bool) -> list[Change]:
    """A difference in the words of the notice that made it."""
    left: tuple[Endpoint, ...] = tuple([member.endpoint for member in change.left])
    match change.why:
        case requests.Absolute():
            # The first list, or one that mends what was lost: not a change that can be told step by step.
            return (
                [View(change.joined, isolated)]
                if change.first
                else _difference(left, change.joined, Cause.MERGE)
            )
        case requests.Joined(cause=cause):
            return _difference(left, change.joined, cause)
        case requests.Left(cause=cause, meta=meta):
            return [Left(left, cause, meta)]
        case requests.Without(domain, because):
            return [Without(domain, left, because)]
        case requests.Only(domain, because):
            return [Only(domain, left, because)]


def _difference(left: tuple[Endpoint, ...], joined: Members, cause: Cause) -> list[Change]:
    changes: list[Change] = [Left(left, Cause.MERGE)] if left else []
    return [*changes, Joined(joined, cause)] if joined else changes


class Followed:
    """What `Membership` and `Watch` share: reading the copy, and iterating over its changes."""

    __slots__ = ("_follow", "group", "me")

    def __init__(self, me: "Me", group: Group) -> None:
        self.me = me
        self.group = group
        self._follow: Follow | None = None

    @property
    def members(self) -> Members:
        """Who is in the group, from this program's own copy: sorted, and the same tuple until it changes."""
        return self._followed().view.members

    @property
    def is_known(self) -> bool:
        """Has the first list come?"""
        return self._follow is not None and self._follow.view.known

    async def ready(self) -> Self:
        """Wait for the first list."""
        await self._followed().ready()
        return self

    def __aiter__(self) -> Stream[Change]:
        """Changes from now on, beginning with a `View`. Each loop over a group has its own stream."""
        return self._followed().stream()

    def _followed(self) -> Follow:
        follow = self._follow
        if follow is None:
            raise BadInput(f"{self.group} is not followed", fix="join it with online=True, or watch it")
        if follow.ended is not None:
            raise again(follow.ended)
        return follow


class Membership(Followed):
    """This endpoint is in the group, until `leave` or the end of its ``async with``."""

    __slots__ = ("_left",)

    def __init__(self, me: "Me", group: Group) -> None:
        super().__init__(me, group)
        self._left = False

    async def leave(self, meta: bytes = b"") -> None:
        """Leave the group; `meta` goes to the others as our last words."""
        if self._left:
            raise NotMember(f"{self.me.endpoint} has left {self.group} already", fix="join it again")
        self._left = True
        await self.me._leave(self.group, meta, was_online=self._follow is not None)

    async def set_online(self, online: bool) -> None:
        """Hear of changes, or only answer to others that we are here (Congress's SET_FLAG)."""
        if online == (self._follow is not None):
            return
        await self.me._set_online(self, online)

    async def close(self) -> None:
        """Leave, if we have not; to be gone already is as good."""
        if not self._left and self.me.is_open:
            with contextlib.suppress(Unreachable):
                await self.leave()


class Watch(Followed):
    """This endpoint follows the group from outside. It is in nobody's list."""

    __slots__ = ("_ended",)

    def __init__(self, me: "Me", group: Group) -> None:
        super().__init__(me, group)
        self._ended = False

    async def close(self) -> None:
        if not self._ended and self.me.is_open:
            self._ended = True
            with contextlib.suppress(Unreachable):
                await self.me._unwatch(self.group)


class Closes(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closes)


class Entering(Generic[C]):
    """Something that must be asked for: ``async with x as it`` closes it in the end, ``it = await x`` leaves
    that to you."""

    __slots__ = ("_enter", "_entered")

    def __init__(self, enter: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._enter = enter
        self._entered: C | None = None

    def __await__(self) -> Generator[Any, Any, C]:
        return self._enter().__await__()

    async def __aenter__(self) -> C:
        self._entered = await self._enter()
        return self._entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            await self._entered.close()


class Watching(Entering[Watch]):
    """A watch that has not begun. Iterating over it begins it, and ends it with the loop."""

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[Change]:
        return self._changes()

    async def _changes(self) -> AsyncIterator[Change]:
        async with self as watch:
            async for change in watch:
                yield change
