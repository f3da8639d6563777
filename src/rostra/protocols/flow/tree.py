"""The distribution tree: which delegates pass data to each other (X-067..X-073).

The tree is shared and undirected. The coordinator, the delegate with the smallest LAN name, makes it: the
root is the LAN with the least sum of round trips, the others are added nearest first, no node with more than
`fanout` children. The same inputs give the same tree.

**No path becomes longer.** A joining LAN must not delay what flows between others (X-002). So the best tree
replaces the present one only if it makes no path of that longer, or if no message was sent yet; else the
present tree is kept, and a new LAN is attached where it is nearest to the root. A path that is silent
(`ways.py`) counts as infinitely long, and is used only if there is no other.

**Where we differ from the paper: no attach messages, no standby neighbours** (X-071, X-073). Every delegate
knows the whole tree, and from its notices which delegates are present. The home delegate of a stream sends it
on its tree links, and directly to every delegate that the tree does not reach from there: one that has just
come, one below a neighbour that failed, all those beyond a partition that has healed. So no stream waits for
the coordinator, and no two sides have to agree on a link; the next tree takes this load off the home
delegates.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from rostra.names import Domain
from rostra.protocols.flow.messages import ForwardingTree

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

    near = DistanceMatrix(round_trips, unknown_s)
    apart, root = near.apart, near.middle(names, root)
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


def plan(
    lans: Iterable[Domain],
    before: Links,
    round_trips: RoundTrips,
    *,
    unknown_s: float,
    fanout: int,
    root: Domain | None,
) -> Links:
    """The next tree: the best one, if it makes no path of the present tree longer; else the present one, with
    every LAN attached that it does not reach."""
    names = sorted(set(lans))
    best = span(names, round_trips, unknown_s=unknown_s, fanout=fanout, root=root)
    near = DistanceMatrix(round_trips, unknown_s)
    kept = _forest(names, tuple([link for link in before if near.apart(*link) < inf]))
    if not kept:
        return best
    shorter = near.ways(names, best)
    if all(shorter[pair] <= way + SAME_S for pair, way in near.ways(names, kept).items()):
        return best
    return _extended(names, kept, near, fanout=fanout, root=near.middle(names, root))


SAME_S: Final = 0.002
"""Round trips that differ by less count as equal."""


class DistanceMatrix:
    """Round trips as measured, and along trees."""

    def __init__(self, round_trips: RoundTrips, unknown_s: float) -> None:
        self._round_trips, self._unknown_s = round_trips, unknown_s

    def apart(self, one: Domain, other: Domain) -> float:
        return self._round_trips.get((min(one, other), max(one, other)), self._unknown_s)

    def middle(self, names: list[Domain], root: Domain | None) -> Domain:
        """The configured root, or the LAN with the least sum of round trips."""
        if root is not None and root in names:
            return root
        return min(names, key=lambda name: (sum(self.apart(name, other) for other in names), name))

    def from_one(self, one: Domain, links: Links) -> dict[Domain, float]:
        """The distance of every LAN that these links reach from here."""
        near = _neighbourhood(links)
        found, todo = {one: 0.0}, [one]
        while todo:
            here = todo.pop()
            for there in near.get(here, ()):
                if there not in found:
                    found[there] = found[here] + self.apart(here, there)
                    todo.append(there)
        return found

    def ways(self, names: list[Domain], links: Links) -> dict[tuple[Domain, Domain], float]:
        """The length of the path between each two LANs that these links connect."""
        return {
            (one, other): way
            for one in names
            for other, way in self.from_one(one, links).items()
            if one < other
        }


def _forest(names: list[Domain], links: Links) -> Links:
    """Those of these links that are between present LANs, without cycles."""
    part = {name: name for name in names}

    def top(name: Domain) -> Domain:
        while part[name] != name:
            name = part[name]
        return name

    kept = []
    for one, other in links:
        if one in part and other in part and top(one) != top(other):
            part[top(one)] = top(other)
            kept.append((one, other))
    return tuple(sorted(kept))


def _extended(names: list[Domain], links: Links, near: DistanceMatrix, *, fanout: int, root: Domain) -> Links:
    """The same links, and one more for each part that they do not reach, until all LANs are reached."""
    while True:
        depth = near.from_one(root, links)
        if len(depth) == len(names):
            return links
        degree = {name: len(there) for name, there in _neighbourhood(links).items()}

        def crowded(name: Domain, degree: dict[Domain, int] = degree) -> bool:
            return degree.get(name, 0) >= fanout + (name != root)

        above, below = min(
            ((one, other) for one in depth for other in names if other not in depth),
            key=lambda link: (
                crowded(link[0]) or crowded(link[1]),
                depth[link[0]] + near.apart(*link),
                link,
            ),
        )
        links = tuple(sorted((*links, (min(above, below), max(above, below)))))


def _neighbourhood(links: Links) -> dict[Domain, list[Domain]]:
    near: dict[Domain, list[Domain]] = {}
    for one, other in links:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    return near


def reached(links: Links, me: Domain, present: set[Domain]) -> set[Domain]:
    """The LANs that can be reached from here over links between present LANs."""
    there = present | {me}
    near = _neighbourhood(tuple([link for link in links if there.issuperset(link)]))
    found, todo = {me}, [me]
    while todo:
        for each in near.get(todo.pop(), ()):
            if each not in found:
                found.add(each)
                todo.append(each)
    return found


def order(tree: ForwardingTree | None) -> tuple[int, Domain]:
    """Sorts trees: of two, the higher one is used (X-070)."""
    return (0, Domain("")) if tree is None else (tree.version, tree.coordinator)


class Forwarding:
    """Where one delegate forwards data to; cached until the tree or the present delegates change."""

    def __init__(self, me: Domain) -> None:
        self.me = me
        self.tree: ForwardingTree | None = None
        self.old: Links = ()  # links of the tree before, still in use for a while (TX-20)
        self.present: set[Domain] = set()  # the other delegates
        self._neighbours: tuple[Domain, ...] | None = None
        self._towards: dict[Domain, Domain] = {}
        self._direct: tuple[Domain, ...] | None = None

    def changed(self) -> None:
        self._neighbours = self._direct = None
        self._towards.clear()

    @property
    def neighbours(self) -> tuple[Domain, ...]:
        """On the links of the tree and, for a while, of the one before it."""
        if self._neighbours is None:
            links = (*(self.tree.links if self.tree is not None else ()), *self.old)
            near = {other if one == self.me else one for one, other in links if self.me in (one, other)}
            self._neighbours = tuple(sorted(near & self.present))
        return self._neighbours

    def towards(self, lan: Domain) -> Domain:
        """The next hop to this LAN in the tree; the LAN itself if the tree does not reach it."""
        found = self._towards.get(lan)
        if found is None:
            links = self.tree.links if self.tree is not None else ()
            beyond = tuple([link for link in links if self.me not in link])
            found = self._towards[lan] = next(
                (each for each in self.neighbours if lan in reached(beyond, each, self.present)), lan
            )
        return found

    @property
    def direct(self) -> tuple[Domain, ...]:
        """The delegates that the tree does not reach from here: streams of our own LAN go there directly."""
        if self._direct is None:
            links = self.tree.links if self.tree is not None else ()
            self._direct = tuple(sorted(self.present - reached(links, self.me, self.present)))
        return self._direct
