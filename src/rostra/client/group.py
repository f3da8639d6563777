"""A group as one endpoint sees it: joined, or watched from outside.

Both read the program's own copy (`rostra.client.copies`), which costs a look-up, and report how it changes.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from rostra.client.changes import Change, Members
from rostra.client.copies import Follow
from rostra.client.streams import Stream, again
from rostra.errors import BadInput, NotMember, Unreachable
from rostra.names import Group

if TYPE_CHECKING:
    from rostra.client.me import Me


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
        return self._followed().members

    @property
    def is_known(self) -> bool:
        """Has the first list come?"""
        return self._follow is not None and self._follow.known

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
