"""Groups with a monitor of their own (relaxed and led membership with ``delivery="atomic"``), in a world of
hosts, servers and programs: who is in is decided by a majority of the last view's hosts."""

import pytest

from rostra.groups.kinds import MembershipKind
from rostra.names import Domain, Group
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.flow.runs import payloads
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done
from rostra.sim import LAN, World
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.shapes import clusters

RELAXED, LED = MembershipKind.RELAXED, MembershipKind.LED
LEDGER = Group("ledger", Domain("eu.fr"))
WIDE = Group("ledger", Domain("eu"))


def made(tree: dict[str, int], seed: int = 1) -> World:
    world = World(
        seed, tree=clusters(tree), links=LAN, timers=LinkConfig.lan().over_datagrams(), fifo=True
    )
    world.run(4.0)
    return world


def joined(
    world: World, hosts: int, group: Group = LEDGER, membership: MembershipKind = RELAXED
) -> list[SimProgram]:
    programs = [world.program(host) for host in world.tree.hosts[:hosts]]
    calls = [program.join_ordered(group, membership=membership) for program in programs]
    world.run(6.0)
    assert [call.result for call in calls] == [Done()] * hosts
    return programs


def said(program: SimProgram, group: Group = LEDGER) -> list[tuple[int, bytes]]:
    """Messages that it was given, with their positions."""
    items = [each for each in program.agreed[group].items if isinstance(each, OrderedRun)]
    return [(each.position + n, body) for each in items for n, body in enumerate(payloads(each.run))]


def members(program: SimProgram, group: Group = LEDGER) -> tuple[str, ...]:
    return program.agreed[group].members


def test_members_of_three_hosts_are_given_one_order() -> None:
    world = made({"eu.fr": 3})
    programs = joined(world, 3)
    for nth in range(10):
        for program in programs:
            program.say_in_order(LEDGER, b"%d of %s" % (nth, program.address.encode()))
        world.run(0.02)
    world.run(2.0)
    assert [len(said(each)) for each in programs] == [30] * 3
    assert said(programs[0]) == said(programs[1]) == said(programs[2])
    assert members(programs[0]) == members(programs[1]) == members(programs[2])
    assert len(members(programs[0])) == 3
