"""A small world: real processes, real sockets, and the faults that can be made in it.

    supervisor ─┬─ rostra server -d eu          one process for each domain,
                ├─ rostra agent eu.paris.h1     one for each host,
                ├─ the programs of that host    one for each host with sample programs
                └─ cables                       between any two of the first two kinds

The supervisor takes no part in the protocol. It starts processes, relays their connections, and breaks both
on demand. It is the dashboard's `Lab`.
"""

import asyncio
import contextlib
import itertools
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from rostra.client import connect, connect_admin
from rostra.errors import BadInput, RostraError
from rostra.names import Domain, host_of, inside, parent
from rostra.transport.addresses import TcpAddress
from rostra.up.cables import LOOPBACK, Cable, line
from rostra.up.children import ChildProcess, in_words
from rostra.up.home import WorldHome
from rostra.up.plan import WorldPlan
from rostra.up.programs import LOUNGE, PEOPLE_PER_HOST, people_of
from rostra.web.lab import LabCut, LabState

if TYPE_CHECKING:
    from rostra.up.journal import LabJournal

STALLED_S: Final = 60.0
"""A world in which nothing has gone forward for so long does not come up. However slow it is, while one node
after the other answers it is waited for."""

REMARK_S: Final = 20.0
"""How often it is reported what is waited for."""

BUSY: Final = 2.0
"""A machine on which so many want each processor is called busy."""

LOOK_AGAIN_S: Final = 0.1
END_WITHIN_S: Final = 10.0
"""A process that takes longer is killed, and what its journal has not written is lost."""

HOSTS_WITH_PEOPLE_MAX: Final = 12
"""Enough to see something everywhere; in a larger world the hosts between stay empty."""

NOWHERE: Final = TcpAddress(LOOPBACK, 1)
"""The address, in a node's world file, of every server that it has no cable to: nothing goes around a cut."""


class NotUp(RostraError):
    """The world did not come up."""

    code = "NOT_UP"


class Starting(Struct):
    """How far the world has come: nodes answer, then all their links are up, then their people are seen."""

    waiting_for: list[Domain]  # nodes that do not answer or are not linked yet
    steps: int  # from the first process to the last person seen
    done: int = 0
    answering: set[Domain] = field(default_factory=set)
    unseen: list[Domain] = field(default_factory=list)  # hosts whose programs are in no list yet

    def missing(self) -> str:
        """What is not there yet, first things first."""
        silent = [node for node in self.waiting_for if node not in self.answering]
        unlinked = [node for node in self.waiting_for if node in self.answering]
        parts = [
            f"no answer from {_some(silent)}" if silent else "",
            f"not linked to all neighbours: {_some(unlinked)}" if unlinked else "",
            f"nobody seen of {_some(self.unseen)}" if self.unseen and not self.waiting_for else "",
        ]
        return "; ".join(part for part in parts if part)


def _some(nodes: list[Domain], most: int = 3) -> str:
    return ", ".join(nodes[:most]) + (f" and {len(nodes) - most} more" if len(nodes) > most else "")


