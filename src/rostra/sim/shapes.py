"""Worlds that come up again and again, by name.

pair      two clusters of two hosts: the smallest world with a sibling link
single    one cluster of three hosts
uneven    clusters at depths 1, 2 and 3 in one tree (C-183)
T-REF     the reference tree of the specification: 16 hosts, 15 domains, 37 links
"""

from collections.abc import Iterable, Mapping

from rostra.errors import BadInput
from rostra.names import ROOT, Domain, Tree, child, parse_domain, parse_host

_T_REF = tuple(
    f"{country}.{cluster}.{host}"
    for country in ("eu.fr", "eu.de", "us.ny", "us.ca")
    for cluster in ("c1", "c2")
    for host in ("h1", "h2")
)

SHAPES: Mapping[str, tuple[str, ...]] = {
    "single": ("site.a", "site.b", "site.c"),
    "pair": ("haifa.a", "haifa.b", "paris.c", "paris.d"),
    "uneven": (
        "lab.h1",
        "lab.h2",
        "eu.paris.h1",
        "eu.paris.h2",
        "eu.rome.h1",
        "us.ca.sf.h1",
        "us.ca.la.h1",
        "us.ca.la.h2",
        "us.ny.h1",
    ),
    "T-REF": _T_REF,
}


def shape(name: str) -> Tree:
    if name not in SHAPES:
        raise BadInput(f"no shape is called {name!r}", fix=f"one of: {', '.join(SHAPES)}")
    return Tree.of(parse_host(host) for host in SHAPES[name])


T_REF = shape("T-REF")


def clusters(hosts: Mapping[str, int | Iterable[str]]) -> Tree:
    """A world from its clusters: how many hosts each has (named h1, h2, ...), or their names."""
    return Tree.of(
        parse_host(child(parse_domain(cluster), label))
        for cluster, named in hosts.items()
        for label in ([f"h{n + 1}" for n in range(named)] if isinstance(named, int) else named)
    )


def even(fan_out: Iterable[int]) -> Tree:
    """A world in which every domain of one depth has equally many children; the last number is of hosts."""
    letters = "defgijklm"  # no h: that is for hosts
    *domains, hosts = fan_out
    level: list[Domain] = [ROOT]
    for letter, width in zip(letters, domains, strict=False):
        level = [child(domain, f"{letter}{n}") for domain in level for n in range(width)]
    return Tree.of(child(cluster, f"h{n}") for cluster in level for n in range(hosts))
