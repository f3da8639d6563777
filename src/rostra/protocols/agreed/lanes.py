"""Lanes: changes of different groups that one set agrees on at the same time.

    paper     | chess 1 | chess 2 | radio 1 | failure | radio 2 |            one change after the other
    lanes     | chess 1 | chess 2 | chess 3 |
              | radio 1 | radio 2 |         | failure | radio 3 |            the failure is of the whole set

Lock, base and slot are of a lane: one for each group that changes, and one of the whole set. A change in the
lane of a group is in conflict with others of that lane, and with all of the whole set; so is a change of the
whole set with every other. What `core.py` argues about two changes on one base holds for each lane by itself.
For the whole set it needs two rules more:

1. A server acknowledges or commits a change of the whole set only while none of its lanes is locked.
2. Until that change is committed or withdrawn it locks no lane, and answers `Busy` on its behalf.

Then **two servers that commit one change of the whole set, and have not isolated each other, have committed
the same in every lane before it.** Suppose s has p in a lane, and t has not. t is not in the cut of p, or s
had isolated it; so t acknowledged p, and was released by an election, since p was not withdrawn. s took no
part in that, or t would know of p; so t isolated s when it followed the winner (`Initiate.cut`).

There is no deadlock: a coordinator in a lane that receives a change of the whole set withdraws its round, and
repeats it later. A change of the whole set ends all lanes: the next change of each group is based on it.
Slots of the whole set are `ERA` apart, so that the slot of a lane is never above a later one of the set.

The coordinator chooses the lane of a change (`Proposal.lane`): joins, leaves, failures and attributes of
groups without a rule for partitions, subgroups or a place in another set. A change of several groups is of
the whole set. So is any change when all lanes are in use, when groups are to be forgotten, or when changes of
others went first too often (V-068).
"""

from typing import Final

from msgspec.structs import replace

from rostra.core.effects import CancelTimer, SetTimer, TimerKey
from rostra.groups.kinds import GroupKind
from rostra.names import Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupVerb,
    Pid,
    Proposal,
    Round,
    lane_of,
    priority_of,
)
from rostra.protocols.agreed.config import LANES_LEVEL, LANES_MAX
from rostra.protocols.agreed.context import SetContext
from rostra.protocols.agreed.groups import GroupTable
from rostra.protocols.agreed.living import has_rule
from rostra.protocols.agreed.messages import (
    Ack,
    Busy,
    Collecting,
    Commit,
    CoordinatorFailed,
    Initiate,
    SetMessage,
    Stale,
    Yield,
)
from rostra.protocols.agreed.state import (
    ChangeLane,
    Coordinating,
    Electing,
    Holding,
    Idle,
    Locked,
    Offering,
    QueuedChange,
    Remembered,
    deadline,
)

ERA: Final = 1 << 32
"""Slots from one change of the whole set to the next, where there are lanes: one lane has fewer commits."""

PASSED_MAX: Final = 8
"""A server that was passed as often by others' changes of the whole set proposes its own as such, too."""

IN_LANES: Final = frozenset(
    [GroupVerb.JOIN, GroupVerb.LEAVE, GroupVerb.FAIL, GroupVerb.ATTRIBUTES, GroupVerb.BACK]
)

Obstacle = tuple[()] | tuple[Proposal, Round]
"""What goes first; empty if that has no name yet."""


