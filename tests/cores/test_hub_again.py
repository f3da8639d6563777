"""A member that leaves and comes again, at a host that stays in the order: what it said before is over."""

from support.stations import GROUP, A, B, StationNet, member

from rostra.core.effects import Effect
from rostra.groups.attributes import Slow
from rostra.names import Domain
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.messages import AnyStationMessage, HubData, StationId, ViewKey, Way
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.flow.runs import payloads


def agreed(number: int, **joined: int) -> AgreedNow:
    """`joined`: the hosts, by the number of the view in which their members joined."""
    hosts = {Domain(f"eu.fr.{name}"): since for name, since in joined.items()}
    members = tuple(
        [AgreedMember(MemberId(member(host), (1, since)), since) for host, since in hosts.items()]
    )
    stations = tuple([StationId(host, 1) for host in hosts])
    return AgreedNow(ViewKey(number, 0, ""), AgreedView(number, 0, None, members), stations)


def test_what_a_member_said_before_it_left_is_not_ordered_when_it_is_back() -> None:
    """It was lost on the way up, and is sent again with what others of its host say. Its numbers begin anew,
    so it would be taken for what it says now."""
    net: StationNet[Station] = StationNet()
    for host in (A, B):
        net.stations[host] = Station(GROUP, StationId(host, 1), "all", 1200)
        net.stations[host].gallery.enter(member(host), Slow.THROTTLE, (1, 0), 1)

    def look(view: AgreedNow, *hosts: Domain) -> None:
        for host in hosts:
            net.do(host, lambda station, out: station.look(0.0, view, "", out))

    look(agreed(1, a=1, b=1), A, B)
    net.say(B, b"first")
    net.loses = up
    net.say(B, b"before it left")
    net.do(B, lambda station, out: station.gone(member(B), "it did not read", out))
    net.stations[B].gallery.enter(member(B), Slow.THROTTLE, (3, 0), 3)
    look(agreed(3, a=1, b=3), A, B)
    net.loses = lambda to, message: False
    net.say(B, b"now")

    def tick(station: Station, out: list[Effect]) -> None:
        station.ticked(net.now, out)

    for _ in range(8):
        net.now += 0.6
        for host in (A, B):
            net.do(host, tick)
    said = [body for item in net.given[A] if isinstance(item, OrderedRun) for body in payloads(item.run)]
    assert said == [b"first", b"now"]
    again = net.stations[B].gallery.members[member(B)]
    assert (again.handed, again.placed, again.bytes) == (1, 1, 0)


def up(to: Domain, message: AnyStationMessage) -> bool:
    return isinstance(message, HubData) and message.way is Way.UP
