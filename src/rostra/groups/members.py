"""Members of groups, and why they came and went."""

from enum import Enum

from msgspec import Struct

from rostra.groups.attributes import AnyAttributes, DelegateAttributes, DoubtAttributes
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint, inside
from rostra.names.checks import Natural

Stamp = tuple[Natural, Natural]
"""(incarnation of the agent, counter): given by an agent to every join and leave; the larger is the later."""


class Cause(Enum):
    JOIN = "join"
    MERGE = "merge"
    LEAVE = "leave"
    CRASH = "crash"


class Member(Struct, frozen=True, array_like=True, gc=False):
    """One membership. Lists are sets keyed by endpoint; of two records the larger stamp wins (C-082)."""

    endpoint: Endpoint
    stamp: Stamp
    meta: bytes = b""  # the program's own
    kind: GroupKind | None = None  # of the group; None: `PLAIN`, which most are
    attributes: AnyAttributes | None = None  # of the service behind that kind

    @property
    def in_doubt(self) -> bool:
        """Is its agent unreachable, and the member listed in its led group only until `grace_s` is over?"""
        return type(self.attributes) is DoubtAttributes


Members = tuple[Member, ...]
"""Sorted by endpoint, each endpoint once."""


class Part(Struct, frozen=True, array_like=True):
    """A part of the address space: everything inside a domain, or everything outside it."""

    within: bool
    domain: Domain

    def covers(self, address: str) -> bool:
        return inside(self.domain, address) is self.within

    def __str__(self) -> str:
        return f"{'inside' if self.within else 'outside'} {self.domain}"


def by_endpoint(members: dict[Endpoint, Member]) -> Members:
    """A table of members as it leaves in a message: sorted."""
    return tuple([members[endpoint] for endpoint in sorted(members)])


def unite(table: dict[Endpoint, Member], members: Members) -> None:
    """Add records to a table; on a duplicate the larger stamp wins (C-082)."""
    for member in members:
        known = table.get(member.endpoint)
        if known is None or known.stamp < member.stamp:
            table[member.endpoint] = member


def is_led(member: Member) -> bool:
    return member.kind is not None and member.kind.membership is MembershipKind.LED


def names_led(members: Members) -> bool:
    """A led group has led members only, and delegates where it is spoken in, which stand before the hosts of
    their LAN; while two kinds meet, some of one and some of the other."""
    for member in members:
        if type(member.attributes) is not DelegateAttributes:
            last = members[-1]
            if member.kind is None and last.kind is None:  # as in most groups
                return False
            return is_led(member) or is_led(last)
    return False


class Because(Struct, frozen=True, array_like=True):
    """Why a server was declared dead: the accuser, the accused, and the grounds.

    Small enough to travel with every failure notice; the accuser keeps the whole `Evidence`.
    """

    accuser: Domain
    accused: Domain
    what: str  # silent | ended by peer | restarted | overflow | closed
