"""K12: an agent with a member in a group with one order says what it likes to the stations of other hosts. It
may harm that group; it ends no agent, fills none, and cuts none off from its server."""

from collections.abc import Callable
from random import Random
from typing import Any, Literal, get_args, get_origin

import pytest
from msgspec import Struct, msgpack
from msgspec.structs import fields, replace

from rostra.core.effects import CancelTimer, Effect, SetTimer
from rostra.groups.attributes import NUMBER_MAX, Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.atomic import feeds, frames, hub, roster
from rostra.protocols.atomic import messages as hubs
from rostra.protocols.atomic.durable import order_name
from rostra.protocols.atomic.events import HubPost, OrderSubmitted, StationCast
from rostra.protocols.atomic.feeds import InFeed, feed_name
from rostra.protocols.atomic.frames import (
    ACK,
    ORDER,
    SUSPEND,
    WAIT,
    AmpStationId,
    AmpView,
    AmpViewId,
    DataFrame,
    DataId,
    DecidedEntry,
    DecisionFrame,
    FrameControl,
    FramePart,
    FrameRef,
    PendingRun,
    ResponseFrame,
    RunOutcome,
    StationReport,
    SuspensionLevel,
)
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import (
    AnyStationMessage,
    HubData,
    HubReport,
    HubStart,
    MarkEntry,
    RunEntry,
    ShownView,
    StationId,
    ViewKey,
    Way,
    decode_carried,
    decode_entry,
    encode_carried,
    encode_entry,
)
from rostra.protocols.atomic.monitored import MonitoredStation
from rostra.protocols.atomic.negotiated import NegotiatedStation
from rostra.protocols.atomic.roster import HostRoster, Roster, RosterMember
from rostra.protocols.atomic.state import AgreedNow, StationOrders
from rostra.protocols.claims.messages import ClaimBegun
from rostra.protocols.fifo.events import Deliver, DeliverAll
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.relaxed.messages import MessageId
from rostra.wire.checks import check_message
from tests.support.stations import GROUP, A, B, C, member

LIFE = 1
KEY = ViewKey(1, 0, "")
AnyStation = Station | NegotiatedStation


def said(message: Any) -> AnyStationMessage | None:
    """As another host's agent gets it; none if it is refused."""
    return decode_carried(encode_carried(message))


def hear(station: AnyStation, source: Domain, message: Any, now: float = 0.0) -> list[Effect]:
    out: list[Effect] = []
    if (heard := said(message)) is not None:
        station.heard(now, source, heard, out)
    return out


def agreed(number: int, *hosts: Domain, pid: str = "", disk: bool = False) -> AgreedNow:
    members = tuple([AgreedMember(MemberId(member(host), (1, 1)), 0) for host in hosts])
    stations = tuple([StationId(host, LIFE) for host in hosts])
    shown = ViewKey(number, 0, pid)
    view = AgreedView(number, 0, None, members)
    return AgreedNow(
        ViewKey(number, LIFE if disk else 0, pid), view, stations, number, shown if disk else None
    )


def joining(stable: str, *hosts: Domain, me: Domain = A) -> Station:
    """A station whose first view this is."""
    station = Station(GROUP, StationId(me, LIFE), stable, 1200)
    station.gallery.enter(member(me), Slow.THROTTLE)
    station.look(0.0, agreed(1, *hosts, disk=stable == "disk"), "", [])
    return station


# In hub order


def test_a_log_that_begins_behind_its_end_ends_no_agent() -> None:
    station = joining("all", A, B)
    view = agreed(1, A, B)
    chain = ((ViewKey(0, 0, ""), (StationId(B, LIFE),)),)
    hear(station, B, HubReport(view.key, LIFE, chain, 5, 10))
    assert not station.orders
    hear(station, B, HubReport(view.key, LIFE))
    assert station.orders


@pytest.mark.parametrize("origin", [None, ViewKey(1, 1, "x" * 512), ViewKey(2**62, 2**62, "x" * 500)])
def test_an_order_without_a_name_that_can_be_recorded_is_not_followed(origin: ViewKey | None) -> None:
    """The agent ended; or its server refused what it said of that order, and ended their link, for ever."""
    station = joining("disk", B, A)
    view = agreed(1, B, A, disk=True)
    mark = MarkEntry(
        1, ShownView(ViewKey(1, 0, ""), ((member(B), b""), (member(A), b"")), 1), view.stations, True
    )
    hear(station, B, hubs.HubAsk(view.key))
    hear(station, B, HubStart(view.key, ((view.key, view.stations),), 1, 1, 1, True, origin))
    run = Run(1, 1, block_of([encode_entry(mark)]))
    hear(station, B, HubData(view.key, Way.DOWN, 0, 0, Data(feed_name(B), run, 1, 0)))
    if station.reported_chain:
        assert station.disk is not None and station.disk.origin is not None
        order = order_name(station.disk.origin)
        check_message(ClaimBegun(MessageId(A, 1, 1), A, GROUP, order))


