"""The data channel in the simulator: production's core, in every mode, sealed and not, with hosts that
multicast does not reach."""

import pytest

from rostra.names import Domain, Group
from rostra.protocols.channel.messages import LAN, Datagram
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.runs import block_of
from rostra.sim import World
from rostra.sim.channels import DatagramArrived, SimDatagram
from rostra.sim.programs import SimProgram

G = Group("g", Domain("world"))
MODES = ("auto", "multicast", "fanout", "reflect")


def speaking(mode: str, *, sealed: bool = True) -> tuple[World, list[SimProgram]]:
    world = World(1, domains={"huji": 3, "mit": 1}, fifo=True, lan=mode, sealed=sealed)
    world.settle()
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_fifo("g")
    world.run(4.0)
    return world, programs


def say(world: World, programs: list[SimProgram]) -> None:
    for program in programs:
        program.stream("g", 0.01, count=20)
    world.run(0.5)


@pytest.mark.spec("X-107")
@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_all_hear_all_in_every_mode_without_a_repair(mode: str, sealed: bool) -> None:
    """Without seals, hosts once did not believe what others of their LAN sent by multicast."""
    world, programs = speaking(mode, sealed=sealed)
    say(world, programs)
    for program in programs:
        assert program.conversation("g").last == {
            other.address: 20 for other in programs if other is not program
        }
    assert not [why for (what, why), times in world.notes.items() if what == "Datagram ignored" and times]


@pytest.mark.spec("X-107")
@pytest.mark.parametrize(("mode", "directly"), [("multicast", True), ("fanout", True), ("reflect", False)])
def test_what_a_host_sends_goes_directly_or_by_its_server(mode: str, directly: bool) -> None:
    world, programs = speaking(mode)
    say(world, programs)
    assert ((Domain("huji.h1"), Domain("huji.h2")) in world.data.ways) is directly


@pytest.mark.spec("X-107")
@pytest.mark.parametrize("fault", ["deaf", "mute"])
def test_a_host_that_multicast_does_not_reach_or_carry_is_served_all_the_same(fault: str) -> None:
    world, programs = speaking("auto")
    getattr(world.channels, fault).add(Domain("huji.h2"))
    world.run(4.0)  # until it is noticed
    say(world, programs)
    for program in programs:
        assert program.conversation("g").last == {
            other.address: 20 for other in programs if other is not program
        }
    assert world.notes["Noted", "multicast_fails"] == 1
    getattr(world.channels, fault).clear()
    world.run(4.0)
    assert world.notes["Noted", "multicast_works"] == 5, "four hosts, and one again"


def test_a_datagram_that_is_not_sealed_by_its_lan_is_not_believed() -> None:
    world, programs = speaking("reflect")
    liar, target = Domain("huji.h2"), world.processes[Domain("huji.h1")]
    forged = Data(programs[1].address, Run(1, 1, block_of([b"forged"])), 1, 0)
    datagram = SimDatagram(Datagram(G, liar, LAN, (forged,)), b"another key")
    world.channels.arrived(target, DatagramArrived(("10.6.6.6", 7000), datagram, by_multicast=True))
    assert world.notes["Datagram ignored", "not sealed by its speaker"] == 1
    assert programs[0].conversation("g").last == {}
