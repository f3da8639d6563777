"""What an agent keeps of its programs' memberships in led groups, and of the lists that they get."""

from msgspec import Struct, field
from msgspec.structs import replace

from rostra.core.effects import Asked
from rostra.groups.attributes import DelegateAttributes
from rostra.groups.kinds import LED, GroupKind
from rostra.groups.members import Member, Members, is_led
from rostra.names import Domain, Endpoint
from rostra.protocols.led.messages import Entries, members_of


class LedStay(Struct, eq=False):
    online: bool
    meta: bytes
    closed: bool = False  # it is told only what members say
    since: int = 0  # the version of this host's entry that it came with
    speaks: bool = False  # with ``delivery="fifo"``: it stands in the directory itself


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
    listed: Members = ()  # of a restricted group: what the leader said, with proofs, which may end
    members: Members | None = None  # what was told
    signpost: Domain | None = None  # an agent that is in the set
    group_kind: GroupKind = LED


def local_name(me: Endpoint) -> str:
    return me.partition("/")[2]


def has_stay(known: LedSet, me: Endpoint) -> bool:
    return me in known.members or any(asked.endpoint == me for asked in known.waiting)


def names_others(members: Members) -> bool:
    """Members of another kind of group."""
    return any(not is_led(each) and type(each.attributes) is not DelegateAttributes for each in members)


def led_member(members: Members) -> Member:
    return next(each for each in members if is_led(each))


def listed(entries: Entries, kind: GroupKind | None) -> Members:
    return tuple([replace(member, kind=kind) for member in members_of(entries)])