def test_positions_end_before_numbers_do() -> None:
    """A program whose agent gives it a larger one takes that for a fault, and loses all its groups."""
    run = Run(1, 3, block_of([b"x"] * 3))
    assert decode_entry(encode_entry(RunEntry(NUMBER_MAX - 3, member(B), run))) is not None
    assert decode_entry(encode_entry(RunEntry(NUMBER_MAX - 2, member(B), run))) is None
    assert said(HubStart(KEY, ((KEY, ()),), 1, NUMBER_MAX + 1, 1)) is None


def ordering() -> Station:
    """It orders, and one of its members does not read."""
    station = joining("all", A, B)
    hear(station, B, HubReport(KEY, LIFE))
    hear(station, B, hubs.HubHave(KEY, station.log.next, 0))
    assert isinstance(station.stage, StationOrders)
    return station


def upward(number: int, size: int) -> HubData:
    entry = RunEntry(0, member(B), Run(number, 1, block_of([bytes(size)])))
    run = Run(number, 1, block_of([encode_entry(entry)]))
    return HubData(KEY, Way.UP, 0, 0, Data(feed_name(B), run, number, 0))


def test_what_waits_for_a_place_is_bounded_for_each_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "WINDOW_BYTES", 10_000)
    station = ordering()
    out: list[Effect] = []
    station.look(0.0, agreed(1, A, B), "our side must not go on", out)
    for number in range(1, 100):
        hear(station, B, upward(number, 1_000))
    assert len(station._queue) == 10
    station.look(0.0, agreed(1, A, B), "", out)
    assert not station._queue and station._peers[B].waiting == 0
    hear(station, B, upward(11, 1_000))
    assert station.log.next == 13, "what was not taken is still wanted"


def test_what_came_too_early_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "HELD_BYTES", 10_000)
    feed = InFeed(feed_name(B), 1)
    pieces = [Data(feed_name(B), Run(n, 1, block_of([bytes(1_000)])), 100, 0) for n in range(1, 101)]
    for piece in pieces[1:]:
        assert not feed.take(0.0, piece)
    assert feed._inbound.store.bytes < 12_000
    found = len(feed.take(0.0, pieces[0]))
    assert found == 11
    for piece in pieces[found:]:
        found += len(feed.take(0.0, piece))
    assert found == 100


# With a monitor of its own


class Opening:
    """A station that wants to come in to a group of which it knows one host."""

    def __init__(self) -> None:
        self.station = MonitoredStation(GROUP, StationId(A, LIFE), "all", 1200)
        self.now = 0.0
        self.timers: dict[Any, float] = {}
        self.station.contacts = frozenset([B])
        self.do(lambda out: self.station.enter(0.0, member(A), Slow.THROTTLE, b"", out))
        self.do(lambda out: self.station.open(0.0, out, founds=False))

    def do(self, what: Callable[[list[Effect]], None]) -> None:
        out: list[Effect] = []
        what(out)
        for effect in out:
            if isinstance(effect, SetTimer):
                self.timers[effect.timer] = self.now + effect.after_s
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.timer, None)
            elif isinstance(effect, HubPost | StationCast):
                encode_carried(effect.message)

    def answers(self, station: AmpStationId, **fields: Any) -> None:
        action = self.station.gate.state.action
        assert action is not None
        control = FrameControl(GROUP, station, 0, 0, None)
        message = ResponseFrame(control, FrameRef(self.station.me, 0, action.mtn), **fields)
        self.do(lambda out: out.extend(hear(self.station, station.host, message, self.now)))

    def pass_time(self, for_s: float) -> None:
        end = self.now + for_s
        while self.timers and min(self.timers.values()) <= end:
            timer = min(self.timers, key=lambda each: self.timers[each])
            self.now = self.timers.pop(timer)
            self.do(lambda out, timer=timer: self.station.ticked(self.now, out, *timer[3:]))
        self.now = end


THEIRS = AmpStationId(B, LIFE)


