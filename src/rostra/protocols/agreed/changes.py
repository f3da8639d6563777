"""Proposals, rounds (in Paxos: ballots) and commit records of a set of servers.

    Pid          names a proposal: its creator, and the creator's counter
    Proposal     a change, on the commit that it follows (its base), with its priority
    Round        one coordinator's try to get a proposal committed; the first is the creator's own
    CommitRecord a proposal that was committed: in which round, and whom that round went on without

Everything here is a frozen value and travels as it is.

Where we differ from the paper, and why:

- A proposal that was withdrawn comes back under a new `Pid`, since it follows another commit then. That two
  proposals are of one event is seen from the event itself (`same_event`).
"""

from collections.abc import Iterable
from enum import IntEnum
from functools import cached_property
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.config import SET_MEMBERS_MAX

MEMBERS_MAX: Final = 4_096
"""Of one agreed group."""

DATA_BYTES_MAX: Final = 1 << 16
"""Attributes in one change."""

TRIED_MAX: Final = 256
"""Proposals on one base, of which one can be committed."""

ATTEMPT_MAX: Final = 1 << 32
"""At one proposal: each attempt but the first costs the set a server."""

FENCE_MAX: Final = 3 << 60
"""That a change can ask for its view to be above. A message can have a third more."""

PART_BYTES_MAX: Final = 8 << 20
"""A group on its way to another core-set."""

WANTED_MAX: Final = 256
"""Changes that wait for a group to come."""

Number = Annotated[int, Meta(ge=0, le=2**62)]
Data = Annotated[bytes, Meta(max_length=DATA_BYTES_MAX)]
SetName = Annotated[str, Meta(max_length=1024)]


