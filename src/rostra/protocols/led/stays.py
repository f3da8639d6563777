"""What an agent keeps of its programs' memberships in led groups, and of the lists that they are told."""

from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from rostra.core.effects import Asked
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Member, Members
from rostra.names import Domain, Endpoint
from rostra.protocols.led.messages import Entries, members_of

LED: Final = GroupKind(MembershipKind.LED)


class LedStay(Struct, eq=False):
    online: bool
    meta: bytes


class LedSet(Struct, eq=False):
    """The members of this host in one group."""

    members: dict[Endpoint, LedStay] = field(default_factory=dict)
    signpost: Endpoint | None = None  # the one that stands in the directory
    claimer: Endpoint | None = None  # for whom the kind is claimed
    claiming: int | None = None  # the token of that question
    waiting: list[Asked] = field(default_factory=list)  # joins, until it is


class LedFollow(Struct, eq=False):
    """A list that programs of this host are told when it changes."""

    query: int | None = None
    known: tuple[Domain, int, int] | None = None  # the leader, and the version of its list
    members: Members | None = None  # what was told
    signpost: Domain | None = None  # an agent that is in the set


def local_name(me: Endpoint) -> str:
    return me.partition("/")[2]


def has_stay(known: LedSet, me: Endpoint) -> bool:
    return me in known.members or any(asked.endpoint == me for asked in known.waiting)


def names_led(members: Members) -> bool:
    """A led group has led members only; while two kinds meet, some of one and some of the other."""
    return bool(members) and (is_led(members[0]) or is_led(members[-1]))


def is_led(member: Member) -> bool:
    return member.kind is not None and member.kind.membership is MembershipKind.LED


def led_member(members: Members) -> Member:
    return members[0] if is_led(members[0]) else members[-1]


def listed(entries: Entries) -> Members:
    return tuple([replace(member, kind=LED) for member in members_of(entries)])
