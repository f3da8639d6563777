"""Domains that come into a simulated world while it runs, and domains that go (C-181).

    add      its servers and hosts start, and neighbours have it in their configuration from now on
    remove   neighbours have it no more: they say goodbye, and its servers and hosts end

Both are what a changed world file and SIGHUP do to real servers (`runtime/reload.py`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rostra.core.observer import NeighbourAdded, NeighbourRemoved
from rostra.errors import BadInput
from rostra.names import Tree, inside, parse_domain, parse_host
from rostra.protocols.links.events import ChannelOpened
from rostra.sim.processes import SimProcess

if TYPE_CHECKING:
    from rostra.sim.world import World


def add(world: "World", hosts: Iterable[str]) -> None:
    """Add these hosts, and the domains around them that are new."""
    new = [parse_host(host) for host in hosts]
    if known := [host for host in new if host in world.processes]:
        raise BadInput(f"{known[0]} is there already", fix="name hosts that are not")
    old, tree = world.tree, Tree.of([*world.tree.hosts, *new])
    for domain in old.domains:
        if (domain in old.clusters) != (domain in tree.clusters):
            raise BadInput(f"{domain} has hosts, and would have domains", fix="add a cluster beside it")
    _take_tree(world, tree)
    added = [path for path in tree.servers if path not in world.processes]
    world.processes |= {
        path: world.removed.pop(path) if path in world.removed else SimProcess(path) for path in added
    }
    world.channels.place(added)
    world.network.connect(added)
    for path, process in list(world.processes.items()):
        for peer in [each for each in process.lines if each in added and path not in added]:
            if process.node is not None and peer in tree.siblings(path):
                process.node.meet(peer)
                world.nodes.show(process, NeighbourAdded(peer))
            world.nodes.inject(process, ChannelOpened(peer))
    for path in added:
        world.nodes.start(world.processes[path], None)
    world.busy()


def remove(world: "World", name: str) -> None:
    """A domain, with all that is in it."""
    domain = parse_domain(name)
    gone = [path for path in world.tree.servers if inside(domain, path)]
    left = [host for host in world.tree.hosts if not inside(domain, host)]
    if not gone:
        raise BadInput(f"{domain} is no domain of this world", fix="name one that is")
    for path, process in world.processes.items():
        if path not in gone:
            for peer in [each for each in process.lines if each in gone]:
                if process.node is not None:
                    outputs = process.node.part(world.now + process.skew_s, peer)
                    world.nodes.carry_out(process, NeighbourRemoved(peer), outputs)
                process.lines.pop(peer).dead = True
    for path in gone:
        world.nodes.crash(path)
        for line in world.processes[path].lines.values():
            line.dead = True
    for path in gone:
        process = world.removed[path] = world.processes.pop(path)
        process.lines.clear()
    _take_tree(world, Tree.of(left))
    world.busy()


def _take_tree(world: "World", tree: Tree) -> None:
    world.tree = tree
    world.data.sites(tree.clusters)
