"""What is stable in a group with ``stable="majority"`` when views change, station by station."""

from typing import Any

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.atomic.config import LEAVE_S
from rostra.protocols.atomic.events import HubPost
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.logs import majority_has, majority_upto
from rostra.protocols.atomic.messages import (
    HubData,
    HubHave,
    MarkEntry,
    ShownView,
    StationId,
    ViewKey,
)
from rostra.protocols.atomic.state import AgreedNow
from tests.support.stations import GROUP, A, B, C, StationNet, member

HOSTS = {name: Domain(f"eu.fr.{name}") for name in "abcdefg"}


def view(number: int, names: str, *, joined: str = "", left: str = "") -> ShownView:
    return ShownView(
        ViewKey(number, 0, ""),
        tuple([(member(HOSTS[name]), b"") for name in names]),
        number,
        tuple([member(HOSTS[name]) for name in joined]),
        tuple([member(HOSTS[name]) for name in left]),
    )


def have(**nexts: int) -> dict[Domain, int]:
    return {HOSTS[name]: next for name, next in nexts.items()}


def test_what_is_before_a_view_does_not_count_at_those_who_came_with_it() -> None:
    """They start at its place, and hold nothing of what was before: if the orderer dies, it is lost."""
    mark = MarkEntry(10, view(2, "abcdefg", joined="defg"), ())
    nexts = have(a=11, b=5, c=5, d=10, e=10, f=10, g=10)
    assert majority_has(mark.view, nexts) == 10
    assert majority_upto(mark.view, [mark], nexts, 5) == 5
    nexts = have(a=11, b=9, c=5, d=11, e=11, f=11, g=10)
    assert majority_upto(mark.view, [mark], nexts, 5) == 9
    nexts = have(a=11, b=11, c=5, d=11, e=11, f=10, g=10)
    assert majority_upto(mark.view, [mark], nexts, 5) == 11


def test_what_is_before_a_view_counts_at_those_who_stayed() -> None:
    """Most of them left: what they had does not count when the others go on without the orderer."""
    mark = MarkEntry(10, view(2, "ab", left="cde"), ())
    assert majority_upto(mark.view, [mark], have(a=11, b=5, c=11, d=11, e=11), 5) == 5
    assert majority_upto(mark.view, [mark], have(a=11, b=11), 5) == 11


def test_a_view_of_newcomers_alone_counts_at_these() -> None:
    mark = MarkEntry(10, view(2, "cd", joined="cd", left="ab"), ())
    assert majority_upto(mark.view, [mark], have(c=10, d=10), 5) == 10
    assert majority_upto(mark.view, [mark], have(c=11, d=11), 5) == 11


def agreed(number: int, *hosts: Domain) -> AgreedNow:
    members = tuple([AgreedMember(MemberId(member(host), (1, 1)), 0) for host in hosts])
    stations = tuple([StationId(host, 1) for host in hosts])
    return AgreedNow(
        ViewKey(number, 0, ""), AgreedView(number, 0, None, members), stations, number, ViewKey(number, 0, "")
    )


def net_of(*hosts: Domain) -> StationNet[Station]:
    net: StationNet[Station] = StationNet()
    for host in hosts:
        net.stations[host] = Station(GROUP, StationId(host, 1), "majority", 1200)
        net.stations[host].gallery.enter(member(host), Slow.THROTTLE)
    for host in hosts:
        net.do(host, lambda station, out: station.look(0.0, agreed(1, *hosts), "", out))
    return net


def leave(net: StationNet[Station], host: Domain) -> list[Effect]:
    def doing(station: Station, out: list[Effect]) -> None:
        station.leaves(0.0, member(host), out)
        station.gone(member(host), "it left the group", out)

    return net.do(host, doing)


def haves(effects: list[Effect]) -> list[int]:
    messages: list[Any] = [each.message for each in effects if isinstance(each, HubPost)]
    return [each.next for each in messages if isinstance(each, HubHave)]


def test_a_leave_is_covered_when_all_have_what_its_host_counted_for() -> None:
    net = net_of(A, B, C)
    net.loses = lambda to, message: to == C and isinstance(message, HubData)
    net.say(A, b"one")
    assert [net.runs(host) for host in (A, B, C)] == [1, 1, 0]
    leave(net, B)
    assert not net.stations[B].is_covered
    net.loses = lambda to, message: False
    for host in (C, A, C, B):
        net.do(host, lambda station, out: station.ticked(1.0, out))
    assert net.runs(C) == 1 and net.stations[B].is_covered


def test_what_comes_later_does_not_count_at_a_host_whose_member_leaves() -> None:
    """It would be stable by a member that does not count when the others go on."""
    net = net_of(A, B, C)
    leave(net, B)
    assert net.stations[B].is_covered
    net.loses = lambda to, message: to == C and isinstance(message, HubData)
    net.say(A, b"one")
    assert net.stations[B].log.next > net.stations[A].accept
    assert [net.runs(host) for host in (A, C)] == [0, 0]
    net.loses = lambda to, message: False
    for host in (C, A, C):
        net.do(host, lambda station, out: station.ticked(1.0, out))
    assert [net.runs(host) for host in (A, C)] == [1, 1]


def test_a_host_counts_again_when_a_view_without_who_left_is_in_its_log() -> None:
    net = net_of(A, B, C)
    leave(net, B)
    assert net.stations[B].leaving == {member(B)}
    net.do(A, lambda station, out: station.look(1.0, agreed(2, A, C), "", out))
    assert net.stations[A].marked is not None
    mark = net.stations[A].marked
    before = net.stations[B].log.next
    net.stations[B]._append(MarkEntry(before, mark.view, mark.stations), b"")
    assert not net.stations[B].leaving and net.stations[B]._counted == before + 1


def test_a_leave_before_the_first_view_counts_for_nothing() -> None:
    """Its side was blocked until then: this host has acknowledged nothing."""
    net: StationNet[Station] = StationNet()
    station = net.stations[A] = Station(GROUP, StationId(A, 1), "majority", 1200)
    for me in (member(A), (left := Endpoint(f"{A}/left#1"))):
        station.gallery.enter(me, Slow.THROTTLE)
    station.leaves(0.0, left, out := [])
    station.gone(left, "it left the group", out)
    assert station.is_covered
    net.do(A, lambda station, out: station.look(1.0, agreed(1, A), "", out))
    assert not station.leaving and station.gallery.members[member(A)].knows
    net.say(A, b"one")
    assert net.runs(A) == 1


def test_a_leave_that_is_not_covered_waits_for_so_long() -> None:
    net = net_of(A, B, C)
    leave(net, B)
    assert not net.stations[B].is_late(LEAVE_S / 2) and net.stations[B].is_late(LEAVE_S)
