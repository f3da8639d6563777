"""The interest table of a domain server: which traffic of which group goes to which neighbour.

    row of chess@world      children            outer neighbours
                            c1   ALL            c2    NONE
                            c7   RESOLVE        eu    ALL, unconfirmed
    inner = ALL, announced to outer neighbours  outer = ALL, announced to children

There is one row per group with members below, and in it one entry per neighbour that announced an interest
(Congress's Groups matrix). Neighbours see two values of it: **inner**, the strongest entry of the children,
is announced to siblings and parent; **outer**, the strongest of siblings and parent, to children that are
domain servers (C-095..C-098). An entry that is too high costs messages, one that is too low loses members; so
an unknown entry counts as ALL (C-094), except that of a child which has announced all it has.

A stale NONE is the dangerous entry. When our inner rises, a neighbour may gain a member at the same moment
and not announce it, because we were not interested. So after a rise every outer neighbour is **unconfirmed**,
and counts as ALL, until it answers a request that was sent after the rise (C-099, T-20).

Where we differ from the paper: it takes an empty answer for NONE and then never sends to that side again
(T-11), compares the state before a change with a table that already holds the change (T-09), and makes a row
for every name that passes by (T-54). Here interest is announced in both directions whatever the other side's
entry says, and only children make rows.

A row is made when a child first has members and dropped when the last child has none. `reconsider` alone
decides what must be announced to whom after a change; the server turns its answer into messages.
"""

from collections import Counter

from msgspec import Struct

from rostra.names import Domain, Group
from rostra.protocols.relaxed.messages import Interest
from rostra.protocols.relaxed.neighbours import Neighbours, Relation

NONE, RESOLVE, ALL = Interest.NONE, Interest.RESOLVE, Interest.ALL


class Row:
    """What is known about one group.

    `holders` and `listeners` repeat the children's entries as every forwarded message needs them: sorted
    tuples, made again when an entry changes, which is far less often than they are read.
    """

    __slots__ = ("entries", "holders", "listeners", "outer", "rise", "told", "unconfirmed")

    def __init__(self) -> None:
        self.entries: dict[Domain, Interest] = {}
        self.holders: tuple[Domain, ...] = ()  # children with members below them: entry above NONE
        self.listeners: tuple[Domain, ...] = ()  # children that want every change: entry ALL
        self.unconfirmed: frozenset[Domain] = frozenset()
        self.rise = 0
        self.told = NONE  # the inner that was last announced to outer neighbours
        self.outer = NONE  # the outer that was last announced to children

    @property
    def inner(self) -> Interest:
        return ALL if self.listeners else RESOLVE if self.holders else NONE

    def enter_child(self, child: Domain, interest: Interest) -> None:
        self._repeat(child, self.entries.get(child, NONE), interest)
        self.entries[child] = interest

    def forget_child(self, child: Domain) -> None:
        self._repeat(child, self.entries.pop(child, NONE), NONE)

    def forget_outer(self, peer: Domain) -> None:
        self.entries.pop(peer, None)
        self.unconfirmed -= {peer}

    def _repeat(self, child: Domain, before: Interest, now: Interest) -> None:
        if (before > NONE) is not (now > NONE):
            self.holders = _with(self.holders, child) if now else _without(self.holders, child)
        if (before is ALL) is not (now is ALL):
            self.listeners = _with(self.listeners, child) if now is ALL else _without(self.listeners, child)


class Shift(Struct, frozen=True):
    """What a change to a row means for others."""

    outward: Interest | None = None  # tell siblings and parent in range
    inward: Interest | None = None  # tell the children that have members
    made: bool = False
    dropped: bool = False


NO_SHIFT = Shift()


