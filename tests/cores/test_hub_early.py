"""Stations that report for a view which is proposed, and not agreed yet (`[agreed] early_flush`)."""

from typing import Any

import pytest

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.atomic.events import HubPost
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.hub_early import EARLY_S, PROMISES_MAX
from rostra.protocols.atomic.messages import HubAsk, HubData, HubReport, HubStart, StationId, ViewKey
from rostra.protocols.atomic.state import AgreedNow, StationFollows, StationOrders
from tests.support.stations import GROUP, A, B, C, StationNet, member


def agreed(number: int, *hosts: Domain, pid: str = "", exclusive: bool = True) -> AgreedNow:
    members = tuple([AgreedMember(MemberId(member(host), (1, 1)), 0) for host in hosts])
    stations = tuple([StationId(host, 1) for host in hosts])
    view = AgreedView(number, 0, None, members)
    return AgreedNow(ViewKey(number, 0, pid), view, stations, number if exclusive else None)


NEXT = agreed(2, B, C, pid="a failed")
OTHER = agreed(2, A, B, pid="c failed")


class EarlyNet(StationNet[Station]):
    """`A` orders, and is about to be lost."""

    def __init__(self, *, exclusive: bool = True, on: bool = True) -> None:
        super().__init__()
        first = agreed(1, A, B, C, exclusive=exclusive)
        for host in (A, B, C):
            station = self.stations[host] = Station(GROUP, StationId(host, 1), "all", 1200)
            station.early_flush = on
            station.gallery.enter(member(host), Slow.THROTTLE)
        for host in (A, B, C):
            self.agree(host, first)
        self.say(A, b"one")
        assert [self.runs(host) for host in (A, B, C)] == [1, 1, 1]

    def agree(self, host: Domain, view: AgreedNow, now: float = 0.0) -> list[Any]:
        return self.sent(host, lambda station, out: station.look(now, view, "", out))

    def propose(self, view: AgreedNow, *hosts: Domain) -> list[Any]:
        def doing(station: Station, out: list[Effect]) -> None:
            station.coming(0.0, view, out)

        return [message for host in hosts or (B, C) for message in self.sent(host, doing)]

    def tick(self, host: Domain, now: float) -> list[Any]:
        self.now = now
        return self.sent(host, lambda station, out: station.ticked(now, out))

    def pass_time(self, *hosts: Domain, now: float = 0.5) -> None:
        for _ in range(4):
            for host in hosts:
                now += 0.1
                self.tick(host, now)

    def sent(self, host: Domain, doing: Any) -> list[Any]:
        out: list[Effect] = self.do(host, doing)
        return [each.message for each in out if isinstance(each, HubPost)]


def test_the_next_orderer_begins_when_the_view_is_agreed_as_all_have_reported() -> None:
    net = EarlyNet()
    assert [type(each) for each in net.propose(NEXT)] == [HubReport]
    sent = net.agree(B, NEXT)
    assert isinstance(net.stations[B].stage, StationOrders)
    assert [each for each in sent if isinstance(each, HubStart)]
    net.agree(C, NEXT)  # what it was sent before is repaired
    net.pass_time(B, C)
    net.say(C, b"two")
    assert [net.runs(host) for host in (B, C)] == [2, 2]


def test_a_report_that_was_lost_is_asked_for() -> None:
    net = EarlyNet()
    net.loses = lambda to, message: isinstance(message, HubReport)
    assert [type(each) for each in net.propose(NEXT)] == [HubReport]
    net.loses = lambda to, message: False
    assert net.tick(B, 0.1)[0] == HubAsk(NEXT.key, early=True)
    net.agree(B, NEXT)
    assert isinstance(net.stations[B].stage, StationOrders)


def test_nobody_reports_for_a_view_that_its_own_server_did_not_propose() -> None:
    """Else any host could stop the group for ever: it asks, and releases nobody."""
    net = EarlyNet()
    net.loses = lambda to, message: isinstance(message, HubAsk)
    for number in range(PROMISES_MAX):
        net.hear(C, B, HubAsk(ViewKey(2, 0, f"invented {number}"), early=True))
        net.hear(B, C, HubAsk(ViewKey(2, 0, f"invented {number}"), early=True))
    net.say(A, b"two")
    assert [net.runs(host) for host in (A, B, C)] == [2, 2, 2]


def test_where_one_server_said_nothing_the_flush_is_that_of_the_paper() -> None:
    net = EarlyNet()
    assert not net.propose(NEXT, B)
    net.tick(B, 0.1)
    ends = net.stations[C].log.next
    net.say(A, b"two")
    assert net.stations[C].log.next == ends + 1  # it goes on
    net.agree(B, NEXT)
    assert not isinstance(net.stations[B].stage, StationOrders)
    net.agree(C, NEXT)
    net.pass_time(B, C)
    assert [net.runs(host) for host in (B, C)] == [2, 2]


@pytest.mark.parametrize("how", [{"exclusive": False}, {"on": False}])
def test_where_every_side_goes_on_or_it_is_not_wanted_nobody_reports_early(how: dict[str, bool]) -> None:
    net = EarlyNet(**how)
    assert not net.propose(NEXT)
    net.agree(B, NEXT)
    assert not isinstance(net.stations[B].stage, StationOrders)
    net.agree(C, NEXT)
    net.say(C, b"two")
    assert [net.runs(host) for host in (B, C)] == [2, 2]


