"""A group of agreed membership that one endpoint is in: numbered, ranked views.

    agent ── MemberView ──────▶ the next `View`, whole, with what came of the one before
          ── MemberBlocked ───▶ `Blocked`: nothing is agreed here until the next `View`
          ── Excluded ────────▶ the end, with the reason

What a program does not read waits here, then at its agent; in the end the group goes on without it.
"""

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from rostra.client.session import within
from rostra.client.streams import again
from rostra.errors import Excluded, NotMember, RostraError, Unreachable
from rostra.groups.items import AgreedItem, AgreedViewId, Blocked, View
from rostra.groups.members import Member, Members
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.requests import JoinAgreed, MemberBlocked, MemberView
from rostra.protocols.fifo import events as told

if TYPE_CHECKING:
    from rostra.client.arenas import Loan
    from rostra.client.me import Me

UNREAD_MAX: Final = 1_000
"""Items that may wait here before the agent is told to wait; a quarter of it and it may go on."""


class AgreedMembership:
    """This endpoint is in a group with ``membership="agreed"``, until `leave` or the end of its
    ``async with``.

    Iterate over it for what happens: `View` and `Blocked`. There is one stream, for one reader. All members
    of one partition are given the same views in the same order, with the same ranks.
    """

    __slots__ = (
        *("_ended", "_left", "_reader", "_ready", "_stopped", "_unread"),
        *("blocked", "group", "join", "me", "view"),
    )

    def __init__(self, me: "Me", join: JoinAgreed) -> None:
        self.me = me
        self.group: Group = join.group
        self.join = join
        self.view: View | None = None  # the last one
        self.blocked: Blocked | None = None  # while our side must not go on
        self._left: RostraError | None = None  # we said so
        self._ended: RostraError | None = None  # or it was done to us
        self._ready = asyncio.Event()
        self._unread: deque[AgreedItem] = deque()
        self._stopped = False  # the agent was told to wait
        self._reader: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<{self.group}, agreed{'' if self._left is None else ', left'}>"

    # Who is there

    @property
    def members(self) -> Members:
        """Of the last view, in order of rank."""
        return () if self.view is None else self.view.members

    @property
    def rank(self) -> int | None:
        """Ours in the last view: 0 is the most senior member's."""
        return None if self.view is None else self.view.rank

    async def ready(self, *, deadline_s: float | None = None) -> "AgreedMembership":
        """Wait for the first view, or for the end of a standstill."""
        await within(deadline_s, self._until_ready(), f"no view of {self.group} was agreed")
        return self

    async def _until_ready(self) -> None:
        await self._ready.wait()
        if self._ended is not None:
            raise again(self._ended)

    # Listening

    def __aiter__(self) -> "AgreedMembership":
        return self

    async def __anext__(self) -> AgreedItem:
        while not self._unread:
            if self._ended is not None:
                raise again(self._ended)
            if self._left is not None or self.me.is_closed:
                raise StopAsyncIteration
            if self._reader is not None:
                raise RuntimeError("two tasks read one membership; let one read, and hand on what it got")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        item = self._unread.popleft()
        if self._stopped and len(self._unread) <= UNREAD_MAX // 4:
            self._stopped = False
            self.me._say_reading(self.group, True)
        return item

    def _put(self, item: AgreedItem) -> None:
        self._unread.append(item)
        if not self._stopped and len(self._unread) > UNREAD_MAX:
            self._stopped = True
            self.me._say_reading(self.group, False)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # Leaving

    async def leave(self, *, deadline_s: float | None = None) -> None:
        if self._left is not None:
            raise again(self._left)
        self._left = NotMember(f"{self.me.endpoint} has left {self.group} already", fix="join it again")
        self._wake()
        await within(deadline_s, self.me._leave_agreed(self), f"leaving {self.group} was not confirmed")

    async def close(self) -> None:
        """Leave, if we have not; to be gone already is as good."""
        if self._left is None and self._ended is None and not self.me.is_closed:
            with contextlib.suppress(Unreachable, NotMember):
                await self.leave()

    # From the endpoint

    def hear(self, item: "told.Item | Loan") -> None:
        """The agent says this about the group."""
        match item:
            case MemberView():
                self.view, self.blocked = self._view(item), None
                self._ready.set()
                self._put(self.view)
            case MemberBlocked(because):
                self._block(because)
            case told.Excluded(reason):
                self.end(
                    Excluded(
                        f"{self.group} went on without {self.me.endpoint}: {reason}", fix="join it again"
                    )
                )

    def _view(self, item: MemberView) -> View:
        before = {} if self.view is None else {each.endpoint: each for each in self.view.members}
        if item.members is not None:
            members = _members(item.members)
        else:
            gone = {*item.left, *item.failed}
            stayed = [each for each in before.values() if each.endpoint not in gone]
            members = (*stayed, *_members(item.joined))
        order = [each.endpoint for each in members]
        me = self.me.endpoint
        return View(
            members,
            number=item.number,
            rank=order.index(me) if me in order else None,
            id=AgreedViewId(item.number, item.revision, item.pid),
            joined=tuple([endpoint for endpoint, _ in item.joined]),
            left=item.left,
            failed=item.failed,
            together=tuple([each for each in order if each in before]),
            parts=item.parts,
            fence=item.fence,
        )

    def _block(self, because: str) -> None:
        self.blocked = Blocked(since=time.time(), because=because)
        self._ready.clear()
        self._put(self.blocked)

    def lose(self) -> None:
        """The agent is gone: as far as the group knows, we have crashed."""
        self._stopped = False
        self.view = None
        self._block("the agent is lost")

    def end(self, reason: RostraError | None) -> None:
        """For good."""
        if reason is None:
            self._left = self._left or NotMember(f"{self.group} was left", fix="join it again")
        elif self._ended is None:
            self._ended = reason
        self._ready.set()
        self._wake()


def _members(listed: tuple[tuple[Endpoint, bytes], ...]) -> Members:
    return tuple([Member(endpoint, (0, 0), meta) for endpoint, meta in listed])
