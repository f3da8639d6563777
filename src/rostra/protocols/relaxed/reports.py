"""The tables of an agent or a server as a JSON document, for `inspect`."""

from typing import TYPE_CHECKING

from msgspec import json

if TYPE_CHECKING:
    from rostra.protocols.relaxed.domain import DomainServer
    from rostra.protocols.relaxed.local import LocalServer


def document_of(agent: "LocalServer") -> bytes:
    """The tables of an agent."""
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


def document_of_server(server: "DomainServer") -> bytes:
    """The tables of a domain server."""
    up = server.neighbours.up
    return json.encode(
        {
            "server": "domain",
            "path": server.domain,
            "cluster": server.cluster,
            "incarnation": server.incarnation,
            "neighbours": {
                peer: {
                    "relation": up[peer].name.lower(),
                    "synced": peer not in server.neighbours.unsynced,
                }
                for peer in sorted(up)
            },
            "rows": {
                str(group): {
                    "inner": row.inner.name,
                    "outer": row.outer.name,
                    "entries": {peer: row.entries[peer].name for peer in sorted(row.entries)},
                    "unconfirmed": sorted(row.unconfirmed),
                }
                for group, row in sorted(server.table.rows.items())
            },
            "collections": [
                {
                    "kind": collection.kind.value,
                    "group": str(collection.group),
                    "waiting": sorted(collection.waiting),
                    "members": len(collection.members),
                    "questions": [question.source for question in collection.questions],
                }
                for collection in server.collections
            ],
            "registry": server.registry.records(),
        }
    )