def busy() -> str:
    """Whether others want this machine too; nothing if they do not."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    return f"this machine is busy: load {load:.0f} on {processors} processors" * (load > BUSY * processors)


class SmallWorld:
    def __init__(
        self,
        plan: WorldPlan,
        home: WorldHome,
        *,
        say: Callable[[str], None],
        complain: Callable[[str], None],
        seed: str = "1",
        wan_delay_s: float = 0.0,
        journal: str | None = None,
        record: bool = False,
    ) -> None:
        self.plan = plan
        self.home = home
        self.children: dict[tuple[Domain, ...], ChildProcess] = {}
        self.programs: dict[Domain, ChildProcess] = {}
        self._seed = seed
        self._wan_delay_s = wan_delay_s
        self._say = say  # what was ordered
        self._complain = complain  # reports what was not ordered
        self._ports: dict[tuple[Domain, ...], socket.socket] = {}
        self._cables: list[Cable] = []
        self._cuts: dict[int, LabCut] = {}
        self._cut_numbers = itertools.count(1)
        self._listeners: list[Callable[[LabState], None]] = []
        self._is_up = False
        self._first_death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._we_ended: set[ChildProcess] = set()
        self._kept_at = ["--journal", journal, *(["--record"] if record else [])] if journal else []
        self._journal = _journal(journal, plan.name) if journal else None

    # Beginning

    async def start(self, tell: Callable[[Starting], None]) -> None:
        """Start everything, and wait until every link is up and the people of every host are seen."""
        await self._lay_cables()
        for nodes in self.plan.processes:
            self._new_node(nodes).start()
            self._servers_changed(nodes, "started")
            await asyncio.sleep(0)
        for number, host in enumerate(self._hosts_with_people()):
            self._new_programs(host, number)
        self.home.lead_to(self.plan.hosts[0])
        starting = Starting(
            [*self.plan.nodes], 2 * len(self.plan.nodes) + len(self.programs), unseen=[*self.programs]
        )
        ready = asyncio.create_task(self._ready(starting, tell))
        try:
            await self._until_ready(ready, starting)
        finally:
            ready.cancel()
        self._is_up = True
        self._changed()

    async def _until_ready(self, ready: asyncio.Task[None], starting: Starting) -> None:
        """For as long as there is progress; what is waited for is reported now and then."""
        loop = asyncio.get_running_loop()
        began = forward_at = loop.time()
        done = starting.done
        either: set[asyncio.Future[Any]] = {ready, self._first_death}
        while not ready.done():
            await asyncio.wait(either, timeout=REMARK_S, return_when=asyncio.FIRST_COMPLETED)
            if self._first_death.done():
                raise NotUp(self._first_death.result())
            if ready.done():
                break
            if starting.done > done:
                done, forward_at = starting.done, loop.time()
            if loop.time() - forward_at >= STALLED_S:
                raise self._stalled(starting)
            words = (f"still starting after {loop.time() - began:.0f} s", starting.missing(), busy())
            self._complain("; ".join(word for word in words if word))
        await ready

    async def _lay_cables(self) -> None:
        """Open every cable and every port, and write down for each process where its neighbours are."""
        for nodes in self.plan.processes:
            self._ports[nodes] = _reserve_port()
        files: dict[tuple[Domain, ...], dict[Domain, TcpAddress]] = {}
        for nodes in self.plan.processes:
            files[nodes] = dict.fromkeys(self.plan.servers, NOWHERE)
            files[nodes] |= {node: self._address(nodes) for node in nodes if node in files[nodes]}
        for (process, server), links in self.plan.cables().items():
            cable = Cable(links, self._address(self.plan.process_of(server)))
            self._cables.append(cable)
            files[process][server] = await cable.open()
        clusters = sorted({parent(host) for host in self.plan.hosts})
        # Datagrams need no cable: a server believes none of a host whose link is cut.
        data = {cluster: self._address(self.plan.process_of(cluster)) for cluster in clusters}
        for nodes, servers in files.items():
            text = world_file(self.plan, servers, data)
            self.home.world_file(nodes[0]).write_text(text, encoding="utf-8")
        self._apply_cuts()

    def _address(self, process: tuple[Domain, ...]) -> TcpAddress:
        host, port = self._ports[process].getsockname()
        return TcpAddress(host, port)

    def _new_node(self, nodes: tuple[Domain, ...]) -> ChildProcess:
        name = nodes[0]
        what = ("agent", name) if name in self.plan.hosts else ("server", *_each("--domain", nodes))
        command = (
            *("rostra", *what),
            *("--world", str(self.home.world_file(name))),
            *("--socket", str(self.home.socket(name))),
            *("--state", str(self.home.state)),
            *self._kept_at,
        )
        child = ChildProcess(name, nodes, command, self.home.log(name), self._died)
        self.children[nodes] = child
        return child

    def _new_programs(self, host: Domain, number: int) -> ChildProcess:
        where = str(self.home.socket(host))
        command = ("rostra.up.programs", host, where, self._seed, *people_of(number))
        name = f"programs of {host}"
        child = ChildProcess(name, (), command, self.home.log(f"{host}.programs"), self._died)
        self.programs[host] = child
        return child

    def _hosts_with_people(self) -> tuple[Domain, ...]:
        hosts = self.plan.hosts
        every = -(-len(hosts) // HOSTS_WITH_PEOPLE_MAX)
        return hosts[::every]

    async def _ready(self, starting: Starting, tell: Callable[[Starting], None]) -> None:
        def done(steps: int = 1) -> None:
            starting.done += steps
            tell(starting)

        async def one(node: Domain) -> None:
            await self._links(node)
            starting.answering.add(node)
            done()
            if node in self.programs:
                self.programs[node].start()
            neighbours = self.plan.neighbours(node)
            while not {*neighbours} <= await self._links(node):
                await asyncio.sleep(LOOK_AGAIN_S)
            starting.waiting_for.remove(node)
            done()

        done(0)
        async with asyncio.TaskGroup() as looks:
            for node in self.plan.nodes:
                looks.create_task(one(node))
        seen: set[Domain] = set()
        async for host in self._sightings():
            if host in self.programs and host not in seen:
                seen.add(host)
                starting.unseen.remove(host)
                done()
                if len(seen) == len(self.programs):
                    return

    async def _links(self, node: Domain) -> set[str]:
        """The links of a node that are up, as soon as the node answers."""
        while True:
            with contextlib.suppress(RostraError):
                async with connect_admin(str(self.socket(node)), domain=node) as admin:
                    links = (await admin.inspect())["links"]
                    return {peer for peer, link in links.items() if link["up"]}
            await asyncio.sleep(LOOK_AGAIN_S)

    def _stalled(self, starting: Starting) -> NotUp:
        waiting = starting.waiting_for
        last_words = self.children[self.plan.process_of(waiting[0])].last_words() if waiting else []
        lines = [f"{waiting[0]}: {line}" for line in last_words]
        lines += [line for line in (busy(), "try a smaller --shape") if line]
        return NotUp(
            f"the world did not come up: for {STALLED_S:g} s nothing went forward ({starting.missing()})",
            fix="\n  ".join(lines),
        )

    async def _sightings(self) -> AsyncIterator[Domain]:
        """Hosts whose people the first host has seen in the lounge."""
        async with (
            connect(str(self.home.front_door), name="supervisor") as me,
            me.watch(LOUNGE) as lounge,
        ):
            async for _ in lounge:
                for member in lounge.members:
                    yield host_of(member.endpoint)

    @property
    def people(self) -> int:
        return PEOPLE_PER_HOST * len(self.programs)

    def socket(self, node: Domain) -> Path:
        """Where programs and administrators reach that node. Nodes of one process share a socket."""
        return self.home.socket(self.plan.process_of(node)[0])

    # The end

    async def stop(self) -> None:
        """End every process: those who speak first, those who carry what they say last. Those that are paused
        cannot be asked, and would let the others wait."""
        self._is_up = False
        paused = [child for child in self.children.values() if child.is_paused]
        agents = [child for nodes, child in self.children.items() if nodes[0] in self.plan.hosts]
        servers = [child for nodes, child in self.children.items() if nodes[0] not in self.plan.hosts]
        try:
            await self._kill(paused)
            for kind in (list(self.programs.values()), agents, servers):
                running = [child for child in kind if child.is_running]
                self._we_ended |= set(running)
                await asyncio.gather(*(child.end(END_WITHIN_S) for child in running))
        finally:
            await self.kill()

    async def kill(self) -> None:
        """End every process at once, and put the cables away."""
        await self._kill([*self.programs.values(), *self.children.values()])
        for cable in self._cables:
            cable.close()
        for port in self._ports.values():
            port.close()
        if self._journal is not None:
            journal, self._journal = self._journal, None
            await asyncio.to_thread(journal.close)

    async def _kill(self, children: Iterable[ChildProcess]) -> None:
        running = [child for child in children if child.is_running]
        self._we_ended |= set(running)
        await asyncio.gather(*(child.kill() for child in running))

    def _died(self, child: ChildProcess, code: int) -> None:
        if child in self._we_ended:
            self._we_ended.discard(child)
            return
        self._servers_changed(child.nodes, "crashed")
        words = f"{child.name} {in_words(code)}"
        lines = "".join(f"\n  {line}" for line in child.last_words())
        self._complain(f"{words}; its log ends with:{lines}" if lines else words)
        if not self._first_death.done():
            self._first_death.set_result(words)
        self._changed()

    # The lab

    @property
    def state(self) -> LabState:
        children = self.children.values()
        return LabState(
            cuts=tuple(self._cuts.values()),
            crashed=tuple(sorted(n for child in children if not child.is_running for n in child.nodes)),
            paused=tuple(sorted(n for child in children if child.is_paused for n in child.nodes)),
        )

    def listen(self, hear: Callable[[LabState], None]) -> None:
        self._listeners.append(hear)

    async def cut(
        self, here: Domain, there: Domain | None = None, *, one_way: bool = False, link_only: bool = False
    ) -> LabCut:
        self._check_up()
        for path in (here, there):
            if path is not None and not any(inside(path, node) for node in self.plan.nodes):
                raise BadInput(f"nothing of this world is in {path}", fix="name a domain or a host of it")
        for same in self._cuts.values():
            if (same.here, same.there, same.one_way, same.link_only) == (here, there, one_way, link_only):
                return same
        new = LabCut(next(self._cut_numbers), here, there, one_way, link_only)
        if not any(new.loses(a, b) or new.loses(b, a) for cable in self._cables for a, b in cable.links):
            raise BadInput(
                f"no cable runs between {here} and {there or 'the rest of the world'}",
                fix="cut between neighbours: a domain and the one around it, or two domains of the same one",
            )
        self._cuts[new.number] = new
        self._apply_cuts()
        self._say(f"cut {new}")
        self._changed()
        return new

    async def heal(self, number: int | None = None) -> None:
        if number is not None and number not in self._cuts:
            cuts = ", ".join(f"{cut.number} ({cut})" for cut in self._cuts.values())
            raise BadInput(f"there is no cut {number}", fix=f"there are: {cuts or 'none'}")
        healed = [self._cuts.pop(each) for each in ([*self._cuts] if number is None else [number])]
        self._apply_cuts()
        for cut in healed:
            self._say(f"healed {cut}")
        self._changed()

    async def crash(self, server: Domain) -> None:
        child = self._running(server)
        victims = [child, *(self.programs[node] for node in child.nodes if node in self.programs)]
        await self._kill(victims)
        self._servers_changed(child.nodes, "crashed")
        self._say(f"crashed {', '.join(victim.name for victim in victims)}")
        self._changed()

    async def restart(self, server: Domain) -> None:
        child = self._child(server)
        if child.is_running:
            raise BadInput(f"{server} is running", fix="crash it first")
        child.start()
        self._servers_changed(child.nodes, "started")
        for node in child.nodes:
            if node in self.programs and not self.programs[node].is_running:
                self.programs[node].start()
        self._say(f"restarted {child.name}")
        self._changed()

    async def pause(self, server: Domain) -> None:
        child = self._running(server)
        if not child.is_paused:
            child.pause()
            self._servers_changed(child.nodes, "paused")
            self._say(f"paused {child.name}")
            self._changed()

    async def resume(self, server: Domain) -> None:
        child = self._running(server)
        if child.is_paused:
            child.resume()
            self._servers_changed(child.nodes, "continued")
            self._say(f"resumed {child.name}")
            self._changed()

    def _check_up(self) -> None:
        if not self._is_up:
            raise BadInput("the world is not up", fix="wait until it has come up, or run it again")

    def _child(self, server: Domain) -> ChildProcess:
        self._check_up()
        return self.children[self.plan.process_of(server)]

    def _running(self, server: Domain) -> ChildProcess:
        child = self._child(server)
        if not child.is_running:
            raise BadInput(f"{server} is not running", fix="restart it first")
        return child

    def _apply_cuts(self) -> None:
        cuts = self._cuts.values()
        for cable in self._cables:
            cable.lay(
                line(self._delay_s(cable), cut=any(cut.loses(a, b) for cut in cuts for a, b in cable.links)),
                line(self._delay_s(cable), cut=any(cut.loses(b, a) for cut in cuts for a, b in cable.links)),
            )
        if self._journal is not None:
            ends = [ends for cable in self._cables for a, b in cable.links for ends in ((a, b), (b, a))]
            self._journal.lines_are_cut(
                (sender, to) for sender, to in ends if any(cut.loses(sender, to) for cut in cuts)
            )

    def _servers_changed(self, nodes: Iterable[Domain], change: str) -> None:
        if self._journal is not None:
            self._journal.servers_changed(nodes, change)

    def _delay_s(self, cable: Cable) -> float:
        is_wan = any("." not in a and "." not in b for a, b in cable.links)
        return self._wan_delay_s if is_wan else 0.0

    def _changed(self) -> None:
        if not self._is_up:
            return
        state = self.state
        living = [host for host in self.plan.hosts if host not in state.crashed]
        if living:
            self.home.lead_to(living[0])
        for hear in self._listeners:
            hear(state)


def _journal(at: str, world: str) -> "LabJournal":
    # Only who keeps a journal waits for Arrow to load.
    from rostra.up.journal import LabJournal

    return LabJournal(at, world)


def world_file(
    plan: WorldPlan, servers: Mapping[Domain, TcpAddress], data: Mapping[Domain, TcpAddress] | None = None
) -> str:
    """The world as one process is to see it."""
    lines = [
        "[world]",
        f"name = {_quoted(plan.name)}",
        f"profile = {_quoted(plan.profile)}",
        "",
        "[servers]",
        *(f"{_quoted(server)} = {_quoted(str(address))}" for server, address in servers.items()),
        "",
        "[data]",
        *(f"{_quoted(cluster)} = {_quoted(str(address))}" for cluster, address in (data or {}).items()),
    ]
    for table, said in plan.settings.items():
        lines += [
            "",
            f"[{table}]",
            *(f"{_quoted(name)} = {json.dumps(value)}" for name, value in said.items()),
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a TOML string


def _reserve_port() -> socket.socket:
    """A port that is ours for as long as this socket is open. It does not listen, so a server of ours may
    still do so there, again and again, and no other process is given the number meanwhile."""
    port = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind((LOOPBACK, 0))
    return port


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
