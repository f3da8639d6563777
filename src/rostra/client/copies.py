"""A program's own copies of the groups that it follows.

One copy for each group, however many endpoints of the program follow it: the agent tells all of them the
same, in one stream, so every notice is decoded and applied once. What is each endpoint's own is since when it
follows (`Follow.known`: from its first list on) and who reads its changes.

    Told(endpoints, notice) ──▶ Copies ── once ──▶ GroupView ── changes ──▶ each Follow ──▶ its Streams

That one copy serves all rests on two things. A notice says what the agent knows, not what one endpoint does;
and an endpoint that follows, as its agent sees it, is told everything that any other is told, but for its own
joining and leaving. What was on its way to a follower that has left may still edit the copy, but nobody takes
it for true before a list of its own has come.
"""

import asyncio
from weakref import ref

from rostra.client.changes import Cause, Change, Gap, Joined, Left, Members, Only, Resolution, View, Without
from rostra.client.streams import Stream, again
from rostra.errors import NotMember, RostraError
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.resolve import requests
from rostra.protocols.resolve.requests import AnyNotice
from rostra.protocols.resolve.view import GroupView, Report, ViewChanged, Views


class Copy:
    """One group, and who of this program follows it."""

    __slots__ = ("_isolated", "_resolution", "followers", "view")

    def __init__(self, view: GroupView) -> None:
        self.view = view
        self.followers: dict[int, Follow] = {}  # by the endpoint's number
        self._isolated = False
        self._resolution: Resolution | None = None

    @property
    def isolated(self) -> bool:
        """Only this host's part: its cluster's server cannot be reached."""
        return self._isolated

    @isolated.setter
    def isolated(self, isolated: bool) -> None:
        self._isolated = isolated
        self._resolution = None

    def as_answer(self) -> Resolution:
        if self._resolution is None:
            self._resolution = Resolution(self.view.members, self._isolated, from_copy=True)
        return self._resolution

    def changed(self, change: ViewChanged, *, mended: bool) -> None:
        """Tell every follower that had its first list. With `mended`, those with a gap get a new one
        instead."""
        self._resolution = None
        news: list[Change] | None = None
        for follow in self.followers.values():
            if follow.known and follow.has_readers:
                if news is None:
                    news = _as_changes(change)
                follow.tell(news, mended=mended)


class Follow:
    """One endpoint's following of one group, as a member, as a watcher, or both."""

    __slots__ = ("_copy", "_first_list", "_streams", "ended", "group", "known", "reasons")

    def __init__(self, group: Group, copy: Copy) -> None:
        self.group = group
        self.known = False  # the list that its own join or watch asked for has come
        self.ended: RostraError | None = None
        self.reasons = 0
        self._copy = copy
        self._streams: list[ref[Stream[Change]]] = []
        self._first_list: asyncio.Future[None] | None = None

    @property
    def members(self) -> Members:
        return self._copy.view.members

    @property
    def resolution(self) -> Resolution | None:
        """The copy as an answer; none while it is not known, or known to be behind."""
        if self.known and not self._copy.view.behind:
            return self._copy.as_answer()
        return None

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

    def stream(self) -> Stream[Change]:
        stream: Stream[Change] = Stream(self._catch_up)
        # Whoever stops iterating just drops the stream.
        self._streams.append(ref(stream, self._streams.remove))
        if self.ended is not None:
            stream.end(self.ended)
        elif self.known:
            stream.put(self._view())
        return stream

    def begin(self) -> None:
        """The first list is here."""
        self.known = True
        view = self._view() if self._streams else None
        for stream in self._readers():
            assert view is not None
            stream.put(view)
        self._wake_first()

    def tell(self, news: list[Change], *, mended: bool) -> None:
        for stream in self._readers():
            if mended and stream.is_behind:
                stream.look_again()
                continue
            for change in news:
                stream.put(change)

    def fell_behind(self, missed: int) -> None:
        for stream in self._readers():
            stream.miss(missed)

    def caught_up(self) -> None:
        for stream in self._readers():
            stream.look_again()

    def end(self, reason: RostraError | None) -> None:
        self.ended = reason or NotMember(
            f"{self.group} is not followed any more", fix="join or watch it again"
        )
        self.known = False
        for stream in self._readers():
            stream.end(reason)
        self._wake_first()

    def _readers(self) -> list[Stream[Change]]:
        return [stream for each in self._streams if (stream := each()) is not None]

    def _view(self) -> View:
        return View(self._copy.view.members, self._copy.isolated)

    def _catch_up(self, missed: int) -> tuple[Change, ...]:
        return (Gap(missed), self._view()) if self.known and not self._copy.view.behind else ()

    def _wake_first(self) -> None:
        if self._first_list is not None:
            self._first_list.set_result(None)
            self._first_list = None


