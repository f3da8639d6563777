"""Bounded queues between the connection and the program's loops.

The library reads its connection whether or not the program reads its streams, so that one slow loop does not
delay the others. Items that a slow reader misses are counted, and the next item it gets is a `Gap`.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from rostra.errors import BadInput, NotMember, RostraError, Unreachable
from rostra.names import Group

if TYPE_CHECKING:
    from rostra.client.me import Me

T = TypeVar("T")

STREAM_LENGTH_MAX: Final = 10_000
"""Items kept for a reader that is late. Larger: more memory before a `Gap`; the copy itself is never late."""

BATCH_MAX: Final = 64

_read: Final[set["Stream[Any]"]] = set()
"""Those that a loop waits for. The feeder of a stream refers to it weakly, so that dropping it is enough to
end it; a task that waits must not be dropped with it."""


class Stream(Generic[T]):
    """An asynchronous iterator that is fed from the side, and ends with a reason.

    `catch_up` makes what a reader gets in place of the items it missed. It is asked when the reader is back,
    so that it says what is true then; it gives nothing as long as that is not known yet.
    """

    __slots__ = ("__weakref__", "_catch_up", "_ended", "_items", "_missed", "_reader", "_reason")

    def __init__(self, catch_up: Callable[[int], Iterable[T]]) -> None:
        self._items: deque[T] = deque()
        self._missed = 0
        self._catch_up = catch_up
        self._reader: asyncio.Future[None] | None = None
        self._ended = False
        self._reason: RostraError | None = None

    # For those who feed it

    def put(self, item: T) -> None:
        if self._ended:
            return
        if self._missed or len(self._items) >= STREAM_LENGTH_MAX:
            # Once behind, everything is missed until the reader is back: what it gets has no hole but the
            # `Gap`.
            self._missed += 1
        else:
            self._items.append(item)
        self._wake()

    def miss(self, count: int) -> None:
        """This many items will not come. Items that are queued here came before them and still count."""
        if not self._ended:
            self._missed += count
            self._wake()

    @property
    def is_behind(self) -> bool:
        return self._missed > 0

    def look_again(self) -> None:
        """What `catch_up` lacked may be known now."""
        self._wake()

    def end(self, reason: RostraError | None = None) -> None:
        """No more items: iteration stops after those that are left, or raises this reason then."""
        if not self._ended:
            self._ended, self._reason = True, reason
            self._wake()

    # For the reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._items:
            await self._some()
        return self._items.popleft()

    async def take(self, most: int = BATCH_MAX) -> list[T]:
        """All items that are there, up to so many; waits for the first."""
        if not self._items:
            await self._some()
        items = self._items
        if len(items) > most:
            return [items.popleft() for _ in range(most)]
        batch = list(items)
        items.clear()
        return batch

    async def batches(self, most: int = BATCH_MAX) -> AsyncIterator[list[T]]:
        """The same, again and again: cheaper than one by one when many come."""
        if most < 1:
            raise BadInput(f"batches of {most}", fix="read at least 1 at a time")
        while True:
            try:
                batch = await self.take(most)
            except StopAsyncIteration:
                return
            yield batch

    async def _some(self) -> None:
        """Until there is an item."""
        while not self._items:
            if self._missed and not self._ended and (instead := list(self._catch_up(self._missed))):
                self._missed = 0
                self._items.extend(instead)
                return
            if self._ended:
                raise StopAsyncIteration if self._reason is None else again(self._reason)
            if self._reader is not None:
                raise RuntimeError(
                    "two tasks read one stream; give each its own, by iterating over the group again"
                )
            self._reader = asyncio.get_running_loop().create_future()
            _read.add(self)
            try:
                await self._reader
            finally:
                self._reader = None
                _read.discard(self)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Items(Generic[T]):
    """What happens in a group, one item after the other. A reader that stops, or is cancelled, misses
    nothing: the next one goes on where it was."""

    __slots__ = ("_batch", "_next")

    def __init__(self, following: Callable[[int], Awaitable[T]], batch: int) -> None:
        self._next, self._batch = following, batch

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[T]:
        return self._next(self._batch)


class OneReader(ABC):
    """The queue of a group that one task reads, until this endpoint is out of the group."""

    __slots__ = ("_ended", "_left", "_reader", "_stopped")
    group: Group
    me: "Me"
    _ready: asyncio.Event

    def __init__(self) -> None:
        self._left: RostraError | None = None  # we said so
        self._ended: RostraError | None = None  # or it was done to us
        self._reader: asyncio.Future[None] | None = None
        self._stopped = False  # the agent was asked to wait

    @abstractmethod
    async def leave(self, *, deadline_s: float | None = None) -> None: ...

    async def close(self) -> None:
        """Leave, unless we have left already."""
        if self._left is None and self._ended is None and not self.me.is_closed:
            with contextlib.suppress(Unreachable, NotMember):
                await self.leave()

    async def _until_ready(self) -> None:
        await self._ready.wait()
        if self._ended is not None:
            raise again(self._ended)

    def _say_reading(self, more: bool) -> None:
        self._stopped = not more
        self.me._say_reading(self.group, more)

    async def _until_some(self, unread: deque[Any], me: "Me") -> None:
        """Until there is something to read; ends the iteration if there never will be."""
        while not unread:
            if self._ended is not None:
                raise again(self._ended)
            if self._left is not None or me.is_closed:
                raise StopAsyncIteration
            if self._reader is not None:
                raise RuntimeError("two tasks read one group; let one read, and hand on what it got")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def again(error: RostraError) -> RostraError:
    """A fresh copy for each who hears of it: one exception raised twice would collect both tracebacks."""
    return type(error)(error.what, fix=error.fix)
