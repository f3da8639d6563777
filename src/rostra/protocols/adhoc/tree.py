"""The distribution tree: which delegates pass data to each other (X-067..X-073).

The tree is shared and undirected. The coordinator, the delegate with the smallest LAN name, makes it: the
root is the LAN with the least sum of round trips, the others are added nearest first, no node with more than
`fanout` children. The same inputs give the same tree.

**Repair without asking.** Every delegate knows the whole tree, and knows by its notices who is there. Whoever
is home of a stream sends it on its tree links, and directly to every delegate that the tree does not reach
from there: one that has just come, one below a neighbour that was lost, everybody beyond a cut that has
healed. So nobody waits for the coordinator, and no two halves have to agree on a link; the next tree takes
the load off the homes again. This stands for the attach messages and standby neighbours of the specification
(X-071, X-073).
"""

from collections.abc import Iterable, Mapping

from rostra.names import Domain
from rostra.protocols.adhoc.messages import Tree

Links = tuple[tuple[Domain, Domain], ...]
"""Each link once, the smaller name first; sorted."""

RoundTrips = Mapping[tuple[Domain, Domain], float]


def span(
    lans: Iterable[Domain], round_trips: RoundTrips, *, unknown_s: float, fanout: int, root: Domain | None
) -> Links:
    """A tree over these LANs."""
    names = sorted(set(lans))
    if len(names) < 2:
        return ()

    def apart(one: Domain, other: Domain) -> float:
        key = (min(one, other), max(one, other))
        return round_trips.get(key, unknown_s)

    if root not in names:
        root = min(names, key=lambda name: (sum(apart(name, other) for other in names), name))
    assert root is not None
    depth = {root: 0.0}  # round trip to the root, along the tree
    children = dict.fromkeys(names, 0)
    links: list[tuple[Domain, Domain]] = []
    for name in sorted((name for name in names if name != root), key=lambda name: (apart(root, name), name)):
        above = min(
            (each for each in depth if children[each] < fanout),
            key=lambda each: (depth[each] + apart(each, name), each),
        )
        children[above] += 1
        depth[name] = depth[above] + apart(above, name)
        links.append((min(above, name), max(above, name)))
    return tuple(sorted(links))


def reached(links: Links, me: Domain, present: set[Domain]) -> set[Domain]:
    """Who can be reached from here over links between those who are there."""
    near: dict[Domain, list[Domain]] = {}
    for one, other in links:
        if (one in present or one == me) and (other in present or other == me):
            near.setdefault(one, []).append(other)
            near.setdefault(other, []).append(one)
    found, todo = {me}, [me]
    while todo:
        for each in near.get(todo.pop(), ()):
            if each not in found:
                found.add(each)
                todo.append(each)
    return found


def order(tree: Tree | None) -> tuple[int, Domain]:
    """Of two trees the higher one counts (X-070)."""
    return (0, Domain("")) if tree is None else (tree.version, tree.coordinator)


class Forwarding:
    """Where one delegate passes data on to. The answer is kept until the tree or the neighbours change."""

    def __init__(self, me: Domain) -> None:
        self.me = me
        self.tree: Tree | None = None
        self.old: Links = ()  # links of the tree before, still in use for a while (TX-20)
        self.present: set[Domain] = set()  # the other delegates
        self._neighbours: tuple[Domain, ...] | None = None
        self._direct: tuple[Domain, ...] | None = None

    def changed(self) -> None:
        self._neighbours = self._direct = None

    @property
    def neighbours(self) -> tuple[Domain, ...]:
        """On the links of the tree, those of the one before included."""
        if self._neighbours is None:
            links = (*(self.tree.links if self.tree is not None else ()), *self.old)
            near = {other if one == self.me else one for one, other in links if self.me in (one, other)}
            self._neighbours = tuple(sorted(near & self.present))
        return self._neighbours

    @property
    def direct(self) -> tuple[Domain, ...]:
        """Whom the tree does not reach from here: streams of our own LAN go there directly."""
        if self._direct is None:
            links = self.tree.links if self.tree is not None else ()
            self._direct = tuple(sorted(self.present - reached(links, self.me, self.present)))
        return self._direct
