"""A small real world: agents and servers as processes, each on a machine of its own, with cables that can be
cut.

A **machine** is a network namespace with one address, plugged into one bridge. Without root a lab has
loopback machines instead: everything but cutting works. Programs connect over Unix sockets, which namespaces
share, so the test itself is a program on any host it likes.

    lab = Lab(tmp_path, servers=("eu", "us"), hosts=("eu.h1", "eu.h2", "us.h1"))
    await lab.start()
    with lab.cut(lab.side("eu"), lab.side("us")): ...
    await lab.calm()          # healed, everybody running, every link up

Waiting is for conditions, with generous deadlines, never for a fixed time. A lab ends only what it started.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from support.forks import Forked
from support.ports import free_port

from rostra.client import Me, connect, connect_admin
from rostra.errors import RostraError
from rostra.names import Domain, Tree, domain_of_replica, inside, parent, replica_path
from rostra.transport.addresses import TcpAddress

ROSTRA = (sys.executable, "-c", "from rostra.__main__ import main; main()")
_REAL = ROSTRA  # a test may put another program in its place
WITHIN_S = 120.0
"""For what takes a moment on an idle machine. It only ends the wait for what will never come."""

ANSWER_WITHIN_S = 20.0

FORGIVING_S = 2.5
FORGIVING = f"[detect]\ndown_after_s = {FORGIVING_S}\n"
"""For the world file of a lab that is not about detection: who stands still for two seconds, because this
machine is busy with something else, keeps its place."""

TOOLS_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def why_no_namespaces() -> str | None:
    """Why cuts are impossible here; none if they are possible."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "iptables"):
        if shutil.which(tool, path=TOOLS_PATH) is None:
            return f"{tool} is not installed: apt-get install -y iproute2 iptables"
    probe = f"rostra-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, env=_tools())
    if made.returncode != 0:
        return f"namespaces cannot be made here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, env=_tools())
    return None


async def until(
    condition: Callable[[], Any | Awaitable[Any]], what: str, within_s: float = WITHIN_S, look_s: float = 0.02
) -> Any:
    """Wait until this is true; the answer is its value. A condition that cannot be asked yet is not true
    yet."""
    deadline = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            answer = condition()
            last = await answer if isinstance(answer, Awaitable) else answer
            if last:
                return last
        except (RostraError, OSError) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}; last: {last!r}")
        await asyncio.sleep(look_s)


class Machine:
    """Where a process runs: a namespace, or loopback."""

    def __init__(self, address: str, namespace: str | None) -> None:
        self.address = address
        self.namespace = namespace

    def command(self, *words: str) -> list[str]:
        return [*(("ip", "netns", "exec", self.namespace) if self.namespace else ()), *words]

    def filter(self, *rules: str) -> "subprocess.Popen[str]":
        """Begin to change what the packet filter does here: all of these rules at once."""
        assert self.namespace is not None, "a loopback machine has no cables to cut"
        change = subprocess.Popen(
            self.command("iptables-restore", "--noflush", "-w"),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_tools(),
        )
        assert change.stdin is not None
        change.stdin.write("\n".join(("*filter", *rules, "COMMIT", "")))
        change.stdin.close()
        return change