class Copies:
    """All that one program follows through one connection."""

    def __init__(self) -> None:
        self._views = Views()
        self._copies: dict[Group, Copy] = {}

    def follow(self, group: Group, number: int) -> Follow:
        """This endpoint follows the group, for one more reason, from the question on that is asked now."""
        copy = self._copies.get(group)
        if copy is None:
            copy = self._copies[group] = Copy(self._views.follow(group))
        follow = copy.followers.get(number)
        if follow is None:
            follow = copy.followers[number] = Follow(group, copy)
        follow.reasons += 1
        return follow

    def unfollow(self, group: Group, number: int, reason: RostraError | None = None) -> None:
        """One reason less; with the last one, silence (C-052)."""
        copy = self._copies.get(group)
        if copy is None or number not in copy.followers:
            return
        follow = copy.followers[number]
        follow.reasons -= 1
        if follow.reasons == 0:
            self._drop(copy, number, reason)

    def forget(self, number: int, reason: RostraError | None) -> None:
        """The endpoint is gone."""
        for copy in list(self._copies.values()):
            if number in copy.followers:
                self._drop(copy, number, reason)

    def _drop(self, copy: Copy, number: int, reason: RostraError | None) -> None:
        copy.followers.pop(number).end(reason)
        if not copy.followers:
            del self._copies[copy.view.group]
            self._views.unfollow(copy.view.group)

    def told(self, numbers: tuple[int, ...], notice: AnyNotice, host: Domain) -> None:
        """Take in one notice about membership, told to these endpoints."""
        match notice:
            case requests.Joined(group) | requests.Left(group):
                copy = self._copies.get(group)
                if copy is not None:
                    if type(notice) is requests.Joined and notice.cause is Cause.MERGE:
                        copy.isolated = False
                    self._report(self._views.apply(notice))
            case requests.Absolute(group, _, isolated):
                copy = self._copies.get(group)
                if copy is not None:
                    copy.isolated = isolated
                    self._replace(copy, numbers, notice)
            case requests.Without() | requests.Only():
                if isinstance(notice, requests.Only) and notice.domain == host:
                    for group, copy in self._copies.items():
                        copy.isolated = group.scope != host
                self._report(self._views.apply(notice))
            case requests.Gap(missed, groups):
                self._views.apply(notice)
                for group in groups:
                    for number in numbers:
                        if group in self._copies and number in self._copies[group].followers:
                            self._copies[group].followers[number].fell_behind(missed)

    def period(self, group: Group) -> int:
        return self._views.period(group)

    def answered(self, absolute: requests.Absolute, period: int) -> None:
        """The answer to a question that was asked in that period of following; see `Views.answered`."""
        self._report(self._views.answered(absolute, period))

    def end(self, reason: RostraError) -> None:
        for copy in self._copies.values():
            for follow in copy.followers.values():
                follow.end(reason)
        self._copies.clear()
        self._views = Views()

    def _replace(self, copy: Copy, numbers: tuple[int, ...], notice: requests.Absolute) -> None:
        was_behind = copy.view.behind
        self._report(self._views.apply(notice), mended=was_behind)
        for number in numbers:
            follow = copy.followers.get(number)
            if follow is not None and not follow.known:
                follow.begin()
        if was_behind:
            for follow in copy.followers.values():
                follow.caught_up()

    def _report(self, reports: list[Report], *, mended: bool = False) -> None:
        for report in reports:
            if type(report) is ViewChanged:
                self._copies[report.group].changed(report, mended=mended)


def _as_changes(change: ViewChanged) -> list[Change]:
    """A difference in the words of the notice that made it."""
    match change.why:
        case requests.Joined(cause=cause):
            return _difference(change, cause)
        case requests.Left(cause=cause, meta=meta):
            return [Left(_endpoints(change), cause, meta)]
        case requests.Absolute():
            return _difference(change, Cause.MERGE)
        case requests.Without(domain, because):
            return [Without(domain, _endpoints(change), because)]
        case requests.Only(domain, because):
            return [Only(domain, _endpoints(change), because)]


def _difference(change: ViewChanged, cause: Cause) -> list[Change]:
    gone: list[Change] = [Left(_endpoints(change), Cause.MERGE)] if change.left else []
    return [*gone, Joined(change.joined, cause)] if change.joined else gone


def _endpoints(change: ViewChanged) -> tuple[Endpoint, ...]:
    return tuple([member.endpoint for member in change.left])
