"""Groups whose messages have one order, as an agent knows them, for its document.

Every agent says how far it has the order, and which of its members do not read; the one that orders also says
how far each other agent has it, all at one moment.
"""

from typing import Any, Final

from rostra.core.stack import Stack
from rostra.protocols.atomic.agent import ORDER_AGENT
from rostra.protocols.atomic.hub import Station

SLOW_SHOWN_MAX: Final = 16
GROUPS_SHOWN_MAX: Final = 256


def orders_document(stack: Stack) -> list[dict[str, Any]]:
    agent = stack.find(ORDER_AGENT)
    if agent is None:
        return []
    stations = sorted(agent.stations.items())[:GROUPS_SHOWN_MAX]
    return [_station(str(group), station) for group, station in stations]


def _station(group: str, station: Station) -> dict[str, Any]:
    gallery, orderer = station.gallery, station.orderer
    slow = [each.me for each in gallery.members.values() if each.is_paused]
    return {
        "group": group,
        "stable": gallery.stable,
        "orders": station.orders,
        "orderer": None if orderer is None else orderer.host,
        "view": None if gallery.view is None else gallery.view.number,
        "has": station.log.next - 1,  # the order up to this position
        "given": station.log.given - 1,  # to members here: it is stable
        "slow": sorted(slow)[:SLOW_SHOWN_MAX],  # members that do not read
        "blocked": gallery.blocked,
        "others": [
            {"host": host, "has": peer.next - 1, "full": peer.full}
            for host, peer in sorted(station._peers.items())
        ],
    }
