"""Hub order, beside AMp's in `atomic_report.py`: the same stations as in an agent, one delay apart.

A message that goes to several hosts in one step counts as one frame, as a frame to the group does there.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from rostra.core.effects import CancelTimer, Effect, SetTimer
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.config import TICK_S
from rostra.protocols.atomic.events import HubPost, OrderSubmitted
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import AnyStationMessage, StationId, ViewKey
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.fifo.events import DeliverAll
from rostra.protocols.flow.runs import block_of
from rostra.sim.agenda import Agenda

GROUP: Final = Group("ledger", Domain("x"))


class SentMessage(Struct, frozen=True):
    at: float
    sender: Domain
    to: Domain
    message: AnyStationMessage


class HubWorld:
    """Stations with a member each, all in view 1; the first one orders."""

    def __init__(self, count: int, delay_s: float) -> None:
        self.hosts = [Domain(f"x.h{number}") for number in range(count)]
        self.stations: dict[Domain, Station] = {}
        self.sent: list[SentMessage] = []
        self.given: list[tuple[float, Domain, OrderedRun | MemberView]] = []
        self._delay_s = delay_s
        self._agenda = Agenda(lambda: False)
        self._timers: dict[Domain, int] = {}
        for host in self.hosts:
            self.add(host)
        self.agree(1, self.hosts)
        self.run(1)

    @property
    def now(self) -> float:
        return self._agenda.now

    def run(self, for_s: float) -> None:
        self._agenda.run_until(self.now + for_s)

    def add(self, host: Domain) -> None:
        station = self.stations[host] = Station(GROUP, StationId(host, 1), "all", 1200)
        station.gallery.enter(_member(host), Slow.THROTTLE)

    def agree(self, number: int, hosts: list[Domain]) -> None:
        """All servers tell it at once."""
        members = tuple([AgreedMember(MemberId(_member(host), (1, 1)), 1) for host in hosts])
        stations = tuple([StationId(host, 1) for host in hosts])
        agreed = AgreedNow(ViewKey(number, 0, ""), AgreedView(number, members=members), stations)
        for host in hosts:
            self._do(host, lambda station, out: station.look(self.now, agreed, "", out))

    def say(self, host: Domain) -> float:
        event = OrderSubmitted(_member(host), GROUP, 1, block_of([b"x"]))
        self._do(host, lambda station, out: station.submitted(self.now, event, out))
        return self.now

    def frames(self, since: float) -> int:
        """Each message once, to however many hosts it goes; without those that a timer sends again."""
        within = [each for each in self.sent if since <= each.at < since + TICK_S]
        sent = [(each.at, each.sender, id(each.message)) for each in within]
        return len([key for key, _ in groupby(sent)])

    def delivered(self, since: float) -> dict[Domain, float]:
        """When each host was first given a message."""
        found: dict[Domain, float] = {}
        for at, host, item in self.given:
            if at >= since and isinstance(item, OrderedRun):
                found.setdefault(host, at)
        return found

    def _do(self, host: Domain, doing: Callable[[Station, list[Effect]], None]) -> None:
        out: list[Effect] = []
        doing(self.stations[host], out)
        for effect in out:
            match effect:
                case DeliverAll(item=OrderedRun() | MemberView() as item):
                    self.given.append((self.now, host, item))
                case HubPost(to, _, message):
                    self.sent.append(SentMessage(self.now, host, to, message))
                    if to in self.stations:
                        self._agenda.at(self.now + self._delay_s, self._arrive, to, (host, message))
                case SetTimer(_, after_s):
                    self._timers[host] = self._timers.get(host, 0) + 1
                    self._agenda.at(self.now + after_s, self._fire, host, self._timers[host])
                case CancelTimer():
                    self._timers[host] = self._timers.get(host, 0) + 1

    def _arrive(self, host: Domain, about: tuple[Domain, Any]) -> None:
        if host in self.stations:
            self._do(host, lambda station, out: station.heard(self.now, *about, out))

    def _fire(self, host: Domain, turn: int) -> None:
        if host in self.stations and self._timers[host] == turn:
            self._do(host, lambda station, out: station.ticked(self.now, out))


def _member(host: Domain) -> Endpoint:
    return Endpoint(f"{host}/ann#1")


class HubRow(Struct, frozen=True):
    claim: str
    formula: str
    expected: float
    hub: float

    @property
    def holds(self) -> bool:
        return abs(self.hub - self.expected) < 1e-6


def hub_rows(n: int, delay_s: float) -> Iterator[HubRow]:
    for sender, up in ((0, 0), (1, 1)):
        made = HubWorld(n, delay_s)
        host = made.hosts[sender]
        began = made.say(host)
        made.run(1)
        at = made.delivered(began)
        who = "one of another host" if up else "a message of the orderer's host"
        yield HubRow(f"{who}: frames", f"{'1 + ' * up}1 + (n-1) + 1 + (n-1)", 2 * n + up, made.frames(began))
        yield HubRow(f"{who}: receipt (s)", f"{2 + 2 * up} delays", (2 + 2 * up) * delay_s, at[host] - began)
        yield HubRow(f"{who}: Te (s)", f"{3 + up} delays", (3 + up) * delay_s, max(at.values()) - began)
        yield HubRow(f"{who}: Ti (s)", "1 delay", delay_s, max(at.values()) - min(at.values()))
    yield from _changes(n, delay_s)


def _changes(n: int, delay_s: float) -> Iterator[HubRow]:
    made = HubWorld(n, delay_s)
    new = Domain("x.new")
    made.add(new)
    began = made.now
    made.agree(2, [*made.hosts, new])
    made.run(delay_s / 2)
    said = made.say(made.hosts[0])
    made.run(1)
    waited = max(at for host, at in made.delivered(said).items() if host != new) - said
    yield HubRow("a join: how long a message takes meanwhile (s)", "3 delays", 3 * delay_s, waited)
    views = [at for at, host, item in made.given if at >= began and isinstance(item, MemberView)]
    yield HubRow(
        "a join: all have the view (s)",
        "4 delays: report, mark, and that all have it",
        4 * delay_s,
        max(views) - began,
    )
    made = HubWorld(n, delay_s)
    del made.stations[made.hosts[0]]
    began = made.now
    made.agree(2, made.hosts[1:])
    made.run(1)
    views = [at for at, host, item in made.given if at >= began and isinstance(item, MemberView)]
    yield HubRow(
        "the orderer dies: from the agreed view until all have it in the order (s)",
        "4 delays: reports, mark, and that all have it",
        4 * delay_s,
        max(views) - began,
    )
