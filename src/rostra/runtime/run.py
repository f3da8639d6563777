"""From settings to a running process, and its shutdown.

first SIGTERM or SIGINT    leave every group, wait until the domain has acknowledged it, say goodbye, exit 0
second one                 exit at once
SIGHUP                     read the world file again and apply what can be applied: see `reload`
"""

import asyncio
import contextlib
import gc
import os
import resource
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.config import LOOPBACK, WorldConfig
from rostra.errors import BadInput, RostraError
from rostra.names import Domain, parent
from rostra.observe.log import EventLog
from rostra.observe.recording import FORMAT, Began
from rostra.protocols.fifo.messages import Channel
from rostra.runtime.arenas import MB_EACH
from rostra.runtime.data import DataChannel, fitted
from rostra.runtime.listener import Listener
from rostra.runtime.notify import Systemd
from rostra.runtime.process import HostedNode, Process
from rostra.runtime.reload import reload
from rostra.runtime.replicas import Replicas
from rostra.runtime.spill import MB_MAX
from rostra.runtime.store import DiskStore, open_store
from rostra.stacks import FifoPlan, NodePlan, VoterPlan, make_node, make_replica, make_stack
from rostra.transport.addresses import SocketPath, TcpAddress, default_socket
from rostra.transport.tokens import is_open_to_others, read_token
from rostra.wire import FrameKind

if TYPE_CHECKING:
    from rostra.runtime.journal import Journals

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1


class Settings(Struct, frozen=True, kw_only=True):
    """What one process is to be."""

    world: WorldConfig
    domains: tuple[Domain, ...] = ()  # to serve
    host: Domain | None = None  # to be the agent of
    socket: SocketPath | None = None  # for programs and administrators; none: an agent's usual place
    programs_at: TcpAddress | None = None  # for the agent's programs, over TCP
    token_file: Path | None = None  # holds what programs must show over TCP; none: nothing
    replica: int | None = None  # which of the domains' replicas, where they have some; 1 is the first
    listen: TcpAddress | None = None  # instead of what the world file says, for all domains
    data: TcpAddress | None = None  # the same for datagrams; an agent's own are at any free port
    state: Path | None = None
    spill_mb: int = MB_MAX  # what backlogs of slow receivers may fill there
    arena_mb: int = MB_EACH  # of memory shared with programs, for each group
    told: dict[str, str] = {}  # settings that are not defaults, and their origins: for the log

    def check(self) -> None:
        for domain in self.domains:
            self.world.check_domain(domain)
            self._check_replica(domain)
        if self.replica is not None and not any(domain in self.world.replicas for domain in self.domains):
            raise BadInput(
                f"replica {self.replica} of a server that has none",
                fix="name several addresses for the domain under [servers], or leave out --replica",
            )
        if self.host is not None:
            self.world.check_host(self.host)
        if not self.domains and self.host is None:
            raise BadInput("nothing to run", fix="name a domain or a host")

    def _check_replica(self, domain: Domain) -> None:
        replicas = self.world.replicas.get(domain)
        if replicas is None:
            return
        if self.replica is None or not 1 <= self.replica <= len(replicas):
            raise BadInput(
                f"{domain} has {len(replicas)} replicas, and it was not said which of them this is"
                if self.replica is None
                else f"{domain} has {len(replicas)} replicas, and no number {self.replica}",
                fix=f"--replica 1 to --replica {len(replicas)}, in the order of [servers]",
            )
        if self.state is None:
            raise BadInput(
                f"a replica of {domain} must remember how it voted", fix="name a directory with --state"
            )


Beside = Callable[[Process], AbstractAsyncContextManager[None]]
"""Something that runs beside the nodes while they run, and may not disturb them: HTTP."""


def run(
    settings: Settings,
    record: EventLog,
    *,
    read_again: Callable[[], WorldConfig] | None = None,
    beside: Beside | None = None,
) -> int:
    """Run until a signal or an order stops it; the answer is the exit code."""
    settings.check()
    _allow_many_files()
    return new_runner().run(_main(settings, record, read_again, beside))


async def _main(
    settings: Settings, record: EventLog, read_again: Callable[[], WorldConfig] | None, beside: Beside | None
) -> int:
    stop = _told_to_stop()  # from now on: a process may be stopped while its listeners open
    process_and_listeners = running(settings, record)
    async with process_and_listeners as process, _nothing() if beside is None else beside(process):
        process.loop.set_exception_handler(partial(_unhandled, process))
        systemd = Systemd()
        if read_again is not None:
            again = partial(_reload, process_and_listeners, process, read_again, systemd)
            process.loop.add_signal_handler(signal.SIGHUP, again)
        record.note("configured", **settings.told)  # from now on SIGHUP is handled
        # All that was made up to here is here to stay. Looking for garbage in it again and again takes far
        # longer than a turn should.
        gc.collect()
        gc.freeze()
        systemd.ready(_status(process))
        systemd.feed(process.loop)
        either: set[asyncio.Future[Any]] = {stop, process.failed}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if process.failed.done():
            error = process.failed.result()
            record.note("failed", because=str(error) or type(error).__name__)
            if not isinstance(error, RostraError):
                raise error
            return EXIT_FAILED
        systemd.stopping(stop.result())
        await process.shut_down(stop.result())
        systemd.close()
    return EXIT_OK


