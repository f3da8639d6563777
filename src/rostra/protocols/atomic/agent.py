"""Groups with ``delivery="atomic"`` at one host: a service of its agent, with one station for each group.

    programs ── OrderSubmitted, Paused, Resumed ──▶ OrderAgent ── DeliverAll, Deliver ──▶ programs
                                                       ▲  one station per group (`hub.py`)
    agreed agent ── AgreedChanged ─────────────────────┘  views, members, standstills
    stations of other hosts: of our LAN by the data channel, of other clusters by way of the servers

Who is a member is agreed by servers (`protocols/agreed`), and this service only asks there. What it adds is
one order: of the messages of all members, and of the views between them (A-003, A-089). With relaxed and led
membership the group's own monitor decides (`admitting.py`).
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from rostra.core.disk import RoomChanged
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
    Persist,
    Received,
    Send,
    SetTimer,
    Tell,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.logs import KeptLog, LogBatch, LogsSynced
from rostra.core.stack import Service, ServiceName
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group, host_of, parent, parse_group
from rostra.protocols.agreed.agent import AGREED_AGENT, AgreedAgent
from rostra.protocols.agreed.branch import ViewComing
from rostra.protocols.agreed.calls import GroupTerminated
from rostra.protocols.agreed.events import AgreedChanged, LeavesSettled
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.lease import IN_DOUBT
from rostra.protocols.agreed.leaving import leaves_late
from rostra.protocols.agreed.living import is_exclusive
from rostra.protocols.agreed.stays import HostGroup, StayInside
from rostra.protocols.atomic.admitting import APART, DIED, FAR, WAIT, MonitoredGroups
from rostra.protocols.atomic.durable import (
    ORDERS_MAX,
    OTHER_ORDER,
    OrderDisk,
    OrderHead,
    decode_head,
    named,
    order_name,
)
from rostra.protocols.atomic.events import (
    FramesHeard,
    HubPost,
    OrderJoinAsked,
    OrderLeaveAsked,
    OrderSubmitted,
    StationCast,
)
from rostra.protocols.atomic.held import HeldBack
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import (
    AnyStationMessage,
    CarriedFrame,
    StationId,
    ViewKey,
    decode_carried,
    encode_carried,
)
from rostra.protocols.atomic.monitored import MonitoredStation
from rostra.protocols.atomic.negotiated import NegotiatedStation
from rostra.protocols.atomic.requests import GIVEN_UP, ForgetOrdered
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.atomic.station import LEFT, Came
from rostra.protocols.channel.messages import SPREAD_MAX
from rostra.protocols.claims.agent import CLAIM_AGENT, OrderRecorded
from rostra.protocols.claims.config import APART_S
from rostra.protocols.fifo.events import Cast, Deliver, Excluded, Paused, Resumed, StreamsLost, Transmit
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Close, Done

CLAIM_AGAIN_S: Final = 3.0
"""How often the server of a scope is asked who begins an order that no host has."""

CLOCK: Final[TimerKey] = ("atomic", "clock")
CLOCK_S: Final = APART_S / 2
"""How often an agent with groups that have a monitor of their own looks at its clock. If that is late by as
much again, it stood still."""

STOOD_STILL: Final = f"its host stood still, for {APART_S:g} s perhaps"

FULL: Final = f"its host keeps the orders of {ORDERS_MAX} groups on its disk, and no more"
FIXES: Final = {
    FULL: "delete groups that are not needed (rostra group delete), or join at another host",
    OTHER_ORDER: "join at another host; or stop its agent, move the log of this group away, start it again",
}
"""Where joining again does not help: what does."""

ORDER_AGENT: Final = ServiceName["OrderAgent"]("atomic agent")

AnyStation = Station | NegotiatedStation

_POSTS: Final = frozenset({HubPost, StationCast})


class OrderAgent(Service):
    name = ORDER_AGENT
    hears = (Answer, Tell, AgreedChanged, OrderRecorded)
    hears_always = (AgreedChanged, OrderRecorded)
    takes = (
        *(OrderSubmitted, FramesHeard, Paused, Resumed, CarriedFrame, ForgetOrdered, RoomChanged, LogsSynced),
        *(OrderJoinAsked, OrderLeaveAsked, EndpointGone, Close, LinkUp, LinkMoved, LinkDown),
    )

    def __init__(
        self, host: Domain, config: FifoConfig | None = None, logs: dict[str, KeptLog] | None = None
    ) -> None:
        self.host = host
        self._kept = _heads({} if logs is None else logs)  # on our disk, of groups that have no station here
        self._on_disk = set(self._kept)  # groups of which something is
        self._failed: dict[Group, str] = {}  # and of which nothing more is written in this life: why
        self._held = HeldBack()
        self._no_room = ""  # why nothing can be stored, if so
        self._unrecorded: set[Group] = set()  # with a station, and no order that is recorded at their scope
        self._claim_at: Instant = 0.0  # not before, if there is a group that is not begun
        self._last: list[Effect] = []  # of stations that were closed in this step
        self.stations: dict[Group, AnyStation] = {}
        self._durable: dict[Group, Station] = {}  # those that have a log on our disk
        self.monitored = MonitoredGroups(self)
        self.engaged = (*self.monitored.engaged,)
        self._numbers = 0  # that stations which are gone have used in this life
        self._bytes = (config or FifoConfig()).datagram_bytes
        self._lan = parent(host)
        self._is_apart = False  # from our server, since APART was set
        self._clock_due: Instant | None = None  # CLOCK was set for then

    @property
    def any_group(self) -> Group | None:
        """Any group that our programs are in or are joining; None if there is none."""
        agreed = (group for group, each in self._agreed.groups.items() if each.kind.is_ordered)
        return next(agreed, next(iter(self.monitored.groups), None))

    @property
    def _agreed(self) -> AgreedAgent:
        return self.stack[AGREED_AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        self._check_clock(now, event, out)
        match event:
            case OrderSubmitted(group=group):
                if (station := self.stations.get(group)) is None:
                    out.append(Ignored("OrderSubmitted", "not in the group"))
                else:
                    station.submitted(now, event, out)
                    self._after(now, station, out)
            case FramesHeard(group, source, messages):
                self._heard(now, group, source, messages, out)
            case Paused(me, group) | Resumed(me, group):
                if (station := self.stations.get(group)) is not None:
                    station.reads(now, me, isinstance(event, Resumed), out)
                    self._after(now, station, out)
            case OrderJoinAsked():
                self.monitored.join(now, event, out)
            case OrderLeaveAsked(me, token, group):
                self.monitored.leave(now, group, me, token, out)
            case EndpointGone(me):
                self.monitored.endpoint_gone(now, me, DIED, out)
            case Asked(me, token, ForgetOrdered(group, position)):
                station = self.stations.get(group)
                if isinstance(station, Station) and me in station.gallery.members:
                    station.forget(position)
                out.append(Answer(token, Done()))
            case Asked(me):  # to close it
                self.monitored.endpoint_gone(now, me, LEFT, out)
            case LinkUp(peer) | LinkMoved(peer):
                if peer == self._lan and self._is_apart:
                    self._is_apart = False
                    out.append(CancelTimer(APART))
            case LinkDown(peer):
                if peer == self._lan and self.monitored.groups:
                    self._is_apart = True
                    out.append(SetTimer(APART, APART_S))
            case TimerFired(timer) if timer == CLOCK:
                pass
            case TimerFired(timer) if timer == APART:
                self._is_apart = False
                self.monitored.apart(now, FAR, out)
            case TimerFired((_, name, scope, word)) if word == WAIT:
                self.monitored.waited(now, Group(str(name), Domain(str(scope))), out)
            case TimerFired((_, name, scope, *rest)):
                station = self.stations.get(Group(str(name), Domain(str(scope))))
                if station is not None:
                    station.ticked(now, out, *rest)
                    self._after(now, station, out)
            case RoomChanged(lacking):
                self._no_room = lacking and f"{self.host} has no room on its disk: {lacking}"
                for station in [each for _, each in sorted(self.stations.items())]:
                    self._check_room(station)
                    self._after(now, station, out)
            case LogsSynced(count, failed):
                for log, why in failed:
                    self._log_failed(now, parse_group(log), why, out)
                groups, done = self._held.synced(count)
                self._on_disk.update([each for each in groups if self._keeps(each)])
                return [*self._posted(done), *self._sent(out)]
            case Received(sender, CarriedFrame() as carried):
                message = decode_carried(carried.body)
                if sender != self._lan or self.host not in carried.hosts:
                    out.append(Ignored("CarriedFrame", "not for us"))
                elif message is None:
                    out.append(Ignored("CarriedFrame", "not a message"))
                else:
                    self._heard(now, carried.group, carried.source, (message,), out)
        return self._sent(out)

    def _check_clock(self, now: Instant, event: Event, out: list[Effect]) -> None:
        """A host that stood still for so long that its claims may not count any more does nothing before it
        has noticed: its server may have given it up, and another host may have begun the group."""
        if self._clock_due is None and not self.monitored.groups:
            return
        if isinstance(event, LinkUp | LinkDown | LinkMoved):
            return  # the services below have not heard of it yet
        due = self._clock_due
        if due is not None and now > due + CLOCK_S:
            self.monitored.apart(now, STOOD_STILL, out)
            due = None
        if event == TimerFired(CLOCK):
            due = None
        if due is None and self.monitored.groups:
            due = now + CLOCK_S
            out.append(SetTimer(CLOCK, CLOCK_S))
        self._clock_due = due

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        heard = self.hear_inside(now, effects)
        return heard if heard is effects else self._sent(list(heard))

    def hear_inside(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Agreed membership says that something is new in these groups; or it is for those without. Within a
        step of ours: what comes of it is sent at its end."""
        if any(self.monitored.engaged):
            effects = self.monitored.hear(now, effects)
        kinds = set(map(type, effects))
        if OrderRecorded in kinds:
            recorded = [each.group for each in effects if isinstance(each, OrderRecorded)]
            out = list(effects)
            for station in [self.stations[each] for each in recorded if each in self.stations]:
                self._after(now, station, out)
            effects, kinds = out, set(map(type, out))
        if AgreedChanged not in kinds:
            return effects
        rest = [effect for effect in effects if type(effect) is not AgreedChanged]
        changed = [effect for effect in effects if isinstance(effect, AgreedChanged)]
        for group in sorted({each.group for each in changed if each.coming is None}):
            self._look(now, group, rest)
        for coming in [each.coming for each in changed if each.coming is not None]:
            self._coming(now, coming, rest)
        for group in _are_over(effects):
            self._delete(group)
        return rest

    def _heard(
        self, now: Instant, group: Group, source: Domain, messages: Sequence[Any], out: list[Effect]
    ) -> None:
        station = self.stations.get(group)
        if station is None:
            out.append(Ignored("FramesHeard", "not in the group"))
            return
        for message in messages:
            station.heard(now, source, message, out)
        self._after(now, station, out)

    # What is agreed

    def _look(self, now: Instant, group: Group, out: list[Effect]) -> None:
        known = self._agreed.groups.get(group)
        station = self.stations.get(group)
        why = {
            each.endpoint: (each.item.reason, each.item.fix)
            for each in out
            if isinstance(each, Deliver) and isinstance(each.item, Excluded) and each.group == group
        }
        if known is None or not known.kind.is_ordered:
            if station is not None:
                for me in sorted(station.gallery.members):
                    self._goes(now, station, me, *why.get(me, (LEFT, "")), out)
            self._mind_leaves(now, group, station, out)
            return
        if station is not None and not station.gallery.members and group in self._agreed.leaving:
            self._settle(now, group, False, out)  # one comes as in a new life of this host
            self.close(station, out)
            station = None
        if station is None:
            id = StationId(self.host, self.stack[AGENT].incarnation)
            station = self.stations[group] = self._station(group, id, known.kind)
            self._check_room(station)
        inside, behind = _inside(known), _moved_behind(known, station.agreed)
        for me, member in sorted(station.gallery.members.items()):
            if me not in known.members:
                self._goes(now, station, me, *why.get(me, (LEFT, "")), out)
            elif me not in inside or (member.knows and _came_again(member.came, inside[me], me in behind)):
                self._lose(now, station, me, GIVEN_UP, out)
            else:
                member.came = inside[me]
        for me, came in sorted(inside.items()):
            if me in known.members:  # and was not lost just now
                stage = known.members[me].stage
                stay = stage.id.stamp[1] if isinstance(stage, StayInside) else 0
                station.gallery.enter(me, known.members[me].slow, came, stay)
        if self.stations.get(group) is station:
            blocked = known.blocked or (IN_DOUBT if known.doubt else "")
            lived = sorted({host_of(each.endpoint) for each in known.lived})
            if blocked and lived and known.kind.stable == "disk":
                blocked = f"{blocked}; the last view was at {named(lived)}"
            if not station.excluded:
                station.look(now, _agreed_now(known) if inside else None, blocked, out)
            self._after(now, station, out)

    # Members that leave, where a majority is enough (`agreed/leaving.py`)

    def _goes(
        self, now: Instant, station: AnyStation, me: Endpoint, why: str, fix: str, out: list[Effect]
    ) -> None:
        leaving = self._agreed.leaving.get(station.group, ())
        if isinstance(station, Station) and any(each.endpoint == me for each in leaving):
            station.leaves(now, me, out)
        station.gone(me, why, out, fix)

    def _mind_leaves(self, now: Instant, group: Group, station: AnyStation | None, out: list[Effect]) -> None:
        """Members are gone: can the servers be asked? Until then their station is needed."""
        leaving = self._agreed.leaving.get(group)
        if leaving is not None:
            waits = clean = False
            if isinstance(station, Station) and not station.excluded:
                waits = station.leaving.issuperset([each.endpoint for each in leaving])
                clean = waits and station.is_covered
                waits = waits and not clean and not station.is_late(now)
            if waits:
                return
            self._settle(now, group, clean, out)
        known = self._agreed.groups.get(group)
        is_over = known is None or not known.kind.is_ordered
        if is_over and station is not None and self.stations.get(group) is station:
            self.close(station, out)

    def _settle(self, now: Instant, group: Group, clean: bool, out: list[Effect]) -> None:
        call = self.stack.call(now, self, AGREED_AGENT, LeavesSettled(group, clean))
        out += self.hear_inside(now, call)

    def _coming(self, now: Instant, coming: ViewComing, out: list[Effect]) -> None:
        """Our station will be the first of a view, if that is agreed."""
        known, station = self._agreed.groups.get(coming.group), self.stations.get(coming.group)
        if known is None or known.view is None or not isinstance(station, Station):
            out.append(Ignored("ViewComing", "not in the group"))
        elif known.view.id != coming.base or known.blocked or known.doubt:
            out.append(Ignored("ViewComing", "of another view"))
        else:
            stay = tuple([each for each in known.view.members if each.id not in coming.gone])
            view = AgreedView(known.view.number + 1, 0, coming.pid, stay)
            if (next := _agreed_now(replace(known, view=view))) is not None:
                station.coming(now, next, out)
                self._after(now, station, out)

    def _station(self, group: Group, me: StationId, kind: GroupKind) -> AnyStation:
        if kind.order == "negotiated":
            return NegotiatedStation(group, me, kind.stable, self._bytes, self._numbers)
        station = Station(group, me, kind.stable, self._bytes)
        station.early_flush = self._agreed.config.early_flush
        if station.disk is None:
            return station
        self._durable[group] = station
        station.disk.founds = group in self.stack[CLAIM_AGENT].made
        self._unrecorded.add(group)
        if (kept := self._kept.pop(group, None)) is None:
            return station
        recorded = self.stack[CLAIM_AGENT].recorded.get(group, "")
        head, entries = kept
        if recorded and head.origin and not head.accept and order_name(head.origin) != recorded:
            # Begun, and not recorded: no member was given anything of it, and another one is the group's.
            self._drop_log(group)
        else:
            station.load(head, entries)
        return station

    def _check_record(self, now: Instant, station: Station, origin: ViewKey, out: list[Effect]) -> None:
        """Has the server of its scope recorded this order? Nothing of it is stable before."""
        claims, group = self.stack[CLAIM_AGENT], station.group
        if (order := claims.recorded.get(group)) is None:
            return
        self._unrecorded.discard(group)
        claims.begun[group] = order
        if order_name(origin) == order:
            station.recorded(now, out)
        else:
            station.excluded = OTHER_ORDER

    def _may_begin(self, now: Instant, station: Station, disk: OrderDisk, out: list[Effect]) -> None:
        """If no host has an order: the scope's server has chosen who begins one, and chooses again if that
        one is gone."""
        claims = self.stack[CLAIM_AGENT]
        founds = station.group in claims.made
        if founds and not disk.founds:
            disk.founds = True
            station.ticked(now, out)
        disk.founds = founds
        if not founds and station.lacks_log and now >= self._claim_at:
            self._claim_at = now + CLAIM_AGAIN_S
            out += self._claimed_again(station.group)

    def _claimed_again(self, group: Group) -> list[Effect]:
        """Claim again; if our link is down, when it is up."""
        return self.stack[CLAIM_AGENT].renew(group) if self._agreed.up else []

    def _check_room(self, station: AnyStation) -> None:
        """What it acknowledges must be on disk: without room it is out, and says so."""
        if isinstance(station, Station) and station.disk is not None:
            full = "" if self._keeps(station.group) or len(self._keeping) <= ORDERS_MAX else FULL
            why = self._failed.get(station.group, "") or full
            station.disk.failed = station.disk.failed or bool(why)
            station.excluded = station.excluded or why or self._no_room

    def _keeps(self, group: Group) -> bool:
        """Is something of it on disk, or about to be?"""
        station = self.stations.get(group)
        disk = station.disk if isinstance(station, Station) else None
        return group in self._kept or (disk is not None and disk.head is not None and not disk.failed)

    @property
    def _keeping(self) -> set[Group]:
        here = [group for group, each in self.stations.items() if isinstance(each, Station) and each.disk]
        return {*self._kept, *here}

    def _log_failed(self, now: Instant, group: Group, why: str, out: list[Effect]) -> None:
        """Its members are out: nothing that they were given rests on what was not written. What was on disk
        before is read again when the agent is started again; if nothing was, they can come again before."""
        out += self._held.drop(group)
        why = f"{self.host} cannot write the order of {group} to its disk: {why}"
        self._kept.pop(group, None)
        if group in self._on_disk:
            self._failed[group] = why
        else:
            self.stack[CLAIM_AGENT].begun.pop(group, None)
        station = self.stations.get(group)
        if isinstance(station, Station) and station.disk is not None:
            station.disk.failed = True
            station.excluded = why
            self._after(now, station, out)

    def _written(self) -> list[Effect]:
        """What stations have more since the last step, to be on disk before anything else is done."""
        found = self._last
        self._last = []
        for station in self._durable.values():
            assert station.disk is not None
            found += _batches(station)
            if station.group in self._unrecorded and station.reported_chain:
                found += self._report_begun(station.group, station.disk.origin)
        return found

    def _report_begun(self, group: Group, origin: ViewKey | None) -> list[Effect]:
        """To the server of the scope, once; the claims service repeats it until it is recorded."""
        assert origin is not None, "a log of an order that did not begin"
        begun, order = self.stack[CLAIM_AGENT].begun, order_name(origin)
        if begun.get(group) == order:
            return []
        begun[group] = order
        return self._claimed_again(group)

    def _delete(self, group: Group) -> None:
        """The group is over, and so is what is kept of it."""
        if self._kept.pop(group, None) is not None:
            self._drop_log(group)

    def _drop_log(self, group: Group) -> None:
        self._on_disk.discard(group)
        self._last.append(Persist(LogBatch(str(group), anew=True)))
        self.stack[CLAIM_AGENT].begun.pop(group, None)

    def monitored_station(self, group: Group, me: StationId, kind: GroupKind) -> MonitoredStation:
        station = MonitoredStation(group, me, kind.stable, self._bytes, self._numbers)
        self.stations[group] = station
        return station

    def close(self, station: AnyStation, out: list[Effect]) -> None:
        station.closed(out)
        if isinstance(station, Station) and station.disk is not None and not station.disk.failed:
            station.depart()
            self._last += _batches(station)
            if (kept := station.kept) is not None:
                self._kept[station.group] = kept
        self._numbers = max(self._numbers, station.numbers)
        self._unrecorded.discard(station.group)
        self._durable.pop(station.group, None)
        del self.stations[station.group]

    def _after(self, now: Instant, station: AnyStation, out: list[Effect]) -> None:
        """After a step of a station: remove members that are out."""
        if isinstance(station, MonitoredStation):
            self.monitored.after(now, station, out)
            return
        gallery = station.gallery
        if isinstance(station, Station) and (station.leaving or not gallery.members):
            self._mind_leaves(now, station.group, station, out)
            if self.stations.get(station.group) is not station:
                return
        if isinstance(station, Station) and station.disk is not None:
            if not station.chain:
                self._may_begin(now, station, station.disk, out)
            if station.group in self._unrecorded and station.disk.origin is not None:
                self._check_record(now, station, station.disk.origin, out)
        if why := station.excluded:
            while gallery.members:
                self._lose(now, station, min(gallery.members), why, out)
            if self.stations.get(station.group) is station:  # one who asks meanwhile begins with another
                self.close(station, out)
        elif gallery.is_watched:
            for me in gallery.expelled:
                self._lose(now, station, me, "it did not read what it was given", out)

    def _lose(self, now: Instant, station: AnyStation, me: Endpoint, why: str, out: list[Effect]) -> None:
        """The group goes on without it."""
        known = self._agreed.groups.get(station.group)
        if isinstance(station, Station) and known is not None and leaves_late(known.kind):
            station.leaves(now, me, out)
        station.gone(me, why, out, self._fixes(station.group, why))
        call = self.stack.call(now, self, AGREED_AGENT, StreamsLost(me, station.group))
        out += self.hear_inside(now, call)

    def _fixes(self, group: Group, why: str) -> str:
        """What to do, if joining again does not help."""
        if why == self._no_room:
            return f"make room on the disk of {self.host}, then join it again"
        if why == self._failed.get(group):
            return f"when the disk of {self.host} is well again, start its agent again"
        return FIXES.get(why, "")

    # To other hosts

    def _sent(self, effects: list[Effect]) -> list[Effect]:
        """What rests on logs waits until they are written."""
        if self._last or (self.stations and (self._durable or self._held)):
            written = self._written()
            batches = [each for each in written if isinstance(each, Persist)]
            if batches or self._held:
                rest = [each for each in written if not isinstance(each, Persist)]
                effects = self._held.hold(batches, [*effects, *rest])
            else:
                effects += written
        return self._posted(effects)

    def _posted(self, effects: list[Effect]) -> list[Effect]:
        """Where datagrams of our LAN reach, by these; to hosts of other clusters each message once."""
        if _POSTS.isdisjoint(map(type, effects)):
            return effects
        out: list[Effect] = []
        far: dict[tuple[Group, int], tuple[AnyStationMessage, list[Domain]]] = {}
        for effect in effects:
            if not isinstance(effect, HubPost | StationCast):
                out.append(effect)
                continue
            group, message = effect.group, effect.message
            hosts = effect.to if isinstance(effect, StationCast) else (effect.to,)
            if any(parent(host) == self._lan for host in hosts):
                near: Any = message
                is_cast = isinstance(effect, StationCast)
                out.append(Cast(group, near) if is_cast else Transmit(hosts[0], group, near))
            beyond = [host for host in hosts if parent(host) != self._lan]
            if beyond:
                far.setdefault((group, id(message)), (message, []))[1].extend(beyond)
        for (group, _), (message, beyond) in far.items():
            out += self._carried(beyond, group, message)
        return out

    def _carried(self, hosts: list[Domain], group: Group, message: AnyStationMessage) -> list[Effect]:
        if not self._agreed.up:
            return [ignored(message, "our server is out of sight")]
        body = encode_carried(message)
        ways = [tuple(hosts[first : first + SPREAD_MAX]) for first in range(0, len(hosts), SPREAD_MAX)]
        return [Send(self._lan, CarriedFrame(self.host, way[0], group, body, way[1:])) for way in ways]

    def receiving_hosts(self, group: Group) -> set[Domain]:
        """The other hosts of our LAN that have members in this group."""
        station = self.stations.get(group)
        hosts = frozenset() if station is None else station.hosts
        return {host for host in hosts if parent(host) == self._lan}


