"""Looking into the servers of a world at rest: do their tables say what the twin says they should?"""

from rostra.names import Domain, Group
from rostra.protocols.resolve.domain import DomainServer
from rostra.protocols.resolve.local import LocalServer
from rostra.protocols.resolve.messages import Interest
from rostra.protocols.resolve.neighbours import Relation
from rostra.sim.twin import Twin
from rostra.sim.world import World


def check_at_rest(world: World, twin: Twin) -> None:
    """Everything that must hold in every working server once nothing is in flight; raises on what does
    not."""
    for path, process in world.processes.items():
        if not process.works:
            continue
        match process.core:
            case DomainServer() as server:
                _nothing_is_open(path, len(server.collections) + len(server.collections.questions))
                _rows_are_right(server, twin)
                _interest_is_sound(world, server)
            case LocalServer() as agent:
                _nothing_is_open(path, len(agent.open) + len(agent.questions))


def _nothing_is_open(path: Domain, open_questions: int) -> None:
    assert not open_questions, f"{path} still has {open_questions} open questions"


def _rows_are_right(server: DomainServer, twin: Twin) -> None:
    """C-146: a row for every handled group with somebody below, and no other."""
    rows, truth = tuple(sorted(server.table.rows)), twin.rows(server.domain)
    assert rows == truth, f"{server.domain} has rows for {_text(rows)}, should for {_text(truth)}"


def _interest_is_sound(world: World, server: DomainServer) -> None:
    """C-103: a child's entry is the child's state; what an outer neighbour is thought to want is never too
    little."""
    for peer, relation in server.neighbours.up.items():
        other = world.processes[peer].core
        groups = set(server.table.rows) | set(_groups(other))
        for group in sorted(groups):
            if not server.neighbours.in_range(group, relation):
                continue
            want = server.table.want(group, peer)
            state = _state(other, group, relation)
            if relation is Relation.CHILD:
                fine = want == state
            else:
                fine = want >= state or group not in server.table.rows
            assert fine, f"{server.domain} thinks {peer} wants {want.name} of {group}, it wants {state.name}"


def _state(core: object, group: Group, relation: Relation) -> Interest:
    """What a server advertises to one that calls it by this relation."""
    if isinstance(core, LocalServer):
        return core.interest(group)
    assert isinstance(core, DomainServer)
    return core.table.advertised(group, _THE_OTHER_WAY[relation])


_THE_OTHER_WAY = {
    Relation.CHILD: Relation.PARENT,
    Relation.SIBLING: Relation.SIBLING,
    Relation.PARENT: Relation.CHILD,
}


def _groups(core: object) -> tuple[Group, ...]:
    if isinstance(core, LocalServer):
        return tuple(core.groups)
    return tuple(core.table.rows) if isinstance(core, DomainServer) else ()


def _text(groups: tuple[Group, ...]) -> str:
    return ", ".join(map(str, groups)) or "nothing"
