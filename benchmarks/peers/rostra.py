"""Rostra as its users run it: real agents and servers, all guarantees on, programs on the Unix socket.

one agent            groups of host scope: the agent answers alone
agent with server    agent and cluster server in one process; groups of cluster scope
agent and server     the same in two processes, over TCP
two agents           two hosts' agents and their cluster's server, three processes; members on both hosts; or
                     as many agents as there are `places`
"""

import asyncio
import contextlib
import socket
import sys
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from enum import Enum
from pathlib import Path
from typing import Any

import rostra
from benchmarks.peers.base import OnChange, Program, Service, nobody
from benchmarks.peers.processes import READY_WITHIN_S, Died, listening, start, stop
from benchmarks.peers.talk import Check, payloads, timed
from rostra.client import (
    Conversation,
    Gap,
    Joined,
    Left,
    Me,
    Membership,
    Messages,
    Only,
    View,
    Without,
    connect_admin,
)
from rostra.errors import RostraError, Unreachable
from rostra.names import Endpoint, name_of

CLUSTER = "lab"


class Deployment(Enum):
    ONE_AGENT = "rostra, one agent"
    TOGETHER = "rostra, agent with server"
    APART = "rostra, agent and server"
    TWO_AGENTS = "rostra, two agents"


class RostraService(Service):
    name = "rostra"

    def __init__(
        self,
        deployment: Deployment,
        *,
        profile: str = "wan",
        separate: bool = False,
        journal: bool = False,
        record: bool = False,
        note: str = "",
        places: int | None = None,
    ) -> None:
        self._deployment = deployment
        self._journal = journal
        self._record = record
        self._profile = profile
        self._separate = separate  # every member on a connection of its own, instead of one per process
        self.places = places or (2 if deployment is Deployment.TWO_AGENTS else 1)
        self.label = deployment.value + (f", {note}" if note else "")
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="rostra-bench-")
        self._server = f"127.0.0.1:{_free_port()}"
        world = Path(self._home.name) / "world.toml"
        world.write_text(
            f'[world]\nname = "bench"\nprofile = "{self._profile}"\n[servers]\n{CLUSTER} = "{self._server}"\n'
        )
        if self._journal:
            with world.open("a") as file:
                record = str(self._record).lower()
                file.write(f'[journal]\nat = "{self._home.name}/journal"\nrecord = {record}\n')
        if self._deployment is Deployment.TOGETHER:
            await self._run(
                "agent 0",
                "server",
                "-d",
                CLUSTER,
                "--with-agent",
                f"{CLUSTER}.h0",
                "--socket",
                self._socket(0),
            )
        else:
            if self._deployment is not Deployment.ONE_AGENT:
                await self._run("server", "server", "-d", CLUSTER, "--socket", self._admin)
            for place in range(self.places):
                await self._run_agent(place)
        for place in range(self.places):
            await listening(self._socket(place))
        if self._deployment is not Deployment.ONE_AGENT:
            await self._linked()

    async def stop(self) -> None:
        died = [what for what, process in self._processes.items() if process.returncode is not None]
        await asyncio.gather(*(stop(process) for process in self._processes.values()))
        last_words = [(Path(self._home.name) / f"{what}.log").read_text()[-2000:] for what in died]
        self._home.cleanup()
        if died:
            raise Died(f"{', '.join(died)} ended too early: {' '.join(last_words)}")

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def weighed(self) -> dict[str, int]:
        return {what: process.pid for what, process in self._processes.items()}

    def speaks_for(self, place: int) -> tuple[int, ...]:
        return (self._processes[f"agent {place}"].pid,)

    def door(self, place: int = 0) -> dict[str, Any]:
        return {"address": self._socket(place), "scope": self._scope(place), "separate": self._separate}

    async def suspected(self) -> str:
        """Does the server doubt a host, or an agent one of its programs?"""
        doubted = [link["suspected"] for _, link in await self._links()]
        for place in range(self.places):
            with contextlib.suppress(RostraError, TimeoutError):
                async with asyncio.timeout(0.2), connect_admin(self._socket(place)) as agent:
                    doubted += [program["suspected"] for program in (await agent.inspect())["programs"]]
        return "yes" if any(doubted) else "no"

    async def messages_sent(self) -> int | None:
        nodes: list[dict[str, Any]] = []
        if self._deployment is not Deployment.ONE_AGENT:
            async with connect_admin(self._admin, domain=CLUSTER) as server:
                nodes.append(await server.inspect())
        for place in range(self.places):
            async with connect_admin(self._socket(place)) as agent:
                nodes.append(await agent.inspect())
        counts = [node["messages_sent"] for node in nodes if "messages_sent" in node]
        return sum(counts) if len(counts) == len(nodes) else None  # an older build has none

    async def _links(self) -> list[tuple[str, dict[str, Any]]]:
        if self._deployment is Deployment.ONE_AGENT:
            return []
        async with connect_admin(self._admin, domain=CLUSTER) as server:
            return list((await server.inspect())["links"].items())

    async def _linked(self) -> None:
        async with asyncio.timeout(READY_WITHIN_S):
            while True:
                with contextlib.suppress(Unreachable):  # the server does not listen yet
                    if sum(link["up"] for _, link in await self._links()) == self.places:
                        return
                await asyncio.sleep(0.05)

    async def _run_agent(self, place: int) -> None:
        await self._run(f"agent {place}", "agent", f"{CLUSTER}.h{place}", "--socket", self._socket(place))

    async def _run(self, what: str, *arguments: str) -> None:
        home = Path(self._home.name)
        self._processes[what] = await start(
            sys.executable,
            "-m",
            "rostra",
            *arguments,
            "--world",
            str(home / "world.toml"),
            "--state",
            str(home / "state"),
            log=home / f"{what}.log",
        )

    @property
    def _admin(self) -> str:
        """Where the server takes questions about itself."""
        together = self._deployment is Deployment.TOGETHER
        return self._socket(0) if together else str(Path(self._home.name) / "server.sock")

    def _socket(self, place: int) -> str:
        return str(Path(self._home.name) / f"agent-{place}")

    def _scope(self, place: int) -> str:
        return f"{CLUSTER}.h{place}" if self._deployment is Deployment.ONE_AGENT else CLUSTER


