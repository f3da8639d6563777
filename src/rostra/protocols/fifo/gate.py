"""Holding messages of an agreed group back until the view in which they were sent.

    View n ───────▶ ┌────────────┐ ──▶ View n, then what was sent in n and waited for it
    messages of a ─▶│ ReaderGate │ ──▶ at once, if the view in which they were sent is here,
    stream          └────────────┘     and the sender is in our view, or was in the one it sent in

A message carries the number of the view that its sender had (`Run.view`). A message of a later view than ours
waits, and so do all that its sender sent after it; other streams go on. A message of a view before our first
is dropped: we were not a member. After the view that removes a sender, messages that it sent before are still
delivered.

A sender that is in no view of ours may be on the other side of a partition. Its messages wait up to a bound;
beyond that they are dropped, and if the sender appears in a view later, the program gets a `Gap`.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from rostra.names import Endpoint
from rostra.protocols.fifo.events import Delivered, Gap, Item, Left, ViewGiven
from rostra.protocols.flow.messages import Stream

WAITING_BYTES_MAX: Final = 1 << 20
"""What may wait for views at one member, before no more is taken from its streams. Raising it: more memory,
fewer pauses after a view that comes late."""

GIVE_UP_S: Final = 20.0
"""How long that much may wait for a sender to be in a view. It is several times what a server is waited for
before the others agree on a view without it."""

GONE_MAX: Final = 1_024
"""Senders that left, of which it is remembered in which of our views they were last."""


class ReaderGate:
    """The gate of one member: items go in, and come out when they may be delivered."""

    __slots__ = (
        "_begun",
        "_gone",
        "_shut",
        "_waiting",
        "is_over",
        "is_stopped",
        "members",
        "since",
        "view",
        "waits",
    )

    def __init__(self) -> None:
        self.view = 0  # the number of the last view that it was given; 0: none
        self.since = 0  # of the first
        self.members: set[Endpoint] = set()  # of the last
        self.waits = 0  # bytes
        self.is_stopped = False  # its program does not read
        self.is_over = False  # it is leaving
        self._begun: set[Stream] = set()  # something of it was delivered
        self._gone: dict[Endpoint, int] = {}  # the last view that had it
        self._waiting: dict[Stream, deque[Item]] = {}
        self._shut: dict[Stream, tuple[int, int]] = {}  # dropped: the first and the last number

    @property
    def is_full(self) -> bool:
        return self.waits >= WAITING_BYTES_MAX

    def passes(self, item: Delivered | Gap | Left) -> Iterable[Item]:
        """The next item of a stream; returns what may be delivered now."""
        stream = item.stream if isinstance(item, Delivered) else item.endpoint
        if stream not in self._waiting and (shown := self._judge(stream, item)) is not None:
            return shown
        if isinstance(item, Delivered):
            self.waits += len(item.run.block)
        self._waiting.setdefault(stream, deque()).append(item)
        return ()

    def given(self, view: ViewGiven) -> Iterable[Item]:
        """The program was given this view; returns what may be delivered after it."""
        before = self.members
        if view.members is None:
            self.members = before.difference(view.gone).union(view.joined)
            gone: Iterable[Endpoint] = view.gone
        else:
            self.members = set(view.members)
            gone = before - self.members
        for endpoint in gone:
            self._gone.pop(endpoint, None)
            self._gone[endpoint] = self.view
        while len(self._gone) > GONE_MAX:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            self._begun.discard(oldest)
        self.view = view.number
        self.since = self.since or view.number
        released: list[Item] = []
        for stream in sorted(self._waiting):
            self._release(stream, released)
        return released

    def give_up(self) -> bool:
        """Drop what waits for senders that are in no view; was there any?"""
        strangers = [stream for stream in self._waiting if stream not in self.members]
        for stream in strangers:
            for item in self._waiting.pop(stream):
                if isinstance(item, Delivered):
                    self.waits -= len(item.run.block)
                    self._drop(stream, item)
        return bool(strangers)

    def _release(self, stream: Stream, released: list[Item]) -> None:
        waiting = self._waiting[stream]
        while waiting:
            shown = self._judge(stream, waiting[0])
            if shown is None:
                ended = self.view and stream not in self.members and isinstance(waiting[-1], Left)
                if not ended or any(_is_later(item, self.view) for item in waiting):
                    return
                shown = ()  # it came and went between two views of ours
            item = waiting.popleft()
            if isinstance(item, Delivered):
                self.waits -= len(item.run.block)
            released += shown
        del self._waiting[stream]

    def _judge(self, stream: Stream, item: Item) -> Iterable[Item] | None:
        """What to deliver of it; None: it has to wait."""
        inside = stream in self.members
        if isinstance(item, Delivered):
            sent_in = item.run.view
            if not self.view or sent_in > self.view:
                return None if inside or stream not in self._shut else self._drop(stream, item)
            if sent_in < self.since and stream not in self._begun:
                return ()
            if not inside and sent_in > self._gone.get(stream, -1):
                return None if stream not in self._shut else self._drop(stream, item)
            self._begun.add(stream)
            return (*self._missed(stream), item)
        if isinstance(item, Left):  # the end of its stream; a view shows that it left
            self._shut.pop(stream, None)
            if item.why != "disconnected":  # then it may come back, with a `Gap`
                self._begun.discard(stream)
            return ()
        return (*self._missed(stream), item) if stream in self._begun else ()

    def _drop(self, stream: Stream, item: Delivered) -> Iterable[Item]:
        first, _ = self._shut.get(stream, (item.run.first, 0))
        self._shut[stream] = first, item.run.end - 1
        return ()

    def _missed(self, stream: Stream) -> Iterable[Item]:
        if not self._shut or stream not in self._shut:
            return ()
        return (Gap(stream, *self._shut.pop(stream)),)


def _is_later(item: Item, view: int) -> bool:
    return isinstance(item, Delivered) and item.run.view > view
