"""Where calls about groups go whose core-set is not that of their scope: by the pointers that joins follow.

    a call  ──▶ up, to the first set that has the group, or knows a branch that has it
            ──▶ across, to the server of that branch ──▶ down, to a set that has it ──▶ the answer, back
    a list  ──▶ up, to the set of the scope ──▶ across and down, to all sets with groups of this scope

What came from above, or from beside us, goes down alone: so it ends, also where a pointer is not true any
more. A call that finds nothing where a pointer leads is asked again by its agent.

Two groups are split or merged by the set of their scope: those that are elsewhere come there first.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rostra.core.effects import Effect, Instant
from rostra.names import Domain, Group, inside
from rostra.protocols.agreed.changes import GroupPlace, GroupPlaced, PlaceStep
from rostra.protocols.agreed.moves import NOWHERE
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.relaxed.neighbours import Relation

if TYPE_CHECKING:
    from rostra.protocols.agreed.server import AgreedServer


def set_with(server: "AgreedServer", group: Group) -> CoreSet | None:
    """Of our sets the one that has the group. Of two, between which it moves, the one that may change it."""
    found = [core for core in _sets_of(server, group.scope) if core.table.get(group) is not None]
    return min(found, key=lambda core: _place(core, group).mover is not None, default=None)


def way_to(server: "AgreedServer", group: Group, *, climbs: bool) -> Domain | None:
    """The neighbour that is nearer to the set that has it; ourselves, if that is not known yet. None, if none
    of our sets knows it."""
    upper, lower = server.sets.get(server._above or server.domain), below_us(server, group.scope)
    beside = _place(upper, group).below if upper is not None else ()
    below = _place(lower, group).below if lower is not None else ()
    if climbs and beside and server.domain not in beside:
        return beside[0]
    if below:
        return below[0]
    return server.domain if beside or not climbs else None


def below_us(server: "AgreedServer", scope: Domain) -> CoreSet | None:
    """The set of our domain, to which groups of wider scopes may have come down."""
    return None if scope == server.domain else server.sets.get(server.domain)


def branches_with(core: CoreSet, scope: Domain) -> tuple[Domain, ...]:
    """Those of this set that have groups of this scope."""
    places = [place for group, place in core.table.places.items() if group.scope == scope]
    return tuple(sorted({branch for place in places for branch in place.below}))


def may_answer(server: "AgreedServer", sender: Domain, relation: Relation | None, scope: Domain) -> bool:
    """Could we have asked this neighbour about a group of this scope?"""
    if relation is None or relation is Relation.PARENT:
        return relation is not None and inside(scope, server.domain)
    core = server.sets.get(server._above or server.domain)
    if relation is Relation.CHILD:
        core = below_us(server, scope)
    return core is not None and sender in branches_with(core, scope)


def may_bring(
    server: "AgreedServer", sender: Domain, relation: Relation | None, scope: Domain, host: Domain
) -> bool:
    """May this neighbour bring a call of this host? One beside us those of its branch, our parent those of
    other branches."""
    if relation is None or not inside(scope, server.domain):
        return False
    if relation is Relation.CHILD:
        return server._neighbours.next_hop(host) == sender
    if not server._config.moves or scope == server.domain or inside(server.domain, host):
        return False
    return inside(sender if relation is Relation.SIBLING else scope, host)


def are_elsewhere(core: CoreSet, groups: Iterable[Group]) -> bool:
    """Is one of them not in this set, or about to go?"""
    return any(_place(core, group) != NOWHERE for group in groups)


def come_together(
    server: "AgreedServer", now: Instant, core: CoreSet, groups: Iterable[Group], out: list[Effect]
) -> bool:
    """Are all of these here, or nowhere? Those that are elsewhere are to come."""
    away = [group for group in groups if are_elsewhere(core, [group])]
    for group in away:
        if _place(core, group).below and not _place(core, group).pull:
            server._propose(now, core, GroupPlaced(group, PlaceStep.WANT, core.core.state.me), out)
    return not away


def _sets_of(server: "AgreedServer", scope: Domain) -> list[CoreSet]:
    """The sets that may have groups of this scope. In that of our own domain we are the parent, and answer
    for groups that have come down to it."""
    return [core for core in server.sets.values() if not core.is_parent or scope != server.domain]


def _place(core: CoreSet, group: Group) -> GroupPlace:
    return core.table.places.get(group, NOWHERE)
