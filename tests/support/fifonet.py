"""A small world for `protocols/fifo`: real cores, virtual time, control links that keep order, and data that
may be lost, doubled and reordered.

    net = Net(seed=1, lans={"huji": 2, "mit": 1}, wan_s=0.115, wan_loss=0.2)
    a, b = net.join("huji.h1/a"), net.join("mit.h1/b")
    net.run(1.0)
    net.stream(a, every_s=0.1)
    net.run(10.0)
    assert net.numbers(b, a) == ...

Every delivery is checked at once: in order, no hole, no duplicate, the very bytes, after `Joined` and before
`Left`. Every core that was stepped is asked for its invariants.
"""

import heapq
import random
from collections.abc import Callable, Iterable
from typing import Any

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    EndpointGone,
    Ignored,
    LinkDown,
    LinkUp,
    Noted,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.stack import Stack
from rostra.groups.attributes import Role, Slow
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, Endpoint, Group, host_of, parent
from rostra.names.tree import Tree
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.cluster import CLUSTER, ClusterCore
from rostra.protocols.fifo.core import HOST, HostCore
from rostra.protocols.fifo.invariants import delegate_violations, member_violations
from rostra.protocols.fifo.messages import Mirror
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data
from rostra.protocols.flow.runs import block_of, payloads
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.sim.spill_disk import SimSpillDisk

G = Group("g", ROOT)


