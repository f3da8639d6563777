"""A program's own copies of the groups that it is in.

There is one copy for each group, however many endpoints of the program follow it: the agent sends all of them
the same notices in one stream, and each is decoded and applied once. Kept for each endpoint are since when it
follows (`FollowedGroup.known`: from its first list on) and the readers of its changes.

    Told(endpoints, notice) ──▶ Copies ── once ──▶ GroupView ── changes ──▶ each MemberFollow ──▶ its Streams

One copy can serve all because a notice is about the group and not about one endpoint, and because every
follower gets every notice, except those of its own joining and leaving. A notice to a follower that has left
may still edit the copy, but an endpoint does not read the copy before its own first list has come.

A copy does not outlive the connection to its agent: without an agent every member is alone (C-143), and the
first item after it is back is a `Gap`.
"""

from rostra.client.follows import FollowedGroup, Follows
from rostra.errors import RostraError
from rostra.groups.items import Change, Gap, Joined, Left, Only, Resolution, View, Without
from rostra.groups.members import Cause, Member, Members
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.front.messages import AnyTold
from rostra.protocols.relaxed import requests
from rostra.protocols.relaxed.view import GroupView, Report, ViewChanged, Views


class Copy:
    """One group, and who of this program follows it."""

    __slots__ = ("_isolated", "_resolution", "followers", "view")

    def __init__(self, view: GroupView) -> None:
        self.view = view
        self.followers: dict[int, MemberFollow] = {}  # by the endpoint's number
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
                follow.changed(news, mended=mended)

    def start_over(self, view: GroupView) -> None:
        """Drop everything that was known."""
        self.view = view
        self.isolated = False


class MemberFollow(FollowedGroup):
    """One endpoint's membership of one group, online."""

    __slots__ = ("_alone", "_copy")

    def __init__(self, group: Group, copy: Copy) -> None:
        super().__init__(group)
        self._copy = copy
        self._alone: Members | None = None  # while the agent is lost: ourselves

    @property
    def members(self) -> Members:
        return self._copy.view.members if self._alone is None else self._alone

    @property
    def resolution(self) -> Resolution | None:
        if self.known and not self._copy.view.behind:
            return self._copy.as_answer()
        return None

    def view(self) -> View | None:
        if self._alone is not None:
            return View(self._alone, isolated=True)
        return View(self._copy.view.members, self._copy.isolated) if self.known else None

    def catch_up(self, missed: int) -> tuple[Change, ...]:
        return () if self._copy.view.behind else super().catch_up(missed)

    def begin(self) -> None:
        """The first list is here, or the first since we are back."""
        was_away, self._alone = self._alone is not None, None
        self.is_ready()
        view = self.view()
        assert view is not None
        self.tell((Gap(), view) if was_away else (view,))

    def changed(self, news: list[Change], *, mended: bool) -> None:
        for stream in self.readers():
            if mended and stream.is_behind:
                stream.look_again()
                continue
            for change in news:
                stream.put(change)

    def fell_behind(self, missed: int) -> None:
        for stream in self.readers():
            stream.miss(missed)

    def caught_up(self) -> None:
        for stream in self.readers():
            stream.look_again()

    def lose(self, me: Member) -> None:
        was_known, self.known = self.known, False
        self._alone = (me,)
        if was_known:
            self.tell((View(self._alone, isolated=True),))


class Copies(Follows[Copy, MemberFollow]):
    """All groups that this program is in, through one agent."""

    def __init__(self) -> None:
        super().__init__()
        self._views = Views()

    def _open(self, group: Group) -> Copy:
        return Copy(self._views.follow(group))

    def _close(self, group: Group) -> None:
        self._views.unfollow(group)

    def _new(self, group: Group, copy: Copy) -> MemberFollow:
        return MemberFollow(group, copy)

    # Losing the agent, and finding one again

    def start_over(self) -> None:
        """The agent is gone: nothing is known of any group."""
        self._views = Views()
        for group, copy in self._copies.items():
            copy.start_over(self._views.follow(group))

    def lose(self, group: Group, number: int, me: Member) -> None:
        """The agent is gone: this endpoint is the only known member of the group."""
        self._copies[group].followers[number].lose(me)

    # What arrives

    def told(self, numbers: tuple[int, ...], notice: AnyTold, host: Domain) -> None:
        """One notice about membership, for these endpoints."""
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
        super().end(reason)
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
