"""Members of branches that are lost are removed from their groups (V-018, V-064): from some groups in each
turn, since a host may be in thousands, and a server that computes for seconds is given up itself."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rostra.core.effects import Effect, Instant, TimerKey
from rostra.names import Domain, Group, host_of, inside
from rostra.protocols.agreed.changes import GroupVerb
from rostra.protocols.agreed.config import LOSS_AFTER_S, QUEUE_MAX

if TYPE_CHECKING:
    from rostra.protocols.agreed.part import CoreSet
    from rostra.protocols.agreed.server import AgreedServer

GROUPS_AT_ONCE: Final = 32

LOSING: Final[TimerKey] = ("agreed", "", "losing")

Losing = dict[tuple[Domain, Group], tuple[Domain, ...]]
"""The groups, by set, that still have members of these branches."""


def remove_lost(server: "AgreedServer", now: Instant, out: list[Effect]) -> None:
    """Of those whose lease is over; but not of a host that is back already."""
    lost = tuple([domain for domain, lent_until in server._lost.items() if lent_until <= now])
    for domain in lost:
        del server._lost[domain]
    for core in server._ordinary() if lost else ():
        for group in sorted(core.table.groups):
            ids = core.table.groups[group].view.ids
            if any(inside(domain, id.endpoint) for id in ids for domain in lost):
                place = core.core.set, group
                server.losing[place] = (*server.losing.get(place, ()), *lost)
    remove_some(server, now, out)


def remove_some(server: "AgreedServer", now: Instant, out: list[Effect]) -> None:
    for place in list(server.losing)[:GROUPS_AT_ONCE]:
        core, group = server.sets.get(place[0]), place[1]
        if core is not None and _is_full(core):
            return
        lost = server.losing.pop(place)
        known = None if core is None else core.table.get(group)
        if core is None or known is None:
            continue
        below = [id for id in known.view.ids if any(inside(domain, id.endpoint) for domain in lost)]
        gone = [id for id in below if id not in server._held(id, group)]
        server._propose_loss(now, core, group, gone, out)


def hosts_away(server: "AgreedServer", core: "CoreSet", group: Group, hosts: Iterable[Domain]) -> set[Domain]:
    """Those that get no view now, though they may be back: their members are being removed from this group,
    or will be, as of a lost branch, unless the host says first that it holds them."""
    going = server._proposed(core, group, GroupVerb.FAIL)
    failing = {host_of(id.endpoint) for id in going}
    away = {host_of(id.endpoint) for id in going if id in server._held(id, group)}
    lost = (*server._lost, *server.losing.get((core.core.set, group), ()))
    for host in hosts:
        is_going = host in failing or any(inside(domain, host) for domain in lost)
        if is_going and group not in server._holding.get(host, {}):
            away.add(host)
    return away


def next_s(server: "AgreedServer") -> float:
    """How long until the next of them: at once, or when other changes are done."""
    name = next(iter(server.losing), (None, None))[0]
    core = None if name is None else server.sets.get(name)
    return LOSS_AFTER_S if core is not None and _is_full(core) else 0.0


def _is_full(core: "CoreSet") -> bool:
    return len(core.core.state.queue) >= QUEUE_MAX
