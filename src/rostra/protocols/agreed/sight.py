"""Domains that a server has lost, and what a view says of their members: `suspects` and `without`.

    server ── ViewTold.lost ──▶ agent ── MemberView: suspects, without ──▶ program

Servers that the set isolated or removed, and hosts below this server, as they are when the view is sent: no
view comes because of a suspicion alone. A host in the branch of another server is for that server to know:
here its members have failed, and no domain is named.
"""

from collections.abc import Callable, Collection, Iterable

from rostra.names import Domain, Endpoint, host_of, inside, parent, strictly_inside
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.state import SetState


def lost_domains(
    set_name: Domain, state: SetState, view: AgreedView, host_lost: Callable[[Domain], Domain | None]
) -> tuple[Domain, ...]:
    """Those with members in this view, or with some that it lost."""
    linked = {each.server for each in state.view.servers if each not in state.isolated}
    is_lone = len(state.view.servers) == 1 and state.view.servers[0].server == set_name
    lost: set[Domain] = set()
    for host in view.hosts.union([host_of(id.endpoint) for id in view.failed]):
        if not strictly_inside(set_name, host):
            continue  # a server that lies can have it listed
        branch = host
        while branch != set_name and parent(branch) != set_name:
            branch = parent(branch)
        is_out = not is_lone and branch not in linked
        if (domain := branch if is_out else host_lost(host)) is not None:
            lost.add(domain)
    return tuple(sorted(lost))


def suspects_in(members: Iterable[MemberId], lost: Collection[Domain]) -> tuple[Endpoint, ...]:
    """The members that are listed, and that these servers cannot reach."""
    if not lost:
        return ()
    return tuple([id.endpoint for id in members if any(inside(each, id.endpoint) for each in lost)])


def lost_with(failed: Collection[MemberId], lost: Iterable[Domain]) -> tuple[Domain, ...]:
    """The domains with which members were lost."""
    return tuple([each for each in lost if any(inside(each, id.endpoint) for id in failed)])
