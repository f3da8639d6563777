"""The members of one host in groups that decide by their own monitor: from a program's join to its end.

    OrderJoinAsked ──▶ claim of the kind, entry in the list ──▶ station: open, or founded ──▶ Done, first view
    list: Absolute, Joined, Left ──▶ hosts, as hints          list: Only, Without ──▶ hosts that are suspected
    left, lost, excluded ──▶ out of the list; the last one: gate closed ──▶ claim released

A host that holds the claim alone founds the group (A-082): no other one has a station in it. So the claim is
held as long as there is a station, and a station ends when its host has not seen its server for `APART_S`: a
server gives up the claims of a lost host later than that. With led membership the leader's list has the
members too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from rostra.core.effects import Answer, Asked, CancelTimer, Effect, Event, Instant, SetTimer, Tell, TimerKey
from rostra.core.stack import ServiceName
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
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint, Group, host_of, inside, parent, scope_to_use
from rostra.protocols.agreed.observed import AgreedListed, AgreedUnlisted
from rostra.protocols.agreed.refusals import no_such
from rostra.protocols.agreed.sheets import META_BYTES_MAX, member_sheet
from rostra.protocols.atomic.events import OrderJoinAsked
from rostra.protocols.atomic.messages import StationId
from rostra.protocols.atomic.monitored import MonitoredStation
from rostra.protocols.atomic.negotiated import TOO_MANY
from rostra.protocols.atomic.station import LEFT
from rostra.protocols.claims.agent import CLAIM_AGENT, ClaimKept, JoinClaimed
from rostra.protocols.claims.config import APART_S
from rostra.protocols.fifo.events import LIST_KEEPER, SpeakerCame, SpeakerWent
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.requests import (
    Absolute,
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
from rostra.protocols.relaxed.view import GroupView, Views

if TYPE_CHECKING:
    from rostra.protocols.atomic.agent import OrderAgent

FIRST_TOKEN: Final = -(1 << 57)
"""Of our questions to other services; downwards. Above those of open scopes."""

JOIN_S: Final = 15.0
"""So long a join waits for the members of a group that exists."""

WAIT: Final = "wait"
APART: Final[TimerKey] = ("atomic", "apart")

DIED: Final = "its program is gone"
FAR: Final = f"its host was out of its server's sight for {APART_S:g} s"


class MonitoredStay(Struct, eq=False):
    event: OrderJoinAsked
    is_listed: bool = False
    is_in: bool = False  # it was given its first view


class MonitoredGroup(Struct, eq=False):
    kind: GroupKind
    views: Views
    stays: dict[Endpoint, MonitoredStay] = field(default_factory=dict)

    def listed(self, group: Group) -> GroupView:
        return self.views.follow(group)


class MonitoredGroups:
    def __init__(self, agent: "OrderAgent") -> None:
        self._agent = agent
        self.groups: dict[Group, MonitoredGroup] = {}
        self._token = FIRST_TOKEN
        self._own: dict[int, tuple[Group, Endpoint] | None] = {}
        self.engaged = (self.groups, self._own)
        self._claiming: dict[tuple[Group, Endpoint], int] = {}  # tokens of claims that are not answered

    @property
    def _local(self) -> LocalServer:
        return self._agent.stack[AGENT]

    def _call(self, now: Instant, service: ServiceName[Any], event: Event, out: list[Effect]) -> None:
        out += self._agent.hear_inside(now, self._agent.stack.call(now, self._agent, service, event))

    def _own_token(self, about: tuple[Group, Endpoint] | None) -> int:
        self._token -= 1
        self._own[self._token] = about
        return self._token

    # Joining

    def join(self, now: Instant, event: OrderJoinAsked, out: list[Effect]) -> None:
        try:
            self._check(event)
        except REFUSALS as refusal:
            out.append(Answer(event.token, denied(refusal)))
            return
        group, me, kind = event.group, event.endpoint, event.group_kind
        known = self.groups.setdefault(group, MonitoredGroup(kind, Views()))
        known.stays[me] = MonitoredStay(event)
        join = Join(group, meta=member_sheet(event.meta).meta, group_kind=kind)
        token = self._claiming[group, me] = self._own_token((group, me))
        self._call(now, CLAIM_AGENT, JoinClaimed(me, token, join), out)

    def _check(self, event: OrderJoinAsked) -> None:
        group, me, host = event.group, event.endpoint, self._agent.host
        if me not in self._local.endpoints:
            raise BadInput(f"no endpoint {me} is open on {host}", fix="open it first")
        if not inside(group.scope, host):
            raise ScopeExceeded(
                f"{host} is outside of {group.scope}, and {group} cannot reach it",
                fix=scope_to_use(group.scope, parent(host)),
            )
        if len(event.meta) > META_BYTES_MAX:
            raise TooLarge(f"an attachment of {len(event.meta)} bytes", fix=f"at most {META_BYTES_MAX}")
        if group in self._local.endpoints[me].groups or self._find(group, me) is not None:
            raise AlreadyMember(f"{me} is in {group} already", fix="leave it first")
        if (group, me) in self._claiming:
            raise Refused(f"{me} left {group} before it was in, and that is not over", fix="ask again")
        known = self.groups.get(group)
        if known is not None and known.kind != event.group_kind:
            raise NotAllowed(f"{group} is {known.kind}", fix="join it so, or choose another name")

    def _find(self, group: Group, me: Endpoint) -> MonitoredStay | None:
        known = self.groups.get(group)
        return None if known is None else known.stays.get(me)

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Answers to our questions, and what the list of a group says to our members."""
        out: list[Effect] = []
        left: list[tuple[Group, Endpoint, object]] = []  # meanwhile: after all that their joins ordered
        for effect in effects:
            if type(effect) is Answer and effect.token in self._own:
                about = self._own.pop(effect.token)
                if about is not None and self._find(*about) is None:
                    left.append((*about, effect.result))
                elif about is not None:
                    self._claimed(now, *about, effect.result, out)
            elif type(effect) is Tell:
                self._noticed(now, effect, out)
            else:
                out.append(effect)
        for each in left:
            self._claimed(now, *each, out)
        return out

    def _claimed(self, now: Instant, group: Group, me: Endpoint, result: object, out: list[Effect]) -> None:
        self._claiming.pop((group, me), None)
        stay = self._find(group, me)
        if isinstance(result, Denied):
            if stay is not None:
                self._forget(group, me)
                out.append(Answer(stay.event.token, result))
            return
        if stay is None:  # it left meanwhile
            self._unlist(now, group, me, out)
            return
        stay.is_listed = True
        out.append(AgreedListed(me, group, self._local.groups[group].members[me].stamp))
        known = self.groups[group]
        station = self._agent.stations.get(group)
        if station is not None and not isinstance(station, MonitoredStation):
            other = Refused(f"{group} is not over yet as the group of another kind", fix="ask again")
            self._refuse(now, group, me, other, out)
            return
        founds = station is None and self._agent.stack[CLAIM_AGENT].is_alone(group)
        if founds and not stay.event.create:
            self._refuse(now, group, me, no_such(group), out)
            return
        if known.kind.membership is MembershipKind.LED:
            self._call(now, LIST_KEEPER, SpeakerCame(me, group, member_sheet(stay.event.meta).meta), out)
        if station is None:
            id = StationId(self._agent.host, self._local.incarnation)
            station = self._agent.monitored_station(group, id, known.kind)
            self._call(now, CLAIM_AGENT, ClaimKept(group, True), out)
            station.contacts = self._contacts(group)
            station.enter(now, me, stay.event.slow, stay.event.meta, out)
            station.open(now, out, founds=founds)
        else:
            station.enter(now, me, stay.event.slow, stay.event.meta, out)
        out.append(SetTimer(self._timer(group), JOIN_S))
        self.after(now, station, out)

    def _timer(self, group: Group) -> TimerKey:
        return ("atomic", group.name, group.scope, WAIT)

    def waited(self, now: Instant, group: Group, out: list[Effect]) -> None:
        """The group's stations did not let us in, in time."""
        known = self.groups.get(group)
        for me in [] if known is None else [each for each, stay in known.stays.items() if not stay.is_in]:
            silent = Unreachable(f"the members of {group} do not answer", fix="ask again")
            self._refuse(now, group, me, silent, out)

    def _refuse(
        self, now: Instant, group: Group, me: Endpoint, refusal: RostraError, out: list[Effect]
    ) -> None:
        stay = self._find(group, me)
        assert stay is not None
        self._end(now, group, me, LEFT, out)
        out.append(Answer(stay.event.token, denied(refusal)))

    # Leaving

    def leave(self, now: Instant, group: Group, me: Endpoint, token: int, out: list[Effect]) -> None:
        stay = self._find(group, me)
        if stay is None:
            out.append(Answer(token, denied(NotMember(f"{me} is not in {group}", fix="join it first"))))
            return
        self._end(now, group, me, LEFT, out)
        if not stay.is_in:
            early = Refused(f"{me} left {group} before it was in", fix="join it again")
            out.append(Answer(stay.event.token, denied(early)))
        out.append(Answer(token, Done()))

    def endpoint_gone(self, now: Instant, me: Endpoint, cause: str, out: list[Effect]) -> None:
        """Its program closed the endpoint, or died. The member list is updated without us."""
        for group in [group for group, known in self.groups.items() if me in known.stays]:
            self._end(now, group, me, cause, out, lists=False)
        for about in [each for each in self._claiming if each[1] == me]:  # it is not answered any more
            del self._own[self._claiming.pop(about)]

    def _end(
        self,
        now: Instant,
        group: Group,
        me: Endpoint,
        why: str,
        out: list[Effect],
        fix: str = "",
        *,
        lists: bool = True,
    ) -> None:
        """It is no member any more, and in no list."""
        known, station = self.groups[group], self._agent.stations.get(group)
        stay = known.stays[me]
        self._forget(group, me)
        if stay.is_listed and known.kind.membership is MembershipKind.LED:
            self._call(now, LIST_KEEPER, SpeakerWent(me, group), out)
        if lists and stay.is_listed:
            self._unlist(now, group, me, out)
        if isinstance(station, MonitoredStation):
            station.gone(me, why, out, fix)
            station.settle(now, out)
            self.after(now, station, out)

    def _unlist(self, now: Instant, group: Group, me: Endpoint, out: list[Effect]) -> None:
        presence = self._local.endpoints.get(me)
        if presence is not None and group in presence.groups:
            self._call(now, AGENT, Asked(me, self._own_token(None), Leave(group)), out)
            stamp = (self._local.incarnation, self._local.counter)
            out.append(AgreedUnlisted(me, group, stamp, Cause.LEAVE))

    def _forget(self, group: Group, me: Endpoint) -> None:
        known = self.groups[group]
        del known.stays[me]
        if not known.stays:
            del self.groups[group]

    # What came of it

    def after(self, now: Instant, station: MonitoredStation, out: list[Effect]) -> None:
        """After a step of a station: answer joins, remove members, end the group."""
        group, gallery = station.group, station.gallery
        while (why := station.excluded) and (known := self.groups.get(group)) is not None:
            me = min(known.stays)
            if known.stays[me].is_in:
                self._end(now, group, me, why, out)
            else:
                full = TooLarge(f"{group}: {why}", fix='with membership="agreed" there may be more')
                alone = Unreachable(f"{group}: {why}", fix="ask again")
                self._refuse(now, group, me, full if why == TOO_MANY else alone, out)
        known = self.groups.get(group)
        for me, stay in {} if known is None else known.stays.items():
            member = gallery.members.get(me)
            if not stay.is_in and member is not None and member.knows:
                stay.is_in = True
                out.insert(0, Answer(stay.event.token, Done()))
        for me in gallery.expelled if gallery.is_watched else ():
            self._end(now, group, me, "it did not read what it was given", out)
        if station.is_over and self._agent.stations.get(group) is station:
            self._agent.close(station, out)
            out.append(CancelTimer(self._timer(group)))
            self._call(now, CLAIM_AGENT, ClaimKept(group, False), out)

    def apart(self, now: Instant, why: str, out: list[Effect]) -> None:
        """Our server has been unreachable for `APART_S`: our claims may have been released."""
        for group, station in sorted(self._agent.stations.items()):
            if isinstance(station, MonitoredStation) and group.scope != self._agent.host:
                station.excluded = why
                self.after(now, station, out)

    # The list

    def _contacts(self, group: Group) -> frozenset[Domain]:
        known = self.groups.get(group)
        members = () if known is None else known.listed(group).members
        return frozenset([host_of(each.endpoint) for each in members]) - {self._agent.host}

    def _noticed(self, now: Instant, tell: Tell, out: list[Effect]) -> None:
        match notice := tell.notice:
            case Absolute(group) | Joined(group) | Left(group) if group in self.groups:
                ours = [each for each in tell.endpoints if self._find(group, each) is not None]
                if others := tuple([each for each in tell.endpoints if each not in ours]):
                    out.append(Tell(others, notice))
                if ours:
                    self._listed(now, group, notice, (), out)
            case Only(domain) | Without(domain):
                out.append(tell)
                for group, known in list(self.groups.items()):
                    if any(each in known.stays for each in tell.endpoints):
                        keeps = isinstance(notice, Only)
                        before = self._contacts(group)
                        lost = [host for host in before if inside(domain, host) != keeps]
                        self._listed(now, group, notice, lost, out)
            case PutOut(group, refusal):
                out.append(tell)
                for me in tell.endpoints:
                    if self._find(group, me) is not None:
                        self._end(now, group, me, refusal.what, out, refusal.fix)
            case _:
                out.append(tell)

    def _listed(
        self,
        now: Instant,
        group: Group,
        notice: Absolute | Joined | Left | Only | Without,
        lost: Sequence[Domain],
        out: list[Effect],
    ) -> None:
        known = self.groups[group]
        known.listed(group)
        known.views.apply(notice)
        station = self._agent.stations.get(group)
        if isinstance(station, MonitoredStation):
            station.listed(now, self._contacts(group), lost, out)
            self.after(now, station, out)
