"""A group of agreed membership with ``delivery="fifo"``, as one endpoint uses it: views and messages in one
sequence.

    agent ── MemberView, MemberBlocked ──▶ ┌───────────────┐
          ── Delivered, Gap ─────────────▶ │ unread items  │ ──▶ `View`, `Blocked`, `Message`, `Gap`, in order
                                           └───────────────┘
    send ──▶ is our side blocked? ── no ──▶ agent
                  └─ yes: wait for the next `View`, or until the deadline: `GroupBlocked`
"""

import contextlib
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, TypeVar

from rostra.client.agreed import AgreedMembership, ShowsViews, put_out
from rostra.client.conversation import Conversation
from rostra.client.session import within
from rostra.client.streams import Items, again
from rostra.errors import (
    DeadlineExceeded,
    GroupBlocked,
    NotMember,
    RostraError,
    Unreachable,
)
from rostra.groups.items import AgreedItem, GroupItem
from rostra.names import Group
from rostra.protocols.agreed.calls import GroupTerminated
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed, MemberBlocked, MemberView
from rostra.protocols.fifo import events as told

if TYPE_CHECKING:
    from rostra.client.arenas import Loan
    from rostra.client.me import Me

T = TypeVar("T")


class AgreedConversation(ShowsViews):
    """This endpoint is in a group with ``membership="agreed"`` and ``delivery="fifo"``, until `leave` or the
    end of its ``async with``.

    Iterate over it for what happens, in order: `View` and `Blocked`, and between them `Message` and `Gap`.
    There is one stream, for one reader. A message comes after the view in which it was sent, never before it;
    it may come after a later one too.
    """

    __slots__ = ("_conversation", "_views", "group", "join", "me")

    def __init__(self, me: "Me", join: JoinAgreed) -> None:
        self.me = me
        self.group: Group = join.group
        self.join = join
        self._conversation = Conversation(me, join.group, role=join.role, slow=join.slow, meta=join.meta)
        self._views = _Views(me, join, self._conversation)

    def __repr__(self) -> str:
        left = "" if self._conversation._left is None else ", left"
        return f"<{self.group}, agreed, {self._conversation.role.value}{left}>"

    @property
    def unconfirmed(self) -> int:
        """When we left: how many of our messages some member may not have."""
        return self._conversation.unconfirmed

    # Speaking

    async def send(self, payload: bytes, *, deadline_s: float | None = None) -> None:
        """Say this to all members. Returns when the agent has it; waits while the group does not keep up, and
        while our side of a partition is blocked."""
        await self._in_time(deadline_s, self._send(payload))

    async def send_many(self, payloads: Iterable[bytes], *, deadline_s: float | None = None) -> int:
        """Say all of these, in order; how many they were. Much cheaper than one by one."""
        return await self._in_time(deadline_s, self._send_many(payloads))

    async def _send(self, payload: bytes) -> None:
        await self._until_living()
        await self._conversation.send(payload)

    async def _send_many(self, payloads: Iterable[bytes]) -> int:
        await self._until_living()
        return await self._conversation.send_many(payloads)

    async def _until_living(self) -> None:
        self._conversation._check_may_send()
        while self._views.view is None or self._views.blocked is not None:
            await self._views._until_ready()
            self._conversation._check_may_send()

    async def _in_time(self, deadline_s: float | None, doing: Coroutine[None, None, T]) -> T:
        try:
            return await within(deadline_s, doing, f"{self.group} did not take it")
        except DeadlineExceeded:
            if self.blocked is None:
                raise
            raise GroupBlocked(
                f"{self.group} is blocked at {self.me.endpoint}: {self.blocked.because}",
                fix="wait for the next View, or allow more time",
            ) from None

    # Listening

    def __aiter__(self) -> Items[GroupItem]:
        return self.items()

    def items(self, *, batch: int = 0) -> Items[GroupItem]:
        """What happens, in order. With `batch`, messages that came together are handed out together, up to so
        many of one sender at once, as `Messages`."""
        return self._conversation.items(batch=batch)

    # Leaving

    async def leave(self, *, deadline_s: float | None = None) -> None:
        """Leave the group. The others agree on a view without us; what we sent before still reaches them.
        Returns when they have it, or after a while in which one of them did not confirm it."""
        conversation = self._conversation
        if conversation._left is not None:
            raise again(conversation._left)
        conversation._flush()
        conversation._left = NotMember(
            f"{self.me.endpoint} has left {self.group} already", fix="join it again"
        )
        conversation._wake()
        conversation._wake_senders()
        await within(deadline_s, self._part(), f"leaving {self.group} was not confirmed")

    async def _part(self) -> None:
        me, group = self.me, self.group
        if not me.is_open or me._agreed.get(group) is not self:
            me._forget_agreed(self)
            return
        parted = self._conversation.parted()
        try:
            await me._connection.settle(me._post(LeaveAgreed(group)))
            await parted
        finally:
            me._forget_agreed(self)
            self.end(None)

    async def close(self) -> None:
        """Leave, if we have not; to be gone already is as good."""
        if self._conversation._left is None and self._conversation._ended is None and not self.me.is_closed:
            with contextlib.suppress(Unreachable, NotMember):
                await self.leave()

    # From the endpoint

    def hear(self, item: "told.Item | Loan") -> None:
        """The agent sent this item of the group."""
        match item:
            case MemberView() | MemberBlocked():
                self._views.hear(item)
            case GroupTerminated() | told.Excluded():
                put_out(self, item)
            case _:
                self._conversation.hear(item)

    def lose(self) -> None:
        """The agent is gone, and with it everything that it had not emitted yet: as far as the group knows,
        we have crashed."""
        self._conversation.lose()
        self._views.lose()

    def end(self, reason: RostraError | None) -> None:
        """For good."""
        self._conversation.end(reason)
        self._views.end(reason)


class _Views(AgreedMembership):
    """Views and standstills, which are put where the messages are."""

    __slots__ = ("_conversation",)

    def __init__(self, me: "Me", join: JoinAgreed, conversation: Conversation) -> None:
        super().__init__(me, join)
        self._conversation = conversation

    def _put(self, item: AgreedItem) -> None:
        self._conversation._unread.append(item)
        self._conversation._wake()
