"""What must hold of a set, over the states of all agents: IS-1, IS-2 at every step, P-2, P-3 in calm."""

from collections.abc import Mapping

from rostra.names import Domain
from rostra.protocols.led.messages import Entries
from rostra.protocols.led.state import Child, Leader, TreeState


def no_cycle(states: Mapping[Domain, TreeState]) -> list[str]:
    """IS-1: the parents of a set form no cycle."""
    parents = {
        agent: state.record.standing.parent
        for agent, state in states.items()
        if state.record is not None and isinstance(state.record.standing, Child)
    }
    found = []
    for agent in parents:
        at, seen = agent, {agent}
        while (above := parents.get(at)) is not None and above not in seen:
            seen.add(above)
            at = above
        if above == agent:
            found.append(f"IS-1: {agent} is below itself")
    return found


def no_empty_record(states: Mapping[Domain, TreeState]) -> list[str]:
    """IS-2: no agent without members and children keeps a record."""
    return [
        f"IS-2: {agent} keeps an empty record"
        for agent, state in states.items()
        if state.record is not None and not state.record.local and not state.record.children
    ]


def one_leader(states: Mapping[Domain, TreeState]) -> list[str]:
    """P-2, of the agents of one partition."""
    records = [state.record for state in states.values() if state.record is not None]
    leaders = sorted(
        [
            agent
            for agent, state in states.items()
            if state.record and isinstance(state.record.standing, Leader)
        ]
    )
    if not records or len(leaders) == 1:
        return []
    return [f"P-2: {len(leaders)} leaders: {', '.join(leaders)}" if leaders else "P-2: no leader"]


def exact_list(listed: Entries, states: Mapping[Domain, TreeState]) -> list[str]:
    """P-3: the leader's list is exactly the members that agents have."""
    truth = {
        (agent, member.name)
        for agent, state in states.items()
        if state.record is not None
        for member in state.record.local
    }
    found = {(entry.origin, member.name) for entry in listed for member in entry.members}
    missing = [f"P-3: {agent}/{name} is missing" for agent, name in sorted(truth - found)]
    return missing + [f"P-3: {agent}/{name} is listed, and gone" for agent, name in sorted(found - truth)]
