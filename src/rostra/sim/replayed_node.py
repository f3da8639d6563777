"""The node behind a recording, made again: it is given the recorded inputs, one by one.

A replica is made again as a whole, with its voter and, while it leads, its server. What one half has for
the other is not in the recording: it follows from the inputs before it, and the recording marks only when it
was handed over.
"""

from collections import deque
from typing import Any

from rostra.core.effects import Event
from rostra.names import Domain
from rostra.node import Node, Output
from rostra.observe.recording import (
    Began,
    Flushed,
    Inner,
    Input,
    Met,
    NeighbourParted,
    NodeStopped,
    Packets,
    Started,
    ToServer,
    ToVoter,
    events,
)
from rostra.protocols.relaxed.registry import Registry
from rostra.replica import Replica
from rostra.stacks import make_node, make_replica, make_stack


class Diverged(Exception):
    """What was recorded cannot happen in what is replayed."""


class ReplayedNode:
    """What was recorded, made again: a node, or a replica with its two."""

    def __init__(self, began: Began) -> None:
        self._packets = Packets(began.plan.world)
        registry = Registry.of([*began.registry, began.own, *began.logs])
        self._replica: Replica | None = None
        self._server: Node | None = None
        self._started: list[Any] | None = None  # what the server gave at its beginning, until that is wanted
        self._to_server = False
        self._inner: tuple[deque[Event], deque[Event]] = (deque(), deque())  # for the voter, for the server
        self._now = 0.0
        if began.voter is None:
            self._node = make_node(began.plan, make_stack(began.plan, registry))
        else:
            self._replica = make_replica(self, began.plan, began.voter, registry)
            self._node = self._replica.voter

    def turn(self, to: ToServer | ToVoter) -> None:
        self._to_server = isinstance(to, ToServer)

    def give(self, now: float, word: Input) -> list[Any]:
        """Give it what was recorded."""
        self._now = now
        if self._to_server and isinstance(word, Started) and self._started is not None:
            outputs, self._started = self._started, None
            return outputs
        node = self._server if self._to_server else self._node
        if node is None:
            raise Diverged("this replica does not lead, and has no server to give that to")
        outputs = self._give(node, now, word)
        if self._replica is None:
            return outputs
        if self._to_server:
            self._replica.server_ordered(outputs)
        else:
            for output in outputs:
                self._replica.voter_ordered(now, output)
        return outputs

    def _give(self, node: Node, now: float, word: Input) -> list[Any]:
        match word:
            case Started():
                return node.start(now)
            case Flushed():
                return node.flush(now)
            case NodeStopped(why):
                return node.stop(now, why)
            case Met(peer):
                node.meet(peer)
                return []
            case NeighbourParted(peer):
                return node.part(now, peer)
            case Inner():
                inner = self._inner[self._to_server]
                if not inner:
                    raise Diverged("the replica has nothing to give to this half of it")
                return node.step(now, inner.popleft())
        event = events(word, self._packets)
        assert event is not None
        return node.step(now, event)

    # What a replica orders. All that it gives to its halves, and all that they do then, was recorded.

    def begin(self, replica: Replica, server: Node) -> None:
        self._server = server
        self._started = server.start(self._now)
        replica.server_ordered(self._started)

    def end(self, replica: Replica, server: Node, why: str) -> None:
        self._server = self._started = None
        self._inner[True].clear()

    def step_voter(self, replica: Replica, event: Event) -> None:
        self._inner[False].append(event)

    def step_server(self, replica: Replica, event: Event) -> None:
        self._inner[True].append(event)

    def perform(self, replica: Replica, output: Output) -> None:
        pass

    def remember(self, replica: Replica, neighbours: tuple[Domain, ...]) -> None:
        pass
