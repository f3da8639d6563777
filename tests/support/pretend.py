"""The dashboard over a pretend world: the real application, fed by the simulator as time passes.

    python -m support.pretend          from tests/, then open the address that it prints

Places, lab and flight recorder do what the real ones do, over `rostra.sim` instead of sockets; virtual time
keeps pace with the clock. For looking at pages and for tests of the pages
alone: what needs real processes is tested with real processes.
"""

import argparse
import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

import msgspec

from rostra.core.effects import LinkDown, LinkUp
from rostra.core.observer import Reporter, Seen
from rostra.errors import BadInput, Unreachable
from rostra.groups.items import Joined, Left, Only, Without
from rostra.names import Domain, Group, Tree, inside, parse_group, parse_host
from rostra.observe.log import EventLog
from rostra.observe.node_log import NodeLog
from rostra.observe.trace import CallAnswered, ProgramTold
from rostra.protocols.agreed.observed import HostGiven, SetIsolated, ViewAgreed
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import LinkEvidence, Removed, Suspected, Trusted
from rostra.protocols.relaxed import requests
from rostra.protocols.relaxed.requests import Inspect
from rostra.protocols.relaxed.view import Report, ViewChanged
from rostra.runtime.agreed_state import agreed_document
from rostra.runtime.led_state import led_document
from rostra.runtime.order_state import orders_document
from rostra.sim.programs import SimProgram
from rostra.sim.world import World
from rostra.transport.addresses import TcpAddress
from rostra.web.api import dashboard
from rostra.web.lab import LabCut, LabState
from rostra.web.observatory import Observatory
from rostra.web.places import Happened, Hear, Silent, StateKnown, Unseen, ViewSeen
from rostra.web.serve import serving

STEP_S = 0.05
FRESH_S = 1.0

HOSTS = tuple(
    f"{cluster}.h{n}" for cluster in ("eu.paris", "eu.rome", "us.boston", "us.denver") for n in (1, 2)
)
MEMBERS = {
    "chess@world": ("eu.paris.h1/ann", "eu.rome.h2/bob", "us.boston.h1/cat", "us.denver.h1/dan"),
    "kitchen@eu": ("eu.paris.h2/eve", "eu.rome.h1/fay"),
    "news/sports@us": ("us.boston.h2/gus", "us.denver.h2/hal", "us.denver.h1/ivy"),
}


class PretendPlace:
    """A server of the simulated world, as a place."""

    def __init__(self, pretend: "Pretend", path: Domain) -> None:
        self.path = path
        self.address = f".rostra/{path}"
        self._pretend = pretend
        self._wanted: frozenset[Group] = frozenset()
        self._program: SimProgram | None = None
        self._hear: Hear | None = None
        self._numbers = itertools.count(1)

    @property
    def is_agent(self) -> bool:
        return self.path in self._pretend.world.tree.hosts

    def follow(self, groups: Iterable[Group]) -> None:
        groups = frozenset(groups)
        if self._hear is not None and groups != self._wanted and self._program is not None:
            for group in sorted(self._wanted - groups):
                self._program.unwatch(group)
                self._hear(Unseen(self._pretend.now, group, "not followed any more"))
            for group in sorted(groups - self._wanted):
                self._program.watch(group)
        self._wanted = groups

    async def run(self, hear: Hear) -> None:
        self._hear = hear
        world = self._pretend.world
        said_at = -FRESH_S
        while True:
            process = world.processes[self.path]
            if process.node is None or process.paused:
                self._program = None
                hear(Silent(self._pretend.now, f"no agent at {self.address}: Connection refused"))
            else:
                if self._program is None and self.is_agent:
                    self._program = world.program(self.path, "dashboard-1")
                    wanted, self._wanted = self._wanted, frozenset()
                    self.follow(wanted)
                if world.now - said_at >= FRESH_S or self._pretend.touched.pop(self.path, None):
                    said_at = world.now
                    hear(StateKnown(self._pretend.now, self._document()))
            await self._pretend.turn()

    def _document(self) -> dict[str, Any]:
        world = self._pretend.world
        process = world.processes[self.path]
        assert process.node is not None
        call = world.administer(self.path, Inspect())
        assert call.result is not None
        now = world.now + process.skew_s
        return {
            "world": "pretend",
            "profile": "lan",
            "node": self.path,
            "incarnation": process.node.incarnation,
            "core": msgspec.json.decode(call.result.document),
            "agreed": agreed_document(process.node.stack),
            "orders": orders_document(process.node.stack),
            "led": led_document(process.node.stack, now),
            "links": {
                peer: {
                    "up": link.up,
                    "suspected": link.suspected,
                    "silence_s": (evidence := link.evidence(now)).silence_s,
                    "heard_s": None if link.arrived_at is None else now - link.arrived_at,
                    "phi": min(evidence.phi, 1e6),
                    "expected_s": evidence.expected_s,
                    "last_evidence": self._pretend.evidence.get((self.path, peer)),
                }
                for peer, link in sorted(process.node.links.items())
            },
            "programs": [
                {
                    "program": p.name,
                    "endpoints": [p.endpoint],
                    "suspected": False,
                    "behind": False,
                    "missed": 0,
                }
                for p in world.programs
                if p.host == self.path and p.alive and p.endpoint is not None
            ],
        }

    def happened(self, event: str, **values: Any) -> None:
        if self._hear is not None:
            self._hear(Happened(self._pretend.now, next(self._numbers), event, {"node": self.path, **values}))

    def told(self, program: SimProgram, reports: list[Report]) -> None:
        if program is not self._program or self._hear is None:
            return
        for report in reports:
            if isinstance(report, ViewChanged) and report.group in self._wanted:
                members = program.members_of(report.group)
                isolated = getattr(report.why, "isolated", False)
                for change in _changes(report):
                    self._hear(ViewSeen(self._pretend.now, report.group, members, isolated, change))


