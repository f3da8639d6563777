"""Where a server stands in a set: one frozen value, and the phases of a change.

              ┌──── Initiate: Ack ────▶ Locked ────────────── Commit ──────────▶ Idle
Idle, Holding ┤                          │   ▲ ▲                                  ▲
              └── own change ──▶ Coordinating │ └── another won ──┐               │
                                     │   │    └─ a better one: Yield, Ack         │
                                     │   └──────── all acked or isolated: Commit ─┤
                                     └ Yield: Holding                             │
               Locked ── its coordinator failed ──▶ Electing ──┬─ won: Coordinating, or
                                                               └─ one has committed: Commit

Idle, Holding ── SetProbe of a senior part: Offer ──▶ Offering ── the merge's Initiate: Ack ──▶ Locked
"""

from typing import Final

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.names import Domain, Group
from rostra.protocols.agreed.changes import (
    FENCE_MAX,
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupPlaced,
    LevelRaised,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetMember,
    SetPart,
    SetSplit,
    SetView,
    merged_view,
    still_matters,
)
from rostra.protocols.agreed.config import SET_LEVEL
from rostra.protocols.agreed.groups import CarriedGroups, GroupTable
from rostra.protocols.agreed.messages import AgreementStatus

NOBODY: frozenset[ServerId] = frozenset()

PARENT_COUNT: Final = 1 << 40
"""A server that is in two sets counts its proposals in the lower one from here: a group that moves between
them has views of both, and no two of them have one id."""


class Idle(Struct, frozen=True):
    """No change is in progress here."""


class Holding(Struct, frozen=True):
    """Nor is one here; but before we start our own, another server may: the one that we yielded to, or the
    first of those who saw a failure."""

    behind: int = 0  # how many are before us; 0 if we yielded
    gathers: bool = False  # until others have said whom they lost, too (`cut.py`)


class Coordinating(Struct, frozen=True):
    """Phase one of our own round. Its proposal is our lock."""

    proposal: Proposal
    round: Round
    acked: frozenset[ServerId] = NOBODY
    busy: frozenset[ServerId] = NOBODY  # since we asked last: they live
    yielded: tuple[Round, ...] = ()  # of others, in our favour
    times: int = 0  # asked again
    tried: tuple[Proposal, ...] = ()  # by those who acknowledged


class Locked(Struct, frozen=True):
    """We acknowledged, and wait for phase two. A merge has its groups in `SetState.carried`."""

    proposal: Proposal
    round: Round
    times: int = 0  # asked again
    since: int = 0  # the attempt that we acknowledged first


class Electing(Struct, frozen=True):
    """The coordinator of the round that we are locked on failed. How do the others stand?"""

    proposal: Proposal
    round: Round  # the one that failed
    unaware: frozenset[ServerId] = NOBODY
    acked: frozenset[ServerId] = NOBODY
    committed: frozenset[ServerId] = NOBODY
    record: CommitRecord | None = None  # of one who committed
    times: int = 0  # asked again
    since: int = 0  # the attempt that we acknowledged first

    @property
    def heard(self) -> frozenset[ServerId]:
        return self.unaware | self.acked | self.committed

    def with_status(self, who: ServerId, status: AgreementStatus, record: CommitRecord | None) -> "Electing":
        told = frozenset([who])
        return Electing(
            self.proposal,
            self.round,
            self.unaware - told if status is not AgreementStatus.UNAWARE else self.unaware | told,
            self.acked - told if status is not AgreementStatus.ACKED else self.acked | told,
            self.committed - told if status is not AgreementStatus.COMMITTED else self.committed | told,
            record or self.record,
            self.times,
            self.since,
        )


class Offering(Struct, frozen=True):
    """We offered our part to a senior one. No lock: until its merge comes, we start nothing, and let no
    server change a group."""

    to: ServerId
    is_sent: bool = True  # or waits until no lane is locked here


Phase = Idle | Holding | Coordinating | Locked | Electing | Offering


def lock_of(phase: Phase) -> tuple[Proposal, Round] | None:
    match phase:
        case Coordinating(proposal, round) | Locked(proposal, round) | Electing(proposal, round):
            return proposal, round
    return None


class PartOffer(Struct, frozen=True):
    """A part that is to merge into ours, and its groups."""

    part: SetPart
    groups: CarriedGroups = ()

    @property
    def speaker(self) -> ServerId:
        return self.part.view.servers[0]


class Remembered(Struct, frozen=True):
    """A change that another server initiated and that is not committed. If that server is lost, we propose it
    ourselves (V-088)."""

    proposal: Proposal
    round: Round
    keeper: ServerId  # who told us, and looks after it as long as we can reach it
    is_open: bool  # it is its coordinator, and waits for our acknowledgement


class QueuedChange(Struct, frozen=True):
    change: AnyChange
    deferrals: int = 0

    def put_off_by(self, lane: Group | None) -> "QueuedChange":
        """After a commit in this lane."""
        is_next = lane is None or (isinstance(self.change, GroupChange) and self.change.group == lane)
        return QueuedChange(self.change, self.deferrals + is_next)


class ChangeLane(Struct, frozen=True):
    """What changes of one group, or of the whole set, follow, and the one that is in progress."""

    base: Pid
    slot: int
    last: CommitRecord | None = None
    phase: Phase = Idle()
    withdrawn: tuple[Round, ...] = ()

    @property
    def lock(self) -> tuple[Proposal, Round] | None:
        return lock_of(self.phase)

    @property
    def coordinator(self) -> ServerId | None:
        return None if self.lock is None else self.lock[1].coordinator


