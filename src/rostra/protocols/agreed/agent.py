"""The members of one host in groups of agreed membership: a service beside the host's agent.

    program ── AgreedJoinAsked ──▶ claim the kind, enter the directory ──▶ MemberAsked ──▶ core-set
    program ◀── Done ◀── MemberAnswer ◀── core-set
    programs ◀── MemberView, MemberBlocked ◀── ViewTold ◀── core-set       one message for all members here

    StayLooking ── create=False: has it members? ──▶ StayClaiming ── JoinClaimed: Done ──▶ StayAsking
                                                                                              │
    gone ◀── leave, crash, Excluded ── StayInside ◀── MemberAnswer, or a view with it in ─────┘

A leave takes back a join that is under way: a program that waited no longer is no member. Out of StayClaiming
it goes by way of StayLeaving: the directory may list it yet.

Members run nothing, and this service agrees on nothing: it carries requests up and views down. While its link
to the cluster's server is down no view can be agreed for this host, and its members are blocked. When the
link is back it sends all that it holds (`HostHolds`), from which a server restores state that it lost.

A program that does not read gets no views until it does; one that misses more than `VIEWS_WAITING_MAX` views
is excluded (V-097). Of views that were committed at once, a group with fences gets the last one only.

Where we differ from the paper, and why: members of a host that was given up and comes back are the same
members, and come last; with the paper's new incarnations (V-012) programs would have to open new endpoints.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec.structs import replace

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
    Received,
    Send,
    SetTimer,
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
    NotAllowed,
    NotMember,
    Refused,
    RostraError,
    ScopeExceeded,
    TooLarge,
    Unreachable,
)
from rostra.groups.kinds import GroupKind
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint, Group, inside, parent, scope_to_use
from rostra.protocols.agreed.branch import (
    BranchCut,
    HolderAsked,
    HoldingsAsked,
    HostHolds,
    HostQuestion,
    LeaseGiven,
    MemberAnswer,
    MemberAsked,
    ViewComing,
    ViewTaken,
    ViewTold,
)
from rostra.protocols.agreed.call_agent import CALL_AGENT
from rostra.protocols.agreed.calls import (
    DrainHost,
    GroupCall,
    GroupEnded,
    GroupPresented,
    GroupState,
    LookAt,
    SubgroupEntered,
)
from rostra.protocols.agreed.changes import GroupVerb, MemberId
from rostra.protocols.agreed.choosing import chosen, found, looks_again, not_found
from rostra.protocols.agreed.config import ASK_AGAIN_S, ASK_TIMES_MAX, AgreedConfig
from rostra.protocols.agreed.draining import Draining, answered, drain, still_drained
from rostra.protocols.agreed.ended import end_group, enter_subgroup, leave_subgroups, take_up
from rostra.protocols.agreed.events import (
    AgreedChanged,
    AgreedJoinAsked,
    AgreedLeaveAsked,
    LeavesSettled,
    MemberBarred,
    MemberProven,
)
from rostra.protocols.agreed.fifo import given, sending_stopped, streams_wanted
from rostra.protocols.agreed.giving import give, show
from rostra.protocols.agreed.groups import AGREED, AgreedMember
from rostra.protocols.agreed.lease import ALARM, FOR_EVER, IN_DOUBT, BranchLease, core_server, servers_between
from rostra.protocols.agreed.leaving import Leaving, ask_out, comes_back, settled
from rostra.protocols.agreed.living import check_survive, is_exclusive
from rostra.protocols.agreed.moves import moves
from rostra.protocols.agreed.observed import AgreedListed, AgreedUnlisted
from rostra.protocols.agreed.refusals import check_disk, error_of, no_such
from rostra.protocols.agreed.requests import MemberBlocked
from rostra.protocols.agreed.seniority import with_level
from rostra.protocols.agreed.settling import settle
from rostra.protocols.agreed.sheets import META_BYTES_MAX, member_sheet, with_proof
from rostra.protocols.agreed.stays import (
    HostAsked,
    HostGroup,
    HostMember,
    StayAsking,
    StayClaiming,
    StayInside,
    StayLeaving,
    StayLooking,
)
from rostra.protocols.agreed.told_views import endpoints_of, view_of
from rostra.protocols.claims.agent import CLAIM_AGENT, JoinClaimed
from rostra.protocols.fifo.events import (
    Deliver,
    Excluded,
    Paused,
    Resumed,
    StreamsAnswered,
    StreamsLost,
    StreamsUnwanted,
)
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.requests import (
    Close,
    Denied,
    Done,
    Join,
    Leave,
    PutOut,
    denied,
)

AGREED_AGENT: ServiceName["AgreedAgent"] = ServiceName("agreed agent")

AGAIN: Final[TimerKey] = ("agreed", "", "again")

FIRST_TOKEN: Final = -(1 << 62)
"""Our own questions to other services have tokens below this; no other service has such."""


class AgreedAgent(Service):
    name = AGREED_AGENT
    hears = (Answer, Tell)
    takes = (
        *(AgreedJoinAsked, AgreedLeaveAsked, EndpointGone, Close, DrainHost, Paused, Resumed, LeavesSettled),
        *(StreamsAnswered, StreamsLost, GroupEnded, SubgroupEntered, MemberBarred, MemberProven),
        *(LinkUp, LinkDown, LinkMoved),
        *(MemberAnswer, ViewTold, ViewComing, BranchCut, HoldingsAsked, HolderAsked, LeaseGiven),
    )

    def __init__(
        self, host: Domain, config: AgreedConfig | None = None, *, replicated: Collection[Domain] = ()
    ) -> None:
        self.host = host
        self.replicated = replicated  # domains whose servers have replicas
        self.config = config or AgreedConfig()
        self._lease = BranchLease(self.config.doubt_after_s)
        self._ask_at: Instant = 0.0  # for a lease
        self.groups: dict[Group, HostGroup] = {}
        self.asked: dict[int, HostAsked] = {}  # by number
        self.up = False  # the link to the server
        self._server = parent(host)
        self._number = 0
        self._token = FIRST_TOKEN
        self._own: dict[int, tuple[Group, Endpoint] | None] = {}  # what we asked other services, and for whom
        self._has_asked: list[int] = []  # our first token, if so; its answer may come after its endpoint went
        self.engaged = (self.groups, self._has_asked)
        self._left: list[tuple[Group, Endpoint]] = []  # while they claimed
        self._waits = False  # for AGAIN
        self.drains: list[Draining] = []
        self.leaving: Leaving = {}

    @property
    def _agent(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        self._mind_lease(now, out)
        match event:
            case AgreedJoinAsked():
                try:
                    self._join(now, event, out)
                except REFUSALS as refusal:
                    out.append(Answer(event.token, denied(refusal)))
            case AgreedLeaveAsked(me, token, group):
                member = self._find(group, me)
                if member is None or isinstance(member.stage, StayLeaving):
                    refusal_ = NotMember(f"{me} is not in {group}", fix="join it first")
                    out.append(Answer(token, denied(refusal_)))
                else:
                    self._leave(now, group, me, member, out)
                    out.append(Answer(token, Done()))
            case EndpointGone(me):
                self._gone(me, GroupVerb.FAIL, out)
            case Asked(_, token, DrainHost() as request):
                drain(self, token, request, out)
            case Asked(me):  # to close it
                self._gone(me, GroupVerb.LEAVE, out)
            case Paused(me, group) | Resumed(me, group):
                self._reads(group, me, isinstance(event, Resumed), out)
            case StreamsAnswered(me, group, result):
                self._answered_us(now, group, me, result, out)
            case StreamsLost(me, group):
                if (lost := self._find(group, me)) is not None:
                    self._leave(now, group, me, lost, out)
            case LeavesSettled():
                settled(self, event, out)
            case MemberBarred(group, me, why, fix):
                self.exclude(now, group, me, Excluded(why, fix), out)
            case MemberProven(group):
                if self.up and group in self.groups:
                    self._hold_one(group, out)
            case Received(sender, message):
                if sender != self._server:
                    out.append(ignored(message, "not a neighbour"))
                else:
                    self._received(now, message, out)
            case TimerFired(timer) if timer == AGAIN:
                self._waits = False
                self._again(now, out)
            case LinkUp(peer) | LinkMoved(peer) if peer == self._server:
                self.up = True
                self._ask_at = now
                self._tell_holdings(out)
            case LinkDown(peer) if peer == self._server:
                self.up = False
                self._lease.lapse()
                for group in sorted(self.groups):
                    self._block(group, f"{self._server} is out of sight", out)
            case LinkUp() | LinkMoved() | LinkDown() | TimerFired():
                pass  # of another service, which says what it ignores
            case _:
                out.append(ignored(event, "nothing waits for it"))
        self._renew_lease(now, out)
        self._wait(out)
        return out

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Answers to our own questions; and members that another service put out."""
        rest: list[Effect] = []
        for effect in effects:
            if type(effect) is Answer and effect.token < FIRST_TOKEN:
                if (about := self._own.pop(effect.token, None)) is not None:  # else its endpoint is gone
                    self._answered_us(now, *about, effect.result, rest)
                continue
            rest.append(effect)
            if type(effect) is Tell and type(effect.notice) is PutOut:
                group, refusal = effect.notice.group, effect.notice.refusal
                for me in effect.endpoints:
                    if self._find(group, me) is not None:
                        self.exclude(now, group, me, Excluded(refusal.what, refusal.fix), rest)
        left, self._left = self._left, []
        for group, me in left:  # after all that their joins ordered
            self.drop(now, group, me, rest)
        self._wait(rest)
        return rest

    # Joining

    def _join(self, now: Instant, event: AgreedJoinAsked, out: list[Effect]) -> None:
        event = chosen(self, event)
        group, me, kind = event.group, event.endpoint, event.group_kind
        if me not in self._agent.endpoints:
            raise BadInput(f"no endpoint {me} is open on {self.host}", fix="open it first")
        if not inside(group.scope, self.host):
            raise ScopeExceeded(
                f"{self.host} is outside of {group.scope}, and {group} cannot reach it",
                fix=scope_to_use(group.scope, parent(self.host)),
            )
        if not event.create and self._agent.gate.is_closed_to(group, self.host):
            raise no_such(group)
        self._agent.check_may_join(group, me)
        check_survive(kind.survive)
        event = replace(event, meta=with_level(event.meta, self.config.level))
        if len(event.meta) > META_BYTES_MAX:
            raise TooLarge(f"an attachment of {len(event.meta)} bytes", fix=f"at most {META_BYTES_MAX}")
        member = self._find(group, me)
        if member is not None and member.unread:
            return take_up(self, now, event, member, out)
        if member is not None and isinstance(member.stage, StayLeaving):
            raise Refused(f"{me} is still leaving {group}", fix="ask again in a moment")
        if member is not None or (group in self._agent.endpoints[me].groups and not kind.is_spoken_in):
            raise AlreadyMember(f"{me} is in {group} already", fix="leave it first")
        if group.scope == self.host:
            raise NotAllowed(
                f'{group} is a group of one host, and those have no membership="agreed"',
                fix=f"choose a wider scope: {parent(group.scope)}",
            )
        known = self.groups.get(group)
        if known is not None and known.kind != kind and event.create:
            raise NotAllowed(f"{group} is {known.kind}", fix="join it so, or choose another name")
        if kind.stable == "disk":
            check_disk(self._agent.registry, group, self.host)
        if not self.up:
            raise Unreachable(
                f"{self.host} is cut off from {self._server}, and no view can be agreed",
                fix="ask again when it is back",
            )
        comes_back(self, group, me, out)
        stage = StayClaiming(event) if event.create else StayLooking(event)
        member = HostMember(stage, slow=event.slow)
        self.groups.setdefault(group, HostGroup(kind)).members[me] = member
        if event.create:
            self.claim(now, event, out)
        else:
            self._look(now, event, out)
        return None

    def _look(self, now: Instant, event: AgreedJoinAsked, out: list[Effect]) -> None:
        token, look = self._own_token((event.group, event.endpoint)), GroupCall(event.group, LookAt())
        self._call(now, CALL_AGENT, Asked(event.endpoint, token, look), out)

    def claim(self, now: Instant, event: AgreedJoinAsked, out: list[Effect]) -> None:
        """The kind; and with it the place in the directory, where no notices are wanted (D7). If the group is
        spoken in, by way of its streams, which have to be pinned before it is in a view."""
        if event.group_kind.is_spoken_in:
            out.append(streams_wanted(AGREED_AGENT, event))
            return
        meta = member_sheet(event.meta).meta
        join = Join(event.group, online=False, meta=meta, group_kind=event.group_kind)
        token = self._own_token((event.group, event.endpoint))
        self._call(now, CLAIM_AGENT, JoinClaimed(event.endpoint, token, join), out)

    def _answered_us(
        self, now: Instant, group: Group, me: Endpoint, result: object, out: list[Effect]
    ) -> None:
        member = self._find(group, me)
        if member is None:
            return
        match member.stage, result:
            case StayLooking(event), GroupPresented(GroupState(kind=kind)):
                found(self, now, event, member, kind, out)
            case StayInside(), Denied(what=why, fix=fix):  # of a group into which it was moved
                self.exclude(now, group, me, Excluded(why, fix), out)
            case StayClaiming(event), Denied() as refusal if looks_again(refusal, event, member):
                self._look(now, event, out)
            case ((StayLooking(event) | StayClaiming(event)), Denied() as refusal):
                self.refuse(event, not_found(event, refusal), out)
            case StayLeaving(), Denied():
                self._forget(group, me)
            case StayLeaving(), _:
                self._left.append((group, me))
            case StayClaiming(event), _:
                stamp = self._agent.groups[group].members[me].stamp
                id = MemberId(me, stamp)
                member.stage = StayAsking(event, id)
                out.append(AgreedListed(me, group, stamp))
                joining = self._as_asked(group, id, event.meta)
                self._ask(group, GroupVerb.JOIN, (joining,), event.group_kind, out)

    def refuse(self, event: AgreedJoinAsked, refusal: Denied, out: list[Effect]) -> None:
        self._forget(event.group, event.endpoint)
        out.append(Answer(event.token, refusal))

    def _answered(self, now: Instant, answer: MemberAnswer, out: list[Effect]) -> None:
        asked = self.asked.get(answer.question.number)
        if asked is None or answer.question != asked.message.question or answer.group != asked.message.group:
            out.append(Ignored("MemberAnswer", "late reply"))
            return
        if answer.code == Unreachable.code and not isinstance(asked.message, MemberAsked):
            return  # asked again
        del self.asked[answer.question.number]
        if isinstance(asked.message, MemberAsked) and asked.message.verb is GroupVerb.BACK:
            why = (answer.why or answer.code) if answer.code else ""
            answered(self, now, answer.question.number, asked.message, why, out)
        if not isinstance(asked.message, MemberAsked) or asked.message.verb is not GroupVerb.JOIN:
            return
        for each in asked.message.members:
            member = self._find(answer.group, each.id.endpoint)
            if member is None or not isinstance(member.stage, StayAsking) or member.stage.id != each.id:
                continue
            event = member.stage.event
            if answer.code:
                self._take_back(now, event, error_of(answer.group, answer.code, answer.why), out)
            else:
                member.stage = StayInside(each.id, event.meta)
                out.append(Answer(event.token, Done()))

    def _take_back(
        self, now: Instant, event: AgreedJoinAsked, refusal: RostraError, out: list[Effect]
    ) -> None:
        self.drop(now, event.group, event.endpoint, out)
        out.append(Answer(event.token, denied(refusal)))

    # Leaving

    def _leave(self, now: Instant, group: Group, me: Endpoint, member: HostMember, out: list[Effect]) -> None:
        """A program leaves; a join that is under way is cancelled."""
        stage = member.stage
        if isinstance(stage, StayAsking | StayInside):
            ask_out(self, group, stage.id, GroupVerb.LEAVE, out)
        if isinstance(stage, StayLooking | StayClaiming | StayAsking):
            why = Refused(f"{me} left {group} before it was in", fix="join it again")
            out.append(Answer(stage.event.token, denied(why)))
        if isinstance(stage, StayClaiming) and not self.groups[group].kind.is_spoken_in:
            member.stage = StayLeaving()
            return
        for token in [token for token, about in self._own.items() if about == (group, me)]:
            self._own[token] = None
        self.drop(now, group, me, out)

    def _gone(self, me: Endpoint, verb: GroupVerb, out: list[Effect]) -> None:
        """Its program closed the endpoint, or died. The directory is updated without us."""
        for group in [group for group, each in self.groups.items() if me in each.members]:
            stage = self.groups[group].members[me].stage
            if isinstance(stage, StayAsking | StayInside):
                ask_out(self, group, stage.id, verb, out)
            if self.groups[group].kind.is_ordered:
                out.append(AgreedChanged(group))
            self._forget(group, me)
        for token in [token for token, about in self._own.items() if about is not None and about[1] == me]:
            del self._own[token]

    def drop(self, now: Instant, group: Group, me: Endpoint, out: list[Effect]) -> None:
        """Out of our list, and out of the directory."""
        is_spoken_in = self.groups[group].kind.is_spoken_in
        if self.groups[group].kind.is_ordered:
            out.append(AgreedChanged(group))
        self._forget(group, me)
        leave_subgroups(self, now, group, me, out)
        if is_spoken_in:
            out.append(StreamsUnwanted(me, group))
            return
        presence = self._agent.endpoints.get(me)
        if presence is not None and group in presence.groups:
            self._call(now, AGENT, Asked(me, self._own_token(None), Leave(group)), out)
            stamp = (self._agent.incarnation, self._agent.counter)
            out.append(AgreedUnlisted(me, group, stamp, Cause.LEAVE))

    def members_of(self, group: Group) -> Collection[Endpoint]:
        return self.groups[group].members.keys() if group in self.groups else ()

    def id_inside(self, member: HostMember) -> MemberId | None:
        return member.stage.id if isinstance(member.stage, StayInside | StayAsking) else None

    def _forget(self, group: Group, me: Endpoint) -> None:
        known = self.groups[group]
        for number, asked in list(self.asked.items()):
            message = asked.message
            joins = isinstance(message, MemberAsked) and message.verb is GroupVerb.JOIN
            if joins and message.group == group and any(each.id.endpoint == me for each in message.members):
                del self.asked[number]
        known.members.pop(me, None)
        if not known.members:
            del self.groups[group]

    def exclude(self, now: Instant, group: Group, me: Endpoint, item: Excluded, out: list[Effect]) -> None:
        """The group goes on without it, which it is told."""
        member = self.groups[group].members[me]
        stage = member.stage
        if isinstance(stage, StayInside):
            ask_out(self, group, stage.id, GroupVerb.LEAVE, out)
            self.drop(now, group, me, out)
            if not member.unread:
                out.append(Deliver(me, group, item))
        elif isinstance(stage, StayAsking):
            self._take_back(now, stage.event, NotAllowed(item.reason, fix=item.fix), out)

    # What the core-set says

    def _received(self, now: Instant, message: object, out: list[Effect]) -> None:
        match message:
            case MemberAnswer():
                self._answered(now, message, out)
            case ViewTold():
                self._told(now, message, out)
            case BranchCut(domain):
                for group in sorted([name for name, each in self.groups.items() if not self._follows(each)]):
                    core = core_server(group, self.host)
                    if core != domain and inside(core, domain):
                        self._block(group, f"{domain} cannot reach {parent(domain)}", out)
            case HoldingsAsked(_, None):
                self._tell_holdings(out)
            case HolderAsked(group, hosts, kind):
                if self.host not in hosts:
                    out.append(Ignored("HolderAsked", "not for this host"))
                elif not self._hold(group, out):
                    out.append(Send(self._server, HostHolds(group, self._new_question(), (), kind)))
            case LeaseGiven():
                if not self._lease.given(message):
                    out.append(Ignored("LeaseGiven", "nothing waits for it"))
            case ViewComing(group, hosts) if self.host in hosts:
                out.append(AgreedChanged(group, message))
            case GroupEnded():
                end_group(self, now, message, out)
            case SubgroupEntered():
                enter_subgroup(self, now, message, out)
            case HoldingsAsked(_, Group() as group, hosts) if self.host in hosts:
                self._hold_one(group, out)

    def _told(self, now: Instant, told: ViewTold, out: list[Effect]) -> None:
        known = self.groups.get(told.group)
        if known is None or self.host not in told.hosts:
            out.append(Ignored("ViewTold", "no member"))
            asked = [*self.leaving, *[each.message.group for each in self.asked.values()]]
            if known is None and self.host in told.hosts and told.group not in asked:
                self._hold_one(told.group, out)  # which the core-set does not know
            return
        if known.blocked and not told.blocked and self._may_be_given_up(told.group, known):
            out.append(Ignored("ViewTold", "the core-set may not know that we are back"))
            return
        before = known.view
        if before is not None and told.id[:2] < before.id[:2] and self._follows(known):
            # Of a set that began anew from what we held before: it has to count on from what we hold now.
            out.append(Ignored("ViewTold", "older than the view that we hold"))
            self._hold_one(told.group, out)
            return
        view = view_of(told, before)
        if view is None:
            out.append(Send(self._server, ViewTaken(told.group, self.host, told.id, whole=True)))
            return
        out.append(Send(self._server, ViewTaken(told.group, self.host, told.id)))
        known.view, known.lost = view, told.lost
        known.fence = told.fence
        was_blocked, known.blocked = known.blocked, told.blocked or still_drained(self, known, view)
        known.lived = told.lived if told.blocked else view.ids
        known.returned.update([each for each in told.returned if each[0].endpoint in known.members])
        inside_now = view.listed
        for member in known.members.values():
            match member.stage:
                case StayAsking(event, id) if id in inside_now:
                    member.stage = StayInside(id, event.meta)
                    out.append(Answer(event.token, Done()))
                case StayInside(id) if id not in inside_now:
                    member.knows = False  # given up, it comes back: the core-set knows that we hold it
        out += sending_stopped(told.group, known, inside_now)
        if known.blocked:
            is_news = known.blocked != was_blocked
            lacking = [me for me, each in sorted(known.members.items()) if is_news or not each.knows]
            give(self, now, told.group, lacking, MemberBlocked(known.blocked), out)
            return
        is_new = before is None or before.id != view.id
        known.doubt = known.doubt or now >= self._lives_until(told.group)
        if known.doubt:  # they are given it with the next lease
            for member in known.members.values():
                member.knows = member.knows and not is_new
            return
        gone = frozenset(endpoints_of((*view.left, *view.failed)))
        is_plain = not gone or gone.isdisjoint(endpoints_of(view.ids))  # else as another member
        follows = before is not None and told.base == before.id and not was_blocked and is_plain
        show(self, now, told.group, known, out, anew=is_new or bool(was_blocked), follows=follows)

    def _may_be_given_up(self, group: Group, known: HostGroup) -> bool:
        """Until what we hold is answered, the core-set may be removing our members: they must not live by a
        view that it told before. It tells the view again after its answer."""
        asked = [each.message for each in self.asked.values() if isinstance(each.message, HostHolds)]
        return is_exclusive(known.kind) and any(each.group == group for each in asked)

    # The lease (`lease.py`)

    def _lives_until(self, group: Group) -> Instant:
        """Until when members live, by the servers' last lease."""
        if not is_exclusive(self.groups[group].kind):
            return FOR_EVER
        return self._lease.ends_at(servers_between(group, self.host))

    def _mind_lease(self, now: Instant, out: list[Effect]) -> None:
        """First of all: has it run out, or is it back?"""
        self._lease.saw(now)
        for group in sorted(self.groups):
            known = self.groups[group]
            was_in_doubt, known.doubt = known.doubt, now >= self._lives_until(group)
            if known.blocked or known.view is None or known.doubt == was_in_doubt:
                continue
            if known.doubt:
                give(self, now, group, sorted(known.members), MemberBlocked(IN_DOUBT), out)
            else:
                show(self, now, group, known, out, anew=True)

    def _renew_lease(self, now: Instant, out: list[Effect]) -> None:
        """Last of all: ask again, if it is time, and be woken in time."""
        self._mind_lease(now, out)
        leased = [group for group, known in self.groups.items() if is_exclusive(known.kind)]
        ends = [self._lives_until(group) for group in leased]
        self.stack.alarm_at, self.stack.alarm = settle(self, now, out), ALARM
        if not ends or not self.up:
            return
        if now >= self._ask_at:
            often = (
                4
                if min(ends) <= now
                else 2
                if any(servers_between(group, self.host) for group in leased)
                else 1
            )
            self._ask_at = now + self.config.lease_every_s / often
            out.append(Send(self._server, self._lease.ask(now)))
        self.stack.alarm_at = min([self.stack.alarm_at, self._ask_at, *[end for end in ends if end > now]])

    def _reads(self, group: Group, me: Endpoint, reads: bool, out: list[Effect]) -> None:
        member = self._find(group, me)
        if member is None:
            return  # of a group that is not ours
        member.paused = not reads
        while reads and member.waiting:
            out += given(me, group, member.waiting.popleft(), self.groups[group])

    def _block(self, group: Group, why: str, out: list[Effect]) -> None:
        known = self.groups[group]
        if not known.blocked:
            known.blocked = why
            out += sending_stopped(group, known)
            give(self, 0.0, group, sorted(known.members), MemberBlocked(why), out)

    block = _block

    def unblock(self, now: Instant, group: Group, known: HostGroup, out: list[Effect]) -> None:
        """Nothing came of what it was blocked for: the view that stands, unless its lease has run out."""
        known.blocked = ""
        if known.view is not None and not known.doubt:
            show(self, now, group, known, out, anew=True)

    # StayAsking

    def _ask(
        self,
        group: Group,
        verb: GroupVerb,
        members: tuple[AgreedMember, ...],
        kind: GroupKind,
        out: list[Effect],
    ) -> int:
        question = self._new_question()
        message = MemberAsked(group, question, verb, members, kind)
        self.asked[question.number] = HostAsked(message, 1)
        if self.up:  # streams may be there before the link is back
            out.append(Send(self._server, message))
        return question.number

    ask = _ask

    def _tell_holdings(self, out: list[Effect]) -> None:
        """A new link: what is on its way is asked again, after what we hold."""
        for number in [number for number, each in self.asked.items() if isinstance(each.message, HostHolds)]:
            del self.asked[number]
        for group in sorted(self.groups):
            self._hold(group, out)
        out += [Send(self._server, asked.message) for asked in self.asked.values()]

    def _follows(self, known: HostGroup) -> bool:
        """Does its core-set follow its members? Then it goes on in every part of the world."""
        return self.config.moves and moves(known.kind)

    def _hold_one(self, group: Group, out: list[Effect]) -> None:
        """Its core-set is another now: which of its members are here? It waits for the answer."""
        for number, asked in list(self.asked.items()):
            if isinstance(asked.message, HostHolds) and asked.message.group == group:
                del self.asked[number]
        if not self._hold(group, out):
            out.append(Send(self._server, HostHolds(group, self._new_question(), (), AGREED)))

    def _hold(self, group: Group, out: list[Effect], question: HostQuestion | None = None) -> bool:
        """Say what we have of it; not if that is nothing."""
        known = self.groups.get(group) or HostGroup(GroupKind())
        members = []
        for member in known.members.values():
            match member.stage:
                case StayInside(id, meta):
                    members.append(self._as_asked(group, id, meta))
                case StayAsking(event, id):  # it may be inside, as far as the core-set knows
                    members.append(self._as_asked(group, id, event.meta))
        if not members:
            return False
        question, view = question or self._new_question(), known.view
        message = HostHolds(
            group,
            question,
            tuple(sorted(members, key=lambda each: each.id)),
            known.kind,
            None if view is None else view.id,
            () if view is None else view.members,
            known.fence,
            known.lived,
        )
        self.asked[question.number] = HostAsked(message, 1)
        out.append(Send(self._server, message))
        return True

    def _as_asked(self, group: Group, id: MemberId, meta: bytes) -> AgreedMember:
        """The request of a member, for a restricted name with its newest proof."""
        proof = self._agent.gate.permits.get((id.endpoint, group), b"")
        return AgreedMember(id, 0, with_proof(meta, proof) if "!" in group.name else meta)

    def _again(self, now: Instant, out: list[Effect]) -> None:
        for number, asked in list(self.asked.items()):
            message = asked.message
            asked.times += 1
            if asked.times > ASK_TIMES_MAX and isinstance(message, MemberAsked):
                del self.asked[number]
                if message.verb is GroupVerb.JOIN:
                    self._give_up(now, message, out)
                elif message.verb is GroupVerb.BACK:
                    answered(self, now, number, message, "its servers did not answer in time", out)
            elif self.up and isinstance(message, HostHolds):
                # As it is now: without a member that joined since, it would say that this one is gone.
                del self.asked[number]
                if message.group in self.groups:
                    self._hold(message.group, out, message.question)
            elif self.up:
                out.append(Send(self._server, message))

    def _give_up(self, now: Instant, message: MemberAsked, out: list[Effect]) -> None:
        """Whether it joined is not known: so it leaves."""
        for each in message.members:
            member = self._find(message.group, each.id.endpoint)
            if member is not None and isinstance(member.stage, StayAsking) and member.stage.id == each.id:
                ask_out(self, message.group, each.id, GroupVerb.LEAVE, out)
                late = Unreachable(f"the servers of {message.group} did not answer in time", fix="ask again")
                self._take_back(now, member.stage.event, late, out)

    def _wait(self, out: list[Effect]) -> None:
        wanted = bool(self.asked)
        if wanted and not self._waits:
            out.append(SetTimer(AGAIN, ASK_AGAIN_S))
        elif self._waits and not wanted:
            out.append(CancelTimer(AGAIN))
        self._waits = wanted

    def _new_question(self) -> HostQuestion:
        self._number += 1
        return HostQuestion(self.host, self._agent.incarnation, self._number)

    def _own_token(self, about: tuple[Group, Endpoint] | None) -> int:
        self._token -= 1
        self._own[self._token] = about
        if not self._has_asked:
            self._has_asked.append(self._token)
        return self._token

    def _call(self, now: Instant, name: ServiceName[Any], event: Event, out: list[Effect]) -> None:
        out += self.hear(now, self.stack.call(now, self, name, event))

    def _find(self, group: Group, me: Endpoint) -> HostMember | None:
        known = self.groups.get(group)
        return None if known is None else known.members.get(me)
