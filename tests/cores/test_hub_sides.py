"""Stations in hub order that meet again, and what their members are shown of it."""

import pytest

from rostra.groups.attributes import Slow
from rostra.names import Domain
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import StationId, ViewKey
from rostra.protocols.atomic.requests import WENT_ON
from rostra.protocols.atomic.state import AgreedNow
from tests.support.stations import GROUP, A, B, C, StationNet, member


def agreed(number: int, *hosts: Domain, pid: str = "", exclusive: bool = True) -> AgreedNow:
    ids = {host: MemberId(member(host), (1, 1)) for host in hosts}
    view = AgreedView(number, 0, None, tuple([AgreedMember(id, 0) for id in ids.values()]))
    stations = tuple([StationId(host, 1) for host in hosts])
    return AgreedNow(ViewKey(number, 0, pid), view, stations, number if exclusive else None)


def net_of(*hosts: Domain, stable: str = "all") -> StationNet[Station]:
    net: StationNet[Station] = StationNet()
    for host in hosts:
        net.stations[host] = Station(GROUP, StationId(host, 1), stable, 1200)
        net.stations[host].gallery.enter(member(host), Slow.THROTTLE)
    return net


def look(net: StationNet[Station], view: AgreedNow, *hosts: Domain) -> None:
    for host in hosts:
        net.do(host, lambda station, out: station.look(0.0, view, "", out))


@pytest.mark.parametrize("stable", ["sent", "all", "majority"])
def test_a_member_that_was_there_has_not_failed_when_an_orderer_comes_that_knows_no_view(stable: str) -> None:
    """Two parts met: the most senior member is of the one that had no order yet."""
    net = net_of(A, B, stable=stable)
    look(net, agreed(1, A), A)
    net.say(A, b"one")
    look(net, agreed(2, B, A), B, A)
    net.do(B, lambda station, out: station.ticked(0.1, out))
    net.say(B, b"two")
    views = {host: [each for each in net.given[host] if isinstance(each, MemberView)] for host in (A, B)}
    assert [each.number for each in views[A]] == [1, 2]
    last = views[A][-1]
    assert ([each for each, _ in last.joined], last.failed, last.left) == ([member(B)], (), ())
    assert [each for each, _ in views[B][0].joined] == [member(B)]
    assert [net.runs(host) for host in (A, B)] == [2, 1]


def test_where_every_side_goes_on_a_member_is_not_given_two_views_of_one_number() -> None:
    """The orderer is on the other side of a cut, and was heard for longer than the servers were."""
    net = net_of(A, B, C, stable="sent")
    look(net, agreed(1, A, B, C, exclusive=False), A, B, C)
    look(net, agreed(2, A, B, pid="c left", exclusive=False), A)
    assert [each.number for each in net.given[B] if isinstance(each, MemberView)] == [1, 2]
    look(net, agreed(2, B, C, pid="a is cut off", exclusive=False), B)
    assert net.stations[B].excluded == WENT_ON
    assert [each.number for each in net.given[B] if isinstance(each, MemberView)] == [1, 2]


def test_a_view_that_our_servers_send_later_than_the_orderer_is_none_of_another_side() -> None:
    net = net_of(A, B, C, stable="sent")
    look(net, agreed(1, A, B, C, exclusive=False), A, B, C)
    look(net, agreed(2, A, B, pid="c left", exclusive=False), A, B)
    look(net, agreed(3, B, pid="a failed", exclusive=False), B)
    assert not net.stations[B].excluded
    assert [each.number for each in net.given[B] if isinstance(each, MemberView)] == [1, 2, 3]