def test_who_has_reported_takes_nothing_from_the_old_orderer() -> None:
    """It is not dead, perhaps: what it orders now would be in no log that counts."""
    net = EarlyNet()
    net.propose(NEXT)
    ends = net.stations[C].log.next
    net.say(A, b"two")
    assert net.stations[A].log.next > net.stations[C].log.next == ends
    assert [net.runs(host) for host in (A, B, C)] == [1, 1, 1]
    net.agree(B, NEXT)
    net.agree(C, NEXT)
    net.pass_time(B, C)
    assert net.stations[B].log.next == net.stations[C].log.next == ends + 1  # the view
    assert [net.runs(host) for host in (B, C)] == [1, 1]


def test_a_view_that_is_not_agreed_lets_go_of_all_after_a_while() -> None:
    net = EarlyNet()
    net.propose(NEXT)
    net.say(A, b"two")
    assert HubAsk(NEXT.key, release=True) in net.tick(B, EARLY_S)
    net.pass_time(A, B, C, now=EARLY_S + 1)
    assert [net.runs(host) for host in (A, B, C)] == [2, 2, 2]
    net.say(C, b"three")
    assert [net.runs(host) for host in (A, B, C)] == [3, 3, 3]


def test_a_word_of_release_that_was_lost_is_said_again() -> None:
    net = EarlyNet()
    net.propose(NEXT)
    net.loses = lambda to, message: isinstance(message, HubAsk)
    net.tick(B, EARLY_S)
    net.loses = lambda to, message: False
    net.say(A, b"two")
    assert net.runs(C) == 1
    net.pass_time(A, B, C, now=EARLY_S + 1)
    assert [net.runs(host) for host in (A, B, C)] == [2, 2, 2]


def test_a_report_for_a_view_that_was_given_up_is_not_used_if_that_is_agreed_after_all() -> None:
    """Who made it has taken more since."""
    net = EarlyNet()
    early: list[HubReport] = []

    def keeps(to: Domain, message: Any) -> bool:
        early.extend([message] if isinstance(message, HubReport) else [])
        return False

    net.loses = keeps
    net.propose(NEXT)
    net.tick(B, EARLY_S)
    net.say(A, b"two")
    assert early and net.stations[C].log.next > early[0].next
    net.loses = lambda to, message: to == C
    net.agree(B, NEXT)
    net.hear(B, C, early[0])
    net.propose(NEXT)
    assert not isinstance(net.stations[B].stage, StationOrders)
    net.loses = lambda to, message: False
    net.agree(C, NEXT)
    assert isinstance(net.stations[B].stage, StationOrders) and net.runs(C) == net.runs(B) == 2


def test_another_view_that_lives_lets_go_of_all_at_once() -> None:
    net = EarlyNet()
    net.propose(NEXT)
    net.say(A, b"two")
    net.agree(A, OTHER)
    net.agree(B, OTHER)
    assert isinstance(net.stations[B].stage, StationFollows)
    net.pass_time(A, B)
    assert [net.runs(host) for host in (A, B)] == [2, 2]


def test_who_took_more_than_it_had_reported_does_not_go_on_from_there() -> None:
    """Its server was cut off, and did not agree: for it another view lives, and then parts meet."""
    net = EarlyNet()
    net.propose(NEXT)
    net.agree(B, NEXT)  # and begins: what it says to C does not reach it
    net.stations[C].look(1.0, agreed(2, A, C, pid="b failed"), "", [])
    net.loses = lambda to, message: to == B
    net.say(A, b"two")
    net.agree(A, agreed(2, A, C, pid="b failed"))
    net.pass_time(A, C)
    assert net.stations[C].log.next > net.stations[C]._vows[NEXT.key]
    net.loses = lambda to, message: to == A
    met = agreed(3, B, C, pid="met")
    net.agree(B, met)
    net.agree(C, met)
    net.pass_time(B, C, now=9.0)
    assert net.stations[C].excluded


def test_early_questions_of_strangers_and_of_the_orderer_are_ignored() -> None:
    net = EarlyNet()
    net.ignored.clear()
    for source in (A, Domain("eu.fr.x")):
        net.hear(C, source, HubAsk(NEXT.key, early=True))
    net.hear(C, B, HubAsk(ViewKey(7, 0, ""), early=True))
    assert len(net.ignored) == 3
    net.say(A, b"two")
    assert net.runs(C) == 2


def test_what_was_lost_on_the_way_is_fetched_by_who_begins_early() -> None:
    net = EarlyNet()
    net.loses = lambda to, message: to == B and isinstance(message, HubData)
    net.say(A, b"two")
    net.loses = lambda to, message: to == A
    assert net.stations[C].log.next > net.stations[B].log.next
    net.propose(NEXT)
    net.agree(B, NEXT)
    net.agree(C, NEXT)
    net.pass_time(B, C)
    assert net.stations[B].log.next == net.stations[C].log.next
    assert [net.runs(host) for host in (B, C)] == [2, 2]