def test_a_failure_in_no_view_ends_no_agent() -> None:
    opening = Opening()
    opening.answers(THEIRS, answer="FAILURE_SEEN")
    opening.pass_time(30.0)


def test_counts_that_are_too_large_for_any_number_end_no_agent() -> None:
    opening = Opening()
    view = AmpView(AmpViewId(3, THEIRS), (THEIRS,))
    runs = tuple([PendingRun(DataId(THEIRS, n), n, NUMBER_MAX) for n in range(1, 10)])
    table = tuple([DecidedEntry(THEIRS, n, n, n) for n in range(1, 10)])
    last = RunOutcome(DataId(THEIRS, 1), True, 1)
    report = StationReport(view, table, runs, None, last, 5, NUMBER_MAX)
    opening.answers(THEIRS, answer="CAN_ACCEPT", report=report)
    opening.pass_time(5.0)


def test_a_host_answers_in_one_life_and_names_none_who_is_not_there() -> None:
    """Each life that it invented was kept, and each that it named was asked about again."""
    opening = Opening()
    view = AmpView(AmpViewId(3, THEIRS), (THEIRS, AmpStationId(C, LIFE)))
    for life in range(1, 50):
        opening.answers(AmpStationId(B, life), answer="FLUSHING")
        opening.answers(AmpStationId(B, life), answer="CAN_ACCEPT", report=StationReport(view))
        named = tuple([AmpStationId(C, life + 100 * nth) for nth in range(10)])
        opening.answers(THEIRS, answer="FAILURE_SEEN", seen=named, report=StationReport(view))
    action = opening.station.gate.state.action
    assert action is not None
    assert len(action.answers) <= 1 and len(action.flushing) <= 1 and len(action.failed) <= 2


def test_parts_of_frames_are_of_the_host_that_sends_them() -> None:
    opening = Opening()
    for nth in range(50):
        run = Run(1, 1, bytes(100))
        part = FramePart(Data(Endpoint(f"eu.fr.x{nth}/order#1"), run, 1, 0, offset=0, size=1_000))
        opening.do(lambda out, part=part: out.extend(hear(opening.station, B, part)))
    assert not opening.station._receiver._whole


def test_a_part_of_a_frame_with_no_number_ends_no_agent() -> None:
    opening = Opening()
    whole = Run(0, 1, block_of([b"x"]))
    out = hear(opening.station, B, FramePart(Data(feed_name(B), whole, 0, 0)))
    assert not any(isinstance(each, HubPost) for each in out)


