"""Agreed groups at a domain's server: requests go up to the core-set, views come down from it.

                       core-set of the group
                     ┌──────────────────────────┐
    MemberAsked ───▶ │ SetCore: one change after│ ──▶ SetCommitted ──▶ GroupTable: the next view
    HostHolds   ───▶ │ the other                │                        │ ViewTold, to each host below
                     └──────────────────────────┘ ◀── ViewTaken ─────────┘

Of the servers above a host exactly one is in the core-set of a group: the server of the cluster, if that is
the scope (D2); otherwise the child of the scope. All below it pass messages on, up and down, and keep nothing
but which of their children had something to pass.

**Lost state.** A server that restarts, or takes over, knows no group. The hosts send what they hold. The
server of a cluster waits for all hosts that hold the group's claim, so that no view is agreed that a host
does not know of; requests wait meanwhile. If all hosts hold the same view, that view stands, and no member
notices.

**A neighbour is trusted about the hosts behind it only** (C-125): requests come from the side of the host
that they name, and answers and views from that of the core-set.

Where we differ from the paper, and why: the core-set is the set of the group's scope, and does not move with
its members. A move is an agreement of two sets; a program that wants a smaller set says a smaller scope.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import BY_CODE, NotAllowed, TooLarge, Unreachable
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Group, host_of, inside
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
    Pid,
    ServerId,
    SetMember,
    SetView,
)
from rostra.protocols.agreed.config import LOSS_AFTER_S, RESTORE_S, TELL_AGAIN_S, AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ChangeAsked, SetCommitted
from rostra.protocols.agreed.groups import AgreedView, GroupTable, Outcome
from rostra.protocols.agreed.living import BEGINNING, judged, rule_members, rule_of
from rostra.protocols.agreed.rules import LivingState, verdict
from rostra.protocols.agreed.state import founded
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.claims.table import decode_kind
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.messages import SyncDone
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.routing import OUTSIDE

AGREED_SERVER: ServiceName["AgreedServer"] = ServiceName("agreed server")

TELL_AGAIN: Final[TimerKey] = ("agreed", "", "tell again")
LOST: Final[TimerKey] = ("agreed", "", "lost")
RESTORE: Final[TimerKey] = ("agreed", "", "restore")

_CODES: Final = {error.__name__: error.code for error in BY_CODE.values()}
_ASKED: Final = (GroupVerb.JOIN, GroupVerb.LEAVE, GroupVerb.FAIL)
_encode: Final = msgspec.msgpack.Encoder().encode


class Restoring(Struct, eq=False):
    """A group that hosts hold and this server does not know: what they say, until all have."""

    held: dict[Domain, HostHolds] = field(default_factory=dict)
    waiting: list[MemberAsked] = field(default_factory=list)
    until: Instant = 0.0


class ToldGroup(Struct, eq=False):
    """What the hosts below were told of a group."""

    ids: dict[Domain, ViewId] = field(default_factory=dict)  # the last view that each was sent
    untaken: set[Domain] = field(default_factory=set)  # those that have not confirmed it


class CoreSet:
    """Our part in one set: its core, and the groups that it agrees on."""

    def __init__(self, core: SetCore) -> None:
        self.core = core
        self.view = core.state.view
        self.table = GroupTable()
        self.lives: dict[Group, LivingState] = {}
        self.blocked: dict[Group, str] = {}
        self.told: dict[Group, ToldGroup] = {}
        self.asked: dict[str, HostQuestion] = {}  # by request: who waits for the answer


class AgreedServer(Service):
    name = AGREED_SERVER
    takes = (
        *(MemberAsked, MemberAnswer, HostHolds, ViewTold, ViewTaken, BranchLost, BranchCut, HoldingsAsked),
        *(SyncDone, LinkUp, LinkDown, LinkMoved),
    )

    def __init__(self, domain: Domain, config: AgreedConfig | None = None) -> None:
        self.domain = domain
        self.sets: dict[Domain, CoreSet] = {}
        self.restoring: dict[Group, Restoring] = {}
        self._config = config or AgreedConfig()
        self._synced: set[Domain] = set()  # children that have said all they hold since their link came up
        self._carried: set[Domain] = set()  # children for which something was passed on to our parent
        self._lost: list[Domain] = []  # branches, and their members, that are gathered for one change
        self._timers: set[TimerKey] = set()  # that run

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Received(sender, SyncDone()):
                self._synced.add(sender)
                self._restore_ready(now, out)
            case Received(sender, message):
                relation = self._neighbours.up.get(sender)
                if relation is None:
                    return [_ignored(message, "sender is not connected")]
                self._received(now, sender, relation, message, out)
            case TimerFired(timer) if timer == TELL_AGAIN:
                self._timers.discard(timer)
                self._tell_again(out)
            case TimerFired(timer) if timer == RESTORE:
                self._timers.discard(timer)
                self._restore_ready(now, out)
            case TimerFired(timer) if timer == LOST:
                self._timers.discard(timer)
                self._branches_lost(now, out)
            case LinkDown(peer):
                self._link_down(peer, out)
            case LinkUp(peer) | LinkMoved(peer):
                self._synced.discard(peer)
                if peer == self._neighbours.parent:
                    self._send_down(HoldingsAsked(self.domain), out)
            case _:
                out.append(Ignored(type(event).__name__, "nothing waits for it"))
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
                elif (core := self._core_of(group)) is None:
                    self._pass_up(sender, message, out)
                elif self._must_restore(now, core, message):
                    self._wait_for_hosts(message)
                    self._restore_ready(now, out)
                elif isinstance(message, HostHolds):
                    self._reconcile(now, core, message, out)
                else:
                    self._asked(now, core, message, out)
            case ViewTaken(group, host):
                if not self._may_ask(sender, relation, group, host):
                    out.append(_ignored(message, OUTSIDE))
                elif (core := self._core_of(group)) is None:
                    self._pass_up(sender, message, out)
                else:
                    self._taken(core, message, out)
            case MemberAnswer(group, question):
                if self._is_from_core(sender, relation, group):
                    self._pass_down(question.host, message, out)
                else:
                    out.append(_ignored(message, OUTSIDE))
            case ViewTold(group):
                if self._is_from_core(sender, relation, group):
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

    # Which way

    def _core_of(self, group: Group) -> CoreSet | None:
        """Our part in the core-set of the group, if we have one."""
        neighbours = self._neighbours
        if group.scope == self.domain and neighbours.cluster:
            if self.domain not in self.sets:
                me = ServerId(self.domain, self.stack[SERVER].incarnation)
                alone = SetView(0, Pid(me, 0), (SetMember(me),))
                self.sets[self.domain] = CoreSet(SetCore(self.domain, founded(me, alone), self._config))
            return self.sets[self.domain]
        return None

    def _may_ask(self, sender: Domain, relation: Relation, group: Group, host: Domain) -> bool:
        return (
            relation is Relation.CHILD
            and self._neighbours.next_hop(host) == sender
            and inside(group.scope, self.domain)
        )

    def _is_from_core(self, sender: Domain, relation: Relation, group: Group) -> bool:
        return (
            relation is Relation.PARENT
            and self._core_of(group) is None
            and inside(group.scope, self.domain)
            and group.scope != self.domain
        )

    def _pass_up(
        self,
        sender: Domain,
        message: MemberAsked | HostHolds | ViewTaken | BranchLost,
        out: list[Effect],
    ) -> None:
        parent = self._neighbours.parent
        if isinstance(message, MemberAsked | HostHolds):
            self._carried.add(sender)
        elif isinstance(message, BranchLost) and sender not in self._carried:
            return
        if parent is not None and parent in self._neighbours.up:
            out.append(Send(parent, message))
            return
        out.append(_ignored(message, "next hop is down"))
        if isinstance(message, MemberAsked | HostHolds):
            why = f"{self.domain} cannot reach {parent}"
            out.append(Send(sender, MemberAnswer(message.group, message.question, Unreachable.code, why)))

    def _pass_down(self, host: Domain, message: MemberAnswer | ViewTold, out: list[Effect]) -> None:
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

    # Links

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

    def _branch_lost(self, domain: Domain) -> None:
        members = [
            id for core in self.sets.values() for each in core.table.groups.values() for id in each.view.ids
        ]
        if any(inside(domain, each.endpoint) for each in members):
            self._lost.append(domain)
        for core in self.sets.values():
            for told in core.told.values():
                for host in [host for host in told.ids if inside(domain, host)]:
                    del told.ids[host]
                    told.untaken.discard(host)

    def _branches_lost(self, now: Instant, out: list[Effect]) -> None:
        """All members below them failed, in every group that we agree on (V-018, V-064)."""
        lost, self._lost = tuple(self._lost), []
        for core in self.sets.values():
            for group in sorted(core.table.groups):
                gone = [
                    id
                    for id in core.table.groups[group].view.ids
                    if any(inside(domain, id.endpoint) for domain in lost)
                ]
                self._propose_loss(now, core, group, gone, out)

    def _propose_loss(
        self, now: Instant, core: CoreSet, group: Group, lost: Sequence[MemberId], out: list[Effect]
    ) -> None:
        known = core.table.get(group)
        if lost and known is not None:
            senior = min([known.view.rank(each) or 0 for each in lost])
            self._propose(now, core, GroupChange(group, GroupVerb.FAIL, tuple(lost), "", senior), out)

    # Requests, at the core-set

    def _asked(self, now: Instant, core: CoreSet, message: MemberAsked, out: list[Effect]) -> None:
        group, question = message.group, message.question
        known = core.table.get(group)
        stands = None if known is None else decode_kind(known.view.attributes)
        if stands is not None and stands != message.group_kind:
            why = f"{group} is {stands}; join it so"
            return self._answer(message.question, group, NotAllowed.code, why, out)
        request = str(question)
        core.asked[request] = question
        ids = tuple([each.id for each in message.members])
        if message.verb is GroupVerb.JOIN:
            if known is None:
                created = GroupChange(group, GroupVerb.CREATE, (), "", data=_encode(message.group_kind))
                self._propose(now, core, created, out)
            meta = message.members[0].attributes if message.members else b""
            change = GroupChange(group, GroupVerb.JOIN, ids, request, data=meta)
        else:
            ranks = [] if known is None else [known.view.rank(each) or 0 for each in ids]
            change = GroupChange(group, message.verb, ids, request, min(ranks, default=0))
        return self._propose(now, core, change, out)

    def _propose(self, now: Instant, core: CoreSet, change: AnyChange, out: list[Effect]) -> None:
        self._perform(now, core, core.core.step(now, ChangeAsked(change)), out)

    def _perform(self, now: Instant, core: CoreSet, effects: Iterable[Effect], out: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SetCommitted):
                self._committed(now, core, effect, out)
            else:
                out.append(effect)

    def _committed(self, now: Instant, core: CoreSet, commit: SetCommitted, out: list[Effect]) -> None:
        before, table = core.view, core.table
        core.table, outcomes = table.apply(commit.record, before)
        core.view = commit.view
        for outcome in outcomes:
            question = core.asked.pop(outcome.request, None)
            if question is not None:
                code = _CODES.get(outcome.code, outcome.code)
                self._answer(question, outcome.group, code, _why(outcome), out)
            known = table.get(outcome.group)
            if outcome.view is not None and (known is None or known.view != outcome.view):
                self._installed(now, core, outcome.group, outcome.view, out)

    def _installed(
        self, now: Instant, core: CoreSet, group: Group, view: AgreedView, out: list[Effect]
    ) -> None:
        if not view.members:
            if view.number:  # its last member has left: the next one begins anew
                core.lives.pop(group, None)
                core.blocked.pop(group, None)
                core.told.pop(group, None)
                if group in core.table.groups:
                    self._propose(now, core, GroupChange(group, GroupVerb.DELETE, (), ""), out)
            return
        kind = decode_kind(view.attributes) or GroupKind()
        state, found = judged(kind, view, core.lives.get(group, BEGINNING))
        core.lives[group] = state
        if found.lives:
            core.blocked.pop(group, None)
        else:
            core.blocked[group] = found.why
        self._tell(core, group, _hosts_of(view), out)

    def _answer(self, question: HostQuestion, group: Group, code: str, why: str, out: list[Effect]) -> None:
        self._pass_down(question.host, MemberAnswer(group, question, code, why), out)

    # Views, from the core-set

    def _tell(self, core: CoreSet, group: Group, hosts: Iterable[Domain], out: list[Effect]) -> None:
        """The present view, to these hosts below us: to each as a difference from what it has."""
        known = core.table.get(group)
        if known is None:
            return
        told = core.told.setdefault(group, ToldGroup())
        by_base: dict[ViewId | None, list[Domain]] = {}
        for host in hosts:
            if inside(self.domain, host):
                base = told.ids.get(host)
                earlier = [each for each in known.views if each.id == base] if base is not None else []
                usable = bool(earlier) and _follows(known.view, earlier[0])
                by_base.setdefault(base if usable else None, []).append(host)
                told.ids[host] = known.view.id
                told.untaken.add(host)
        for base, those in by_base.items():
            earlier_view = next((each for each in known.views if each.id == base), None)
            message = self._message(core, group, known.view, earlier_view, tuple(sorted(those)))
            self._spread(message, out)

    def _message(
        self,
        core: CoreSet,
        group: Group,
        view: AgreedView,
        base: AgreedView | None,
        hosts: tuple[Domain, ...],
    ) -> ViewTold:
        fence, blocked = core.lives.get(group, BEGINNING).fence, core.blocked.get(group, "")
        members, left, failed = view.members, view.left, view.failed
        if base is not None:
            here, was = frozenset(view.ids), frozenset(base.ids)
            members = tuple([each for each in view.members if each.id not in was])
            gone = [each for each in base.ids if each not in here and each not in failed]
            left = tuple(gone)
        id, base_id = view.id, None if base is None else base.id
        return ViewTold(group, hosts, id, base_id, members, left, failed, view.joined, fence, blocked)

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
        if self._lost:
            self._branches_lost(now, out)  # this host may be among them: it comes back, and last
        known = core.table.get(group)
        if known is None:
            kind_ = GroupChange(group, GroupVerb.CREATE, (), "", data=_encode(message.group_kind))
            self._propose(now, core, kind_, out)
        told = core.told.setdefault(group, ToldGroup())
        if message.id is not None:
            told.ids[host] = message.id
        held = {each.id: each.attributes for each in message.members}
        view = core.table.groups[group].view
        listed = [each for each in view.ids if host_of(each.endpoint) == host]
        self._propose_loss(now, core, group, [each for each in listed if each not in held], out)
        by_meta: dict[bytes, list[MemberId]] = {}
        for id, meta in held.items():
            if id not in listed:
                by_meta.setdefault(meta, []).append(id)
        for meta, ids in by_meta.items():
            self._propose(
                now, core, GroupChange(group, GroupVerb.JOIN, tuple(sorted(ids)), "", data=meta), out
            )
        self._answer(message.question, group, "", "", out)
        if not by_meta:
            self._tell(core, group, [host], out)

    def _must_restore(self, now: Instant, core: CoreSet, message: MemberAsked | HostHolds) -> bool:
        """Of a group that we do not know: do hosts hold it?"""
        group = message.group
        if group in self.restoring:
            return True
        if core.core.set != self.domain or core.table.get(group) is not None:
            return False
        if not isinstance(message, HostHolds) and not self._missing(group):
            return False
        self.restoring[group] = Restoring(until=now + RESTORE_S)
        return True

    def _wait_for_hosts(self, message: MemberAsked | HostHolds) -> None:
        restoring = self.restoring[message.group]
        if isinstance(message, HostHolds):
            restoring.held[message.question.host] = message
        elif message not in restoring.waiting:
            restoring.waiting.append(message)

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
            if not self._missing(group) or now >= self.restoring[group].until:
                self._restore(now, group, self.restoring.pop(group), out)

    def _restore(self, now: Instant, group: Group, restoring: Restoring, out: list[Effect]) -> None:
        """As the hosts say that it is: the last view that any of them has, and what changed since."""
        core = self._core_of(group)
        assert core is not None, "only groups of our own are restored"
        held = [restoring.held[host] for host in sorted(restoring.held)]
        last = max(held, key=lambda each: (each.id is not None, each.id), default=None)
        if last is not None and last.id is not None:
            view = AgreedView(*last.id, last.view, attributes=_encode(last.group_kind))
            core.table = core.table.restored(group, view)
            living = max(held, key=lambda each: each.fence)
            state = LivingState(living.fence, rule_members(living.lived))
            core.lives[group] = state
            found = verdict(rule_of(last.group_kind), view.ids, state)
            if not found.lives:
                core.blocked[group] = found.why
            hosts = {each.question.host for each in held}
            lost = [each for each in view.ids if host_of(each.endpoint) not in hosts]
            self._propose_loss(now, core, group, lost, out)
        for each in held:
            self._reconcile(now, core, each, out)
        for asked in restoring.waiting:
            self._asked(now, core, asked, out)

    # Timers

    def _set_timers(self, now: Instant, out: list[Effect]) -> None:
        untaken = any(told.untaken for core in self.sets.values() for told in core.told.values())
        for timer, wanted, after_s in (
            (TELL_AGAIN, untaken, TELL_AGAIN_S),
            (LOST, bool(self._lost), LOSS_AFTER_S),
            (RESTORE, bool(self.restoring), RESTORE_S),
        ):
            if wanted and timer not in self._timers:
                self._timers.add(timer)
                out.append(SetTimer(timer, after_s))
            elif not wanted and timer in self._timers:
                self._timers.discard(timer)
                out.append(CancelTimer(timer))


def _hosts_of(view: AgreedView) -> list[Domain]:
    return sorted({host_of(each.endpoint) for each in view.ids})


def _follows(view: AgreedView, base: AgreedView) -> bool:
    """Is it the base without some, and then others? Not after a merge, which orders by seniority."""
    here, was = frozenset(view.ids), frozenset(base.ids)
    stayed = [each for each in base.ids if each in here]
    joined = [each for each in view.ids if each not in was]
    return [*stayed, *joined] == list(view.ids)


def _why(outcome: Outcome) -> str:
    if not outcome.code:
        return ""
    if outcome.code == TooLarge.__name__:
        return f"{outcome.group} is full"
    return f"{outcome.group}: {outcome.code}"


def _ignored(message: object, why: str) -> Ignored:
    return Ignored(type(message).__name__, why)
