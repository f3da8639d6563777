"""A group as one endpoint sees it: joined, or watched from outside.

Both read the program's own copy, without a round trip, and report its changes.
"""

import contextlib
import secrets
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar, cast

from rostra.client import choices
from rostra.client.copies import MemberFollow
from rostra.client.follows import FollowedGroup
from rostra.client.session import within
from rostra.client.streams import BATCH_MAX, Stream, again
from rostra.client.watched import WatchFollow
from rostra.errors import BadInput, NotAllowed, NotMember, RostraError, Unreachable
from rostra.groups.items import Change, Item
from rostra.groups.members import Members
from rostra.names import OPEN, Group
from rostra.protocols.access.config import LUCK_BYTES
from rostra.protocols.access.requests import JoinRestricted, JoinUnique
from rostra.protocols.led.requests import JoinLed, LeaveLed
from rostra.protocols.relaxed import requests
from rostra.protocols.scopes.requests import JoinOpen, LeaveOpen

if TYPE_CHECKING:
    from rostra.client.me import Me


class Followed:
    """What `Membership` and `Watch` share: reading the copy."""

    __slots__ = ("group", "me")

    def __init__(self, me: "Me", group: Group) -> None:
        self.me = me
        self.group = group

    @property
    def _follow(self) -> FollowedGroup | None:
        raise NotImplementedError

    @property
    def members(self) -> Members:
        """Who is in the group, from this program's own copy: sorted, and the same tuple until it changes.

        While the agent is lost, this endpoint is the only known member.
        """
        return self._followed().members

    @property
    def is_known(self) -> bool:
        """Has the first list come, and is the agent there to keep it true?"""
        return self._follow is not None and self._follow.known

    async def ready(self, *, deadline_s: float | None = None) -> Self:
        """Wait for the first list."""
        await within(deadline_s, self._followed().ready(), f"who is in {self.group} was not known")
        return self

    def _followed(self) -> FollowedGroup:
        follow = self._follow
        if follow is None:
            raise BadInput(f"{self.group} is not followed", fix="join it with online=True, or watch it")
        if follow.ended is not None:
            raise again(follow.ended)
        return follow


class Membership(Followed):
    """This endpoint is in the group, until `leave` or the end of its ``async with``.

    Iterate over it for what happens, beginning with a `View`. Each loop has a stream of its own. If the
    agent is lost, a loop hears `View` of this endpoint alone; when it is back, `Gap` and a new `View`.
    """

    __slots__ = (
        "_credential",
        "_left",
        "_online",
        "_unique",
        "closed",
        "led",
        "meta",
        "permanent",
        "unlisted",
    )

    def __init__(
        self,
        me: "Me",
        group: Group,
        *,
        meta: bytes = b"",
        permanent: bool = False,
        led: bool = False,
        credential: bytes = b"",
        unique: bool = False,
    ) -> None:
        super().__init__(me, group)
        self.meta = meta
        self.permanent = permanent
        self._credential = credential
        self._unique = unique
        self.closed = False  # of a led group: it hears sequences of members only
        self.led = led  # with ``membership="led"``: the copy is the leader's list
        self.unlisted = False  # a call waits for the leader's list to have us, or waited in vain
        self._online: MemberFollow | None = None
        self._left: RostraError | None = None

    @property
    def _follow(self) -> MemberFollow | None:
        return self._online

    def __repr__(self) -> str:
        kind = "led" if self.led else "relaxed"
        return f"<{self.group}, {kind}{'' if self._left is None else ', left'}>"

    @property
    def ended(self) -> RostraError | None:
        return self._left

    @property
    def asks_as(self) -> tuple[object, ...]:
        """What it was joined with."""
        return self.meta, self.closed, self._credential

    @property
    def is_online(self) -> bool:
        return self._online is not None

    def __aiter__(self) -> Stream[Item]:
        return self._followed().stream()

    def batches(self, most: int = BATCH_MAX) -> AsyncIterator[list[Item]]:
        """The same, as many at once as there are, up to `most`: for groups where much happens."""
        return self._followed().stream().batches(most)

    def _asks_in(self, online: bool) -> requests.Join | JoinLed | JoinRestricted | JoinUnique | JoinOpen:
        if self.group.scope == OPEN:
            return JoinOpen(self.group, online, self.meta)
        if self._unique:
            return JoinUnique(self.group, online, self.meta)
        if "!" in self.group.name and not self.permanent:
            luck = secrets.token_bytes(LUCK_BYTES)
            return JoinRestricted(
                self.group, self._credential, self.led, online, self.meta, self.closed, luck
            )
        if self.led:
            return JoinLed(self.group, online=online, meta=self.meta, closed=self.closed)
        return requests.Join(self.group, online, self.permanent, self.meta)

    def _asks_out(self, meta: bytes = b"") -> requests.Leave | LeaveLed | LeaveOpen:
        if self.group.scope == OPEN:
            return LeaveOpen(self.group)
        return LeaveLed(self.group) if self.led else requests.Leave(self.group, meta)

    async def send(self, data: bytes) -> NoReturn:
        """Say something to the group: that takes a delivery, and this one has none."""
        raise NotAllowed(
            f"{self.group} was joined without delivery, so nothing can be sent to it",
            fix='messages need a group whose members all joined with delivery="fifo": choose another name\n'
            "to reach single members through the servers: me.send_to(endpoints, data)",
        )

    async def leave(self, meta: bytes = b"", *, deadline_s: float | None = None) -> None:
        """Leave the group; `meta` goes to the others as our last words."""
        choices.check_octets(meta=meta)
        if self._left is not None:
            raise again(self._left)
        self._left = NotMember(f"{self.me.endpoint} has left {self.group} already", fix="join it again")
        await within(deadline_s, self.me._leave(self, meta), f"leaving {self.group} was not confirmed")

    async def set_online(self, online: bool, *, deadline_s: float | None = None) -> None:
        """Hear of changes, or only answer to others that we are here (Congress's SET_FLAG)."""
        if self.led or self.group.scope == OPEN:
            kind = "led" if self.led else "open"
            raise NotAllowed(
                f"{self.group} is {kind}: who is in it is told of changes or not from the beginning",
                fix="leave it, and join it again with the other `online`; or watch it",
            )
        if online != self.is_online:
            change = self.me._set_online(self, online)
            await within(deadline_s, change, f"going {'on' if online else 'off'}line was not confirmed")

    async def close(self) -> None:
        """Leave, if we have not; to be gone already is as good."""
        if self._left is None and not self.me.is_closed:
            with contextlib.suppress(Unreachable):
                await self.leave()

    def _refused(self, reason: RostraError) -> None:
        """After a reconnect the group did not let us in again."""
        self._left = reason