class Process:
    """One agent or server process, which can be stopped, killed and started again."""

    def __init__(self, lab: "Lab", nodes: tuple[Domain, ...], machine: Machine, arguments: list[str]) -> None:
        self.lab = lab
        self.nodes = nodes
        self.machine = machine
        self.arguments = arguments
        self.log_file = lab.directory / f"{nodes[0]}.log"
        self.environ: dict[str, str] = {}  # beside that of the test
        self._process: subprocess.Popen[Any] | None = None
        self._stopped = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        assert not self.is_running, f"{self.nodes[0]} runs already"
        with self.log_file.open("ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            environ = {**_tools(), "PYTHONUNBUFFERED": "1", **self.environ}
            if self.lab.forked and ROSTRA is _REAL:
                self._process = Forked(
                    self.arguments, namespace=self.machine.namespace, env=environ, **streams
                )
            else:
                command = self.machine.command(*ROSTRA, *self.arguments)
                self._process = subprocess.Popen(command, env=environ, **streams)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGSTOP:
            self._stopped = True
        elif number == signal.SIGCONT:
            self._stopped = False

    def kill(self) -> None:
        """SIGKILL: no last words."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._stopped = False

    def wait(self, within_s: float = WITHIN_S) -> int:
        """Until it has ended by itself; the answer is its exit code."""
        assert self._process is not None
        return self._process.wait(within_s)

    async def ended(self, within_s: float = WITHIN_S) -> int:
        """The same without stopping the test's own loop."""
        await until(lambda: not self.is_running, f"{self.nodes[0]} ends", within_s)
        return self.wait()

    def resume(self) -> None:
        if self._stopped and self.is_running:
            self.signal(signal.SIGCONT)

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


class Lab:
    """A world of one process for each server and each host, unless `together` says who shares one. A server
    with `replicas` is as many processes, named as its replicas are: `leader` is the one that leads."""

    _made = 0

    def __init__(
        self,
        directory: Path,
        *,
        servers: Iterable[str],
        hosts: Iterable[str],
        together: Iterable[tuple[str, ...]] = (),
        profile: str = "lan",
        world: str = "lab",
        namespaces: bool = True,
        state: bool = True,
        more: str = "",
        replicas: Mapping[str, int] | None = None,
        remote: str = "",
        forked: bool = True,
    ) -> None:
        Lab._made += 1
        self.forked = forked  # and not started anew: see `support.forks`
        self._remote = remote  # a host whose agent also takes programs over TCP
        self._more = more  # lines of the world file
        self.directory = directory
        self.world = world
        self.name = f"rl{os.getpid() % 100000}x{Lab._made}"
        self.has_cables = namespaces
        self.servers = tuple(Domain(server) for server in servers)
        self.hosts = tuple(Domain(host) for host in hosts)
        self.processes: dict[Domain, Process] = {}
        self._state = state
        self._profile = profile
        self._machines: list[Machine] = []
        self._rules: list[tuple[Machine, str]] = []
        # Sockets live in a short path of their own: a socket's address has no room for pytest's directories.
        self._run_directory = Path(tempfile.mkdtemp(prefix="rl", dir="/tmp"))
        self._addresses: dict[Domain, TcpAddress] = {}
        shared = {Domain(node): tuple(map(Domain, nodes)) for nodes in together for node in nodes}
        self.voters = {
            Domain(server): [replica_path(Domain(server), rank + 1) for rank in range(count)]
            for server, count in (replicas or {}).items()
        }
        alone = [node for server in self.servers for node in self.voters.get(server, [server])]
        self._groups = list(dict.fromkeys(shared.get(node, (node,)) for node in (*alone, *self.hosts)))

    # Building and tearing down

    async def start(self) -> "Lab":
        try:
            if self.has_cables:
                _run("ip", "netns", "add", self.name)
                _run("ip", "-n", self.name, "link", "add", "br0", "type", "bridge")
                _run("ip", "-n", self.name, "link", "set", "br0", "up")
            placed = [(nodes, self._machine(number)) for number, nodes in enumerate(self._groups, 1)]
            if self._remote:
                self.remote_address = f"127.0.0.1:{free_port()}"
            for nodes, machine in placed:
                port = 7700 if machine.namespace else free_port()
                self._addresses |= {node: TcpAddress(machine.address, port) for node in nodes}
            self._write_world()
            for nodes, machine in placed:
                process = Process(self, nodes, machine, self._arguments(nodes))
                self.processes |= dict.fromkeys(nodes, process)
                process.start()
            await self.calm()
        except BaseException:
            self.close()
            raise
        return self

    def __enter__(self) -> "Lab":
        return asyncio.run(self.start())

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what we started, by its number, and remove what we made."""
        for process in self.processes.values():
            process.kill()
        if self.has_cables:
            for machine in self._machines:
                subprocess.run(
                    ["ip", "netns", "del", machine.namespace or ""], capture_output=True, env=_tools()
                )
            subprocess.run(["ip", "netns", "del", self.name], capture_output=True, env=_tools())
        shutil.rmtree(self._run_directory, ignore_errors=True)

    def _machine(self, number: int) -> Machine:
        if not self.has_cables:
            self._machines.append(Machine("127.0.0.1", None))
            return self._machines[-1]
        namespace, address = f"{self.name}m{number}", f"10.77.0.{number}"
        _run("ip", "netns", "add", namespace)
        self._machines.append(Machine(address, namespace))
        _run(
            "ip",
            "link",
            "add",
            "eth0",
            "netns",
            namespace,
            "type",
            "veth",
            "peer",
            f"p{number}",
            "netns",
            self.name,
        )
        _run("ip", "-n", self.name, "link", "set", f"p{number}", "master", "br0", "up")
        _run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        _run("ip", "-n", namespace, "link", "set", "eth0", "up")
        _run("ip", "-n", namespace, "link", "set", "lo", "up")
        return self._machines[-1]

    def _write_world(self) -> None:
        servers = "\n".join(f'"{server}" = {self._written(server)}' for server in self.servers)
        self.world_file.write_text(
            f'[world]\nname = "{self.world}"\nprofile = "{self._profile}"\n\n'
            f"[servers]\n{servers}\n{self._more}"
        )

    def _written(self, server: Domain) -> str:
        """Where it is, as a world file says it."""
        if server in self.voters:
            return str([str(self._addresses[voter]) for voter in self.voters[server]])
        return f'"{self._addresses[server]}"'

    @property
    def world_file(self) -> Path:
        return self.directory / "world.toml"

    def _arguments(self, nodes: tuple[Domain, ...]) -> list[str]:
        state = ["--state", str(self.directory / "state")] if self._state else []
        hosts = [node for node in nodes if node in self.hosts]
        domains = [node for node in nodes if node not in self.hosts]
        common = ["--world", str(self.world_file), "--socket", self.socket(nodes[0]), *state]
        if not domains:
            remote = ["--programs-at", self.remote_address] if hosts[0] == self._remote else []
            return ["agent", hosts[0], *common, *remote]
        if (domain := domain_of_replica(domains[0])) is not None:
            rank = self.voters[domain].index(domains[0]) + 1
            return ["server", "--domain", domain, "--replica", str(rank), *common]
        served = [word for domain in domains for word in ("--domain", domain)]
        return ["server", *served, *(["--with-agent", hosts[0]] if hosts else []), *common]

    # The world

    def socket(self, node: str) -> str:
        """Where programs of a host, and administrators of a server, connect."""
        (nodes,) = [nodes for nodes in self._groups if node in nodes]
        return str(self._run_directory / f"{nodes[0]}.sock")

    def address(self, server: str) -> str:
        return str(self._addresses[Domain(server)])

    def __getitem__(self, node: str) -> Process:
        return self.processes[Domain(node)]

    async def leader(self, server: str) -> Process:
        """The replica of this server that leads, when one does and the others follow it."""

        async def found() -> Process | None:
            told = []
            for voter in self.voters[Domain(server)]:
                process = self[voter]
                if process.is_running and not process.is_stopped:
                    told.append((await self.inspect(voter))["core"])
            leads = [core["path"] for core in told if core["leads"]]
            agreed = {core["leader"] for core in told}
            return self[leads[0]] if len(leads) == 1 and agreed == set(leads) else None

        leader: Process = await until(found, f"one replica of {server} leads", look_s=0.1)
        return leader

    def side(self, *domains: str) -> list[Domain]:
        """Every node inside these domains."""
        return [node for node in self.processes if any(inside(Domain(domain), node) for domain in domains)]

    @contextlib.asynccontextmanager
    async def program(self, host: str, name: str) -> AsyncIterator[Me]:
        """This test, as a program on that host."""
        async with connect(self.socket(host), name=name, on_lost="raise") as me:
            yield me

    async def inspect(self, node: str) -> dict[str, Any]:
        """What a node says of itself."""
        at = (await self.leader(node)).nodes[0] if Domain(node) in self.voters else node
        async with connect_admin(self.socket(at), domain=node, timeout_s=ANSWER_WITHIN_S) as admin:
            return await admin.inspect()

    async def register(self, group: str, domain: str) -> None:
        at = (await self.leader(domain)).nodes[0] if Domain(domain) in self.voters else domain
        async with connect_admin(self.socket(at), domain=domain) as admin:
            await admin.register(group)

    # Faults

    def cut_one_way(self, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """What the senders say does not reach the receivers any more; the other way still works."""
        self._rule(self._deaf(senders, receivers))

    def cut(self, some: Iterable[str], others: Iterable[str]) -> None:
        some, others = list(some), list(others)
        self._rule([*self._deaf(some, others), *self._deaf(others, some)])

    def _deaf(self, senders: Iterable[str], receivers: Iterable[str]) -> list[tuple[Machine, str]]:
        addresses = sorted({self[sender].machine.address for sender in senders})
        machines = {self[receiver].machine for receiver in receivers}
        return [(machine, f"INPUT -s {address} -j DROP") for machine in machines for address in addresses]

    def reset_connections(self, a: str, b: str) -> None:
        """Whatever a sends to b is answered with a TCP reset, until healed."""
        address = self[a].machine.address
        self._rule([(self[b].machine, f"INPUT -p tcp -s {address} -j REJECT --reject-with tcp-reset")])

    def deafen(self, node: str, match: str) -> None:
        """Packets of which this is true, as `iptables` says it, do not reach that machine any more."""
        self._rule([(self[node].machine, f"INPUT {match} -j DROP")])

    def silence(self, node: str, match: str) -> None:
        """The same of packets that leave that machine: nobody gets them any more, from one moment on."""
        self._rule([(self[node].machine, f"OUTPUT {match} -j DROP")])

    def count_packets(self, node: str, match: str) -> None:
        """Those that leave that machine, and of which this is true, as `iptables` says it, from now on."""
        self._rule([(self[node].machine, f"OUTPUT {match}")])

    def packets(self, node: str) -> int:
        """How many were counted, by the one rule that counts there."""
        told = subprocess.run(
            self[node].machine.command("iptables", "-w", "-nvxL", "OUTPUT"),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        _, _, rule = told.splitlines()
        return int(rule.split()[0])

    def lost(self, node: str, words: str) -> int:
        """How many packets did not reach that machine by the rules that say these words?"""
        told = subprocess.run(
            self[node].machine.command("iptables", "-w", "-nvxL", "INPUT"),
            capture_output=True,
            text=True,
            check=True,
            env=_tools(),
        ).stdout
        return sum(int(line.split()[0]) for line in told.splitlines() if words in line)

    def heal(self) -> None:
        rules, self._rules = self._rules, []
        self._filter("-D", rules)

    def _rule(self, rules: list[tuple[Machine, str]]) -> None:
        self._rules += rules
        self._filter("-A", rules)

    def _filter(self, verb: str, rules: list[tuple[Machine, str]]) -> None:
        """On all machines at once: how long a cut takes must not be felt."""
        each = {machine: [f"{verb} {rule}" for m, rule in rules if m is machine] for machine, _ in rules}
        changes = [machine.filter(*lines) for machine, lines in each.items()]
        for change in changes:
            assert change.stderr is not None
            said = change.stderr.read()
            assert change.wait() == 0, f"the packet filter refused: {said}"
            change.stderr.close()

    async def calm(self) -> None:
        """Healed, everybody running, every link up."""
        self.heal()
        for process in set(self.processes.values()):
            process.resume()
            if not process.is_running:
                process.start()
        for host in self.hosts:
            await until(lambda host=host: self._is_linked(host), f"{host} is linked to {parent(host)}")
        pairs = self._neighbours()
        for server in self.servers:
            if pairs[server]:
                await until(
                    lambda server=server: self._links_up(server, pairs[server]),
                    f"links of {server}",
                    look_s=0.1,
                )

    async def _is_linked(self, host: Domain) -> bool:
        process = self.processes[host]
        assert process.is_running, f"{host} has ended: {process.log[-2000:]}"
        document = await self.inspect(host)
        return bool(document["links"][parent(host)]["up"])

    async def _links_up(self, server: Domain, peers: list[Domain]) -> bool:
        links = (await self.inspect(server))["links"]
        return all(links.get(peer, {}).get("up") for peer in peers)

    def _neighbours(self) -> dict[Domain, list[Domain]]:
        tree = Tree.of(self.hosts)
        return {
            server: [
                peer for peer in tree.neighbours(server) if peer in self.processes or peer in self.voters
            ]
            for server in self.servers
        }

    def logs(self) -> str:
        return "\n".join(f"--- {p.nodes[0]}\n{p.log}" for p in dict.fromkeys(self.processes.values()))

    def counted(self, node: str, event: str) -> int:
        """How many log lines of this node say that event."""
        return sum(
            f" {event} " in f"{line} " and f"node={node} " in f"{line} "
            for line in self[node].log.splitlines()
        )


@contextlib.contextmanager
def member(socket: str, name: str, group: str, scope: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a process of its own that is in a group, and says its endpoint on its first line."""
    script = str(Path(__file__).with_name("member.py"))
    with subprocess.Popen(
        [sys.executable, script, socket, name, group, scope], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip(), "the member did not start"
            yield process
        finally:
            process.kill()


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, env=_tools())
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"


def _tools() -> dict[str, str]:
    return {**os.environ, "PATH": TOOLS_PATH}
