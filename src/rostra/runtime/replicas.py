"""Replicas of a domain's server on real machines: each is a process, and one of them leads.

A follower listens where the world file says, accepts the other replicas and refuses all other callers, which
try the addresses in turn until they find the leader. When it is elected, its process becomes the domain's
server as well; when another replica is, that node ends and the process goes on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rostra.core.effects import Event
from rostra.errors import StoreFailed
from rostra.names import Domain
from rostra.node import Node, Output
from rostra.observe.recording import Began
from rostra.replica import Replica
from rostra.runtime.process import HostedNode, Process
from rostra.runtime.store import DiskStore

if TYPE_CHECKING:
    from rostra.runtime.journal import Journals

REMEMBER_AFTER_S: Final = 1.0
"""How long changes of neighbours are gathered before they are written to disk."""


class Replicas:
    """The replicas that run in one process, at most one of each domain: their `ReplicaHost`."""

    def __init__(
        self, process: Process, serve: Callable[[Domain], None], journals: Callable[[], "Journals | None"]
    ) -> None:
        self._process = process
        self._serve = serve  # whatever a domain's server needs besides its node
        self._journals = journals
        self._voters: dict[Domain, HostedNode] = {}  # by domain
        self._servers: dict[Domain, HostedNode] = {}  # of those that lead
        self._unwritten: dict[Domain, tuple[Domain, ...]] = {}  # neighbours that are not on the disk yet

    def host(self, replica: Replica, store: DiskStore, began: Began) -> None:
        voter = HostedNode(replica.voter, store, is_agent=False, began=began)
        voter.replica = replica
        self._voters[replica.domain] = voter
        self._process.host(voter)

    # What a replica orders

    def begin(self, replica: Replica, server: Node) -> None:
        voter = self._voters[replica.domain]
        hosted = HostedNode(server, voter.store, is_agent=False)
        hosted.replica = replica
        self._servers[replica.domain] = hosted
        self._process.record.note("leading", node=voter.path, domain=replica.domain, term=server.incarnation)
        self._process.host(hosted)
        self._serve(replica.domain)
        if (journals := self._journals()) is not None:
            journals.open(hosted, led_by=voter.path)
        self._process.let_lead(hosted)

    def end(self, replica: Replica, server: Node, why: str) -> None:
        hosted = self._servers.pop(replica.domain)
        self._process.record.note("resigned", node=self._voters[replica.domain].path, because=why)
        self._process.let_go(hosted, why)
        self._process.data.serve_no_longer(replica.domain)
        self._process.data.sets.close(replica.domain)

    def step_voter(self, replica: Replica, event: Event) -> None:
        self._process.step_inside(self._voters[replica.domain], event)

    def step_server(self, replica: Replica, event: Event) -> None:
        self._process.step_inside(self._servers[replica.domain], event)

    def remember(self, replica: Replica, neighbours: tuple[Domain, ...]) -> None:
        waiting = replica.domain in self._unwritten
        self._unwritten[replica.domain] = neighbours
        if not waiting:
            self._process.loop.call_later(REMEMBER_AFTER_S, self._write_down, replica.domain)

    def _write_down(self, domain: Domain) -> None:
        if self._process.is_over:
            return
        voter = self._voters[domain]
        try:
            voter.store.persist_known(self._unwritten[domain])
        except StoreFailed as error:
            self._process.no_room(voter, "neighbours", error)
            self._process.loop.call_later(REMEMBER_AFTER_S, self._write_down, domain)
        else:
            del self._unwritten[domain]

    def perform(self, replica: Replica, output: Output) -> None:
        if (hosted := self._servers.get(replica.domain)) is not None:
            self._process.perform(hosted, output)