def next_era(slot: int) -> int:
    return (slot // ERA + 1) * ERA


def fits_a_lane(change: AnyChange, table: GroupTable) -> bool:
    """Does it concern one group, and no rule? Whether a group has subgroups or a place is changed by the
    whole set alone: servers with one base of it, and of the lane, come to the same."""
    if not isinstance(change, GroupChange) or change.verb not in IN_LANES or table.places:
        return False
    known = table.groups.get(change.group)
    kinds = [change.kind] if known is None else [change.kind, *[part.kind for part in known.parts]]
    if any(each is not None and not _is_plain(each) for each in kinds):
        return False
    return not any(
        each.kind.within == change.group.name and name.scope == change.group.scope
        for name, each in table.groups.items()
        if each.kind.within
    )


def _is_plain(kind: GroupKind) -> bool:
    return not (has_rule(kind) or kind.within)


class Lanes(SetContext):
    """`state` is that of the whole set between steps; within one, of the lane that we are `at`."""

    # Which lane

    def _enter(self, group: Group | None) -> None:
        state = self.state
        if state.at == group:
            return
        lanes = dict(state.lanes)
        if state.at is None or not _is_fresh(state.lane, lanes[None]):
            lanes[state.at] = state.lane
        lane = lanes.pop(group, None)
        if lane is None:
            whole = lanes[None]
            lane = ChangeLane(whole.base, whole.slot, whole.last)
        order = sorted(lanes.items(), key=lambda each: (each[0] is not None, each[0] or ()))
        self.state = replace(
            state,
            base=lane.base,
            slot=lane.slot,
            last=lane.last,
            phase=lane.phase,
            withdrawn=lane.withdrawn,
            at=group,
            lanes=tuple(order),
        )

    def _all_lanes(self) -> list[Group | None]:
        """The one that we are at first."""
        return [self.state.at, *[group for group, _ in self.state.lanes]]

    def _lanes_to_settle(self) -> list[Group]:
        """In which something can be done, perhaps."""
        state, awaited = self.state, self._awaited()
        found = {lane_of(each.proposal) for each in state.remembered if each.is_open}
        for group, lane in state.lanes:
            match lane.phase:
                case Coordinating(acked=acked) if not awaited - acked or state.whole.coordinator == state.me:
                    found.add(group)
                case Electing() as phase if not awaited - phase.heard:
                    found.add(group)
        return sorted([group for group in found if group is not None])

    def _lane_of(self, message: SetMessage) -> Group | None:
        match message:
            case Initiate(proposal=proposal) | CoordinatorFailed(proposal=proposal):
                return lane_of(proposal)
            case Commit(record=record):
                return lane_of(record.proposal)
            case Ack(round=round) | Collecting(round=round) | Yield(round=round):
                return self._where(round)
            case Busy(refused=round) | Stale(refused=round):
                return self._where(round)
        return None

    def _where(self, round: Round) -> Group | None:
        """The lane in which this round is, or was the last."""
        for group, lane in ((None, self.state.whole), *self.state.lanes):
            lock, last = lane.lock, lane.last
            if lock is not None and lock[0].pid == round.pid:
                return group
            if round in lane.withdrawn or (last is not None and last.round.pid == round.pid):
                return group
        return None

    # Who goes first

    def _obstacle(self) -> Obstacle | None:
        """What a change in this lane waits for: of the whole set, for locks of lanes; in a lane, for what
        concerns the whole set."""
        state = self.state
        if state.at is None:
            return next((lock for _, lane in state.lanes if (lock := lane.lock) is not None), None)
        whole = state.whole
        if whole.lock is not None:
            return whole.lock
        for each in state.remembered:
            is_due = each.is_open and not each.proposal.lane and each.proposal.base == whole.base
            if is_due and each.round.coordinator not in state.isolated:
                return each.proposal, each.round
        return () if state.offers or isinstance(whole.phase, Offering) else None

    def _refuse(self, one: Remembered, first: Obstacle) -> None:
        """It would be the turn of this one, if it were not for a change of the whole set: its coordinator may
        not know that we wait for that."""
        if self.state.at is not None and first:
            self._send(one.round.coordinator, Busy(*self._head(), one.round, *first))
            self._remember(replace(one, is_open=False))

    def _is_done_in_lanes(self) -> bool:
        """Are there no rounds of our own, nor elections that may make one ours (V-085)?"""
        return not any(isinstance(lane.phase, Coordinating | Electing) for _, lane in self.state.lanes)

    def _next_slot(self, slot: int) -> int:
        return next_era(slot) if self.config.lanes or self.state.lanes else slot + 1

    def _is_next(self, proposal: Proposal, after: int) -> bool:
        """Has it the slot after this one?"""
        if proposal.lane:
            return proposal.slot == after + 1
        is_above = all(proposal.slot > lane.slot for _, lane in self.state.lanes)
        return is_above and proposal.slot in (after + 1, next_era(after))

    # Our own changes

    def _lane_for(self, queued: QueuedChange) -> Group | None:
        """Where to propose it."""
        state, change = self.state, queued.change
        if not self.config.lanes or state.view.level < LANES_LEVEL or len(state.view.members) == 1:
            return None
        if state.passed >= PASSED_MAX:
            return None
        if not isinstance(change, GroupChange) or not fits_a_lane(change, state.table):
            return None
        lane = dict(state.lanes).get(change.group)
        is_full = lane is None and len(state.lanes) >= self._share
        is_long = lane is not None and lane.slot + 1 >= next_era(state.slot)
        return None if is_full or is_long or state.table.must_forget else change.group

    def _passed_by(self, record: CommitRecord) -> int:
        """Where changes wait here: how often in a row others' have gone first (V-068)."""
        state = self.state
        if not self.config.lanes or not state.queue or record.proposal.pid.creator == state.me:
            return 0
        return state.passed + (not record.proposal.lane)

    @property
    def _share(self) -> int:
        """How many lanes a server opens, if others do so at the same time."""
        return max(1, self.config.lanes // len(self.state.view.members))

    def _is_for_a_lane(self, proposal: Proposal) -> bool:
        state = self.state
        is_new = _is_fresh(state.lane, state.whole)
        return fits_a_lane(proposal.change, state.table) and not (is_new and len(state.lanes) > LANES_MAX)

    def _by_priority(self) -> list[QueuedChange]:
        """Our queued changes by priority, without those whose lane is in progress; none, if all wait until
        there are fewer lanes."""
        state = self.state
        pid = Pid(state.me, state.count)
        idle = {group: isinstance(lane.phase, Idle) for group, lane in state.lanes}
        is_full = len(idle) >= self._share and not self._is_done_in_lanes()
        found = []
        for each in state.queue:
            group = each.change.group if isinstance(each.change, GroupChange) else None
            if is_full and group not in idle:
                return []
            if idle.get(group, True):
                found.append(each)
        found.sort(key=lambda each: priority_of(each.change, state.view, pid, deferrals=each.deferrals))
        return found

    # Waiting

    def lane_timer(self, group: Group | None) -> TimerKey:
        return self.timer if group is None else (*self.timer, "lane", group.name, group.scope)

    def timers(self) -> list[TimerKey]:
        """The timers of all lanes in which something is awaited."""
        state = self.state
        phases = [(state.at, state.phase), *[(group, lane.phase) for group, lane in state.lanes]]
        return [self.lane_timer(group) for group, phase in phases if not isinstance(phase, Idle)]

    def _deadlines(self) -> dict[Group | None, tuple[object, ...]]:
        state = self.state
        found = {group: deadline(lane.phase) for group, lane in state.lanes}
        return {state.at: deadline(state.phase), **found}

    def _set_timers(self, before: dict[Group | None, tuple[object, ...]]) -> None:
        after = self._deadlines()
        for group in [*before, *[each for each in after if each not in before]]:
            was, now = before.get(group, (Idle,)), after.get(group, (Idle,))
            if was == now:
                continue
            self._enter(group)
            self._out.append(self._timer_of_phase(self.lane_timer(group)))
        self._enter(None)

    def _timer_of_phase(self, timer: TimerKey) -> SetTimer | CancelTimer:
        config = self.config
        match self.state.phase:
            case Idle():
                return CancelTimer(timer)
            case Holding(gathers=True):
                since = self.state.accused_since or 0.0
                return SetTimer(timer, max(0.0, since + config.gather_s - self._now))
            case Holding(behind):
                return SetTimer(timer, behind * config.stagger_s if behind else config.defer_s)
            case Coordinating():
                return SetTimer(timer, config.ack_after_s)
            case Locked():
                return SetTimer(timer, config.commit_after_s)
            case Electing():
                return SetTimer(timer, config.status_after_s)
            case Offering():
                return SetTimer(timer, config.offer_s)


def _is_fresh(lane: ChangeLane, whole: ChangeLane) -> bool:
    """As if it had never been."""
    return lane == ChangeLane(whole.base, whole.slot, whole.last)
