"""A replicated object for programs of threads: commands block, attributes are read in the loop's thread."""

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rostra.client.choices import Membership
from rostra.client.commands import CHECKPOINT_EVERY
from rostra.client.ordered import StableName
from rostra.client.replicated import (
    SURVIVE,
    ReplicaItem,
    Replicated,
    ReplicatedCommand,
    Replicating,
    replicate,
)
from rostra.client.threads import Portal, ThreadStream

if TYPE_CHECKING:
    from rostra.client.me import Me

T = TypeVar("T")


class ReplicaOfThreads:
    """An object as threads use it: ``counter.add(1)`` returns the result, ``counter.total`` a copy of ours.

    Do not change what an attribute gave: other threads and the replica itself read it too."""

    __slots__ = ("_object", "_thread")

    def __init__(self, thread: Portal, object_: Replicated) -> None:
        self._thread, self._object = thread, object_

    def __getattr__(self, name: str) -> Any:
        object_, thread = self._object, self._thread
        if name in ("fresh", "changed") or isinstance(getattr(type(object_), name, None), ReplicatedCommand):

            def waits(*args: Any, **kwargs: Any) -> Any:
                return thread.call(_awaited(getattr(object_, name), args, kwargs))

            return waits
        if name == "items" and type(object_).items is Replicated.items and name not in vars(object_):

            def items(*, timeout_s: float | None = None) -> ThreadStream[ReplicaItem]:
                return ThreadStream(thread, thread.read(object_.items), timeout_s)

            return items
        return thread.read(lambda: getattr(object_, name))


async def _awaited(call: Callable[..., Coroutine[Any, Any, T]], args: Any, kwargs: Any) -> T:
    return await call(*args, **kwargs)


class ReplicatingInThreads:
    """For ``with``."""

    __slots__ = ("_inner", "_object", "_thread")

    def __init__(self, thread: Portal, inner: Replicating[Replicated], object_: Replicated) -> None:
        self._thread, self._inner, self._object = thread, inner, object_

    def __enter__(self) -> ReplicaOfThreads:
        self._thread.call(self._inner.__aenter__())
        return ReplicaOfThreads(self._thread, self._object)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.call(self._inner.__aexit__(kind, error, trace))


class _OfThreads(Protocol):
    _portal: Portal
    _inner: "Me"


def replicate_in_threads(
    me: _OfThreads,
    name: str,
    object_: Replicated,
    scope: str = "world",
    *,
    membership: Membership = "agreed",
    survive: str = SURVIVE,
    stable: StableName = "all",
    meta: bytes = b"",
    checkpoint_every: int = CHECKPOINT_EVERY,
    deadline_s: float | None = None,
) -> ReplicatingInThreads:
    """Keep an object the same at all members of a group: ``with me.replicate("ledger", Ledger()) as ledger``;
    see `rostra.Me.replicate`."""
    inner = replicate(
        *(me._inner, name, object_, scope),
        membership=membership,
        survive=survive,
        stable=stable,
        meta=meta,
        checkpoint_every=checkpoint_every,
        deadline_s=deadline_s,
    )
    return ReplicatingInThreads(me._portal, inner, object_)