def _agreed_now(known: HostGroup) -> AgreedNow | None:
    view: AgreedView | None = known.view
    if view is None or not view.members:
        return None
    number, revision, pid = view.id
    stations = dict.fromkeys([StationId(host_of(id.endpoint), id.stamp[0]) for id in view.ids])
    shown = key = ViewKey(number, revision, "" if pid is None else str(pid))
    if known.kind.stable == "disk":
        # Epochs are compared with those of earlier lives of the group, whose numbers may have been the same.
        key = ViewKey(known.fence, next(iter(stations)).life, shown.pid)
    return AgreedNow(key, view, tuple(stations), known.fence if is_exclusive(known.kind) else None, shown)


def _batches(station: Station) -> list[Persist]:
    batch = station.unwritten()
    return [] if batch is None else [Persist(batch)]


def _are_over(effects: Sequence[Effect]) -> list[Group]:
    """Groups whose members get the notice that they were deleted."""
    told = [each for each in effects if isinstance(each, Deliver) and isinstance(each.item, GroupTerminated)]
    return sorted({each.group for each in told})


def _heads(logs: dict[str, KeptLog]) -> dict[Group, tuple[OrderHead, list[tuple[int, bytes]]]]:
    """Logs of orders, by their groups. One whose head cannot be read is none of ours."""
    found = {}
    for name, log in logs.items():
        head = decode_head(log.head or b"")
        if head is not None:
            found[parse_group(name)] = head, list(log.entries)
    return found


def _came_again(before: Came, now: Came, is_behind: bool) -> bool:
    return before[1] != now[1] or (before[0] != now[0] and not is_behind)


def _moved_behind(known: HostGroup, last: AgreedNow | None) -> frozenset[Endpoint]:
    """Members whose seniority was passed on with this view (`rostra drain`): they are as old as if they had
    joined with it. They were in the view just before, so they have not."""
    view: AgreedView | None = known.view
    if view is None or last is None or view.number != last.view.number + 1:
        return frozenset()
    was = frozenset(last.view.ids)
    return frozenset(
        [each.id.endpoint for each in view.members if each.joined == view.number and each.id in was]
    )


def _inside(known: HostGroup) -> dict[Endpoint, Came]:
    """The members of this host in the last view: when each joined, and when it came back."""
    agreed = {} if known.view is None else {each.id: each for each in known.view.members}
    return {
        me: (agreed[member.stage.id].joined, known.returned.get(member.stage.id, 0))
        for me, member in known.members.items()
        if isinstance(member.stage, StayInside) and member.stage.id in agreed
    }
