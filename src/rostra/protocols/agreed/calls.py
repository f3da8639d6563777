"""Calls about agreed groups, as programs make them (Table 2 of the paper), and as they travel.

    program ── GroupCall ──▶ agent ── GroupAsked ──▶ ... ──▶ core-set: looks, or agrees on a change
    program ◀── GroupPresented ── agent ◀── GroupAnswer, GroupsFound ── ... ◀┤
    programs ◀── MemberMoved, GroupTerminated ◀── agents ◀── GroupEnded ─────┤   it was split, merged, deleted
    programs ◀── MemberAdded ◀── agents ◀── SubgroupEntered ─────────────────┘   it was split, and kept

Calls are repeated until they are answered, and done once (`question`).
"""

from enum import IntEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import check_number, check_text
from rostra.protocols.agreed.branch import TEXT_MAX, BranchMessage, HostQuestion, Hosts, ViewId, ViewMembers
from rostra.protocols.agreed.changes import MEMBERS_MAX, Data, MemberId, Number
from rostra.protocols.agreed.config import SET_MEMBERS_MAX
from rostra.protocols.agreed.groups import APART_MAX, MemberIds
from rostra.protocols.agreed.orders import AnyOrder
from rostra.protocols.agreed.sheets import Properties
from rostra.protocols.fifo.events import Item
from rostra.protocols.relaxed.requests import Request, Said

HISTORY_MAX: Final = 64
"""Views of the past in one answer."""

GROUPS_MAX: Final = 1_024
"""Groups in one answer."""


# Questions


class LookAt(Struct, frozen=True, array_like=True, tag_field="call", tag=1):
    """A view of the group: the present one, or that of a number; and how many of the past."""

    number: Annotated[int, check_number] | None = None
    revision: Annotated[int, check_number] | None = None
    history: Annotated[int, check_number] = 0  # at most `HISTORY_MAX` come


class ListGroups(Struct, frozen=True, array_like=True, tag_field="call", tag=2):
    """Groups of the same scope as the one that is named; of one member, if it is; with these attributes."""

    member: Endpoint | None = None
    where: Properties = ()


class OrderCall(Struct, frozen=True, array_like=True, tag_field="call", tag=3):
    order: AnyOrder


AnyCall = LookAt | ListGroups | OrderCall


# Answers


class PastView(Struct, frozen=True, array_like=True):
    id: ViewId
    count: Number
    joined: MemberIds = ()
    left: MemberIds = ()
    failed: MemberIds = ()
    parts: Annotated[tuple[MemberIds, ...], Meta(max_length=APART_MAX)] = ()


class GroupState(Struct, frozen=True, array_like=True):
    """A group, as a server of its core-set has it."""

    id: ViewId
    members: ViewMembers
    joined: MemberIds
    left: MemberIds
    failed: MemberIds
    attributes: Data
    kind: GroupKind
    core: Hosts  # the servers that agree on it
    fence: Number = 0
    blocked: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    history: Annotated[tuple[PastView, ...], Meta(max_length=HISTORY_MAX)] = ()
    lost: Hosts = ()  # domains with members in this view, or in `failed`, that the server cannot reach


Names = Annotated[tuple[Group, ...], Meta(max_length=GROUPS_MAX)]


class GroupAsked(BranchMessage, frozen=True, tag=248):
    group: Group
    question: HostQuestion
    caller: Endpoint  # on that host
    call: AnyCall


class GroupAnswer(BranchMessage, frozen=True, tag=249):
    group: Group
    question: HostQuestion
    code: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    why: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    fix: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    state: GroupState | None = None
    groups: Names = ()


class EndedMember(Struct, frozen=True, array_like=True):
    id: MemberId
    successor: Group | None = None  # it is in this one since, as the same member


class GroupEnded(BranchMessage, frozen=True, tag=250):
    """The group is over, for these members of one host."""

    group: Group
    host: Domain
    id: ViewId
    why: Annotated[str, Meta(max_length=TEXT_MAX)]
    members: Annotated[tuple[EndedMember, ...], Meta(max_length=MEMBERS_MAX)]
    group_kind: GroupKind  # of the successors
    over: bool = True  # False: these were put out, and the group goes on


class SubgroupEntered(BranchMessage, frozen=True, tag=251):
    """The group was split and goes on: these members of one host are in a subgroup of it as well."""

    group: Group
    host: Domain
    to: Group
    group_kind: GroupKind  # of the subgroup
    members: MemberIds


class GroupsFound(BranchMessage, frozen=True, tag=252):
    """Where core-sets follow members: what one set has of a list that was asked for. The list is whole when
    all of these sets have said so."""

    group: Group
    question: HostQuestion
    set: Domain
    more: Hosts = ()  # the domains of other sets that were asked
    groups: Names = ()


AnyCallMessage = GroupAsked | GroupAnswer | GroupEnded | SubgroupEntered | GroupsFound


# Between a program and its agent


class GroupCall(Request, frozen=True, tag=40):
    group: Group
    call: AnyCall


class DrainHost(Request, frozen=True, tag=41):
    """The members of this host go behind all others in their agreed groups (`draining.py`). With `look`, only
    say which groups that concerns."""

    look: bool = False


class DrainedGroup(Struct, frozen=True, array_like=True):
    """A group with members here and elsewhere."""

    group: Group
    first: bool  # a member of this host has, or had, rank 0
    level: Number  # the highest of members here
    others: Number  # and of members elsewhere
    refused: Annotated[str, Meta(max_length=TEXT_MAX)] = ""  # why, if it was


class HostDrained(Said, frozen=True, tag=41):
    groups: Annotated[tuple[DrainedGroup, ...], Meta(max_length=GROUPS_MAX)] = ()


# An administrator's changes of sets (`administration.py`)


class SetVerb(IntEnum):
    LOOK = 0
    JOIN = 1
    LEAVE = 2
    SPLIT = 3
    MERGE = 4
    ADD_PARENT = 5
    DEL_PARENT = 6


class AdministerSet(Request, frozen=True, tag=42):
    """`servers`: who joins or leaves; of a split, the first side; of a merge, one server of another part, or
    none: all parts in sight."""

    set: Domain
    verb: SetVerb
    servers: tuple[Domain, ...] = ()
    names: tuple[Annotated[str, check_text], ...] = ()  # of the sides of a split


class SetServer(Struct, frozen=True, array_like=True):
    server: Domain
    is_parent: bool
    level: Number = 0


class SetShown(Said, frozen=True, tag=42):
    """A part of a set, as the server that was asked is in it."""

    set: Domain
    part: str  # its name, if it is a set of its own since; otherwise empty
    number: Number  # of its view
    servers: Annotated[tuple[SetServer, ...], Meta(max_length=SET_MEMBERS_MAX)] = ()
    outside: Annotated[tuple[Domain, ...], Meta(max_length=SET_MEMBERS_MAX)] = ()  # linked, in other parts


class GroupPresented(Said, frozen=True, tag=40):
    state: GroupState | None = None
    groups: Names = ()


class MemberMoved(Item, frozen=True, tag=40):
    """The group was split or merged: this member is in that one since, and is given its views."""

    to: Group
    because: str


class MemberAdded(Item, frozen=True, tag=42):
    """The group was split and goes on: this member is in that subgroup as well, and has its views as soon as
    it joins it."""

    to: Group
    because: str


class GroupTerminated(Item, frozen=True, tag=41):
    """It was deleted."""

    because: str
