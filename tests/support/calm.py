"""A short history that keeps every promise: checkers and audits are shown it whole, and then spoilt."""

from pathlib import Path

from rostra.protocols.links.config import LinkConfig
from rostra.sim import World


def calm_world(journal: Path | None = None) -> World:
    """Four programs, a join and a leave in calm weather, a cut, and a heal."""
    world = World(
        1,
        domains={"haifa": ("a", "b"), "paris": ("c", "d")},
        timers=LinkConfig.lan().over_datagrams(),
        journal=journal,
    )
    world.settle()
    a, b, c, d = (world.program(host) for host in world.tree.hosts)
    for program in (a, b, c):
        program.join("g")
    world.settle()
    d.join("g")
    world.run(1.0)
    d.leave("g")
    world.run(1.0)
    d.join("g")
    world.settle()
    world.cut("haifa | paris")
    world.settle()
    world.heal()
    world.settle()
    return world
