"""The topology of a world: its domains and hosts, and the neighbours of each server.

    world ─┬─ eu ─┬─ eu.fr ─┬─ eu.fr.c1 ── hosts h1 h2
           │      └─ eu.de  └─ eu.fr.c2 ── hosts h1 h2
           └─ us ─ ...

A server's neighbours follow from the paths alone: its parent is one label shorter, its siblings share that
parent, its children are one label longer. Siblings are fully meshed; hosts of one cluster are not linked to
each other (C-018).
"""

from collections.abc import Iterable

from msgspec import Struct

from rostra.errors import BadInput
from rostra.names.domains import ROOT, Domain, child, depth, enclosing, inside, labels, parent


class Tree(Struct, frozen=True):
    hosts: tuple[Domain, ...]
    domains: tuple[Domain, ...]
    clusters: frozenset[Domain]
    children: dict[Domain, tuple[Domain, ...]]

    @classmethod
    def of(cls, hosts: Iterable[Domain]) -> "Tree":
        """The smallest world that holds these hosts."""
        hosts = tuple(sorted(set(hosts)))
        if not hosts:
            raise BadInput("a world without hosts", fix="name at least one host")
        if ROOT in hosts:
            raise BadInput(f"{ROOT!r} among the hosts", fix="name hosts inside a cluster: eu.paris.h1")
        children: dict[Domain, set[Domain]] = {}
        for host in hosts:
            below = host
            for domain in enclosing(host)[1:]:
                children.setdefault(domain, set()).add(below)
                below = domain
        for host in hosts:
            if host in children:
                raise BadInput(f"{host} is both a host and a domain", fix="give one of them another name")
        clusters = frozenset(parent(host) for host in hosts)
        for cluster in sorted(clusters):
            if not children[cluster] <= set(hosts):
                raise BadInput(
                    f"domain {cluster} holds both hosts and domains",
                    fix="give its hosts a cluster of their own",
                )
        return cls(
            hosts,
            tuple(sorted(children)),
            clusters,
            {domain: tuple(sorted(below)) for domain, below in children.items()},
        )

    @property
    def servers(self) -> tuple[Domain, ...]:
        """Every server of the world: one per domain, one per host."""
        return tuple(sorted((*self.domains, *self.hosts)))

    def siblings(self, domain: Domain) -> tuple[Domain, ...]:
        """The other children of the enclosing domain; none for the root, and none for hosts."""
        if domain == ROOT or parent(domain) in self.clusters:
            return ()
        return tuple(other for other in self.children[parent(domain)] if other != domain)

    def neighbours(self, server: Domain) -> tuple[Domain, ...]:
        above = () if server == ROOT else (parent(server),)
        return (*above, *self.siblings(server), *self.children.get(server, ()))

    def links(self) -> tuple[tuple[Domain, Domain], ...]:
        """Every link once, the smaller name first."""
        return tuple(
            sorted({(min(a, b), max(a, b)) for a in self.servers for b in self.neighbours(a)}),
        )


def dials(me: Domain, peer: Domain) -> bool:
    """Which of two neighbours opens the connection: the child; of two siblings, the smaller name."""
    if me != ROOT and parent(me) == peer:
        return True
    if peer != ROOT and parent(peer) == me:
        return False
    return me < peer


def route(start: Domain, to: Domain, *, from_host: bool = True) -> tuple[Domain, ...]:
    """Every server on the unique path between two, both included (C-019).

    `from_host`: `start` is a host, whose agent is linked to its cluster's server only.
    """
    if start == to:
        return (start,)
    way = [start, parent(start)] if from_host else [start]
    while not inside(way[-1], to) and not inside(parent(way[-1]), to):
        way.append(parent(way[-1]))
    if not inside(way[-1], to):
        around = parent(way[-1])
        way.append(to if to == around else child(around, labels(to)[depth(around)]))
    while way[-1] != to:
        way.append(child(way[-1], labels(to)[depth(way[-1])]))
    return tuple(way)
