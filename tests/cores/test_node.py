"""A node: the core's words leave as one packet per neighbour; the neighbours' arrive in their order."""

from collections import deque
from collections.abc import Callable

import pytest

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    Event,
    Ignored,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.stack import Service, ServiceName, Stack
from rostra.groups.members import Because
from rostra.names import ROOT, Domain
from rostra.node import TICK, Node, Output
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import ChannelClosed, ChannelOpened, PacketArrived, Transmit
from rostra.protocols.links.packets import Bye, Data

FR, PARIS, LYON, HOST = Domain("fr"), Domain("fr.paris"), Domain("fr.lyon"), Domain("fr.paris.h1")

Reaction = Callable[[Event], list[Effect]]


class Recorder(Service):
    """A core that writes down what it is told, and answers by a rule."""

    name = ServiceName("any")

    def __init__(self, reaction: Reaction = lambda event: []) -> None:
        self.events: list[Event] = []
        self.reaction = reaction

    def step(self, now: float, event: Event) -> list[Effect]:
        self.events.append(event)
        return self.reaction(event)


def make_node(
    path: Domain, core: Recorder, config: LinkConfig | None = None, *, children: bool = False
) -> Node:
    return Node(
        "earth",
        path,
        Stack(core),
        incarnation=1,
        config=config or LinkConfig.lan(),
        accepts_children=children,
    )


class Wire:
    """Two nodes and a network that delivers at once; a driver in a few lines."""

    def __init__(self, upper: Node, lower: Node) -> None:
        self.nodes = {upper.path: upper, lower.path: lower}
        self.now = 0.0
        self.due = dict.fromkeys(self.nodes, 0.0)
        self.cut = False
        self.outputs: dict[Domain, list[Output]] = {path: [] for path in self.nodes}
        self._flying: deque[tuple[Domain, PacketArrived]] = deque()
        for path, node in self.nodes.items():
            self.carry_out(path, node.start(self.now))
        for path, peer in ((upper.path, lower.path), (lower.path, upper.path)):
            self.step(path, ChannelOpened(peer))
        self.settle()

    def step(self, path: Domain, event: Event) -> None:
        self.carry_out(path, self.nodes[path].step(self.now, event))

    def settle(self) -> None:
        """Deliver and flush until nobody has anything left to say."""
        while True:
            while self._flying:
                to, arrived = self._flying.popleft()
                self.step(to, arrived)
            for path, node in self.nodes.items():
                self.carry_out(path, node.flush(self.now))
            if not self._flying:
                return

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while min(self.due.values()) <= until:
            path = min(self.due, key=lambda path: self.due[path])
            self.now = max(self.now, self.due[path])
            self.step(path, TimerFired(TICK))
            self.settle()
        self.now = until

    def carry_out(self, path: Domain, outputs: list[Output]) -> None:
        for output in outputs:
            self.outputs[path].append(output)
            match output:
                case Transmit(to, packet) if not self.cut:
                    self._flying.append((to, PacketArrived(path, packet)))
                case SetTimer(timer, after_s) if timer == TICK:
                    self.due[path] = self.now + after_s


def data_between(wire: Wire, sender: Domain) -> list[Data]:
    packets = [output.packet for output in wire.outputs[sender] if isinstance(output, Transmit)]
    return [packet for packet in packets if isinstance(packet, Data)]


def test_two_nodes_meet_and_their_cores_are_told() -> None:
    upper, lower = Recorder(), Recorder()
    wire = Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))

    assert upper.events == [LinkUp(HOST, 1)]
    assert lower.events == [LinkUp(PARIS, 1)]
    assert wire.nodes[PARIS].is_up(HOST) and not wire.nodes[PARIS].is_up(LYON)
    assert LinkUp(HOST, 1) in wire.outputs[PARIS], "the driver is told as well, for its trace"


def test_everything_said_in_one_turn_leaves_as_one_packet() -> None:
    upper = Recorder()
    lower = Recorder(
        lambda event: [Send(PARIS, "one"), Send(PARIS, "two")] if isinstance(event, Asked) else []
    )
    wire = Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))

    wire.step(HOST, Asked("", 1, "first"))
    wire.step(HOST, Asked("", 2, "second"))
    wire.settle()

    [packet] = data_between(wire, HOST)
    assert packet.messages == ("one", "two", "one", "two")
    assert upper.events[1:] == [Received(HOST, message) for message in ("one", "two", "one", "two")]


def test_what_is_said_about_a_link_that_came_up_is_heard_after_up() -> None:
    def announce(event: Event) -> list[Effect]:
        return [Send(event.peer, "all I have")] if isinstance(event, LinkUp) else []

    upper, lower = Recorder(announce), Recorder(announce)
    Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))

    assert upper.events == [LinkUp(HOST, 1), Received(HOST, "all I have")]
    assert lower.events == [LinkUp(PARIS, 1), Received(PARIS, "all I have")]


def test_an_order_that_is_no_message_goes_to_the_driver_in_its_place() -> None:
    lower = Recorder(
        lambda event: [Answer(1, "ok"), SetTimer(("retry", 1), 2.0)] if isinstance(event, Asked) else []
    )
    node = make_node(HOST, lower)
    assert node.step(0.0, Asked("", 1, "question")) == [Answer(1, "ok"), SetTimer(("retry", 1), 2.0)]
    assert node.flush(0.0) == []


def test_a_timer_of_the_core_reaches_the_core_and_the_tick_does_not() -> None:
    core = Recorder()
    node = make_node(HOST, core)
    assert node.start(0.0) == [SetTimer(TICK, 0.05)]

    assert node.step(0.05, TimerFired(TICK)) == [SetTimer(TICK, 0.05)]
    node.step(0.06, TimerFired(("retry", 1)))

    assert core.events == [TimerFired(("retry", 1))]