def _unhandled(process: Process, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An exception that no task caught is logged in full, unless `failed` will report it in plain words."""
    error = context.get("exception")
    if isinstance(error, RostraError) and process.failed.done() and process.failed.result() is error:
        return
    loop.default_exception_handler(context)


def _told_to_stop() -> "asyncio.Future[str]":
    """A future for the name of the signal that ends this process."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop, number)
    return stop


@contextlib.asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def _reload(
    process_and_listeners: "running",
    process: Process,
    read_again: Callable[[], WorldConfig],
    systemd: Systemd,
) -> None:
    record = process.record
    systemd.reloading()
    try:
        taken = reload(process, process_and_listeners.listeners, read_again())
    except RostraError as error:
        record.note("reload_failed", because=str(error))
    else:
        record.note(
            "reloaded",
            changed=", ".join(taken.changed) or "nothing",
            needs_restart=", ".join(taken.needs_restart),
            because="SIGHUP received",
        )
    systemd.ready(_status(process))


def _status(process: Process) -> str:
    return f"{', '.join(process.hosted_nodes)} of world {process.world.name}"


def _on_signal(stop: "asyncio.Future[str]", number: signal.Signals) -> None:
    if stop.done():
        os._exit(128 + number)
    stop.set_result(f"{number.name} received")


class running:
    """A process with its listeners open: ``async with running(settings, record) as process``."""

    def __init__(self, settings: Settings, record: EventLog) -> None:
        self._settings = settings
        self._record = record
        self._journals: Journals | None = None
        self._replicas: Replicas | None = None
        self.listeners: list[Listener] = []

    async def __aenter__(self) -> Process:
        settings = self._settings = replace(
            self._settings, world=self._settings.world.at_replica(self._settings.replica)
        )
        process = Process(settings.world, self._record)
        process.arena_bytes = settings.arena_mb << 20
        try:
            for domain in settings.domains:
                if domain in settings.world.replicas:
                    self._host_replica(process, domain)
                else:
                    store = open_store(settings.state, domain)
                    plan = _server_plan(settings.world, domain, store.incarnation, process.data)
                    process.host(_hosted(plan, store))
                    process.keep_backlogs(domain, settings.state, settings.spill_mb << 20)
            if settings.host is not None:
                store = open_store(settings.state, settings.host)
                process.host(_hosted(_agent_plan(settings.world, settings.host, store.incarnation), store))
            if settings.world.journal.at is not None:
                self._journals = _journals(settings.world.journal.at, process)
            await self._open_doors(process)
            self._open_data(process)
        except BaseException:
            self._close(process)
            raise
        process.start()
        return process

    async def __aexit__(self, *_: object) -> None:
        for listener in self.listeners:
            listener.close()
        if self._journals is not None:
            await self._journals.close()

    def _host_replica(self, process: Process, domain: Domain) -> None:
        settings = self._settings

        def serve(domain: Domain) -> None:
            process.keep_backlogs(domain, settings.state, settings.spill_mb << 20)
            process.data.sets.open(domain)
            if settings.world.is_cluster(domain):
                process.data.serve(domain)

        if self._replicas is None:
            self._replicas = Replicas(process, serve, lambda: self._journals)
        assert settings.replica is not None
        world, voters = settings.world, settings.world.voters(domain)
        me = voters[settings.replica - 1]
        store = open_store(settings.state, me)
        registry = store.registry()
        # The address and the keys stay the same, however often this replica leads.
        plan = _server_plan(world, domain, 0, process.data)
        voter = VoterPlan(me, voters, store.incarnation, world.lead, store.ballot(), tuple(store.known()))
        replica = make_replica(self._replicas, plan, voter, registry)
        self._replicas.host(
            replica, store, Began(FORMAT, plan, registry.copies(plan.path), voter, registry.own.all())
        )

    async def _open_doors(self, process: Process) -> None:
        settings = self._settings
        token = "" if settings.token_file is None else read_token(settings.token_file)
        if settings.token_file is not None and is_open_to_others(settings.token_file):
            self._record.note(
                "unprotected",
                file=str(settings.token_file),
                because="every user of this machine may read the token",
                fix=f"chmod 600 {settings.token_file}",
            )
        if settings.domains:
            addresses = (
                {settings.listen}
                if settings.listen
                else {settings.world.servers[d] for d in settings.domains}
            )
            for address in sorted(addresses):
                await self._open(Listener(process, FrameKind.LINK, FrameKind.TO_AGENT, token=token), address)
        programs = FrameKind.TO_AGENT
        socket = (
            default_socket() if settings.socket is None and settings.host is not None else settings.socket
        )
        if socket is not None:
            await self._open(Listener(process, programs), socket, settings.world.agents.socket_mode)
        if settings.programs_at is not None:
            await self._open(Listener(process, programs, token=token), settings.programs_at)
            if not token and not settings.programs_at.host.startswith(LOOPBACK):
                self._record.note(
                    "unprotected",
                    address=str(settings.programs_at),
                    because="every machine that reaches it may join, read and fill any group",
                    fix="ask programs for a token: --token-file FILE",
                )

    def _open_data(self, process: Process) -> None:
        """One UDP socket: at the address of the first cluster that is served here; an agent's is anywhere."""
        settings, world = self._settings, self._settings.world
        for domain in settings.domains:
            if domain not in world.replicas:
                process.data.sets.open(domain)
        served = [domain for domain in settings.domains if world.is_cluster(domain)]
        home = served[0] if served else parent(settings.host) if settings.host is not None else None
        if home is None:
            return
        process.fifo_config = fitted(world.fifo_at(home) if served else world.fifo_of_hosts(home))
        at = world.data_of(home)
        if served:
            elsewhere = settings.data or (settings.listen if at == world.servers[home] else None)
            process.data.open_at(elsewhere or at)
            for cluster in served:
                if cluster not in world.replicas:
                    process.data.serve(cluster)
        else:
            process.data.open_when_needed(settings.data or TcpAddress(_any_address_to(at), 0))
        if settings.host is not None:
            process.data.locate(parent(settings.host), world.data_of(parent(settings.host)))

    async def _open(self, listener: Listener, address: TcpAddress | SocketPath, mode: int = 0o660) -> None:
        where = await listener.listen(address, mode)
        self.listeners.append(listener)
        self._record.note("listening", address=str(where))

    def _close(self, process: Process) -> None:
        process.data.close()
        for listener in self.listeners:
            listener.close()
        process.close_disks()
        for hosted in process.hosted_nodes.values():
            hosted.store.close()


def _journals(at: str, process: Process) -> "Journals":
    # Only who keeps a journal waits for Arrow to load.
    from rostra.runtime.journal import Journals

    journals = Journals(at, process.world.journal, process)
    for hosted in process.hosted_nodes.values():
        if hosted.is_voter:
            journals.record(hosted)
        else:
            journals.open(hosted)
    return journals


def _hosted(plan: NodePlan, store: DiskStore) -> HostedNode:
    registry = store.registry()
    plan = replace(plan, keeps_logs=registry.logs is not None)
    began = Began(
        FORMAT, plan, registry.copies(plan.path), own=registry.own.all(), logs=registry.log_batches()
    )
    return HostedNode(make_node(plan, make_stack(plan, registry)), store, is_agent=plan.is_agent, began=began)


def _server_plan(world: WorldConfig, domain: Domain, incarnation: int, data: DataChannel) -> NodePlan:
    cluster, fifo = world.is_cluster(domain), None
    if cluster:
        fifo = FifoPlan(
            fitted(world.fifo_at(domain)),
            luck=secrets.randbits(64),
            channel=Channel(world.data_mode(domain)),
            address=_address(world, domain, data),
        )
    return NodePlan(
        world.name,
        domain,
        False,
        cluster,
        incarnation,
        world.links,
        world.resolve,
        world.siblings(domain),
        world.has_parent(domain),
        tuple(sorted(world.replicas)),
        fifo,
        secrets.randbits(64),
        world.agreed,
        world.access,
        world.led_settings,
        world.scopes_settings,
    )


def _agent_plan(world: WorldConfig, host: Domain, incarnation: int) -> NodePlan:
    return NodePlan(
        world.name,
        host,
        True,
        False,
        incarnation,
        world.links,
        world.resolve,
        (),
        world.has_parent(host),
        tuple(sorted(world.replicas)),
        FifoPlan(fitted(world.fifo_of_hosts(parent(host)))),
        secrets.randbits(64),
        world.agreed,
        world.access,
        world.led_settings,
        world.scopes_settings,
    )


def _address(world: WorldConfig, domain: Domain, data: DataChannel) -> str:
    """What other clusters need to know: where its data is taken, what seals it, and where multicast is."""
    between = world.data_between(domain)
    key = data.make_keys(domain)
    return f"{world.data_of(domain)} {key}" + (f" {between}" if between is not None else "")


def _any_address_to(there: TcpAddress) -> str:
    """What to bind to in order to reach that address: loopback stays on the machine."""
    if there.host.startswith(LOOPBACK):
        return "::1" if ":" in there.host else "127.0.0.1"
    return "::" if ":" in there.host else "0.0.0.0"


def new_runner() -> asyncio.Runner:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def _allow_many_files() -> None:
    """One connection is one file; the soft limit of 1024 is for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
