"""The neighbours of a domain server: its parent, its siblings, its children, and which of them are up.

                    parent              ┐
                       │                ├ outer: reached only by groups that are wide enough
    sibling ───── this domain           ┘
                       │
                    children              inner: domain servers; below a cluster, the agents of its hosts

Relations follow from the paths alone (C-018), and so does how far a group reaches. This server handles a
group with scope S if S strictly encloses its domain, or if its domain is a cluster and S is the cluster
itself (C-010). The group reaches the siblings if S encloses the parent's domain, and the parent only if S
encloses it strictly (C-092).

Where we differ from the paper: it numbers levels and compares numbers, which is off by one for groups of one
cluster and leaks their names to the next (T-01, T-02). Paths need no counting.
"""

from enum import IntEnum

from rostra.groups.members import Members, Part
from rostra.names import ROOT, Domain, Group, child, depth, enclosing, inside, labels, parent


class Relation(IntEnum):
    """What a neighbour is to us. A group that reaches one kind reaches those before it."""

    CHILD = 0
    SIBLING = 1
    PARENT = 2


class Neighbours:
    """The state of every neighbour: up or down; and for a child, whether it has announced all it has
    (C-088)."""

    def __init__(self, domain: Domain, *, cluster: bool) -> None:
        self.domain = domain
        self.cluster = cluster
        self.parent = None if domain == ROOT else parent(domain)
        self.up: dict[Domain, Relation] = {}
        self.unsynced: set[Domain] = set()
        self._reach = {
            scope: reach for scope in enclosing(domain) if (reach := self._reach_of(scope)) is not None
        }
        self._outer: tuple[tuple[Domain, ...], ...] = ((), (), ())
        self._outer_sets: tuple[frozenset[Domain], ...] = (frozenset(),) * 3

    def relation(self, peer: Domain) -> Relation | None:
        """What this path is to us, up or down, known or not; None if it is no neighbour's."""
        if peer == self.domain:
            return None
        if peer == self.parent:
            return Relation.PARENT
        if peer == ROOT:
            return None
        if parent(peer) == self.domain:
            return Relation.CHILD
        return Relation.SIBLING if parent(peer) == self.parent else None

    def connect(self, peer: Domain, relation: Relation) -> None:
        self.up[peer] = relation
        if relation is Relation.CHILD:
            self.unsynced.add(peer)
        else:
            self._list_outer()

    def disconnect(self, peer: Domain) -> None:
        if self.up.pop(peer) is Relation.CHILD:
            self.unsynced.discard(peer)
        else:
            self._list_outer()

    @property
    def children(self) -> tuple[Domain, ...]:
        """The children that are up, sorted."""
        return tuple(sorted(peer for peer, relation in self.up.items() if relation is Relation.CHILD))

    # How far groups reach

    def reach(self, group: Group) -> Relation | None:
        """The farthest kind of neighbour that the group reaches; None if this server does not handle it
        (C-010)."""
        return self._reach.get(group.scope)

    def in_range(self, group: Group, relation: Relation) -> bool:
        reach = self._reach.get(group.scope)
        return reach is not None and reach >= relation

    def outer(self, group: Group) -> tuple[Domain, ...]:
        """The siblings and the parent that are up and in the group's range, sorted."""
        reach = self._reach.get(group.scope)
        return () if reach is None else self._outer[reach]

    def outer_set(self, group: Group) -> frozenset[Domain]:
        """The same as one shared set, so that a thousand rows can hold it for the price of one."""
        return self._outer_sets[self._reach[group.scope]]

    # Who may speak for whom

    def side_of(self, peer: Domain, relation: Relation) -> Part:
        """The part of the world behind a neighbour: all that is lost with it, and all it may report about."""
        return Part(relation is not Relation.PARENT, peer)

    def may_speak_of(self, peer: Domain, relation: Relation, part: Part) -> bool:
        """Is this whole part behind that neighbour?"""
        if relation is not Relation.PARENT:
            return part.within and inside(peer, part.domain)
        if part.within:
            return not inside(peer, part.domain) and not inside(part.domain, peer)
        return inside(part.domain, peer)

    def credible(self, peer: Domain, relation: Relation, group: Group, members: Members) -> Members:
        """The records that are inside the scope and behind that neighbour (C-125): the very same tuple if all
        are, as they nearly always are."""
        here = (f"{peer}.", f"{peer}/")
        if relation is not Relation.PARENT:  # what is behind a child or sibling in range is inside the scope
            good = tuple([member for member in members if member.endpoint.startswith(here)])
        else:
            scope = group.scope
            good = tuple(
                [
                    member
                    for member in members
                    if not member.endpoint.startswith(here) and inside(scope, member.endpoint)
                ]
            )
        return members if len(good) == len(members) else good

    # Which way to go

    def next_hop(self, host: Domain) -> Domain | None:
        """The neighbour that is next on the unique path to a host, up or down (C-019); None if the path is
        not one that a host could have."""
        if inside(self.domain, host):
            above = self.domain
        elif self.parent is not None and inside(self.parent, host):
            above = self.parent
        else:
            return self.parent
        if depth(host) <= depth(above):
            return None
        return child(above, labels(host)[depth(above)])

    def hop_towards(self, server: Domain) -> Domain | None:
        """The same for any server, of a host or of a domain; None if it is ourselves."""
        return server if server in self.up or server == self.parent else self.next_hop(server)

    def speaks_for(self, peer: Domain, source: Domain) -> bool:
        """Is the source behind this neighbour? Behind a host, a cluster's child, is only that host."""
        if self.cluster and self.relation(peer) is Relation.CHILD:
            return source == peer
        return self.hop_towards(source) == peer

    def onward(self, sender: Domain, relation: Relation, hop: Domain | None) -> Domain | None:
        """Where what came from this neighbour goes next; None where nothing may go: back, across a second
        sibling link, or from child to child past the link that they share (C-118)."""
        if hop is None or hop == sender:
            return None
        downward = self.relation(hop) is Relation.CHILD
        if relation is Relation.CHILD:
            return hop if self.cluster or not downward else None
        return hop if downward else None

    def _reach_of(self, scope: Domain) -> Relation | None:
        if scope == self.domain:
            return Relation.CHILD if self.cluster else None
        return Relation.SIBLING if scope == self.parent else Relation.PARENT

    def _list_outer(self) -> None:
        siblings = tuple(sorted(peer for peer, relation in self.up.items() if relation is Relation.SIBLING))
        outer = siblings
        if self.parent is not None and self.parent in self.up:
            outer = tuple(sorted((*siblings, self.parent)))
        self._outer = ((), siblings, outer)
        self._outer_sets = (frozenset(), frozenset(siblings), frozenset(outer))
