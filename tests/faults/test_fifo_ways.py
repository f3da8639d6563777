"""Data between two sites is cut off while their servers see each other: streams go around it, and it is
said."""

import pytest

from rostra.core.effects import Noted
from rostra.core.observer import Reporter
from rostra.impair.quality import Constant, LineQuality
from rostra.names import Domain
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.events import Gap, Left
from rostra.sim import World
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.history import DeliveryRecord
from rostra.sim.network import LinkModel

NETWORK = LinkModel(lan=LineQuality(Constant(0.0002)), wan=LineQuality(Constant(0.05)))


class Notes(Reporter):
    def __init__(self, world: World) -> None:
        self.found: list[tuple[str, str, str]] = []
        self.shows = {Noted: self._noted}
        world.observe(self)

    def _noted(self, at: float, server: Domain, noted: Noted) -> None:
        if noted.what.startswith("way is"):
            self.found.append((server, noted.what, noted.about))


def speaking(sites: int):
    names = ("huji", "mit", "ntu")[:sites]
    world = World(3, domains=dict.fromkeys(names, 1), links=NETWORK, fifo=True)
    world.settle()
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_fifo("g")
    world.run(4.0)
    programs[0].stream("g", 0.1)
    programs[1].stream("g", 0.1)
    world.run(2.0)
    return world, programs, Notes(world)


def links(world: World):
    [delegate] = world.processes[Domain("huji")].stack[CLUSTER].groups.values()
    assert delegate.forwarding.tree is not None
    return delegate.forwarding.tree.links


@pytest.mark.spec("X-006", "X-071")
@pytest.mark.parametrize("cut", ["huji | mit", "huji > mit", "mit > huji"])
def test_streams_go_around_a_way_that_carries_no_data(cut):
    world, (a, b, _), notes = speaking(3)
    world.cut(cut, only="data")
    world.run(8.0)
    assert {"way is silent"} == {what for _, what, _ in notes.found}
    assert links(world) == (("huji", "ntu"), ("mit", "ntu"))
    before = (b.conversation("g").last[a.address], a.conversation("g").last[b.address])
    world.run(5.0)
    after = (b.conversation("g").last[a.address], a.conversation("g").last[b.address])
    assert min(after[0] - before[0], after[1] - before[1]) >= 48, "as if nothing had happened"
    world.heal(only="data")
    world.run(6.0)
    assert notes.found[-1][1] == "way is heard again"
    a.hush("g")
    b.hush("g")
    world.run(3.0)
    assert world.history is not None and fifo_gap_free(world.history, complete=True).ok
    items = [record.item for record in world.history if isinstance(record, DeliveryRecord)]
    assert not [item for item in items if isinstance(item, Left | Gap)]


@pytest.mark.spec("X-071")
def test_where_there_is_no_way_around_it_is_said_and_nothing_is_lost():
    world, (a, b), notes = speaking(2)
    world.cut("huji | mit", only="data")
    world.run(6.0)
    assert ("huji", "way is silent", "mit") in notes.found
    world.heal(only="data")
    a.hush("g")
    b.hush("g")
    world.run(5.0)
    assert ("huji", "way is heard again", "mit") in notes.found
    assert world.history is not None and fifo_gap_free(world.history, complete=True).ok


@pytest.mark.spec("X-009", "X-071")
def test_a_receiver_that_does_not_read_is_no_silent_way():
    world, (_, b, c), notes = speaking(3)
    b.pause("g")
    c.pause("g")
    world.run(10.0)
    assert notes.found == []
