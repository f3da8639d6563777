"""Two-phase commit among the servers of one set, one change at a time, with an election when the coordinator
fails (section III of the paper). There is no quorum: a commit goes on without servers that cannot be reached.

    two phases             Initiate ─▶ all, all Ack or are isolated, Commit ─▶ all
    three phases           the coordinator fails: CoordinatorFailed ─▶ all, then the winner does both phases
    compressed             one of those who are left has committed: the winner goes straight to Commit

`state.py` draws the phases. A coordinator goes on without the servers that it isolated, and a server that
applies its commit isolates them too. What holds: **two servers that committed different changes on one
base have isolated each other, at least one way.** The argument, if s committed p, and t q:

1. An acknowledgement is a lock (V-072). A lock ends with the commit, with its coordinator's own `Yield`, or
   after an election.
2. A server that takes part in an election has isolated the coordinator before it reports its state (V-081),
   and each that follows the winner isolates all servers that took no part (`Initiate.cut`).
3. A commit is applied only by a server that is locked on it, is not in its cut, and has not isolated the
   coordinator of its round.

Suppose neither has isolated the other. Neither is in the other's cut, so s acknowledged q too, and t p. The
round of a commit was not withdrawn; so s was released from q by an election about q's round, at a time S,
and t from p by one about p's, at a time T. t took part in the first, before S, and had isolated q's
coordinator since; so t acknowledged q before S, and T was before that: T < S. In the same way S < T.

Where we differ from the paper, and why:

- An acknowledged change is not displaced by one of higher priority (V.D.2.b): only its coordinator gives it
  back. Otherwise it may commit with an acknowledgement that does not hold any more (TV1).
- A commit that did not come is asked for, before the coordinator counts as failed (TV3).
- The commit carries the cut. Gossip alone does not isolate (`cut.py`).
- The winner of an election is the most senior server that is locked and lacks the commit. A server that has
  committed answers each that asks, and goes on; it isolates no server, since its commit cannot be undone.
- Isolation is of the set and not of the link; the isolated server is notified once (`PartedFromSet`).
- A server that acknowledged or received a change proposes it if its coordinator is lost (V-088).
- The interrupted change is completed before its coordinator is removed, if the servers that saw the failure
  knew of it; otherwise the removal goes first by its priority (V-086).
- A `Busy` on behalf of a coordinator that we isolated is no sign of life: its sender is on the other side;
  two coordinators that each wait for a server locked by the other would wait for ever.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    SetTimer,
    TimerFired,
)
from rostra.protocols.agreed.changes import (
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupPlaced,
    Pid,
    Proposal,
    Round,
    ServerId,
    SetView,
    bases,
    follows,
    is_kept,
    is_round_of,
    joined_by_pid,
    lane_of,
    name_of_part,
    same_event,
    side_of,
    still_matters,
    view_after,
)
from rostra.protocols.agreed.config import QUEUE_MAX
from rostra.protocols.agreed.events import ChangeAsked, ServerIsolated, SetCommitted
from rostra.protocols.agreed.messages import (
    Ack,
    AgreementStatus,
    Busy,
    Collecting,
    Commit,
    CoordinatorFailed,
    Declined,
    Initiate,
    Offer,
    PartedFromSet,
    SetEvidence,
    SetMessage,
    SetProbe,
    Stale,
    Yield,
)
from rostra.protocols.agreed.moves import applied
from rostra.protocols.agreed.proposing import Proposing
from rostra.protocols.agreed.reform import is_merge
from rostra.protocols.agreed.state import (
    NOBODY,
    Coordinating,
    Electing,
    Holding,
    Idle,
    Locked,
    Offering,
    Remembered,
    concerns_us,
)


class SetCore(Proposing):
    """`LinkUp`, `LinkDown` and `LinkMoved` are of the servers of this set alone."""

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self._now = now
        out = self._out = []
        before = self._deadlines()
        match event:
            case Received(sender, SetMessage() as message):
                self._received(ServerId(sender, message.life), message)
            case TimerFired(timer) if timer == self.timer:
                before |= {None: ()} if self.state.phase != Idle() else {}
                self._waited()
            case TimerFired(timer) if timer in self.timers():
                group = next(each for each in self._all_lanes() if self.lane_timer(each) == timer)
                before[group] = ()
                self._enter(group)
                self._waited()
            case TimerFired(timer) if timer == self.probe_timer:
                self._set(probes=False)
                self._give_up()
                self._probe()
            case ChangeAsked(change):
                self._asked(change)
            case LinkUp(peer):
                self._set(linked=self.state.linked | {peer})
                self._probe(peer)
            case LinkMoved(peer):
                theirs = [each for each in self.state.electorate if each.server == peer]
                for group in self._all_lanes():
                    self._enter(group)
                    self._repeat([each for each in theirs if each not in self.state.isolated])
                self._enter(None)
                for each in theirs:
                    if each in self.state.isolated:
                        self._part_from(each)
            case LinkDown(peer):
                self._set(linked=self.state.linked - {peer})
                self._forget_offers(frozenset([peer]))
                self._lost([each for each in self.state.electorate if each.server == peer])
            case _:
                self._ignored(type(event).__name__, "not for a set")
        self._settle_all()
        self._set_probe_timer()
        self._set_timers(before)
        return out

    # Messages

    def _received(self, who: ServerId, message: SetMessage) -> None:
        state, name = self.state, type(message).__name__
        if message.set != self.set:
            return self._ignored(name, "of another set")
        if who not in state.electorate:
            for each in state.electorate:
                if each.server == who.server and each.life < who.life:
                    self._isolate(each, "it lives again")  # V-019
            if not self._is_let_in(who, message):
                return None
        if who in state.isolated:
            return self._turn_away(who, message, "isolated")
        if not self._is_of_before(who, message):
            if state.me in message.isolated or isinstance(message, PartedFromSet):
                self._isolate(who, "it isolated us")  # V-092
                return self._ignored(name, "isolated")
            self._note_evidence(who, frozenset(message.isolated).intersection(state.electorate))
        self._enter(self._lane_of(message))
        state = self.state
        match message:
            case Initiate():
                self._initiated(who, message)
            case Ack():
                self._acked(who, message)
            case Busy():
                self._refused(who, message)
            case Stale(refused=refused, last=record):
                if isinstance(state.phase, Coordinating) and state.phase.round == refused:
                    self._learn(who, record)
                else:
                    self._ignored(name, "of a round that is over")
            case Yield(round=round):
                if round.coordinator == who:
                    self._release(round)
                else:
                    self._ignored(name, "not its own round")
            case Commit(record=record):
                self._learn(who, record)
            case CoordinatorFailed(proposal=proposal):
                if self._is_of_before(who, message) and (
                    state.lock is None or state.lock[0].pid != proposal.pid
                ):
                    self._ignored(name, "of before the merge")
                else:
                    self._coordinator_failed(who, message)
            case Collecting(round=round):
                match state.phase:
                    case Locked(_, held) if held == round:
                        self._set(phase=replace(state.phase, times=0))
                    case _:
                        self._ignored(name, "of a round that is over")
            case Declined():
                self._declined(who, message)
            case SetProbe(part=part) | Offer(part=part) if (
                who in state.view.servers
                and state.me not in part.view.servers
                and not self._is_of_before(who, message)
            ):
                self._isolate(who, "it went on without us")  # as after a failover that took too long
            case SetProbe() | Offer():
                self._ignored(name, "we agree already")
            case PartedFromSet():
                self._ignored(name, "of before the merge")
            case SetEvidence():
                pass  # noted above
            case _:
                self._ignored(name, "not for a set")
        return None

    def _initiated(self, who: ServerId, message: Initiate) -> None:
        proposal, round = message.proposal, message.round
        if round.coordinator != who or not is_round_of(proposal, round):
            return self._ignored("Initiate", "not its own round")
        self._learn(who, message.last)
        self._settle_all()
        self._enter(lane_of(proposal))
        if who in self.state.isolated:
            return None
        for each in message.yielded:
            self._release(each)
        state = self.state
        if is_merge(proposal) and not self._may_merge(who, message):
            return None
        if state.base != follows(proposal, state.me):
            return self._out_of_turn(who, proposal, round)
        if not is_merge(proposal) and not self._is_next(proposal, state.slot):
            return self._ignored("Initiate", "not of the next slot")
        if proposal.lane and not self._is_for_a_lane(proposal):
            return self._ignored("Initiate", "not for a lane")
        if state.lock is not None and state.lock[0].pid == proposal.pid and state.lock[0] != proposal:
            return self._ignored("Initiate", "another change under the same name")
        if state.me in message.cut or not concerns_us(proposal, state):
            return self._isolate(who, "it goes on without us")
        waits = self._obstacle() is not None
        match state.phase:
            case Offering() if isinstance(proposal.change, GroupChange | GroupPlaced):
                self._be_busy(who, message)
            case Idle() | Holding() | Offering() if waits:
                self._be_busy(who, message)
            case Locked() | Electing() if waits and not proposal.lane:
                self._be_busy(who, message)
            case Idle() | Holding() | Offering():
                self._lock(message)
            case Locked(_, held) if held == round:
                self._send(who, self._ack(round))
            case Locked(_, held) if held.pid == round.pid and held.attempt < round.attempt:
                self._lock(message)
            case Electing(_, held) if held.pid == round.pid and held.attempt <= round.attempt:
                self._lock(message)
            case Coordinating(own_proposal, own) if self._goes_first(proposal, round, own_proposal, own):
                self._withdraw()
                if waits:
                    self._be_busy(who, message)
                else:
                    self._lock(message)
            case Locked() | Electing() | Coordinating():
                self._be_busy(who, message)
        return None

    def _lock(self, message: Initiate) -> None:
        """Follow this round. After an election, as one who took part: without those who did not, and without
        the coordinator that we followed before."""
        proposal, round = message.proposal, message.round
        before, since = self.state.lock, self.state.locked_since(proposal.pid)
        lock = Locked(proposal, round, since=round.attempt if since is None else since)
        self._set(phase=lock, carried=message.groups)
        self._try(proposal)
        self._forget(proposal.pid)
        without = set(message.cut)
        if before is not None and before[0].pid == round.pid:
            without.add(before[1].coordinator)
        for each in sorted(without - {self.state.me, round.coordinator}):
            self._isolate(each, "the election went on without it")
        self._send(round.coordinator, self._ack(round))

    def _be_busy(self, who: ServerId, message: Initiate) -> None:
        first = self.state.lock or self._obstacle() or ()
        if not is_merge(message.proposal):
            self._remember(Remembered(message.proposal, message.round, who, is_open=True))
        self._send(who, Busy(*self._head(), message.round, *first))

    def _out_of_turn(self, who: ServerId, proposal: Proposal, round: Round) -> None:
        """A proposal that does not follow our last commit."""
        state = self.state
        last = state.last
        if any(lock[0].pid == proposal.base for lock in state.locks):
            self._ignored("Initiate", "before our election is over")
        elif last is not None and (proposal.pid == state.base or proposal.base == last.proposal.base):
            self._send(who, Stale(*self._head(), round, last))
        elif who not in state.view.servers:
            self._ignored("Initiate", "of before the merge")
        elif proposal.slot <= state.slot:
            self._ignored("Initiate", "of an older slot")
        else:
            self._isolate(who, "another history")

    def _acked(self, who: ServerId, message: Ack) -> None:
        state, round = self.state, message.round
        match state.phase:
            case Coordinating(_, own, acked) if own == round:
                if who in acked:
                    self._send(who, Collecting(*self._head(), round))
                released = [each for each in message.released if each.coordinator == who]
                yielded = tuple(sorted({*state.phase.yielded, *released}))
                tried = joined_by_pid(state.phase.tried, message.tried)
                self._set(phase=replace(state.phase, acked=acked | {who}, yielded=yielded, tried=tried))
            case Electing(proposal) if proposal.pid == round.pid:
                self._send(who, Collecting(*self._head(), round))  # it expects that we win
            case _ if state.last is not None and state.last.round.pid == round.pid:
                self._send(who, Commit(*self._head(), state.last))
            case _ if round in state.withdrawn or (round.coordinator == state.me and round.pid in state.over):
                self._send(who, Yield(*self._head(), round))
            case _:
                self._ignored("Ack", "of a round that is over")

    def _refused(self, who: ServerId, message: Busy) -> None:
        state = self.state
        match state.phase:
            case Coordinating(_, own) if own == message.refused and message.round is None:
                self._set(phase=replace(state.phase, busy=state.phase.busy | {who}))
            case Coordinating(proposal, own) if own == message.refused and (
                message.holds is not None
                and message.round is not None
                and (message.round.coordinator in state.electorate or is_merge(message.holds))
            ):
                rival = message.round
                if rival in state.withdrawn:
                    self._send(who, Yield(*self._head(), rival))
                if rival.coordinator in state.isolated and rival.coordinator not in message.isolated:
                    return
                self._set(phase=replace(state.phase, busy=state.phase.busy | {who}))
                is_open = rival.coordinator != state.me and rival.coordinator not in state.isolated
                if lane_of(message.holds) == state.at:
                    is_rival = bool(bases(message.holds) & bases(proposal))
                    is_rival = is_rival and self._goes_first(message.holds, rival, proposal, own)
                else:
                    is_rival = proposal.lane  # what concerns the whole set goes first
                if is_open and is_rival:
                    self._withdraw()
                    self._set(phase=Holding())
            case _:
                self._ignored("Busy", "of a round that is over")

    def _goes_first(self, other: Proposal, rival: Round, proposal: Proposal, own: Round) -> bool:
        """Which of two rounds on one base goes first: that of the higher priority; of one proposal the later
        attempt, and of two such the more senior coordinator (V-073, V-087)."""
        if other.pid != proposal.pid:
            return other.priority < proposal.priority
        order = self.state.electorate
        if rival.coordinator not in order:
            return False
        return (-rival.attempt, order.index(rival.coordinator)) < (-own.attempt, order.index(own.coordinator))

    def _withdraw(self) -> None:
        """Our own round. Its change waits until others are done."""
        phase = self.state.phase
        assert isinstance(phase, Coordinating), "only a coordinator withdraws"
        self._send_all(Yield(*self._head(), phase.round))
        self._set(phase=Idle(), withdrawn=(*self.state.withdrawn, phase.round))
        self._untry(phase.round)
        if is_merge(phase.proposal):
            return self._leave_merge(phase.proposal.pid)
        return self._enqueue(phase.proposal.change, 1 - phase.proposal.priority.minus_deferrals)

    def _release(self, round: Round) -> None:
        """Its coordinator withdrew this round."""
        state = self.state
        match state.phase:
            case Locked(proposal, held) | Electing(proposal, held) if held == round and is_merge(proposal):
                self._leave_merge(proposal.pid)
                self._set(phase=Holding() if state.withdrawn else Idle())
            case Locked(proposal, held) | Electing(proposal, held) if held == round:
                # Who has withdrawn on this base does not begin again: two that do so take turns for ever.
                self._untry(round)
                self._set(phase=Holding() if state.withdrawn else Idle())
                self._remember(Remembered(proposal, round, round.coordinator, is_open=False))
            case _:
                self._set(
                    remembered=tuple(
                        [
                            replace(each, is_open=False) if each.round == round else each
                            for each in state.remembered
                        ]
                    )
                )

    # Commits

    def _learn(self, who: ServerId, record: CommitRecord | None) -> None:
        """A server says that this was committed."""
        if record is not None and record.round.pid == record.proposal.pid:
            here = self.state.at
            self._enter(lane_of(record.proposal))
            self._learn_here(who, record)
            self._enter(here)

    def _learn_here(self, who: ServerId, record: CommitRecord) -> None:
        state = self.state
        if record.proposal.pid == state.base:
            return None
        proposal, by = record.proposal, record.round.coordinator
        is_ours = state.lock is not None and state.lock[0] == proposal
        if who not in state.view.servers and not is_ours:
            return None  # the last commit of the other part of a merge
        if state.base != follows(proposal, state.me):
            last = state.last
            if proposal.slot < state.slot or (
                proposal.slot == state.slot and not (last and proposal.base == last.proposal.base)
            ):
                return self._ignored("Commit", "of an older slot")
            return self._isolate(who, "another history")
        has_locks = state.at is None and self._obstacle() is not None
        if not is_ours or state.me in record.cut or has_locks:
            return self._isolate(who, "it went on without us")  # V-078
        if by not in state.isolated:
            return self._apply(record)
        if isinstance(state.phase, Electing):
            return self._set(phase=state.phase.with_status(who, AgreementStatus.COMMITTED, record))
        return self._ignored("Commit", "decided by the election")

    def _commit(self, proposal: Proposal, round: Round, of: CommitRecord | None = None) -> None:
        """We are its coordinator; or complete what is committed elsewhere."""
        out = frozenset(of.cut if of is not None else ()) | self.state.isolated
        cut = tuple([each for each in self.state.electorate if each in out])
        if of is None:
            phase = self.state.phase
            assert isinstance(phase, Coordinating), "only a coordinator commits"
            known = joined_by_pid(phase.tried, self.state.tried)
            tried = tuple([each for each in known if each.pid != proposal.pid])
            of = CommitRecord(proposal, round, cut, cut, tried)
        record = replace(of, round=round, cut=cut)
        self._send_all(Commit(*self._head(), record), besides=out)
        self._apply(record)

    def _apply(self, record: CommitRecord) -> None:
        state, proposal = self.state, record.proposal
        ours = side_of(record, state.me)
        view = view_after(state.view, ours.proposal)
        table, outcomes = applied(state.table, ours, state.view, state.carried)
        if state.me not in view.servers:  # we left: a set of our own, which looks for no other
            alone = replace(state.view.members[state.rank], joined=view.number, place=0)
            view = SetView(view.number, Pid(state.me, state.count), (alone,))
            self._set(count=state.count + 1, gave_up=name_of_part(self.set, view))
        left = NOBODY if ours is not record else frozenset(state.view.servers).difference(view.servers)
        gone = (left | frozenset(record.cut)) - {state.me}
        isolated = (state.isolated | frozenset(record.cut)) & frozenset(view.servers)
        evidence = [
            (who, whom & frozenset(view.servers))
            for who, whom in state.evidence
            if who in view.servers and who not in isolated
        ]
        lane = lane_of(proposal)
        self._set(
            view=view,
            slot=proposal.slot,
            base=proposal.pid,
            last=record,
            phase=Idle(),
            remembered=tuple(
                [
                    replace(each, is_open=is_open)
                    for each in state.remembered
                    if not same_event(each.proposal.change, proposal.change)
                    and (
                        (
                            is_open := each.is_open
                            and (
                                lane not in (None, lane_of(each.proposal))
                                or proposal.pid == each.proposal.base
                            )
                        )
                        or is_kept(each.proposal.change)
                    )
                ]
            ),
            isolated=isolated,
            evidence=tuple([(who, whom) for who, whom in evidence if whom]),
            accused_since=state.accused_since if isolated else None,
            queue=tuple(
                [
                    each.put_off_by(lane)
                    for each in state.queue
                    if not same_event(each.change, proposal.change) and still_matters(each.change, view)
                ]
            ),
            withdrawn=(),
            tried=() if lane is None else state.tried,
            table=table,
            carried=() if lane is None else state.carried,
            lanes=() if lane is None else state.lanes,
            passed=self._passed_by(record),
            merged=view.number if is_merge(proposal) else state.merged,
        )
        self._note_reforming(proposal.change)
        self._prolong(record)
        for each in sorted(gone - state.isolated):
            self._out.append(ServerIsolated(each, "the commit went on without it"))
            self._part_from(each)
        self._out.append(SetCommitted(record, view, outcomes, table))
        self._adopt()
        for each in sorted(gone - state.isolated):
            self._turn_from(each)
        if view != state.view:
            self._forget_offers(frozenset([each.server for each in view.servers]))
            self._probe()

    # Elections

    def _coordinator_failed(self, who: ServerId, message: CoordinatorFailed) -> None:
        """Another server reports that a coordinator failed, with its own status."""
        proposal, round = message.proposal, message.round
        if not is_round_of(proposal, round):
            return self._ignored("CoordinatorFailed", "not its own round")
        lock = self.state.lock
        if lock is not None and lock[0].pid == proposal.pid and lock[0] != proposal:
            return self._ignored("CoordinatorFailed", "another change under the same name")
        if round.coordinator == self.state.me and round.pid not in self.state.over:
            return self._isolate(who, "it gave us up")
        self._learn(who, message.last)
        if who in self.state.isolated:
            return None
        if self.state.base != proposal.pid and round.coordinator != self.state.me:
            self._isolate(round.coordinator, "as coordinator it failed")
        state = self.state
        match state.phase:
            case Electing(own_proposal, failed) if own_proposal.pid == proposal.pid and failed == round:
                repeated = who in state.phase.heard and state.me not in message.heard
                if message.status is not AgreementStatus.COMMITTED:  # which was learnt above, with the record
                    self._set(phase=state.phase.with_status(who, message.status, None))
                if repeated and message.status is AgreementStatus.ACKED:
                    self._send(who, self._status(proposal, round, AgreementStatus.ACKED))
            case (
                Electing(own_proposal, held) | Locked(own_proposal, held) | Coordinating(own_proposal, held)
            ) if own_proposal.pid == proposal.pid and held.attempt <= round.attempt:
                if held.coordinator not in (state.me, who):  # which asks, and so does not coordinate
                    self._isolate(held.coordinator, "as coordinator it failed")
                self._elect(proposal, round)
                assert isinstance(self.state.phase, Electing)
                if message.status is not AgreementStatus.COMMITTED:
                    self._set(phase=self.state.phase.with_status(who, message.status, None))
            case Coordinating(own_proposal) if own_proposal.pid == proposal.pid:
                self._repeat([who])
            case Electing(own_proposal) | Locked(own_proposal) if own_proposal.pid == proposal.pid:
                # As its winner heard of us: one that took no part in that round, and follows the winner, must
                # not be taken for the winner itself.
                was_in = (state.locked_since(proposal.pid) or 0) <= round.attempt
                stood = AgreementStatus.ACKED if was_in else AgreementStatus.UNAWARE
                if message.status is AgreementStatus.ACKED and state.me not in message.heard:
                    self._send(who, self._status(proposal, round, stood, (who,)))  # or it is an answer
            case _ if message.status is not AgreementStatus.ACKED:
                self._ignored("CoordinatorFailed", "of a round that is over")
            case _ if state.base == proposal.pid:
                self._send(who, self._status(proposal, round, AgreementStatus.COMMITTED))
            case _ if is_merge(proposal):
                self._say_over(who, message)
            case _:
                if proposal.slot > state.slot:
                    self._remember(Remembered(proposal, round, who, is_open=False))
                self._send(who, self._status(proposal, round, AgreementStatus.UNAWARE))
        return None

    def _elect(self, proposal: Proposal, failed: Round) -> None:
        since = self.state.locked_since(proposal.pid) or 0
        self._set(phase=Electing(proposal, failed, since=since))
        self._send_all(self._status(proposal, failed, AgreementStatus.ACKED))

    def _elected(self, phase: Electing) -> None:
        """All statuses of an election are here, or their servers are isolated: decide it."""
        me, isolated, proposal = self.state.me, self.state.isolated, phase.proposal
        order = self.state.electorate
        acked = (phase.acked - isolated) | {me}
        winner = min(acked, key=order.index)
        round = Round(proposal.pid, phase.round.attempt + 1, winner)
        if winner != me:
            self._set(phase=Locked(proposal, round, since=phase.since))
        elif phase.record is not None and phase.committed - isolated:
            for each in sorted(phase.unaware - isolated):
                self._isolate(each, "it was released from what is committed")
            self._commit(proposal, round, phase.record)
        else:
            self._set(phase=Coordinating(proposal, round))
            if is_merge(proposal):
                self._call_off()
            else:
                self._send_initiate(self._awaited())

    # Isolation

    def _isolate(self, server: ServerId, why: str) -> None:
        state = self.state
        if server in state.isolated or server not in state.electorate:
            return
        assert server != state.me, "no server isolates itself"
        since = self._now if state.accused_since is None else state.accused_since
        self._set(isolated=state.isolated | {server}, accused_since=since)
        self._out.append(ServerIsolated(server, why))
        self._part_from(server)
        self._adopt()
        self._turn_from(server)

    def _turn_from(self, server: ServerId) -> None:
        """What we waited for from a server that we have isolated, in all lanes."""
        here = self.state.at
        for group in self._all_lanes():
            self._enter(group)
            match self.state.phase:
                case Holding():
                    self._set(phase=Idle())
                case Locked(proposal, round) if round.coordinator == server:
                    self._follow_another(proposal, round)
                case Coordinating(proposal) if is_merge(proposal):
                    self._call_off()
        self._enter(here)

    def _lost(self, servers: list[ServerId]) -> None:
        """Links to these servers are down: send evidence to the others at once, which may or may not have
        lost them too."""
        new = [each for each in servers if each not in self.state.isolated]
        for each in new:
            self._isolate(each, "its link is down")
        outside = frozenset(self.state.electorate).difference(self.state.view.servers)
        if new and self.config.gather_s:
            self._send_all(SetEvidence(*self._head()), besides=outside)

    def _follow_another(self, proposal: Proposal, failed: Round) -> None:
        """The coordinator of our round failed. Another may have seen it before us, and have won already."""
        for each in self.state.remembered:
            is_later = each.round.pid == failed.pid and each.round.attempt >= failed.attempt
            if each.is_open and is_later and each.round.coordinator not in self.state.isolated:
                self._forget(failed.pid)
                since = self.state.locked_since(failed.pid) or 0
                self._set(phase=Locked(proposal, each.round, since=since))
                return self._send(each.round.coordinator, self._ack(each.round))
        return self._elect(proposal, failed)

    # Our own changes

    def _asked(self, change: AnyChange) -> None:
        if len(self.state.queue) >= QUEUE_MAX:
            self._ignored("ChangeAsked", "too many changes wait")
        else:
            self._enqueue(change, 0)

    def _settle_all(self) -> None:
        """Everything that can be done now in any lane, until something has to be waited for."""
        while True:
            self._is_settled = True
            self._enter(None)
            self._settle()
            for group in self._lanes_to_settle():
                self._enter(group)
                self._settle()
            self._enter(None)
            if self._is_settled or not self.state.lanes:
                return

    def _settle(self) -> None:
        while True:
            state = self.state
            match state.phase:
                case Coordinating(proposal, round, acked) if not self._awaited() - acked:
                    if state.at is None and self._obstacle() is not None:
                        return None
                    self._commit(proposal, round)
                case Coordinating() if state.at is not None and state.whole.coordinator == state.me:
                    self._withdraw()  # we won an election, and our change of the whole set has begun
                case Electing() if not self._awaited() - state.phase.heard:
                    self._elected(state.phase)
                case Idle() | Holding() if (best := self._best_remembered()) is not None:
                    if (first := self._obstacle()) is not None:
                        return self._refuse(best, first)
                    self._forget(best.proposal.pid)
                    self._set(phase=Locked(best.proposal, best.round, since=best.round.attempt))
                    self._try(best.proposal)
                    self._send(best.round.coordinator, self._ack(best.round))
                case Offering(to, is_sent=False) if self._obstacle() is None:
                    self._send_offer(to)
                case Idle() if state.at is None:
                    self._start()
                    if isinstance(self.state.phase, Idle | Holding):
                        return None
                case _:
                    return None

    # Waiting

    def _waited(self) -> None:
        state, most = self.state, self.config.retries
        match state.phase:
            case Holding(gathers=gathers):
                self._set(phase=Idle())
                if state.at is None:
                    self._start(now=not gathers, gathered=gathers)
            case Offering():
                self._set(phase=Idle())
            case Coordinating(proposal, _, acked, busy, _, times) if (
                is_merge(proposal) and times >= most and self._awaited() - acked - busy
            ):
                self._call_off()
            case Coordinating(_, _, acked, busy, _, times):
                missing = self._awaited() - acked
                self._set(phase=replace(state.phase, busy=frozenset(), times=0 if busy else times + 1))
                if times >= most:
                    for each in sorted(missing - busy):
                        self._isolate(each, "it does not acknowledge")
                self._repeat(missing - self.state.isolated)
            case Locked(_, round, times) if times >= most:
                self._isolate(round.coordinator, "as coordinator it is silent")
            case Locked(_, round, times):
                self._set(phase=replace(state.phase, times=times + 1))
                self._repeat([round.coordinator])
            case Electing(times=times):
                missing = self._awaited() - state.phase.heard
                self._set(phase=replace(state.phase, times=times + 1))
                if times >= most:
                    for each in sorted(missing):
                        self._isolate(each, "it does not say how it stands")
                self._repeat(missing - self.state.isolated)
            case Idle():
                self._ignored("TimerFired", "nothing waits for it")

    def _repeat(self, to: Iterable[ServerId]) -> None:
        """What these have not answered."""
        message: SetMessage
        match self.state.phase:
            case Coordinating():
                return self._send_initiate(to)
            case Locked(_, round):
                to = [each for each in to if each == round.coordinator]
                message = self._ack(round)
            case Electing(proposal, round):
                message = self._status(proposal, round, AgreementStatus.ACKED)
            case _:
                return None
        for each in sorted(to):
            self._send(each, message)
        return None

    def _set_probe_timer(self) -> None:
        probes = self._seeks()
        if probes != self.state.probes:
            self._set(probes=probes)
            every_s = self.config.probe_s
            self._out.append(SetTimer(self.probe_timer, every_s) if probes else CancelTimer(self.probe_timer))
