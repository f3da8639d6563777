"""What an agent keeps of agreed groups: members, each in one stage of its stay, and questions that wait."""

from collections import deque

from msgspec import Struct, field

from rostra.core.effects import Instant
from rostra.groups.attributes import Slow
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.branch import HostHolds, MemberAsked
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.events import AgreedJoinAsked
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.observed import HostGiven
from rostra.protocols.fifo.events import Item


class StayLooking(Struct, frozen=True):
    """Does the group exist?"""

    event: AgreedJoinAsked


class StayClaiming(Struct, frozen=True):
    """Is it of this kind? The directory lists the member as soon as it is."""

    event: AgreedJoinAsked


class StayAsking(Struct, frozen=True):
    """It waits for the view that it joins in."""

    event: AgreedJoinAsked
    id: MemberId


class StayInside(Struct, frozen=True):
    id: MemberId
    meta: bytes


class StayLeaving(Struct, frozen=True):
    """Its join was taken back before `JoinClaimed` was answered; then it goes out of the directory again."""


Stage = StayLooking | StayClaiming | StayAsking | StayInside | StayLeaving


class HostMember(Struct, eq=False):
    stage: Stage
    paused: bool = False
    knows: bool = False  # it was given a whole list, and what came after
    waiting: deque[Item] = field(default_factory=deque)  # items, while it does not read
    slow: Slow = Slow.THROTTLE
    unread: bool = False  # a split put it here, and its program has yet to join (`ended.py`)
    entered: set[Group] = field(default_factory=set)  # subgroups into which splits put it


class HostGroup(Struct, eq=False):
    kind: GroupKind
    members: dict[Endpoint, HostMember] = field(default_factory=dict)
    view: AgreedView | None = None  # the last one
    lost: tuple[Domain, ...] = ()  # domains that its core-set could not reach, as it told the view
    fence: int = 0  # of the last view that lived
    doubt: bool = False  # no lease: its members are blocked
    lived: tuple[MemberId, ...] = ()  # and its members
    returned: dict[MemberId, int] = field(default_factory=dict)
    """Members of it that were out of a living view before: the fence with which each was back."""
    blocked: str = ""  # why, if it is
    stands_since: Instant | None = None  # blocked or in doubt (`settling.py`)
    drained: bool = False  # until a view comes in which its members are behind (`draining.py`)
    given: HostGiven | None = None  # as observers were shown it last


class HostAsked(Struct, eq=False):
    """A question that is not answered yet."""

    message: MemberAsked | HostHolds
    times: int = 0
