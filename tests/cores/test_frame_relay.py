"""Frames for several hosts, which servers split."""

from collections.abc import Callable
from typing import Any

import pytest

from rostra.core.effects import Effect, Ignored, LinkUp, Received, Send
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.names import Domain
from rostra.protocols.atomic.agent import OrderAgent
from rostra.protocols.atomic.events import HubPost, StationCast
from rostra.protocols.atomic.messages import CarriedFrame, HubAsk, ViewKey, encode_carried
from rostra.protocols.channel.messages import SPREAD_MAX
from rostra.protocols.channel.relay import FrameRelay
from rostra.protocols.fifo.events import Cast, Transmit
from rostra.protocols.led.messages import SpreadLetter
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.routing import OUTSIDE
from tests.cores.test_led_services import CHESS, DE, EU, FR, H1, H2, H3

D1, D2 = Domain("eu.de.h1"), Domain("eu.de.h2")
MakeFrame = Callable[..., Any]


def spread(source: Domain, *hosts: Domain) -> SpreadLetter:
    return SpreadLetter(source, tuple([(host, (host[-2:],)) for host in hosts]), b"x")


def carried(source: Domain, to: Domain, *others: Domain) -> CarriedFrame:
    return CarriedFrame(source, to, CHESS, b"x", others)


def received(*up: Domain) -> Callable[[Domain, Any], list[Effect]]:
    """By the server of eu.fr."""
    server = DomainServer(FR, cluster=True, incarnation=5, registry=Registry(Records()))
    stack = Stack(FrameRelay(SpreadLetter, CarriedFrame), server)
    for peer in up:
        stack.step(0.0, LinkUp(peer, 1))
    return lambda sender, frame: list(stack.step(0.0, Received(sender, frame)))


@pytest.mark.spec("S-081", "S-082", "V-113")
@pytest.mark.parametrize("frame", [spread, carried])
def test_a_frame_for_several_hosts_is_split_where_the_ways_part(frame: MakeFrame) -> None:
    """One on each link, whatever is behind it."""
    kind, receive = type(frame(H1, H2)).__name__, received(H1, H2, EU, DE)
    assert receive(H1, frame(H1, D1, H2, H3, D2)) == [
        Send(DE, frame(H1, D1, D2)),
        Send(H2, frame(H1, H2)),
        Ignored(kind, "next hop is down"),
    ]
    assert receive(DE, frame(D1, H2)) == [Send(H2, frame(D1, H2))]
    # From another's side; and back, or past the link that two sites share.
    assert receive(H1, frame(H2, H2, D1)) == [Ignored(kind, OUTSIDE)]
    assert receive(DE, frame(D1, D2)) == [Ignored(kind, "off the unique path")]
    assert receive(DE, frame(D1, Domain("us.h1"))) == [Ignored(kind, "off the unique path")]
    assert receive(H3, frame(H3, H2)) == [Ignored(kind, "sender is not connected")]


class Up:
    up = True


@pytest.mark.spec("S-081")
@pytest.mark.parametrize("cast", [True, False])
def test_a_station_sends_what_it_says_to_many_hosts_of_other_clusters_once(
    cast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its order sends to each of them."""
    monkeypatch.setattr(OrderAgent, "_agreed", Up)
    agent, message = OrderAgent(H1), HubAsk(ViewKey(3, 0, "eu:7#1"))
    far = tuple([Domain(f"eu.de.h{number}") for number in range(SPREAD_MAX + 1)])
    hosts = (far[0], H2, *far[1:], H3)
    orders: list[Effect] = (
        [StationCast(hosts, CHESS, message)] if cast else [HubPost(host, CHESS, message) for host in hosts]
    )
    near: list[Effect] = (
        [Cast(CHESS, message)] if cast else [Transmit(H2, CHESS, message), Transmit(H3, CHESS, message)]
    )
    body = encode_carried(message)
    assert agent._sent(orders) == [
        *near,
        Send(FR, CarriedFrame(H1, far[0], CHESS, body, far[1:SPREAD_MAX])),
        Send(FR, CarriedFrame(H1, far[-1], CHESS, body)),
    ]
