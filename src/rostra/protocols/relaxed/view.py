"""A program's own copy of the member lists of the groups that it follows.

    Absolute            replaces the view; the first one makes it known
    Joined              adds; with `complete_for` it first drops members of that part that it does not list
    Left                removes, unless the endpoint has joined again since
    Only, Without       keep or drop a domain, in all groups at once

Notices are applied in the order of delivery; they come from one agent in one stream (C-142). Changes may
arrive before the first `Absolute`, which contains or supersedes them (C-066): until then the view is not
*known*, and nothing is reported.

Only differences are reported: a merge that brings nothing new is silent (C-141). A join that is older than a
leave that was already applied is `Ignored` (C-140).
"""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from rostra.core.effects import Ignored, ignored
from rostra.groups.members import Member, Members, Stamp, by_endpoint
from rostra.names import Endpoint, Group, inside
from rostra.protocols.relaxed.requests import Absolute, AnyNotice, Gap, Joined, Left, Only, Without

LEAVES_REMEMBERED: Final = 1_024
"""Leaves that one view remembers, the latest ones. Raising it costs memory in every follower; what it guards
against comes within a merge or two of the leave."""

NOT_FOLLOWED: Final = 0
"""The period of a group that is not followed; see `Views.period`."""


Why = Absolute | Joined | Left | Only | Without
"""The notices that edit views."""


class ViewChanged(Struct, frozen=True):
    """The view of a group has changed.

    An endpoint in both lists left and joined again, unseen. `why` is the notice that changed it, with the
    cause, the leaver's `meta`, or which server accuses which.
    """

    group: Group
    joined: Members
    left: Members
    why: Why
    first: bool = False  # the view has just become known; reported even if it is empty


Report = ViewChanged | Ignored


class GroupView:
    """One followed group. Reading it costs nothing but the look-up."""

    __slots__ = ("_leaves", "_members", "_table", "behind", "group", "known")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.known = False  # it has had its first absolute
        self.behind = False  # notices were lost; the absolute that mends it is on its way
        self._leaves: dict[Endpoint, Stamp] = {}  # the latest known of each endpoint, oldest news first
        self._table: dict[Endpoint, Member] = {}
        self._members: Members | None = ()  # the same, sorted, from the first read until it changes

    @property
    def members(self) -> Members:
        """Sorted by endpoint; the same tuple until the view changes."""
        if self._members is None:
            self._members = by_endpoint(self._table)
        return self._members

    def __contains__(self, endpoint: object) -> bool:
        return endpoint in self._table

    def get(self, endpoint: Endpoint) -> Member | None:
        """This endpoint's record, if it is in the view."""
        return self._table.get(endpoint)

    def __len__(self) -> int:
        return len(self._table)

    def replace(self, notice: Absolute) -> list[Report]:
        self.behind = False
        listed = {member.endpoint for member in notice.members}
        gone = [endpoint for endpoint in self._table if endpoint not in listed]
        reports = self._edit(gone, notice.members, notice)
        if not self.known:
            # Nothing was reported before, so all members are new.
            self.known = True
            reports.append(ViewChanged(self.group, self.members, (), notice, first=True))
        return reports

    def add(self, notice: Joined) -> list[Report]:
        part = notice.complete_for
        if part is None:
            return self._edit((), notice.members, notice)
        listed = {member.endpoint for member in notice.members}
        gone = [endpoint for endpoint in self._table if endpoint not in listed and part.covers(endpoint)]
        return self._edit(gone, notice.members, notice)

    def remove(self, notice: Left) -> list[Report]:
        endpoint, stamp = notice.endpoint, notice.stamp
        self._leaves[endpoint] = max(stamp, self._leaves.pop(endpoint, stamp))
        if len(self._leaves) > LEAVES_REMEMBERED:
            del self._leaves[next(iter(self._leaves))]
        known = self._table.get(endpoint)
        if known is not None and known.stamp > stamp:
            return [Ignored("Left", why="older stamp")]
        return self._edit(() if known is None else (endpoint,), (), notice)

    def filter(self, notice: Only | Without) -> list[Report]:
        keep = isinstance(notice, Only)
        gone = [endpoint for endpoint in self._table if inside(notice.domain, endpoint) != keep]
        return self._edit(gone, (), notice)

    def _edit(self, gone: Collection[Endpoint], members: Members, why: Why) -> list[Report]:
        """Drop these endpoints and take in these records; report the difference if there is one."""
        reports: list[Report] = []
        newer = self._newer(members, reports)
        if not gone and not newer:
            return reports
        table = self._table
        left = {endpoint: table.pop(endpoint) for endpoint in gone}
        left |= {endpoint: table[endpoint] for endpoint in newer if endpoint in table}
        table.update(newer)
        self._members = None
        if self.known:
            reports.append(ViewChanged(self.group, by_endpoint(newer), by_endpoint(left), why))
        return reports

    def _newer(self, members: Members, reports: list[Report]) -> dict[Endpoint, Member]:
        """The records that change something, without those of endpoints that have left since."""
        newer: dict[Endpoint, Member] = {}
        table = self._table
        stale = False
        for member in members:
            known = table.get(member.endpoint)
            if self._has_left(member):
                stale = True
            elif known is None or known.stamp < member.stamp:
                newer[member.endpoint] = member
        if stale:
            reports.append(Ignored("Member", why="older stamp"))
        return newer

    def _has_left(self, member: Member) -> bool:
        left = self._leaves.get(member.endpoint)
        return left is not None and member.stamp < left


class Views:
    """All the groups that one endpoint follows."""

    def __init__(self) -> None:
        self.groups: dict[Group, GroupView] = {}
        self._periods: dict[Group, int] = {}
        self._last_period = NOT_FOLLOWED

    def follow(self, group: Group) -> GroupView:
        """This group's notices count from now on: we join it online, go online in it, or watch it."""
        view = self.groups.get(group)
        if view is None:
            view = self.groups[group] = GroupView(group)
            self._last_period += 1
            self._periods[group] = self._last_period
        return view

    def unfollow(self, group: Group) -> None:
        self.groups.pop(group, None)
        self._periods.pop(group, None)

    def period(self, group: Group) -> int:
        """The number of the present period of following a group; kept with a question, see `answered`."""
        return self._periods.get(group, NOT_FOLLOWED)

    def apply(self, notice: AnyNotice) -> list[Report]:
        """Take in one notice; what concerns no view changes nothing."""
        match notice:
            case Absolute(group) | Joined(group) | Left(group):
                view = self.groups.get(group)
                if view is None:
                    return [ignored(notice, why="not followed")]
                match notice:
                    case Absolute():
                        return view.replace(notice)
                    case Joined():
                        return view.add(notice)
                    case Left():
                        return view.remove(notice)
            case Only() | Without():
                return [
                    report for group in sorted(self.groups) for report in self.groups[group].filter(notice)
                ]
            case Gap(_, groups):
                for group in groups:
                    if group in self.groups:
                        self.groups[group].behind = True
        return []

    def answered(self, absolute: Absolute, asked_in: int) -> list[Report]:
        """Take in the answer to a resolve that was asked in that period of following its group.

        An answer to a non-member or an offline member, or from before we went offline in between, is for its
        caller only: there may be changes that are neither in it nor sent after it (C-139).
        """
        if asked_in == NOT_FOLLOWED or asked_in != self.period(absolute.group):
            return []
        return self.apply(absolute)
