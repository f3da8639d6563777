"""Agreed groups as the dashboard shows them: their rule, their sides, which of these lives, and who agrees.

    documents of agents   ──▶ sides: one for each view that members have, living or blocked, on which hosts
                          ──▶ order: where messages have one, who orders, and how far each host has it
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


class OrderStation(Struct, frozen=True):
    """One host of a group whose messages have one order."""

    host: Domain
    orders: bool
    has: int  # the order up to this position; as its orderer says, if that answers
    behind: int | None  # its orderer; None: no orderer answers that knows it
    slow: tuple[str, ...] = ()  # members here that do not read
    waits: bool = False  # for one of them nothing more is ordered
    blocked: str = ""


class OrderShown(Struct, frozen=True):
    stable: str  # when a message is delivered: sent | majority | all | disk
    position: int  # the last that has a message or view
    delivered: int  # up to here members were given it, at the orderer
    stations: tuple[OrderStation, ...]  # who orders first, then those that are behind


class AgreedShown(Struct, frozen=True):
    group: str
    survive: str
    exclusive: str  # yes | no | depends
    sides: tuple[AgreedSide, ...] = ()  # those that live first, then the larger
    parts: tuple[CoreSetPart, ...] = ()
    order: OrderShown | None = None  # of groups with delivery="atomic"


def agreed_shown(documents: Iterable[tuple[Domain, Mapping[str, Any]]]) -> tuple[AgreedShown, ...]:
    """The agreed groups of all places that answer."""
    known: dict[str, tuple[str, str]] = {}
    sides: dict[str, dict[tuple[str, str], tuple[Mapping[str, Any], list[Domain]]]] = {}
    parts: dict[str, dict[tuple[Domain, ...], CoreSetPart]] = {}
    orders: dict[str, dict[Domain, Mapping[str, Any]]] = {}
    for path, document in documents:
        for each in document.get("orders", ()):
            orders.setdefault(str(each["group"]), {})[path] = each
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
                order_shown(orders[group]) if group in orders else None,
            )
            for group in sorted(known)
        ]
    )


def order_shown(told: Mapping[Domain, Mapping[str, Any]]) -> OrderShown:
    """Who orders a group, by the reports of its hosts. In a partition several may order, each its own
    side."""
    lines: dict[Domain, OrderStation] = {}
    ordering = [(path, each) for path, each in sorted(told.items()) if each["orders"]]
    full = {other["host"] for _, each in ordering for other in each["others"] if other["full"]}
    known = {
        other["host"]: (other["has"], each["has"] - other["has"])
        for _, each in ordering
        for other in each["others"]
    }
    for path, each in told.items():
        has, behind = (each["has"], 0) if each["orders"] else known.get(path, (each["has"], None))
        slow = tuple(each["slow"])
        lines[path] = OrderStation(path, each["orders"], has, behind, slow, path in full, each["blocked"])
    for host, (has, behind) in known.items():
        if host not in lines:
            lines[host] = OrderStation(host, False, has, behind, waits=host in full)
    some = next(iter(told.values()))
    return OrderShown(
        some["stable"],
        max([each["has"] for each in told.values()]),
        max([each["given"] for _, each in ordering], default=max([each["given"] for each in told.values()])),
        tuple(sorted(lines.values(), key=lambda each: (not each.orders, -(each.behind or 0), each.host))),
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
