"""The endpoint library's part: a program's own copy of who is in the groups it follows.

    Absolute            replaces the view                     the first one makes it known
    Joined              adds; with `complete_for` first drops what is of that part and not in the list
    Left                removes, unless the endpoint has joined again since
    Only, Without       keep or drop a domain, in all groups at once

Notices are applied in the order of delivery; they come from one agent in one stream (C-142). Changes may
arrive before the first absolute, which contains or supersedes them (C-066): until then the view is not
*known*, and nothing is reported.

What is reported are differences, never noise: a merge that brings nothing new is silent (C-141). A record
that is older than a leave we have heard of is left out, and said to be (C-140).
"""

from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from msgspec import Struct

from rostra.core.effects import Ignored
from rostra.groups.members import Member, Members, Stamp, by_endpoint
from rostra.names import Endpoint, Group, inside
from rostra.protocols.relaxed.requests import Absolute, AnyNotice, Gap, Joined, Left, Only, Without

T = TypeVar("T")

LEAVES_REMEMBERED: Final = 1_024
"""Leaves that one view remembers, the latest ones. Raising it costs memory in every follower; what it guards
against comes within a merge or two of the leave."""

NOT_FOLLOWED: Final = 0
"""The period of a group that is not followed; see `Views.period`."""


Why = Absolute | Joined | Left | Only | Without
"""The notices that edit views."""


class ViewChanged(Struct, frozen=True):
    """The view of a group is another one now.

    An endpoint in both lists left and joined again, unseen. `why` is the notice that did it: it has the
    cause, the leaver's last words, or who accuses whom.
    """

    group: Group
    joined: Members
    left: Members
    why: Why
    first: bool = False  # the view has just become known; reported even if it is empty


Report = ViewChanged | Ignored


class Roster:
    """Who is in a group, as one view has it, or several that were told the same.

    It is edited in place by the view that is told of a change first; the others are one edit behind until
    they are told too. None edits it while another is behind, so it is enough to remember the last edit."""

    __slots__ = ("agreed", "current", "derived", "edits", "last", "members", "table", "views")

    def __init__(self, table: dict[Endpoint, Member]) -> None:
        self.table = table
        self.members: Members | None = None  # the same, sorted, from when somebody asks until it changes
        self.derived: dict[object, Any] = {}  # the same for what is made of them
        self.edits = 0
        self.last: ViewChanged | None = None
        self.agreed: Absolute | None = None  # a list that has brought nothing new since
        self.views = 0  # that have it
        self.current = 0  # and were told of the last edit

    @property
    def in_step(self) -> bool:
        return self.current == self.views


class Fellows:
    """Views of one group that are told the same notices, such as those of all members on one host. They share
    one list for as long as they agree: a thousand members that know of ten thousand keep it once."""

    __slots__ = ("_edits", "_listed", "roster")

    def __init__(self) -> None:
        self.roster = Roster({})  # the one that was shared last
        self._listed: Absolute | None = None  # what it was made of, so many edits ago
        self._edits = 0

    def listed(self, notice: Absolute) -> Roster:
        """What is in this list: the roster that others have, if it is the same."""
        if self._listed is not notice or self._edits != self.roster.edits or not self.roster.in_step:
            self.meet(Roster({member.endpoint: member for member in notice.members}))
            self._listed, self._edits = notice, self.roster.edits
        return self.roster

    def meet(self, roster: Roster) -> Roster:
        """The shared one if it is equal; else this one is shared from now on."""
        if not self.roster.in_step or self.roster.table != roster.table:
            self.roster, self._listed = roster, None
        return self.roster


