"""Agreed groups at a domain's server: requests go up to the core-set, views come down from it.

                       core-set of the group
                     ┌──────────────────────────┐
    MemberAsked ───▶ │ SetCore: one change after│ ──▶ SetCommitted ──▶ GroupTable: the next view
    HostHolds   ───▶ │ the other                │                        │ ViewTold, to each host below
                     └──────────────────────────┘ ◀── ViewTaken ─────────┘

Of the servers above a host exactly one is in the core-set of a group: the server of the cluster, if that is
the scope (D2); otherwise the child of the scope. All below it pass messages on, up and down, and keep nothing
but which of their children had something to pass.

**Sets.** ``set(D)`` are the servers of D's children, and D's own server as *parent*. A server takes part in
it from the first request or message on that concerns it: a world without agreed groups has no sets. It begins
as a set of itself alone and merges with the others that it is linked to (`reform.py`). Requests wait until
then.

**Lost state.** A server that restarts, or takes over, knows no group. The hosts send what they hold, and
requests wait meanwhile. In a group of one cluster its server waits for all hosts that hold the group's claim;
if all hold the same view, that view stands, and no member notices. In a wider group a server that starts
waits a moment for the hosts below it; it goes on with their members alone, and meets the others by a merge.

**A neighbour is trusted about the hosts behind it only** (C-125): requests come from the side of the host
that they name, and answers and views from that of the core-set.

Here the core-set of a group is the set of its scope. For groups without a rule for partitions it follows
their members: `moving.py`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, get_args

import msgspec

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Received,
    Secure,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import NotAllowed, StoreFailed, TooLarge, Unreachable
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, Group, host_of, inside, parent
from rostra.protocols.agreed import losses, ordering, proven
from rostra.protocols.agreed.branch import (
    BranchCut,
    BranchLost,
    ConfirmAsked,
    HolderAsked,
    HoldingsAsked,
    HostHolds,
    HostQuestion,
    LeaseAsked,
    LeaseConfirmed,
    LeaseGiven,
    MemberAnswer,
    MemberAsked,
    ViewComing,
    ViewId,
    ViewTaken,
    ViewTold,
)
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupVerb,
    LevelRaised,
    MemberId,
    PartsMerged,
    ServerId,
)
from rostra.protocols.agreed.coming import coming_views
from rostra.protocols.agreed.config import (
    FORM_S,
    HOST_GROUPS_MAX,
    HOST_QUEUE_MAX,
    LOSS_AFTER_S,
    QUEUE_MAX,
    RESTORE_S,
    TELL_AGAIN_S,
    AgreedConfig,
)
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.differences import base_of, hosts_of, path_from, view_message
from rostra.protocols.agreed.events import ChangeAsked, GroupOrdered, ServerIsolated, SetCommitted, SetOrdered
from rostra.protocols.agreed.fences import FenceRecord
from rostra.protocols.agreed.groups import AgreedView, is_possible
from rostra.protocols.agreed.holdings import RETURNING, Holdings
from rostra.protocols.agreed.keep import SetKeeper
from rostra.protocols.agreed.lease import ALARM
from rostra.protocols.agreed.living import is_exclusive, is_primary
from rostra.protocols.agreed.messages import AnySetMessage, SetMessage
from rostra.protocols.agreed.observed import SetIsolated, agreed_views
from rostra.protocols.agreed.part import Asking, CoreSet, ToldGroup, has_room, is_reachable, let_wait
from rostra.protocols.agreed.refusals import why_not_in
from rostra.protocols.agreed.state import alone
from rostra.protocols.agreed.subgroups import subgroups_of
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.messages import SyncDone
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.routing import OUTSIDE

AGREED_SERVER: ServiceName["AgreedServer"] = ServiceName("agreed server")

FORM: Final[TimerKey] = ("agreed", "", "form")
LOST: Final[TimerKey] = ("agreed", "", "lost")
RESTORE: Final[TimerKey] = ("agreed", "", "restore")
TELL_AGAIN: Final[TimerKey] = ("agreed", "", "tell again")
PROOFS: Final[TimerKey] = ("agreed", "", "proofs")

_ASKED: Final = (GroupVerb.JOIN, GroupVerb.LEAVE, GroupVerb.FAIL, GroupVerb.BACK)

FOR_GOOD: Final = frozenset(["Denied", "Excluded", "Invalid", "NoSuchGroup", "Terminated", "TooLarge"])
"""Why a join may be refused that would be refused again: what its host holds is not brought back for that."""

DEPARTED_MAX: Final = 4_096
"""Members that left of which a server remembers it: longer than their joins can be under way."""


class AgreedServer(Holdings, Service):
    name = AGREED_SERVER
    takes = (
        *(MemberAsked, MemberAnswer, HostHolds, ViewTold, ViewTaken, BranchLost, BranchCut, HoldingsAsked),
        *(HolderAsked, ViewComing, GroupOrdered, SetOrdered),
        *(LeaseAsked, LeaseGiven, ConfirmAsked, LeaseConfirmed),
        *(*get_args(AnySetMessage), SyncDone, LinkUp, LinkDown, LinkMoved),
    )

    def __init__(
        self,
        domain: Domain,
        registry: Registry,
        config: AgreedConfig | None = None,
        *,
        is_replica: bool = False,
        has_parent: bool = True,
    ) -> None:
        self._has_parent = has_parent
        self._records = registry.own
        self._keeper = SetKeeper(domain, registry.own)
        self._is_replica = is_replica
        super().__init__(domain, FenceRecord(registry.own), config or AgreedConfig())
        self._above = None if domain == ROOT else parent(domain)
        self._orphans: dict[MemberId, None] = {}  # their host was lost before their join was done
        self._lost: dict[Domain, Instant] = {}  # branches whose members are to be removed; not before this
        self.losing: losses.Losing = {}
        self._timers: set[TimerKey] = set()  # that run
        self._screened: proven.Screened | None = None  # where to go on

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        self._now = now
        written = self._records.version
        if self._began_at is None:
            self._began_at = now
            self._fences.begin()
            self._recover(now, out)
        self._mind_leases(now, out)
        match event:
            case Received(sender, SyncDone()):
                self._synced.add(sender)
                self._restore_ready(now, out)
                for core in self._ordinary():
                    self._excuse(core, out)
            case Received(sender, message):
                relation = self._neighbours.up.get(sender)
                if relation is None:
                    out.append(ignored(message, "sender is not connected"))
                elif isinstance(message, LeaseAsked | LeaseGiven | ConfirmAsked | LeaseConfirmed):
                    self._of_lease(now, sender, message, out)
                elif isinstance(message, SetMessage):
                    self._of_set(now, sender, message, out)
                else:
                    self._received(now, sender, relation, message, out)
            case TimerFired(timer) if timer == ALARM:
                pass  # done above
            case GroupOrdered():
                ordering.order(self, now, event, out)
            case SetOrdered(name, changed):
                if not self._is_starting(now):
                    core = self._part_in(now, name, out)
                    self._propose_all(now, core, () if changed is None else (changed,), out)
            case TimerFired(timer) if timer[1] in self.sets:
                core = self.sets[Domain(str(timer[1]))]
                self._perform(core, core.core.step(now, event), out)
            case TimerFired(timer):
                self._timers.discard(timer)
                if timer == PROOFS:
                    proven.screen(self, now, out)
                elif timer == TELL_AGAIN:
                    self._tell_again(out)
                    self._seek(out)
                elif timer == LOST:
                    losses.remove_lost(self, now, out)
                elif timer == losses.LOSING:
                    losses.remove_some(self, now, out)
                elif timer == RETURNING:
                    self._bring_more_back(now, out)
                else:
                    self._restore_ready(now, out)
            case LinkDown(peer, because):
                self._link_down(now, peer, out, is_silent=because.what == "silent")
                self._link_of_set(now, peer, event, out)
            case LinkUp(peer) | LinkMoved(peer):
                self._synced.discard(peer)
                if self._neighbours.relation(peer) is Relation.CHILD:
                    self._forget_holding(peer)
                    is_moved = isinstance(event, LinkMoved) and not self._neighbours.cluster
                    if is_moved and any(core.has_members(peer) for core in self._ordinary()):
                        self._lost[peer] = now + RESTORE_S  # which of its hosts were lost, nobody says
                self._link_of_set(now, peer, event, out)
                if peer == self._neighbours.parent:
                    self._send_down(HoldingsAsked(self.domain), out)
            case _:
                out.append(ignored(event, "nothing waits for it"))
        for core in list(self.sets.values()):
            self._raise_level(now, core, out)
            self._let_others_follow(now, core, out)
            for coming in coming_views(core, self.domain) if self._config.early_flush else ():
                self._spread(coming, out)
            if core.waiting and core.is_formed(now):
                waiting, core.waiting = core.waiting, []
                for message in waiting:
                    self._take(now, core, message, out)
        self._mind_leases(now, out)
        self._renew_leases(now, out)
        self._set_timers(now, out)
        return self._after_secured(written, out)

    def _recover(self, now: Instant, out: list[Effect]) -> None:
        """Our parts in sets, as this server left them before it ended, or the replica that led before us."""
        for name, state in self._keeper.recovered().items():
            core = self._new_part(now, SetCore(name, state, self._config))
            core.core.leases.floor = now + self._config.doubt_after_s
            core.lease.committed(state.base)
            if not core.is_parent:
                members = [id for known in state.table.groups.values() for id in known.view.ids]
                for below in {hop for id in members if (hop := self._hop(id)) is not None}:
                    self._lost[below] = now + RESTORE_S
            for timer in core.core.timers():
                self._perform(core, core.core.step(now, TimerFired(timer)), out)
            for each in () if self._is_replica else state.electorate:
                if each != state.me:  # they have given us up, as of a link that is down
                    down = LinkDown(each.server, Because(self.domain, each.server, "restarted"))
                    self._perform(core, core.core.step(now, down), out)

    def _raise_level(self, now: Instant, core: CoreSet, out: list[Effect]) -> None:
        """We were of an earlier version when we became this member of the set. Do the others know of that?"""
        view, me, level = core.core.state.view, core.core.state.me, self._config.set_level
        own = view.members[view.rank(me)]
        if own.level < level and all(each.level for each in view.members if each.id != me):
            raised = LevelRaised(me, level)
            if not any(each.change == raised for each in core.core.state.queue) and not core.core.state.lock:
                self._propose(now, core, raised, out)

    def _hop(self, member: MemberId) -> Domain | None:
        """The child towards its host, if that is below us."""
        host = host_of(member.endpoint)
        return self._neighbours.next_hop(host) if inside(self.domain, host) else None

    def _keep(self, core: CoreSet) -> None:
        if self._is_kept(core):
            self._keeper.keep(core.core.set, core.core.state)

    def _is_kept(self, core: CoreSet) -> bool:
        """Rules ask what was acknowledged; and no host knows of groups that were created or deleted."""
        state = core.core.state
        if self._is_replica or core.core.set in self._keeper or state.tried or state.table.has_rules:
            return True
        if state.gave_up:  # an administrator's word outlives a restart
            return True
        return state.table.counts.described > 0

    def _after_secured(self, since: int, out: list[Effect]) -> list[Effect]:
        """All records of this step are written first, in the order of their versions: what is sent rests on
        all of them."""
        records = self._keeper.secured(since)
        if not out and not any(each.record.version > since for each in records):
            return out
        others = [each for each in out if type(each) is Secure and each.record.version > since]
        by_version = {each.record.version: each for each in (*records, *others)}
        return [*[by_version[version] for version in sorted(by_version)], *out]

    def _received(
        self, now: Instant, sender: Domain, relation: Relation, message: object, out: list[Effect]
    ) -> None:
        match message:
            case MemberAsked(group, question, _, members) | HostHolds(group, question, members):
                if not self._may_ask(sender, relation, group, question.host):
                    out.append(ignored(message, OUTSIDE))
                elif isinstance(message, MemberAsked) and message.verb not in _ASKED:
                    out.append(ignored(message, "not for a host to ask"))
                elif any(host_of(each.id.endpoint) != question.host for each in members):
                    out.append(ignored(message, "a member of another host"))
                elif isinstance(message, HostHolds) and not is_reachable(message):
                    out.append(ignored(message, "a view that no group comes to"))
                elif isinstance(message, MemberAsked) and not members:
                    out.append(ignored(message, "a change of nobody"))
                elif not is_possible(message.group_kind):
                    out.append(ignored(message, "no kind of an agreed group"))
                elif (message := self._let_in(now, message, out)) is None:
                    pass
                elif self._goes_up(message):
                    self._pass_up(sender, message, out)
                else:
                    self._arrived(now, message, out)
            case ViewTaken(group, host):
                if not self._may_ask(sender, relation, group, host):
                    out.append(ignored(message, OUTSIDE))
                elif self._goes_up(message):
                    self._pass_up(sender, message, out)
                elif (core := self.sets.get(self._own_set(group))) is not None:
                    self._taken(core, message, out)
            case MemberAnswer(group, question):
                if self._is_from_core(relation, group):
                    self._pass_down(question.host, message, out)
                else:
                    out.append(ignored(message, OUTSIDE))
            case ViewTold(group) | HolderAsked(group) | ViewComing(group):
                if self._is_from_core(relation, group):
                    self._spread(message, out)
                else:
                    out.append(ignored(message, OUTSIDE))
            case BranchLost(domain):
                is_host = self._neighbours.cluster  # which is known by its link, and reports no other
                if is_host or relation is not Relation.CHILD or not inside(sender, domain):
                    out.append(ignored(message, OUTSIDE))
                else:
                    self._branch_lost(domain, now + self._config.doubt_after_s)
                    self._pass_up(sender, message, out)
            case BranchCut(domain) | HoldingsAsked(domain):
                if relation is not Relation.PARENT or not inside(domain, self.domain):
                    out.append(ignored(message, OUTSIDE))
                else:
                    self._send_down(message, out)

    # Sets

    def _set_of(self, peer: Domain) -> Domain | None:
        """The set in which this neighbour is a server beside us."""
        match self._neighbours.relation(peer):
            case Relation.SIBLING | Relation.PARENT:
                return self._above
            case Relation.CHILD if not self._neighbours.cluster:
                return self.domain
        return None

    def _link_of_set(self, now: Instant, peer: Domain, event: Event, out: list[Effect]) -> None:
        name = self._set_of(peer)
        if name is not None and (core := self.sets.get(name)) is not None:
            self._perform(core, core.core.step(now, event), out)

    def _of_set(self, now: Instant, sender: Domain, message: SetMessage, out: list[Effect]) -> None:
        if message.set != self._set_of(sender):
            out.append(ignored(message, OUTSIDE))
        elif message.set not in self.sets and self._is_starting(now):
            out.append(ignored(message, "hosts below may still say what they hold"))
        else:
            core = self._part_in(now, message.set, out)
            if (busy := self._must_refuse(now, core, message)) is not None:
                out.append(Send(sender, busy))
            else:
                self._perform(core, core.core.step(now, Received(sender, message)), out)

    def _is_starting(self, now: Instant) -> bool:
        return self._began_at is None or now < self._began_at + self._config.start_s

    def _part_in(self, now: Instant, name: Domain, out: list[Effect]) -> CoreSet:
        """Our part in a set: from now on, if we had none."""
        if name not in self.sets:
            me = ServerId(self.domain, self.stack[SERVER].incarnation)
            is_lone = name == self.domain and self._neighbours.cluster
            is_parent, level = name == self.domain, self._config.set_level
            core = SetCore(name, alone(me, parent=is_parent, level=level), self._config)
            self._new_part(now, core)
            if not is_lone:
                for group in sorted([each for each in self.restoring if self._own_set(each) == name]):
                    self._restore(now, group, self.restoring.pop(group), out)
                for peer in sorted(self._neighbours.up):
                    if self._set_of(peer) == name:
                        self._perform(self.sets[name], core.step(now, LinkUp(peer, 0)), out)
        return self.sets[name]

    def _new_part(self, now: Instant, core: SetCore) -> CoreSet:
        is_parent = core.set == self.domain and not self._neighbours.cluster
        self.sets[core.set] = CoreSet(core, is_parent=is_parent, form_until=now + FORM_S)
        return self.sets[core.set]

    def _goes_up(self, message: Asking | ViewTaken) -> bool:
        return not self._agrees_on(message.group)

    def _agrees_on(self, group: Group) -> bool:
        """Are we, of the servers above a host below us, the one in the core-set of the group?"""
        return group.scope == self._above or (group.scope == self.domain and self._neighbours.cluster)

    # Which way

    def _may_ask(self, sender: Domain, relation: Relation, group: Group, host: Domain) -> bool:
        return (
            relation is Relation.CHILD
            and self._neighbours.next_hop(host) == sender
            and inside(group.scope, self.domain)
        )

    def _is_from_core(self, relation: Relation, group: Group) -> bool:
        return (
            relation is Relation.PARENT
            and not self._agrees_on(group)
            and inside(group.scope, self.domain)
            and group.scope != self.domain
        )

    def _pass_up(self, sender: Domain, message: Asking | ViewTaken | BranchLost, out: list[Effect]) -> None:
        parent = self._neighbours.parent
        if isinstance(message, Asking):
            self._carried.add(sender)
        elif isinstance(message, BranchLost) and sender not in self._carried:
            return
        if parent is not None and parent in self._neighbours.up:
            out.append(Send(parent, message))
            return
        out.append(ignored(message, "next hop is down"))
        if isinstance(message, Asking):
            why = f"{self.domain} cannot reach {parent}"
            out.append(Send(sender, MemberAnswer(message.group, message.question, Unreachable.code, why)))

    def _pass_down(self, host: Domain, message: MemberAnswer, out: list[Effect]) -> None:
        hop = self._neighbours.next_hop(host)
        if hop is None or self._neighbours.up.get(hop) is not Relation.CHILD:
            out.append(ignored(message, "next hop is down"))
        else:
            out.append(Send(hop, message))

    def _spread(self, told: ViewTold | HolderAsked | ViewComing, out: list[Effect]) -> None:
        """To each child with some of these hosts below it, once."""
        ways: dict[Domain, list[Domain]] = {}
        for host in told.hosts:
            hop = self._neighbours.next_hop(host)
            if hop is None or self._neighbours.up.get(hop) is not Relation.CHILD:
                out.append(ignored(told, "next hop is down"))
            else:
                ways.setdefault(hop, []).append(host)
        for hop in sorted(ways):
            hosts = tuple(ways[hop])
            out.append(Send(hop, told if hosts == told.hosts else msgspec.structs.replace(told, hosts=hosts)))

    def _send_down(self, message: BranchCut | HoldingsAsked, out: list[Effect]) -> None:
        out += [
            Send(child, message)
            for child in sorted(self._carried)
            if self._neighbours.up.get(child) is Relation.CHILD
        ]

    # Branches that are lost

    def _link_down(self, now: Instant, peer: Domain, out: list[Effect], *, is_silent: bool) -> None:
        """A neighbour that was silent for so long lives by no word of ours any more."""
        self._synced.discard(peer)
        lent_until = self._lent.pop(peer, now)
        if not is_silent:
            for core in self.sets.values():
                core.core.leases.lost(now, peer, self._config.doubt_after_s)
        parent = self._neighbours.parent
        if peer == parent:
            self._branch_lease.lapse()
            self._send_down(BranchCut(self.domain), out)
        elif self._neighbours.relation(peer) is Relation.CHILD:
            self._branch_lost(peer, now if is_silent else lent_until)
            if peer in self._carried:
                self._carried.discard(peer)
                if parent in self._neighbours.up:
                    out.append(Send(parent, BranchLost(peer)))

    def _forget_holding(self, domain: Domain) -> None:
        """Drop what hosts hold that are in a lost branch, or whose link is new."""
        for host in [host for host in self._holding if inside(domain, host)]:
            del self._holding[host]
        self._said = {(host, group) for host, group in self._said if not inside(domain, host)}
        for core in self._ordinary():
            for request, asked in list(core.asked.items()):
                if inside(domain, asked.question.host):
                    del core.asked[request]
            for host in [host for host in core.behind if inside(domain, host)]:
                del core.behind[host]

    def _branch_lost(self, domain: Domain, lent_until: Instant) -> None:
        """Its members are removed when they live by no lease any more."""
        self._forget_requests(domain)
        self._forget_holding(domain)
        for core in self._ordinary():
            if core.has_members(domain):
                self._lost[domain] = max(lent_until, self._lost.get(domain, lent_until))
            for told in core.told.values():
                for host in [host for host in told.ids if inside(domain, host)]:
                    del told.ids[host]
                    told.untaken.discard(host)

    def _forget_requests(self, domain: Domain) -> None:
        """Drop requests of hosts in a lost branch. Joins that are under way are undone when they are done."""
        for restoring in self.restoring.values():
            restoring.waiting = _outside(domain, restoring.waiting)
        for core in self._ordinary():
            core.waiting = _outside(domain, core.waiting)
            for asked in [each for each in core.asked.values() if inside(domain, each.question.host)]:
                if asked.verb is GroupVerb.JOIN:
                    self._orphans.update(dict.fromkeys([each.id for each in asked.members]))
        for id in list(self._orphans)[:-DEPARTED_MAX]:
            del self._orphans[id]

    def _is_lost(self, id: MemberId) -> bool:
        """Is it to be removed when it lives by no lease any more?"""
        return any(inside(domain, id.endpoint) for domain in self._lost)

    def _propose_loss(
        self, now: Instant, core: CoreSet, group: Group, lost: Sequence[MemberId], out: list[Effect]
    ) -> None:
        known = core.table.get(group)
        if lost and known is not None:
            senior = known.view.lowest_rank(lost)
            self._propose(now, core, GroupChange(group, GroupVerb.FAIL, tuple(lost), "", senior), out)

    def _confirm(self, core: CoreSet, commit: SetCommitted, out: list[Effect]) -> None:
        """Parts have met: groups that stand still are asked about again, by a change that all acknowledge."""
        for group in sorted(core.table.groups):
            known = core.table.groups[group]
            if known.blocked:
                request = f"met {commit.view.pid}"  # the same at all servers: done once
                change = GroupChange(group, GroupVerb.ATTRIBUTES, (), request, data=known.view.attributes)
                self._propose(self._now, core, change, out)

    # Requests, at the core-set

    def _let_in(self, now: Instant, message: Asking, out: list[Effect]) -> Asking | None:
        """What of it may be (`proven.py`); a join that may not is answered."""
        gate = self.stack[SERVER].gate
        if isinstance(message, HostHolds):
            return proven.let_in(now, gate, message, out)
        code, why = proven.refused(now, gate, message, out)
        if code:
            self._answer(message.question, message.group, code, why, out)
        return None if code else message

    def _arrived(self, now: Instant, message: Asking, out: list[Effect]) -> None:
        group, host = message.group, message.question.host
        if isinstance(message, HostHolds):  # known at once, though it may wait: these are not dead
            groups, known = self._holding.setdefault(host, {}), self.sets.get(self._own_set(group))
            if group not in groups and len(groups) >= HOST_GROUPS_MAX:
                out.append(ignored(message, "too many groups of one host"))
                return
            if not message.members and (known is None or known.table.get(group) is None):
                self._answer(message.question, group, "", "", out)  # a group of nobody is none
                return
            groups[group] = {each.id: each.attributes for each in message.members}
        life = message.question.life  # of its agent: those of an earlier one do not come back
        for id in [id for id in self._orphans if (host_of(id.endpoint), id.stamp[0]) == (host, life)]:
            del self._orphans[id]
        if self._must_restore(now, message):
            self._wait_for_hosts(message, out)
            self._restore_ready(now, out)
            return
        core = self._part_in(now, self._own_set(message.group), out)
        if core.is_formed(now):
            self._take(now, core, message, out)
        else:
            let_wait(message, core.waiting, out)

    def _take(self, now: Instant, core: CoreSet, message: Asking, out: list[Effect]) -> None:
        if isinstance(message, HostHolds):
            self._reconcile(now, core, message, out)
        else:
            self._asked(now, core, message, out)

    def _asked(self, now: Instant, core: CoreSet, message: MemberAsked, out: list[Effect]) -> None:
        group, kind = message.group, message.group_kind
        known = core.table.get(group)
        if self._let_in(now, message, out) is None:
            return None
        if why := ordering.why_not_join(message, known):
            return self._answer(message.question, group, NotAllowed.code, why, out)
        host, waits = message.question.host, core.behind.get(message.question.host)
        of_host = sum(each.question.host == host for each in core.asked.values())
        if of_host >= HOST_QUEUE_MAX and str(message.question) not in core.asked:
            waits = core.behind.setdefault(host, deque())
            if message not in waits and has_room(message, waits):
                return waits.append(message)
            return out.append(ignored(message, "too many requests of its host wait"))
        groups = self._holding.get(host, {})
        if message.verb is GroupVerb.JOIN and group not in groups and len(groups) >= HOST_GROUPS_MAX:
            why = f"{host} is in {HOST_GROUPS_MAX} agreed groups"
            return self._answer(message.question, group, TooLarge.code, why, out)
        if message.verb is GroupVerb.JOIN and (why := self._records.no_room) and self._is_kept(core):
            return self._answer(message.question, group, StoreFailed.code, why, out)
        if is_primary(kind) and not self._has_parent and group.scope != self.domain:
            why = f'{group.scope} has no server, which survive="primary" asks; choose survive="majority"'
            return self._answer(message.question, group, NotAllowed.code, why, out)
        if len(core.core.state.queue) >= QUEUE_MAX:
            return out.append(ignored(message, "too many changes wait"))
        request = str(message.question)
        core.asked[request] = message
        ids = tuple([each.id for each in message.members])
        if message.verb is GroupVerb.JOIN:
            meta = message.members[0].attributes if message.members else b""
            floor = max(self._fences.floor, core.table.forgotten)
            made = self._kind_made(core, group, kind)
            change = GroupChange(group, GroupVerb.JOIN, ids, request, data=meta, kind=made, fence=floor)
        else:
            for id in ids if message.verb is not GroupVerb.BACK else ():
                self._held(id, group).pop(id, None)
                self._departed[id, group] = None
            if group in groups and not groups[group]:
                del groups[group]
            for left in list(self._departed)[:-DEPARTED_MAX]:
                del self._departed[left]
            rank = 0 if known is None else known.view.lowest_rank(ids)
            change = GroupChange(group, message.verb, ids, request, rank)
        return self._propose(now, core, change, out)

    def _let_others_follow(self, now: Instant, core: CoreSet, out: list[Effect]) -> None:
        """Requests that waited for others of their host."""
        for host, waits in list(core.behind.items()):
            of_host = sum(each.question.host == host for each in core.asked.values())
            for _ in range(min(len(waits), HOST_QUEUE_MAX - of_host)):
                self._asked(now, core, waits.popleft(), out)
            if not waits:
                del core.behind[host]

    def _propose(self, now: Instant, core: CoreSet, change: AnyChange, out: list[Effect]) -> None:
        self._propose_all(now, core, [change], out)

    def _propose_all(
        self, now: Instant, core: CoreSet, changes: Iterable[AnyChange], out: list[Effect]
    ) -> None:
        """One after the other; what a commit makes us propose comes after those that wait here."""
        is_first = not self._due
        self._due += [(core, change) for change in changes]
        while is_first and self._due:
            where, change = self._due[0]
            self._perform(where, where.core.step(now, ChangeAsked(change)), out)
            del self._due[0]

    def _perform(self, core: CoreSet, effects: Iterable[Effect], out: list[Effect]) -> None:
        """What the core orders. Several changes may be committed at once. What we propose on account of them
        comes after all effects, the last of which may end a timer."""
        self._keep(core)
        if core.table.forgotten:
            out.append(self._fences.reserve(core.table.forgotten))
        changed: set[Group] = set()
        let_in: set[Group] = set()
        merges: list[SetCommitted] = []
        for effect in effects:
            if isinstance(effect, SetCommitted):
                core.lease.committed(effect.record.proposal.pid)
                out += agreed_views(core.core.set, effect, core.shown)
                self._committed(core, effect, out)
                changed.update([outcome.group for outcome in effect.outcomes])
                let_in.update([each.group for each in effect.outcomes if each.code not in FOR_GOOD])
                if isinstance(effect.record.proposal.change, PartsMerged):
                    merges.append(effect)
            elif isinstance(effect, ServerIsolated):
                out.append(SetIsolated(core.core.set, effect.server, effect.why))
                out.append(Noted("server isolated", f"{effect.server} of set({core.core.set}): {effect.why}"))
            else:
                out.append(effect)
        for merge in merges:
            self._confirm(core, merge, out)
            self._excuse(core, out)
        for group in ordering.first_over(core.table, changed) if not core.is_parent else ():
            self._changed(core, group, out, brings_back=group in let_in)

    def _committed(self, core: CoreSet, commit: SetCommitted, out: list[Effect]) -> None:
        if isinstance(change := commit.record.proposal.change, GroupChange) and change.verb is GroupVerb.FAIL:
            for id in change.members:
                self._orphans.pop(id, None)
        for outcome in commit.outcomes:
            asked = core.asked.pop(outcome.request, None)
            if asked is not None:
                code, why = why_not_in(outcome, core.table.get(outcome.group))
                self._answer(asked.question, outcome.group, code, why, out)
                self._note_holding(core, asked, done=not code)

    def _changed(self, core: CoreSet, group: Group, out: list[Effect], *, brings_back: bool = True) -> None:
        known = core.table.get(group)
        if known is None or ordering.is_over_now(core, group, self._holding, self._departed, out):
            return
        ordering.placed(core, group, self._holding, self._departed, out)
        ids = core.told[group].ids if group in core.told else {}
        self._tell(
            core, group, [each for each in hosts_of(known.view) if ids.get(each) != known.view.id], out
        )
        for each in (group, *subgroups_of(core.table, group)) if brings_back else ():
            there = core.table.groups[each]
            listed = there.view.listed
            missed = [host for host, held in self._holding.items() if held.get(each, {}).keys() - listed]
            for host in sorted(missed):
                if (core.core.set, each, host) not in self.returning:
                    self._bring_back(self._now, core, each, host, there.kind, out)
        ranked = known.view.ids if self._orphans else ()
        orphans = [id for id in ranked if id in self._orphans and not self._is_lost(id)]
        self._propose_loss(self._now, core, group, orphans, out)
        if late := self._gone_of(known.view, group):
            # Its join was overtaken by its leave, which goes first; or its host has it no more.
            rank = known.view.rank(late[0]) or 0
            change = GroupChange(group, GroupVerb.FAIL, late, f"gone {known.view.pid}", rank)
            self._propose(self._now, core, change, out)

    def _answer(self, question: HostQuestion, group: Group, code: str, why: str, out: list[Effect]) -> None:
        self._pass_down(question.host, MemberAnswer(group, question, code, why), out)

    # Views, from the core-set

    def _tell(self, core: CoreSet, group: Group, hosts: Iterable[Domain], out: list[Effect]) -> None:
        """The present view, to these hosts below us, and those on the way to it: to each as a difference from
        what it has. A host that is back while its members are removed, or soon will be, waits for that."""
        known = core.table.get(group)
        if known is None:
            return
        doubt = self._doubt(self._now, core, group)
        if is_exclusive(known.kind) and not doubt:
            out.append(self._fences.reserve(known.living.fence))
        told = core.told.setdefault(group, ToldGroup())
        bases: dict[ViewId | None, AgreedView | None] = {}  # of what a host has: nearly all have the same
        by_base: dict[ViewId | None, list[Domain]] = {}
        below = [host for host in hosts if inside(self.domain, host)]
        away = losses.hosts_away(self, core, group, below)
        for host in below:
            if host not in away:
                if (had := told.ids.get(host)) not in bases:
                    bases[had] = base_of(known, had)
                base = bases[had]
                by_base.setdefault(None if base is None else base.id, []).append(host)
                told.ids[host] = known.view.id
                told.untaken.add(host)
        for id, those in by_base.items():
            base = bases.get(id)
            for view in path_from(known, base):
                lost = self.lost_domains(core, view)
                self._spread(view_message(group, known, view, base, tuple(sorted(those)), doubt, lost), out)
                base = view

    def _taken(self, core: CoreSet, message: ViewTaken, out: list[Effect]) -> None:
        told = core.told.get(message.group)
        if told is None or told.ids.get(message.host) != message.id:
            out.append(ignored(message, "of an older view"))
        elif message.whole:
            del told.ids[message.host]
            self._tell(core, message.group, [message.host], out)
        else:
            told.untaken.discard(message.host)

    def _tell_again(self, out: list[Effect]) -> None:
        for core in self.sets.values():
            for group in sorted(core.told):
                told = core.told[group]
                again = sorted(told.untaken)
                for host in again:
                    told.ids.pop(host, None)
                self._tell(core, group, again, out)

    # Timers

    def _set_timers(self, now: Instant, out: list[Effect]) -> None:
        untaken = any(told.untaken for core in self.sets.values() for told in core.told.values()) or any(
            self._sought(core, group) for core in self._ordinary() for group in core.table.groups
        )
        forming = [core.form_until for core in self.sets.values() if core.waiting]
        restoring = [each.until for each in self.restoring.values()]
        for timer, wanted, after_s in (
            (TELL_AGAIN, untaken, TELL_AGAIN_S),
            (LOST, bool(self._lost), LOSS_AFTER_S),
            (losses.LOSING, bool(self.losing), losses.next_s(self)),
            (RETURNING, bool(self.returning), 0.0),
            (PROOFS, proven.is_restricted(self), proven.next_s(self)),
            (RESTORE, bool(restoring), max(0.0, min(restoring, default=now) - now)),
            (FORM, bool(forming), max(0.0, min(forming, default=now) - now)),
        ):
            if wanted and timer not in self._timers:
                self._timers.add(timer)
                out.append(SetTimer(timer, after_s))
            elif not wanted and timer in self._timers:
                self._timers.discard(timer)
                out.append(CancelTimer(timer))


def _outside(domain: Domain, waiting: list[Asking]) -> list[Asking]:
    return [each for each in waiting if not inside(domain, each.question.host)]
