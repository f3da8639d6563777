"""What one host sees of each group that somebody on it follows.

A notice speaks of members, of a part of the world, or of a whole list. A row speaks of one member and says
what became of it. To get from one to the other somebody has to remember who was seen so far: that is `Sight`,
one for each host.

    notice                          lines, one for each member concerned
    Absolute {a b}, seen {b c}      c left (unlisted), a joined; and 1 kept
    Joined {a}, complete for eu     a joined; whoever else was seen in eu left (unlisted)
    Left a                          a left
    Without eu                      everybody seen in eu left
    the last follower is gone       everybody left (unfollowed): nothing is seen of this group any more

A member that is listed with another stamp than the one that was seen left and joined again unseen: two lines.
Those that are listed as they were seen are no news, and are only counted: every new follower is told the
whole list, and a line for each would be more than everything else together.

Followers of one host are told the same things in the same order; what differs between two of them is when
each began. So one sight for all of them is enough, and the notices themselves say who was told.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from rostra.names import Endpoint, Group, inside
from rostra.protocols.resolve.messages import Cause, Members, Stamp
from rostra.protocols.resolve.requests import Absolute, Joined, Left, Only, Without

JOINED: Final = "joined"
LEFT: Final = "left"

SNAPSHOT: Final = "snapshot"  # in the place of a cause: it was in a list
UNLISTED: Final = "unlisted"  # it was not in a list that should have had it
UNFOLLOWED: Final = "unfollowed"  # nobody looks any more


class Line(NamedTuple):
    """What a notice means for one member."""

    member: Endpoint
    stamp: Stamp
    change: str  # joined | left
    news: bool  # did it change what this host sees?
    cause: str


class Told(NamedTuple):
    """What a notice means for one group: whom it was told to, and who is concerned."""

    group: Group
    observers: tuple[Endpoint, ...]
    lines: list[Line]
    kept: int = 0  # listed, and known before


Notice = Absolute | Joined | Left | Only | Without


class Sight:
    def __init__(self) -> None:
        self.followers: dict[Group, set[Endpoint]] = {}
        self.seen: dict[Group, dict[Endpoint, Stamp]] = {}

    def follow(self, observer: Endpoint, group: Group) -> bool:
        """This endpoint is told of the group from now on; is that new?"""
        followers = self.followers.setdefault(group, set())
        if observer in followers:
            return False
        followers.add(observer)
        self.seen.setdefault(group, {})
        return True

    def unfollow(self, observer: Endpoint, group: Group) -> list[Line] | None:
        """It is told no longer. None if it was not before; otherwise whoever is lost from sight by that."""
        followers = self.followers.get(group)
        if followers is None or observer not in followers:
            return None
        followers.remove(observer)
        if followers:
            return []
        del self.followers[group]
        return _gone(sorted(self.seen.pop(group).items()), UNFOLLOWED)

    def follows(self, observer: Endpoint, group: Group) -> bool:
        return observer in self.followers.get(group, ())

    def take(self, observers: tuple[Endpoint, ...], notice: Notice) -> list[Told]:
        """These endpoints were told this. What they do not follow (any more) changes nothing."""
        match notice:
            case Absolute(group) | Joined(group) | Left(group):
                followers = self.followers.get(group)
                if followers is None:
                    return []
                lines = self._fold(self.seen[group], notice)
                kept = 0
                if not isinstance(notice, Left):
                    kept = len(notice.members) - sum(line.change == JOINED for line in lines)
                return [Told(group, observers, lines, kept)]
            case Only() | Without():
                told = set(observers)
                return [
                    Told(group, tuple(sorted(told & followers)), self._fold(self.seen[group], notice))
                    for group, followers in sorted(self.followers.items())
                    if not told.isdisjoint(followers)
                ]

    def _fold(self, seen: dict[Endpoint, Stamp], notice: Notice) -> list[Line]:
        match notice:
            case Absolute(members=members):
                listed = {member.endpoint for member in members}
                gone = [(who, stamp) for who, stamp in seen.items() if who not in listed]
                return _leave(seen, gone, UNLISTED) + _arrive(seen, members, SNAPSHOT)
            case Joined(members=members, cause=cause, complete_for=part):
                lines: list[Line] = []
                if part is not None:
                    listed = {member.endpoint for member in members}
                    gone = [(w, s) for w, s in seen.items() if w not in listed and part.covers(w)]
                    lines = _leave(seen, gone, UNLISTED)
                return lines + _arrive(seen, members, cause.value)
            case Left(endpoint=endpoint, stamp=stamp, cause=cause):
                news = seen.pop(endpoint, None) is not None
                return [Line(endpoint, stamp, LEFT, news, cause.value)]
            case Only(domain=domain):
                gone = [(who, stamp) for who, stamp in seen.items() if not inside(domain, who)]
                return _leave(seen, gone, "only")
            case Without(domain=domain):
                gone = [(who, stamp) for who, stamp in seen.items() if inside(domain, who)]
                return _leave(seen, gone, "without")


def _arrive(seen: dict[Endpoint, Stamp], members: Members, cause: str) -> list[Line]:
    lines: list[Line] = []
    for member in members:
        who, stamp = member.endpoint, member.stamp
        before = seen.get(who)
        if before == stamp:
            continue
        if before is not None:
            lines.append(Line(who, before, LEFT, True, Cause.LEAVE.value))
        seen[who] = stamp
        lines.append(Line(who, stamp, JOINED, True, cause))
    return lines


def _leave(seen: dict[Endpoint, Stamp], gone: list[tuple[Endpoint, Stamp]], cause: str) -> list[Line]:
    for who, _ in gone:
        del seen[who]
    return _gone(sorted(gone), cause)


def _gone(gone: Iterable[tuple[Endpoint, Stamp]], cause: str) -> list[Line]:
    return [Line(who, stamp, LEFT, True, cause) for who, stamp in gone]
