"""The twin: a reference model of which members of a group can be seen from where, without any protocol.

It reads the truth (`history`) and answers by walking paths: one endpoint sees another exactly if every server
and every line on the one path between their hosts works (C-072). There are no messages, no interest and no
merging in it: it is simple enough to be obviously right, and too slow to be used instead of the servers.
"""

from collections.abc import Mapping, Set
from itertools import pairwise

from rostra.names import Domain, Endpoint, Group, Tree, host_of, inside, parent, strictly_inside
from rostra.sim.history import (
    AnyRecord,
    FollowingChanged,
    LineChanged,
    MembershipChanged,
    ServerChanged,
)

NOBODY: Mapping[Group, Set[Domain]] = {}


class Twin:
    def __init__(self, hosts: tuple[Domain, ...]) -> None:
        self.tree = Tree.of(hosts)
        self.crashed: set[Domain] = set(self.tree.servers)
        self.paused: set[Domain] = set()
        self.cut: set[tuple[Domain, Domain]] = set()
        self.members: dict[Group, set[Endpoint]] = {}
        self.followers: dict[Group, set[Endpoint]] = {}

    def take(self, record: AnyRecord) -> None:
        match record:
            case ServerChanged(server=server, change="started"):
                self.crashed.discard(server)
                self.paused.discard(server)
            case ServerChanged(server=server, change="crashed"):
                self.crashed.add(server)
                self._bury(server)
            case ServerChanged(server=server, change="paused"):
                self.paused.add(server)
            case ServerChanged(server=server, change="continued"):
                self.paused.discard(server)
            case LineChanged(sender=sender, to=to, change="cut"):
                self.cut.add((sender, to))
            case LineChanged(sender=sender, to=to, change="healed"):
                self.cut.discard((sender, to))
            case MembershipChanged(endpoint=endpoint, group=group, change="joined"):
                self.members.setdefault(group, set()).add(endpoint)
            case MembershipChanged(endpoint=endpoint, group=group):
                self.members.get(group, set()).discard(endpoint)
            case FollowingChanged(endpoint=endpoint, group=group, follows=True):
                self.followers.setdefault(group, set()).add(endpoint)
            case FollowingChanged(endpoint=endpoint, group=group):
                self.followers.get(group, set()).discard(endpoint)

    def works(self, server: Domain) -> bool:
        return server not in self.crashed and server not in self.paused

    def linked(self, a: Domain, b: Domain) -> bool:
        """Do both ends run, and both lines between them carry packets?"""
        return self.works(a) and self.works(b) and (a, b) not in self.cut and (b, a) not in self.cut

    def sees(self, here: Domain, there: Domain) -> bool:
        steps = path(here, there)
        return self.works(here) and all(self.linked(a, b) for a, b in pairwise(steps))

    def seen_from(self, host: Domain, group: Group) -> tuple[Endpoint, ...]:
        """The group's members, as programs on this host should see them at stability (C-070, C-071)."""
        return tuple(sorted(x for x in self.members.get(group, ()) if self.sees(host, host_of(x))))

    def rows(self, domain: Domain, agents: Mapping[Group, Set[Domain]] = NOBODY) -> tuple[Group, ...]:
        """The groups that this domain's server keeps a row for: handled, with a member below (C-146).
        `agents`: those that follow a group a little longer than their programs watch it."""
        below: dict[Group, set[Domain]] = {group: set(hosts) for group, hosts in agents.items()}
        for those in (self.members, self.followers):
            for group, endpoints in those.items():
                below.setdefault(group, set()).update(map(host_of, endpoints))
        return tuple(
            sorted(
                group
                for group, hosts in below.items()
                if self.handles(domain, group)
                and any(inside(domain, host) and self._reaches_down(domain, host) for host in hosts)
            )
        )

    def handles(self, domain: Domain, group: Group) -> bool:
        """A domain server handles groups wider than its domain; a cluster's, also the cluster's own
        (C-010)."""
        return strictly_inside(group.scope, domain) or (
            domain in self.tree.clusters and group.scope == domain
        )

    def _reaches_down(self, domain: Domain, host: Domain) -> bool:
        below = host
        while below != domain:
            if not self.linked(below, parent(below)):
                return False
            below = parent(below)
        return self.works(domain)

    def _bury(self, host: Domain) -> None:
        for endpoints in (*self.members.values(), *self.followers.values()):
            endpoints.difference_update({x for x in endpoints if host_of(x) == host})


def path(here: Domain, there: Domain) -> tuple[Domain, ...]:
    """The one way between two hosts: up, across one sibling link, down (C-019)."""
    if here == there:
        return (here,)
    if parent(here) == parent(there):  # hosts of one cluster are not linked: its server is between them
        return (here, parent(here), there)
    up, down = [here], [there]
    while not inside(parent(up[-1]), there):
        up.append(parent(up[-1]))
    while not inside(parent(down[-1]), here):
        down.append(parent(down[-1]))
    return (*up, *reversed(down))