class RostraProgram(Program):
    def __init__(self, address: str, scope: str, separate: bool) -> None:
        self._address = address
        self._scope = scope
        self._separate = separate
        self._endpoints: dict[str, Me] = {}
        self._memberships: dict[tuple[str, str], Membership] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._names = ShortNames()
        self._talk: Conversation
        self._check: Check

    async def begin(self) -> None:
        self._me = await rostra.connect(self._address)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for endpoint in (*self._endpoints.values(), self._me):
            await endpoint.close()

    async def prepare(self, name: str) -> None:
        if name not in self._endpoints:
            self._endpoints[name] = await (
                rostra.connect(self._address, name=name) if self._separate else self._me.open(name)
            )

    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        await self.prepare(name)
        membership = await self._endpoints[name].join(group, self._scope)
        self._memberships[group, name] = await membership.ready()
        if on_change is not nobody:
            self._tasks.append(asyncio.create_task(_report(membership, on_change, self._names)))

    async def join(self, group: str, name: str) -> None:
        await self.prepare(name)
        self._memberships[group, name] = await self._endpoints[name].join(group, self._scope, online=False)

    async def leave(self, group: str, name: str) -> None:
        await self._memberships.pop((group, name)).leave()

    async def members(self, group: str) -> int:
        return len((await self._me.resolve(group, self._scope)).members)

    def me_locks(self, name: str) -> AbstractAsyncContextManager[object]:
        me: Any = self._me
        standing: AbstractAsyncContextManager[object] = me.lock(name, self._scope)
        return standing

    async def follow(self, group: str) -> None:
        await (await self._me.watch(group, self._scope)).ready()

    async def may_speak(self, group: str, sender: int) -> None:
        self._talk = await self._me.join(group, self._scope, delivery="fifo", role="send")
        await self._talk.ready()

    async def listen(self, group: str, name: str, senders: int, count: int) -> None:
        self._check = Check(senders, count)
        self._talk = await self._me.join(group, self._scope, delivery="fifo", role="receive")
        await self._talk.ready()
        self._tasks.append(asyncio.create_task(self._hear()))

    async def _hear(self) -> None:
        many = self._check.many
        async for item in self._talk.items(batch=10_000):
            match item:
                case Messages(bodies=bodies):
                    many(bodies)
                case Gap():
                    raise AssertionError(f"a receiver was told of a gap: {item}")

    async def heard(self) -> int:
        waiting = asyncio.create_task(self._check.finished.wait())
        await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done():
                task.result()
        return self._check.finished_ns

    async def speak(self, sender: int, count: int, size: int) -> int:
        began = time.monotonic_ns()
        await self._talk.send_many(payloads(sender, count, size))
        return began

    async def say_timed(self, sender: int, size: int) -> None:
        await self._talk.send(timed(sender, size))

    async def time(self, count: int) -> list[int]:
        self._check.time()
        late = self._check.late_ns
        assert late is not None
        while len(late) < count:
            await asyncio.sleep(0.01)
        return late

    async def read_copy(self, group: str, times: int) -> int:
        resolve, scope = self._me.resolve, self._scope
        for _ in range(times):
            resolution = await resolve(group, scope)
        assert resolution.from_copy
        return len(resolution.members)


class ShortNames(dict[Endpoint, str]):
    """Short names, worked out once each: the harness must not cost more than the client."""

    def __missing__(self, endpoint: Endpoint) -> str:
        self[endpoint] = name = name_of(endpoint)
        return name


async def _report(followed: Membership, on_change: OnChange, names: ShortNames) -> None:
    async for change in followed:
        match change:
            case Joined(members):
                for member in members:
                    on_change(names[member.endpoint], True)
            case Left(endpoints) | Without(_, endpoints) | Only(_, endpoints):
                for endpoint in endpoints:
                    on_change(names[endpoint], False)
            case Gap(missed):
                raise AssertionError(f"a watcher missed {missed} changes")
            case View():
                pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