def _changes(report: ViewChanged) -> list[Any]:
    left = tuple(member.endpoint for member in report.left)
    match report.why:
        case requests.Joined(cause=cause) if report.joined:
            return [Joined(report.joined, cause)]
        case requests.Left(cause=cause, meta=meta):
            return [Left(left, cause, meta)]
        case requests.Without(domain, because):
            return [Without(domain, left, because)]
        case requests.Only(domain, because):
            return [Only(domain, left, because)]
    return [None]


class PretendLab:
    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        self._listeners: list[Callable[[LabState], None]] = []
        self.state = LabState()

    def listen(self, hear: Callable[[LabState], None]) -> None:
        self._listeners.append(hear)

    async def cut(
        self, here: Domain, there: Domain | None = None, *, one_way: bool = False, link_only: bool = False
    ) -> LabCut:
        cut = LabCut(next(self._numbers), here, there, one_way, link_only)
        self._world.cut(str(cut))
        self._change(cuts=(*self.state.cuts, cut))
        return cut

    async def heal(self, number: int | None = None) -> None:
        if number is not None and number not in {cut.number for cut in self.state.cuts}:
            raise BadInput(f"there is no cut {number}", fix="/api/lab lists them")
        left = () if number is None else tuple(cut for cut in self.state.cuts if cut.number != number)
        self._world.heal()
        for cut in left:
            self._world.cut(str(cut))
        self._change(cuts=left)

    async def crash(self, server: Domain) -> None:
        self._world.crash(server)
        self._change(crashed=tuple(sorted({*self.state.crashed, server})))

    async def restart(self, server: Domain) -> None:
        self._world.restart(server)
        self._change(crashed=tuple(each for each in self.state.crashed if each != server))

    async def pause(self, server: Domain) -> None:
        self._world.pause(server)
        self._change(paused=tuple(sorted({*self.state.paused, server})))

    async def resume(self, server: Domain) -> None:
        self._world.resume(server)
        self._change(paused=tuple(each for each in self.state.paused if each != server))

    def _change(self, **what: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **what)
        for hear in self._listeners:
            hear(self.state)


class PretendLog:
    """The flight recorders of all nodes."""

    def __init__(self, pretend: "Pretend") -> None:
        self._pretend = pretend

    def note(self, event: str, *, node: Domain, **values: Any) -> None:
        if node in self._pretend.places:
            self._pretend.touched[node] = True
            self._pretend.places[node].happened(event, **values)


