"""A simulated program's membership in a group whose messages have one order, and what is promised of it.

total-order    a position stands for one message in a view, at every member; no position is left out
all-or-none    what any member was given in a view is before every view that came next
integrity      each sender's messages in order, each once, with their content
on-disk        of groups with ``stable="disk"``: a position stands for one message for ever, and those who
               begin when all others are gone are given all that any member was ever given

With ``stable="sent"`` all-or-none is not promised: a member may be lost with what no other has. Those who go
on together were given the same.
"""

from collections.abc import Iterable

from rostra.names import Endpoint, Group
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.requests import OrderClosed, OrderedRun, OrderPlaced
from rostra.protocols.fifo.events import Item
from rostra.protocols.flow.runs import payloads

Key = tuple[int, int, str]
"""Names a view."""


class OrderBroken(AssertionError):
    pass


class SimOrder:
    """One membership, as the library keeps it."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.said = 0
        self.placed = 0  # of our own
        self.view: Key | None = None
        self.next = 0  # the position that comes next; 0: not known yet
        self.last: dict[Endpoint, int] = {}  # per sender: its last number
        self.log: list[tuple[int, Endpoint, int]] = []  # position, sender, number
        self.tail: list[tuple[int, Endpoint, int]] = []  # since the last view
        self.closed = ""
        self.before: set[int] = set()  # positions that we were given before our first view

    def take(self, me: Endpoint, item: Item) -> None:
        match item:
            case OrderedRun(sender, run) if sender == me:
                self.placed = max(self.placed, run.end - 1)
            case OrderPlaced(first, count):
                self.placed = max(self.placed, first + count - 1)
            case OrderClosed(cause=cause):
                self.closed = cause


class OrderJudge:
    """Sees what every member of every group is given, and remembers it. In groups with `tails` those who go
    on from a view together were given the same in it; what a member was given in the view in which it was
    lost does not count (TA10). In groups with `sent` it counts for the order, and not for all-or-none."""

    def __init__(
        self,
        *,
        tails: frozenset[Group] = frozenset(),
        on_disk: frozenset[Group] = frozenset(),
        sent: frozenset[Group] = frozenset(),
    ) -> None:
        self.tails = tails
        self.on_disk = on_disk
        self.sent = sent
        self._ever: dict[Group, dict[int, tuple[Endpoint, int]]] = {group: {} for group in on_disk}
        self._empty: dict[Group, set[int]] = {group: set() for group in on_disk}
        self.runs = 0
        self.messages = 0
        self._at: dict[tuple[Group, Key, Key | None, int], tuple[Endpoint, int]] = {}
        self._begins: dict[tuple[Group, Key], int] = {}  # the position after a view's own
        self._highest: dict[tuple[Group, Key], int] = {}  # the last position that a member was given in it
        self._after: dict[tuple[Group, Key], set[Key]] = {}
        self._said: dict[tuple[Group, Endpoint, int], bytes] = {}

    def says(self, group: Group, sender: Endpoint, number: int, body: bytes) -> None:
        self._said[group, sender, number] = body

    def given(self, me: Endpoint, order: SimOrder, item: Item) -> None:
        match item:
            case MemberView(number, revision, pid):
                key = (number, revision, pid)
                if order.view is None and order.group in self.on_disk:
                    self._begun(me, order, item)
                if key != order.view:
                    self._view(me, order, key)
            case OrderedRun(sender, run, position):
                self.runs += 1
                for nth, body in enumerate(payloads(run)):
                    self._message(me, order, sender, run.first + nth, position + nth, body)

    def _view(self, me: Endpoint, order: SimOrder, key: Key) -> None:
        group = order.group
        self._count_tail(me, order, key)
        if order.view is not None:
            self._after.setdefault((group, order.view), set()).add(key)
            if order.next:  # else it was given no message yet, and knows of no position
                order.next += 1
                self._begin(me, group, key, order.next)
        order.view = key

    def _begun(self, me: Endpoint, order: SimOrder, item: MemberView) -> None:
        """A member's first view: if no other member is older, it must have been given all that was kept."""
        if item.members is None or len(item.joined) < len(item.members):
            return
        lost = sorted(self._ever[order.group].keys() - order.before)
        if lost:
            raise OrderBroken(f"on-disk: {me} begins in {order.group} without {lost[:3]}, of {len(lost)}")

    def _begin(self, me: Endpoint, group: Group, key: Key, position: int) -> None:
        if group in self.on_disk:
            return  # every position is compared, whatever the view
        known = self._begins.setdefault((group, key), position)
        if known != position:
            raise OrderBroken(
                f"total-order: view {key} of {group} ends at {known}, and at {position} for {me}"
            )

    def _message(
        self, me: Endpoint, order: SimOrder, sender: Endpoint, number: int, position: int, body: bytes
    ) -> None:
        group, view = order.group, order.view
        what = f"{me} is given {sender} {number} at {position} of {group}"
        if group in self.on_disk:
            known = self._ever[group].setdefault(position, (sender, number))
            if known != (sender, number) or position in self._empty[group]:
                raise OrderBroken(f"on-disk: {what}, where {known} was given, or nothing")
        if view is None and group in self.on_disk:
            if self._said.get((group, sender, number)) != body or position <= max(order.before, default=0):
                raise OrderBroken(f"on-disk: {what}, which was not said so, or not there")
            order.before.add(position)
            return
        if view is None:
            raise OrderBroken(f"total-order: {what} before any view")
        if not order.next:
            order.next = position
            self._begin(me, group, view, position)
        if group in self.on_disk:
            self._pass_over(group, order, position)
        if position != order.next:
            raise OrderBroken(f"total-order: {what}, and {order.next} comes next")
        order.tail.append((position, sender, number))
        if group not in self.tails:
            self._count_tail(me, order)
        if self._said.get((group, sender, number)) != body:
            raise OrderBroken(f"integrity: {what}, which was not said so")
        before = order.last.get(sender)
        if before is not None and number != before + 1:
            raise OrderBroken(f"integrity: {what}, after {before}")
        order.last[sender] = number
        order.next = position + 1
        order.log.append((position, sender, number))
        self.messages += 1

    def _pass_over(self, group: Group, order: SimOrder, position: int) -> None:
        """Views that are placed again are shown to none: there is no message at such a place."""
        while order.next < position and order.next not in self._ever[group]:
            self._empty[group].add(order.next)
            order.next += 1

    def _count_tail(self, me: Endpoint, order: SimOrder, following: Key | None = None) -> None:
        """What it was given in its view is at those places for all others as well."""
        tail, order.tail = order.tail, []
        for position, sender, number in tail:
            assert order.view is not None
            key = (order.group, order.view)
            together = following if order.group in self.tails else None
            known = self._at.setdefault((*key, together, position), (sender, number))
            if known != (sender, number):
                what = f"{me} is given {sender} {number} at {position} of {order.group}"
                raise OrderBroken(f"total-order: {what}, where another was given {known}")
            self._highest[key] = max(self._highest.get(key, 0), position)

    def end(self, exclusive: frozenset[Group], living: Iterable[tuple[Endpoint, SimOrder]] = ()) -> None:
        """All-or-none, where it is promised, and uniformly: those who were excluded count as well (H6).
        Where both sides of a partition go on, each has its own end of the view that they shared: only those
        who stay together agree on it."""
        for me, order in living:
            self._count_tail(me, order)
        for (group, view), later in sorted(self._after.items()):
            if group not in exclusive or group in self.sent:
                continue
            highest = self._highest.get((group, view), 0)
            for key in sorted(later):
                begins = self._begins.get((group, key))
                if begins is not None and highest >= begins - 1:
                    what = f"{highest} of {group} was given in view {view}"
                    raise OrderBroken(f"all-or-none: {what}, and {key} came before it")
