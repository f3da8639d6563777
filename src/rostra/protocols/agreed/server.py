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

Where we differ from the paper, and why: the core-set is the set of the group's scope, and does not move with
its members. A move is an agreement of two sets; a program that wants a smaller set says a smaller scope.
"""

from collections.abc import Iterable, Sequence
from typing import Final, get_args

import msgspec

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import BY_CODE, NotAllowed, TooLarge, Unreachable
from rostra.groups.kinds import GroupKind
from rostra.names import ROOT, Domain, Group, host_of, inside, parent
from rostra.protocols.agreed.branch import (
    BranchCut,
    BranchLost,
    HoldingsAsked,
    HostHolds,
    HostQuestion,
    MemberAnswer,
    MemberAsked,
    ViewId,
    ViewTaken,
    ViewTold,
)
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupVerb,
    MemberId,
    PartsMerged,
    ServerId,
)
from rostra.protocols.agreed.config import (
    FORM_S,
    LOSS_AFTER_S,
    QUEUE_MAX,
    RESTORE_S,
    START_S,
    TELL_AGAIN_S,
    AgreedConfig,
)
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.differences import base_of, hosts_of, ids_of, path_from, view_message
from rostra.protocols.agreed.events import ChangeAsked, ServerIsolated, SetCommitted
from rostra.protocols.agreed.fences import FenceRecord
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView, Outcome, is_possible
from rostra.protocols.agreed.living import is_exclusive
from rostra.protocols.agreed.messages import AnySetMessage, SetMessage
from rostra.protocols.agreed.part import Asking, CoreSet, Restoring, ToldGroup, is_reachable, let_wait
from rostra.protocols.agreed.rules import LivingState, RuleMember
from rostra.protocols.agreed.state import Coordinating, alone
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.messages import SyncDone
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.routing import OUTSIDE

AGREED_SERVER: ServiceName["AgreedServer"] = ServiceName("agreed server")

FORM: Final[TimerKey] = ("agreed", "", "form")
LOST: Final[TimerKey] = ("agreed", "", "lost")
RESTORE: Final[TimerKey] = ("agreed", "", "restore")
TELL_AGAIN: Final[TimerKey] = ("agreed", "", "tell again")

_CODES: Final = {error.__name__: error.code for error in BY_CODE.values()}
_ASKED: Final = (GroupVerb.JOIN, GroupVerb.LEAVE, GroupVerb.FAIL)

DEPARTED_MAX: Final = 4_096
"""Members that left of which a server remembers it: longer than their joins can be under way."""


class AgreedServer(Service):
    name = AGREED_SERVER
    takes = (
        *(MemberAsked, MemberAnswer, HostHolds, ViewTold, ViewTaken, BranchLost, BranchCut, HoldingsAsked),
        *(*get_args(AnySetMessage), SyncDone, LinkUp, LinkDown, LinkMoved),
    )

    def __init__(self, domain: Domain, registry: Registry, config: AgreedConfig | None = None) -> None:
        self.domain = domain
        self._fences = FenceRecord(registry.own)
        self.sets: dict[Domain, CoreSet] = {}
        self.restoring: dict[Group, Restoring] = {}
        self._above = None if domain == ROOT else parent(domain)
        self._config = config or AgreedConfig()
        self._began_at: Instant | None = None
        self._now: Instant = 0.0  # of this step
        self._synced: set[Domain] = set()  # children that have said all they hold since their link came up
        self._holding: dict[Domain, dict[Group, dict[MemberId, bytes]]] = {}  # by host, as it says
        self._departed: dict[MemberId, None] = {}  # of late: they asked to leave, or died
        self._orphans: dict[MemberId, None] = {}  # their host was lost before their join was done
        self._carried: set[Domain] = set()  # children for which something was passed on to our parent
        self._lost: list[Domain] = []  # branches whose members are to be removed, gathered for one change
        self._due: list[tuple[CoreSet, AnyChange]] = []  # to be proposed in this step; the first one is
        self._timers: set[TimerKey] = set()  # that run

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        self._now = now
        if self._began_at is None:
            self._began_at = now
            self._fences.begin()
        match event:
            case Received(sender, SyncDone()):
                self._synced.add(sender)
                self._restore_ready(now, out)
                for core in self._ordinary():
                    self._excuse(core, out)
            case Received(sender, message):
                relation = self._neighbours.up.get(sender)
                if relation is None:
                    return [_ignored(message, "sender is not connected")]
                if isinstance(message, SetMessage):
                    self._of_set(now, sender, message, out)
                else:
                    self._received(now, sender, relation, message, out)
            case TimerFired(timer) if timer[1] in self.sets:
                core = self.sets[Domain(str(timer[1]))]
                self._perform(core, core.core.step(now, event), out)
            case TimerFired(timer):
                self._timers.discard(timer)
                if timer == TELL_AGAIN:
                    self._tell_again(out)
                elif timer == LOST:
                    self._branches_lost(now, out)
                else:
                    self._restore_ready(now, out)
            case LinkDown(peer):
                self._link_down(peer, out)
                self._link_of_set(now, peer, event, out)
            case LinkUp(peer) | LinkMoved(peer):
                self._synced.discard(peer)
                if self._neighbours.relation(peer) is Relation.CHILD:
                    self._forget_holding(peer)
                self._link_of_set(now, peer, event, out)
                if peer == self._neighbours.parent:
                    self._send_down(HoldingsAsked(self.domain), out)
            case _:
                out.append(Ignored(type(event).__name__, "nothing waits for it"))
        for core in list(self.sets.values()):
            if core.waiting and core.is_formed(now):
                waiting, core.waiting = core.waiting, []
                for message in waiting:
                    self._take(now, core, message, out)
        self._set_timers(now, out)
        return out

    def _received(
        self, now: Instant, sender: Domain, relation: Relation, message: object, out: list[Effect]
    ) -> None:
        match message:
            case MemberAsked(group, question, _, members) | HostHolds(group, question, members):
                if not self._may_ask(sender, relation, group, question.host):
                    out.append(_ignored(message, OUTSIDE))
                elif isinstance(message, MemberAsked) and message.verb not in _ASKED:
                    out.append(_ignored(message, "not for a host to ask"))
                elif any(host_of(each.id.endpoint) != question.host for each in members):
                    out.append(_ignored(message, "a member of another host"))
                elif isinstance(message, HostHolds) and not is_reachable(message):
                    out.append(_ignored(message, "numbers that no group comes to"))
                elif not is_possible(message.group_kind):
                    out.append(_ignored(message, "no kind of an agreed group"))
                elif not self._agrees_on(group):
                    self._pass_up(sender, message, out)
                else:
                    self._arrived(now, message, out)
            case ViewTaken(group, host):
                if not self._may_ask(sender, relation, group, host):
                    out.append(_ignored(message, OUTSIDE))
                elif not self._agrees_on(group):
                    self._pass_up(sender, message, out)
                elif group.scope in self.sets:
                    self._taken(self.sets[group.scope], message, out)
            case MemberAnswer(group, question):
                if self._is_from_core(relation, group):
                    self._pass_down(question.host, message, out)
                else:
                    out.append(_ignored(message, OUTSIDE))
            case ViewTold(group):
                if self._is_from_core(relation, group):
                    self._spread(message, out)
                else:
                    out.append(_ignored(message, OUTSIDE))
            case BranchLost(domain):
                if relation is not Relation.CHILD or not inside(sender, domain):
                    out.append(_ignored(message, OUTSIDE))
                else:
                    self._branch_lost(domain)
                    self._pass_up(sender, message, out)
            case BranchCut(domain) | HoldingsAsked(domain):
                if relation is not Relation.PARENT or not inside(domain, self.domain):
                    out.append(_ignored(message, OUTSIDE))
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
            out.append(_ignored(message, OUTSIDE))
        elif message.set not in self.sets and self._is_starting(now):
            out.append(_ignored(message, "hosts below may still say what they hold"))
        else:
            core = self._part_in(now, message.set, out)
            self._perform(core, core.core.step(now, Received(sender, message)), out)

    def _is_starting(self, now: Instant) -> bool:
        return self._began_at is None or now < self._began_at + START_S

    def _part_in(self, now: Instant, name: Domain, out: list[Effect]) -> CoreSet:
        """Our part in a set: from now on, if we had none."""
        if name not in self.sets:
            me = ServerId(self.domain, self.stack[SERVER].incarnation)
            is_lone = name == self.domain and self._neighbours.cluster
            is_parent = name == self.domain and not is_lone
            core = SetCore(name, alone(me, parent=name == self.domain), self._config)
            self.sets[name] = CoreSet(core, is_parent=is_parent, form_until=now + FORM_S)
            if not is_lone:
                for group in sorted([group for group in self.restoring if group.scope == name]):
                    self._restore(now, group, self.restoring.pop(group), out)
                for peer in sorted(self._neighbours.up):
                    if self._set_of(peer) == name:
                        self._perform(self.sets[name], core.step(now, LinkUp(peer, 0)), out)
        return self.sets[name]

    def _agrees_on(self, group: Group) -> bool:
        """Of the servers above a host below us, are we the one in the core-set of the group?"""
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
        out.append(_ignored(message, "next hop is down"))
        if isinstance(message, Asking):
            why = f"{self.domain} cannot reach {parent}"
            out.append(Send(sender, MemberAnswer(message.group, message.question, Unreachable.code, why)))

    def _pass_down(self, host: Domain, message: MemberAnswer, out: list[Effect]) -> None:
        hop = self._neighbours.next_hop(host)
        if hop is None or self._neighbours.up.get(hop) is not Relation.CHILD:
            out.append(_ignored(message, "next hop is down"))
        else:
            out.append(Send(hop, message))

    def _spread(self, told: ViewTold, out: list[Effect]) -> None:
        """To each child with some of these hosts below it, once."""
        ways: dict[Domain, list[Domain]] = {}
        for host in told.hosts:
            hop = self._neighbours.next_hop(host)
            if hop is None or self._neighbours.up.get(hop) is not Relation.CHILD:
                out.append(_ignored(told, "next hop is down"))
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

    def _link_down(self, peer: Domain, out: list[Effect]) -> None:
        self._synced.discard(peer)
        parent = self._neighbours.parent
        if peer == parent:
            self._send_down(BranchCut(self.domain), out)
        elif self._neighbours.relation(peer) is Relation.CHILD:
            self._branch_lost(peer)
            if peer in self._carried:
                self._carried.discard(peer)
                if parent in self._neighbours.up:
                    out.append(Send(parent, BranchLost(peer)))

    def _ordinary(self) -> list[CoreSet]:
        """Our parts in sets for which we look after hosts."""
        return [core for core in self.sets.values() if not core.is_parent]

    def _forget_holding(self, domain: Domain) -> None:
        """Of hosts in a branch that is lost, or of which the link is new."""
        for host in [host for host in self._holding if inside(domain, host)]:
            del self._holding[host]
        for core in self._ordinary():
            for request, asked in list(core.asked.items()):
                if inside(domain, asked.question.host):
                    del core.asked[request]

    def _branch_lost(self, domain: Domain) -> None:
        self._forget_requests(domain)
        self._forget_holding(domain)
        for core in self._ordinary():
            views = [each.view for each in core.table.groups.values()]
            if domain not in self._lost and any(
                inside(domain, id.endpoint) for view in views for id in view.ids
            ):
                self._lost.append(domain)
            for told in core.told.values():
                for host in [host for host in told.ids if inside(domain, host)]:
                    del told.ids[host]
                    told.untaken.discard(host)

    def _forget_requests(self, domain: Domain) -> None:
        """Of hosts in a branch that is lost. Joins that are under way are undone when they are done."""
        for restoring in self.restoring.values():
            restoring.waiting = _outside(domain, restoring.waiting)
        for core in self._ordinary():
            core.waiting = _outside(domain, core.waiting)
            for asked in [each for each in core.asked.values() if inside(domain, each.question.host)]:
                if asked.verb is GroupVerb.JOIN:
                    self._orphans.update(dict.fromkeys([each.id for each in asked.members]))
        for id in list(self._orphans)[:-DEPARTED_MAX]:
            del self._orphans[id]

    def _branches_lost(self, now: Instant, out: list[Effect]) -> None:
        """All members below them failed, in every group that we agree on (V-018, V-064); but not those of a
        host that is back already."""
        lost, self._lost = tuple(self._lost), []
        for core in self._ordinary():
            for group in sorted(core.table.groups):
                ids = core.table.groups[group].view.ids
                below = [id for id in ids if any(inside(domain, id.endpoint) for domain in lost)]
                gone = [id for id in below if id not in self._held(id, group)]
                self._propose_loss(now, core, group, gone, out)

    def _propose_loss(
        self, now: Instant, core: CoreSet, group: Group, lost: Sequence[MemberId], out: list[Effect]
    ) -> None:
        known = core.table.get(group)
        if lost and known is not None:
            senior = min([known.view.rank(each) or 0 for each in lost])
            self._propose(now, core, GroupChange(group, GroupVerb.FAIL, tuple(lost), "", senior), out)

    def _confirm(self, core: CoreSet, commit: SetCommitted, out: list[Effect]) -> None:
        """Parts have met: groups that stand still are asked about again, by a change that all acknowledge."""
        for group in sorted(core.table.groups):
            known = core.table.groups[group]
            if known.blocked:
                request = f"met {commit.view.pid}"  # the same at all servers: done once
                change = GroupChange(group, GroupVerb.ATTRIBUTES, (), request, data=known.view.attributes)
                self._propose(self._now, core, change, out)

    def _note_holding(self, core: CoreSet, asked: MemberAsked) -> None:
        """A request of this host was done. It says nothing of others there: they may have died with the agent
        that was there before, and wait in `_lost`."""
        listed = frozenset(ids_of(core.table.get(asked.group)))
        held = self._holding.setdefault(asked.question.host, {}).setdefault(asked.group, {})
        for each in asked.members:
            if each.id in listed and each.id not in self._departed:
                held[each.id] = each.attributes

    def _excuse(self, core: CoreSet, out: list[Effect]) -> None:
        """Members of our hosts that are dead, and yet in a view or asked for by a rule, are removed; again
        after a merge with a part that did not know."""
        for group in sorted(core.table.groups):
            known = core.table.groups[group]
            counted = [known.living.members, *[each.members for each in known.living.attempts]]
            ids = {*known.view.ids, *[each.id for members in counted for each in members]}
            if dead := tuple(sorted([id for id in ids if self._has_gone(id, group)])):
                named = f"{core.core.state.view.pid} {dead[0].stamp[0]}:{dead[-1].stamp[1]}"
                change = GroupChange(group, GroupVerb.FAIL, dead, f"dead {self.domain} {named}")
                self._propose(self._now, core, change, out)

    # Requests, at the core-set

    def _arrived(self, now: Instant, message: Asking, out: list[Effect]) -> None:
        if isinstance(message, HostHolds):  # known at once, though it may wait: these are not dead
            held = {each.id: each.attributes for each in message.members}
            self._holding.setdefault(message.question.host, {})[message.group] = held
        for id in [id for id in self._orphans if host_of(id.endpoint) == message.question.host]:
            del self._orphans[id]
        if self._must_restore(now, message):
            self._wait_for_hosts(message, out)
            self._restore_ready(now, out)
            return
        core = self._part_in(now, message.group.scope, out)
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
        if known is not None and known.view.members and known.kind != kind:
            why = f"{group} is {known.kind}; join it so"
            return self._answer(message.question, group, NotAllowed.code, why, out)
        if len(core.core.state.queue) >= QUEUE_MAX:
            return out.append(_ignored(message, "too many changes wait"))
        request = str(message.question)
        core.asked[request] = message
        ids = tuple([each.id for each in message.members])
        if message.verb is GroupVerb.JOIN:
            meta = message.members[0].attributes if message.members else b""
            floor = self._fences.floor
            change = GroupChange(group, GroupVerb.JOIN, ids, request, data=meta, kind=kind, fence=floor)
        else:
            for id in ids:
                self._held(id, group).pop(id, None)
                self._departed[id] = None
            for id in list(self._departed)[:-DEPARTED_MAX]:
                del self._departed[id]
            ranks = [] if known is None else [known.view.rank(each) or 0 for each in ids]
            change = GroupChange(group, message.verb, ids, request, min(ranks, default=0))
        return self._propose(now, core, change, out)

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
        changed: set[Group] = set()
        merges: list[SetCommitted] = []
        for effect in effects:
            if isinstance(effect, SetCommitted):
                self._committed(core, effect, out)
                changed.update([outcome.group for outcome in effect.outcomes])
                if isinstance(effect.record.proposal.change, PartsMerged):
                    merges.append(effect)
            elif isinstance(effect, ServerIsolated):
                out.append(Noted("server isolated", f"{effect.server} of set({core.core.set}): {effect.why}"))
            else:
                out.append(effect)
        for merge in merges:
            self._confirm(core, merge, out)
            self._excuse(core, out)
        for group in sorted(changed) if not core.is_parent else ():
            self._changed(core, group, out)

    def _committed(self, core: CoreSet, commit: SetCommitted, out: list[Effect]) -> None:
        for outcome in commit.outcomes:
            asked = core.asked.pop(outcome.request, None)
            if asked is not None:
                code = _CODES.get(outcome.code, outcome.code)
                self._answer(asked.question, outcome.group, code, _why(outcome), out)
                self._note_holding(core, asked)

    def _changed(self, core: CoreSet, group: Group, out: list[Effect]) -> None:
        known = core.table.get(group)
        if known is None:
            return
        ids = core.told[group].ids if group in core.told else {}
        self._tell(
            core, group, [each for each in hosts_of(known.view) if ids.get(each) != known.view.id], out
        )
        for host in sorted(self._holding):
            self._bring_back(self._now, core, group, host, known.kind, out)
        orphans = [id for id in known.view.ids if id in self._orphans]
        self._propose_loss(self._now, core, group, orphans, out)
        if late := tuple([id for id in known.view.ids if self._has_gone(id, group)]):
            # Its join was overtaken by its leave, which goes first; or its host has it no more.
            rank = known.view.rank(late[0]) or 0
            change = GroupChange(group, GroupVerb.FAIL, late, f"gone {known.view.pid}", rank)
            self._propose(self._now, core, change, out)

    def _answer(self, question: HostQuestion, group: Group, code: str, why: str, out: list[Effect]) -> None:
        self._pass_down(question.host, MemberAnswer(group, question, code, why), out)

    # Views, from the core-set

    def _tell(self, core: CoreSet, group: Group, hosts: Iterable[Domain], out: list[Effect]) -> None:
        """The present view, to these hosts below us, and those on the way to it: to each as a difference from
        what it has."""
        known = core.table.get(group)
        if known is None:
            return
        if is_exclusive(known.kind):
            out.append(self._fences.reserve(known.living.fence))
        told = core.told.setdefault(group, ToldGroup())
        by_base: dict[ViewId | None, list[Domain]] = {}
        for host in hosts:
            if inside(self.domain, host):
                base = base_of(known, told.ids.get(host))
                by_base.setdefault(None if base is None else base.id, []).append(host)
                told.ids[host] = known.view.id
                told.untaken.add(host)
        for id, those in by_base.items():
            base = base_of(known, id)
            for view in path_from(known, base):
                self._spread(view_message(group, known, view, base, tuple(sorted(those))), out)
                base = view

    def _taken(self, core: CoreSet, message: ViewTaken, out: list[Effect]) -> None:
        told = core.told.get(message.group)
        if told is None or told.ids.get(message.host) != message.id:
            out.append(_ignored(message, "of an older view"))
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

    # What hosts hold

    def _reconcile(self, now: Instant, core: CoreSet, message: HostHolds, out: list[Effect]) -> None:
        """What a host has, and what the group has of it: members that were given up come back, last; those
        that went meanwhile are lost."""
        group, host = message.group, message.question.host
        told = core.told.setdefault(group, ToldGroup())
        if message.id is not None:
            told.ids[host] = message.id
        held = self._holding.get(host, {}).get(group, {})
        listed = [each for each in ids_of(core.table.get(group)) if host_of(each.endpoint) == host]
        self._propose_loss(now, core, group, [each for each in listed if each not in held], out)
        self._bring_back(now, core, group, host, message.group_kind, out)
        self._answer(message.question, group, "", "", out)
        if held.keys() <= set(ids_of(core.table.get(group))):
            self._tell(core, group, [host], out)

    def _has_gone(self, id: MemberId, group: Group) -> bool:
        """Has its host said so, or all that it holds, without it? One that is about to join has not."""
        if id in self._departed:
            return True
        if host_of(id.endpoint) not in self._synced or id in self._held(id, group):
            return False
        asked = self.sets[group.scope].asked.values()
        return all(id != joining.id for each in asked for joining in each.members)

    def _held(self, id: MemberId, group: Group) -> dict[MemberId, bytes]:
        return self._holding.get(host_of(id.endpoint), {}).get(group, {})

    def _bring_back(
        self, now: Instant, core: CoreSet, group: Group, host: Domain, kind: GroupKind, out: list[Effect]
    ) -> None:
        """Members that a host has and the group has not: they were given up, perhaps just now."""
        known = core.table.get(group)
        listed = frozenset(ids_of(known))
        missing = {
            id: meta for id, meta in self._holding.get(host, {}).get(group, {}).items() if id not in listed
        }
        joining = self._joining(core, group) if missing else ()
        returning: dict[bytes, list[MemberId]] = {}
        for id, meta in missing.items():
            if id not in joining:
                returning.setdefault(meta, []).append(id)
        pid = None if known is None else known.view.pid
        changes: list[AnyChange] = []
        for meta, ids in returning.items():
            first, *_ = ids = sorted(ids)
            request = f"back {host} {first.stamp[0]}:{first.stamp[1]} {pid}"
            changes.append(GroupChange(group, GroupVerb.JOIN, tuple(ids), request, data=meta, kind=kind))
        self._propose_all(now, core, changes, out)

    def _joining(self, core: CoreSet, group: Group) -> set[MemberId]:
        """Those whose join we have proposed, or will when it is its turn."""
        state = core.core.state
        changes = [
            *[each.change for each in state.queue],
            *[each for where, each in self._due if where is core],
        ]
        if isinstance(state.phase, Coordinating):
            changes.append(state.phase.proposal.change)
        return {
            id
            for change in changes
            if isinstance(change, GroupChange) and (change.verb, change.group) == (GroupVerb.JOIN, group)
            for id in change.members
        }

    def _must_restore(self, now: Instant, message: Asking) -> bool:
        """Of a group that we do not know: may hosts hold it that have not told us?"""
        group = message.group
        if group in self.restoring:
            return True
        core = self.sets.get(group.scope)
        if group.scope != self.domain:
            if core is not None or not self._is_starting(now):
                return False
            self.restoring[group] = Restoring((self._began_at or now) + START_S)
            return True
        if core is not None and core.table.get(group) is not None:
            return False
        if not isinstance(message, HostHolds) and not self._missing(group):
            return False
        self.restoring[group] = Restoring(now + RESTORE_S)
        return True

    def _wait_for_hosts(self, message: Asking, out: list[Effect]) -> None:
        restoring = self.restoring[message.group]
        if isinstance(message, HostHolds):
            restoring.held[message.question.host] = message
        else:
            let_wait(message, restoring.waiting, out)

    def _missing(self, group: Group) -> set[Domain]:
        """Hosts that have members, as the claim says or other hosts do, and have not said what they hold."""
        claim = self.stack[CLAIM_SERVER].table.get(group.name)
        hosts = set() if claim is None else set(claim.holders)
        if (restoring := self.restoring.get(group)) is not None:
            for held in restoring.held.values():
                hosts.update([host_of(each.id.endpoint) for each in held.view])
        return hosts - self._synced

    def _restore_ready(self, now: Instant, out: list[Effect]) -> None:
        for group in sorted(self.restoring):
            restoring = self.restoring.get(group)
            if restoring is None:
                continue  # restored with another group of its set
            if now >= restoring.until or (group.scope == self.domain and not self._missing(group)):
                self._part_in(now, group.scope, out)
                if self.restoring.pop(group, None) is not None:
                    self._restore(now, group, restoring, out)

    def _restore(self, now: Instant, group: Group, restoring: Restoring, out: list[Effect]) -> None:
        """As the hosts say that it is: the last view that any of them has, and what changed since."""
        core = self.sets[group.scope]
        held = [restoring.held[host] for host in sorted(restoring.held)]
        last = max(held, key=lambda each: (each.id is not None, each.id), default=None)
        if last is not None and last.id is not None and core.table.get(group) is None:
            living = max(held, key=lambda each: each.fence)
            fence = max(living.fence, self._fences.floor if group.scope == self.domain else 0)
            state = LivingState(fence, tuple([RuleMember(each) for each in living.lived]))
            view = AgreedView(*last.id, last.view)
            core.core.restore(group, AgreedGroup((view,), kind=last.group_kind, living=state))
            hosts = {each.question.host for each in held}
            lost = [each for each in view.ids if host_of(each.endpoint) not in hosts]
            self._propose_loss(now, core, group, lost, out)
        for each in held:
            self._reconcile(now, core, each, out)
        self._excuse(core, out)  # hosts may have said so before we knew of the group
        core.waiting += restoring.waiting

    # Timers

    def _set_timers(self, now: Instant, out: list[Effect]) -> None:
        untaken = any(told.untaken for core in self.sets.values() for told in core.told.values())
        forming = [core.form_until for core in self.sets.values() if core.waiting]
        restoring = [each.until for each in self.restoring.values()]
        for timer, wanted, after_s in (
            (TELL_AGAIN, untaken, TELL_AGAIN_S),
            (LOST, bool(self._lost), LOSS_AFTER_S),
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


def _why(outcome: Outcome) -> str:
    if not outcome.code:
        return ""
    if outcome.code == TooLarge.__name__:
        return f"{outcome.group} is full"
    return f"{outcome.group}: {outcome.code}"


def _ignored(message: object, why: str) -> Ignored:
    return Ignored(type(message).__name__, why)
