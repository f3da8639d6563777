"""Builders of nodes: the only place where services are put together into stacks.

    agent             HostCore, OrderAgent, AccessAgent, UniqueAgent, OpenAgent, ForeignAgent, AgreedAgent,
                      CallAgent, LedAgent, ClaimAgent, LocalServer
    cluster's server  ClusterCore, and those of a domain's server
    domain's server   AccessServer, NamesServer, OpenServer, ForeignServer, SetAdministration, CallServer,
                      MovingServer, FrameRelay, LedServer, ClaimServer, DomainServer
    replica           ElectionCore, and while it leads a server of the kinds above

`HostCore`, `ClusterCore` and `OrderAgent` are there where groups have messages; before `MovingServer`,
`SetCasting` where a set has an address of its own.

A driver describes the node it wants as a value, a `NodePlan`. Runtime, simulator and replay hand such a plan
to the same functions. A recording begins with it, so a replayed node is made exactly as the recorded one was.
"""

from collections.abc import Iterable
from hashlib import blake2b
from itertools import count
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.node import Node
from rostra.protocols.access.agent import AccessAgent
from rostra.protocols.access.config import AccessConfig
from rostra.protocols.access.judge import Judge
from rostra.protocols.access.names import NamesServer
from rostra.protocols.access.server import AccessServer
from rostra.protocols.access.unique import UniqueAgent
from rostra.protocols.agreed.administration import SetAdministration
from rostra.protocols.agreed.agent import AgreedAgent
from rostra.protocols.agreed.call_agent import CallAgent
from rostra.protocols.agreed.call_server import CallServer
from rostra.protocols.agreed.casting import CASTING_SERVER, SetCasting, addresses_of
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.moving import MovingServer
from rostra.protocols.agreed.server import AgreedServer
from rostra.protocols.atomic.agent import ORDER_AGENT, OrderAgent
from rostra.protocols.atomic.messages import CarriedFrame
from rostra.protocols.channel.relay import FrameRelay
from rostra.protocols.claims.agent import ClaimAgent
from rostra.protocols.claims.server import ClaimServer
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.election.core import Ballot, ElectionCore
from rostra.protocols.fifo.cluster import CLUSTER, ClusterCore
from rostra.protocols.fifo.core import HOST, HostCore
from rostra.protocols.fifo.messages import Channel
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.led.agent import LedAgent
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.messages import SpreadLetter
from rostra.protocols.led.server import LedServer
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import SERVER, DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.foreign import ForeignAgent, ForeignServer
from rostra.protocols.scopes.open_agent import OpenAgent
from rostra.protocols.scopes.open_server import OpenServer
from rostra.replica import Replica, ReplicaHost

SERVICES: Final = (
    *(
        HostCore,
        ClusterCore,
        OrderAgent,
        AgreedAgent,
        AgreedServer,
        CallAgent,
        CallServer,
        SetAdministration,
        SetCasting,
        LedAgent,
        LedServer,
    ),
    *(FrameRelay, AccessAgent, AccessServer, NamesServer, UniqueAgent, ClaimAgent, ClaimServer),
    *(OpenAgent, OpenServer, ForeignAgent, ForeignServer),
    *(LocalServer, DomainServer, ElectionCore),
)


class FifoPlan(Struct, frozen=True, array_like=True):
    """How a node takes part in FIFO multicast. All but `config` is for the servers of clusters."""

    config: FifoConfig
    luck: int = 0
    channel: Channel = Channel()
    address: str = ""
    backup: bool = False  # a replica's: it begins as a warm backup


class NodePlan(Struct, frozen=True, array_like=True):
    """Everything that distinguishes one node from another when it is made, except what its disk holds."""

    world: str
    path: Domain
    is_agent: bool
    cluster: bool
    incarnation: int
    links: LinkConfig
    resolve: RelaxedConfig
    siblings: tuple[Domain, ...] = ()
    has_parent: bool = True
    replicated: tuple[Domain, ...] = ()  # domains whose servers have replicas
    fifo: FifoPlan | None = None
    luck: int = 0  # makes the sessions of its links hard to guess
    agreed: AgreedConfig = AgreedConfig()
    access: AccessConfig = AccessConfig()
    led: LedConfig = LedConfig()
    scopes: ScopesConfig = ScopesConfig()
    keeps_logs: bool = True  # it has a disk


class VoterPlan(Struct, frozen=True, array_like=True):
    """The same for one replica of a server, beside the plan of that server; and what its disk holds."""

    path: Domain
    voters: tuple[Domain, ...]  # of all replicas
    incarnation: int
    config: ElectionConfig
    ballot: Ballot = Ballot()
    known: tuple[Domain, ...] = ()  # neighbours of the replica that led last


def receiving_hosts(stack: Stack, group: Group) -> set[Domain]:
    """The hosts of a LAN that have members in a group with messages, as its agent or server knows them;
    without itself. Of a group without a delegate a server knows it by its directory."""
    if (host := stack.find(HOST)) is not None:
        return host.receiving_hosts(group) | stack[ORDER_AGENT].receiving_hosts(group)
    cluster = stack[CLUSTER]
    if group in cluster.groups:
        return cluster.receiving_hosts(group)
    return set(stack[SERVER].table.child_holders(group))


