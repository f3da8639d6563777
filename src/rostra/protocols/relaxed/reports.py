"""What an agent says of itself, as a JSON document for people and tools."""

from typing import TYPE_CHECKING

from msgspec import json

if TYPE_CHECKING:
    from rostra.protocols.relaxed.local import LocalServer


def document_of(agent: "LocalServer") -> bytes:
    """Everything that it remembers."""
    return json.encode(
        {
            "server": "agent",
            "path": agent.host,
            "incarnation": agent.incarnation,
            "up": agent.up,
            "endpoints": sorted(agent.endpoints),
            "groups": {str(group): agent.groups[group].document() for group in sorted(agent.groups)},
            "open": agent.resolves.document(),
            "registry": agent.registry.records(),
            "lives": agent.life.document(),
        }
    )
