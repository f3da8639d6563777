"""Agreed groups at a domain's server whose core-set follows their members. `moves.py` draws a move.

    a request of a host below            we are in set(D), D the domain above ours
      set(D) has the group               it is made here
      set(D) knows a branch that has it  WANT: it comes here, and the request is made with it
      set(D) does not know it            it climbs (V-033)
      and D is its scope                 POINT: the set below us makes it
      our parent is lost                 set(D) is the root of its partition, and takes what its hosts hold

A server above clusters is in two sets, and moves groups between them. It acts on what the tables of both say,
whenever one of them has changed and both are formed.
"""

from collections.abc import Iterable
from typing import Final

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    Send,
    SetTimer,
    TimerKey,
    ignored,
)
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Group, host_of, inside
from rostra.protocols.agreed.branch import (
    BranchLost,
    HoldingsAsked,
    HostHolds,
    MemberAnswer,
    MemberAsked,
    ViewTaken,
)
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupPlaced,
    GroupVerb,
    MemberId,
    PartsMerged,
    PlaceStep,
    ServersFailed,
    SetSplit,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.differences import hosts_of
from rostra.protocols.agreed.events import SetCommitted
from rostra.protocols.agreed.finding import come_together
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView
from rostra.protocols.agreed.moves import MOVING, NOWHERE, encode_part, is_only_below, moves, next_step
from rostra.protocols.agreed.orders import groups_changed
from rostra.protocols.agreed.part import Asking, CoreSet, let_wait
from rostra.protocols.agreed.promises import removed_by
from rostra.protocols.agreed.server import DEPARTED_MAX, AgreedServer
from rostra.protocols.agreed.sheets import is_over
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.routing import OUTSIDE

MOVE: Final[TimerKey] = ("agreed", "", "move")

LOOK_AGAIN_S: Final = 1.0
"""How often a server looks again at a group that it cannot move yet: a set is not formed."""

ON_ITS_WAY: Final = "its core-set moves"