class GroupView:
    """One followed group. Reading it costs nothing but the look-up. With `fellows`, others may be told of the
    same changes, and then the list is theirs too; what is reported is what each would report alone."""

    __slots__ = ("_fellows", "_leaves", "_roster", "_seen", "behind", "group", "known")

    def __init__(self, group: Group, fellows: Fellows | None = None) -> None:
        self.group = group
        self.known = False  # it has had its first absolute
        self.behind = False  # notices were lost; the absolute that mends it is on its way
        self._fellows = fellows
        self._leaves: dict[Endpoint, Stamp] = {}  # the latest known of each endpoint, oldest news first
        self._roster = Roster({})
        self._seen: int | None = 0  # edits of it; None once it is told nothing any more
        self._take(self._roster)

    @property
    def members(self) -> Members:
        """Sorted by endpoint; the same tuple until the view changes."""
        table, roster = self._table, self._roster
        if roster.members is None:
            roster.members = by_endpoint(table)
        return roster.members

    def derived(self, make: Callable[[Members], T]) -> T:
        """What this makes of the members. For several who share them it is made once, until they change."""
        members, known = self.members, self._roster.derived
        if self._roster.views <= 1:
            return make(members)
        if make not in known:
            known[make] = make(members)
        made: T = known[make]
        return made

    def __contains__(self, endpoint: object) -> bool:
        return endpoint in self._table

    def get(self, endpoint: Endpoint) -> Member | None:
        """This endpoint's record, if it is in the view."""
        return self._table.get(endpoint)

    def __len__(self) -> int:
        return len(self._table)

    def replace(self, notice: Absolute) -> list[Report]:
        self.behind = False
        reports = self._followed(notice)
        if reports is not None:
            return reports
        if not self.known and self._is_all_there_is(notice):
            assert self._fellows is not None
            self._drop()
            self._take(self._fellows.listed(notice))
            reports = []
        else:
            listed = {member.endpoint for member in notice.members}
            gone = [endpoint for endpoint in self._table if endpoint not in listed]
            reports = self._edit(gone, notice.members, notice)
            self._meet_fellows()
        if not self.known:
            # Nothing of what came before was reported, so everybody is new.
            self.known = True
            reports.append(ViewChanged(self.group, self.members, (), notice, first=True))
        return reports

    def add(self, notice: Joined) -> list[Report]:
        reports = self._followed(notice)
        if reports is not None:
            return reports
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
        reports = self._followed(notice)
        if reports is not None:
            return reports
        known = self._table.get(endpoint)
        if known is not None and known.stamp > stamp:
            return [Ignored("Left", why="older stamp")]
        return self._edit(() if known is None else (endpoint,), (), notice)

    def filter(self, notice: Only | Without) -> list[Report]:
        reports = self._followed(notice)
        if reports is not None:
            return reports
        keep = isinstance(notice, Only)
        gone = [endpoint for endpoint in self._table if inside(notice.domain, endpoint) != keep]
        return self._edit(gone, (), notice)

    def close(self) -> None:
        """It is told nothing any more, and nobody has to wait for it. What it shows is what its last fellows
        go on with."""
        if self._seen is not None:
            self._drop()
            self._seen = None

    def _edit(self, gone: Collection[Endpoint], members: Members, why: Why) -> list[Report]:
        """Drop these endpoints and take in these records; report the difference if there is one."""
        reports: list[Report] = []
        newer = self._newer(members, reports)
        if not gone and not newer:
            if isinstance(why, Absolute) and not reports and self._roster.views > 1:
                self._roster.agreed = why
            return reports
        if self._roster.views > 1 and (reports or not self._roster.in_step):
            self._go_alone()  # others know of other leaves, or have yet to be told of something else
        table, roster = self._table, self._roster
        left = {endpoint: table.pop(endpoint) for endpoint in gone}
        left |= {endpoint: table[endpoint] for endpoint in newer if endpoint in table}
        table.update(newer)
        roster.members = roster.agreed = None
        roster.derived.clear()
        if self.known:
            changed = ViewChanged(self.group, by_endpoint(newer), by_endpoint(left), why)
            reports.append(changed)
            if roster.views > 1:
                roster.last = changed
        roster.edits += 1
        roster.current = 1
        self._seen = roster.edits
        return reports

    def _newer(self, members: Members, reports: list[Report]) -> dict[Endpoint, Member]:
        """The records that tell us something, without those that we know to have left since."""
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

    # The list, and who shares it

    @property
    def _table(self) -> dict[Endpoint, Member]:
        if self._seen is not None and self._seen != self._roster.edits:
            self._go_alone()  # others are ahead of us, by something that we are not told, or not now
        return self._roster.table

    def _take(self, roster: Roster) -> None:
        self._roster, self._seen = roster, roster.edits
        roster.views += 1
        roster.current += 1

    def _drop(self) -> None:
        roster = self._roster
        roster.views -= 1
        roster.current -= self._seen == roster.edits

    def _go_alone(self) -> None:
        """With a list of our own, as we have it."""
        roster, last = self._roster, self._roster.last
        table = dict(roster.table)
        if self._seen != roster.edits:
            assert last is not None and self._seen == roster.edits - 1, "more than one edit behind"
            for member in last.joined:
                del table[member.endpoint]
            table.update({member.endpoint: member for member in last.left})
        self._drop()
        self._take(Roster(table))

    def _followed(self, notice: Why) -> list[Report] | None:
        """What a fellow has made of this notice before us; None if that is for us to do."""
        roster = self._roster
        if self._seen == roster.edits:
            done: Why | None = roster.agreed
            made: list[Report] = []
        else:
            assert roster.last is not None, "somebody is ahead of us"
            done, made = roster.last.why, [roster.last]
        if done is not notice:
            return None
        members = notice.members if isinstance(notice, Absolute | Joined) else ()
        if self._leaves and any(map(self._has_left, members)):
            return None
        if made:
            self._seen = roster.edits
            roster.current += 1
        return made

    def _is_all_there_is(self, notice: Absolute) -> bool:
        """Do we know of nothing that is later than what this list says?"""
        if self._fellows is None:
            return False
        listed = self._fellows.listed(notice).table
        for member in self._table.values():
            if member.endpoint in listed and listed[member.endpoint].stamp < member.stamp:
                return False
        return not any(who in listed and listed[who].stamp < left for who, left in self._leaves.items())

    def _meet_fellows(self) -> None:
        """After a whole list: perhaps it is what others have."""
        if self._fellows is not None and self._roster.views == 1:
            roster = self._fellows.meet(self._roster)
            if roster is not self._roster:
                self._drop()
                self._take(roster)


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
        """Names the present stretch of following a group; to be kept with a question, see `answered`."""
        return self._periods.get(group, NOT_FOLLOWED)

    def apply(self, notice: AnyNotice) -> list[Report]:
        """Take in one notice; what concerns no view changes nothing."""
        match notice:
            case Absolute(group) | Joined(group) | Left(group):
                view = self.groups.get(group)
                if view is None:
                    return [Ignored(type(notice).__name__, why="not followed")]
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

        One that was asked by a stranger or an offline member, or before we went offline in between, is
        for its caller only: there may be changes that are neither in it nor told after it (C-139).
        """
        if asked_in == NOT_FOLLOWED or asked_in != self.period(absolute.group):
            return []
        return self.apply(absolute)
