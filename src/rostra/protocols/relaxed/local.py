"""The membership service of an agent (Congress's LMS): the groups of one host's programs.

    programs of this host                                     the cluster's domain server
      Join, Leave, SetOnline, Watch ──▶ ┌─────────────┐ ──▶ InterestChanged, EndpointsJoined, EndpointLeft
      Resolve ────────────────────────▶ │ LocalServer │ ──▶ ResolveRequest
      Absolute, Joined, Left ◀───────── │   groups    │ ◀── ResolveReply, EndpointsJoined, EndpointLeft
      Only, Without ◀────────────────── │   open      │ ◀── DomainFailed
      Message, Life ◀─────────────────▶ │             │ ◀─▶ Routed, Undeliverable, LifeAsked, LifeTold
      Recall ─────────────────────────▶ └─────────────┘ ◀─▶ Inquiry, InquiryReply

Besides its tables its only state is `up`: is the link to the domain server up?

    down ── LinkUp: announce every group, then resolve the members elsewhere ──▶ up
    up ── LinkDown: keep this host's members only; answer open requests from them ──▶ down
    up ── LinkMoved: announce every group again, repeat open requests ──▶ up

While it is down the host is a world of its own: everything works, on local members (C-054).

Where we differ from the paper, and why:

- Interest is announced before the join that it belongs to and withdrawn after the leave, always by comparing
  the states before and after; the paper compares with a table that has changed already (T-09, T-10, C-102).
- A waiter is a call and not an endpoint, so two calls get two answers; and a leave cancels only requests
  that the agent made by itself for that group (T-16, T-17).
- An answer also settles every earlier question about the group: a later answer is never older (T-21).
- Questions share a request only if our interest was ALL all along (T-19), or if they were asked in the same
  instant, before any answer can have come.
- A watcher follows a group without being a member. To the servers it is interest; no list contains it.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final, get_args

from rostra.core.disk import RoomChanged
from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Event,
    FellBehind,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Persist,
    Received,
    Secure,
    Send,
    Tell,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import (
    REFUSALS,
    AlreadyMember,
    BadInput,
    GroupIsPermanent,
    NameInUse,
    NoSuchPermanentGroup,
    NotAllowed,
    NotInScope,
    NotMember,
    TooLarge,
    Unreachable,
)
from rostra.groups.attributes import proven
from rostra.groups.members import Because, Cause, Member, Members, Part, Stamp, by_endpoint, unite
from rostra.names import (
    Domain,
    Endpoint,
    Group,
    check_not_transient,
    check_public,
    concerns,
    enclosing,
    endpoint,
    inside,
    name_of,
    parent,
    parse_endpoint_name,
    scope_to_use,
)
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd
from rostra.protocols.relaxed.gate import Gate, screened
from rostra.protocols.relaxed.inquiries import INQUIRY, Inquiries
from rostra.protocols.relaxed.liveness import CLOSED, CRASHED, REFRESH, UNKNOWN, Liveness
from rostra.protocols.relaxed.local_state import GatheredJoins, LocalGroup, Presence, check_group
from rostra.protocols.relaxed.mail import Mail, check_endpoint, not_open
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    InquiryReply,
    Interest,
    InterestChanged,
    LifeAsked,
    LifeTold,
    MessageId,
    RegistryTold,
    ResolveReply,
    ResolveRequest,
    Routed,
    ServerMessage,
    SyncDone,
    Undeliverable,
)
from rostra.protocols.relaxed.registry import Registry, RegistryRecord
from rostra.protocols.relaxed.reports import document_of
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyRequest,
    Close,
    Done,
    Inspect,
    Inspected,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    Open,
    Opened,
    Recall,
    Register,
    Resolve,
    SendTo,
    SetOnline,
    Unregister,
    Unwatch,
    UnwatchLife,
    Watch,
    WatchLife,
    Without,
    denied,
)
from rostra.protocols.relaxed.resolves import AUTO, DEADLINE, OpenQuery, QueryKind, Resolves

AGENT: Final = ServiceName["LocalServer"]("relaxed agent")

_DONE: Final = Done()
_endpoint_of: Final = attrgetter("endpoint")


class LocalServer(Service):
    name = AGENT
    takes = (
        *(*ServerMessage.__subclasses__(), *get_args(AnyRequest)),
        *(EndpointGone, FellBehind, JoinsBegin, JoinsEnd, LinkUp, LinkDown, LinkMoved, RoomChanged),
    )

    def __init__(
        self,
        host: Domain,
        *,
        incarnation: int,
        config: RelaxedConfig | None = None,
        registry: Registry | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.host = host
        self.gate = gate or Gate()
        self.gate.host = host
        self.gms = parent(host)
        self.incarnation = incarnation
        self.next_number = incarnation  # of the next endpoint; drivers see to it that numbers never recur
        self.config = config or RelaxedConfig()
        self.registry = registry or Registry()
        self.registry.load(host)
        self.up = False  # the link to the domain server
        self.groups: dict[Group, LocalGroup] = {}
        self.endpoints: dict[Endpoint, Presence] = {}
        self.names: dict[str, Endpoint] = {}
        self.resolves = Resolves(self.gms, self.endpoints, self._new_id)
        self.life = Liveness(host, self.config, self._new_id)
        self.mail = Mail(host, self.config, self.endpoints, self._new_id)
        self.inquiries = Inquiries(host, self.config, self._new_id)
        self._joins: dict[Group, GatheredJoins] | None = None  # of this turn, while they are gathered
        self._around = frozenset(enclosing(host))  # every scope that contains this host
        self._sequence = 0
        self.counter = 0  # of our members' joins and leaves

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        if self._joins is not None and not (type(event) is Asked and type(event.request) is Join):
            self._end_joins(now, out)
        match event:
            case Received(sender, message):
                if sender != self.gms:
                    out.append(ignored(message, why="not a neighbour"))
                elif not self.up:
                    out.append(ignored(message, why="link is down"))
                else:
                    self._received(now, screened(now, self.gate, sender, message, out), out)
            case Asked(me, token, request):
                self._asked(now, me, token, request, out)
            case TimerFired(timer):
                self._timer_fired(now, timer, out)
            case JoinsBegin() | JoinsEnd():
                self._joins = {} if type(event) is JoinsBegin else None
            case EndpointGone(me):
                self._endpoint_gone(me, out)
            case FellBehind(me, groups):
                self._fell_behind(now, me, groups, out)
            case LinkUp(peer) if peer == self.gms and not self.up:
                self._link_up(now, out)
            case LinkDown(peer, because) if peer == self.gms and self.up:
                self._link_down(because, out)
            case LinkMoved(peer) if peer == self.gms and self.up:
                self._link_moved(now, out)
            case LinkUp() | LinkDown() | LinkMoved():
                out.append(ignored(event, why="not a neighbour"))
            case RoomChanged(lacking):
                self.registry.own.no_room = lacking
            case _:
                out.append(ignored(event, why="not for an agent"))
        return out

    def user_of(self, me: Endpoint) -> str:
        presence = self.endpoints.get(me)
        return "" if presence is None else presence.user

    def interest(self, group: Group) -> Interest:
        """The interest of this host in a group (C-093)."""
        table = self.groups.get(group)
        return Interest.NONE if table is None else table.interest()

    def _follows(self, group: Group) -> bool:
        return self.interest(group) is Interest.ALL

    def present(self, about: str) -> list[tuple[Endpoint, tuple[Group, ...]]]:
        """The open endpoints that match an endpoint or host, with their groups; the newest first."""
        found = [each for each in reversed(self.endpoints) if concerns(about, each)]
        return [(each, tuple(sorted(self.endpoints[each].groups))) for each in found]

    # What programs ask. Each handler refuses before it changes anything, so a refused call leaves no trace.

    def _asked(self, now: Instant, me: Endpoint, token: int, request: Any, out: list[Effect]) -> None:
        try:
            match request:
                case Open(name, user):
                    self._open(name, user, token, out)
                case Register(group):
                    self._register(group, token, out)
                case Unregister(group):
                    self._register(group, token, out, to_be=False)
                case Inspect():
                    out.append(Answer(token, Inspected(document_of(self))))
                case Recall():
                    self.inquiries.ask(token, request, self.up, out)
                case _ if me not in self.endpoints:
                    raise not_open(me, self.host)
                case Resolve():
                    self._resolve(now, me, token, request, out)
                case Join():
                    self._join(now, me, token, request, out)
                case Leave():
                    self._leave(now, me, token, request, out)
                case SendTo():
                    self.mail.send(me, token, request, self.up, out)
                case Watch(group):
                    self._watch(now, me, token, group, out)
                case Unwatch(group):
                    self._unwatch(me, token, group, out)
                case SetOnline(group, online):
                    self._set_online(now, me, token, group, online, out)
                case WatchLife(target):
                    check_endpoint(target)
                    self.life.check_watch(me, target)
                    out.append(Answer(token, _DONE))
                    self.life.watch(me, target, target in self.endpoints, out)
                case UnwatchLife(target):
                    self.life.check_unwatch(me, target)
                    out.append(Answer(token, _DONE))
                    self.life.unwatch(me, target, out)
                case Close():
                    self._close(me, token, out)
                case _:
                    raise BadInput(f"{type(request).__name__} is no question for an agent")
        except REFUSALS as refusal:
            out.append(Answer(token, denied(refusal)))

    def _open(self, name: str, user: str, token: int, out: list[Effect]) -> None:
        parse_endpoint_name(name)
        if name in self.names:
            raise NameInUse(
                f"{self.names[name]} is open already",
                fix="choose another name, or wait until that program closes it",
            )
        if len(self.endpoints) >= self.config.endpoints_max:
            raise TooLarge(
                f"{len(self.endpoints)} endpoints are open on {self.host}",
                fix="close some, or raise endpoints_max",
            )
        me = endpoint(self.host, name, self.next_number)
        self.next_number += 1
        self.names[name] = me
        self.endpoints[me] = Presence(user=user)
        out.append(Answer(token, Opened(me)))

    def _close(self, me: Endpoint, token: int, out: list[Effect]) -> None:
        for open_token in sorted(self.endpoints[me].questions):
            self.resolves.give_up(self.resolves.questions[open_token], out)
            gone = Unreachable(f"{me} was closed before the answer came", fix="open it again and ask again")
            out.append(Answer(open_token, denied(gone)))
        self._forget(me, Cause.LEAVE, CLOSED, out)
        out.append(Answer(token, _DONE))

    def _join(self, now: Instant, me: Endpoint, token: int, join: Join, out: list[Effect]) -> None:
        """C-104, after the checks of C-043."""
        group = join.group
        self._check_group(group)
        self._check_meta(join.meta)
        if not join.permanent:
            self.check_may_join(group, me)
        else:
            check_public(group.name)
            self._check_scope(group)
            if not self.registry.is_permanent(group) or self.gate.is_closed_to(group, self.host):
                raise NoSuchPermanentGroup(
                    f"{group} is not registered as a permanent group",
                    fix=f"register it at the server of {group.scope}, or join it as spontaneous",
                )
        if group in self.endpoints[me].groups:
            raise AlreadyMember(
                f"{me} is in {group} already", fix="set it online or offline instead, or leave first"
            )

        proof = self.gate.permits.get((me, group))
        attributes = join.attributes if proof is None else proven(join.attributes, proof)
        member = Member(me, self._stamp(), join.meta, join.group_kind, attributes)
        before = self.interest(group)
        table = self.groups.setdefault(group, LocalGroup())
        if self._joins is None:
            self._tell(table.followers_besides(me), Joined(group, (member,), Cause.JOIN), out)
        else:
            self._joins.setdefault(group, GatheredJoins(before, table.followers())).members.append(member)
        table.add(member, join.online)
        self.endpoints[me].groups.add(group)
        out.append(Answer(token, _DONE))
        if self._joins is None:
            self._announce_joins(now, group, before, (member,), out)

    def _end_joins(self, now: Instant, out: list[Effect]) -> None:
        """All joins of a turn as one notice, which joiners do not get: each gets a baseline (C-066)."""
        joins, self._joins = self._joins or {}, None
        for group, gathered in joins.items():
            members = by_endpoint({member.endpoint: member for member in gathered.members})
            self._tell(gathered.besides(), Joined(group, members, Cause.JOIN), out)
            self._announce_joins(now, group, gathered.before, members, out)

    def _announce_joins(
        self, now: Instant, group: Group, before: Interest, members: Members, out: list[Effect]
    ) -> None:
        self._announce_interest(group, before, out)
        if self._reaches_beyond(group):
            self._send(EndpointsJoined(self._new_id(), group, members, Cause.JOIN), out)
        for member in members:
            if self.groups[group].is_followed_by(member.endpoint):
                self._give_baseline(now, member.endpoint, group, out)

    def _leave(self, now: Instant, me: Endpoint, token: int, leave: Leave, out: list[Effect]) -> None:
        group = leave.group
        self._check_group(group)
        self._check_meta(leave.meta)
        self._check_scope(group)
        self._check_member(me, group)
        self._depart(me, group, Cause.LEAVE, out, leave.meta, leave.last, token)
        if group in self.endpoints[me].watched:
            # It still follows, and gets no notice of its own call: a new baseline shows that it left.
            self._give_baseline(now, me, group, out)

    def _set_online(
        self, now: Instant, me: Endpoint, token: int, group: Group, online: bool, out: list[Effect]
    ) -> None:
        """C-113."""
        self._check_group(group)
        self._check_scope(group)
        self._check_member(me, group)
        table = self.groups[group]
        out.append(Answer(token, _DONE))
        if online == (me in table.online):
            return
        before = table.interest()
        table.set_online(me, online)
        self._announce_interest(group, before, out)
        if online:
            self._give_baseline(now, me, group, out)
        else:
            self._stop_following(me, group)

    def _watch(self, now: Instant, me: Endpoint, token: int, group: Group, out: list[Effect]) -> None:
        self._check_group(group)
        check_not_transient(group.name)
        self._check_scope(group)
        out.append(Answer(token, _DONE))
        presence = self.endpoints[me]
        if group in presence.watched:
            return
        before = self.interest(group)
        self.groups.setdefault(group, LocalGroup()).set_watching(me, True)
        presence.watched.add(group)
        self._announce_interest(group, before, out)
        self._give_baseline(now, me, group, out)

    def _unwatch(self, me: Endpoint, token: int, group: Group, out: list[Effect]) -> None:
        self._check_group(group)
        if group not in self.endpoints[me].watched:
            raise NotMember(f"{me} does not watch {group}", fix="watch it first")
        out.append(Answer(token, _DONE))
        self._end_watch(me, group, out)

    def _register(self, group: Group, token: int, out: list[Effect], *, to_be: bool = True) -> None:
        self._check_own_scope(group)
        if to_be:
            check_public(group.name)
        change = self.registry.register if to_be else self.registry.unregister
        out += [Secure(record)] if (record := change(group)) is not None else []
        out.append(Answer(token, _DONE))

    # Resolving

    def _resolve(self, now: Instant, me: Endpoint, token: int, ask: Resolve, out: list[Effect]) -> None:
        deadline_s = self.config.resolve_deadline_s if ask.deadline_s is None else ask.deadline_s
        if deadline_s is not None and not 0 < deadline_s <= self.config.deadline_max_s:
            raise BadInput(
                f"a deadline of {deadline_s} s",
                fix=f"name one above 0 and not above {self.config.deadline_max_s:g} s, or none",
            )
        if ask.scope is None:
            scopes = enclosing(self.host)
            groups = [Group(ask.name, scope) for scope in scopes]
            self._check_group(groups[0])
        else:
            scopes, groups = None, [Group(ask.name, ask.scope)]
            self._check_group(groups[0])
            self._check_scope(groups[0])
        check_not_transient(ask.name)
        question = OpenQuery(me, token, scopes, timed=False)
        for group in groups:
            if self._reaches_beyond(group):
                entry = self.resolves.ask_for(now, group, (me, token), self._follows(group), out)
                question.waits_for[entry.id] = entry
            else:
                self.resolves.answer(question, self._local_answer(group), out)
        if question.waits_for:
            self.resolves.wait(question, deadline_s, out)

    def _give_baseline(self, now: Instant, me: Endpoint, group: Group, out: list[Effect]) -> None:
        """The automatic `Absolute` of a new follower (C-045, C-050).

        If one is on its way already it serves: it will contain or supersede every change that was sent before
        it (C-066)."""
        if not self._reaches_beyond(group):
            out.append(Tell((me,), self._local_answer(group)))
        elif not any(
            entry.kind is QueryKind.RESOLVE and (me, AUTO) in entry.waiters
            for entry in self.resolves.about(group)
        ):
            self.resolves.ask_for(now, group, (me, AUTO), self._follows(group), out)

    def _local_answer(self, group: Group) -> Absolute:
        """This host's own members, as the answer where no server is needed or reachable (C-106)."""
        table, isolated = self.groups.get(group), group.scope != self.host
        return Absolute(group, (), isolated) if table is None else table.answer(group, isolated)

    def _with_local(self, group: Group, members: Members) -> Members:
        """A list from the servers, united with the local members of this moment.

        The servers' list has all other hosts, sorted, so all our members go to one place in it: the union is
        two copies and no merge.
        """
        table = self.groups.get(group)
        if table is None or not table.members:
            return members
        start = bisect_left(members, f"{self.host}/", key=_endpoint_of)
        end = bisect_left(members, f"{self.host}0", lo=start, key=_endpoint_of)  # '0' comes after '/'
        ours = table.records()
        if start < end:
            united = {member.endpoint: member for member in members[start:end]}
            unite(united, ours)
            ours = by_endpoint(united)
        return (*members[:start], *ours, *members[end:])

    # Leaving, by one's own will or not

    def _depart(
        self,
        me: Endpoint,
        group: Group,
        cause: Cause,
        out: list[Effect],
        meta: bytes = b"",
        last: int | None = None,
        token: int | None = None,
    ) -> None:
        """C-105; for a leave that was asked for, `token` names the question."""
        stamp = self._stamp()
        table = self.groups[group]
        before = table.interest()
        table.remove(me)
        self.endpoints[me].groups.discard(group)
        self._stop_following(me, group)
        self._tell(table.followers_besides(me), Left(group, me, stamp, cause, meta, last), out)
        if token is not None:
            out.append(Answer(token, _DONE))
        if self._reaches_beyond(group):
            self._send(EndpointLeft(self._new_id(), group, me, stamp, cause, meta, last), out)
        self._announce_interest(group, before, out)
        self._drop_if_empty(group)

    def _end_watch(self, me: Endpoint, group: Group, out: list[Effect]) -> None:
        table = self.groups[group]
        before = table.interest()
        table.set_watching(me, False)
        self.endpoints[me].watched.discard(group)
        self._stop_following(me, group)
        self._announce_interest(group, before, out)
        self._drop_if_empty(group)

    def _stop_following(self, me: Endpoint, group: Group) -> None:
        """Cancel the automatic requests for this endpoint and this group; nothing else
        (T-16)."""
        if not self.groups[group].is_followed_by(me):
            for entry in list(self.resolves.about(group)):
                self.resolves.stop_waiting(entry, (me, AUTO))

    def _endpoint_gone(self, me: Endpoint, out: list[Effect]) -> None:
        """C-114."""
        if me not in self.endpoints:
            out.append(Ignored("EndpointGone", why=UNKNOWN))
            return
        for token in sorted(self.endpoints[me].questions):
            self.resolves.give_up(self.resolves.questions[token], out)
        self._forget(me, Cause.CRASH, CRASHED, out)

    def _forget(self, me: Endpoint, cause: Cause, why: str, out: list[Effect]) -> None:
        presence = self.endpoints[me]
        for group in sorted(presence.watched):
            self._end_watch(me, group, out)
        for group in sorted(presence.groups):
            self._depart(me, group, cause, out)
        self.life.ended(me, why, out)
        del self.endpoints[me]
        del self.names[name_of(me)]

    def _fell_behind(self, now: Instant, me: Endpoint, groups: tuple[Group, ...], out: list[Effect]) -> None:
        for group in sorted(groups):
            table = self.groups.get(group)
            if table is not None and table.is_followed_by(me):
                self._give_baseline(now, me, group, out)
            else:
                out.append(Ignored("FellBehind", why="no follower"))

    # What the domain server says

    def _received(self, now: Instant, message: Any, out: list[Effect]) -> None:
        match message:
            case EndpointsJoined(_, group, members, cause, complete_for):
                self._pass_on(group, Joined(group, members, cause, complete_for), out)
            case EndpointLeft(_, group, who, stamp, cause, meta, last):
                self._pass_on(group, Left(group, who, stamp, cause, meta, last), out)
            case ResolveRequest(id, group):
                self._resolve_request(id, group, out)
            case ResolveReply(id, group, members):
                self._resolve_reply(id, group, members, out)
            case DomainFailed():
                self._domain_failed(message, out)
            case Routed():
                self.mail.routed(message, out)
            case Undeliverable():
                self.mail.undeliverable(message, out)
            case LifeAsked():
                self.life.asked(now, message, message.endpoint in self.endpoints, out)
            case LifeTold():
                self.life.told(message, out)
            case InquiryReply():
                self.inquiries.reported(message, out)
            case RegistryTold(_, scope, version, names):
                self._registry_told(scope, version, names, out)
            case _:
                out.append(ignored(message, why="not for an agent"))

    def _pass_on(self, group: Group, notice: Joined | Left, out: list[Effect]) -> None:
        """C-111."""
        table = self.groups.get(group)
        if not self._may_come_from_outside(group):
            out.append(ignored(notice, why="out of scope"))
        elif table is None or not table.followers() or self.gate.is_closed_to(group, self.host):
            out.append(ignored(notice, why="no follower"))
        else:
            out.append(Tell(table.followers(), notice))

    def _resolve_request(self, id: MessageId, group: Group, out: list[Effect]) -> None:
        """C-108."""
        if not self._may_come_from_outside(group):
            out.append(Ignored("ResolveRequest", why="out of scope"))
            return
        table = self.groups.get(group)
        if table is None:
            self._send(ResolveReply(id, group, (), Interest.NONE), out)
        else:
            self._send(ResolveReply(id, group, table.records(), table.interest()), out)

    def _resolve_reply(self, id: MessageId, group: Group, members: Members, out: list[Effect]) -> None:
        """C-109."""
        entry = self.resolves.open.get(id)
        if entry is None or entry.group != group:
            out.append(Ignored("ResolveReply", why="late reply"))
            return
        if entry.kind is QueryKind.MERGE:
            self.resolves.close(entry)
            waiting = tuple([me for me, _ in entry.waiters])
            united = self._with_local(group, members)
            out.append(Tell(waiting, Joined(group, united, Cause.MERGE, Part(True, group.scope))))
            return
        table = self.groups.get(group)
        if members or table is None:
            absolute = Absolute(group, self._with_local(group, members))
        else:
            absolute = table.answer(group, isolated=False)  # our own list, and perhaps encoded before
        self.resolves.settle_up_to(entry, absolute, out)

    def _domain_failed(self, message: DomainFailed, out: list[Effect]) -> None:
        """C-112: one notice for each endpoint, however many of its groups are named."""
        if inside(message.domain, self.host) != message.keep:
            out.append(Ignored("DomainFailed", why="wrong side"))
            return
        kind = Only if message.keep else Without
        followers = self._followers_of(filter(self._may_come_from_outside, message.groups))
        if followers:
            out.append(Tell(followers, kind(message.domain, message.because)))
        else:
            out.append(Ignored("DomainFailed", why="no follower"))
        self.life.domain_failed(message.domain, message.keep, out)

    def _registry_told(self, scope: Domain, version: int, names: tuple[str, ...], out: list[Effect]) -> None:
        if scope not in self._around or scope == self.host:
            out.append(Ignored("RegistryTold", why="out of scope"))
        elif not self.registry.apply(scope, version, names):
            out.append(Ignored("RegistryTold", why="older version"))
        else:
            out.append(Persist(RegistryRecord(scope, version, tuple(sorted(names)))))

    # The link to the domain server

    def _link_up(self, now: Instant, out: list[Effect]) -> None:
        """C-116; an agent that has just started announces only that it is done (C-117)."""
        self.up = True
        wide = self._wide_groups()
        for group in wide:
            self._send(InterestChanged(self._new_id(), group, self.interest(group)), out)
        self._send(SyncDone(self._new_id()), out)
        ours = Part(True, self.host)
        for group in wide:
            members = self.groups[group].records()
            self._send(EndpointsJoined(self._new_id(), group, members, Cause.MERGE, ours), out)
        for group in wide:
            followers = self.groups[group].followers()
            if followers:
                entry = self.resolves.ask(now, group, QueryKind.MERGE, True, out)
                entry.waiters = dict.fromkeys([(follower, AUTO) for follower in followers])
        self.life.link_up(out)

    def _link_moved(self, now: Instant, out: list[Effect]) -> None:
        """C-162: another replica of our domain server knows nothing of us yet. Programs get no notice."""
        for entry in list(self.resolves.open.values()):
            if entry.kind is QueryKind.MERGE:
                self.resolves.close(entry)
        asked = list(self.resolves.open.values())
        self.inquiries.link_down(out)
        self._link_up(now, out)
        for entry in asked:
            self._send(ResolveRequest(entry.id, entry.group), out)

    def _link_down(self, because: Because, out: list[Effect]) -> None:
        """C-115."""
        self.up = False
        followers = self._followers_of(self._wide_groups())
        if followers:
            out.append(Tell(followers, Only(self.host, because)))
        for entry in list(self.resolves.open.values()):
            if entry.kind is QueryKind.RESOLVE:
                self.resolves.settle(entry, self._local_answer(entry.group), out)
            else:
                self.resolves.close(entry)
        self.life.link_down(out)
        self.inquiries.link_down(out)

    def _timer_fired(self, now: Instant, timer: TimerKey, out: list[Effect]) -> None:
        match timer:
            case (*what, int(token)) if tuple(what) == DEADLINE:
                self.resolves.expired(token, out)
            case _ if timer == REFRESH:
                self.life.refresh(now, out)
            case (*what, int(token)) if tuple(what) == INQUIRY:
                self.inquiries.expired(token, out)
            case _:
                out.append(Ignored("TimerFired", why="nothing waits for it"))

    # Checks. They raise what `_asked` turns into a refusal.

    def check_may_join(self, group: Group, me: Endpoint | None = None) -> None:
        """Raise unless an endpoint of this host could join this group as a spontaneous one; `me` may have a
        proof for it."""
        if not self.gate.has_permit(me, group):
            check_public(group.name)
        self.check_may_apply(group)

    def check_may_apply(self, group: Group) -> None:
        self._check_group(group)
        self._check_scope(group)
        self.gate.check_open(group, self.host)
        if self.registry.is_permanent(group):
            raise GroupIsPermanent(f"{group} is a permanent group", fix="join it as permanent")

    def _check_group(self, group: Group) -> None:
        if group not in self.groups:
            check_group(group)

    def _check_scope(self, group: Group) -> None:
        if group.scope not in self._around:
            raise NotInScope(
                f"{self.host} is outside {group.scope}, the scope of {group}",
                fix=scope_to_use(group.scope, self.host),
            )

    def _check_member(self, me: Endpoint, group: Group) -> None:
        if group not in self.endpoints[me].groups:
            raise NotMember(f"{me} is not in {group}", fix="join it first")

    def _check_meta(self, meta: bytes) -> None:
        if len(meta) > self.config.meta_bytes_max:
            raise TooLarge(
                f"an attachment of {len(meta)} bytes",
                fix=f"attach at most {self.config.meta_bytes_max} bytes, such as a key to look the rest up",
            )

    def _check_own_scope(self, group: Group) -> None:
        self._check_group(group)
        if group.scope != self.host:
            raise NotAllowed(
                f"the agent of {self.host} keeps no register of {group.scope}",
                fix=f"ask the domain server of {group.scope}",
            )

    # Small words

    def _new_id(self) -> MessageId:
        self._sequence += 1
        return MessageId(self.host, self.incarnation, self._sequence)

    def _stamp(self) -> Stamp:
        self.counter += 1
        return (self.incarnation, self.counter)

    def _send(self, message: Any, out: list[Effect]) -> None:
        out.append(Send(self.gms, message))

    def _tell(self, endpoints: tuple[Endpoint, ...], notice: Any, out: list[Effect]) -> None:
        if endpoints:
            out.append(Tell(endpoints, notice))

    def _reaches_beyond(self, group: Group) -> bool:
        """Is there another host to notify and to ask about this group?"""
        return self.up and group.scope != self.host

    def _may_come_from_outside(self, group: Group) -> bool:
        return group.scope in self._around and group.scope != self.host

    def _announce_interest(self, group: Group, before: Interest, out: list[Effect]) -> None:
        """Announce our interest if it has changed; open questions can then no longer be shared."""
        after = self.groups[group].interest()
        if after != before:
            for entry in self.resolves.about(group):
                entry.steady = False
            if self._reaches_beyond(group):
                self._send(InterestChanged(self._new_id(), group, after), out)

    def _drop_if_empty(self, group: Group) -> None:
        if self.groups[group].is_empty():
            del self.groups[group]

    def _wide_groups(self) -> list[Group]:
        return sorted(group for group in self.groups if group.scope != self.host)

    def _followers_of(self, groups: Iterable[Group]) -> tuple[Endpoint, ...]:
        """The followers of at least one of these groups, each once, sorted."""
        rolls = [self.groups[group].followers() for group in groups if group in self.groups]
        return rolls[0] if len(rolls) == 1 else tuple(sorted({one for roll in rolls for one in roll}))
