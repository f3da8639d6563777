"""Computing the tree between delegates, and agreeing on it (X-070).

    a delegate joins or leaves; a path is shorter, longer or silent
        ├─ at the coordinator: wait `settle_s`, compute the best tree (`tree.py`), send it to all delegates
        └─ at the others: send their round trips to the coordinator

The coordinator is the delegate with the smallest LAN name of those present, as each delegate sees them.
During a partition or a change there may be two: then there are two trees, the one with the higher version is
used, and the next keeps what it can of both. The coordinator with the older tree receives
the newer one, and makes a tree with a version above both: else the two would use different trees for good.
"""

from collections.abc import Iterable, Mapping
from math import inf

from rostra.names import Domain
from rostra.protocols.fifo.context import StepContext, delegate_of
from rostra.protocols.fifo.messages import Distances
from rostra.protocols.fifo.relays import Relays
from rostra.protocols.flow.messages import ForwardingTree
from rostra.protocols.flow.tree import Forwarding, Links, order, plan


class Planner:
    def __init__(self, context: StepContext, forwarding: Forwarding, relays: Relays) -> None:
        self._context = context
        self._config = context.config
        self._forwarding = forwarding
        self._relays = relays
        self._distances: dict[Domain, dict[Domain, float]] = {}  # as each of the others measured them
        self._other_links: Links = ()  # of a tree that lost against ours, or before it
        self.versions = 0  # of trees that others use

    @property
    def _here(self) -> set[Domain]:
        return {self._context.lan, *self._forwarding.present}

    @property
    def coordinator(self) -> Domain:
        return min(self._here)

    # What a tree is made of

    def present(self, lans: Iterable[Domain]) -> None:
        """Data goes to these delegates only."""
        present, forwarding = set(lans), self._forwarding
        if present != forwarding.present:
            for lan in sorted(forwarding.present - present):
                self._relays.ways.gone(lan)
                self._distances.pop(lan, None)
            forwarding.present = present
            forwarding.changed()
            self.soon()

    def distances(self, lan: Domain, round_trips: Mapping[Domain, float]) -> None:
        """The round trips that the delegate of this LAN measured."""
        self._distances[lan] = dict(round_trips)
        self.soon()

    def measured(self) -> None:
        """A round trip of ours has changed."""
        if self.coordinator != self._context.lan:
            round_trips = tuple(sorted(self._own().items()))
            distances = Distances(self._context.group, self._context.lan, round_trips)
            self._context.say(delegate_of(self.coordinator), distances)
        self.soon()

    def _own(self) -> dict[Domain, float]:
        """Our own round trips; infinite to delegates that are silent."""
        return {**self._relays.repairs.round_trips, **dict.fromkeys(self._relays.ways.silent, inf)}

    def _round_trips(self) -> dict[tuple[Domain, Domain], float]:
        """Between each two, the lesser of what both measured: retransmissions only add to a measurement."""
        found: dict[tuple[Domain, Domain], float] = {}
        measured = {**self._distances, self._context.lan: self._own()}
        for one in sorted(measured):
            for other, seconds in measured[one].items():
                pair = (min(one, other), max(one, other))
                before = found.get(pair, seconds)
                found[pair] = inf if inf in (seconds, before) else min(seconds, before)
        return found

    # Trees

    def soon(self) -> None:
        """Wait for more changes first: delegates often join together (X-070)."""
        if self.coordinator == self._context.lan and self._forwarding.present:
            self._context.set_timer(self._config.settle_s, "plan")

    def make(self) -> None:
        if self.coordinator != self._context.lan:
            return
        before = self._forwarding.tree
        kept = (*(() if before is None else before.links), *self._other_links)
        links = plan(
            (self._context.lan, *self._forwarding.present),
            kept if self._relays.carries else (),  # where no message was sent, none can be delayed
            self._round_trips(),
            unknown_s=self._config.round_trip_s,
            fanout=self._config.fanout,
            root=self._config.root,
        )
        version = max(order(before)[0], self.versions)
        if before is not None and (before.links, before.version) == (links, version):
            return
        version += 1
        tree = ForwardingTree(self._context.group, version, self._context.lan, links)
        for lan in sorted(self._forwarding.present):
            self._context.say(delegate_of(lan), tree)
        self._use(tree)

    def teach(self, lan: Domain, theirs: tuple[int, Domain]) -> None:
        """A delegate has joined: it may be the next coordinator, and must know the tree. One that was cut off
        may have made a tree of its own meanwhile; if that has the higher version, our next one is above
        both."""
        tree = self._forwarding.tree
        if tree is None or self._context.lan != min(self._here - {lan}) or theirs == order(tree):
            return
        if theirs > order(tree):
            self.versions = max(self.versions, theirs[0] + 1)
        else:
            self._context.say(delegate_of(lan), tree)

    def hear(self, source: Domain, tree: ForwardingTree) -> None:
        self.versions = max(self.versions, tree.version)
        before = self._forwarding.tree
        if order(tree) > order(before):
            self._other_links = () if before is None else before.links
            if before is not None and before.coordinator == self._context.lan:
                # Others may use ours: the next one is made above both.
                self.versions = max(self.versions, tree.version + 1)
            self._use(tree)
        else:
            # Of two sides that have found each other: the next tree keeps what it can of both.
            self._other_links = tree.links
            self._context.ignore("ForwardingTree", "older tree")
            if before is not None and order(tree) < order(before) and source == tree.coordinator:
                self._context.say(delegate_of(source), before)
        self.soon()

    def _use(self, tree: ForwardingTree) -> None:
        """Use the new links at once and the old ones for a while longer: overlap costs duplicates, which are
        dropped; a hole between them would cost repairs (TX-20)."""
        before = self._forwarding.tree
        self._forwarding.old = () if before is None else before.links
        self._forwarding.tree = tree
        self._forwarding.changed()
        self._context.note("tree", f"{tree.coordinator} {tree.version}")
        self._context.set_timer(self._config.settle_s, "settled")

    def settled(self) -> None:
        """All delegates use the new links by now."""
        self._forwarding.old = ()
        self._forwarding.changed()
