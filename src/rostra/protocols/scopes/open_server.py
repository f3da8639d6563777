"""Groups of open scope at a server: which children have members, and how far the group reaches.

    child ── PointersKept ──▶ row: {children with members} ──▶ PointersKept ──▶ parent
                                     │
    parent ── ScopeTold(D) ─────────▶│ above us: the same to our children
           ── ScopeTold(none) ──────▶│ all are below us ──┬── below two children, or a cluster: it is ours
                                     │                    └── below one: ScopeTold(none) to that child
    only one child is left ── for `contract_after_s` ─────────────┘

The scope of an open group is the smallest domain that contains all of its members (C-169). Each server above
a member has a **row** with the name, and in it the children that have members; nothing that happens inside
the group touches it. A row is passed up once, when it is made, so a join climbs to the first server that has
one, and costs nothing above it (C-170). The lowest server with rows from two children is the lowest common
ancestor of all members: it decides, also when two found the group at once (C-172).

A scope moves down one step at a time, each after a calm (C-171). A server without its parent goes on with
what it knows: a cut is for the group's membership to notice. One that restarted hears from its children which
scope they know, and takes a wider one for a reason to wait before it narrows it.

Where we differ from the paper, and why: it says what open groups are for and leaves the protocol open. Rows
are volatile and announced with each link, as interest is (C-133).
"""

from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.names import Domain, inside
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.scopes.config import POINTERS_OF_HOST_MAX, SERVERS_WEIGH, ScopesConfig
from rostra.protocols.scopes.messages import (
    POINTERS_MAX,
    PointersDropped,
    PointersKept,
    PointersRefused,
    ScopeTold,
)

OPEN_SERVER: Final = ServiceName["OpenServer"]("scopes open server")


class PointerRow(Struct, frozen=True):
    """One group: who has members, what our parent says, and what we tell."""

    holders: tuple[Domain, ...] = ()  # sorted
    asked: bool = False  # our parent has not answered yet
    above: Domain | None = None  # a scope wider than our domain; none: all members are below us
    scope: Domain | None = None  # ours or a wider one; none: it is below one of our children
    is_told: bool = False  # were the holders told that scope? If not, one of them says that it knows it
    narrows: bool = False  # the timer runs


