"""What programs of threads use (`rostra.sync`): a loop in a thread of its own, and the way into it.

your threads ── Portal.call ──▶ │ the loop's thread: the asynchronous client │
             ◀── results ────── │                                            │
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from rostra.client.session import within
from rostra.client.streams import BATCH_MAX, Stream
from rostra.errors import BadInput, Unreachable

T = TypeVar("T")
P = ParamSpec("P")


class Portal:
    """A loop in a thread of its own, and the way into it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="rostra", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def begin(self, connecting: Awaitable[T]) -> T:
        """The connection for which this thread was started; without it, the thread ends."""
        with ExitStack() as failed:
            failed.callback(self.close)
            connected = self.call(entered(connecting))
            failed.pop_all()
        return connected

    def call(self, doing: Coroutine[Any, Any, T]) -> T:
        """Do it there, wait for it here. Whatever interrupts the wait ends what is done."""
        if threading.current_thread() is self._thread:
            doing.close()
            raise BadInput(
                "a blocking call from the loop's own thread", fix="call it from another thread than on_state"
            )
        try:
            future = asyncio.run_coroutine_threadsafe(doing, self._loop)
        except RuntimeError:  # the loop has ended
            doing.close()
            raise _closed_already() from None
        try:
            return future.result()
        except CancelledError:
            raise _closed_already() from None
        except BaseException:
            future.cancel()
            raise

    def blocking(self, call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        """The same call, which waits for its answer."""

        def waits(*args: P.args, **options: P.kwargs) -> T:
            return self.call(call(*args, **options))

        return waits

    def read(self, look: Callable[[], T]) -> T:
        """What the loop's thread sees: it alone may look at what it changes."""
        return self.call(_seen(look))

    def close(self) -> None:
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """A method of the asynchronous API for its twin: the same, and it waits for its answer."""

    @wraps(method)
    def waits(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        portal: Portal = self._portal
        return portal.call(method(self._inner, *args, **options))

    return waits


def _closed_already() -> Unreachable:
    return Unreachable("the connection was closed by this program", fix="connect again")


class ThreadStream(Generic[T]):
    """Items one after the other; waiting for the next takes at most `timeout_s`, or as long as it takes."""

    def __init__(self, portal: Portal, stream: Stream[T], timeout_s: float | None = None) -> None:
        self._portal = portal
        self._stream = stream
        self._timeout_s = timeout_s
        self._here: deque[T] = deque()  # fetched, not read yet

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self.next(self._timeout_s)

    def next(self, timeout_s: float | None = None) -> T:
        """The next item. `DeadlineExceeded` if it does not come in time; StopIteration when there are no
        more; whatever ended the stream, if that was trouble."""
        if not self._here:
            self._here.extend(self._fetch(timeout_s, BATCH_MAX))
        return self._here.popleft()

    def batches(self, most: int = BATCH_MAX) -> Iterator[list[T]]:
        """All items that are there, up to so many at once."""
        if most < 1:
            raise BadInput(f"batches of {most}", fix="read at least 1 at a time")
        while True:
            if self._here:
                yield [self._here.popleft() for _ in range(min(most, len(self._here)))]
                continue
            try:
                batch = self._fetch(self._timeout_s, most)
            except StopIteration:
                return
            yield batch

    def _fetch(self, timeout_s: float | None, most: int) -> list[T]:
        batch = self._portal.call(within(timeout_s, _taken(self._stream, most), "nothing happened"))
        if batch is None:
            raise StopIteration
        return batch


class ThreadItems(Generic[T]):
    """What happens in a group that one thread reads, one item after the other. A timeout ends the wait, and
    neither the iteration nor the membership."""

    def __init__(
        self,
        portal: Portal,
        items: AsyncIterator[T],
        timeout_s: float | None = None,
        made: Callable[[T], T] | None = None,
    ) -> None:
        self._portal = portal
        self._items = items
        self._timeout_s = timeout_s
        self._made = made  # of an item that a thread cannot use as it is

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self.next(self._timeout_s)

    def next(self, timeout_s: float | None = None) -> T:
        """The next item. `DeadlineExceeded` if it does not come in time; StopIteration when there are no
        more; whatever ended the membership, if that was trouble."""
        item = self._portal.call(within(timeout_s, _one_of(self._items), "nothing happened"))
        if item is None:
            raise StopIteration
        return item if self._made is None else self._made(item)


class BlockingContext(ABC):
    """For ``with``."""

    def __repr__(self) -> str:
        inner = getattr(self, "_inner", None)
        return super().__repr__() if inner is None else repr(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...


def all_of(portal: Portal, generator: AsyncIterator[T]) -> Iterator[T]:
    """What it gives, until the loop over it ends; then it is closed."""
    try:
        while (item := portal.call(_one_of(generator))) is not None:
            yield item
    finally:
        with suppress(Unreachable):  # the connection was closed, and the generator with it
            portal.call(_closed(generator))


async def entered(entering: Awaitable[T]) -> T:
    return await entering


async def _seen(look: Callable[[], T]) -> T:
    return look()


async def _taken(stream: Stream[T], most: int) -> list[T] | None:
    try:
        return await stream.take(most)
    except StopAsyncIteration:
        return None


async def _one_of(items: AsyncIterator[T]) -> T | None:
    try:
        return await anext(items)
    except StopAsyncIteration:
        return None


async def _closed(generator: Any) -> None:
    await generator.aclose()
