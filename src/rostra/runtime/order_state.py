"""Groups whose messages have one order, as an agent knows them, for its document.

Each agent reports how far it has the order, and which of its members do not read. The orderer also reports
how far every other agent has it, all at one instant.
"""

from typing import Any, Final

from rostra.core.stack import Stack
from rostra.protocols.atomic.agent import ORDER_AGENT, AnyStation
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.negotiated import NegotiatedStation

SLOW_SHOWN_MAX: Final = 16
GROUPS_SHOWN_MAX: Final = 256


def orders_document(stack: Stack) -> list[dict[str, Any]]:
    agent = stack.find(ORDER_AGENT)
    if agent is None:
        return []
    stations = sorted(agent.stations.items())[:GROUPS_SHOWN_MAX]
    return [_station(str(group), station) for group, station in stations]


def _station(group: str, station: AnyStation) -> dict[str, Any]:
    gallery = station.gallery
    slow = [each.me for each in gallery.members.values() if each.is_paused]
    order = _hub(station) if isinstance(station, Station) else _negotiated(station)
    return {
        "group": group,
        "stable": gallery.stable,
        **order,
        "view": None if gallery.view is None else gallery.view.number,
        "slow": sorted(slow)[:SLOW_SHOWN_MAX],  # members that do not read
        "blocked": gallery.blocked,
    }


def _hub(station: Station) -> dict[str, Any]:
    orderer = station.orderer
    return {
        "order": "hub",
        "orders": station.orders,
        "orderer": None if orderer is None else orderer.host,
        "has": station.log.next - 1,  # the order up to this position
        "given": station.log.given - 1,  # to members here: it is stable
        "others": [
            {"host": host, "has": peer.next - 1, "full": peer.full}
            for host, peer in sorted(station._peers.items())
        ],
    }


def _negotiated(station: NegotiatedStation) -> dict[str, Any]:
    """No station orders for others, and none knows how far they are."""
    return {
        "order": "negotiated",
        "orders": False,
        "orderer": None,
        "has": station.gate.state.delivered,
        "given": station.given,
        "others": [],
    }