class SetState(Struct, frozen=True):
    me: ServerId
    view: SetView
    slot: int
    base: Pid  # our last commit
    last: CommitRecord | None = None  # and all about it
    phase: Phase = Idle()
    remembered: tuple[Remembered, ...] = ()
    isolated: frozenset[ServerId] = NOBODY  # of the view, by us: no word to them nor from them (V-090)
    evidence: tuple[tuple[ServerId, frozenset[ServerId]], ...] = ()  # whom others have isolated, as they say
    accused_since: Instant | None = None  # when we isolated the first of this view
    queue: tuple[QueuedChange, ...] = ()
    count: int = 0  # of our proposals
    withdrawn: tuple[Round, ...] = ()  # our own, on this base
    tried: tuple[Proposal, ...] = ()  # acknowledged on this base and not withdrawn, if rules ask for it
    linked: frozenset[Domain] = frozenset()
    table: GroupTable = GroupTable()  # what our commits made of groups
    offers: tuple[PartOffer, ...] = ()  # of junior parts, to us as the speaker of ours
    probed_by: ServerId | None = None  # a senior part's speaker, during a change: we offer our part after it
    carried: CarriedGroups = ()  # of the other part of the merge on which we are locked
    merged: int = 0  # the number of the view that the last merge made
    over: tuple[Pid, ...] = ()  # merges that will not be: called off, or declined by us
    probes: bool = False  # the timer for the next probe runs
    apart_since: Instant | None = None  # we lost servers, and have met none since
    gave_up: str = ""  # our name since then, as a set of its own
    at: Group | None = (
        None  # within a step: the lane that `slot`, `base`, `last`, `phase`, `withdrawn` are of
    )
    lanes: tuple[tuple[Group | None, ChangeLane], ...] = ()  # all others that are not as the whole set's
    passed: int = 0  # by others' changes of the whole set, since one of our own was committed

    @property
    def lane(self) -> ChangeLane:
        """The one that we are at."""
        return ChangeLane(self.base, self.slot, self.last, self.phase, self.withdrawn)

    @property
    def whole(self) -> ChangeLane:
        """The lane of the set as a whole."""
        return self.lane if self.at is None else dict(self.lanes)[None]

    @property
    def locks(self) -> tuple[tuple[Proposal, Round], ...]:
        """The locks of all lanes."""
        others = [lane.lock for _, lane in self.lanes]
        return tuple([lock for lock in (self.lock, *others) if lock is not None])

    @property
    def merging(self) -> SetView | None:
        """What comes of the merge on which we are locked."""
        lock = self.whole.lock if self.at is not None else self.lock
        if lock is None or not isinstance(lock[0].change, PartsMerged):
            return None
        return merged_view(lock[0].change.parts, lock[0].pid)

    @property
    def electorate(self) -> tuple[ServerId, ...]:
        """The servers that take part in the change on which we are locked, in order of seniority: for a
        merge, those of both parts."""
        return (self.merging or self.view).servers

    @property
    def number(self) -> int:
        return (self.merging or self.view).number

    @property
    def part(self) -> SetPart:
        """As it stands: commits in lanes count as slots, so that a part whose groups have changed is not the
        one that was offered."""
        slot = self.slot + sum([lane.slot - self.slot for _, lane in self.lanes])
        return SetPart(self.view, slot, self.base)

    @property
    def rank(self) -> int:
        return self.view.rank(self.me)

    @property
    def lock(self) -> tuple[Proposal, Round] | None:
        return lock_of(self.phase)

    def locked_since(self, pid: Pid) -> int | None:
        """The attempt at this change that we acknowledged first, if we are locked on it."""
        match self.phase:
            case Locked(proposal, since=since) | Electing(proposal, since=since) if proposal.pid == pid:
                return since
            case Coordinating(proposal, round) if proposal.pid == pid:
                return max(0, round.attempt - 1)
        return None


def founded(me: ServerId, members: SetView) -> SetState:
    """A set as it begins, at one of its founders."""
    return SetState(me, members, slot=0, base=members.pid)


def alone(me: ServerId, *, place: int = 0, parent: bool = False, level: int = SET_LEVEL) -> SetState:
    """A server that started: a set of itself alone, until it meets others."""
    view = SetView(0, Pid(me, 0), (SetMember(me, 0, place, parent, level),))
    return SetState(me, view, slot=0, base=view.pid, count=PARENT_COUNT if parent else 1)


def deadline(phase: Phase) -> tuple[object, ...]:
    """What a wait is for: while this stays the same, the timer runs on."""
    match phase:
        case Holding(behind, gathers):
            return Holding, behind, gathers
        case Coordinating(round=round, times=times) | Locked(round=round, times=times):
            return type(phase), round, times
        case Electing(round=round, times=times):
            return Electing, round, times
        case Offering(to, is_sent):
            return Offering, to, is_sent
    return (Idle,)


def concerns_us(proposal: Proposal, state: SetState) -> bool:
    """May we agree to it? Not to our own removal, nor to a proposal that makes no sense in our view."""
    match proposal.change:
        case ServersFailed(failed):
            return bool(failed) and state.me not in failed and set(failed) < set(state.view.servers)
        case SetSplit() | LevelRaised():
            return still_matters(proposal.change, state.view)
        case GroupChange(fence=fence) | GroupPlaced(asked=GroupChange(fence=fence)):
            return fence <= FENCE_MAX
    return True