class MovingServer(AgreedServer):
    def __init__(
        self,
        domain: Domain,
        registry: Registry,
        config: AgreedConfig | None = None,
        *,
        is_replica: bool = False,
        has_parent: bool = True,
    ) -> None:
        super().__init__(domain, registry, config, is_replica=is_replica, has_parent=has_parent)
        self._look: set[Group] = set()  # groups that we may have to move
        self._since: dict[Group, Instant] = {}  # all members of these are below us
        self._first: dict[Group, list[GroupChange]] = {}  # that make a group, in the set below us
        self._on_the_way: dict[Group, list[Asking]] = {}  # requests for groups that move
        self._again: list[Asking] = []  # requests whose group has gone elsewhere
        self._parted: set[Domain] = set()  # children that the set below us went on without
        self._down: Domain | None = None  # the neighbour that is lost in this step
        self._unsaid: dict[Group, set[Domain]] = {}  # hosts that have been asked what they hold of it

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self._down = event.peer if isinstance(event, LinkDown) else None
        out = super().step(now, event)
        if self._again or self._look:
            again, self._again = self._again, []
            for message in again:
                self._route(now, message, out)
            self._move(now, out)
            self._set_timers(now, out)
        if bool(self._look) != (MOVE in self._timers):
            self._timers ^= {MOVE}
            out.append(SetTimer(MOVE, self._look_after(now)) if self._look else CancelTimer(MOVE))
        if self._down is not None:  # a commit of this very step may have something for it
            out = [each for each in out if not (isinstance(each, Send) and each.to == self._down)]
        return out

    # Requests: here, or farther up

    def _is_moving(self, group: Group, kind: GroupKind) -> bool:
        """Can its core-set be another one than the set that we are in?"""
        if not self._config.moves or not moves(kind) or group.scope == self.domain:
            return False
        core = self.sets.get(self._above) if self._above is not None else None
        is_elsewhere = core is not None and group in core.table.places
        return group.scope != self._above or not self._neighbours.cluster or is_elsewhere

    def _own_set(self, group: Group) -> Domain:
        return group.scope if group.scope == self.domain or self._above is None else self._above

    def _goes_up(self, message: Asking | ViewTaken) -> bool:
        group = message.group
        core = self.sets.get(self._own_set(group))
        if isinstance(message, ViewTaken):
            return (core is None or group not in core.told) and super()._goes_up(message)
        if not self._is_moving(group, message.group_kind):
            return super()._goes_up(message)
        if core is None:
            waits = group in self.restoring or self._is_starting(self._now)
            is_led = self._neighbours.parent in self._neighbours.up
            return group.scope != self._above and is_led and not waits
        is_known = group in core.table.groups or group in core.table.places
        return not is_known and group.scope != self._above and not self._is_root(core)

    def _is_root(self, core: CoreSet) -> bool:
        """Has the set lost its parent (V-011)?"""
        is_led = any(each.parent for each in core.core.state.view.members)
        return not is_led and core.is_formed(self._now) and self._neighbours.parent not in self._neighbours.up

    def _route(self, now: Instant, message: Asking, out: list[Effect]) -> None:
        hop = self._neighbours.next_hop(message.question.host)
        if hop is None or self._neighbours.up.get(hop) is not Relation.CHILD:
            out.append(ignored(message, "next hop is down"))
        elif self._goes_up(message):
            self._pass_up(hop, message, out)
        else:
            self._arrived(now, message, out)

    def _pass_up(self, sender: Domain, message: Asking | ViewTaken | BranchLost, out: list[Effect]) -> None:
        if isinstance(message, Asking) and self._is_moving(message.group, message.group_kind):
            core = self._part_in(self._now, self._own_set(message.group), out)
            self._forget_waiting(message)
            self._note_passed(core, message)
        super()._pass_up(sender, message, out)

    def _arrived(self, now: Instant, message: Asking, out: list[Effect]) -> None:
        self._forget_waiting(message)
        super()._arrived(now, message, out)

    def _forget_waiting(self, message: Asking) -> None:
        """What this host said before it said this."""
        core = self.sets.get(self._own_set(message.group))
        if core is not None and isinstance(message, HostHolds):
            of = (message.group, message.question.host)
            core.waiting = [
                each
                for each in core.waiting
                if not isinstance(each, HostHolds) or (each.group, each.question.host) != of
            ]

    def _note_passed(self, core: CoreSet, message: Asking) -> None:
        """The set that we are in may make this join after all, when the sets above have said so. A member
        that leaves, or that its host does not hold, joins no more."""
        ids = {each.id for each in message.members}
        for request, asked in list(core.asked.items()):
            if (asked.group, asked.question.host) == (message.group, message.question.host):
                joins = {each.id for each in asked.members}
                if joins - ids if isinstance(message, HostHolds) else joins & ids:
                    del core.asked[request]
        if isinstance(message, MemberAsked) and message.verb is GroupVerb.JOIN:
            core.asked[str(message.question)] = message
        elif isinstance(message, MemberAsked):
            self._departed.update(dict.fromkeys([(id, message.group) for id in ids]))
            for id in ids:
                self._held(id, message.group).pop(id, None)
            for left in list(self._departed)[:-DEPARTED_MAX]:
                del self._departed[left]

    def _pass_down(self, host: Domain, message: MemberAnswer, out: list[Effect]) -> None:
        core = self.sets.get(self._own_set(message.group))
        if core is not None:
            core.asked.pop(str(message.question), None)
        super()._pass_down(host, message, out)

    def _is_from_core(self, relation: Relation, group: Group) -> bool:
        core = self.sets.get(self._own_set(group))
        return super()._is_from_core(relation, group) and (core is None or group not in core.table.groups)

    def _take(self, now: Instant, core: CoreSet, message: Asking, out: list[Effect]) -> None:
        group = message.group
        place = core.table.places.get(group, NOWHERE)
        is_moving = self._is_moving(group, message.group_kind)
        if not is_moving and isinstance(message, HostHolds) and self._is_unknown(core, message):
            self._take_held(now, core, message, out)
        elif not is_moving and self._waits_for_whole(now, core, message, out):
            pass
        elif not is_moving:
            if isinstance(message, HostHolds):
                self._unsaid.get(group, set()).discard(message.question.host)
            super()._take(now, core, message, out)
        elif place.mover is not None:
            let_wait(message, self._on_the_way.setdefault(group, []), out)
        elif isinstance(message, HostHolds) and self._is_ahead(core, message):
            self._take_held(now, core, message, out)
        elif group in core.table.groups:
            if isinstance(message, HostHolds):
                self._unsaid.get(group, set()).discard(message.question.host)
                self._note_passed(core, message)
            super()._take(now, core, message, out)
        elif self._goes_up(message):
            self._route(now, message, out)
        elif isinstance(message, HostHolds):
            self._take_held(now, core, message, out)
        elif message.verb is not GroupVerb.JOIN or self.domain in place.below:
            self._note_passed(core, message)
            out.append(Ignored("MemberAsked", ON_ITS_WAY))  # it is asked again
        elif place.below:
            change = self._join_of(core, message)
            self._propose(now, core, self._step_of(core, group, PlaceStep.WANT, change), out)
        elif group.scope == self._above:
            change = self._join_of(core, message)
            del core.asked[change.request]  # the set below us makes it, and answers
            self._propose(now, core, self._step_of(core, group, PlaceStep.POINT, change), out)
        else:
            out.append(Ignored("MemberAsked", "hosts have not said what they hold"))

    def _waits_for_whole(self, now: Instant, core: CoreSet, message: Asking, out: list[Effect]) -> bool:
        """A subgroup does not move: the group that it is within comes to its set, and stays there."""
        kind = message.group_kind
        if not kind.within or not isinstance(message, MemberAsked) or message.verb is not GroupVerb.JOIN:
            return False
        whole = Group(kind.within, message.group.scope)
        if come_together(self, now, core, [whole], out):
            return False
        let_wait(message, self._on_the_way.setdefault(whole, []), out)
        return True

    def _join_of(self, core: CoreSet, message: MemberAsked) -> GroupChange:
        request = str(message.question)
        core.asked[request] = message
        meta = message.members[0].attributes if message.members else b""
        ids = tuple([each.id for each in message.members])
        kind = message.group_kind
        return GroupChange(message.group, GroupVerb.JOIN, ids, request, data=meta, kind=kind)

    def _is_unknown(self, core: CoreSet, message: HostHolds) -> bool:
        """Does our set not know this group's past? Then it goes on from what its hosts remember."""
        is_wide = message.group.scope != self.domain and moves(message.group_kind)
        has_view = message.id is not None and bool(message.members)
        return self._config.moves and is_wide and has_view and message.group not in core.table.groups

    def _is_ahead(self, core: CoreSet, message: HostHolds) -> bool:
        """Has this host a view that our set does not know, and that is not older than ours, or has members
        that ours has not?"""
        known = core.table.get(message.group)
        if known is None or message.id is None or not message.members:
            return False
        number, now, listed = message.id[0], known.view.number, known.view.listed
        if message.id in [view.id for view in known.views]:  # but perhaps of a part that is empty now
            return number > now
        return number >= now or any(each.id not in listed for each in message.members)

    def _take_held(self, now: Instant, core: CoreSet, message: HostHolds, out: list[Effect]) -> None:
        """Hosts below us hold a group that is not in our set: it begins as they remember it."""
        if message.id is None or not message.members or self._is_busy(core, message.group):
            out.append(Ignored("HostHolds", ON_ITS_WAY))
            return
        held = AgreedGroup((AgreedView(*message.id, message.view),), kind=message.group_kind)
        change = self._step_of(core, message.group, PlaceStep.HELD, part=encode_part(held))
        self._propose(now, core, change, out)

    def _kind_made(self, core: CoreSet, group: Group, kind: GroupKind) -> GroupKind | None:
        known = core.table.get(group)
        is_here = known is not None and known.kind == kind and not is_over(known.view.attributes)
        return None if is_here and self._is_moving(group, kind) else kind

    def _step_of(
        self,
        core: CoreSet,
        group: Group,
        step: PlaceStep,
        asked: GroupChange | None = None,
        part: bytes = b"",
    ) -> GroupPlaced:
        return GroupPlaced(group, step, core.core.state.me, asked, part)

    # Commits

    def _perform(self, core: CoreSet, effects: Iterable[Effect], out: list[Effect]) -> None:
        effects = list(effects)
        commits = [effect for effect in effects if isinstance(effect, SetCommitted)]
        for commit in commits:
            change = commit.record.proposal.change
            if isinstance(change, GroupPlaced) and change.step in (PlaceStep.TAKE, PlaceStep.HELD):
                self._adopt(core, change.group, out)
        for group in sorted(core.handing if commits else ()):
            if core.table.places.get(group, NOWHERE).mover is None:  # its mover is lost: it stays
                core.handing.discard(group)
                self._adopt(core, group, out)
        super()._perform(core, effects, out)
        for commit in commits:
            self._look_at(core, commit.record.proposal.change, out)
            for outcome in commit.outcomes:
                self._again += self._on_the_way.pop(outcome.group, ())

    def _committed(self, core: CoreSet, commit: SetCommitted, out: list[Effect]) -> None:
        for outcome in commit.outcomes:
            asked = core.asked.get(outcome.request)
            if asked is None or not self._is_moving(asked.group, asked.group_kind):
                continue
            if outcome.code in (MOVING, "NoSuchGroup"):
                self._again.append(core.asked.pop(outcome.request))
        super()._committed(core, commit, out)
        for outcome in commit.outcomes:
            self._done_otherwise(core, outcome.group, out)

    def _done_otherwise(self, core: CoreSet, group: Group, out: list[Effect]) -> None:
        """Joins of members who are in by now: the group has come here with them, or their host held them."""
        known = core.table.get(group)
        listed = frozenset() if known is None else known.view.listed
        for request, asked in list(core.asked.items()):
            ids = {each.id for each in asked.members}
            is_join = asked.group == group and asked.verb is GroupVerb.JOIN
            if is_join and self._is_moving(group, asked.group_kind) and ids <= listed:
                del core.asked[request]
                self._answer(asked.question, group, "", "", out)
                self._note_holding(core, asked, done=False)

    def _look_at(self, core: CoreSet, change: AnyChange, out: list[Effect]) -> None:
        match change:
            case GroupChange():
                self._look.update(groups_changed(change))
            case GroupPlaced(group, step):
                self._look.add(group)
                self._again += self._on_the_way.pop(group, ())
                if step is PlaceStep.HAND:
                    core.handing.add(group)
                elif step is PlaceStep.DROP and group not in core.table.groups:
                    self._gone(core, group, out)
                elif step is PlaceStep.POINT and change.asked is not None:
                    self._pointed(core, change)
            case ServersFailed() | SetSplit() | PartsMerged():
                self._look.update(core.table.groups, core.table.places)
                if core.core.set == self._above and not core.is_parent and self._is_root(core):
                    self._send_down(HoldingsAsked(self.domain), out)
                if core.is_parent and isinstance(change, PartsMerged):
                    back = self._parted.intersection([each.server for each in core.core.state.view.servers])
                    self._parted -= back
                    up = self._neighbours.children
                    out += [Send(each, HoldingsAsked(self.domain)) for each in sorted(back) if each in up]
                elif core.is_parent and self._config.moves and not isinstance(change, PartsMerged):
                    self._lose([each.server for each in removed_by(change, core.core.state.me)], out)

    def _lose(self, branches: list[Domain], out: list[Effect]) -> None:
        """The set below us does without these servers, and they without us: what they had of groups of the
        set above goes on there (V-016, V-064)."""
        self._parted.update(branches)
        upper = self.sets.get(self._above) if self._above is not None else None
        for group in sorted(upper.table.groups) if upper is not None else ():
            if upper is not None and moves(upper.table.groups[group].kind):
                ids = upper.table.groups[group].view.ids
                lost = [id for id in ids if any(inside(branch, id.endpoint) for branch in branches)]
                for id in lost:
                    self._held(id, group).pop(id, None)
                self._propose_loss(self._now, upper, group, lost, out)

    def _pointed(self, core: CoreSet, change: GroupPlaced) -> None:
        """The set above us leaves it to the one below us to make this group, if no other branch has it."""
        group, asked = change.group, change.asked
        place = core.table.places.get(group, NOWHERE)
        is_ours = change.mover == core.core.state.me and place.below == (self.domain,) and not place.wanted
        if asked is not None and is_ours and group not in core.table.groups:
            self._first.setdefault(group, []).append(asked)

    def _gone(self, core: CoreSet, group: Group, out: list[Effect]) -> None:
        """Our set has handed it on."""
        core.told.pop(group, None)
        if not core.is_parent:  # what hosts hold is for another server to know
            hosts = [host for host, held in sorted(self._holding.items()) if held.pop(group, None)]
            self._ask_holdings(HoldingsAsked(self.domain, group, tuple(hosts)), out)
        upper = self.sets.get(self._own_set(group))
        if core.core.set == self.domain and upper is not None and upper is not core:
            self._changed(upper, group, out)  # which we kept from the hosts below us until now

    def _adopt(self, core: CoreSet, group: Group, out: list[Effect]) -> None:
        """Our set has it since just now: which of its members below us are there?"""
        known = core.table.get(group)
        if known is None or core.is_parent:
            return
        hosts = [host for host in hosts_of(known.view) if inside(self.domain, host)]
        for held in self._holding.values():
            held.pop(group, None)
        self._unsaid[group] = set(hosts)
        self._ask_holdings(HoldingsAsked(self.domain, group, tuple(hosts)), out)

    def _ask_holdings(self, message: HoldingsAsked, out: list[Effect]) -> list[Domain]:
        """Ask these hosts what they hold; returns our children above some of them that are down."""
        ways: dict[Domain, list[Domain]] = {}
        for host in message.hosts:
            if (hop := self._neighbours.next_hop(host)) is not None:
                ways.setdefault(hop, []).append(host)
        up = [hop for hop, relation in self._neighbours.up.items() if relation is Relation.CHILD]
        lost = [hop for hop in sorted(ways) if hop not in up or hop == self._down]
        out += [
            Send(hop, HoldingsAsked(message.domain, message.group, tuple(ways[hop])))
            for hop in sorted(ways)
            if hop not in lost
        ]
        for hop in lost:
            self._branch_lost(hop, self._now)  # groups that move have no rule, and so no lease
        return lost

    def _received(
        self, now: Instant, sender: Domain, relation: Relation, message: object, out: list[Effect]
    ) -> None:
        if not isinstance(message, HoldingsAsked) or message.group is None:
            super()._received(now, sender, relation, message, out)
        elif relation is not Relation.PARENT or not inside(message.domain, self.domain):
            out.append(Ignored("HoldingsAsked", OUTSIDE))
        else:
            lost = self._ask_holdings(message, out)
            out += [Send(sender, BranchLost(child)) for child in lost]
            children = [self._neighbours.next_hop(host) for host in message.hosts]
            self._carried.update([each for each in children if each is not None and each not in lost])

    def _has_gone(self, id: MemberId, group: Group) -> bool:
        if (id, group) not in self._departed and host_of(id.endpoint) in self._unsaid.get(group, ()):
            return False
        return super()._has_gone(id, group)

    def _branch_lost(self, domain: Domain, lent_until: Instant) -> None:
        for hosts in self._unsaid.values():
            hosts.difference_update([host for host in hosts if inside(domain, host)])
        super()._branch_lost(domain, lent_until)

    def _tell(self, core: CoreSet, group: Group, hosts: Iterable[Domain], out: list[Effect]) -> None:
        lower = self.sets.get(self.domain)
        if lower is None or lower is core or group not in lower.table.groups:
            unsaid = self._unsaid.get(group, ())  # they may have a later view than ours
            super()._tell(core, group, [host for host in hosts if host not in unsaid], out)

    # Moves

    def _move(self, now: Instant, out: list[Effect]) -> None:
        if self._above is None or self._neighbours.cluster or not self._config.moves:
            self._look.clear()
            return
        self._look = {each for each in self._look if each.scope != self.domain and self._may_move(each)}
        for group in sorted(self._look):
            upper = self._part_in(now, self._above, out)
            lower = self._part_in(now, self.domain, out)
            if not upper.is_formed(now) or not lower.is_formed(now):
                return
            if self._move_one(now, group, lower, upper, out):
                self._look.discard(group)

    def _may_move(self, group: Group) -> bool:
        tables = [core.table for core in self.sets.values()]
        return group in self._first or any(
            group in table.places or (group in table.groups and moves(table.groups[group].kind))
            for table in tables
        )

    def _move_one(
        self, now: Instant, group: Group, lower: CoreSet, upper: CoreSet, out: list[Effect]
    ) -> bool:
        """The next step of this group, if any. True if none is left to do."""
        first = self._first.pop(group, [])
        if first:
            self._propose_all(now, lower, first, out)
        if any(self._is_busy(core, group) for core in (lower, upper)):
            return False
        is_below = is_only_below(upper.table, group, self.domain)
        since = self._since.setdefault(group, now) if is_below else self._since.pop(group, None)
        is_late = since is not None and now >= since + self._config.down_after_s
        me = upper.core.state.me
        step = next_step(group, me, lower.table, upper.table, may_go_down=is_below and is_late)
        if step is not None:
            is_lower, change = step
            self._propose(now, lower if is_lower else upper, change, out)
        return step is None and not is_below

    def _is_busy(self, core: CoreSet, group: Group) -> bool:
        """Does a step of this group wait, or a join that makes it?"""
        state = core.core.state
        changes: list[AnyChange] = [each.change for each in state.queue]
        changes += [change for where, change in self._due if where is core]
        changes += [lock[0].change for lock in state.locks]
        return any(
            isinstance(each, GroupPlaced | GroupChange)
            and each.group == group
            and (isinstance(each, GroupPlaced) or each.kind is not None)
            for each in changes
        )

    def _look_after(self, now: Instant) -> Instant:
        due = [since + self._config.down_after_s - now for since in self._since.values()]
        return min([LOOK_AGAIN_S, *[max(0.0, each) for each in due if each > 0]])
