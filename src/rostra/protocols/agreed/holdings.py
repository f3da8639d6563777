"""What the hosts below a server hold of agreed groups: members that come back, that are gone, and groups that
only they remember.

    HostHolds ──▶ known group: those who are missing join, last; those who are gone are removed
              ──▶ unknown group: wait for the other hosts, then restore it as they say that it is
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from rostra.core.effects import Effect, Instant, TimerKey
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Group, host_of, inside
from rostra.protocols.agreed import ordering
from rostra.protocols.agreed.branch import (
    HolderAsked,
    HostHolds,
    HostQuestion,
    MemberAsked,
    ViewComing,
    ViewTold,
)
from rostra.protocols.agreed.changes import AnyChange, GroupChange, GroupVerb, MemberId, Pid
from rostra.protocols.agreed.config import RESTORE_S, AgreedConfig
from rostra.protocols.agreed.differences import ids_of
from rostra.protocols.agreed.fences import FenceRecord
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView, rule_attributes
from rostra.protocols.agreed.leasing import Leasing
from rostra.protocols.agreed.part import Asking, CoreSet, Restoring, ToldGroup, let_wait
from rostra.protocols.agreed.proven import without_strangers
from rostra.protocols.agreed.rules import LivingState, RuleMember
from rostra.protocols.agreed.sight import lost_domains
from rostra.protocols.agreed.subgroups import may_be_in, subgroups_of
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Relation

AHEAD_MAX: Final = 1 << 40
"""How far a host may be ahead of the view that most hosts hold. If one that lies is believed in more, the
group comes to numbers that no host can report after the next restart (`HELD_MAX`)."""


RETURNING: Final[TimerKey] = ("agreed", "", "returning")

BACK_AT_ONCE: Final = 8
"""Changes by which one turn brings members of one host back, one for each attachment: a host may have
thousands, and a server that computes for seconds is given up itself."""


class Holdings(Leasing):
    def __init__(self, domain: Domain, fences: FenceRecord, config: AgreedConfig) -> None:
        super().__init__(config)
        self.domain = domain
        self.restoring: dict[Group, Restoring] = {}
        self._fences = fences
        self._began_at: Instant | None = None
        self._now: Instant = 0.0  # of this step
        self._synced: set[Domain] = set()  # children that have said all they hold since their link came up
        self._holding: dict[Domain, dict[Group, dict[MemberId, bytes]]] = {}  # by host, as it says
        self._said: set[tuple[Domain, Group]] = set()  # hosts that said all that they hold of a group
        self._departed: dict[tuple[MemberId, Group], None] = {}
        """Of late: they asked to leave, or died. A member may be in a group and its subgroup as the same."""
        self.returning: dict[tuple[Domain, Group, Domain], tuple[GroupKind, dict[MemberId, bytes]]] = {}
        self._due: list[tuple[CoreSet, AnyChange]] = []  # to be proposed in this step; the first one is

    def _own_set(self, group: Group) -> Domain:
        """The set in which we look after members of this group, if we do."""
        return group.scope

    def _kind_made(self, core: CoreSet, group: Group, kind: GroupKind) -> GroupKind | None:
        """The kind of a group that a join may create; None if the group must exist."""
        return kind

    @abstractmethod
    def _part_in(self, now: Instant, name: Domain, out: list[Effect]) -> CoreSet: ...

    @abstractmethod
    def _spread(self, message: ViewTold | HolderAsked | ViewComing, out: list[Effect]) -> None: ...

    @abstractmethod
    def _is_starting(self, now: Instant) -> bool: ...

    @abstractmethod
    def _answer(
        self, question: HostQuestion, group: Group, code: str, why: str, out: list[Effect]
    ) -> None: ...

    @abstractmethod
    def _propose_all(
        self, now: Instant, core: CoreSet, changes: Iterable[AnyChange], out: list[Effect]
    ) -> None: ...

    @abstractmethod
    def _propose_loss(
        self, now: Instant, core: CoreSet, group: Group, lost: Sequence[MemberId], out: list[Effect]
    ) -> None: ...

    def lost_domains(self, core: CoreSet, view: AgreedView) -> tuple[Domain, ...]:
        """Those of this view, and of members that it lost, that we cannot reach (`sight.py`)."""
        return lost_domains(core.core.set, core.core.state, view, self._host_lost)

    def _host_lost(self, host: Domain) -> Domain | None:
        """The domain that is lost, if we cannot reach this host below us. One below a child of ours is there
        if it has said what it holds since that child was linked."""
        hop = self._neighbours.next_hop(host) if inside(self.domain, host) else None
        if hop is None:
            return None
        if self._neighbours.up.get(hop) is not Relation.CHILD:
            return hop
        return None if hop == host or host in self._holding else host

    def _note_holding(self, core: CoreSet, asked: MemberAsked, *, done: bool) -> None:
        """A request of this host was committed. It says nothing of others there: they may have died with the
        agent that was there before, and wait in `_lost`. One whose join was done in another part, and who was
        given up there, is not in the view: it is brought back like all that its host holds."""
        listed = frozenset(ids_of(core.table.get(asked.group)))
        for each in asked.members if asked.verb is GroupVerb.JOIN else ():
            if (done or each.id in listed) and (each.id, asked.group) not in self._departed:
                groups = self._holding.setdefault(asked.question.host, {})
                groups.setdefault(asked.group, {})[each.id] = each.attributes

    def _sought(self, core: CoreSet, group: Group) -> tuple[Domain, ...]:
        """Hosts below our children for whose members a group waits, and that have not said what they hold:
        our children are servers, which do not know."""
        known = core.table.groups[group]
        if not known.blocked or self._neighbours.cluster:
            return ()
        hosts = {host_of(each.endpoint) for each in _awaited(known) if inside(self.domain, each.endpoint)}
        return tuple(sorted([host for host in hosts if (host, group) not in self._said]))

    def _seek(self, out: list[Effect]) -> None:
        for core in self._ordinary():
            for group in sorted(core.table.groups):
                if hosts := self._sought(core, group):
                    self._spread(HolderAsked(group, hosts, core.table.groups[group].kind), out)

    def _excuse(self, core: CoreSet, out: list[Effect]) -> None:
        """Members of our hosts that are dead, and yet in a view or asked for by a rule, are removed; again
        after a merge with a part that did not know."""
        for group in sorted(core.table.groups):
            known = core.table.groups[group]
            if dead := tuple(sorted([id for id in _awaited(known) if self._has_gone(id, group)])):
                named = f"{core.core.state.view.pid} {blake2b(str(dead).encode(), digest_size=8).hexdigest()}"
                change = GroupChange(group, GroupVerb.FAIL, dead, f"dead {self.domain} {named}")
                self._propose_all(self._now, core, [change], out)

    def _reconcile(self, now: Instant, core: CoreSet, message: HostHolds, out: list[Effect]) -> None:
        """What a host has, and what the group has of it: members that were given up come back, last; those
        that went meanwhile are lost."""
        group, host = message.group, message.question.host
        for each in (group, *subgroups_of(core.table, group)):
            ordering.placed(core, each, self._holding, self._departed, out)
        if ordering.was_over(core, group, host, self._holding, out):
            self._answer(message.question, group, "", "", out)
            return
        told = core.told.setdefault(group, ToldGroup())
        sent = told.ids.get(host) if host in told.untaken else None
        if message.id is not None and (sent is None or sent[:2] < message.id[:2]):
            told.ids[host] = message.id  # else it said so before that, which is on its way, had come
        held = self._holding.get(host, {}).get(group, {})
        listed = [each for each in ids_of(core.table.get(group)) if host_of(each.endpoint) == host]
        self._propose_loss(now, core, group, [each for each in listed if each not in held], out)
        self._bring_back(now, core, group, host, message.group_kind, out)
        self._answer(message.question, group, "", "", out)
        if held and held.keys() <= set(ids_of(core.table.get(group))):
            self._tell(core, group, [host], out)
        if not self._neighbours.cluster:
            self._said.add((host, group))
            self._excuse(core, out)

    def _has_gone(self, id: MemberId, group: Group) -> bool:
        """Has its host said so, or all that it holds, without it? One that is about to join has not."""
        if (id, group) in self._departed:
            return True
        host = host_of(id.endpoint)
        if (host not in self._synced and (host, group) not in self._said) or id in self._held(id, group):
            return False
        asked = self.sets[self._own_set(group)].asked.values()
        return all(id != joining.id for each in asked for joining in each.members)

    def _gone_of(self, view: AgreedView, group: Group) -> tuple[MemberId, ...]:
        """Those of this view that are gone (`_has_gone`): mostly none, which one look at each host shows."""
        held = set[MemberId]().union(*[self._holding.get(host, {}).get(group, {}) for host in view.hosts])
        if view.listed <= held and all((id, group) not in self._departed for id in view.listed):
            return ()
        return tuple([id for id in view.ids if self._has_gone(id, group)])

    def _held(self, id: MemberId, group: Group) -> dict[MemberId, bytes]:
        return self._holding.get(host_of(id.endpoint), {}).get(group, {})

    def _bring_back(
        self, now: Instant, core: CoreSet, group: Group, host: Domain, kind: GroupKind, out: list[Effect]
    ) -> None:
        """Members that a host has and the group has not: they were given up, perhaps just now."""
        place = core.core.set, group, host
        self.returning[place] = kind, dict(self._holding.get(host, {}).get(group, {}))
        self._bring_some_back(now, place, out)

    def _bring_some_back(self, now: Instant, place: tuple[Domain, Group, Domain], out: list[Effect]) -> None:
        """By as many changes as fit into one turn; the rest of these members follow in the next one. None
        is brought twice: it may be refused."""
        (name, group, host), (kind, held) = place, self.returning.pop(place)
        core = self.sets.get(name)
        if core is None:
            return
        known, now_held = core.table.get(group), self._holding.get(host, {}).get(group, {})
        listed = frozenset(ids_of(known))
        inside_whole = may_be_in(core.table, group, kind)  # others wait until the whole has them again
        missing = [
            id
            for id in held
            if id not in listed and id in now_held and (inside_whole is None or id.endpoint in inside_whole)
        ]
        joining = self._proposed(core, group, GroupVerb.JOIN) if missing else ()
        returning: dict[bytes, list[MemberId]] = {}
        for id in missing:
            if id not in joining:
                returning.setdefault(held[id], []).append(id)
        pid = None if known is None else known.view.pid
        changes: list[AnyChange] = []
        for meta, ids in list(returning.items())[:BACK_AT_ONCE]:
            first, *_ = ids = sorted(ids)
            request = f"back {host} {first.stamp[0]}:{first.stamp[1]} {pid}"
            made = self._kind_made(core, group, kind)
            changes.append(GroupChange(group, GroupVerb.JOIN, tuple(ids), request, data=meta, kind=made))
        if rest := list(returning.items())[BACK_AT_ONCE:]:
            self.returning[place] = kind, {id: meta for meta, ids in rest for id in ids}
        self._propose_all(now, core, changes, out)

    def _bring_more_back(self, now: Instant, out: list[Effect]) -> None:
        for place in list(self.returning)[:1]:
            self._bring_some_back(now, place, out)

    def _proposed(self, core: CoreSet, group: Group, verb: GroupVerb) -> set[MemberId]:
        """The members whose join or removal we have proposed, or will propose."""
        state = core.core.state
        changes = [
            *[each.change for each in state.queue],
            *[each for where, each in self._due if where is core],
        ]
        changes += [lock[0].change for lock in state.locks]
        return {
            id
            for change in changes
            if isinstance(change, GroupChange) and (change.verb, change.group) == (verb, group)
            for id in change.members
        }

    def _must_restore(self, now: Instant, message: Asking) -> bool:
        """A group that we do not know: may hosts hold it that have not reported yet?"""
        group = message.group
        if group in self.restoring:
            return True
        core = self.sets.get(self._own_set(group))
        if group.scope != self.domain:
            if core is not None or not self._is_starting(now):
                return False
            self.restoring[group] = Restoring((self._began_at or now) + self._config.start_s)
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
                self._part_in(now, self._own_set(group), out)
                if self.restoring.pop(group, None) is not None:
                    self._restore(now, group, restoring, out)

    def _restore(self, now: Instant, group: Group, restoring: Restoring, out: list[Effect]) -> None:
        """As most of the hosts say that it is, of two views the later one; and what changed since."""
        core = self.sets[self._own_set(group)]
        held = [restoring.held[host] for host in sorted(restoring.held)]
        views = [each for each in held if each.id is not None]
        said = Counter([each.id for each in views])
        last = max(views, key=lambda each: (said[each.id], _place(each)), default=None)
        if last is not None and last.id is not None and core.table.get(group) is None:
            living = max(
                [each for each in held if each.fence - last.fence <= AHEAD_MAX], key=lambda each: each.fence
            )
            fence = max(living.fence, self._fences.floor if group.scope == self.domain else 0)
            shown = {each.id: rule_attributes(each.attributes) for each in living.view}
            state = LivingState(fence, tuple([RuleMember(id, shown.get(id, ())) for id in living.lived]))
            view = AgreedView(*last.id, last.view)
            highest = max([place for place in map(_place, views) if place[0] - last.id[0] <= AHEAD_MAX])
            if highest > _place(last):  # of fewer hosts, which are not believed; but no number comes twice
                view = AgreedView(highest[0] + 1, 0, Pid(core.core.state.me, 0), last.view)
            gate = self.stack[SERVER].gate
            view = without_strangers(gate, group, view, max(view.number, highest[0]), core.core.state.me)
            core.core.restore(group, AgreedGroup((view,), kind=last.group_kind, living=state))
            hosts = {each.question.host for each in held}
            lost = [each for each in view.ids if host_of(each.endpoint) not in hosts]
            self._propose_loss(now, core, group, lost, out)
        for each in held:
            self._reconcile(now, core, each, out)
        self._excuse(core, out)  # hosts may have said so before we knew of the group
        core.waiting += restoring.waiting


def _awaited(known: AgreedGroup) -> set[MemberId]:
    """Members of its view, and those that its rule asks for."""
    living = known.living
    asked = {each.id for each in living.members}.difference(living.dead)
    tried = {each.id for attempt in living.attempts for each in attempt.members}
    return asked.union(tried, known.view.ids)


def _place(held: HostHolds) -> tuple[int, int, str]:
    """Sorts the views that hosts report: the later one is larger."""
    number, revision, pid = held.id or (0, 0, None)
    return number, revision, str(pid)
