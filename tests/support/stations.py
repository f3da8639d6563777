"""Stations of one group without agents: what one sends, the others get at once, unless it is lost."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rostra.core.effects import Effect, Ignored
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.events import HubPost, OrderSubmitted, StationCast
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import AnyStationMessage
from rostra.protocols.atomic.negotiated import NegotiatedStation
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.fifo.events import DeliverAll
from rostra.protocols.flow.runs import block_of

GROUP = Group("chess", Domain("eu.fr"))
A, B, C = [Domain(f"eu.fr.{host}") for host in "abc"]

S = TypeVar("S", bound=NegotiatedStation | Station)


def member(host: Domain) -> Endpoint:
    return Endpoint(f"{host}/ann#1")


class StationNet(Generic[S]):
    """Each has one member that reads."""

    def __init__(self) -> None:
        self.stations: dict[Domain, S] = {}
        self.given: dict[Domain, list[OrderedRun | MemberView]] = {}
        self.ignored: list[Ignored] = []
        self.now = 0.0
        self.loses: Callable[[Domain, AnyStationMessage], bool] = lambda to, message: False
        self._passing: deque[tuple[Domain, Domain, AnyStationMessage]] = deque()

    def say(self, host: Domain, body: bytes) -> None:
        event = OrderSubmitted(member(host), GROUP, 1, block_of([body]))
        self.do(host, lambda station, out: station.submitted(self.now, event, out))

    def hear(self, host: Domain, source: Domain, message: AnyStationMessage) -> list[Effect]:
        return self.do(host, lambda station, out: station.heard(self.now, source, message, out))

    def do(self, host: Domain, doing: Callable[[S, list[Effect]], None]) -> list[Effect]:
        out: list[Effect] = []
        doing(self.stations[host], out)
        self._take(host, out)
        while self._passing:
            to, source, message = self._passing.popleft()
            answers: list[Effect] = []
            self.stations[to].heard(self.now, source, message, answers)
            self._take(to, answers)
        return out

    def runs(self, host: Domain) -> int:
        return len([each for each in self.given.get(host, ()) if isinstance(each, OrderedRun)])

    def _take(self, host: Domain, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case DeliverAll(item=OrderedRun() | MemberView() as item):
                    self.given.setdefault(host, []).append(item)
                case HubPost(to, _, message):
                    self._pass_on(host, (to,), message)
                case StationCast(hosts, _, message):
                    self._pass_on(host, hosts, message)
                case Ignored():
                    self.ignored.append(effect)

    def _pass_on(self, source: Domain, hosts: Sequence[Domain], message: AnyStationMessage) -> None:
        known = [to for to in hosts if to in self.stations and not self.loses(to, message)]
        self._passing.extend([(to, source, message) for to in known])
