"""Agreed groups as the dashboard shows them: their rule, their sides, which of these lives, and who agrees.

    documents of agents   ──▶ sides: one for each view that members have, living or blocked, on which hosts
    documents of servers  ──▶ parts of the core-set: one, or several in a partition

In a partition each side is what its own hosts say. A host that does not answer is in none.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from rostra.names import Domain


class AgreedSide(Struct, frozen=True):
    """Hosts whose members have one view."""

    number: int
    view: str  # its id
    fence: int | None
    blocked: str  # why; empty: it lives
    total: int
    members: tuple[str, ...]  # in order of rank
    hosts: tuple[Domain, ...]


class CoreSetPart(Struct, frozen=True):
    """Servers that agree with each other."""

    set: Domain
    servers: tuple[Domain, ...]  # in order of seniority
    coordinator: Domain
    isolated: tuple[Domain, ...]
    number: int  # of the view that they agreed on last
    blocked: str


class AgreedShown(Struct, frozen=True):
    group: str
    survive: str
    exclusive: str  # yes | no | depends
    sides: tuple[AgreedSide, ...] = ()  # those that live first, then the larger
    parts: tuple[CoreSetPart, ...] = ()


def agreed_shown(documents: Iterable[tuple[Domain, Mapping[str, Any]]]) -> tuple[AgreedShown, ...]:
    """Of all places that answer."""
    known: dict[str, tuple[str, str]] = {}
    sides: dict[str, dict[tuple[str, str], tuple[Mapping[str, Any], list[Domain]]]] = {}
    parts: dict[str, dict[tuple[Domain, ...], CoreSetPart]] = {}
    for path, document in documents:
        for each in document.get("agreed", ()):
            group = str(each["group"])
            known[group] = (str(each["survive"]), str(each["exclusive"]))
            if (core := each.get("core_set")) is None:
                key = (_id(each), str(each["blocked"]))
                sides.setdefault(group, {}).setdefault(key, (each, []))[1].append(path)
                continue
            part = CoreSetPart(
                core["set"],
                tuple(core["servers"]),
                core["coordinator"],
                tuple(core["isolated"]),
                each["number"],
                each["blocked"],
            )
            parts.setdefault(group, {})[part.servers] = part
    return tuple(
        [
            AgreedShown(
                group,
                *known[group],
                tuple(sorted([_side(*each) for each in sides.get(group, {}).values()], key=_order)),
                tuple(
                    sorted(parts.get(group, {}).values(), key=lambda each: (-len(each.servers), each.servers))
                ),
            )
            for group in sorted(known)
        ]
    )


def _side(each: Mapping[str, Any], hosts: list[Domain]) -> AgreedSide:
    return AgreedSide(
        each["number"],
        _id(each),
        each["fence"],
        each["blocked"],
        each["total"],
        tuple(each["members"]),
        tuple(sorted(hosts)),
    )


def _order(side: AgreedSide) -> tuple[bool, int, str]:
    return bool(side.blocked), -len(side.hosts), side.view


def _id(each: Mapping[str, Any]) -> str:
    return f"{each['number']}.{each['revision']} {each['proposal']}".rstrip()