@pytest.mark.spec("C-029")
def test_both_cores_are_told_when_the_network_is_cut_and_when_it_heals() -> None:
    upper, lower = Recorder(), Recorder()
    wire = Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))
    wire.run(2.0)
    wire.cut = True
    wire.run(1.5)

    assert upper.events == [LinkUp(HOST, 1), LinkDown(HOST, Because(PARIS, HOST, "silent"))]
    assert lower.events == [LinkUp(PARIS, 1), LinkDown(PARIS, Because(HOST, PARIS, "silent"))]
    wire.cut = False
    wire.run(2.0)
    assert upper.events[2:] == [LinkUp(HOST, 1)] and lower.events[2:] == [LinkUp(PARIS, 1)]


def test_what_waits_to_be_said_to_a_peer_that_goes_down_is_not_said_in_the_next_epoch() -> None:
    upper = Recorder(lambda event: [Send(HOST, "of the old epoch")] if isinstance(event, Asked) else [])
    lower = Recorder()
    wire = Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))
    wire.step(PARIS, Asked("", 1, "speak"))
    session = next(iter(wire.nodes[HOST].links.values())).epoch
    assert session is not None

    wire.step(PARIS, PacketArrived(HOST, Bye(*session, why="shutdown")))
    wire.settle()
    wire.run(3.0)

    assert wire.nodes[PARIS].is_up(HOST)
    assert not any(isinstance(event, Received) for event in lower.events)


@pytest.mark.spec("C-180")
def test_a_link_that_overflows_is_down_and_the_core_can_still_tell_the_others_in_the_same_flush() -> None:
    def react(event: Event) -> list[Effect]:
        match event:
            case Asked():
                return [Send(HOST, "too"), Send(HOST, "much"), Send(FR, "before")]
            case LinkDown(peer):
                return [Send(FR, f"{peer} is down")]
        return []

    core = Recorder(react)
    small = LinkConfig(queue_messages_max=1)
    node = make_node(PARIS, core, small, children=True)
    wire = Wire(node, make_node(HOST, Recorder(), small))
    above = Wire(make_node(FR, Recorder(), children=True), make_node(PARIS, Recorder()))
    node.links[FR] = above.nodes[PARIS].links[FR]

    wire.step(PARIS, Asked("", 1, "speak"))
    outputs = node.flush(wire.now)

    assert core.events[-1] == LinkDown(HOST, Because(PARIS, HOST, "overflow"))
    said = [output.packet for output in outputs if isinstance(output, Transmit) and output.to == FR]
    assert [packet.messages for packet in said if isinstance(packet, Data)] == [
        ("before",),
        (f"{HOST} is down",),
    ]


@pytest.mark.spec("C-021")
@pytest.mark.parametrize("stranger", ["fr.lyon.h1", "fr.paris.h1.x", "us", "world"])
def test_a_server_with_a_wrong_path_is_no_neighbour(stranger: str) -> None:
    node = make_node(PARIS, Recorder(), children=True)
    assert node.step(0.0, ChannelOpened(Domain(stranger))) == [Ignored("ChannelOpened", "not a neighbour")]
    assert set(node.links) == {FR}


@pytest.mark.spec("C-021")
def test_an_agent_adopts_nobody() -> None:
    node = make_node(HOST, Recorder())
    child = Domain("fr.paris.h1.x")
    assert node.step(0.0, ChannelOpened(child)) == [Ignored("ChannelOpened", "not a neighbour")]


@pytest.mark.spec("C-018")
def test_a_node_knows_its_parent_and_siblings_from_the_start_and_its_children_by_their_call() -> None:
    stack, config = Stack(Recorder()), LinkConfig()
    node = Node("earth", PARIS, stack, incarnation=1, config=config, siblings=[LYON], accepts_children=True)
    assert list(node.links) == [FR, LYON]
    node.step(0.0, ChannelOpened(HOST))
    assert list(node.links) == [FR, LYON, HOST]
    assert list(make_node(ROOT, Recorder()).links) == []


def test_closing_the_channel_of_a_stranger_makes_it_no_child() -> None:
    node = make_node(PARIS, Recorder(), children=True)
    assert node.step(0.0, ChannelClosed(HOST, "reset")) == [Ignored("ChannelClosed", "not a neighbour")]
    assert HOST not in node.links


def test_a_node_that_was_itself_away_does_not_give_up_its_neighbours() -> None:
    upper, lower = Recorder(), Recorder()
    wire = Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))
    wire.run(2.0)

    wire.now += 10.0  # both processes were stopped, as when a machine sleeps
    wire.run(5.0)

    assert upper.events == [LinkUp(HOST, 1)] and lower.events == [LinkUp(PARIS, 1)]


def test_a_goodbye_is_heard_at_once_and_a_stopped_node_says_nothing_more() -> None:
    upper = Recorder()
    lower = Recorder(lambda event: [Send(PARIS, "late")] if isinstance(event, Asked) else [])
    wire = Wire(make_node(PARIS, upper, children=True), make_node(HOST, lower))
    node = wire.nodes[HOST]

    wire.carry_out(HOST, node.stop(wire.now, "shutdown"))
    wire.settle()

    assert upper.events == [LinkUp(HOST, 1), LinkDown(HOST, Because(PARIS, HOST, "closed"))]
    assert lower.events == [LinkUp(PARIS, 1)], "the core ends with its node"
    assert node.step(wire.now, Asked("", 1, "too late")) == [Ignored("Asked", "stopped")]
    assert node.flush(wire.now) == []
