"""Three replicas in nodes of their own, with real links between them: what the pretend network of the
properties promises, links keep."""

import heapq
from collections.abc import Callable

import pytest

from rostra.core.effects import CancelTimer, Event, SetTimer, TimerFired, TimerKey
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.names import Domain, dials, replica_path
from rostra.node import Node, Output
from rostra.protocols.election.core import Ballot, ElectionCore
from rostra.protocols.election.events import Begun, Follow, FollowerLinked, Lead, Resign, Share, StateReceived
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import ChannelOpened, PacketArrived, Transmit

EU = Domain("eu")
A, B, C = VOTERS = tuple(replica_path(EU, rank) for rank in (1, 2, 3))
LINKS = LinkConfig.lan()


class Nodes:
    """A driver in a few lines: every packet takes 5 ms, unless one of its ends is cut off or dead."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[Domain, Node] = {}
        self.cut: set[Domain] = set()
        self.told: list[tuple[float, Domain, Output]] = []
        self._timers: dict[tuple[Domain, TimerKey], int] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = 0
        for path in VOTERS:
            self.start(path)

    def start(self, path: Domain) -> None:
        incarnation = 1 + int(self.now * 1000)
        core = ElectionCore(path, VOTERS, floor=incarnation, ballot=Ballot(), records=Records(), scope=EU)
        others = [peer for peer in VOTERS if peer != path]
        node = self.nodes[path] = Node(
            "earth",
            path,
            Stack(core),
            incarnation=incarnation,
            config=LINKS,
            siblings=others,
            has_parent=False,
        )
        self._carry_out(path, node.start(self.now))
        for event in (Begun(), *map(ChannelOpened, others)):
            self.step(path, event)

    def step(self, path: Domain, event: Event) -> None:
        node = self.nodes.get(path)
        if node is not None:
            self._carry_out(path, [*node.step(self.now, event), *node.flush(self.now)])

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = until

    def said(self, *kinds: type) -> list[tuple[Domain, Output]]:
        return [(path, output) for _, path, output in self.told if isinstance(output, kinds)]

    def _carry_out(self, path: Domain, outputs: list[Output]) -> None:
        for output in outputs:
            self.told.append((self.now, path, output))
            match output:
                case Transmit(to, packet):
                    self._at(0.005, lambda to=to, packet=packet: self._arrive(path, to, packet))
                case SetTimer(timer, after_s):
                    setting = self._timers[path, timer] = self._tie + 1
                    self._at(after_s, lambda timer=timer, setting=setting: self._fire(path, timer, setting))
                case CancelTimer(timer):
                    self._timers.pop((path, timer), None)

    def _arrive(self, sender: Domain, to: Domain, packet: object) -> None:
        if sender in self.nodes and not {sender, to} & self.cut:
            self.step(to, PacketArrived(sender, packet))  # type: ignore[arg-type]

    def _fire(self, path: Domain, timer: TimerKey, setting: int) -> None:
        if self._timers.get((path, timer)) == setting:
            self.step(path, TimerFired(timer))

    def _at(self, after_s: float, action: Callable[[], None]) -> None:
        self._tie += 1
        heapq.heappush(self._agenda, (self.now + after_s, self._tie, action))


@pytest.mark.spec("C-160")
def test_three_nodes_agree_on_the_first_and_share() -> None:
    net = Nodes()
    net.run(1.0)

    ((leader, lead),) = net.said(Lead)
    assert leader == A and isinstance(lead, Lead)
    assert net.said(Follow) == [(B, Follow(A, lead.term)), (C, Follow(A, lead.term))]
    assert net.said(FollowerLinked) == [(A, FollowerLinked(B)), (A, FollowerLinked(C))]
    assert all(dials(one, other) for one, other in ((A, B), (A, C), (B, C)))
    net.step(A, Share(b"mirror"))
    net.step(B, Share(b"thanks"))
    net.run(0.1)
    assert net.said(StateReceived) == [
        (B, StateReceived(A, b"mirror")),
        (C, StateReceived(A, b"mirror")),
        (A, StateReceived(B, b"thanks")),
    ]


@pytest.mark.spec("C-160", "C-161")
def test_when_the_leading_node_dies_another_leads_within_two_seconds_and_its_return_changes_nothing() -> None:
    net = Nodes()
    net.run(5.0)
    del net.nodes[A]

    net.run(LINKS.detect.down_after_s + LINKS.detect.heartbeat_interval_s + 2.0)
    (_, first), (heir, second) = net.said(Lead)
    assert heir == B and isinstance(first, Lead) and isinstance(second, Lead) and second.term > first.term
    net.start(A)
    net.run(5.0)

    assert len(net.said(Lead)) == 2 and net.said(Resign) == []
    assert net.said(Follow)[-1] == (A, Follow(B, second.term))


@pytest.mark.spec("C-161")
def test_a_leading_node_that_is_cut_off_resigns_and_follows_the_other_when_it_is_back() -> None:
    net = Nodes()
    net.run(5.0)
    net.cut = {A}
    net.run(4.0)

    (_, first), (heir, second) = net.said(Lead)
    assert heir == B and isinstance(first, Lead) and isinstance(second, Lead)
    assert net.said(Resign) == [(A, Resign(first.term, "fewer than a majority linked"))]
    net.cut = set()
    net.run(5.0)
    assert net.said(Follow)[-1] == (A, Follow(B, second.term))
    assert len(net.said(Lead)) == 2
