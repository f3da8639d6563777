"""A group with ``delivery="atomic"`` for programs of threads: one thread reads it, any may send."""

from collections.abc import Iterable
from typing import Any, Self

from msgspec.structs import replace

from rostra.client.calls import Want
from rostra.client.ordered import Ordered
from rostra.client.threads import BlockingContext, Portal, ThreadItems
from rostra.groups.items import AtomicItem, Blocked, CallAsked, Gone, Messages, Receipt, StateAsked, View
from rostra.groups.members import Members
from rostra.names import Endpoint, Group


class OrderedOfThreads(BlockingContext):
    """This endpoint is in a group with ``delivery="atomic"``, until `leave` or the end of its ``with``; see
    `rostra.Ordered`. `give`, `take` and `reconcile` are called in the loop's thread, while the reader waits
    for its next item; they must not wait for anything else."""

    def __init__(self, portal: Portal, inner: Ordered) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def group(self) -> Group:
        return self._inner.group

    @property
    def members(self) -> Members:
        return self._portal.read(lambda: self._inner.members)

    @property
    def view(self) -> View | None:
        return self._portal.read(lambda: self._inner.view)

    @property
    def blocked(self) -> Blocked | None:
        return self._portal.read(lambda: self._inner.blocked)

    @property
    def rank(self) -> int | None:
        return self._portal.read(lambda: self._inner.rank)

    def ready(self, *, deadline_s: float | None = None) -> Self:
        """Wait for the first view, or for the end of a standstill."""
        self._portal.call(self._inner.ready(deadline_s=deadline_s))
        return self

    def __iter__(self) -> ThreadItems[AtomicItem | Messages]:
        return self.items()

    def items(self, *, batch: int = 0, timeout_s: float | None = None) -> ThreadItems[AtomicItem | Messages]:
        """What happens, in order; `DeadlineExceeded` if nothing does for `timeout_s`. See
        `rostra.Ordered.items`. `answer` of a `CallAsked` and `give` of a `StateAsked` block."""
        return ThreadItems(self._portal, self._inner.items(batch=batch), timeout_s, self._made)

    def _made(self, item: AtomicItem | Messages) -> AtomicItem | Messages:
        blocking: Any = self._portal.blocking
        match item:
            case CallAsked():
                return replace(item, answer=blocking(item.answer))
            case StateAsked():
                return replace(item, give=blocking(item.give))
        return item

    def send(self, payload: bytes, *, deadline_s: float | None = None) -> Receipt:
        """Say this to all members, ourselves included. Returns when what the group promises of it holds."""
        return self._portal.call(self._inner.send(payload, deadline_s=deadline_s))

    def send_many(self, payloads: Iterable[bytes], *, deadline_s: float | None = None) -> list[Receipt]:
        """Say all of these, in order, without waiting for each. Much cheaper than one by one."""
        return self._portal.call(self._inner.send_many(payloads, deadline_s=deadline_s))

    def call(
        self, payload: bytes, want: Want = "all", *, deadline_s: float | None = None
    ) -> dict[Endpoint, bytes | Gone]:
        """Ask the other members, at one place in the order; see `rostra.Ordered.call`."""
        return self._portal.call(self._inner.call(payload, want, deadline_s=deadline_s))

    def forget(self, position: int) -> None:
        """With ``stable="disk"``: what is before this position need not be kept on our host any more."""
        self._portal.call(self._inner.forget(position))

    def leave(self, *, deadline_s: float | None = None) -> None:
        """Leave the group, after our messages that are on their way have their places."""
        self._portal.call(self._inner.leave(deadline_s=deadline_s))

    def close(self) -> None:
        if not self._inner.me.is_closed:
            self._portal.call(self._inner.close())
