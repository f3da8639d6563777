"""A step of a node that is too long goes on in the next one: nothing is lost, doubled or put out of order."""

from collections.abc import Iterator

import pytest

from rostra import node as nodes
from rostra.core.effects import Event, Received, TimerFired
from rostra.names import Domain, Group
from rostra.node import GO_ON, Node
from rostra.protocols.links.events import PacketArrived
from rostra.protocols.links.packets import Data
from rostra.protocols.relaxed.messages import MessageId, Routed
from rostra.sim.storm import storm
from rostra.sim.world import World

READERS = 20
GROUPS = [Group(f"g{number}", Domain("s")) for number in range(12)]


class Steps:
    """Of all nodes: what each was about, how many orders came of it, and what it passed to the stack."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[Domain, Event, int]] = []
        self.read: dict[Domain, list[object]] = {}
        step, drive = Node.step, Node._drive

        def stepped(node, now, event):
            outputs = step(node, now, event)
            self.taken.append((node.path, event, len(outputs)))
            return outputs

        def driven(node, now, event, outputs):
            if isinstance(event, Received):
                self.read.setdefault(node.path, []).append(event.message)
            drive(node, now, event, outputs)

        monkeypatch.setattr(Node, "step", stepped)
        monkeypatch.setattr(Node, "_drive", driven)

    def resumed(self) -> int:
        return sum(isinstance(event, TimerFired) and event.timer == GO_ON for _, event, _ in self.taken)

    def sent_to(self, path: str) -> Iterator[object]:
        for at, event, _ in self.taken:
            if at == path and isinstance(event, PacketArrived) and isinstance(event.packet, Data):
                yield from event.packet.messages


@pytest.fixture
def readers() -> World:
    """One program comes to all groups on the second host; all of the first host's are there."""
    world = World(1, domains={"s": 2}, fifo=True)
    programs = [world.program("s.h1", f"p{number}") for number in range(READERS)]
    world.program("s.h2", "comes")
    world.settle()
    for program in programs:
        for group in GROUPS:
            program.join_fifo(group)
    world.run(8.0)
    return world


def all_groups_at_once(world: World) -> None:
    comes = next(program for program in world.programs if program.name == "comes")
    world.gather_joins("s.h2", True)
    for group in GROUPS:
        comes.join_fifo(group)
    world.gather_joins("s.h2", False)


def test_the_orders_of_a_step_are_bounded_and_all_are_given(readers, monkeypatch):
    """The second host's packet has a join of each group: an item for each reader."""
    bound = 2 * READERS
    monkeypatch.setattr(nodes, "WORK_MAX", bound)
    steps = Steps(monkeypatch)
    all_groups_at_once(readers)
    readers.run(8.0)
    joins = [orders for path, event, orders in steps.taken if path == "s.h1"]
    assert max(joins) <= bound + 2 * READERS, "the last message may be for each reader, and for itself"
    assert steps.resumed() >= len(GROUPS) / 4
    assert steps.read[Domain("s.h1")] == list(steps.sent_to("s.h1")), "all of them, once and in order"
    for program in readers.programs:
        assert all(len(program.conversation(group).members) == READERS + 1 for group in GROUPS)


def test_without_the_bound_that_step_is_long(readers, monkeypatch):
    steps = Steps(monkeypatch)
    all_groups_at_once(readers)
    readers.run(8.0)
    assert max(orders for _, _, orders in steps.taken) > len(GROUPS) / 2 * READERS
    assert not steps.resumed()


@pytest.mark.parametrize(("size", "wait"), [(100, 0), (nodes.WORK_MAX * nodes.ENTRY_BYTES // 3, 3)])
def test_a_long_message_through_the_servers_counts_for_the_bound_of_a_step(size, wait):
    """Replies of a delegate are few messages, and some thousand streams."""
    world = World(1, domains={"s": 2})
    talker, reader = world.program("s.h1", "talker"), world.program("s.h2", "reader")
    world.settle()
    agent = world.processes[Domain("s.h2")].node
    sent = [
        Routed(MessageId(Domain("s.h1"), 1, n), talker.address, (reader.address,), bytes(size))
        for n in range(6)
    ]
    agent._report(world.now, [Received(Domain("s"), each) for each in sent], [])
    assert [each.message for each in agent._rest] == sent[6 - wait :]


def test_an_epoch_ends_for_the_core_when_it_has_all_messages_of_it(readers, monkeypatch):
    """The server crashes while messages of its last packet wait."""
    monkeypatch.setattr(nodes, "WORK_MAX", READERS)
    monkeypatch.setattr(nodes, "GO_ON_S", 60.0)
    steps = Steps(monkeypatch)
    all_groups_at_once(readers)
    readers.run(0.2)
    agent = readers.processes[Domain("s.h1")].node
    assert len(agent._rest) > 1
    waiting = [each.message for each in agent._rest]
    readers.crash("s")
    readers.run(10.0)
    assert not agent._rest
    assert steps.read[Domain("s.h1")][-len(waiting) :] == waiting


def test_what_waits_is_bounded(readers, monkeypatch):
    monkeypatch.setattr(nodes, "WORK_MAX", READERS)
    monkeypatch.setattr(nodes, "GO_ON_S", 60.0)
    monkeypatch.setattr(nodes, "REST_MAX", 3)
    all_groups_at_once(readers)
    waited = set()
    for _ in range(50):
        readers.run(0.01)
        waited |= {len(process.node._rest) for process in readers.processes.values()}
    assert max(waited) == 3


@pytest.mark.parametrize(
    ("shape", "seed"), [("T-REF", 3), ("views", 5), pytest.param("fifo", 4, marks=pytest.mark.long)]
)
def test_storms_do_not_notice_that_hardly_two_messages_share_a_step(shape, seed, monkeypatch):
    monkeypatch.setattr(nodes, "WORK_MAX", 1)
    steps = Steps(monkeypatch)
    assert all(verdict.answer != "no" for verdict in storm(seed, shape).verdicts)
    assert steps.resumed() > 50
