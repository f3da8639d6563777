"""Messages between the host of a member and a server of its group's core-set, along one branch of the tree.

    agent ── MemberAsked ───▶ cluster ──▶ ... ──▶ core-set     join, leave, crash; sent again until answered
    agent ◀── MemberAnswer ── cluster ◀── ... ◀── core-set
    agent ◀── ViewTold ────── cluster ◀── ... ◀── core-set     once per host, as a difference
    agent ── ViewTaken ─────▶ cluster ──▶ ... ──▶ core-set
    agent ── HostHolds ─────▶ cluster ──▶ ... ──▶ core-set     after a new link: what this host has

    server ── BranchLost ───▶ parent ──▶ ...                   a host or domain below is lost
    server ── BranchCut ────▶ children ──▶ agents              its parent is lost, and the core-sets beyond it
    server ── HoldingsAsked ▶ children ──▶ agents              its parent is back: send `HostHolds`
    server ── ReopenAsked ──▶ server of another part           an administrator wants one set of them

    agent ◀── HolderAsked ─── cluster ◀── ... ◀── core-set     a group stands still: what have you of it?

    agent ── LeaseAsked ────▶ cluster ──▶ ...                  may members that live go on? (`lease.py`)
    agent ◀── LeaseGiven ──── cluster
    server ── ConfirmAsked ─▶ server of its set                am I in your set yet?
    server ◀── LeaseConfirmed ─ server

In a group whose scope is a cluster, that cluster's server is the core-set, and nothing goes farther.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Group
from rostra.protocols.agreed.changes import MEMBERS_MAX, TRIED_MAX, GroupVerb, MemberId, Number, Pid
from rostra.protocols.agreed.groups import APART_MAX, AgreedMember, MemberIds

TEXT_MAX: Final = 256

ABOVE_MAX: Final = 64
"""Servers one above the other."""

ViewId = tuple[Number, Number, Pid | None]
"""Number, revision, and the proposal that made the number."""

ViewMembers = Annotated[tuple[AgreedMember, ...], Meta(max_length=MEMBERS_MAX)]
Hosts = Annotated[tuple[Domain, ...], Meta(max_length=MEMBERS_MAX)]


class BranchMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class HostQuestion(Struct, frozen=True, order=True, array_like=True, gc=False):
    """Names a question of an agent for ever: asked twice, it is done once."""

    host: Domain
    life: Number  # of the agent
    number: Number

    def __str__(self) -> str:
        return f"{self.host}:{self.life}:{self.number}"


class MemberAsked(BranchMessage, frozen=True, tag=224):
    """A change that a host asks for, of members of its own."""

    group: Group
    question: HostQuestion
    verb: GroupVerb  # JOIN | LEAVE | FAIL
    members: ViewMembers
    group_kind: GroupKind


class MemberAnswer(BranchMessage, frozen=True, tag=225):
    """What became of it: `code` is empty, or of the error that the program gets."""

    group: Group
    question: HostQuestion
    code: Annotated[str, Meta(max_length=TEXT_MAX)] = ""
    why: Annotated[str, Meta(max_length=TEXT_MAX)] = ""


class ViewTold(BranchMessage, frozen=True, tag=226):
    """A view, for these hosts. With a base it is the difference from that: `members` are those who joined, in
    order of rank, and all others are gone. Without one, `members` are all."""

    group: Group
    hosts: Hosts
    id: ViewId
    base: ViewId | None
    members: ViewMembers
    left: MemberIds = ()
    failed: MemberIds = ()
    fence: Number = 0  # of this view, or of the last that lived
    blocked: Annotated[str, Meta(max_length=TEXT_MAX)] = ""  # why this side must not go on; empty: it lives
    parts: Annotated[tuple[MemberIds, ...], Meta(max_length=APART_MAX)] = ()  # that merged
    lived: MemberIds = ()  # if it is blocked: the members of the last view that lived
    returned: Annotated[tuple[tuple[MemberId, Number], ...], Meta(max_length=MEMBERS_MAX)] = ()
    """Members that were out of a living view before: each with the fence with which it was back."""
    lost: Hosts = ()  # domains with members in this view, or in `failed`, that the server cannot reach


class ViewTaken(BranchMessage, frozen=True, tag=227):
    """This host has the view; or it lacks the base, and needs it whole."""

    group: Group
    host: Domain
    id: ViewId
    whole: bool = False


class HostHolds(BranchMessage, frozen=True, tag=228):
    """The members of a group on this host, and the last view that they had. A server that lost its state has
    it back from these (C-023 does the same for relaxed groups)."""

    group: Group
    question: HostQuestion
    members: ViewMembers
    group_kind: GroupKind
    id: ViewId | None = None
    view: ViewMembers = ()
    fence: Number = 0  # of the last view that lived
    lived: MemberIds = ()  # and its members


class BranchLost(BranchMessage, frozen=True, tag=229):
    domain: Domain


class BranchCut(BranchMessage, frozen=True, tag=230):
    """The server of this domain has lost its parent."""

    domain: Domain


class HoldingsAsked(BranchMessage, frozen=True, tag=231):
    """Send `HostHolds`: of all groups, or of one that has come to another core-set, these hosts."""

    domain: Domain
    group: Group | None = None
    hosts: Hosts = ()


class ReopenAsked(BranchMessage, frozen=True, tag=232):
    """An administrator wants the parts of this set to become one (`administration.py`)."""

    set: Domain
    request: Annotated[str, Meta(max_length=TEXT_MAX)]


class LeaseAsked(BranchMessage, frozen=True, tag=240):
    number: Number  # the asker knows when it asked


class LeaseGiven(BranchMessage, frozen=True, tag=241):
    """From the moment of the question on, for so long no other side goes on without the asker. One figure for
    groups with a core-set that this server is in, the next one for those that its parent is in, and so on."""

    number: Number
    lasts_ms: Annotated[tuple[Number, ...], Meta(max_length=ABOVE_MAX)]


class ConfirmAsked(BranchMessage, frozen=True, tag=242):
    set: Domain
    life: Number  # of the asker, in that set
    number: Number


class LeaseConfirmed(BranchMessage, frozen=True, tag=243):
    """The asker is in my set, and for `doubt_after_s` from now on I do without it in no change."""

    set: Domain
    life: Number
    number: Number
    base: Pid  # my last commit
    tried: Annotated[tuple[Pid, ...], Meta(max_length=TRIED_MAX + 1)] = ()
    """What I acknowledged since, and may be committed: the asker counts my word if it knows of all."""


class HolderAsked(BranchMessage, frozen=True, tag=244):
    """Send `HostHolds` of this group, also if you hold nothing of it: it waits for members of yours."""

    group: Group
    hosts: Hosts
    group_kind: GroupKind


class ViewComing(BranchMessage, frozen=True, tag=245):
    """A view without these members is proposed, and these hosts should prepare (`coming.py`)."""

    group: Group
    hosts: Hosts
    base: ViewId
    pid: Pid
    gone: MemberIds


AnyBranchMessage = (
    MemberAsked
    | MemberAnswer
    | ViewTold
    | ViewTaken
    | HostHolds
    | BranchLost
    | BranchCut
    | HoldingsAsked
    | ReopenAsked
    | HolderAsked
    | ViewComing
    | LeaseAsked
    | LeaseGiven
    | ConfirmAsked
    | LeaseConfirmed
)
