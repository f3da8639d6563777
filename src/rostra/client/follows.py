"""One endpoint's following of one group: the list it knows, and the readers of its changes.

Members and watchers receive changes in different ways (`copies`, `watched`). What the program sees is the
same for both, and is here.

    begin ──▶ known ── lose ──▶ away ── begin ──▶ known ── end ──▶ ended, with a reason
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from rostra.client.streams import Stream, again
from rostra.errors import NotMember, RostraError
from rostra.groups.items import Change, Gap, Item, Resolution, View
from rostra.groups.members import Members
from rostra.names import Group


class FollowedGroup:
    __slots__ = ("_first_list", "_streams", "ended", "group", "known", "reasons")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.known = False  # the list that its own join or watch asked for has come
        self.ended: RostraError | None = None
        self.reasons = 0  # how many joins and watches share it
        self._streams: list[ref[Stream[Item]]] = []
        self._first_list: asyncio.Future[None] | None = None

    @property
    def members(self) -> Members:
        """As far as is known now; while the agent is lost, this endpoint alone (C-143)."""
        raise NotImplementedError

    @property
    def resolution(self) -> Resolution | None:
        """The copy as an answer; none while it is not known, or known to be behind."""
        raise NotImplementedError

    def view(self) -> View | None:
        """What a reader that begins now gets first; none while nothing is known."""
        raise NotImplementedError

    @property
    def has_readers(self) -> bool:
        return bool(self._streams)

    async def ready(self) -> None:
        """Until the first list has come."""
        while not self.known:
            if self.ended is not None:
                raise again(self.ended)
            if self._first_list is None:
                self._first_list = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._first_list)

    def stream(self) -> Stream[Item]:
        """For a reader that begins here."""
        stream = self.new_stream()
        if self.ended is not None:
            stream.end(self.ended)
        elif (view := self.view()) is not None:
            stream.put(view)
        return stream

    def new_stream(self) -> Stream[Item]:
        stream: Stream[Item] = Stream(self.catch_up)
        # A loop that stops iterating just drops the stream.
        self._streams.append(ref(stream, self._streams.remove))
        return stream

    def tell(self, news: Iterable[Change]) -> None:
        if self._streams:
            for stream in self.readers():
                for change in news:
                    stream.put(change)

    def readers(self) -> list[Stream[Item]]:
        return [stream for each in self._streams if (stream := each()) is not None]

    def catch_up(self, missed: int) -> tuple[Change, ...]:
        """In place of what a reader missed."""
        view = self.view()
        return () if view is None else (Gap(missed), view)

    def is_ready(self) -> None:
        """The list is here: calls that wait for it go on."""
        self.known = True
        self._wake()

    def end(self, reason: RostraError | None) -> None:
        self.ended = reason or NotMember(
            f"{self.group} is not followed any more", fix="join or watch it again"
        )
        self.known = False
        for stream in self.readers():
            stream.end(reason)
        self._wake()

    def _wake(self) -> None:
        if self._first_list is not None:
            self._first_list.set_result(None)
            self._first_list = None


F = TypeVar("F", bound=FollowedGroup)


class GroupCopy(Protocol[F]):
    """A copy of one group."""

    @property
    def followers(self) -> dict[int, F]:
        """The followers of the group in this program, by the endpoint's number."""


C = TypeVar("C", bound=GroupCopy[Any])


class Follows(Generic[C, F]):
    """All groups that this program follows in one way, through one agent: a copy of each, for as long as
    there is a reason to follow it."""

    def __init__(self) -> None:
        self._copies: dict[Group, C] = {}

    def _open(self, group: Group) -> C:
        """The first endpoint follows this group."""
        raise NotImplementedError

    def _close(self, group: Group) -> None:
        """The last endpoint no longer follows it."""

    def _new(self, group: Group, copy: C) -> F:
        raise NotImplementedError

    def follow(self, group: Group, number: int) -> F:
        """This endpoint follows the group for one more reason, from the request that is sent now."""
        copy = self._copies.get(group)
        if copy is None:
            copy = self._copies[group] = self._open(group)
        follow: F | None = copy.followers.get(number)
        if follow is None:
            follow = copy.followers[number] = self._new(group, copy)
        follow.reasons += 1
        return follow

    def unfollow(self, group: Group, number: int, reason: RostraError | None = None) -> bool:
        """One reason less; with the last one, silence (C-052). Was it the last?"""
        copy = self._copies.get(group)
        if copy is None or number not in copy.followers:
            return False
        follow: F = copy.followers[number]
        follow.reasons -= 1
        if follow.reasons == 0:
            self._drop(group, copy, number, reason)
        return follow.reasons == 0

    def forget(self, number: int, reason: RostraError | None) -> None:
        """The endpoint is gone."""
        for group, copy in list(self._copies.items()):
            if number in copy.followers:
                self._drop(group, copy, number, reason)

    def renumber(self, old: int, new: int) -> None:
        """The endpoint is back, as a new incarnation."""
        for copy in self._copies.values():
            if old in copy.followers:
                copy.followers[new] = copy.followers.pop(old)

    def end(self, reason: RostraError) -> None:
        for copy in self._copies.values():
            for follow in copy.followers.values():
                follow.end(reason)
        self._copies.clear()

    def _drop(self, group: Group, copy: C, number: int, reason: RostraError | None) -> None:
        copy.followers.pop(number).end(reason)
        if not copy.followers:
            del self._copies[group]
            self._close(group)
