"""Which change a server proposes next: a failure that it saw, a merge, or what it was asked for."""

from abc import ABC, abstractmethod

from rostra.protocols.agreed.changes import (
    AnyChange,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    priority_of,
    same_event,
)
from rostra.protocols.agreed.cut import largest_part
from rostra.protocols.agreed.promises import removed_by
from rostra.protocols.agreed.reform import Reforming
from rostra.protocols.agreed.state import Coordinating, Holding, Idle


class Proposing(Reforming, ABC):
    @abstractmethod
    def _isolate(self, server: ServerId, why: str) -> None: ...

    def _start(self, *, now: bool = False, gathered: bool = False) -> None:
        """Our next change, if we have one and are the one to propose it; or, `now`, in any case."""
        state = self.state
        accusations = {**dict(state.evidence), state.me: state.isolated}
        part = largest_part(state.view.servers, accusations, me=state.me)
        if state.me not in part and now:
            part = largest_part(state.view.servers, accusations, me=state.me, must_stay=True)
        failed = tuple([each for each in state.view.servers if each not in part])
        if failed and not (now or gathered or self._has_gathered(part, failed, accusations)):
            self._set(phase=Holding(gathers=True))
        elif failed:
            behind = self._place_among(part, failed)
            must_wait = self.leases.are_running(self._now, failed, self.config.doom_s)
            if must_wait or (behind and not now):
                self._set(phase=Holding(max(1, behind)))
            elif state.me in part and self._is_done_in_lanes():
                self._propose(ServersFailed(failed), 0)
        elif state.offers and self._obstacle() is not None:
            pass
        elif (offer := self._next_offer()) is not None:
            self._propose_merge(offer)
        elif self._offer_now():
            pass
        elif state.queue:
            self._start_queued()

    def _start_queued(self) -> None:
        """The first by priority, and others whose lanes are free. One of the whole set waits until our own in
        lanes are done, and those after it wait for it."""
        for best in self._by_priority():
            group = self._lane_for(best)
            gone = removed_by(best.change, self.state.me)
            if group is not None:
                self._enter(group)
                if isinstance(self.state.phase, Idle) and self._obstacle() is None:
                    self._propose(best.change, best.deferrals)
                self._enter(None)
                continue
            if gone and self.leases.are_running(self._now, gone, self.config.doom_s):
                self._set(phase=Holding(1))
            elif self._is_done_in_lanes():
                self._propose(best.change, best.deferrals)
            return

    def _propose(self, change: AnyChange, deferrals: int) -> None:
        state = self.state
        pid = Pid(state.me, state.count)
        failed_coordinator = (
            isinstance(change, ServersFailed)
            and state.last is not None
            and state.last.round.attempt > 0
            and state.last.proposal.pid.creator in change.failed
        )
        priority = priority_of(
            change, state.view, pid, deferrals=deferrals, failed_coordinator=failed_coordinator
        )
        is_in_lane = state.at is not None
        slot = state.slot + 1 if is_in_lane else self._next_slot(state.slot)
        proposal = Proposal(pid, slot, state.base, change, priority, is_in_lane)
        self._set(
            count=state.count + 1,
            phase=Coordinating(proposal, Round(pid, 0, state.me)),
            queue=tuple([each for each in state.queue if not same_event(each.change, change)]),
        )
        self._try(proposal)
        if isinstance(change, ServersFailed):
            for each in change.failed:
                self._isolate(each, "most of us do without it")
        self._send_initiate(self._awaited())
