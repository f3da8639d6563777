"""Calls about agreed groups at a domain's server: a service before `AgreedServer`.

    GroupAsked ──▶ have our sets the group? ── no, and its scope is farther up ──▶ parent
                     ├── a question ──▶ GroupAnswer, from the table
                     └── a change ──▶ GroupOrdered ──▶ agreed server ── its outcome ──▶ GroupAnswer
    GroupIsOver, from the agreed server ──▶ GroupEnded, to each host below with members in it

Nothing is kept but who waits. An agent that is not answered asks again, and what was done once is answered
from the table. An answer is that of a server of the core-set on the caller's own branch: what was changed
through it is seen through it (V-052).

A neighbour is trusted about the hosts behind it only, and a host about its own endpoints.
"""

from collections.abc import Sequence
from typing import Final

from rostra.core.effects import Effect, Event, Instant, Received, Send, ignored
from rostra.core.stack import Service, ServiceName
from rostra.errors import BY_CODE, NoSuchGroup, NotAllowed, NotAvailable, TooLarge, Unreachable, ViewUnknown
from rostra.names import Domain, Group, host_of, inside
from rostra.protocols.agreed import finding
from rostra.protocols.agreed.calls import (
    GROUPS_MAX,
    HISTORY_MAX,
    EndedMember,
    GroupAnswer,
    GroupAsked,
    GroupEnded,
    GroupsFound,
    GroupState,
    ListGroups,
    LookAt,
    OrderCall,
    PastView,
    SubgroupEntered,
)
from rostra.protocols.agreed.changes import GroupChange, GroupVerb
from rostra.protocols.agreed.config import HOST_CREATED_MAX
from rostra.protocols.agreed.events import GroupIsOver, GroupOrdered, MembersPlaced, MembersPutOut
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView
from rostra.protocols.agreed.moving import ON_ITS_WAY
from rostra.protocols.agreed.ordering import core_of
from rostra.protocols.agreed.orders import (
    AnyOrder,
    CreateGroup,
    DeleteGroup,
    MergeGroups,
    RemoveMembers,
    SplitGroup,
    encode_order,
    stands,
)
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.refusals import (
    fix_of,
    groups_named,
    is_for_members,
    lets_others_in,
    why_not,
    why_not_restricted,
)
from rostra.protocols.agreed.server import AGREED_SERVER, AgreedServer
from rostra.protocols.agreed.sheets import group_sheet, has_sheet, history_of, matches, stays_by
from rostra.protocols.agreed.subgroups import whole_of
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.routing import OUTSIDE

CALL_SERVER: ServiceName["CallServer"] = ServiceName("agreed calls server")

WAITING_MAX: Final = 4_096
"""Calls that wait for their change. One more, and the oldest is answered when it is asked again."""

_CODES: Final = {error.__name__: error.code for error in BY_CODE.values()}


