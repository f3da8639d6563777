"""A server's part in the lease of living sides (`lease.py`): it asks, confirms, and lends to hosts below."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from rostra.core.effects import Effect, Ignored, Instant, Send
from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.protocols.agreed.branch import ConfirmAsked, LeaseAsked, LeaseConfirmed, LeaseGiven
from rostra.protocols.agreed.changes import GroupChange, ServerId
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.differences import hosts_of
from rostra.protocols.agreed.lease import ALARM, FOR_EVER, IN_DOUBT, NEVER, BranchLease, lives_until
from rostra.protocols.agreed.living import is_exclusive, is_primary
from rostra.protocols.agreed.messages import Busy, Initiate, SetMessage
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.promises import removed_by
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Neighbours, Relation


class Leasing(ABC):
    stack: Stack

    def __init__(self, config: AgreedConfig) -> None:
        self.sets: dict[Domain, CoreSet] = {}
        self._config = config
        self._branch_lease = BranchLease(config.doubt_after_s)
        self._lent: dict[Domain, Instant] = {}  # to children, and until when
        self._lent_in_doubt: Instant = NEVER  # the last end of what was lent while a group was in doubt here
        self._wanted_until: Instant = 0.0  # by children: a lease of those above us
        self._ask_at: Instant = 0.0
        self._carried: set[Domain] = set()  # children for which something was passed on to our parent

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    def _ordinary(self) -> list[CoreSet]:
        """Our parts in sets for which we look after hosts."""
        return [core for core in self.sets.values() if not core.is_parent]

    @abstractmethod
    def _tell(self, core: CoreSet, group: Group, hosts: Iterable[Domain], out: list[Effect]) -> None: ...

    # Messages

    def _of_lease(
        self,
        now: Instant,
        sender: Domain,
        message: LeaseAsked | LeaseGiven | ConfirmAsked | LeaseConfirmed,
        out: list[Effect],
    ) -> None:
        match message:
            case LeaseAsked(number):
                if self._neighbours.relation(sender) is not Relation.CHILD:
                    return out.append(Ignored("LeaseAsked", "not a child"))
                self._wanted_until = now + 3 * self._config.doubt_after_s
                self._lent[sender] = now + self._config.doubt_after_s
                left_ms = self._left_ms(now)
                if self._is_in_doubt():
                    self._lent_in_doubt = max(self._lent_in_doubt, now + left_ms / 1000)
                levels = (left_ms, *self._branch_lease.left_ms(now))
                out.append(Send(sender, LeaseGiven(number, levels)))
            case LeaseGiven():
                if sender != self._neighbours.parent or not self._branch_lease.given(message):
                    out.append(Ignored("LeaseGiven", "nothing waits for it"))
            case ConfirmAsked(name, life, number):
                core = self.sets.get(name)
                who = ServerId(sender, life)
                if core is None or not self._confirms(now, core, who):
                    return out.append(Ignored("ConfirmAsked", "not in our set"))
                state = core.core.state
                tried = {each.pid for each in state.tried}
                if state.lock is not None:
                    tried.add(state.lock[0].pid)
                own = (name, state.me.life, number, state.base, tuple(sorted(tried)))
                out.append(Send(sender, LeaseConfirmed(*own)))
            case LeaseConfirmed(name, life):
                core, who = self.sets.get(name), ServerId(sender, life)
                if (
                    core is None
                    or who not in core.core.state.view.servers
                    or not core.lease.confirmed(who, message, self._config.doubt_after_s)
                ):
                    out.append(Ignored("LeaseConfirmed", "nothing waits for it"))
        return None

    def _confirms(self, now: Instant, core: CoreSet, who: ServerId) -> bool:
        state = core.core.state
        if who not in state.view.servers or who in state.isolated:
            return False
        if state.lock is not None and who in removed_by(state.lock[0].change, state.me):
            return False
        return core.core.leases.give(now, who, self._config.doubt_after_s)

    def _must_refuse(self, now: Instant, core: CoreSet, message: SetMessage) -> Busy | None:
        """A change that removes a server which may live by our word waits until that has run out; and changes
        of groups wait for this one: each would prolong that word."""
        if not isinstance(message, Initiate):
            return None
        state, leases = core.core.state, core.core.leases
        removed = removed_by(message.proposal.change, state.me)
        must_wait = (
            leases.are_running(now, removed, self._config.doom_s)
            if removed
            else isinstance(message.proposal.change, GroupChange) and leases.is_awaited(now)
        )
        if not must_wait:
            return None
        isolated = tuple(sorted(state.isolated))
        return Busy(core.core.set, state.me.life, state.number, isolated, message.round)

    # Our own

    def _ends(self, core: CoreSet) -> dict[Group, Instant]:
        """Until when each group with an exclusive rule lives here, as far as was confirmed."""
        state = core.core.state
        if core.lives[0] is state and core.lives[1] == core.lease.version:
            return core.lives[2]  # most steps of a server concern neither
        if not state.table.has_rules and not core.ends:
            core.lives = state, core.lease.version, {}
            return core.lives[2]
        counted = core.lease.counted(state)
        before, _, last_found = core.lives
        is_same = core.counted == counted and before is not None and before.view == state.view
        looked_at = before.table.groups if is_same and before and not (state.tried or before.tried) else {}
        core.counted = counted
        table, found = None, {}
        for group, known in state.table.groups.items():
            if known is looked_at.get(group):
                if group in last_found:
                    found[group] = last_found[group]
                continue
            if not is_exclusive(known.kind):
                continue
            tried = [
                each
                for each in state.tried
                if not isinstance(each.change, GroupChange) or each.change.group == group
            ]
            why = (known, state.view, counted, tried)
            last = core.ends.get(group)
            if last is None or last[0] != why:
                table = table or state.table.attempted(state.tried, state.view)
                last = core.ends[group] = (why, lives_until(state, table.groups[group], counted))
            found[group] = last[1]
        for group in core.ends.keys() - found.keys():
            del core.ends[group]
        core.lives = state, core.lease.version, found
        return found

    def _is_in_doubt(self) -> bool:
        return any(core.suspended for core in self._ordinary())

    def _left_ms(self, now: Instant) -> int:
        """Of what we may lend. Groups that are in doubt here do not count: hosts were told. Meanwhile we lend
        for half as long. A group is in doubt until it lives for longer than all that was lent so: a host that
        learns that it is back may have such a lease."""
        ends = [
            end
            for core in self._ordinary()
            for group, end in self._ends(core).items()
            if group not in core.suspended
        ]
        most_s = self._config.doubt_after_s / (2 if self._is_in_doubt() else 1)
        return max(0, int(1000 * min(most_s, min(ends, default=FOR_EVER) - now)))

    def _mind_leases(self, now: Instant, out: list[Effect]) -> None:
        """First of all: has one run out, or is it back?"""
        self._branch_lease.saw(now)
        for core in self._ordinary():
            ends = self._ends(core)
            core.suspended.intersection_update(ends)
            doubted = [
                group
                for group, end in ends.items()
                if end <= now or (group in core.suspended and end < self._lent_in_doubt)
            ]
            for group in sorted(core.suspended.symmetric_difference(doubted)):
                core.suspended ^= {group}
                self._tell(core, group, hosts_of(core.table.groups[group].view), out)

    def _doubt(self, now: Instant, core: CoreSet, group: Group) -> str:
        if self._ends(core).get(group, FOR_EVER) <= now:
            core.suspended.add(group)
        return IN_DOUBT if group in core.suspended else ""

    def _renew_leases(self, now: Instant, out: list[Effect]) -> None:
        """Last of all: ask again, if it is time, and be woken in time."""
        every_s = self._config.lease_every_s
        moments = [FOR_EVER]
        for core in self._ordinary():
            state = core.core.state
            if len(state.view.members) == 1:
                continue
            asks_parent = any(is_primary(core.table.groups[group].kind) for group in core.ends)
            others = [
                each.id
                for each in state.view.members
                if each.id != state.me and each.id not in state.isolated and (asks_parent or not each.parent)
            ]
            if not others or not (core.ends or state.tried):
                continue
            if now >= core.ask_at:
                core.ask_at = now + every_s
                question = ConfirmAsked(core.core.set, state.me.life, core.lease.questions.ask(now))
                up = self._neighbours.up
                out += [Send(each.server, question) for each in others if each.server in up]
            moments += [core.ask_at, *[end for _, end in core.ends.values() if end > now]]
        above = self._neighbours.parent
        if self._carried and now < self._wanted_until and above in self._neighbours.up:
            if now >= self._ask_at:
                self._ask_at = now + every_s / 4
                out.append(Send(above, self._branch_lease.ask(now)))
            moments.append(self._ask_at)
        self.stack.alarm_at, self.stack.alarm = min(moments), ALARM
