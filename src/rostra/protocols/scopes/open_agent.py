"""Groups of open scope at an agent: its members, their present scope, and the lists that they get.

    JoinOpen ──▶ PointersKept ──▶ server ── ScopeTold ──▶ Join rostra/open/<name>@<scope> ──▶ Done
    ScopeTold, another one ──▶ join there ── `linger_s` ──▶ leave the old one
    notices of both ──▶ one list, the union ── did it change? ──▶ Absolute(<name>@-open)

To the directory such a group is an ordinary one, with a name of the system and the scope of the moment. When
the scope moves, each host joins the new one first and leaves the old one a while later, when the others have
joined it too. Members get the union of both lists, so a move shows no member as gone (C-171), and those of
the new part appear with the merge there (C-170). The scope that programs see is always `OPEN`.

A step takes `ENTER_AT_ONCE` members into a scope or out of it; a timer goes on with the next ones. Members
are notified of the changes when the last of them is in.

An agent that is cut off takes its cluster for the scope, until its server sends another one.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

from rostra.core.asking import AskingService
from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    EndpointGone,
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
    Tell,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.stack import ServiceName
from rostra.errors import REFUSALS, AlreadyMember, BadInput, NotMember, TooLarge
from rostra.groups.members import Cause, Member, by_endpoint
from rostra.names import OPEN, Domain, Endpoint, Group, check_public, inside, parent
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.requests import (
    Absolute,
    Close,
    Denied,
    Done,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    PutOut,
    Without,
    denied,
)
from rostra.protocols.relaxed.view import GroupView
from rostra.protocols.scopes.config import ENTER_AT_ONCE, GO_ON_S, POINTERS_OF_HOST_MAX, ScopesConfig
from rostra.protocols.scopes.messages import PointersDropped, PointersKept, PointersRefused, ScopeTold
from rostra.protocols.scopes.requests import JoinOpen, LeaveOpen

OPEN_AGENT: Final = ServiceName["OpenAgent"]("scopes open agent")

NAMES: Final = "rostra/open/"
"""Of these groups in the directory; those that begin with ``rostra/`` are the system's."""


class OpenStay(Struct, frozen=True):
    online: bool
    meta: bytes


class OpenGroup(Struct, eq=False):
    """One open group, with members on this host."""

    name: str
    members: dict[Endpoint, OpenStay] = field(default_factory=dict)
    waiting: list[Asked] = field(default_factory=list)  # joins, until the scope is known
    entering: list[Endpoint] = field(default_factory=list)  # members that are not in the scope yet
    scope: Domain | None = None
    views: dict[Domain, GroupView] = field(default_factory=dict)  # of the scope, and of those that it was
    told: dict[Endpoint, Member] | None = None  # the list that members were told

    @property
    def group(self) -> Group:
        return Group(self.name, OPEN)

    @property
    def is_entering(self) -> bool:
        """Do members wait for the timer, because one step did not take in all of them?"""
        return bool(self.entering or self.waiting) and self.scope is not None


