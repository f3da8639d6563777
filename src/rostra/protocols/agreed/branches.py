"""Which members of a group are below which server of a set."""

from collections.abc import Iterable

from rostra.names import Domain, host_of, inside, parent
from rostra.protocols.agreed.changes import MemberId, ServerId, SetView


def branches_of(view: SetView, servers: Iterable[ServerId]) -> list[Domain]:
    """What is lost with these servers: all below the parent is below others too."""
    gone = frozenset(servers)
    return [each.id.server for each in view.members if each.id in gone and not each.parent]


def is_below(view: SetView, member: MemberId, absent: Iterable[ServerId] = ()) -> bool:
    """Is this member's host below a server of the set, and not of an absent one? Of one cluster's set, one of
    its hosts. Only that server knows which views counted the member."""
    host = host_of(member.endpoint)
    return any(
        parent(host) == each.id.server if each.parent else inside(each.id.server, host)
        for each in view.members
        if each.id not in absent
    )


def members_present(view: SetView, members: Iterable[MemberId], absent: Iterable[ServerId]) -> list[MemberId]:
    """Those that are not behind one of these servers."""
    branches = branches_of(view, absent)
    return [each for each in members if not any(inside(one, each.endpoint) for one in branches)]
