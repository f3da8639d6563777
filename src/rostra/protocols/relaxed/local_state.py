"""The tables of an agent: its groups and its endpoints.

    LocalServer
    ├── groups      Group ──▶ LocalGroup       this host's members, and its followers   (C-085)
    ├── endpoints   Endpoint ──▶ Presence      the reverse index, for when an endpoint goes
    └── resolves    requests that are not answered yet: see `resolves.py`

Only groups with a local member or watcher have an entry, so memory grows with this host's memberships and not
with the world (C-024, C-147).
"""

from bisect import bisect_left
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.groups.attributes import AnyAttributes
from rostra.groups.members import Member, Members
from rostra.names import Endpoint, Group, check_group_name, parse_scope
from rostra.protocols.relaxed.messages import Interest
from rostra.protocols.relaxed.requests import Absolute


class SortedEndpoints:
    """A sorted set of endpoints that caches its tuple.

    Every notice is addressed to the same tuple until an endpoint comes or goes; only then is it made again.
    Since the list is kept sorted, that is a copy and no sort, which matters on hosts with tens of thousands
    of endpoints."""

    __slots__ = ("_sorted", "_tuple")

    def __init__(self) -> None:
        self._sorted: list[Endpoint] = []
        self._tuple: tuple[Endpoint, ...] | None = ()

    def add(self, endpoint: Endpoint) -> None:
        place = bisect_left(self._sorted, endpoint)
        if self._sorted[place : place + 1] != [endpoint]:
            self._sorted.insert(place, endpoint)
            self._tuple = None

    def discard(self, endpoint: Endpoint) -> None:
        place = bisect_left(self._sorted, endpoint)
        if self._sorted[place : place + 1] == [endpoint]:
            del self._sorted[place]
            self._tuple = None

    def all(self) -> tuple[Endpoint, ...]:
        if self._tuple is None:
            self._tuple = tuple(self._sorted)
        return self._tuple


class LocalGroup:
    """This host's part of one group."""

    __slots__ = ("_answer", "_followers", "_listed", "_records", "members", "online", "watchers")

    def __init__(self) -> None:
        self.members: dict[Endpoint, Member] = {}
        self.online: set[Endpoint] = set()  # members that get changes
        self.watchers: set[Endpoint] = set()  # endpoints that get changes without being members
        self._listed = SortedEndpoints()
        self._records: Members | None = ()
        self._answer: Absolute | None = None
        self._followers = SortedEndpoints()

    def add(self, member: Member, online: bool) -> None:
        self.members[member.endpoint] = member
        self._listed.add(member.endpoint)
        self._records = self._answer = None
        if online:
            self.set_online(member.endpoint, True)

    def renew(self, endpoint: Endpoint, attributes: AnyAttributes) -> None:
        """A member has a new proof, which later answers carry. Nodes that know the member checked the old
        one."""
        self.add(replace(self.members[endpoint], attributes=attributes), endpoint in self.online)

    def remove(self, endpoint: Endpoint) -> None:
        self.set_online(endpoint, False)
        del self.members[endpoint]
        self._listed.discard(endpoint)
        self._records = self._answer = None

    def set_online(self, endpoint: Endpoint, online: bool) -> None:
        (self.online.add if online else self.online.discard)(endpoint)
        self._refollow(endpoint)

    def set_watching(self, endpoint: Endpoint, watching: bool) -> None:
        (self.watchers.add if watching else self.watchers.discard)(endpoint)
        self._refollow(endpoint)

    def is_followed_by(self, endpoint: Endpoint) -> bool:
        return endpoint in self.online or endpoint in self.watchers

    def is_empty(self) -> bool:
        return not self.members and not self.watchers

    def followers(self) -> tuple[Endpoint, ...]:
        """Who is notified of a change: online members and watchers, sorted."""
        return self._followers.all()

    def followers_besides(self, endpoint: Endpoint) -> tuple[Endpoint, ...]:
        """Who is notified of a change that this endpoint made: not itself (C-047)."""
        if self.is_followed_by(endpoint):
            return tuple(other for other in self.followers() if other != endpoint)
        return self.followers()

    def records(self) -> Members:
        """The local members, sorted: this host's part of every answer."""
        if self._records is None:
            self._records = tuple([self.members[endpoint] for endpoint in self._listed.all()])
        return self._records

    def answer(self, group: Group, isolated: bool) -> Absolute:
        """The local members as an `Absolute`: one value until an endpoint comes or goes, so that it is
        encoded once."""
        if self._answer is None or self._answer.isolated != isolated:
            self._answer = Absolute(group, self.records(), isolated)
        return self._answer

    def interest(self) -> Interest:
        """The interest of this host in the group (C-093)."""
        if self.online or self.watchers:
            return Interest.ALL
        return Interest.RESOLVE if self.members else Interest.NONE

    def document(self) -> dict[str, object]:
        return {
            "interest": self.interest().name,
            "members": self.records(),
            "online": sorted(self.online),
            "watchers": sorted(self.watchers),
        }

    def _refollow(self, endpoint: Endpoint) -> None:
        if self.is_followed_by(endpoint):
            self._followers.add(endpoint)
        else:
            self._followers.discard(endpoint)


@lru_cache(maxsize=4096)
def check_group(group: Group) -> None:
    """Raise unless it is well named."""
    check_group_name(group.name)
    if parse_scope(group.scope) != group.scope:
        raise BadInput(f"scope {group.scope!r} is not canonical", fix=f"write {parse_scope(group.scope)!r}")


class GatheredJoins(Struct, eq=False):
    """Joins of one turn and one group, of which no notice was sent yet."""

    before: Interest  # of the host, before the first of them
    followers: tuple[Endpoint, ...]  # at that moment
    members: list[Member] = field(default_factory=list)

    def besides(self) -> tuple[Endpoint, ...]:
        """Who is notified: not the joiners themselves (C-047)."""
        joined = {member.endpoint for member in self.members}
        return tuple([each for each in self.followers if each not in joined])


class Presence(Struct, eq=False):
    """What one open endpoint takes part in."""

    groups: set[Group] = field(default_factory=set)
    watched: set[Group] = field(default_factory=set)
    questions: set[int] = field(default_factory=set)  # tokens
    user: str = ""  # as the front says
