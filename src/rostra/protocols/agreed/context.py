"""What every part of a set's core uses: its state, and the effects of one step."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored, Instant, Send, TimerKey
from rostra.names import Domain, Group
from rostra.protocols.agreed.changes import (
    TRIED_MAX,
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupPlaced,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServerId,
    is_kept,
    lane_of,
    same_event,
    still_matters,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.cut import Accusations
from rostra.protocols.agreed.groups import AgreedGroup
from rostra.protocols.agreed.living import has_rule
from rostra.protocols.agreed.messages import (
    Ack,
    AgreementStatus,
    CoordinatorFailed,
    Initiate,
    PartedFromSet,
    SetMessage,
)
from rostra.protocols.agreed.promises import GivenLeases
from rostra.protocols.agreed.state import (
    NOBODY,
    Coordinating,
    Electing,
    Holding,
    Idle,
    QueuedChange,
    Remembered,
    SetState,
)

REMEMBERED_MAX: Final = 1_024
"""Changes of others that one server keeps in mind."""

REMEMBERED_BYTES: Final = 64 << 20
"""And of how many bytes, about: a group on its way has megabytes. The last one is kept whatever its size."""

DEFERRALS_MAX: Final = 1 << 40
"""Of a change that another server says was put off as often."""


class SetContext:
    """The state of one server in one set is `state`; everything else here never changes."""

    def __init__(self, set: Domain, state: SetState, config: AgreedConfig) -> None:
        self.set = set
        self.state = state
        self.config = config
        self.timer: TimerKey = ("agreed", set)
        self.probe_timer: TimerKey = ("agreed", set, "probe")
        self._out: list[Effect] = []
        self._is_settled = True  # within a step: nothing has changed since it was last looked for
        self._now: Instant = 0.0
        self.leases = GivenLeases()

    def restore(self, group: Group, known: AgreedGroup) -> None:
        """A group as its hosts remember it, at a server that lost its state and has met no other yet."""
        assert len(self.state.view.members) == 1, "others would not know of it"
        self._set(table=self.state.table.restored(group, known, may_begin=self.state.view.members[0].parent))

    def _set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self._is_settled = False

    def _ignored(self, what: str, why: str) -> None:
        self._out.append(Ignored(what, why))

    # Sending

    def _send(self, to: ServerId, message: SetMessage) -> None:
        if to.server in self.state.linked and to not in self.state.isolated:
            self._out.append(Send(to.server, message))

    def _part_from(self, server: ServerId) -> None:
        if server.server in self.state.linked:
            self._out.append(Send(server.server, PartedFromSet(*self._head())))

    def _send_all(self, message: SetMessage, besides: frozenset[ServerId] = frozenset()) -> None:
        for each in sorted(self._awaited() - besides):
            self._send(each, message)

    def _send_initiate(self, to: Iterable[ServerId]) -> None:
        for each in sorted(to):
            self._send(each, self._initiate(each))

    def _awaited(self) -> frozenset[ServerId]:
        return frozenset(self.state.electorate) - self.state.isolated - {self.state.me}

    # Messages

    def _head(self) -> tuple[Domain, int, int, tuple[ServerId, ...]]:
        state = self.state
        return self.set, state.me.life, state.number, tuple(sorted(state.isolated))

    def _initiate(self, to: ServerId) -> Initiate:
        state, phase = self.state, self.state.phase
        assert isinstance(phase, Coordinating), "only a coordinator initiates"
        yielded = (*phase.yielded, *state.withdrawn)
        cut = tuple(sorted(state.isolated)) if phase.round.attempt else ()
        groups = state.carried
        if isinstance(phase.proposal.change, PartsMerged) and to not in state.view.servers:
            groups = state.table.carried()
        return Initiate(*self._head(), phase.proposal, phase.round, state.last, yielded, cut, groups)

    def _ack(self, round: Round) -> Ack:
        state = self.state
        tried = tuple([each for each in state.tried if state.at is None and each.pid != round.pid])
        return Ack(*self._head(), round, self.state.withdrawn, tried[:TRIED_MAX])

    def _status(
        self, proposal: Proposal, failed: Round, status: AgreementStatus, heard: Iterable[ServerId] = ()
    ) -> CoordinatorFailed:
        phase = self.state.phase
        if isinstance(phase, Electing) and phase.round == failed:
            heard = phase.heard
        return CoordinatorFailed(
            *self._head(), proposal, failed, status, tuple(sorted(heard)), self.state.last
        )

    # Changes

    def _enqueue(self, change: AnyChange, deferrals: int) -> None:
        state = self.state
        known = any(same_event(each.change, change) for each in state.queue)
        lasts = [state.last, *[lane.last for _, lane in state.lanes]]
        committed = any(last is not None and same_event(last.proposal.change, change) for last in lasts)
        matters = is_kept(change) and still_matters(change, state.view)
        if matters and not known and not committed:
            self._set(queue=(*state.queue, QueuedChange(change, min(deferrals, DEFERRALS_MAX))))

    def _try(self, proposal: Proposal) -> None:
        """It may be committed with our word, and we may never know. Groups with a rule have no lane."""
        if proposal.lane:
            return
        others = [each for each in self.state.tried if each.pid != proposal.pid]
        kind = proposal.change.kind if isinstance(proposal.change, GroupChange) else None
        asked = self.state.table.has_rules or (kind is not None and has_rule(kind))
        if asked and not isinstance(proposal.change, PartsMerged):
            self._set(tried=(*others, proposal))

    def _untry(self, round: Round) -> None:
        """It was withdrawn by who alone could commit it. After an election this is not so: a coordinator that
        we isolated may have done so before."""
        if not round.attempt:
            self._set(tried=tuple([each for each in self.state.tried if each.pid != round.pid]))

    def _prolong(self, record: CommitRecord) -> None:
        """Hosts may live yet by what their servers lent before these acknowledged this change: by fewer of us
        than are needed now. Before an election one may have acknowledged it that is absent since."""
        if self.state.table.has_rules:
            absent = () if record.round.attempt else record.absent
            lenders = [each for each in self.state.view.servers if each not in absent]
            self.leases.prolong(self._now, lenders, self.config.doubt_after_s)

    def _forget(self, pid: Pid) -> None:
        self._set(remembered=tuple([each for each in self.state.remembered if each.proposal.pid != pid]))

    # Changes of others

    def _remember(self, one: Remembered) -> None:
        kept = [each for each in self.state.remembered if each.proposal.pid != one.proposal.pid]
        kept = [*kept, one][-REMEMBERED_MAX:]
        room = REMEMBERED_BYTES
        for place in range(len(kept) - 1, -1, -1):
            room -= _about(kept[place].proposal.change)
            if room < 0 and place < len(kept) - 1:
                kept = kept[place + 1 :]
                break
        self._set(remembered=tuple(kept))
        self._adopt()

    def _adopt(self) -> None:
        """Changes that no other server looks after any more."""
        state = self.state
        reachable = frozenset(self.state.view.servers) - state.isolated
        lost = [each for each in state.remembered if each.keeper not in reachable]
        if lost:
            self._set(remembered=tuple([each for each in state.remembered if each.keeper in reachable]))
            for each in lost:
                self._enqueue(each.proposal.change, -each.proposal.priority.minus_deferrals)

    def _best_remembered(self) -> Remembered | None:
        """Released from a lock, we acknowledge what was refused before (V-074)."""
        state = self.state
        found = [
            each
            for each in state.remembered
            if each.is_open
            and state.at == lane_of(each.proposal)
            and state.base == each.proposal.base
            and each.round.coordinator not in state.isolated
        ]
        return min(found, key=lambda each: each.proposal.priority, default=None)

    # Evidence

    def _note_evidence(self, who: ServerId, isolated: frozenset[ServerId]) -> None:
        others = [(each, whom) for each, whom in self.state.evidence if each != who]
        if isolated:
            others.append((who, isolated))
        self._set(evidence=tuple(sorted(others, key=lambda each: each[0])))
        if isinstance(self.state.phase, Holding) and self.state.phase.gathers:
            self._set(phase=Idle())

    def _has_gathered(
        self, part: tuple[ServerId, ...], failed: tuple[ServerId, ...], accusations: Accusations
    ) -> bool:
        """Have all that are to stay lost these, or had they time to say whom they lost?"""
        since = self.state.accused_since
        is_unanimous = all(set(failed) <= accusations.get(each, frozenset()) for each in part)
        return since is None or self._now >= since + self.config.gather_s or is_unanimous

    def _place_among(self, part: tuple[ServerId, ...], failed: tuple[ServerId, ...]) -> int:
        """How many are to propose this before us. Who committed the last change looks after those it isolated
        (V-070); others in order of rank; who has isolated none of them itself goes last."""
        state = self.state
        if state.me not in part or not state.isolated.intersection(failed):
            return len(state.view.servers)
        if self.config.gather_s:  # those that have lost none of them do not propose this before us
            whom = dict(state.evidence)
            part = tuple([each for each in part if each == state.me or whom.get(each, NOBODY) & set(failed)])
        if state.last is not None and frozenset(state.last.cut) & state.isolated:
            by = state.last.round.coordinator
            if by in part:
                part = (by, *[each for each in part if each != by])
        return part.index(state.me)


def _about(change: AnyChange) -> int:
    """How many bytes it takes here, roughly."""
    match change:
        case GroupChange():
            return 512 * (1 + len(change.members)) + len(change.data)
        case GroupPlaced(asked=asked):
            return 512 + len(change.part) + (0 if asked is None else _about(asked))
    return 512