def test_a_view_of_many_members_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may announce thousands; for each of those who were there, all were looked at."""
    made: list[Any] = []

    def counted(*args: Any) -> dict[Any, Any]:
        made.append(args)
        return dict(*args)

    many = tuple([RosterMember(Endpoint(f"{B}/m#{n}"), b"", 1) for n in range(1, 500)])
    before = Roster("x", ((THEIRS, many),))
    view = before.shown(1, None, ())
    monkeypatch.setattr(roster, "dict", counted, raising=False)
    assert len(before.shown(2, view, ()).members) == 499
    assert len(made) < 5


# Whatever it says


class Lies:
    """Values of every type, mostly with names and numbers of this group in them."""

    def __init__(self, luck: Random, station: AnyStation) -> None:
        self.luck, self.station = luck, station
        self.known: dict[Any, list[Any]] = {}

    def number(self) -> int:
        station = self.station
        if isinstance(station, Station):
            known = [station.log.next, station.log.low, station.accept, station._out.high + 1]
        else:
            gate = station.gate.state
            known = [gate.mtn, gate.mdn, gate.mtn + 1, gate.clock, gate.delivered]
        return self.luck.choice([0, 1, 1, 1, 2, 2, 3, 5, NUMBER_MAX, 2**63 - 1, *known, *known])

    def made(self, kind: Any) -> Any:
        luck = self.luck
        if self.known.get(kind) and luck.random() < 0.85:
            return luck.choice(self.known[kind])
        if kind in PLAIN:
            return PLAIN[kind](self)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return luck.choice(arguments)
        if getattr(kind, "__metadata__", None):
            return self.made(kind.__origin__)
        if origin is tuple and arguments[-1] is Ellipsis:
            return tuple([self.made(arguments[0]) for _ in range(luck.choice((0, 1, 1, 2, 3)))])
        if origin is tuple:
            return tuple([self.made(each) for each in arguments])
        if arguments:
            return self.made(luck.choice(arguments))
        if kind is Run:
            return run_of(
                [luck.randbytes(luck.choice((0, 5))) for _ in range(luck.choice((1, 3)))], self.number()
            )
        if kind is Data and luck.random() < 0.8:
            run = run_of([self.entry() for _ in range(luck.choice((1, 2)))], self.number())
            return Data(feed_name(luck.choice((A, B, C))), run, self.number(), self.number())
        if isinstance(kind, type) and issubclass(kind, Struct):
            wanted = [each for each in fields(kind) if each.required or luck.random() < 0.7]
            return kind(**{each.name: self.made(each.type) for each in wanted})
        return luck.choice(list(kind))

    def entry(self) -> bytes:
        return encode_entry(self.made(hubs.Entry))

    def framed(self, frame: Any, source: Domain) -> Any:
        """So that it does not contradict itself, in most cases."""
        luck, control = self.luck, frame.control
        level, attributes = control.sl, control.attributes & ~SUSPEND
        if isinstance(frame, DataFrame):
            level, attributes = None, ACK | WAIT | ORDER
            entry = encode_entry(RunEntry(0, member(source), run_of([b"x"], 1)))
            announced = HostRoster("l", (RosterMember(member(source), b""),), changed=luck.random() < 0.5)
            frame = replace(frame, items=(luck.choice((entry, msgpack.encode(announced))),))
        elif not isinstance(frame, ResponseFrame | DecisionFrame) and hasattr(frame, "change"):
            level = level or SuspensionLevel(self.number(), AmpStationId(source, LIFE))
        if level is not None:
            attributes |= SUSPEND
        of = AmpStationId(source, luck.choice((LIFE, LIFE, LIFE, 2)))
        mdn = 0 if isinstance(frame, DecisionFrame) and frame.change is not None else max(1, control.mdn)
        control = replace(control, sa=of, mtn=max(1, control.mtn), mdn=mdn, attributes=attributes, sl=level)
        return replace(frame, control=control)


def run_of(payloads: list[bytes], first: int) -> Run:
    return Run(min(first, NUMBER_MAX), len(payloads), block_of(payloads))


PLAIN: dict[Any, Callable[[Lies], Any]] = {
    int: Lies.number,
    bool: lambda lies: lies.luck.random() < 0.5,
    float: lambda lies: lies.luck.choice((0.0, 1.0, 1e9)),
    str: lambda lies: lies.luck.choice(("", "p")),
    bytes: lambda lies: lies.luck.choice((b"", b"x", lies.entry())),
    Domain: lambda lies: lies.luck.choice((A, B, B, C, C, Domain("eu.fr.d"))),
    Endpoint: lambda lies: lies.luck.choice((*map(member, (A, B, C)), *map(feed_name, (A, B, C)))),
    Group: lambda lies: GROUP,
    type(None): lambda lies: None,
}


class Victim:
    """A station, and what is said to it by agents of other hosts while its own programs go on."""

    def __init__(self, seed: int, kind: str) -> None:
        self.luck, self.now, self.number = Random(f"{kind} {seed}"), 0.0, 0
        self.timers: set[Any] = set()
        self.station = self._station(kind)
        self.is_disk = kind == "disk"
        self.lies = Lies(self.luck, self.station)

    def _station(self, kind: str) -> AnyStation:
        me, luck = StationId(A, LIFE), self.luck
        if kind == "monitored":
            monitored = MonitoredStation(GROUP, me, luck.choice(("all", "sent")), 1200)
            monitored.contacts = frozenset([B, C])
            founds = luck.random() < 0.4
            self._do(lambda out: monitored.enter(0.0, member(A), Slow.THROTTLE, b"", out))
            self._do(lambda out: monitored.open(0.0, out, founds=founds))
            return monitored
        if kind == "negotiated":
            station: AnyStation = NegotiatedStation(GROUP, me, luck.choice(("all", "sent")), 1200)
        else:
            station = hub_station = Station(GROUP, me, kind, 1200)
            hub_station.early_flush = True
            if hub_station.disk is not None:
                hub_station.disk.founds = luck.random() < 0.5
        station.gallery.enter(member(A), Slow.THROTTLE)
        return station

    @property
    def is_out(self) -> bool:
        station = self.station
        return bool(station.excluded) or (isinstance(station, MonitoredStation) and station.is_over)

    def _do(self, what: Callable[[list[Effect]], None]) -> None:
        out: list[Effect] = []
        what(out)
        for effect in out:
            match effect:
                case SetTimer(timer):
                    self.timers.add(timer)
                case CancelTimer(timer):
                    self.timers.discard(timer)
                case HubPost(message=message) | StationCast(message=message):
                    encode_carried(message)
                case Deliver(item=item) | DeliverAll(item=item):
                    msgpack.encode(item)

    def act(self) -> None:
        luck, station = self.luck, self.station
        self.now += luck.choice((0.0, 0.01, 0.1, 1.0))
        match luck.choice(("lie",) * 10 + ("time",) * 3 + ("look", "look", "say", "read")):
            case "lie":
                source = luck.choice((B, C))
                lie = self._lie(source)
                self._do(lambda out: out.extend(hear(station, source, lie, self.now)))
            case "time" if self.timers:
                timer = luck.choice(sorted(self.timers, key=str))
                self.timers.discard(timer)
                self._do(lambda out: station.ticked(self.now, out, *timer[3:]))
            case "look":
                self._do(self._look)
            case "say":
                event = OrderSubmitted(member(A), GROUP, 1, block_of([b"x" * luck.choice((1, 3_000))]))
                self._do(lambda out: station.submitted(self.now, event, out))
            case "read":
                self._do(lambda out: station.reads(self.now, member(A), luck.random() < 0.5, out))
        if isinstance(station, Station) and station.disk is not None:
            if station.disk.origin is not None and luck.random() < 0.1:
                self._do(lambda out: station.recorded(self.now, out))
            msgpack.encode(station.unwritten())
            assert station.disk.origin is not None or not station.reported_chain

    def _lie(self, source: Domain) -> Any:
        luck, station, lies = self.luck, self.station, self.lies
        if isinstance(station, Station):
            key = KEY if station.agreed is None else station.agreed.key
            epoch = key if station.epoch is None else station.epoch
            lies.known = {
                ViewKey: [key, key, epoch, epoch, ViewKey(self.number + 1, 0, "")],
                StationId: [StationId(each, LIFE) for each in (A, B, C)],
            }
            return lies.made(luck.choice(get_args(hubs.AnyHubMessage)))
        gate, stations = station.gate.state, [AmpStationId(each, LIFE) for each in (A, B, C)]
        mine = [each.mtn for each in (gate.action, gate.transfer) if each is not None]
        lies.known = {
            AmpStationId: stations,
            FrameRef: [FrameRef(station.me, 0, mtn) for mtn in (*mine, *mine, gate.mtn)],
            DataId: [each.data for each in gate.queue],
        }
        if gate.transfer is not None:
            lies.known[FrameRef].append(FrameRef(station.me, gate.transfer.mdn, gate.transfer.mtn))
        if gate.view is not None:
            id = gate.view.id
            following = AmpViewId(id.number + 1, stations[1])
            lies.known[AmpViewId] = [id, id, id, following]
            lies.known[AmpView] = [
                gate.view,
                AmpView(following, gate.view.members),
                AmpView(following, tuple(stations)),
            ]
        message = lies.made(luck.choice(get_args(frames.AnyAmpMessage)))
        return lies.framed(message, source) if isinstance(message, frames.AnyAmpFrame) else message

    def _look(self, out: list[Effect]) -> None:
        luck, station = self.luck, self.station
        if isinstance(station, MonitoredStation):
            hosts = frozenset(luck.sample([B, C, Domain("eu.fr.d")], luck.choice((0, 1, 2, 3))))
            station.listed(self.now, hosts, luck.sample([B, C], luck.choice((0, 1))), out)
            return
        hosts = luck.sample([A, B, C], luck.choice((1, 2, 3, 3)))
        hosts += [] if A in hosts else [A]
        self.number += luck.choice((0, 1, 1))
        view = agreed(self.number, *hosts, pid=luck.choice(("", "p")), disk=self.is_disk)
        if isinstance(station, Station) and station.agreed is not None and luck.random() < 0.3:
            station.coming(self.now, replace(view, key=ViewKey(station.agreed.key.number + 1, 0, "p")), out)
        else:
            station.look(self.now, view, luck.choice(("", "", "", "our side must not go on")), out)


@pytest.mark.parametrize("kind", ["all", "majority", "sent", "disk", "negotiated", "monitored"])
def test_whatever_is_said_to_a_station_ends_no_agent(kind: str) -> None:
    for seed in range(40):
        victim = Victim(seed, kind)
        for _ in range(150):
            if victim.is_out:
                break
            victim.act()
