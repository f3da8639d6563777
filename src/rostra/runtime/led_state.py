"""Led sets, as a node knows them, for its document.

at an agent     where it stands in each set, its parent and root, the lists of its subtree and their versions,
                and which registrar it believes in; transient sets that its programs own
at a server     the sets that it is the registrar of: who leads each, and until when it is believed
"""

from typing import Any, Final

from rostra.core.effects import Instant
from rostra.core.stack import Stack
from rostra.protocols.led.agent import LED_AGENT, LedAgent
from rostra.protocols.led.messages import size_of
from rostra.protocols.led.server import LED_SERVER, LedServer
from rostra.protocols.led.state import Child

SETS_SHOWN_MAX: Final = 256
ORIGINS_SHOWN_MAX: Final = 256
"""Of each node's document. Raising them: larger documents, asked for every two seconds by each dashboard."""


def led_document(stack: Stack, now: Instant) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if (agent := stack.find(LED_AGENT)) is not None:
        found += _at_agent(agent)
    if (server := stack.find(LED_SERVER)) is not None:
        found += _at_server(server, now)
    return found[:SETS_SHOWN_MAX]


def names_registered(stack: Stack) -> int:
    """Sets whose leaders this node, as the registrar, knows."""
    services = stack.find(LED_AGENT), stack.find(LED_SERVER)
    return sum([len(each.registrar.entries) for each in services if each is not None])


def _at_agent(agent: LedAgent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group, tree in sorted(agent.trees.items()):
        record = tree.record
        assert record is not None, "a set without a record"
        standing, registrar = record.standing, agent.registrars.get(group.scope)
        found.append(
            {
                "group": str(group),
                "standing": type(standing).__name__.lower(),
                "parent": tree.parent,
                "root": agent.host if tree.leads else standing.root if isinstance(standing, Child) else None,
                "children": [child.agent for child in record.children],
                "registrar": None if registrar is None else registrar.path,
                "local": len(record.local),
                "total": size_of(tree.entries),
                "lists": _lists(tree.entries),
            }
        )
    for group, owned in sorted(agent.transient.owned.items()):
        found.append(
            {
                "group": str(group),
                "standing": "owner",
                "parent": None,
                "root": agent.host,
                "children": sorted(owned.roster),
                "registrar": None,
                "local": 0,
                "total": len(owned.members),
                "lists": _lists(owned.entries),
            }
        )
    return found


def _lists(entries: Any) -> list[dict[str, Any]]:
    return [
        {"origin": each.origin, "life": each.life, "version": each.version, "members": len(each.members)}
        for each in entries[:ORIGINS_SHOWN_MAX]
    ]


def _at_server(server: LedServer, now: Instant) -> list[dict[str, Any]]:
    return [
        {
            "group": str(group),
            "standing": "registrar",
            "leader": entry.leader.agent,
            "lease_s": round(max(0.0, entry.until - now), 1),
            "probed": bool(entry.probe),
        }
        for group, entry in sorted(server.registrar.entries.items())
    ]