class Program:
    """One endpoint's program: what it was told, what it sent, and what it may still send."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.items: list[tuple[float, ev.Item]] = []
        self.credit = 0
        self.submitted = 0
        self.waiting = 0
        self.next: dict[Endpoint, int | None] = {}  # per sender that is in our view: what must come next
        self.origins: dict[Endpoint, int] = {}  # per sender that speaks through an aggregate: the same
        self.last: dict[Endpoint, int] = {}
        self.numbers: dict[Endpoint, list[tuple[float, int, int]]] = {}  # per sender: when, first, count
        self.answers: list[Any] = []
        self.active = False
        self.silent = False


class Net:
    def __init__(
        self,
        seed: int = 1,
        lans: dict[str, int] | None = None,
        *,
        config: FifoConfig | None = None,
        lan_s: float = 0.0002,
        wan_s: float | dict[frozenset[str], float] = 0.05,
        lan_loss: float = 0.0,
        wan_loss: float = 0.0,
        duplicate: float = 0.0,
        jitter: float = 0.0,
        detect_s: float = 1.0,
        replicas: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.config = config or FifoConfig()
        self.lan_s, self.wan_s, self.lan_loss, self.wan_loss = lan_s, wan_s, lan_loss, wan_loss
        self.duplicate, self.jitter, self.detect_s = duplicate, jitter, detect_s
        names = [
            Domain(f"{lan}.h{n}") for lan, count in (lans or {"a": 1}).items() for n in range(1, count + 1)
        ]
        self.tree = Tree.of(names)
        self.nodes: dict[Domain, Any] = {}
        self.replicas = replicas
        self.backups: dict[Domain, ClusterCore] = {}
        self.epochs: dict[Domain, int] = {}
        self.programs: dict[Endpoint, Program] = {}
        self.lives: dict[Domain, int] = {}
        self.counts: dict[str, int] = {}
        self.ignored: dict[tuple[str, str], int] = {}
        self.notes: list[tuple[float, Domain, str, str]] = []
        self.data_filter: Callable[[Domain, Domain, Any], bool] = lambda source, to, message: True
        self.control_delay: Callable[[Domain, Domain, Any], float] = lambda source, to, message: 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._timers: dict[tuple[Domain, Any], int] = {}
        self._links: dict[tuple[Domain, Domain], int] = {}  # up: its generation
        self._generation = 0
        self._last_arrival: dict[tuple[Domain, Domain], float] = {}
        self._cut: set[frozenset[Domain]] = set()
        self._sides: list[list[Domain]] = []
        self._exact: set[str] = set()
        self._token = 0
        for server in self.tree.servers:
            self._start(server)
        for one, other in self.tree.links():
            self._link_up(one, other)
        self.run(0.5)

    # Building

    def _start(self, path: Domain) -> None:
        life = self.lives[path] = self.lives.get(path, 0) + 1
        if path in self.tree.hosts:
            core: Any = HostCore(path, self.config)
            Stack(core, LocalServer(path, incarnation=life))
        else:
            server = DomainServer(path, cluster=path in self.tree.clusters, incarnation=life)
            core = server
            if path in self.tree.clusters:
                luck = self.random.getrandbits(32)
                core = ClusterCore(path, self.config, luck=luck, replicas=self.replicas)
                Stack(core, server)
                self._have_backup(path, server)
            else:
                Stack(server)
        self.nodes[path] = core

    def _have_backup(self, lan: Domain, server: DomainServer) -> None:
        if self.replicas:
            luck = self.random.getrandbits(32)
            backup = ClusterCore(lan, self.config, luck=luck, replicas=True, backup=True)
            Stack(backup, server)
            self.backups[lan] = backup

    def take_over(self, name: str) -> None:
        """The active delegate of this LAN dies, and a replica of its server goes on at once. What the server
        itself knows is taken to be replicated."""
        lan = Domain(name)
        old, new = self.nodes[lan], self.backups[lan]
        for key in [key for key in self._timers if key[0] == lan]:
            del self._timers[key]
        self.nodes[lan] = new
        self._have_backup(lan, old.server)
        epoch = self.epochs[lan] = self.epochs.get(lan, 1) + 1
        if old.local is not None:
            self.step(lan, LinkDown(old.host, Because(lan, old.host, "silent")))
        self.step(lan, ev.Appointed(epoch))

    def _link_up(self, one: Domain, other: Domain) -> None:
        if (one, other) in self._links or one not in self.nodes or other not in self.nodes:
            return
        self._generation += 1
        for a, b in ((one, other), (other, one)):
            self._links[a, b] = self._generation
            self._last_arrival.pop((a, b), None)
        for a, b in ((one, other), (other, one)):
            self.step(a, LinkUp(b, self.lives[b]))

    def _link_down(self, one: Domain, other: Domain) -> None:
        for a, b in ((one, other), (other, one)):
            if self._links.pop((a, b), None) is not None and a in self.nodes:
                self.step(a, LinkDown(b, Because(a, b, "silent")))

    # Faults

    def cut(self, *sides: Iterable[str], exact: Iterable[str] = ()) -> None:
        """No link and no datagram between these sides, each a set of domains. `exact` ones stand for their
        server alone, and not for what is inside."""
        self._exact = set(exact)
        groups = [[Domain(each) for each in side] for side in sides]
        for one, other in self.tree.links():
            if self._across(groups, one, other):
                self._cut.add(frozenset((one, other)))
                self.at(self.detect_s, lambda a=one, b=other: self._down_if_cut(a, b))
        self._sides = groups

    def _down_if_cut(self, one: Domain, other: Domain) -> None:
        if frozenset((one, other)) in self._cut:
            self._link_down(one, other)

    def _down_if_still(self, one: Domain, other: Domain, generation: int | None) -> None:
        if self._links.get((one, other)) == generation:
            self._link_down(one, other)

    def heal(self) -> None:
        self._sides = []
        cut, self._cut = self._cut, set()
        for pair in sorted(cut, key=sorted):
            one, other = sorted(pair)
            self._link_down(one, other)
            self._link_up(one, other)

    def _across(self, groups: list[list[Domain]], one: str, other: str) -> bool:
        def side(name: str) -> int | None:
            for number, group in enumerate(groups):
                if any(
                    name == each or (each not in self._exact and name.startswith(f"{each}."))
                    for each in group
                ):
                    return number
            return None

        a, b = side(one), side(other)
        return a is not None and b is not None and a != b

    def crash(self, path: str) -> None:
        """This node stops; its neighbours notice after the detection time."""
        name = Domain(path)
        del self.nodes[name]
        for key in [key for key in self._timers if key[0] == name]:
            del self._timers[key]
        for one, other in self.tree.links():
            if name in (one, other):
                life = self._links.get((one, other))
                self.at(self.detect_s, lambda a=one, b=other, c=life: self._down_if_still(a, b, c))
        for endpoint in [each for each in self.programs if host_of(each) == name]:
            del self.programs[endpoint]

    def restart(self, path: str) -> None:
        name = Domain(path)
        for one, other in self.tree.links():
            if name in (one, other):
                self._link_down(one, other)
        self._start(name)
        for one, other in self.tree.links():
            if name in (one, other):
                self._link_up(one, other)

    def kill(self, endpoint: Endpoint) -> None:
        """The program dies; its agent lives."""
        self.step(host_of(endpoint), EndpointGone(endpoint))
        self.programs.pop(endpoint, None)

    # Programs

    def open(self, name: str) -> Endpoint:
        host, _, short = name.partition("/")
        self._token += 1
        [answer] = [
            effect
            for effect in self.nodes[Domain(host)].stack.step(
                self.now, Asked(Endpoint(""), self._token, ns.Open(short))
            )
            if isinstance(effect, Answer)
        ]
        assert isinstance(answer.result, ns.Opened)
        endpoint = answer.result.endpoint
        self.programs[endpoint] = Program(endpoint)
        return endpoint

    def join(
        self, name: str, *, role: Role = Role.BOTH, slow: Slow = Slow.THROTTLE, group: Group = G
    ) -> Endpoint:
        endpoint = Endpoint(name) if "#" in name else self.open(name)
        self._token += 1
        asked = ev.JoinAsked(endpoint, self._token, group, self.random.getrandbits(64), role, slow)
        program = self.programs[endpoint]
        program.active = False
        program.credit = program.submitted = 0
        self.step(host_of(endpoint), asked)
        return endpoint

    def leave(self, endpoint: Endpoint, group: Group = G) -> None:
        self._token += 1
        self.step(host_of(endpoint), ev.LeaveAsked(endpoint, self._token, group))

    def send(self, endpoint: Endpoint, count: int = 1) -> None:
        program = self.programs.get(endpoint)
        if program is not None:
            program.waiting += count
            self._submit(program)

    def _submit(self, program: Program) -> None:
        while program.waiting and program.credit > program.submitted:
            count = min(program.waiting, program.credit - program.submitted, 64)
            base = self.sent.get(program.endpoint, 0)
            block = block_of([self.payload(program.endpoint, base + 1 + n) for n in range(count)])
            self.sent[program.endpoint] = base + count
            program.waiting -= count
            program.submitted += count
            self.step(host_of(program.endpoint), ev.Submitted(program.endpoint, G, count, block, self.now))

    @property
    def sent(self) -> dict[Endpoint, int]:
        return self.__dict__.setdefault("_sent", {})

    size = 0

    def payload(self, sender: Endpoint, number: int) -> bytes:
        return f"{sender}:{number}".encode().ljust(self.size, b".")

    def stream(self, endpoint: Endpoint, *, every_s: float, count: int | None = None, batch: int = 1) -> None:
        """Send again and again, from a random phase on."""

        def once(left: int | None) -> None:
            if endpoint in self.programs and left != 0:
                if not self.programs[endpoint].silent:
                    self.send(endpoint, batch)
                self.at(every_s, lambda: once(None if left is None else left - 1))

        self.at(self.random.uniform(0, every_s), lambda: once(count))

    # Running

    def at(self, after_s: float, do: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now + after_s, self._order, do))

    def run(self, for_s: float) -> None:
        end = self.now + for_s
        while self._heap and self._heap[0][0] <= end:
            self.now, _, do = heapq.heappop(self._heap)
            do()
        self.now = end

    def step(self, node: Domain, event: Any) -> None:
        core = self.nodes.get(node)
        if core is None:
            return
        for effect in core.stack.step(self.now, event):
            self._perform(node, effect)
        self._steps += 1
        if self._steps % self.check_every == 0:
            self._check(core)

    _steps = 0
    check_every = 16

    def _check(self, core: Any) -> None:
        broken: list[str] = []
        if core.name == HOST:
            for members in core.members.values():
                for member in members.values():
                    broken += member_violations(member)
        elif core.name == CLUSTER:
            for delegate in core.groups.values():
                broken += delegate_violations(delegate)
        assert not broken, (self.now, broken)

    def _perform(self, node: Domain, effect: Any) -> None:
        match effect:
            case Send(to, message):
                self._send(node, to, message)
            case SetTimer(timer, after_s):
                self._order += 1
                number = self._timers[node, timer] = self._order
                self.at(after_s, lambda: self._fire(node, timer, number))
            case CancelTimer(timer):
                self._timers.pop((node, timer), None)
            case ev.Cast(group, message):
                lan = node if node in self.tree.clusters else parent(node)
                self._count("cast", message)
                for to in (*self.tree.children[lan], lan):
                    if to != node:
                        self._datagram(node, to, group, message)
            case ev.Transmit(to, group, message):
                self._count("transmit", message)
                if node in self.tree.clusters and to in self.tree.clusters:
                    self._count("wan", message)
                self._datagram(node, to, group, message)
            case ev.Broadcast(lans, group, message):
                self._count("broadcast", message)
                for lan in lans:
                    self._datagram(node, lan, group, message)
            case ev.Deliver(endpoint, _, item):
                self._deliver(endpoint, item)
            case ev.Spill():
                self.at(self.disk_s, lambda: self.step(node, self.shelf(node).keep(effect)))
            case ev.ReadSpilled():
                self._count("disk", effect)
                self.at(self.disk_s, lambda: self.step(node, self.shelf(node).read(effect)))
            case ev.ForgetSpilled():
                self.at(self.disk_s, lambda: self.shelf(node).forget(effect))
            case ev.Replicate(group, message):
                self.at(self.lan_s, lambda: self._replicate(node, group, message))
            case Ignored(what, why):
                self.ignored[what, why] = self.ignored.get((what, why), 0) + 1
            case Noted(what, about):
                self.notes.append((self.now, node, what, about))
            case Answer():
                pass

    disk_s = 0.001

    def shelf(self, node: Domain) -> SimSpillDisk:
        """The disk of this delegate's present life."""
        return self.shelves.setdefault((node, self.lives[node], self.epochs.get(node, 1)), SimSpillDisk())

    @property
    def shelves(self) -> dict[tuple[Domain, int, int], SimSpillDisk]:
        return self.__dict__.setdefault("_shelves", {})

    def _replicate(self, lan: Domain, group: Group, message: Any) -> None:
        """What the active one says reaches its backup, and the other way round."""
        if isinstance(message, Mirror):
            for effect in self.backups[lan].stack.step(self.now, ev.MirrorReplicated(group, message)):
                self._perform(lan, effect)
        else:
            self.step(lan, ev.MirrorReplicated(group, message))

    def _count(self, how: str, message: Any) -> None:
        kind = "Repair" if isinstance(message, Data) and message.repair else type(message).__name__
        self.counts[f"{how} {kind}"] = self.counts.get(f"{how} {kind}", 0) + 1

    def _fire(self, node: Domain, timer: Any, number: int) -> None:
        if self._timers.get((node, timer)) == number:
            del self._timers[node, timer]
            self.step(node, TimerFired(timer))

    def delay(self, source: Domain, to: Domain) -> float:
        if source in self.tree.hosts or to in self.tree.hosts:
            return self.lan_s
        if isinstance(self.wan_s, dict):
            return self.wan_s.get(frozenset((source, to)), max(self.wan_s.values()))
        return self.wan_s

    def _send(self, source: Domain, to: Domain, message: Any) -> None:
        generation = self._links.get((source, to))
        if generation is None:
            return
        arrival = self.now + self.delay(source, to) + self.control_delay(source, to, message)
        arrival = max(arrival, self._last_arrival.get((source, to), 0.0))
        self._last_arrival[source, to] = arrival
        self.at(arrival - self.now, lambda: self._arrive(source, to, generation, message))

    def _arrive(self, source: Domain, to: Domain, generation: int, message: Any) -> None:
        if frozenset((source, to)) not in self._cut and self._links.get((source, to)) == generation:
            self.step(to, Received(source, message))

    def _datagram(self, source: Domain, to: Domain, group: Group, message: Any) -> None:
        wan = source in self.tree.clusters and to in self.tree.clusters
        if self._across(self._sides, source, to) or not self.data_filter(source, to, message):
            return
        for _ in range(2 if self.random.random() < self.duplicate else 1):
            if self.random.random() >= (self.wan_loss if wan else self.lan_loss):
                delay = self.delay(source, to) * (1 + self.random.uniform(0, self.jitter))
                self.at(delay, lambda: self.step(to, ev.Heard(group, source, (message,))))

    # What programs saw

    def _deliver(self, endpoint: Endpoint, item: ev.Item) -> None:
        program = self.programs.get(endpoint)
        if program is None:
            return
        program.items.append((self.now, item))
        match item:
            case ev.Credit(upto):
                program.credit = upto
                self.at(0.0, lambda: self._submit(program))
            case ev.Ready(members):
                program.active = True
                program.next = {who: None for who, _, _ in members}
                program.origins = {}
            case ev.Joined(who, _, _, resumed):
                assert program.active, f"{endpoint} was told of {who} before it was ready"
                assert who not in program.next, f"{endpoint} was told twice that {who} joined"
                program.next[who] = program.last[who] + 1 if resumed and who in program.last else None
            case ev.JoinedTogether(members):
                for who, role, meta in members:
                    self._deliver(endpoint, ev.Joined(who, role, meta))
            case ev.ChangesTogether(items):
                for each in items:
                    self._deliver(endpoint, each)
            case ev.Gap(who, first, last) if who in program.origins:
                assert last >= first == program.origins[who], item
                program.origins[who] = last + 1
            case ev.Gap(who, first, last):
                assert last >= first == program.last.get(who, first - 1) + 1, item
            case ev.Left(who, _, last):
                assert who in program.next, f"{endpoint} was told that {who} left, and never that it joined"
                expected = program.next.pop(who)
                if expected is not None:
                    assert last == expected - 1, item
            case ev.Delivered(stream, run):
                assert stream in program.next, (
                    f"{endpoint} got {stream} {run.first}, which is not in its view"
                )
                expected = program.next[stream]
                assert expected in (None, run.first), (
                    f"{self.now}: {endpoint} got {stream} {run.first} and expected {expected}"
                )
                for number, body in enumerate(payloads(run), run.first):
                    assert body == self.payload(stream, number)
                assert run.end - 1 <= self.sent.get(stream, 0)
                program.next[stream] = run.end
                program.last[stream] = run.end - 1
                program.numbers.setdefault(stream, []).append((self.now, run.first, run.count))
            case ev.Aggregated(origin, run, by):
                assert by in program.next, f"{endpoint} got {origin} by {by}, which is not in its view"
                assert origin not in program.next, f"{endpoint} sees {origin}, which only submits"
                expected = program.origins.get(origin)
                assert expected in (None, run.first), (
                    f"{self.now}: {endpoint} got {origin} {run.first} and expected {expected}"
                )
                for number, body in enumerate(payloads(run), run.first):
                    assert body == self.payload(origin, number)
                program.origins[origin] = run.end
                program.last[origin] = run.end - 1
                program.numbers.setdefault(origin, []).append((self.now, run.first, run.count))

    def items(self, endpoint: Endpoint, *kinds: type) -> list[ev.Item]:
        return [item for _, item in self.programs[endpoint].items if not kinds or isinstance(item, kinds)]

    def nobody_noticed(self, members: list[Endpoint]) -> None:
        """Everybody has everything of everybody, and was told of nothing but messages. Each that came was
        checked as it came: the very bytes, once and in order."""
        self.everybody_has_everything(members)
        for at in members:
            assert self.items(at, ev.Gap, ev.Without, ev.Only, ev.Left, ev.Excluded) == []
            for sender in members:
                if sender != at:
                    assert self.numbers(at, sender) == list(range(1, self.sent[sender] + 1))

    def numbers(self, at: Endpoint, sender: Endpoint) -> list[int]:
        return [
            first + n for _, first, count in self.programs[at].numbers.get(sender, []) for n in range(count)
        ]

    def member(self, endpoint: Endpoint) -> Any:
        return self.nodes[host_of(endpoint)].members[G][endpoint]

    def submitter(self, endpoint: Endpoint) -> Any:
        return self.nodes[host_of(endpoint)].submitters[G][endpoint]

    def delegate(self, lan: str) -> Any:
        return self.nodes[Domain(lan)].groups[G]

    def everything_owed_is_held(self) -> None:
        """IX-4: while a sender lives, it and its home delegate together hold all that anybody is owed."""
        for lan in self.tree.clusters:
            core = self.nodes.get(lan)
            for delegate in core.groups.values() if core is not None else ():
                for stream, relay in delegate.relays.running.items():
                    if relay.lan != lan or relay.final is not None:
                        continue
                    host = self.nodes.get(host_of(stream))
                    member = None if host is None else host.members.get(G, {}).get(stream)
                    if member is None:
                        continue
                    owed = [*relay.pins.local.values(), *(next for _, next in relay.pins.lans.values())]
                    if owed:
                        last = member.sending.last_seq
                        held = [*member.sending.store.runs, *relay.inbound.store.runs]
                        there = {n for run in held for n in range(run.first, run.end)}
                        missing = [n for n in range(min(owed), last + 1) if n not in there]
                        assert not missing, (self.now, stream, min(owed), missing[:5])

    def everybody_has_everything(self, members: Iterable[Endpoint]) -> None:
        """IX-7 and IX-8: everyone sees everyone, and has all that was sent up to now."""
        members = sorted(members)
        for at in members:
            assert self.programs[at].active, f"{at} is {type(self.member(at).state).__name__}"
            seen = sorted(self.programs[at].next)
            assert seen == members, f"{at} sees {seen}"
            for sender in members:
                if sender != at and self.programs[at].last.get(sender, 0):
                    assert self.programs[at].last[sender] == self.sent.get(sender, 0), (
                        f"{at} has {sender} up to {self.programs[at].last[sender]} of {self.sent.get(sender)}"
                    )