class InterestTable:
    """`children_max`: rows that one child may have an entry in."""

    def __init__(self, neighbours: Neighbours, children_max: int) -> None:
        self.rows: dict[Group, Row] = {}
        self.entries: Counter[Domain] = Counter()  # of each child, over all rows
        self._neighbours = neighbours
        self._children_max = children_max
        self._rises = 0

    # What is known

    def want(self, group: Group, peer: Domain) -> Interest:
        """The interest of this neighbour in the group, as this server reckons with it (C-094)."""
        relation = self._neighbours.up.get(peer)
        if relation is None or not self._neighbours.in_range(group, relation):
            return NONE
        row = self.rows.get(group)
        if relation is Relation.CHILD:
            return NONE if row is None else row.entries.get(peer, NONE)
        return ALL if row is None else _want_of_outer(row, peer)

    def inner(self, group: Group) -> Interest:
        row = self.rows.get(group)
        return NONE if row is None else row.inner

    def outer(self, group: Group) -> Interest:
        row = self.rows.get(group)
        outer = self._neighbours.outer(group)
        return self._outer_of(group, row) if row is not None else ALL if outer else NONE

    def advertised(self, group: Group, relation: Relation) -> Interest:
        """The interest that we announce to such a neighbour (C-096)."""
        if relation is not Relation.CHILD:
            return self.inner(group)
        row = self.rows.get(group)
        return ALL if row is None else self._outer_of(group, row)

    # Who gets what

    def outer_listeners(self, group: Group) -> tuple[Domain, ...]:
        """Siblings and parent that want every change."""
        outer = self._neighbours.outer(group)
        row = self.rows.get(group)
        return outer if row is None else tuple(peer for peer in outer if _want_of_outer(row, peer) is ALL)

    def outer_holders(self, group: Group) -> tuple[Domain, ...]:
        """Siblings and parent that may have members on their side."""
        outer = self._neighbours.outer(group)
        row = self.rows.get(group)
        return outer if row is None else tuple(peer for peer in outer if _want_of_outer(row, peer) > NONE)

    def child_listeners(self, group: Group) -> tuple[Domain, ...]:
        row = self.rows.get(group)
        return () if row is None else row.listeners

    def child_holders(self, group: Group) -> tuple[Domain, ...]:
        """Children to ask: those that have members, and those that have not yet announced all they have and
        so may have some (T-14)."""
        row = self.rows.get(group)
        holders = () if row is None else row.holders
        if not self._neighbours.unsynced or self._neighbours.reach(group) is None:
            return holders
        entries = {} if row is None else row.entries
        return tuple(sorted((*holders, *(self._neighbours.unsynced - entries.keys()))))

    # What changes it

    def hear_child(self, group: Group, child: Domain, interest: Interest) -> Shift | None:
        """Enter the interest that a child announced; None if it has too many entries already."""
        row = self.rows.get(group)
        is_new = row is None or child not in row.entries
        if is_new and interest is not NONE and self.entries[child] >= self._children_max:
            return None
        if row is None:
            if interest is NONE:
                return NO_SHIFT
            row = self.rows[group] = Row()
        if interest is NONE and child not in self._neighbours.unsynced:
            # Of a child that has announced all, a missing entry means NONE. For the same
            # reason nothing has to be written into all rows when a child has synced (C-101).
            self._forget_child(row, child)
        else:
            self.entries[child] += is_new
            row.enter_child(child, interest)
        return self.reconsider(group)

    def _forget_child(self, row: Row, child: Domain) -> None:
        if child in row.entries:
            row.forget_child(child)
            self.entries[child] -= 1
            if not self.entries[child]:
                del self.entries[child]

    def hear_outer(self, group: Group, peer: Domain, interest: Interest) -> Shift | None:
        """Enter the interest that an outer neighbour announced, unconfirmed (C-099). None without a row:
        outer neighbours never make one (C-100)."""
        row = self.rows.get(group)
        if row is None:
            return None
        row.entries[peer] = interest
        return self.reconsider(group)

    def confirm(self, group: Group, peer: Domain, interest: Interest, rise: int) -> Shift:
        """An outer neighbour answered a request that was forwarded when the row's rise number was `rise`."""
        row = self.rows.get(group)
        if row is None or row.rise != rise:
            return NO_SHIFT
        row.entries[peer] = interest
        row.unconfirmed -= {peer}
        return self.reconsider(group)

    def rise_of(self, group: Group) -> int:
        """The number of the row's latest rise, never used for another; 0 without a row."""
        row = self.rows.get(group)
        return 0 if row is None else row.rise

    def reconsider(self, group: Group) -> Shift:
        """Sum the row up after a change: what must be announced, and is it still needed (C-097..C-100)?"""
        row = self.rows[group]
        inner, made = row.inner, row.rise == 0
        outward: Interest | None = None
        if inner is not row.told:
            if inner > row.told:
                self._rises += 1
                row.rise = self._rises
                row.unconfirmed = self._neighbours.outer_set(group)
            outward = row.told = inner
        if inner is NONE:
            for child in [peer for peer in row.entries if peer in self.entries]:
                self._forget_child(row, child)
            del self.rows[group]
            return Shift(outward, dropped=True)
        outer = self._outer_of(group, row)
        # Without a row children assume ALL, which cannot be too low: a new row has nothing to tell them.
        inward = None if made or outer is row.outer else outer
        row.outer = outer
        return Shift(outward, inward, made=made)

    def _outer_of(self, group: Group, row: Row) -> Interest:
        strongest = NONE
        for peer in self._neighbours.outer(group):
            if (want := _want_of_outer(row, peer)) is ALL:
                return ALL
            strongest = max(strongest, want)
        return strongest

    def rows_of(self, peer: Domain, relation: Relation) -> list[Group]:
        """The groups whose rows such a neighbour may change, sorted: of a child, those that have its entry;
        of an outer neighbour, those in its range."""
        if relation is Relation.CHILD:
            return sorted(group for group, row in self.rows.items() if peer in row.entries)
        return sorted(group for group in self.rows if self._neighbours.in_range(group, relation))

    def forget(self, group: Group, peer: Domain, relation: Relation) -> None:
        """Drop a lost neighbour's entry. The row is not reconsidered yet: until its loss has been announced,
        it must route as it did."""
        row = self.rows[group]
        if relation is Relation.CHILD:
            self._forget_child(row, peer)
        else:
            row.forget_outer(peer)


def _want_of_outer(row: Row, peer: Domain) -> Interest:
    return ALL if peer in row.unconfirmed else row.entries.get(peer, ALL)


def _with(peers: tuple[Domain, ...], peer: Domain) -> tuple[Domain, ...]:
    return tuple(sorted((*peers, peer)))


def _without(peers: tuple[Domain, ...], peer: Domain) -> tuple[Domain, ...]:
    return tuple(other for other in peers if other != peer)