class OpenServer(Service):
    name = OPEN_SERVER
    takes = (PointersKept, PointersDropped, ScopeTold, PointersRefused, LinkUp, LinkDown, LinkMoved)

    def __init__(self, domain: Domain, config: ScopesConfig) -> None:
        self.domain = domain
        self.config = config
        self.rows: dict[str, PointerRow] = {}
        self.held: Counter[Domain] = Counter()  # rows of each child
        self._up: set[Domain] = set()  # neighbours
        self._out: list[Effect] = []

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out = self._out = []
        match event:
            case Received(sender, message):
                relation = self._neighbours.relation(sender)
                if relation is Relation.CHILD:
                    self._from_child(sender, message)
                elif relation is Relation.PARENT:
                    self._from_parent(message)
                else:
                    out.append(ignored(message, "not a neighbour"))
            case LinkUp(peer) | LinkMoved(peer):
                self._up.add(peer)
                if isinstance(event, LinkMoved) and self._neighbours.relation(peer) is Relation.CHILD:
                    self._unlinked(peer)  # what it dropped meanwhile is lost: it says anew what it has
                self._linked(peer)
            case LinkDown(peer):
                self._up.discard(peer)
                self._unlinked(peer)
            case TimerFired(("scopes", "narrow", str(name))) if name in self.rows:
                self._narrow(name)
            case _:
                out.append(ignored(event, "nothing waits for it"))
        return out

    # From below

    def _from_child(self, child: Domain, message: object) -> None:
        match message:
            case PointersKept(rows):
                self._kept(child, rows)
            case PointersDropped(names):
                for name in names:
                    if child in self.rows.get(name, PointerRow()).holders:
                        self._drop(name, child)
                    else:
                        self._out.append(Ignored("PointersDropped", "no row"))
            case _:
                self._out.append(ignored(message, "not our parent"))

    def _kept(self, child: Domain, names: tuple[tuple[str, Domain | None], ...]) -> None:
        most = POINTERS_OF_HOST_MAX * (1 if self._neighbours.cluster else SERVERS_WEIGH)
        refused = []
        for name, scope in names:
            row = self.rows.get(name)
            if (row is None or child not in row.holders) and self.held[child] >= most:
                refused.append(name)
                continue
            self._keep(name, child, scope)
        if refused:
            self._out.append(Ignored("PointersKept", "too many groups"))
            self._out.append(Send(child, PointersRefused(tuple(refused))))

    def _keep(self, name: str, child: Domain, scope: Domain | None) -> None:
        row = self.rows.get(name)
        if row is None:
            known = scope if scope is not None and inside(scope, self.domain) else None
            row = PointerRow(asked=self._has_parent, scope=known)
            self._out.append(Noted("pointer made", name))
            if self._has_parent:
                self._tell_parent(PointersKept(((name, known),)))
        if child not in row.holders:
            self.held[child] += 1
            row = replace(row, holders=tuple(sorted({*row.holders, child})))
        self._decide(name, row, child)

    def _drop(self, name: str, child: Domain) -> None:
        row = self.rows[name]
        row = replace(row, holders=tuple([each for each in row.holders if each != child]))
        self.held[child] -= 1
        if not self.held[child]:
            del self.held[child]
        if row.holders:
            self._decide(name, row)
            return
        del self.rows[name]
        self._stop(name, row)
        self._out.append(Noted("pointer dropped", name))
        if self._has_parent:
            self._tell_parent(PointersDropped((name,)))

    # From above

    def _from_parent(self, message: object) -> None:
        match message:
            case ScopeTold(name, scope):
                row = self.rows.get(name)
                if row is None:
                    self._out.append(Ignored("ScopeTold", "no row"))
                elif scope is not None and (scope == self.domain or not inside(scope, self.domain)):
                    self._out.append(Ignored("ScopeTold", "out of scope"))
                else:
                    self._decide(name, replace(row, asked=False, above=scope))
            case PointersRefused(names):
                for name in [name for name in names if name in self.rows]:
                    # Without a row above us it is a group of our own part.
                    self._decide(name, replace(self.rows[name], asked=False, above=None))
            case _:
                self._out.append(ignored(message, "not a child"))

    # What follows

    def _decide(self, name: str, row: PointerRow, joined: Domain | None = None) -> None:
        """`joined`: a child that announced members, and is sent the scope in any case."""
        if row.asked:
            self.rows[name] = row
            return
        scope, narrows = row.above, False
        if scope is None:
            if self._neighbours.cluster or len(row.holders) > 1:
                scope = self.domain
            elif row.scope is not None:  # it was as wide as this, and may become so again
                scope, narrows = self.domain, True
        self._wait(name, row, narrows)
        self.rows[name] = replace(row, scope=scope, is_told=True, narrows=narrows)
        is_news = not row.is_told or scope != row.scope
        told = row.holders if is_news else tuple([each for each in row.holders if each == joined])
        self._out += [Send(child, ScopeTold(name, scope)) for child in told]

    def _narrow(self, name: str) -> None:
        """All members have been below one child for `contract_after_s`: the scope moves down."""
        row = self.rows[name]
        if not row.narrows or len(row.holders) != 1:
            self._out.append(Ignored("TimerFired", "nothing waits for it"))
            return
        self.rows[name] = replace(row, scope=None, narrows=False)
        self._out.append(Noted("scope narrowed", name))
        self._out.append(Send(row.holders[0], ScopeTold(name, None)))

    def _wait(self, name: str, row: PointerRow, narrows: bool) -> None:
        if narrows and not row.narrows:
            self._out.append(SetTimer(_timer(name), self.config.contract_after_s))
        elif not narrows:
            self._stop(name, row)

    def _stop(self, name: str, row: PointerRow) -> None:
        if row.narrows:
            self._out.append(CancelTimer(_timer(name)))

    # Links

    @property
    def _has_parent(self) -> bool:
        return self._neighbours.parent in self._up

    def _tell_parent(self, message: PointersKept | PointersDropped) -> None:
        parent = self._neighbours.parent
        assert parent is not None, "the root has no parent"
        self._out.append(Send(parent, message))

    def _linked(self, peer: Domain) -> None:
        if peer != self._neighbours.parent:
            return
        names = [(name, row.scope) for name, row in sorted(self.rows.items())]
        for at in range(0, len(names), POINTERS_MAX):
            self._out.append(Send(peer, PointersKept(tuple(names[at : at + POINTERS_MAX]))))

    def _unlinked(self, peer: Domain) -> None:
        match self._neighbours.relation(peer):
            case Relation.CHILD:
                for name in [name for name, row in self.rows.items() if peer in row.holders]:
                    self._drop(name, peer)
            case Relation.PARENT:
                for name in [name for name, row in self.rows.items() if row.asked]:
                    self._decide(name, replace(self.rows[name], asked=False))


def _timer(name: str) -> TimerKey:
    return ("scopes", "narrow", name)
