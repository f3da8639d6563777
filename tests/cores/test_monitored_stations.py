"""Stations of a group with a monitor of its own, frame by frame: receipts, rosters, frames of strangers."""

from collections.abc import Callable

import msgspec
import pytest
from support.stations import GROUP, A, B, C, StationNet, member

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    LinkUp,
    Received,
    Send,
    TimerFired,
)
from rostra.core.stack import Stack
from rostra.groups.attributes import Slow
from rostra.groups.kinds import DeliveryKind, GroupKind, MembershipKind
from rostra.names import Domain, Endpoint
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.agent import OrderAgent
from rostra.protocols.atomic.emitter import ATTRIBUTES
from rostra.protocols.atomic.events import (
    OrderJoinAsked,
    OrderLeaveAsked,
)
from rostra.protocols.atomic.frames import AmpStationId, AmpViewId, DataFrame, DecisionFrame, FrameControl
from rostra.protocols.atomic.messages import AnyStationMessage, RunEntry, StationId, encode_entry
from rostra.protocols.atomic.monitored import MonitoredStation
from rostra.protocols.atomic.negotiated import NegotiatedStation
from rostra.protocols.atomic.roster import HostRoster, RosterMember, decode_item, places_in
from rostra.protocols.claims.agent import ClaimAgent
from rostra.protocols.claims.messages import ClaimAnswer
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Denied, Open


def control(sa: AmpStationId, view: AmpViewId, mtn: int, mdn: int) -> FrameControl:
    return FrameControl(GROUP, sa, mtn, mdn, view, ATTRIBUTES["atomic"])


class Monitored(StationNet[MonitoredStation]):
    """They come in one after the other."""

    def __init__(self, *hosts: Domain) -> None:
        super().__init__()
        for nth, host in enumerate(hosts):
            self.stations[host] = MonitoredStation(GROUP, StationId(host, 1), "all", 1400)
            for each in self.stations.values():
                each.contacts = frozenset(self.stations)
            self.do(host, self._comes_in(member(host), founds=not nth))

    def _comes_in(self, me: Endpoint, *, founds: bool) -> Callable[[MonitoredStation, list[Effect]], None]:
        def come(station: MonitoredStation, out: list[Effect]) -> None:
            station.enter(0.0, me, Slow.THROTTLE, b"", out)
            station.open(0.0, out, founds=founds)

        return come


@pytest.mark.spec("A-077", "A-078")
def test_who_comes_in_knows_all_members_and_their_ranks() -> None:
    net = Monitored(A, B, C)
    assert len({station.roster.line for station in net.stations.values()}) == 1
    ranked = tuple([member(host) for host in (A, B, C)])
    for station in net.stations.values():
        assert tuple([each.endpoint for each in station.roster.members]) == ranked
        assert station.gallery.view is not None and station.gallery.view.joined == (member(C),)
    numbers = [each.number for each in net.given[A] if isinstance(each, MemberView)]
    assert numbers == sorted(set(numbers)), "its number is its position"


def without_a_decision_at_one_host() -> Monitored:
    net = Monitored(A, B, C)
    net.say(A, b"all have it")
    assert [net.runs(each) for each in (A, B, C)] == [1, 1, 1]
    net.loses = lambda to, message: to == C and isinstance(message, DecisionFrame)
    net.say(A, b"C does not know that it is decided")
    assert [net.runs(each) for each in (B, C)] == [2, 1]
    return net


@pytest.mark.spec("A-052", "A-085")
def test_a_sender_has_no_receipt_before_every_host_has_the_decision() -> None:
    assert without_a_decision_at_one_host().runs(A) == 1


def test_a_receipt_before_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NegotiatedStation, "_is_confirmed", lambda self, run: True)
    assert without_a_decision_at_one_host().runs(A) == 2


