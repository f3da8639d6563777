"""An administrator's changes of a set of servers, at one of its servers (V-008, V-009).

    AdministerSet ──▶ server ── is it possible? ── no ──▶ Denied, with what to do
                    ├── LEAVE, DEL_PARENT, SPLIT: a `SetSplit`, agreed on by all of it
                    └── JOIN, ADD_PARENT, MERGE: ReopenAsked ──▶ servers outside of our part; the parts then
    SetShown ◀──────┘   when it is so                            look for each other, and merge (`reform.py`)

Which sets there are, and who may be in which, follows from names: ``set(D)`` are the servers of D's children,
and D's own server as parent. Domains come and go with the world file. What is decided here is which of these
servers agree with each other.

Where we differ from the specification, and why:

- The parent of a set is the server of its domain, and no other: names say so, and members' addresses hang on
  them. So ADD_PARENT takes back the one that DEL_PARENT removed.
- Of the two sides of a split the parent is in one. A server has one state for each of its two sets; in two
  sides at once it would need three, and both would wait for it. The other side goes on as a set that lost its
  parent does (V-011).
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import BadInput, InDoubt, NotAllowed, RostraError, Unreachable
from rostra.names import ROOT, Domain, Endpoint, child, parent, parse_domain
from rostra.protocols.agreed.branch import ReopenAsked
from rostra.protocols.agreed.calls import AdministerSet, SetServer, SetShown, SetVerb
from rostra.protocols.agreed.changes import AnyChange, PartReopened, Pid, ServerId, SetSplit
from rostra.protocols.agreed.config import SET_MEMBERS_MAX
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import SetOrdered
from rostra.protocols.agreed.server import AGREED_SERVER, AgreedServer
from rostra.protocols.agreed.state import SetState
from rostra.protocols.relaxed.requests import denied
from rostra.protocols.relaxed.routing import OUTSIDE

SETS_SERVER: ServiceName["SetAdministration"] = ServiceName("agreed sets server")

WAIT_S: Final = 30.0
"""How long an administrator waits for a change that the set must agree on, or that other parts must."""

WAITING_MAX: Final = 64
"""Orders of administrators that wait at one server."""

SPLIT_COUNT: Final = 1 << 50
"""Counters of the ids that second sides of splits have: far from those of proposals."""

AGAIN_S: Final = 0.25
"""How often it is looked whether the servers of a set have met."""

SPLIT_LEVEL: Final = 1
"""Servers of this level know of splits."""

_EXPIRY: Final[TimerKey] = ("agreed", "", "administered")
_AGAIN: Final[TimerKey] = ("agreed", "", "administered early")


NOBODY: Final = Endpoint("")
"""Administrators have no endpoint."""


class _Waiting(Struct, frozen=True):
    token: int
    order: AdministerSet
    until: Instant


class SetAdministration(Service):
    name = SETS_SERVER
    takes = (AdministerSet, ReopenAsked)

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.waiting: list[_Waiting] = []
        self.engaged = (self.waiting,)
        self.early: list[
            tuple[int, AdministerSet]
        ] = []  # the set is forming; it does so for `FORM_S` at most
        self._has_timer = False

    @property
    def _agreed(self) -> AgreedServer:
        return self.stack[AGREED_SERVER]

    @property
    def _below(self) -> Domain | None:
        """The set that we are the parent of. Those below a cluster are hosts, and agree on nothing."""
        return None if self._agreed._neighbours.cluster else self.domain

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Asked(_, token, AdministerSet() as order):
                try:
                    self._ordered(now, token, order, out)
                except RostraError as error:
                    out.append(Answer(token, denied(error)))
            case Received(sender, ReopenAsked(name, request)):
                core = self._agreed.sets.get(name)
                if core is None or self._agreed._set_of(sender) != name:
                    out.append(Ignored("ReopenAsked", OUTSIDE))
                elif core.core.state.gave_up:
                    self._agree(now, name, PartReopened(request), out)
            case TimerFired(timer) if timer == _AGAIN:
                early, self.early = self.early, []
                for token, order in early:
                    out += self.step(now, Asked(NOBODY, token, order))
            case TimerFired(timer) if timer == _EXPIRY:
                self._has_timer = False
                late = [each for each in self.waiting if each.until <= now]
                self.waiting[:] = [each for each in self.waiting if each.until > now]
                out += [Answer(each.token, denied(_in_doubt(each.order))) for each in late]
                if self.waiting:
                    self._wake_at(now, min([each.until for each in self.waiting]), out)
        self._settle(out)
        return out

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        out = list(effects)
        self._settle(out)
        return out

    # Orders

    def _ordered(self, now: Instant, token: int, order: AdministerSet, out: list[Effect]) -> None:
        name = order.set
        own = [each for each in (self._agreed._above, self._below) if each is not None]
        if name not in own:
            raise NotAllowed(
                f"the server of {self.domain} is in {' and '.join([f'set({each})' for each in own])}, and not"
                f" in set({name})",
                fix=f"ask the server of {name}, or one of a domain right below it",
            )
        self._call(now, SetOrdered(name), out)
        core = self._agreed.sets.get(name)
        if core is None or not core.is_formed(now):
            if len(self.early) >= WAITING_MAX:
                why = f"the servers of set({name}) have not met yet"
                raise Unreachable(why, fix="ask again in some seconds")
            self.early.append((token, order))
            out.append(SetTimer(_AGAIN, AGAIN_S))
            return
        if order.verb is SetVerb.LOOK:
            out.append(Answer(token, _shown(core.core)))
            return
        changes, asked = decide(core.core, order)
        if len(self.waiting) >= WAITING_MAX:
            raise NotAllowed(f"{WAITING_MAX} changes of sets wait here", fix="ask again when they are done")
        self.waiting.append(_Waiting(token, order, now + WAIT_S))
        out += [Send(each, ReopenAsked(name, _request(core.core))) for each in asked]
        for change in changes:
            self._agree(now, name, change, out)
        if not self._has_timer:
            self._wake_at(now, now + WAIT_S, out)

    def _wake_at(self, now: Instant, at: Instant, out: list[Effect]) -> None:
        self._has_timer = True
        out.append(SetTimer(_EXPIRY, at - now))

    def _agree(self, now: Instant, name: Domain, change: AnyChange, out: list[Effect]) -> None:
        self._call(now, SetOrdered(name, change), out)

    def _call(self, now: Instant, ordered: SetOrdered, out: list[Effect]) -> None:
        out += self.stack.call(now, self, AGREED_SERVER, ordered)

    def _settle(self, out: list[Effect]) -> None:
        for each in list(self.waiting):
            core = self._agreed.sets.get(each.order.set)
            if core is not None and is_done(core.core.state, each.order):
                self.waiting.remove(each)
                out.append(Answer(each.token, _shown(core.core)))
        if self._has_timer and not self.waiting:
            self._has_timer = False
            out.append(CancelTimer(_EXPIRY))


def decide(core: SetCore, order: AdministerSet) -> tuple[list[AnyChange], list[Domain]]:
    """What our part agrees on, and which servers outside of it open theirs; raises if that cannot be."""
    state, name = core.state, core.set
    ids = {each.server: each for each in state.view.servers}
    has_parent = next((each.id for each in state.view.members if each.parent), None)
    outside = sorted(state.linked - ids.keys())
    is_split = order.verb in (SetVerb.LEAVE, SetVerb.DEL_PARENT, SetVerb.SPLIT)
    if is_split and state.view.level < SPLIT_LEVEL:
        old = [each.id.server for each in state.view.members if each.level < SPLIT_LEVEL]
        why = f"{', '.join(old[:4])} of {_part(core)} have a version that does not know of this"
        raise NotAllowed(why, fix="update them first; rostra hierarchy show says who has which level")
    match order.verb, order.servers:
        case SetVerb.LEAVE, (server,):
            if server not in ids:
                raise BadInput(f"{server} is not in {_part(core)}", fix=f"one of: {' '.join(sorted(ids))}")
            if has_parent is not None and server == has_parent.server:
                raise BadInput(f"{server} is the parent of set({name})", fix="remove it with del-parent")
            _check_others(core)
            return [_without(core, ids[server])], []
        case SetVerb.DEL_PARENT, ():
            if has_parent is None:
                raise BadInput(f"{_part(core)} has no parent", fix="nothing is to be done")
            _check_others(core)
            return [_without(core, has_parent)], []
        case SetVerb.SPLIT, first:
            return [_split(core, order, first)], []
        case (SetVerb.JOIN, (_,)) | (SetVerb.ADD_PARENT, ()):
            server = order.servers[0] if order.servers else name
            if order.verb is SetVerb.JOIN and (server == ROOT or parent(server) != name):
                fix = f"name a domain right below it: {child(name, 'paris')}"
                raise BadInput(f"{server} is no child of {name}, and cannot be in its set", fix=fix)
            if server in ids:
                raise BadInput(f"{server} is in {_part(core)} already", fix="nothing is to be done")
            if state.gave_up:
                raise NotAllowed(
                    f"{_part(core)} is a part of set({name})", fix="merge the parts first, with merge"
                )
            return [], _linked(core, server, outside)
        case SetVerb.MERGE, ((_,) | ()) as servers:
            asked = _linked(core, servers[0], outside) if servers else outside
            if not asked:
                raise BadInput(f"no other part of set({name}) is in sight", fix="nothing is to be done")
            own: list[AnyChange] = [PartReopened(_request(core))] if state.gave_up else []
            return own, asked
    raise BadInput(f"{len(order.servers)} servers for {order.verb.name.lower()}", fix="name one, or none")


def is_done(state: SetState, order: AdministerSet) -> bool:
    here = {each.server for each in state.view.servers}
    match order.verb:
        case SetVerb.LEAVE:
            return order.servers[0] not in here or here == {state.me.server}
        case SetVerb.DEL_PARENT:
            return not any(each.parent for each in state.view.members) or here == {state.me.server}
        case SetVerb.SPLIT:  # a part may have had one of these names before
            is_side = here.issubset(order.servers) or here.isdisjoint(order.servers)
            return is_side and state.gave_up.endswith(tuple([f"#{each}" for each in order.names]))
        case SetVerb.MERGE:
            return not state.gave_up and (not state.linked - here or bool(here.intersection(order.servers)))
        case SetVerb.JOIN:
            return order.servers[0] in here
        case SetVerb.ADD_PARENT:
            return any(each.parent for each in state.view.members)
    return True


def _split(core: SetCore, order: AdministerSet, first: tuple[Domain, ...]) -> SetSplit:
    state = core.state
    ids = {each.server: each for each in state.view.servers}
    for each in first:
        if each not in ids:
            raise BadInput(f"{each} is not in {_part(core)}", fix=f"name some of: {' '.join(sorted(ids))}")
    second = [each for each in ids if each not in first]
    if not first or not second:
        raise BadInput("a side of the split has no server", fix="name some of its servers, and not all")
    if len(order.names) != 2 or order.names[0] == order.names[1]:
        raise BadInput("a split makes two sets, each with a name", fix="name both: north south")
    for name in order.names:
        if "." in parse_domain(name) or name == ROOT:
            raise BadInput(f"{name!r} is no name for a set", fix="use a-z, 0-9 and '-'")
    own = Pid(state.me, SPLIT_COUNT + state.slot)
    sides = [tuple(sorted([ids[each] for each in side])) for side in (first, second)]
    return SetSplit(sides[0], sides[1], (order.names[0], order.names[1]), own)


def _without(core: SetCore, server: ServerId) -> SetSplit:
    """The others go on as the set, and this one by itself."""
    state = core.state
    rest = tuple([each for each in state.view.servers if each != server])
    own = Pid(state.me, SPLIT_COUNT + state.slot)
    return SetSplit(rest, (server,), ("", server.server.replace(".", "-")), own)


def _check_others(core: SetCore) -> None:
    if len(core.state.view.servers) == 1:
        raise BadInput(f"{_part(core)} has no other server", fix="nothing is to be done")


def _linked(core: SetCore, server: Domain, outside: list[Domain]) -> list[Domain]:
    if server not in outside:
        me = core.state.me.server
        raise Unreachable(f"{me} has no link to {server}", fix="start it, or ask one that sees it")
    return [server]


def _request(core: SetCore) -> str:
    """The same at a server until something is agreed on there: asked twice, done once."""
    return f"{core.state.me} at {core.state.slot}"


def _part(core: SetCore) -> str:
    return core.state.gave_up or f"set({core.set})"


def _shown(core: SetCore) -> SetShown:
    state = core.state
    servers = tuple([SetServer(each.id.server, each.parent, each.level) for each in state.view.members])
    outside = sorted(state.linked.difference([each.server for each in servers]))
    return SetShown(core.set, state.gave_up, state.view.number, servers, tuple(outside[:SET_MEMBERS_MAX]))


def _in_doubt(order: AdministerSet) -> InDoubt:
    return InDoubt(
        f"{order.verb.name.lower()} of set({order.set}) is not done after {WAIT_S:g} s",
        fix=f"look at it: rostra hierarchy show {order.set}; it may still be done",
    )