class CallServer(Service):
    name = CALL_SERVER
    hears_always = (GroupIsOver, MembersPutOut, MembersPlaced)
    takes = (GroupAsked, GroupAnswer, GroupsFound, GroupEnded, SubgroupEntered)

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.waiting: dict[str, GroupAsked] = {}  # by request
        self.engaged = (self.waiting,)

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    @property
    def _agreed(self) -> AgreedServer:
        return self.stack[AGREED_SERVER]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Received(sender, message):
                relation = self._neighbours.up.get(sender)
                match message:
                    case GroupAsked(group, question, caller):
                        may = finding.may_bring(self._agreed, sender, relation, group.scope, question.host)
                        if not may or host_of(caller) != question.host:
                            out.append(ignored(message, OUTSIDE))
                        else:
                            self._asked(now, message, out, climbs=relation is Relation.CHILD)
                    case GroupAnswer() | GroupsFound():
                        if not finding.may_answer(self._agreed, sender, relation, message.group.scope):
                            out.append(ignored(message, OUTSIDE))
                        else:
                            self._pass_back(message, out, falls=relation is not Relation.CHILD)
                    case GroupEnded() | SubgroupEntered():
                        if relation is not Relation.PARENT or not inside(message.group.scope, self.domain):
                            out.append(ignored(message, OUTSIDE))
                        else:
                            self._pass_back(message, out, falls=True)
        return out

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Effects of the agreed server: outcomes that are waited for, and groups that are over."""
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, GroupIsOver):
                self._ended(effect, out)
            elif isinstance(effect, MembersPutOut):
                self._put_out(effect, out)
            elif isinstance(effect, MembersPlaced):
                self._placed(effect, out)
            else:
                out.append(effect)
        for request, asked in list(self.waiting.items()):
            self._settle(request, asked, out)
        return out

    # Questions and orders

    def _asked(self, now: Instant, message: GroupAsked, out: list[Effect], *, climbs: bool = True) -> None:
        group, gate = message.group, self.stack[SERVER].gate
        host, named = message.question.host, groups_named(group, message.call)
        if any(gate.is_closed_to(each, host) for each in named):
            return self._refuse(message, NoSuchGroup.__name__, out)
        if why := why_not_restricted(group, message.call):
            return self._answer(message, NotAllowed.code, why, "choose another name", out)
        if (closed := lets_others_in(gate, group, message.call)) is not None:
            why = f"{closed} is closed, and would begin with members that it is not for"
            return self._answer(message, NotAllowed.code, why, "choose another name", out)
        call, core = message.call, finding.set_with(self._agreed, group)
        if isinstance(call, ListGroups) and not climbs:
            return self._list_below(message, call, out)
        of_scope = isinstance(call, ListGroups) or len(named) > 1  # for the set of its scope
        if of_scope and core is not None and core.core.set != group.scope:
            core = None
        way = None if of_scope and climbs else finding.way_to(self._agreed, group, climbs=climbs)
        if core is None and way is not None:
            return self._pass_on(message, way, out)
        if core is None and not self._agreed._agrees_on(group):
            parent = self._neighbours.parent
            if parent is not None and parent in self._neighbours.up:
                out.append(Send(parent, message))
            else:
                why = f"{self.domain} cannot reach {parent}"
                self._answer(message, Unreachable.code, why, "ask again when it is back", out)
            return None
        if core is None or not core.is_formed(now):
            self._call(now, GroupOrdered(group), out)
            core = core_of(self._agreed, now, group)
        if core is None:
            out.append(ignored(message, "its set forms, or is restored"))  # asked again
            return None
        if len(named) > 1 and finding.are_elsewhere(core, named):
            self._call(now, GroupOrdered(group, also=named[1:]), out)
            out.append(ignored(message, "its groups come together"))  # asked again
            return None
        match call:
            case LookAt():
                self._look(core, message, call, out)
            case ListGroups():
                self._list(core, message, call, out)
            case OrderCall(order) if core.table.get(group) is None and not isinstance(order, CreateGroup):
                self._refuse(message, NoSuchGroup.__name__, out)
            case OrderCall() if (known := core.table.get(group)) and is_for_members(
                group, call, message.caller, known
            ):
                why = f"{group} is a restricted name, and is changed by its members alone"
                self._answer(message, NotAllowed.code, why, "ask one of them", out)
            case OrderCall(SplitGroup(keep=True)) if core.core.set != group.scope:
                why = f"{group} is agreed on below {group.scope}, and subgroups are not"
                self._answer(message, NotAvailable.code, why, "split it without keeping it", out)
            case OrderCall(order) if self._is_beyond_share(core, message.question.host, group, order):
                why = f"{message.question.host} has created {HOST_CREATED_MAX} groups of {group.scope}"
                self._answer(message, TooLarge.code, why, "delete some of them", out)
            case OrderCall(order):
                request = f"call {message.question}"
                self.waiting[request] = message
                for oldest in list(self.waiting)[:-WAITING_MAX]:
                    del self.waiting[oldest]
                data = encode_order(message.caller, order)
                change = GroupChange(group, GroupVerb.ORDER, (), request, data=data)
                if not self._settle(request, message, out):
                    self._call(now, GroupOrdered(group, change, named[1:]), out)
        return None

    def _is_beyond_share(self, core: CoreSet, host: Domain, group: Group, order: AnyOrder) -> bool:
        """Would groups stay without members, of this host's programs, that are more than its share?"""
        table = core.table.groups
        fresh = {
            each
            for each in _stay_after(group, order)
            if each not in table or not has_sheet(table[each].view.attributes)
        }
        if not fresh:
            return False
        asked = [each for each in self.waiting.values() if each.question.host == host]
        for each in asked:
            if isinstance(each.call, OrderCall):
                fresh |= _stay_after(each.group, each.call.order)
        made = {each for each, known in table.items() if stays_by(known.view.attributes) == host}
        return len(made | fresh) > HOST_CREATED_MAX

    def _call(self, now: Instant, ordered: GroupOrdered, out: list[Effect]) -> None:
        out += self.hear(now, self.stack.call(now, self, AGREED_SERVER, ordered))

    def _settle(self, request: str, asked: GroupAsked, out: list[Effect]) -> bool:
        core = finding.set_with(self._agreed, asked.group) or self._agreed.sets.get(asked.group.scope)
        known = None if core is None else core.table.get(asked.group)
        outcome = next((each for each in known.outcomes if each.request == request), None) if known else None
        if core is None or outcome is None:
            return False
        del self.waiting[request]
        if outcome.code:
            self._refuse(asked, outcome.code, out)
        else:
            assert known is not None
            self._answer(asked, "", "", "", out, _state(core, asked.group, known, known.view))
        return True

    def _look(self, core: CoreSet, asked: GroupAsked, call: LookAt, out: list[Effect]) -> None:
        known = core.table.get(asked.group)
        if known is None or not stands(known):
            return self._refuse(asked, NoSuchGroup.__name__, out)
        if call.number is None:
            past = known.past[-min(call.history, HISTORY_MAX) :] if call.history else ()
            lost = self.stack[AGREED_SERVER].lost_domains(core, known.view)
            state = _state(core, asked.group, known, known.view, past, lost)
            return self._answer(asked, "", "", "", out, state)
        view = known.at(call.number, call.revision)
        if view is not None:
            return self._answer(asked, "", "", "", out, _state(core, asked.group, known, view))
        newest = known.view.number
        oldest = known.views[-history_of(known.view.attributes) :][0].number
        why = f"view {call.number} of {asked.group} is not kept"
        fix = f"ask for one from {oldest} to {newest}: rostra views --history lists them"
        if call.revision is not None:
            why = f"revision {call.revision} of {why}"
        if call.number > newest:
            why = f"{asked.group} is at view {newest}, and {call.number} is not agreed yet"
            fix = "wait for it, or ask for the present one"
        return self._answer(asked, ViewUnknown.code, why, fix, out)

    def _list(self, core: CoreSet, asked: GroupAsked, call: ListGroups, out: list[Effect]) -> None:
        found = []
        for name, known in sorted(core.table.groups.items()):
            sheet = group_sheet(known.view.attributes)
            if (
                stands(known)
                and not self.stack[SERVER].gate.is_closed_to(name, asked.question.host)
                and name.scope == asked.group.scope
                and (call.member is None or any(each.endpoint == call.member for each in known.view.ids))
                and matches(() if sheet is None else sheet.properties, call.where)
            ):
                found.append(name)
        names = tuple(found[:GROUPS_MAX])
        if not self._agreed._config.moves:
            return self._pass_back(GroupAnswer(asked.group, asked.question, groups=names), out)
        more = finding.branches_with(core, asked.group.scope)
        self._pass_back(GroupsFound(asked.group, asked.question, core.core.set, more, names), out)
        for branch in more:
            if branch == self.domain:
                self._list_below(asked, call, out)
            else:
                self._pass_on(asked, branch, out)
        return None

    def _list_below(self, asked: GroupAsked, call: ListGroups, out: list[Effect]) -> None:
        """Groups of a wider scope that have come down to the set below us."""
        core = finding.below_us(self._agreed, asked.group.scope)
        if core is None:
            out.append(ignored(asked, ON_ITS_WAY))
        else:
            self._list(core, asked, call, out)

    def _refuse(self, asked: GroupAsked, code: str, out: list[Effect]) -> None:
        why, fix = why_not(code, asked.group, asked.call), fix_of(code)
        self._answer(asked, _CODES.get(code, code), why, fix, out)

    def _answer(
        self,
        asked: GroupAsked,
        code: str,
        why: str,
        fix: str,
        out: list[Effect],
        state: GroupState | None = None,
    ) -> None:
        self._pass_back(GroupAnswer(asked.group, asked.question, code, why, fix, state), out)

    # Groups that are over

    def _ended(self, over: GroupIsOver, out: list[Effect]) -> None:
        core = finding.set_with(self._agreed, over.group)
        known = None if core is None else core.table.get(over.group)
        sheet = None if known is None else group_sheet(known.view.attributes)
        if core is None or known is None or sheet is None:
            return
        later = {name: core.table.get(name) for name in sheet.successors}
        by_host: dict[Domain, list[EndedMember]] = {}
        for id in known.view.left:
            host = host_of(id.endpoint)
            if inside(self.domain, host) and over.host in (None, host):
                names = [
                    name
                    for name, each in later.items()
                    if each is not None and each.view.rank(id) is not None
                ]
                by_host.setdefault(host, []).append(EndedMember(id, names[0] if names else None))
        for host in sorted(by_host):
            message = GroupEnded(
                over.group, host, known.view.id, sheet.over, tuple(by_host[host]), known.kind
            )
            self._pass_back(message, out)

    def _put_out(self, those: MembersPutOut, out: list[Effect]) -> None:
        core = finding.set_with(self._agreed, those.group)
        known = None if core is None else core.table.get(those.group)
        if known is not None:
            members = tuple([EndedMember(id) for id in those.members])
            why = "it was put out of the group"
            ended = GroupEnded(those.group, those.host, known.view.id, why, members, known.kind, over=False)
            self._pass_back(ended, out)

    def _placed(self, those: MembersPlaced, out: list[Effect]) -> None:
        core = finding.set_with(self._agreed, those.group)
        known = None if core is None else core.table.get(those.group)
        if known is not None:
            whole = whole_of(those.group, known.kind)
            self._pass_back(SubgroupEntered(whole, those.host, those.group, known.kind, those.members), out)

    # Which way

    def _pass_on(self, message: GroupAsked, way: Domain, out: list[Effect]) -> None:
        if way == self.domain:
            out.append(ignored(message, ON_ITS_WAY))
        elif way in self._neighbours.up:
            out.append(Send(way, message))
        else:
            out.append(ignored(message, "next hop is down"))

    def _pass_back(
        self,
        message: GroupAnswer | GroupsFound | GroupEnded | SubgroupEntered,
        out: list[Effect],
        *,
        falls: bool = False,
    ) -> None:
        """Towards the host. What `falls` came from above or from beside us, and goes down alone."""
        host = message.host if isinstance(message, GroupEnded | SubgroupEntered) else message.question.host
        hop = self._neighbours.next_hop(host)
        if hop is None or hop not in self._neighbours.up:
            out.append(ignored(message, "next hop is down"))
        elif falls and not inside(self.domain, host):
            out.append(ignored(message, OUTSIDE))
        else:
            out.append(Send(hop, message))


def _state(
    core: CoreSet,
    group: Group,
    known: AgreedGroup,
    view: AgreedView,
    past: Sequence[AgreedView] = (),
    lost: tuple[Domain, ...] = (),
) -> GroupState:
    is_last = view is known.view
    return GroupState(
        view.id,
        view.members,
        view.joined,
        view.left,
        view.failed,
        view.attributes,
        known.kind,
        tuple([each.server for each in core.core.state.view.servers]),
        known.living.fence if is_last else 0,
        core.why_blocked(group, known) if is_last else "",
        tuple(
            [
                PastView(each.id, len(each.members), each.joined, each.left, each.failed, each.parts)
                for each in past
            ]
        ),
        lost,
    )


def _stay_after(group: Group, order: AnyOrder) -> set[Group]:
    """Groups that stay without members from this order on."""
    match order:
        case DeleteGroup() | RemoveMembers():
            return set()
        case SplitGroup(one, other):
            return {one, other}
        case MergeGroups(new=into):
            return {into}
    return {group}