class OpenAgent(AskingService[Endpoint]):
    name = OPEN_AGENT
    hears = (Answer, Tell)
    first_token = -(1 << 58)  # above those of unique names
    takes = (
        *(JoinOpen, LeaveOpen, Close, EndpointGone, ScopeTold, PointersRefused),
        *(LinkUp, LinkDown, LinkMoved),
    )

    def __init__(self, host: Domain, config: ScopesConfig) -> None:
        super().__init__()
        self.host = host
        self.config = config
        self.open: dict[str, OpenGroup] = {}
        self.engaged = (self.open,)
        self.up = False  # the link to the server
        self._server = parent(host)
        self._refusal: Denied | None = None  # why the directory did not take the last member
        self._changed: set[str] = set()  # groups of which another list may have to be told

    @property
    def _directory(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self._begin(now)
        match event:
            case Asked(me, token, JoinOpen() as join):
                self._try(token, lambda: self._join(me, token, join))
            case Asked(me, token, LeaveOpen(group)):
                self._try(token, lambda: self._leave(me, token, group))
            case Asked(me) | EndpointGone(me):  # to close it
                for known in list(self.open.values()):
                    self._forget(known, me, gone=True)
            case Received(sender, _) if sender != self._server:
                self._out.append(Ignored("ScopeTold", "not a neighbour"))
            case Received(_, ScopeTold(name, scope)):
                self._scope_told(name, scope)
            case Received(_, PointersRefused(names)):
                for name in [name for name in names if name in self.open]:
                    self._refused(self.open[name])
            case LinkUp(peer) | LinkMoved(peer) if peer == self._server:
                self.up = True
                if self.open:
                    kept = [(name, self.open[name].scope) for name in sorted(self.open)]
                    self._send(PointersKept(tuple(kept)))
            case LinkDown(peer) if peer == self._server:
                self.up = False
                for known in [each for each in self.open.values() if each.scope is None]:
                    self._move(known, self._server)
            case LinkUp() | LinkDown() | LinkMoved():
                pass
            case TimerFired(("scopes", "linger", str(name), str(scope))):
                self._let_go(name, Domain(scope))
            case TimerFired(("scopes", "enter", str(name))) if (
                name in self.open and self.open[name].is_entering
            ):
                self._admit(self.open[name])
            case _:
                self._out.append(ignored(event, "nothing waits for it"))
        return self._end()

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        self._begin(now)
        self._sift(effects)
        return self._end()

    def _end(self) -> list[Effect]:
        for name in sorted(self._changed):
            known = self.open.get(name)
            if known is None or not known.is_entering:
                self._changed.discard(name)
                if known is not None:
                    self._tell_changed(known)
        return self._finish()

    def _try(self, token: int, work: Any) -> None:
        try:
            work()
        except REFUSALS as refusal:
            self._out.append(Answer(token, denied(refusal)))

    # Joining and leaving

    def _join(self, me: Endpoint, token: int, join: JoinOpen) -> None:
        group = join.group
        if me not in self._directory.endpoints:
            raise BadInput(f"no endpoint {me} is open on {self.host}", fix="open it first")
        if group.scope != OPEN:
            raise BadInput(f"{group} has a fixed scope", fix=f"join it plainly, or with the scope {OPEN}")
        check_public(group.name)
        if len(join.meta) > self._directory.config.meta_bytes_max:
            most = self._directory.config.meta_bytes_max
            raise TooLarge(f"an attachment of {len(join.meta)} bytes", fix=f"at most {most}")
        known = self.open.get(group.name)
        is_in = known is not None and (
            me in known.members or any(asked.endpoint == me for asked in known.waiting)
        )
        if is_in:
            raise AlreadyMember(f"{me} is in {group} already, or joins it", fix="leave first")
        if known is None:
            if len(self.open) >= POINTERS_OF_HOST_MAX:
                raise TooLarge(f"{self.host} is in {len(self.open)} open groups", fix="leave some")
            known = self.open[group.name] = OpenGroup(group.name)
            if self.up:
                self._send(PointersKept(((group.name, None),)))
        is_entering = known.is_entering
        known.waiting.append(Asked(me, token, join))
        if known.scope is not None and not is_entering:
            self._admit(known)
        elif known.scope is None and not self.up:
            self._move(known, self._server)

    def _admit(self, known: OpenGroup) -> None:
        """Join the scope in the directory: first members, then programs that wait for it."""
        assert known.scope is not None, "admitted to nowhere"
        entering, known.entering = known.entering[:ENTER_AT_ONCE], known.entering[ENTER_AT_ONCE:]
        for me in entering:
            if refusal := self._enter(known, me, known.scope, known.members[me].meta):
                self._put_out(known, me, refusal)
        room = ENTER_AT_ONCE - len(entering)
        waiting, known.waiting = known.waiting[:room], known.waiting[room:]
        for asked in waiting:
            join = asked.request
            if refusal := self._enter(known, asked.endpoint, known.scope, join.meta):
                self._out.append(Answer(asked.token, refusal))
                continue
            known.members[asked.endpoint] = OpenStay(join.online, join.meta)
            self._out.append(Answer(asked.token, Done()))
            if join.online and known.told is not None:
                self._out.append(Tell((asked.endpoint,), self._list(known)))
        if known.is_entering:
            self._out.append(SetTimer(("scopes", "enter", known.name), GO_ON_S))
        elif known.name in self.open and not known.members:
            self._end_group(known)

    def _leave(self, me: Endpoint, token: int, group: Group) -> None:
        known = self.open.get(group.name)
        is_in = known is not None and me in known.members
        if known is None or group.scope != OPEN or not is_in:
            raise NotMember(f"{me} is not in {group}", fix="join it first")
        self._forget(known, me, gone=False)
        self._out.append(Answer(token, Done()))

    def _forget(self, known: OpenGroup, me: Endpoint, *, gone: bool) -> None:
        was = len(known.members), len(known.waiting)
        known.waiting = [asked for asked in known.waiting if asked.endpoint != me]
        known.entering = [each for each in known.entering if each != me]
        stay = known.members.pop(me, None)
        if stay is not None:
            for scope, view in known.views.items():
                if not gone:
                    self._call(AGENT, Asked(me, self._own_token(), Leave(_key(known.name, scope))))
                view.remove(Left(_key(known.name, scope), me, self._stamp(), Cause.LEAVE))
            self._changed.add(known.name)
        if (len(known.members), len(known.waiting)) != was and not known.members and not known.waiting:
            self._end_group(known)

    def _end_group(self, known: OpenGroup) -> None:
        for scope in known.views:
            if scope != known.scope:
                self._out.append(CancelTimer(_timer(known.name, scope)))
        del self.open[known.name]
        if self.up:
            self._send(PointersDropped((known.name,)))

    # The scope

    def _scope_told(self, name: str, scope: Domain | None) -> None:
        known = self.open.get(name)
        if known is None:
            self._out.append(Ignored("ScopeTold", "no row"))
        elif scope is None or scope == self.host or not inside(scope, self.host):
            self._out.append(Ignored("ScopeTold", "out of scope"))
        elif scope != known.scope:
            self._move(known, scope)
        else:
            self._admit(known)

    def _move(self, known: OpenGroup, scope: Domain) -> None:
        """Join the new scope now, and leave the old one later."""
        old, known.scope = known.scope, scope
        if old is not None:
            self._out.append(SetTimer(_timer(known.name, old), self.config.linger_s))
            self._out.append(Noted("open scope moved", f"{known.name} {old} {scope}"))
        if scope in known.views:  # back again, before we left it
            self._out.append(CancelTimer(_timer(known.name, scope)))
        inside = self._inside(known, scope)
        known.entering = [me for me in sorted(known.members) if me not in inside]
        self._admit(known)

    def _let_go(self, name: str, scope: Domain) -> None:
        known = self.open.get(name)
        if known is None or scope == known.scope or scope not in known.views:
            self._out.append(Ignored("TimerFired", "nothing waits for it"))
            return
        inside = sorted(self._inside(known, scope) & known.members.keys())
        for me in inside[:ENTER_AT_ONCE]:
            self._call(AGENT, Asked(me, self._own_token(), Leave(_key(name, scope))))
        if len(inside) > ENTER_AT_ONCE:
            self._out.append(SetTimer(_timer(name, scope), GO_ON_S))
            return
        del known.views[scope]
        self._changed.add(name)

    def _inside(self, known: OpenGroup, scope: Domain) -> frozenset[Endpoint]:
        table = self._directory.groups.get(_key(known.name, scope))
        return frozenset() if table is None else frozenset(table.members)

    def _enter(self, known: OpenGroup, me: Endpoint, scope: Domain, meta: bytes) -> Denied | None:
        """Join the directory under this scope; the refusal, if there is one."""
        key, self._refusal = _key(known.name, scope), None
        known.views.setdefault(scope, GroupView(key))
        self._call(AGENT, Asked(me, self._own_token(me), Join(key, True, False, meta)))
        return self._refusal

    def _answered(self, me: Endpoint, result: object) -> None:
        self._refusal = result if isinstance(result, Denied) else None

    def _refused(self, known: OpenGroup) -> None:
        """Our server has no room for another row of ours."""
        waiting, known.waiting = known.waiting, []
        full = TooLarge(f"the servers hold too many open groups of {self.host}", fix="leave some")
        self._out += [Answer(asked.token, denied(full)) for asked in waiting]
        if not known.members:
            self._end_group(known)

    def _put_out(self, known: OpenGroup, me: Endpoint, refusal: Denied) -> None:
        self._forget(known, me, gone=False)
        self._out.append(Tell((me,), PutOut(known.group, refusal)))

    # Lists

    def _is_for_us(self, tell: Tell) -> bool:
        """Is it a notice about one of these groups, which programs do not get?"""
        notice = tell.notice
        if isinstance(notice, Only | Without):
            for known in self.open.values():
                for view in known.views.values():
                    view.filter(notice)
                if known.told is not None:  # programs apply it by themselves
                    known.told = {
                        each: member
                        for each, member in known.told.items()
                        if inside(notice.domain, each) == isinstance(notice, Only)
                    }
                self._changed.add(known.name)
            return False
        if not isinstance(notice, Absolute | Joined | Left) or not notice.group.name.startswith(NAMES):
            return False
        self._learn(notice)
        return True

    def _learn(self, notice: Absolute | Joined | Left) -> None:
        known = self.open.get(notice.group.name.removeprefix(NAMES))
        view = None if known is None else known.views.get(notice.group.scope)
        if known is None or view is None:
            return
        match notice:
            case Absolute():
                view.replace(notice)
            case Joined():
                view.add(notice)
            case Left():
                view.remove(notice)
        self._changed.add(known.name)

    def _tell_changed(self, known: OpenGroup) -> None:
        """Send the union of the lists, if it has changed. A member that is on both keeps its record: a move
        to another scope is no change."""
        if known.scope is None or not any(view.known for view in known.views.values()):
            return
        before, found = known.told or {}, dict[Endpoint, Member]()
        for view in known.views.values():
            found.update({each.endpoint: before.get(each.endpoint, each) for each in view.members})
        table = self._directory.groups.get(_key(known.name, known.scope))
        here = {} if table is None else table.members
        found.update({me: before.get(me, here[me]) for me in known.members if me in here})
        if known.told is not None and found.keys() == known.told.keys():
            return
        known.told = found
        online = tuple(sorted([me for me, stay in known.members.items() if stay.online]))
        if online:
            self._out.append(Tell(online, self._list(known)))

    def _list(self, known: OpenGroup) -> Absolute:
        return Absolute(known.group, by_endpoint(known.told or {}), isolated=not self.up)

    # Inside

    def _send(self, message: PointersKept | PointersDropped) -> None:
        self._out.append(Send(self._server, message))

    def _stamp(self) -> tuple[int, int]:
        return self._directory.incarnation, self._directory.counter


def _key(name: str, scope: Domain) -> Group:
    return Group(f"{NAMES}{name}", scope)


def _timer(name: str, scope: Domain) -> TimerKey:
    return ("scopes", "linger", name, scope)
