"""A world for tests of programs that use Rostra.

    world = World({"eu.paris": 2, "us.boston": 2}, seed=7)      # hosts eu.paris.h1, eu.paris.h2, ...
    world.start("eu.paris.h1", ann())                           # in it, rostra.connect() means eu.paris.h1
    world.start("us.boston.h1", bob())
    world.run(for_s=10)
    world.cut("eu | us")
    world.run(for_s=10)

Servers, agents, links and detectors are the real ones; time and network are pretended, and all chance comes
from the seed. The clock jumps, so an hour takes as long as what happens in it.
"""

import asyncio
import contextvars
from collections.abc import Coroutine, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from rostra.config import MODES
from rostra.errors import BadInput
from rostra.names import Domain, Tree, parse_host, parse_scope
from rostra.protocols.access.config import AccessConfig
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.front.config import FrontConfig
from rostra.protocols.led.config import LedConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.scopes.config import ScopesConfig
from rostra.sim import WAN, LinkModel
from rostra.sim.world import World as Sim
from rostra.testing.agents import AgentProcess, new_agent
from rostra.testing.loop import HOST, DidNotFinish, PretendLoop
from rostra.testing.trace import TestTrace
from rostra.transport.connection import Connection
from rostra.transport.dialler import name_like

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

T = TypeVar("T")

AT_MOST_S: Final = 3600.0
"""How long a program may run in the world, unless a test says otherwise."""

QUIET_S: Final = 1.0
CLEAN_UP_S: Final = 60.0