class Pretend(Reporter):
    """A simulated world and everything that a dashboard needs of it."""

    def __init__(self, hosts: Iterable[str] = HOSTS, *, places: bool = True) -> None:
        agreed = NodeLog(cast(EventLog, PretendLog(self))).shows
        links = dict.fromkeys((LinkUp, LinkDown, Suspected, Trusted, Removed), self._link_changed)
        self.shows = {ProgramTold: self._told, CallAnswered: self._answered, **links}
        self.shows |= {kind: agreed[kind] for kind in (ViewAgreed, SetIsolated, HostGiven)}
        self.world = World(
            7,
            Tree.of(parse_host(host) for host in hosts),
            timers=LinkConfig.lan().over_datagrams(),
            history=False,
            fifo=True,
            observers=[self],
        )
        self.lab = PretendLab(self.world)
        self.places = {path: PretendPlace(self, path) for path in self.world.processes} if places else {}
        self.evidence: dict[tuple[Domain, Domain], LinkEvidence] = {}
        self.touched: dict[Domain, bool] = {}
        self.programs: dict[str, SimProgram] = {}
        self._began = time.time() - self.world.now
        self._turned = asyncio.Event()

    @property
    def now(self) -> float:
        return self._began + self.world.now

    async def turn(self) -> None:
        await self._turned.wait()

    def join(self, member: str, group: str, meta: bytes = b"") -> SimProgram:
        """``join("eu.paris.h1/ann", "chess@world")``"""
        host, _, name = member.partition("/")
        program = self.programs.get(member)
        if program is None or not program.alive:
            program = self.programs[member] = self.world.program(host, name)
        program.join(parse_group(group), meta=meta)
        return program

    def join_ordered(self, member: str, group: str, survive: str = "majority") -> None:
        host, _, name = member.partition("/")
        self.programs[member] = self.world.program(host, name)
        self.programs[member].join_ordered(parse_group(group), survive=survive)

    def join_led(self, member: str, group: str) -> None:
        host, _, name = member.partition("/")
        self.world.program(host, name).join_led(parse_group(group))

    def join_agreed(self, member: str, group: str, survive: str = "majority") -> None:
        host, _, name = member.partition("/")
        self.world.program(host, name).join_agreed(parse_group(group), survive=survive)

    async def run(self) -> None:
        """Let virtual time keep pace with the clock."""
        self._began = time.time() - self.world.now
        while True:
            await asyncio.sleep(STEP_S)
            self.world.run_until(time.time() - self._began)
            self._turned.set()
            self._turned = asyncio.Event()

    # For the world: what happened

    def _told(self, at: float, host: Domain, told: ProgramTold) -> None:
        if host in self.places:
            self.places[host].told(told.program, told.reports)

    def _answered(self, at: float, host: Domain, answered: CallAnswered) -> None:
        if answered.call.program is not None:
            self.touched[host] = True

    def _link_changed(self, at: float, server: Domain, what: Seen) -> None:
        place = self.places.get(server)
        if place is None:
            return
        self.touched[server] = True
        match what:
            case LinkUp(peer, incarnation):
                self.evidence.pop((server, peer), None)
                place.happened("link_up", peer=peer, incarnation=incarnation)
            case LinkDown(peer, because):
                place.happened("link_down", peer=peer, because=because.what, accuser=because.accuser)
            case Suspected(peer, evidence):
                place.happened("link_suspected", peer=peer, **_grounds(evidence))
            case Trusted(peer, after_s):
                place.happened("link_trusted", peer=peer, after_s=after_s)
            case Removed(because, evidence):
                self.evidence[server, because.accused] = evidence
                place.happened(
                    "link_removed", peer=because.accused, because=because.what, **_grounds(evidence)
                )


def _grounds(evidence: LinkEvidence) -> dict[str, Any]:
    return {
        "silence_s": round(evidence.silence_s, 3),
        "expected_s": round(evidence.expected_s, 3),
        "phi": round(evidence.phi, 1),
        "down_after_s": evidence.down_after_s,
    }


@contextlib.asynccontextmanager
async def pretending(
    hosts: Iterable[str] = HOSTS,
    *,
    port: int = 0,
    members: bool = True,
    places: bool = True,
    lab: bool = True,
) -> AsyncIterator[tuple[Pretend, TcpAddress]]:
    """A pretend world and its dashboard's address."""
    pretend = Pretend(hosts, places=places)
    pretend.world.run(for_s=3.0)
    if members:
        for group, names in MEMBERS.items():
            for name in names:
                if inside(Domain("world"), name) and name.partition("/")[0] in pretend.world.tree.hosts:
                    pretend.join(name, group, meta=b"v1.4" if name.endswith("ann") else b"")
    pretend.world.run(for_s=2.0)
    observatory = Observatory(pretend.places.values(), lab=pretend.lab if lab else None, stays_awake=True)
    running = asyncio.create_task(pretend.run())
    async with (
        observatory,
        serving(
            dashboard(observatory), TcpAddress("127.0.0.1", port), closing=observatory.end_streams
        ) as address,
    ):
        try:
            yield pretend, address
        finally:
            running.cancel()


async def churn(pretend: Pretend) -> None:
    """Somebody comes and goes, so that there is something to look at."""
    while True:
        await asyncio.sleep(6)
        with contextlib.suppress(BadInput, Unreachable):
            zoe = pretend.join("us.boston.h1/zoe", "chess@world")
            await asyncio.sleep(6)
            zoe.close()


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=7780)
    parser.add_argument("--shape", default="", help="3x3x4: regions, clusters, hosts")
    parser.add_argument("--empty", action="store_true")
    options = parser.parse_args()
    hosts: Iterable[str] = HOSTS
    if options.shape:
        regions, clusters, per = (int(n) for n in options.shape.split("x"))
        hosts = [
            f"r{r}.c{c}.h{h}"
            for r in range(1, regions + 1)
            for c in range(1, clusters + 1)
            for h in range(1, per + 1)
        ]
    async with pretending(hosts, port=options.port, members=not options.empty) as (
        pretend,
        address,
    ):
        print(f"http://{address}/", flush=True)
        await churn(pretend)


if __name__ == "__main__":
    asyncio.run(_main())