class Watch(Followed):
    """This endpoint follows the group from outside. It is in no list.

    Iterate over it for what happens: a `View`, then numbered changes. Each loop has a stream of its own. If
    the agent is lost, a loop hears nothing; when it is back, the changes since, or `Gap` and a new `View`.
    """

    __slots__ = ("_ended", "_first", "_watched")

    def __init__(self, me: "Me", group: Group, follow: WatchFollow, first: Stream[Item] | None) -> None:
        super().__init__(me, group)
        self._watched = follow
        self._first = first  # of a watch that was resumed: what came since is in here already
        self._ended = False

    def __repr__(self) -> str:
        return f"<watch of {self.group}{', ended' if self._ended else ''}>"

    @property
    def _follow(self) -> WatchFollow:
        return self._watched

    def __aiter__(self) -> Stream[Change]:
        return self._stream()

    def batches(self, most: int = BATCH_MAX) -> AsyncIterator[list[Change]]:
        """The same, as many at once as there are, up to `most`: for groups where much happens."""
        return self._stream().batches(most)

    def _stream(self) -> Stream[Change]:
        stream, self._first = self._first, None
        # Only members are sent messages.
        return cast(Stream[Change], self._followed().stream() if stream is None else stream)

    async def close(self) -> None:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(Unreachable):
                await self.me._unwatch(self.group)


class Closes(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closes)


class Entering(Generic[C]):
    """Something that must be asked for: ``async with x as it`` closes it in the end, ``it = await x`` leaves
    that to you."""

    __slots__ = ("_enter", "_entered", "_is_begun")

    def __init__(self, enter: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._enter = enter
        self._entered: C | None = None
        self._is_begun = False

    def __del__(self) -> None:
        """As for a coroutine: what was called and not awaited did nothing, and that is never meant."""
        if not self._is_begun:
            called = self._enter.__qualname__.partition(".<locals>")[0].lstrip("_")
            what = f"{called.rpartition('.')[2]}(...) did nothing: write `async with`, or `await`, before it"
            warnings.warn(what, RuntimeWarning, stacklevel=2, source=self)

    def __await__(self) -> Generator[Any, Any, C]:
        self._is_begun = True
        return self._enter().__await__()

    async def __aenter__(self) -> C:
        self._is_begun = True
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

    async def batches(self, most: int = BATCH_MAX) -> AsyncIterator[list[Change]]:
        async with self as watch:
            async for changes in watch.batches(most):
                yield changes

    async def _changes(self) -> AsyncIterator[Change]:
        async with self as watch:
            async for change in watch:
                yield change