class World:
    """A world that is up: every server runs, every link carries.

    `domains` names the clusters, and how many hosts each has or what they are called; a `Tree` says the same
    in full. `links` is the network (`rostra.sim` has LAN, WAN and others, and each can be made to lose
    packets), `timers` how patient the servers are. `lan` and `sealed` are how the hosts of a cluster reach
    each other, as under ``[data]`` of a world file: ``auto``, ``multicast``, ``fanout`` or ``reflect``.
    `replicas` says which domains have how many servers: ``{"eu": 3}``. `authorities` are the installed ones,
    with their public keys. `led` and `scopes` are the settings of led sets, and of groups of open scope.
    `journal` is where servers and agents leave their journals.
    """

    def __init__(
        self,
        domains: Mapping[str, int | Iterable[str]] | Tree,
        *,
        seed: int = 0,
        links: LinkModel = WAN,
        timers: LinkConfig | None = None,
        config: RelaxedConfig | None = None,
        lan: str = "auto",
        sealed: bool = True,
        replicas: Mapping[str, int] | None = None,
        authorities: Mapping[str, bytes] | None = None,
        led: LedConfig | None = None,
        scopes: ScopesConfig | None = None,
        agreed: AgreedConfig | None = None,
        loop: PretendLoop | None = None,
        journal: "SimJournal | None" = None,
    ) -> None:
        tree = domains if isinstance(domains, Tree) else None
        shape = None if isinstance(domains, Tree) else domains
        self.sim = Sim(
            seed,
            tree,
            domains=shape,
            links=links,
            timers=timers,
            config=config,
            history=False,
            fifo=True,
            lan=_mode(lan),
            sealed=sealed,
            replicas=replicas,
            front=FrontConfig(),
            access=AccessConfig(tuple(sorted((authorities or {}).items()))),
            led=led,
            scopes=scopes,
            agreed=agreed,
            journal=journal,
        )
        self.seed = seed
        self.loop = PretendLoop() if loop is None else loop
        self._agents: dict[Domain, AgentProcess] = {}
        self._programs: list[tuple[Domain, asyncio.Task[Any]]] = []
        self.sim.settle(quiet_s=QUIET_S)
        self._trace = TestTrace(self.sim)
        self.loop.world = self.sim
        self.loop.rostra_dialler = _Dialler(self)

    @property
    def now(self) -> float:
        """Seconds since the world began: what ``loop.time()`` says in it."""
        return self.sim.now

    @property
    def hosts(self) -> tuple[Domain, ...]:
        return self.sim.tree.hosts

    @property
    def trace(self) -> tuple[str, ...]:
        """What happened, line by line: what programs were told, what servers noticed, what the test did. The
        same seed and the same programs give the same trace."""
        return self._trace.lines()

    # Programs and time

    def start(self, host: str, program: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a program on a host. It dies with the host; if it fails, so does the test."""
        try:
            where = self._host(host)
        except BadInput:
            program.close()
            raise
        context = contextvars.copy_context()
        context.run(HOST.set, where)
        task = self.loop.create_task(program, context=context)
        self._programs.append((where, task))
        return task

    @overload
    def run(self, program: Coroutine[Any, Any, T], *, at_most_s: float = ...) -> T: ...

    @overload
    def run(self, *, for_s: float) -> None: ...

    def run(
        self,
        program: Coroutine[Any, Any, T] | None = None,
        *,
        for_s: float = 0.0,
        at_most_s: float = AT_MOST_S,
    ) -> T | None:
        """Let time pass: until this program ends, or for so many seconds. Those that were started go on."""
        if self.loop.is_running():
            if program is not None:
                program.close()
            raise BadInput(
                "the world runs already", fix="in a coroutine time passes by: await asyncio.sleep(seconds)"
            )
        self.loop.ends_at = self.now + (at_most_s if program is not None else for_s + QUIET_S)
        awaited = asyncio.sleep(for_s) if program is None else program
        result = self.loop.run_until_complete(awaited)
        self.look_for_failures()
        return result

    async def settled(self, *, quiet_s: float = QUIET_S, at_most_s: float = 600.0) -> None:
        """Until every link is up that can be and down that cannot, and only heartbeats are sent."""
        give_up = self.now + at_most_s
        await asyncio.sleep(quiet_s)  # what was just begun may not have been heard of yet
        while odd := self.sim.unsettled(quiet_s):
            if self.now >= give_up:
                raise DidNotFinish(f"the world did not come to rest in {at_most_s:g} s: {odd}")
            await asyncio.sleep(self.sim.timers.tick_s)

    def settle(self, *, at_most_s: float = 600.0) -> None:
        """The same, for tests that are no coroutines."""
        self.run(self.settled(at_most_s=at_most_s), at_most_s=at_most_s + QUIET_S)

    # What goes wrong

    def cut(self, where: str) -> None:
        """Stop the network from carrying anything: ``eu | us`` between two domains or hosts, ``eu > us`` in
        one direction only, ``eu`` alone at its border, ``link eu | us`` between two servers only."""
        self._order(f"cut {where}")
        self.sim.cut(where)

    def heal(self, where: str = "") -> None:
        """Undo a cut; all of them, if it says nothing."""
        self._order(f"heal {where}".rstrip())
        self.sim.heal(where)

    def lose(self, share: float, where: str = "") -> None:
        """Lose this share of the packets, from now on."""
        self._order(f"lose {share:.0%} {where}".rstrip())
        self.sim.lose(share, where)

    def delay(self, least_s: float, where: str = "") -> None:
        """Be at least this slow, from now on; 0 ends it."""
        self._order(f"delay {least_s:g} s {where}".rstrip())
        self.sim.delay(least_s, where)

    def crash(self, server: str) -> None:
        """A host or a domain's server dies, with all that is in its memory. The programs that were started
        on the host die with it; others that were connected there lose their agent."""
        self._order(f"crash {server}")
        path = self._server(server)
        self.sim.crash(server)
        self.sim.fronts.of.pop(path, None)
        agent = self._agents.pop(path, None)
        if agent is not None:
            agent.die()
        for host, task in self._programs:
            if host == path:
                task.cancel()

    def restart(self, server: str) -> None:
        """It comes back with an empty memory. Programs are started anew by the test, if at all."""
        if self.sim.processes[self._server(server)].node is not None:
            self.crash(server)
        self._order(f"restart {server}")
        self.sim.restart(server)

    def pause(self, server: str) -> None:
        """A host's agent, or a domain's server, stands still: as stopped, or starved of a processor."""
        self._order(f"pause {server}")
        path = self._server(server)
        self.sim.pause(server)
        if path in self._agents:
            self._agents[path].pause()

    def resume(self, server: str) -> None:
        self._order(f"resume {server}")
        path = self._server(server)
        self.sim.resume(server)
        if path in self._agents:
            self._agents[path].resume()

    def drop(self, host: str) -> None:
        """Break the connections between a host's agent and its programs. Both live, and may find each other
        again."""
        self._order(f"drop {host}")
        path = self._host(host)
        if path in self._agents:
            self._agents[path].drop()

    def deafen(self, host: str) -> None:
        """IP multicast does not reach this host any more, as behind a switch that filters it."""
        self._order(f"deafen {host}")
        self.sim.channels.deaf.add(self._host(host))

    def undeafen(self, host: str) -> None:
        self._order(f"undeafen {host}")
        self.sim.channels.deaf.discard(self._host(host))

    # Its end

    def close(self) -> None:
        """End every program, let it clean up behind itself, and say which of them failed."""
        loop = self.loop
        if loop.is_closed():
            return
        loop.ends_at = self.now + CLEAN_UP_S
        try:
            if left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
        self.look_for_failures()

    def look_for_failures(self) -> None:
        """A program or callback that failed unseen would make a test that cannot."""
        failures, self.loop.failures = self.loop.failures, []
        if failures:
            raise failures[0]
        programs, self._programs = self._programs, []
        for host, task in programs:
            if not task.done():
                self._programs.append((host, task))
            elif not task.cancelled() and (error := task.exception()) is not None:
                raise error

    # Small words

    def agent(self, host: Domain) -> AgentProcess | None:
        if host not in self._agents:
            agent = new_agent(self.sim, host, self._trace)
            if agent is None:
                return None
            self._agents[host] = agent
        return self._agents[host]

    def _order(self, what: str) -> None:
        self._trace.write("test", what)

    def _server(self, name: str) -> Domain:
        path = parse_scope(name)
        if path not in self.sim.processes:
            known = " ".join(self.sim.processes)
            raise BadInput(f"{name!r} is no server of this world", fix=f"one of: {known}")
        return path

    def _host(self, name: str) -> Domain:
        host = parse_host(name)
        if host not in self.hosts:
            raise BadInput(f"{name} is not a host of this world", fix=f"one of: {' '.join(self.hosts[:8])}")
        return host


def _mode(lan: str) -> str:
    if lan not in MODES:
        raise BadInput(f"lan={lan!r} is no way to reach a LAN", fix=f"one of: {', '.join(MODES)}")
    return lan


class _Dialler:
    """What `rostra.connect` does in the world: an address is a host's path."""

    def __init__(self, world: World) -> None:
        self.luck = Random(world.seed)
        self._world = world
        self._named = 0

    def find(self, address: str | None) -> Domain:
        if address is None:
            address = HOST.get("")
            if not address:
                raise BadInput(
                    "in a pretended world a program must say on which host it is",
                    fix='rostra.connect("eu.paris.h1"), or world.start("eu.paris.h1", program())',
                )
        return self._world._host(address)

    async def dial(self, where: Domain, connection: Connection) -> None:
        agent = self._world.agent(where)
        if agent is None:
            raise ConnectionRefusedError(111, f"{where} is down")
        agent.call(connection)
        await asyncio.sleep(0)

    def name(self, stem: str) -> str:
        self._named += 1
        return name_like("app", f"-{self._named}")

    def program(self) -> str:
        return "test"
