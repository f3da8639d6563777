"""Led sets as the dashboard shows them: who leads, which registrar knows it, and the control tree.

    documents of agents   ──▶ where each stands: leader, child of another, or on its way
    documents of servers  ──▶ registrars, and the leader that each knows

A node is believed about itself alone. During a partition there is a leader on each side.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from rostra.names import Domain


class LedAgentShown(Struct, frozen=True):
    """One agent, at its place in the control tree."""

    host: Domain
    standing: str  # leader | child | contend | attach | owner
    depth: int
    parent: Domain | None
    local: int  # members of its own
    total: int  # on the list of its subtree
    registrar: Domain | None  # that it believes in
    is_adrift: bool  # it has a parent that does not answer


class LedShown(Struct, frozen=True):
    group: str
    leaders: tuple[Domain, ...]
    registrars: tuple[tuple[Domain, Domain], ...]  # and the leader that each knows
    agents: tuple[LedAgentShown, ...]  # the tree: each below its parent


def led_shown(documents: Iterable[tuple[Domain, Mapping[str, Any]]]) -> tuple[LedShown, ...]:
    """The led sets of all places that answer."""
    agents: dict[str, dict[Domain, Mapping[str, Any]]] = {}
    registrars: dict[str, dict[Domain, Domain]] = {}
    for path, document in documents:
        for each in document.get("led", ()):
            group = str(each["group"])
            if each["standing"] == "registrar":
                registrars.setdefault(group, {})[path] = each["leader"]
            else:
                agents.setdefault(group, {})[path] = each
    return tuple(
        [
            LedShown(
                group,
                tuple([host for host, each in sorted(known.items()) if _leads(each)]),
                tuple(sorted(registrars.get(group, {}).items())),
                tuple(_tree(known)),
            )
            for group, known in sorted(agents.items())
        ]
    )


def _leads(each: Mapping[str, Any]) -> bool:
    return each["standing"] in ("leader", "owner")


def _tree(known: Mapping[Domain, Mapping[str, Any]]) -> Iterable[LedAgentShown]:
    """Leaders first, each with those below it; then agents whose parent does not answer."""
    below: dict[Domain, list[Domain]] = {}
    for host, each in sorted(known.items()):
        if each["parent"] in known:
            below.setdefault(each["parent"], []).append(host)
    seen: set[Domain] = set()
    tops = [host for host, each in sorted(known.items()) if each["parent"] not in known]
    for top in [*sorted(tops, key=lambda host: not _leads(known[host])), *sorted(known)]:
        todo = [(top, 0)]
        while todo:
            host, depth = todo.pop()
            if host in seen:
                continue  # shown; or a node lies
            seen.add(host)
            each = known[host]
            adrift = each["parent"] is not None and each["parent"] not in known
            yield LedAgentShown(
                host,
                each["standing"],
                depth,
                each["parent"],
                each["local"],
                each["total"],
                each["registrar"],
                adrift,
            )
            todo += [(child, depth + 1) for child in reversed(below.get(host, []))]
