"""Names that can be seen from here, to complete half a name or correct a wrong one.

    ann          ->  eu.paris.h1/ann              if only one endpoint is called that
    eu.pars.h1   ->  closest: eu.paris.h1, ...    if there is no such host

No node knows all names (C-023, C-024): searched are the documents of the nodes in sight, and the memory of
the agent that we are connected to.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from rostra.client.admin import Admin
from rostra.client.sight import Sight
from rostra.errors import RostraError
from rostra.names import (
    ROOT,
    Domain,
    Endpoint,
    Group,
    enclosing,
    host_of,
    incarnation_of,
    name_of,
    parse_group,
)

OWN_ENDPOINTS: Final = ("/rostra.watch", "/rostra-cli", "/dashboard-", "/supervisor#", "/concierge#")
"""Endpoints of Rostra itself, which follow groups and are in none."""


def read_group(text: str) -> Group | None:
    """A group that a node listed; None if our own rules refuse its name. Another version, or a node that
    does not keep the rules, may have let it in."""
    try:
        return parse_group(text)
    except RostraError:
        return None


def is_own(endpoint: str) -> bool:
    return any(mark in endpoint for mark in OWN_ENDPOINTS)


class KnownNames(Struct, frozen=True):
    """Names that the nodes in sight know: for one that is unknown, the closest are shown."""

    paths: frozenset[Domain] = frozenset()  # domains and hosts
    endpoints: frozenset[Endpoint] = frozenset()  # of programs, with their numbers

    def and_endpoints(self, more: Iterable[str]) -> "KnownNames":
        endpoints = self.endpoints | {Endpoint(each) for each in more if not is_own(each)}
        paths = self.paths | {path for each in endpoints for path in enclosing(host_of(each))}
        return KnownNames(paths, endpoints)

    def called(self, name: str) -> list[str]:
        """Endpoints of that name, without their numbers."""
        return sorted({_unnumbered(each) for each in self.endpoints if name_of(each) == name})

    def closest(self, text: str, most: int = 4) -> tuple[str, ...]:
        """What may have been meant: another number, the same name elsewhere, or nearly the same name."""
        unnumbered = _unnumbered(text)
        place, _, name = unnumbered.rpartition("/")
        numbers = [each for each in self.endpoints if _unnumbered(each) == unnumbered]
        found = [*sorted(numbers, key=incarnation_of, reverse=True)[:2], *self.called(name)]
        if place:
            near = [place] if place in self.paths else _close(place, self.paths)
            here = {name_of(each): _unnumbered(each) for each in self.endpoints if host_of(each) in near}
            found += [here[each] for each in _close(name, here)]
            found += near if place not in self.paths else []
        else:
            found += _close(text, self.paths)
        names = {name_of(each) for each in self.endpoints}
        found += [endpoint for near_name in _close(name, names) for endpoint in self.called(near_name)]
        if not found and place in self.paths:
            found = sorted({_unnumbered(each) for each in self.endpoints if host_of(each) == place})
        return tuple(dict.fromkeys(each for each in found if each != text))[:most]


def _close(text: str, names: Iterable[str]) -> list[str]:
    lower = {each.lower(): each for each in sorted(names)}
    return [lower[each] for each in difflib.get_close_matches(text.lower(), lower, n=4, cutoff=0.65)]


def _unnumbered(endpoint: str) -> str:
    return endpoint.partition("#")[0]


async def known_names(admin: Admin, sight: Sight, host: Domain | None = None) -> KnownNames:
    """All names in sight; and those that are remembered here, and on that host."""
    known = known_of(sight.documents.values())
    for node in dict.fromkeys((admin.path, host or admin.path)):
        try:
            memory = await admin.recall(ROOT, node)
        except RostraError:
            continue  # it cannot be asked; others may know
        known = known.and_endpoints(
            note["endpoint"] for kind in ("present", "departures", "seen") for note in memory.get(kind, ())
        )
    return known


def known_of(documents: Iterable[Mapping[str, Any]]) -> KnownNames:
    """The names in what these nodes say of themselves."""
    paths: set[Domain] = set()
    endpoints: list[str] = []
    for document in documents:
        for path in (*document["nodes"], *document["links"], *document.get("servers", ())):
            paths.update(enclosing(Domain(path)))
        endpoints += document["core"].get("endpoints", ())
    return KnownNames(frozenset(paths)).and_endpoints(endpoints)


__all__ = ["OWN_ENDPOINTS", "KnownNames", "is_own", "known_names", "known_of"]
