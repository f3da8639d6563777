"""Replicas of servers in a simulated world.

    process haifa.-seat-1, -seat-2, -seat-3     one each, with lines between them
    process haifa                               as neighbours know it: the node of the replica that leads

A replica that crashes or pauses takes the server that it leads with it. While two replicas both believe that
they lead, until the older one learns better, neighbours reach the newer one.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Answer, Event
from rostra.names import Domain, replica_path
from rostra.node import Node, Output
from rostra.observe.recording import FORMAT, Began, NodeMade
from rostra.protocols.election.core import Ballot
from rostra.protocols.relaxed.registry import Registry
from rostra.replica import Replica
from rostra.sim.fronts import NodeFront
from rostra.sim.network import SimLine
from rostra.stacks import VoterPlan, make_replica

if TYPE_CHECKING:
    from rostra.sim.processes import SimProcess
    from rostra.sim.world import World


class KnownNeighbours(Struct, frozen=True):
    """What a replica's disk has of its server's neighbours."""

    neighbours: tuple[Domain, ...]


class SimReplicas:
    """All replicas of a world: their `ReplicaHost`."""

    def __init__(self, world: "World", replicas: Mapping[Domain, int]) -> None:
        self._world = world
        self.of: dict[Domain, tuple[Domain, ...]] = {
            domain: tuple([replica_path(domain, rank + 1) for rank in range(count)])
            for domain, count in replicas.items()
        }
        self.living: dict[Domain, Replica] = {}  # by replica, of those that live
        self.leaders: dict[Domain, Domain] = {}  # by domain: which replica neighbours reach
        self._fronts: dict[Domain, NodeFront] = {}  # by replica: before the server that it led last

    def domain_of(self, path: Domain) -> Domain | None:
        return next((domain for domain, voters in self.of.items() if path in voters), None)

    def lines(self) -> None:
        """Between all replicas of a domain, as in a LAN."""
        world = self._world
        for voters in self.of.values():
            for a in voters:
                for b in voters:
                    if a != b:
                        world.processes[a].lines[b] = SimLine(a, b, world.links.lan)

    def replica_of(self, process: "SimProcess") -> Replica | None:
        """The replica at this path, or the one that leads this server."""
        return self.living.get(self.leaders.get(process.path, process.path))

    def in_one(self, process: "SimProcess") -> list["SimProcess"]:
        """The server and the replica that leads it are one process, whichever of them is named."""
        domain = process.path if process.path in self.of else self.domain_of(process.path)
        leader = self.leaders.get(domain) if domain is not None else None
        if domain is None or leader is None or process.path not in (domain, leader):
            return [process]
        return [self._world.processes[leader], self._world.processes[domain]]

    def start(self, process: "SimProcess", domain: Domain) -> Node:
        """A replica begins to live."""
        world, voters = self._world, self.of[domain]
        registry = Registry.of(process.disk)
        ballots = [each for each in process.disk if isinstance(each, Ballot)]
        known = [each for each in process.disk if isinstance(each, KnownNeighbours)]
        plan = world.nodes.plan_of(domain, 0)
        if plan.fifo is not None:
            luck = world.luck_of(process.path, process.incarnation)
            plan = replace(plan, fifo=replace(plan.fifo, luck=luck))
        voter = VoterPlan(
            process.path,
            voters,
            process.incarnation,
            world.lead,
            ballots[-1] if ballots else Ballot(),
            known[-1].neighbours if known else (),
        )
        replica = self.living[process.path] = make_replica(self, plan, voter, registry)
        process.node = replica.voter
        if world.observers:
            began = Began(FORMAT, plan, registry.copies(domain), voter, registry.own.all())
            world.nodes.show(process, NodeMade(began, {}))
        return replica.voter

    def stop(self, voter: Domain) -> None:
        """A replica died, and with it what it led."""
        replica = self.living.pop(voter)
        self._fronts.pop(voter, None)
        if self.leaders.get(replica.domain) == voter:
            del self.leaders[replica.domain]
            self._world.nodes.drop(self._world.processes[replica.domain])

    # What a replica orders

    def begin(self, replica: Replica, server: Node) -> None:
        world = self._world
        process = world.processes[replica.domain]
        if process.node is not None:
            self._let_go(process, self.leaders[replica.domain])
        self.leaders[replica.domain] = replica.voter.path
        world.nodes.let_lead(process, server, replica.voter.path)

    def end(self, replica: Replica, server: Node, why: str) -> None:
        if self.leaders.get(replica.domain) == replica.voter.path:
            del self.leaders[replica.domain]
            self._let_go(self._world.processes[replica.domain], replica.voter.path)

    def _let_go(self, process: "SimProcess", voter: Domain) -> None:
        """The programs that this replica served are its own, also when another one leads."""
        front = self._world.fronts.of.get(process.path)
        self._world.nodes.drop(process)
        if front is not None:
            self._fronts[voter] = front

    def step_voter(self, replica: Replica, event: Event) -> None:
        self._world.nodes.give(self._world.processes[replica.voter.path], event)

    def step_server(self, replica: Replica, event: Event) -> None:
        if self.leaders.get(replica.domain) == replica.voter.path:
            self._world.nodes.give(self._world.processes[replica.domain], event)

    def remember(self, replica: Replica, neighbours: tuple[Domain, ...]) -> None:
        self._world.processes[replica.voter.path].disk.append(KnownNeighbours(neighbours))

    def perform(self, replica: Replica, output: Output) -> None:
        if not isinstance(output, Answer) or self.leaders.get(replica.domain) == replica.voter.path:
            self._world.nodes.perform(self._world.processes[replica.domain], output)
        elif (front := self._fronts.get(replica.voter.path)) is not None:
            front.answer(output)