def test_members_are_announced_once_although_the_announcement_waits_for_its_place() -> None:
    """It was accepted, then sent again: the newcomer came with two views, and had failed in the second."""
    net = Monitored(A, B, C)
    sent: list[AnyStationMessage] = []

    def loses(to: Domain, message: AnyStationMessage) -> bool:
        announced = isinstance(message, DataFrame) and message.control.sa.host == B and to == A
        if announced:
            sent.append(message)
        return (isinstance(message, DecisionFrame) and message.control.sa.host == A and to == B) or len(
            sent
        ) > 3

    net.loses = loses
    net.say(A, b"B does not know that it is decided")
    ben = Endpoint(f"{B}/ben#2")
    net.do(B, lambda station, out: station.enter(net.now, ben, Slow.THROTTLE, b"", out))
    assert len(sent) == 1 and ben not in [each.endpoint for each in net.stations[B].roster.members]


@pytest.mark.spec("A-010", "A-013", "A-102")
def test_a_host_speaks_for_its_own_members_only() -> None:
    net = Monitored(A, B)
    before = net.stations[B].roster
    view = net.stations[A].gate.state.view
    assert view is not None
    run = encode_entry(RunEntry(0, member(B), Run(1, 1, block_of([b"x"]))))
    roster = msgspec.msgpack.encode(HostRoster("x", (RosterMember(member(B), b""),), changed=True))
    mine = net.stations[A].gate.state
    for item in (run, roster, b"nothing"):
        frame = DataFrame(control(net.stations[A].me, view.id, mine.mtn + 1, mine.mdn + 1), (item,))
        net.hear(B, A, frame)
        assert net.ignored.pop().why == "not of its members"
    stranger = DataFrame(control(AmpStationId(C, 1), view.id, 1, 1), (run,))
    net.hear(B, C, stranger)
    assert net.ignored.pop().why == "not in the view"
    assert net.stations[B].roster == before


def test_what_is_no_item_is_none_and_takes_no_position() -> None:
    changed = msgspec.msgpack.encode(HostRoster("x", (), changed=True))
    again = msgspec.msgpack.encode(HostRoster("x", ()))
    run = encode_entry(RunEntry(0, member(A), Run(1, 2, block_of([b"x", b"y"]))))
    assert places_in((changed, again, run, b"", b"\x93\x07")) == 3
    assert decode_item(msgspec.msgpack.encode([3, "x", [["no endpoint", b"", 0]], [], True])) is None
    assert decode_item(msgspec.msgpack.encode([9, "x"])) is None


def test_a_join_after_a_leave_that_came_before_the_claim_was_answered_is_refused_until_it_is() -> None:
    """Its answer was taken for the second join's, and the claim was held for as long as the agent lived."""
    registry = Registry()
    order, claims = OrderAgent(A), ClaimAgent(A, registry)
    stack = Stack(order, claims, LocalServer(A, incarnation=7, registry=registry))
    list(stack.step(0.0, LinkUp(Domain("eu.fr"), 1)))
    [opened] = [
        each for each in stack.step(0.0, Asked(Endpoint(""), 1, Open("ann"))) if isinstance(each, Answer)
    ]
    ann = opened.result.endpoint
    kind = GroupKind(MembershipKind.RELAXED, DeliveryKind.ATOMIC, order="negotiated", stable="all")

    def join(token: int) -> list[Effect]:
        return list(stack.step(0.0, OrderJoinAsked(ann, token, GROUP, kind, True, b"", slow=Slow.THROTTLE)))

    [asked] = [each.message for each in join(1001) if isinstance(each, Send)]
    list(stack.step(0.0, OrderLeaveAsked(ann, 1002, GROUP)))
    [refused] = [each for each in join(1003) if isinstance(each, Answer)]
    assert isinstance(refused.result, Denied) and "not over" in refused.result.what

    answer = ClaimAnswer(asked.id, A, GROUP, kind, 1, alone=True)
    list(stack.step(0.0, Received(Domain("eu.fr"), answer)))
    assert GROUP not in order.monitored.groups and not order.monitored._claiming
    list(stack.step(0.0, EndpointGone(ann)))
    list(stack.step(60.0, TimerFired(("atomic", "chess", "eu.fr", "wait"))))
    assert GROUP not in claims.kept
