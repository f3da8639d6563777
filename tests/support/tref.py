"""The reference tree of the specification, T-REF, and a few other worlds that tests return to.

world ─┬─ eu ─┬─ eu.fr ─┬─ eu.fr.c1 ── h1 h2
       │      │         └─ eu.fr.c2 ── h1 h2
       │      └─ eu.de ── the same
       └─ us ─┬─ us.ny ── the same
              └─ us.ca ── the same           16 agents, 15 domain servers, 37 links
"""

from rostra.names import Domain, Tree

T_REF = Tree.of(
    Domain(f"{region}.{cluster}.{host}")
    for region in ("eu.fr", "eu.de", "us.ny", "us.ca")
    for cluster in ("c1", "c2")
    for host in ("h1", "h2")
)

UNEVEN = Tree.of(
    Domain(f"{cluster}.{host}")
    for cluster, hosts in {
        "lab": ("h1", "h2"),
        "eu.paris": ("h1", "h2"),
        "eu.rome": ("h1",),
        "us.ca.sf": ("h1",),
        "us.ca.la": ("h1", "h2"),
        "us.ny.nyc": ("h1",),
    }.items()
    for host in hosts
)
"""Clusters at depths 1, 2 and 3 (C-183)."""

PAIR = Tree.of(map(Domain, ("haifa.a", "haifa.b", "paris.c", "paris.d")))

ONE_CLUSTER = Tree.of(map(Domain, ("site.a", "site.b", "site.c")))

ROOT_CLUSTER = Tree.of(map(Domain, ("a", "b", "c")))
"""The whole world is one cluster."""

DEEP = Tree.of(map(Domain, ("a.b.c.d.e.h1", "a.b.c.d.f.h1", "a.b.c.g.i.h1", "a.j.k.h1", "l.m.h1", "l.m.h2")))
