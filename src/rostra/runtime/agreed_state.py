"""Agreed groups, as a node knows them, for its document.

at an agent     the view of its members, and whether they are blocked
at a server     the view of its part of the core-set, who is in that, who coordinates, who is isolated
"""

from typing import Any, Final

from rostra.core.stack import Stack
from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind
from rostra.protocols.agreed.agent import AGREED_AGENT, AgreedAgent
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.lease import IN_DOUBT
from rostra.protocols.agreed.living import ANY, is_exclusive
from rostra.protocols.agreed.rules import parse_rule
from rostra.protocols.agreed.server import AGREED_SERVER, AgreedServer

MEMBERS_SHOWN_MAX: Final = 500
GROUPS_SHOWN_MAX: Final = 256
"""Of each node's document. Raising them: larger documents, asked for every two seconds by each dashboard."""


def agreed_document(stack: Stack) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if (agent := stack.find(AGREED_AGENT)) is not None:
        found += _at_agent(agent)
    if (server := stack.find(AGREED_SERVER)) is not None:
        found += _at_server(server)
    return found[:GROUPS_SHOWN_MAX]


def _at_agent(agent: AgreedAgent) -> list[dict[str, Any]]:
    return [
        {
            **_group(str(group), known.kind),
            **_view(known.view, known.fence, known.kind, known.blocked or (IN_DOUBT if known.doubt else "")),
            "here": sorted(known.members),
        }
        for group, known in sorted(agent.groups.items())
        if known.view is not None
    ]


def _at_server(server: AgreedServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, core in sorted(server.sets.items()):
        state = core.core.state
        core_set = {
            "set": name,
            "servers": [each.server for each in state.view.servers],
            "coordinator": state.view.servers[0].server,  # the most senior: it goes first
            "isolated": sorted([each.server for each in state.isolated]),
        }
        for group, known in sorted(state.table.groups.items()):
            for part in known.parts:
                if part.view.members:
                    blocked = core.why_blocked(group, part)
                    view = _view(part.view, part.living.fence, part.kind, blocked)
                    found.append({**_group(str(group), part.kind), **view, "core_set": core_set})
    return found


def _group(group: str, kind: GroupKind) -> dict[str, Any]:
    return {"group": group, "survive": kind.survive or ANY, "exclusive": exclusive_of(kind)}


def exclusive_of(kind: GroupKind) -> str:
    """Can two sides of a partition live? `yes`: they cannot; `no`; or it `depends`."""
    try:
        return parse_rule(kind.survive or ANY).exclusive
    except BadInput:
        return "depends"


def _view(view: AgreedView, fence: int, kind: GroupKind, blocked: str) -> dict[str, Any]:
    return {
        "number": view.number,
        "revision": view.revision,
        "proposal": "" if view.pid is None else str(view.pid),
        "fence": fence if is_exclusive(kind) and not blocked else None,
        "blocked": blocked,
        "total": len(view.members),
        "members": [each.endpoint for each in view.ids[:MEMBERS_SHOWN_MAX]],
    }
