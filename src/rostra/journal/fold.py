"""From notices to journal rows: the view that one host has of each group followed on it.

A notice is about members, a domain, or a whole list. A row is about one member. To turn one into the other,
`ViewFold` keeps the members seen so far, one for each host.

    notice                          lines, one for each member concerned
    Absolute {a b}, seen {b c}      c left (unlisted), a joined; and 1 kept
    Joined {a}, complete for eu     a joined; all others that were seen in eu left (unlisted)
    Left a                          a left
    Without eu                      all seen in eu left
    the last follower is gone       all left (unfollowed): nothing is seen of this group any more

A member that is listed with another stamp than the one that was seen left and joined again unseen: two lines.
Those that are listed as they were seen are no news, and are only counted: every new follower is told the
whole list, and a line for each would be more than everything else together.

Followers of one host are told the same things in the same order; what differs between two of them is when
each began. So one sight for all of them is enough, and the notices themselves say who was told.
"""

from typing import Final, NamedTuple

from rostra.groups.members import Cause, Members, Stamp
from rostra.names import Endpoint, Group, inside
from rostra.protocols.relaxed.requests import Absolute, Joined, Left, Only, Without

JOINED: Final = "joined"
LEFT: Final = "left"

SNAPSHOT: Final = "snapshot"  # in the place of a cause: it was in a list
UNLISTED: Final = "unlisted"  # it was not in a list that should have had it
UNFOLLOWED: Final = "unfollowed"  # no program of the host follows the group any more


UNKNOWN: Final[Stamp] = (0, 0)
"""In the place of a stamp: the notice of this member did not say which of its memberships it is."""


class ViewLine(NamedTuple):
    """What a notice means for one member."""

    member: Endpoint
    stamp: Stamp
    change: str  # joined | left
    news: bool  # did it change what this host sees?
    cause: str
    rank: int | None = None  # of a member of a view


class GroupNotice(NamedTuple):
    """What a notice means for one group: whom it was told to, and who is concerned."""

    group: Group
    observers: tuple[Endpoint, ...]
    lines: list[ViewLine]
    kept: int = 0  # listed, and known before


Notice = Absolute | Joined | Left | Only | Without


class ViewFold:
    def __init__(self) -> None:
        self.followers: dict[Group, set[Endpoint]] = {}
        self.seen: dict[Group, dict[Endpoint, Stamp]] = {}

    def follow(self, observer: Endpoint, group: Group) -> bool:
        """This endpoint follows the group from now on. True if that is new."""
        followers = self.followers.setdefault(group, set())
        if observer in followers:
            return False
        followers.add(observer)
        self.seen.setdefault(group, {})
        return True

    def unfollow(self, observer: Endpoint, group: Group) -> list[ViewLine] | None:
        """This endpoint follows the group no longer. None if it did not before; otherwise the members lost
        from sight."""
        followers = self.followers.get(group)
        if followers is None or observer not in followers:
            return None
        followers.remove(observer)
        if followers:
            return []
        del self.followers[group]
        seen = self.seen.pop(group)
        return _leave(seen, list(seen), UNFOLLOWED)

    def follows(self, observer: Endpoint, group: Group) -> bool:
        return observer in self.followers.get(group, ())

    def take(self, observers: tuple[Endpoint, ...], notice: Notice) -> list[GroupNotice]:
        """These endpoints got this notice. Groups that they do not follow (any more) are skipped."""
        if not isinstance(notice, Only | Without):
            group = notice.group
            if group not in self.followers:
                return []
            return [GroupNotice(group, observers, *_fold(self.seen[group], notice))]
        told = set(observers)
        return [
            GroupNotice(group, tuple(sorted(told & followers)), *_fold(self.seen[group], notice))
            for group, followers in sorted(self.followers.items())
            if not told.isdisjoint(followers)
        ]

    def take_in(self, group: Group, observer: Endpoint, notice: Notice) -> list[GroupNotice]:
        """One endpoint got this notice of one group, whatever else it follows."""
        if group not in self.followers:
            return []
        return [GroupNotice(group, (observer,), *_fold(self.seen[group], notice))]


def _fold(seen: dict[Endpoint, Stamp], notice: Notice) -> tuple[list[ViewLine], int]:
    """What the notice changes in what was seen: the lines, and how many of its list were seen before."""
    if isinstance(notice, Left):
        news = seen.pop(notice.endpoint, None) is not None
        return [ViewLine(notice.endpoint, notice.stamp, LEFT, news, notice.cause.value)], 0
    if isinstance(notice, Joined):
        part, gone = notice.complete_for, []
        if part is not None:
            listed = {member.endpoint for member in notice.members}
            gone = [who for who in seen if who not in listed and part.covers(who)]
        return _arrive(seen, notice.members, notice.cause.value, _leave(seen, gone, UNLISTED))
    if isinstance(notice, Absolute):
        listed = {member.endpoint for member in notice.members}
        gone = [who for who in seen if who not in listed]
        return _arrive(seen, notice.members, SNAPSHOT, _leave(seen, gone, UNLISTED))
    keep = isinstance(notice, Only)
    gone = [who for who in seen if inside(notice.domain, who) != keep]
    return _leave(seen, gone, "only" if keep else "without"), 0


def _arrive(
    seen: dict[Endpoint, Stamp], members: Members, cause: str, lines: list[ViewLine]
) -> tuple[list[ViewLine], int]:
    kept = 0
    for member in members:
        who, stamp = member.endpoint, member.stamp
        before = seen.get(who)
        if before is not None and (before == stamp or UNKNOWN in (before, stamp)):
            kept += 1
            seen[who] = max(before, stamp)
            continue
        if before is not None:
            lines.append(ViewLine(who, before, LEFT, True, Cause.LEAVE.value))
        seen[who] = stamp
        lines.append(ViewLine(who, stamp, JOINED, True, cause))
    return lines, kept


def _leave(seen: dict[Endpoint, Stamp], gone: list[Endpoint], cause: str) -> list[ViewLine]:
    return [ViewLine(who, seen.pop(who), LEFT, True, cause) for who in sorted(gone)]