class ServerId(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One life of a server. A server that kept its state through a failover is in the same life (V-019)."""

    server: Domain
    life: Number

    def __str__(self) -> str:
        return f"{self.server}:{self.life}"


Servers = Annotated[tuple[ServerId, ...], Meta(max_length=SET_MEMBERS_MAX)]


class Pid(Struct, frozen=True, order=True, array_like=True, gc=False):
    creator: ServerId
    count: Number

    def __str__(self) -> str:
        return f"{self.creator}#{self.count}"


# A view of the set


class SetMember(Struct, frozen=True, array_like=True):
    id: ServerId
    joined: Number = 0  # the number of the view in which it joined; 0 of those that founded the set
    place: Number = 0  # of founders: in the configuration
    parent: bool = False  # it is the server of the domain whose children the others are (V-003)
    level: Number = 0  # which changes it knows of (`config.SET_LEVEL`); 0 of one that says nothing about it

    @property
    def gid(self) -> tuple[int, int, ServerId]:
        """Its seniority for ever: unique over partitions, because its own identity is in it (V-095)."""
        return self.joined, self.place, self.id


class SetView(Struct, frozen=True, array_like=True, dict=True):
    """The servers of a set in order of seniority. `pid` is the proposal that made it."""

    number: Number
    pid: Pid
    members: Annotated[tuple[SetMember, ...], Meta(min_length=1, max_length=SET_MEMBERS_MAX)]

    @cached_property
    def servers(self) -> tuple[ServerId, ...]:
        return tuple([member.id for member in self.members])

    def rank(self, server: ServerId) -> int:
        return self.servers.index(server)

    @property
    def level(self) -> int:
        """What all of them know of. It changes with the view, and so by agreement alone."""
        return min([member.level for member in self.members])

    def without(self, gone: frozenset[ServerId]) -> tuple[SetMember, ...]:
        return tuple([member for member in self.members if member.id not in gone])


# Changes


class Change(Struct, frozen=True, array_like=True, tag_field="change"):
    """An event that a set agrees on. Its order among others is `Priority`'s. Tag 2 stays free: it was for one
    server that leaves, which is a `SetSplit`."""


class ServersFailed(Change, frozen=True, tag=1):
    """These servers are out of reach: all of them that the coordinator knows of, as one batch (V-063)."""

    failed: Servers


class SetPart(Struct, frozen=True, array_like=True):
    """A part of a set, as it stands after its last commit."""

    view: SetView
    slot: Number
    base: Pid


class PartsMerged(Change, frozen=True, tag=3):
    """Parts of one set become one again; or servers that started find each other, each a part of itself alone
    (V-105). What it follows differs from part to part: `follows`."""

    parts: Annotated[tuple[SetPart, ...], Meta(min_length=2, max_length=SET_MEMBERS_MAX)]


class PartGaveUp(Change, frozen=True, tag=4):
    """This part met no other for `reform_s`, and is a set of its own from now on (V-107)."""

    number: Number  # of its view: one that changes meanwhile is asked again


class PartReopened(Change, frozen=True, tag=5):
    """An administrator lets it look for other parts again (V-008: Merge)."""

    request: Annotated[str, Meta(max_length=256)]


class SetSplit(Change, frozen=True, tag=6):
    """An administrator makes two sets of one (V-009). Each side goes on as if it had lost the other
    (`side_of`). A side with a name looks for no other; one without goes on under the name that it has."""

    first: Servers
    second: Servers
    names: tuple[SetName, SetName]
    own: Pid  # names what the second side makes of this commit: two lists have no id in common


class LevelRaised(Change, frozen=True, tag=7):
    """A server that is the same member as before is of a later version now."""

    server: ServerId
    level: Number


class GroupVerb(IntEnum):
    CREATE = 1
    DELETE = 2
    JOIN = 3
    LEAVE = 4
    FAIL = 5
    ATTRIBUTES = 6
    BACK = 7  # these members go behind all others (`seniority.py`)
    ORDER = 16  # `data` says what (`orders.py`)


class MemberId(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One membership: an endpoint that joins again has another stamp, and is another member."""

    endpoint: Endpoint
    stamp: tuple[Number, Number]  # given by its agent (`groups.members.Stamp`)


class GroupChange(Change, frozen=True, tag=16):
    """A change of one group, as its members see it; what it means is for `groups.py` to say."""

    group: Group
    verb: GroupVerb
    members: Annotated[tuple[MemberId, ...], Meta(max_length=MEMBERS_MAX)]
    request: Annotated[str, Meta(max_length=256)]  # names who asked, and its question: asked twice, done once
    seniority: Number = 0  # of members that leave or failed: their lowest rank
    data: Data = b""
    kind: GroupKind | None = None  # of a group that is created, or may be by this join (V-056)
    fence: Number = 0  # of a view that lives after this: above this


# Where a group is (`moves.py`)


class PlaceStep(IntEnum):
    POINT = 1  # the mover's branch has the group; or, with a change, is to have it
    UNPOINT = 2  # it has it no more
    WANT = 3  # this set is to have it, and to make this change
    HAND = 4  # the group is about to go to the other set of the mover
    TAKE = 5  # it has come from there
    DROP = 6  # the other set has it
    HELD = 7  # hosts below the mover hold it, and it is not here


class GroupPlaced(Change, frozen=True, tag=17):
    """A step of a group on its way from one core-set to another."""

    group: Group
    step: PlaceStep
    mover: ServerId  # which is in both sets: of the upper one a server, of the lower one the parent
    asked: GroupChange | None = None
    part: Annotated[bytes, Meta(max_length=PART_BYTES_MAX)] = b""  # the group, as `moves.encode_part` has it


class GroupPlace(Struct, frozen=True, array_like=True):
    """What a set knows of a group that it does not have, or is about to hand on."""

    below: Annotated[tuple[Domain, ...], Meta(max_length=SET_MEMBERS_MAX)] = ()  # branches that have it
    wanted: Annotated[tuple[GroupChange, ...], Meta(max_length=WANTED_MAX)] = ()  # to be made here
    pull: bool = False  # it is to come here, though for no change
    mover: ServerId | None = None  # who is about to take it to its other set


AnyChange = (
    ServersFailed
    | PartsMerged
    | PartGaveUp
    | PartReopened
    | SetSplit
    | LevelRaised
    | GroupChange
    | GroupPlaced
)


def same_event(one: AnyChange, other: AnyChange) -> bool:
    """The same event, known to two servers or proposed twice: it is committed once (V-022)."""
    match one, other:
        case GroupChange(), GroupChange():
            return (one.group, one.verb, one.members, one.request) == (
                other.group,
                other.verb,
                other.members,
                other.request,
            )
    return one == other


def is_kept(change: AnyChange) -> bool:
    """Failures are seen from the state, again if need be."""
    return not isinstance(change, ServersFailed | PartsMerged)


def still_matters(change: AnyChange, view: SetView) -> bool:
    match change:
        case PartGaveUp(number):
            return number == view.number
        case LevelRaised(server, level):
            return any(each.id == server and each.level < level for each in view.members)
        case SetSplit(first, second):
            return bool(first and second) and sorted((*first, *second)) == sorted(view.servers)
    return True


class Priority(Struct, frozen=True, order=True, array_like=True, gc=False):
    """Of two changes on one base the lesser goes first (V-066). All servers compare the same values, because
    they travel with the proposal.

    Changes of the set go before those of groups: first a whole set, then its users. Failures go before
    requests, for a set with dead members slows all other changes; leaving before joining. A change that was
    put off gets older (V-068), and passes only others of its own kind.
    """

    layer: Number  # 0 the set, 1 a group
    other: Number  # 0 if the coordinator of the last change failed, 1 otherwise
    kind: Number  # 0 failure, 1 leave and delete, 2 join, create and attributes
    minus_deferrals: Annotated[int, Meta(ge=-(2**62), le=0)]
    seniority: Number  # rank of the most senior subject
    address: str  # of the subject of a join: the lower one is first
    rank: Number  # of the coordinator
    count: Number  # the coordinator's


_GROUP_KINDS: Final = {
    GroupVerb.FAIL: 0,
    GroupVerb.LEAVE: 1,
    GroupVerb.DELETE: 1,
    GroupVerb.JOIN: 2,
    GroupVerb.CREATE: 2,
    GroupVerb.ATTRIBUTES: 2,
    GroupVerb.BACK: 1,
    GroupVerb.ORDER: 2,
}


def priority_of(
    change: AnyChange, view: SetView, pid: Pid, *, deferrals: int = 0, failed_coordinator: bool = False
) -> Priority:
    rank = view.rank(pid.creator)
    match change:
        case ServersFailed(failed):
            senior = min([view.rank(each) for each in failed])
            return Priority(0, int(not failed_coordinator), 0, -deferrals, senior, "", rank, pid.count)
        case SetSplit():
            return Priority(0, 1, 1, -deferrals, 0, "", rank, pid.count)
        case PartsMerged():
            return Priority(0, 1, 2, -deferrals, 0, pid.creator.server, rank, pid.count)
        case PartGaveUp() | PartReopened() | LevelRaised():
            return Priority(0, 1, 2, -deferrals, 0, "", rank, pid.count)
        case GroupPlaced(group):
            return Priority(1, 1, 2, -deferrals, 0, group.name, rank, pid.count)
        case GroupChange(_, verb, members, _, seniority):
            kind = _GROUP_KINDS[verb]
            address = members[0].endpoint if verb is GroupVerb.JOIN and members else ""
            return Priority(1, 1, kind, -deferrals, seniority, address, rank, pid.count)


# Proposals


class Proposal(Struct, frozen=True, array_like=True):
    pid: Pid
    slot: Number  # its place in the sequence of commits, if it is committed
    base: Pid  # the commit that it follows
    change: AnyChange
    priority: Priority
    lane: bool = False  # it is of one group, and follows the last commit of that group's lane (`lanes.py`)


class Round(Struct, frozen=True, order=True, array_like=True, gc=False):
    pid: Pid
    attempt: Number
    coordinator: ServerId


def is_round_of(proposal: Proposal, round: Round) -> bool:
    """Of this proposal, and one that elections can come to: the next is counted on from it."""
    return round.pid == proposal.pid and round.attempt <= ATTEMPT_MAX


class CommitRecord(Struct, frozen=True, array_like=True):
    proposal: Proposal
    round: Round
    cut: Servers = ()
    """Whom the coordinator went on without: who applies this isolates them, who is among them does not apply
    it."""
    absent: Servers = ()
    """Whose members do not count when a group's rule is asked: the cut of who committed it first. A record
    that completes it after an election has the same."""
    tried: Annotated[tuple[Proposal, ...], Meta(max_length=TRIED_MAX)] = ()
    """Other proposals on this base that were acknowledged by servers that acknowledged this one. They may be
    committed elsewhere (`rules.py`: attempts)."""


def joined_by_pid(some: Iterable[Proposal], others: Iterable[Proposal]) -> tuple[Proposal, ...]:
    known = {each.pid: each for each in (*some, *others)}
    return tuple([known[pid] for pid in sorted(known)])[:TRIED_MAX]


def view_after(view: SetView, proposal: Proposal) -> SetView:
    """A pure function of the view and the change: every server comes to the same."""
    match proposal.change:
        case ServersFailed(failed):
            return SetView(view.number + 1, proposal.pid, view.without(frozenset(failed)))
        case PartsMerged(parts):
            return merged_view(parts, proposal.pid)
        case LevelRaised(server, level):
            raised = [replace(each, level=level) if each.id == server else each for each in view.members]
            return SetView(view.number + 1, proposal.pid, tuple(raised))
        case PartGaveUp() | PartReopened() | SetSplit() | GroupChange() | GroupPlaced():
            return view


def name_of_part(name: str, view: SetView) -> str:
    """The name of a part that is a set of its own: the name that it had, and its lowest gid. Each part
    computes its own; they differ, for no server is in two of them (V-108)."""
    senior = view.members[0]
    return f"{name}#{senior.joined}.{senior.id.server.replace('.', '-')}"


def merged_view(parts: tuple[SetPart, ...], pid: Pid) -> SetView:
    """All servers of all parts in order of seniority, with a number above all of theirs (V-104, V-105). One
    that was alone since it started joins, and goes last; if all of them were, they found the set."""
    number = max([part.view.number for part in parts]) + 1
    members: list[SetMember] = []
    for part in parts:
        is_new = part.view.number == 0 < number - 1
        members += [replace(each, joined=number) if is_new else each for each in part.view.members]
    return SetView(number, pid, tuple(sorted(members, key=lambda each: each.gid)))


def side_of(record: CommitRecord, server: ServerId) -> CommitRecord:
    """A commit as this server applies it: for each side a split is the loss of the other."""
    change = record.proposal.change
    if not isinstance(change, SetSplit):
        return record
    is_first = server in change.first
    lost = change.second if is_first else change.first
    pid = record.proposal.pid if is_first else change.own
    gone = tuple(sorted({*record.absent, *lost}))
    proposal = replace(record.proposal, pid=pid, change=ServersFailed(lost))
    return replace(record, proposal=proposal, absent=gone)


def sides(record: CommitRecord) -> tuple[CommitRecord, ...]:
    """What servers may make of it: of a split, each side its own. It may be another server's word: a
    side without servers makes nothing."""
    change = record.proposal.change
    if not isinstance(change, SetSplit):
        return (record,)
    return tuple([side_of(record, side[0]) for side in (change.first, change.second) if side])


def part_of(proposal: Proposal, server: ServerId) -> SetPart | None:
    """The part that this server brings into a merge; none if this is no merge, or not one of its own."""
    if isinstance(proposal.change, PartsMerged):
        for part in proposal.change.parts:
            if server in part.view.servers:
                return part
    return None


def follows(proposal: Proposal, server: ServerId) -> Pid:
    """The commit that a proposal follows, at this server."""
    part = part_of(proposal, server)
    return proposal.base if part is None else part.base


def lane_of(proposal: Proposal) -> Group | None:
    """The group whose lane it is in; none of the whole set's."""
    change = proposal.change
    return change.group if proposal.lane and isinstance(change, GroupChange) else None


def bases(proposal: Proposal) -> frozenset[Pid]:
    """The commits that a proposal follows. Of two proposals with a base in common, at most one is committed
    in one partition."""
    if isinstance(proposal.change, PartsMerged):
        return frozenset([part.base for part in proposal.change.parts])
    return frozenset([proposal.base])