def make_stack(plan: NodePlan, registry: Registry) -> Stack:
    plan.agreed.check_lease(plan.links)
    if not plan.keeps_logs:
        registry.logs = None
    return _agent(plan, registry) if plan.is_agent else _server(plan, registry)


def make_node(
    plan: NodePlan, stack: Stack, known: Iterable[Domain] = (), *, is_replica: bool = False
) -> Node:
    """`known` are the neighbours of the replica that led before."""
    return Node(
        plan.world,
        plan.path,
        stack,
        incarnation=plan.incarnation,
        config=plan.links,
        siblings=plan.siblings,
        has_parent=plan.has_parent,
        accepts_children=not plan.is_agent,
        replicated=plan.replicated,
        known=known,
        luck=plan.luck,
        is_replica=is_replica,
    )


def make_replica(house: ReplicaHost, plan: NodePlan, voter: VoterPlan, registry: Registry) -> Replica:
    """`plan` is that of the replicated server, without an incarnation: that is the term in which the replica
    leads."""
    plan.agreed.check_lease(plan.links)
    core = ElectionCore(
        voter.path,
        voter.voters,
        floor=voter.incarnation,
        ballot=voter.ballot,
        records=registry.own,
        scope=plan.path,
        config=voter.config,
    )
    node = Node(
        plan.world,
        voter.path,
        Stack(core),
        incarnation=voter.incarnation,
        config=plan.links,
        siblings=[each for each in voter.voters if each != voter.path],
        has_parent=False,
        luck=plan.luck,
    )
    times = count()

    def server() -> Stack:
        fifo = plan.fifo and replace(plan.fifo, luck=_luck_of(plan.fifo.luck, next(times)), backup=True)
        return _server(replace(plan, fifo=fifo), registry)

    def server_node(stack: Stack, term: int, known: tuple[Domain, ...]) -> Node:
        if (casting := stack.find(CASTING_SERVER)) is not None:
            casting.begin_term(term)
        return make_node(replace(plan, incarnation=term), stack, known, is_replica=True)

    return Replica(house, plan.path, node, server, server_node, voter.known)


def _luck_of(luck: int, time: int) -> int:
    """Another one for each server that a replica makes."""
    if not time:
        return luck
    drawn = blake2b(f"{luck} {time}".encode(), digest_size=8, person=b"rostra-replica").digest()
    return int.from_bytes(drawn)


def _agent(plan: NodePlan, registry: Registry) -> Stack:
    judge = Judge(plan.world, plan.access, plan.incarnation)
    local = LocalServer(
        plan.path, incarnation=plan.incarnation, config=plan.resolve, registry=registry, gate=judge
    )
    access = AccessAgent(plan.path, judge, plan.access.t_auth_s, registry.own)
    agreed = AgreedAgent(plan.path, plan.agreed, replicated=plan.replicated), CallAgent(plan.path)
    led = LedAgent(plan.path, plan.incarnation, plan.world, plan.links, plan.led)
    scopes = OpenAgent(plan.path, plan.scopes), ForeignAgent(plan.path, plan.scopes)
    services = access, UniqueAgent(), *scopes, *agreed, led, ClaimAgent(plan.path, registry), local
    if plan.fifo is None:
        return Stack(*services)
    order = OrderAgent(plan.path, plan.fifo.config, registry.logs)
    return Stack(HostCore(plan.path, plan.fifo.config), order, *services)


def _server(plan: NodePlan, registry: Registry) -> Stack:
    judge = Judge(plan.world, plan.access, plan.incarnation)
    server = DomainServer(
        plan.path,
        cluster=plan.cluster,
        incarnation=plan.incarnation,
        config=plan.resolve,
        registry=registry,
        gate=judge,
    )
    access = AccessServer(plan.path, judge, registry)
    fifo = plan.fifo
    views = MovingServer(
        plan.path,
        registry,
        plan.agreed,
        is_replica=plan.path in plan.replicated,
        has_parent=plan.has_parent,
    )
    kinds = (
        FrameRelay(SpreadLetter, CarriedFrame),
        LedServer(plan.path, plan.led),
        ClaimServer(plan.path, registry, has_parent=plan.has_parent),
    )
    scopes = OpenServer(plan.path, plan.scopes), ForeignServer(plan.path, plan.scopes)
    names = NamesServer(plan.path, registry)
    addresses = addresses_of(plan.path, plan.agreed.sets, cluster=plan.cluster)
    casting = (SetCasting(plan.path, plan.incarnation, addresses),) if addresses else ()
    agreed = SetAdministration(plan.path), CallServer(plan.path), *casting, views
    services = access, names, *scopes, *agreed, *kinds, server
    if fifo is None:
        return Stack(*services)
    assert plan.cluster, "only clusters have delegates"
    delegate = ClusterCore(
        plan.path,
        fifo.config,
        luck=fifo.luck,
        channel=fifo.channel,
        address=fifo.address,
        replicas=fifo.backup,
        backup=fifo.backup,
    )
    return Stack(delegate, *services)
