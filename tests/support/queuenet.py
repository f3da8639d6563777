"""A world of real servers over the simplest network there is: one queue per direction of each link, no clock.

Whatever waits at the head of a queue may be delivered next, and a seed says which; so every interleaving
that first in, first out allows can happen. Links are cut and heal, servers crash and return with an empty
memory. Both ends of a link learn of the end of an epoch, each at its own time, after an arbitrary prefix of
what was under way (C-026..C-031). There is no failure detector and no link layer here: those have their own
tests.

Beside the servers runs a model that knows nothing of messages: who joined what, and which servers and links
work. One host sees another exactly if everything on the one path between them works (C-072).
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Event,
    Ignored,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Secure,
    Send,
    Tell,
)
from rostra.groups.members import Because, Stamp
from rostra.names import Domain, Endpoint, Group, Tree, enclosing, host_of, inside, parent
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.invariants import domain_server_violations
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Interest,
    MessageId,
    ResolveReply,
    ResolveRequest,
)
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import (
    Absolute,
    Denied,
    Join,
    Joined,
    Leave,
    Left,
    Message,
    NotDelivered,
    Only,
    Open,
    Opened,
    Register,
    Resolve,
    SendTo,
    SetOnline,
    Unregister,
    Unwatch,
    Watch,
    Without,
)

Link = tuple[Domain, Domain]


@dataclass
class Direction:
    """What is under way from one server to another. Without an epoch, what is said is lost."""

    sender: Domain
    to: Domain
    queue: deque[Any] = field(default_factory=deque)  # messages, and True for up, a Because for down
    epoch: bool = False  # may the sender's words still arrive?
    patience: float = 1.0  # how readily the next word is delivered


@dataclass
class Program:
    """One endpoint: its views, kept by the plain rules of C-139, and what it asked and was told."""

    endpoint: Endpoint
    views: dict[Group, set[Endpoint]] = field(default_factory=dict)
    joined: set[Group] = field(default_factory=set)
    online: set[Group] = field(default_factory=set)
    watched: set[Group] = field(default_factory=set)
    asked: dict[int, tuple[Group, bool]] = field(
        default_factory=dict
    )  # token: group, does it touch the view?
    stamps: dict[tuple[Group, Endpoint], Stamp] = field(default_factory=dict)
    sent: int = 0
    heard: dict[Endpoint, int] = field(default_factory=dict)  # the number of each source's last message
    undelivered: list[tuple[Endpoint, ...]] = field(default_factory=list)
    notices: list[Any] = field(default_factory=list)

    def follows(self, group: Group) -> bool:
        return group in self.online or group in self.watched

    def told(self, notice: Any) -> None:
        self.notices.append(notice)
        match notice:
            case Absolute(group, members):
                self._order(group, members)
                self.views[group] = {member.endpoint for member in members}
            case Joined(group, members, _, complete_for):
                self._order(group, members)
                view = self.views.setdefault(group, set())
                if complete_for is not None:
                    view -= {each for each in view if complete_for.covers(each)}
                view |= {member.endpoint for member in members}
            case Left(group, endpoint, stamp):
                assert stamp >= self.stamps.get((group, endpoint), (0, 0)), f"older leave of {endpoint}"
                self.stamps[group, endpoint] = stamp
                self.views.setdefault(group, set()).discard(endpoint)
            case Only(domain):
                for view in self.views.values():
                    view -= {each for each in view if not inside(domain, each)}
            case Without(domain):
                for view in self.views.values():
                    view -= {each for each in view if inside(domain, each)}
            case Message(source, data):
                assert int(data) > self.heard.get(source, 0), f"{self.endpoint} heard {source} out of order"
                self.heard[source] = int(data)
            case NotDelivered(destinations):
                self.undelivered.append(destinations)
            case _:
                raise AssertionError(f"an unexpected notice: {notice}")

    def _order(self, group: Group, members: Iterable[Any]) -> None:
        """Nothing older about an endpoint after something newer (C-067)."""
        for member in members:
            last = self.stamps.get((group, member.endpoint), (0, 0))
            assert member.stamp >= last, f"{self.endpoint} heard {member} after {last}"
            self.stamps[group, member.endpoint] = member.stamp


class QueueNet:
    def __init__(
        self, tree: Tree, seed: int = 0, *, config: RelaxedConfig | None = None, check: bool = True
    ) -> None:
        self.tree = tree
        self.luck = Random(seed)
        self.config = config or RelaxedConfig()
        self.check = check
        self.cores: dict[Domain, LocalServer | DomainServer] = {}
        self.cut: set[Link] = set()
        self.lives: Counter[Domain] = Counter()
        self.ways: dict[tuple[Domain, Domain], Direction] = {}
        self.programs: dict[Endpoint, Program] = {}
        self.answers: dict[int, Any] = {}
        self.counts: Counter[str] = Counter()
        self.ignored: Counter[tuple[str, str]] = Counter()
        self.ever_joined: set[tuple[Group, Endpoint]] = set()
        self.disks: dict[Domain, list[Any]] = {server: [] for server in tree.servers}
        self._up: set[tuple[Domain, Domain]] = set()  # (a, b): a's core believes that b is up
        self._ready: list[Direction] = []
        self._apart: set[Link] = set(tree.links())
        self._seen: set[tuple[Domain, str, MessageId]] = set()
        self.now = 0.0  # only says that whatever was delivered took time
        self._token = 0
        for a, b in tree.links():
            self.ways[a, b] = Direction(a, b)
            self.ways[b, a] = Direction(b, a)
        for server in tree.servers:
            self.start(server)

    # Servers and links come and go

    def start(self, server: Domain) -> None:
        assert server not in self.cores
        self.lives[server] += 1
        incarnation = 1000 * self.lives[server]
        registry = Registry.of(self.disks[server])
        if server in self.tree.hosts:
            self.cores[server] = LocalServer(
                server, incarnation=incarnation, config=self.config, registry=registry
            )
        else:
            self.cores[server] = DomainServer(
                server,
                cluster=server in self.tree.clusters,
                incarnation=incarnation,
                config=self.config,
                registry=registry,
            )

    def crash(self, server: Domain) -> None:
        del self.cores[server]
        for endpoint in [each for each in self.programs if host_of(each) == server]:
            del self.programs[endpoint]
        for peer in self.tree.neighbours(server):
            self._end_epoch(server, peer, f"{server} crashed")
            self.ways[peer, server].queue.clear()
            self._up.discard((server, peer))

    def cut_link(self, a: Domain, b: Domain) -> None:
        self.cut.add(_link(a, b))
        self._end_epoch(a, b, "cut")

    def heal_link(self, a: Domain, b: Domain) -> None:
        self.cut.discard(_link(a, b))

    def _end_epoch(self, a: Domain, b: Domain, why: str) -> None:
        for way in (self.ways[a, b], self.ways[b, a]):
            if not way.epoch:
                continue
            way.epoch = False
            kept = self.luck.randint(0, len(way.queue))
            while len(way.queue) > kept:
                way.queue.pop()
            if True in way.queue or (way.to, way.sender) in self._up:
                self._put(way, Because(way.to, way.sender, why))
        self._apart.add(_link(a, b))

    def _can_meet(self, a: Domain, b: Domain) -> bool:
        """Both run, nothing is cut, and both have learnt that the last epoch is over (C-030)."""
        if (a, b) in self.cut or a not in self.cores or b not in self.cores:
            return False
        if (a, b) in self._up or (b, a) in self._up:
            return False
        return not self.ways[a, b].queue and not self.ways[b, a].queue

    def _meet(self, a: Domain, b: Domain) -> None:
        self._apart.discard((a, b))
        for way in (self.ways[a, b], self.ways[b, a]):
            way.epoch = True
            self._put(way, True)

    def meet_all(self, server: Domain) -> None:
        """All links of a server that has just started come up before anybody says anything on them."""
        peers = list(self.tree.neighbours(server))
        self.luck.shuffle(peers)
        for peer in peers:
            self._meet(*_link(server, peer))
        for peer in peers:
            self._deliver(self.ways[peer, server])

    # Time passes

    def _put(self, way: Direction, item: Any) -> None:
        if not way.queue:
            self._ready.append(way)
        way.queue.append(item)

    def turn(self) -> bool:
        """Let one thing happen; False if nothing can."""
        meeting = [link for link in sorted(self._apart) if self._can_meet(*link)]
        self._ready = [way for way in self._ready if way.queue]
        if not meeting and not self._ready:
            return False
        choice = self.luck.randrange(len(meeting) + len(self._ready))
        if choice < len(meeting):
            self._meet(*meeting[choice])
            return True
        way = self._ready[choice - len(meeting)]
        if self.luck.random() > way.patience:
            return True
        self._deliver(way)
        return True

    def _deliver(self, way: Direction) -> None:
        self.now += 1.0
        item = way.queue.popleft()
        if way.to not in self.cores:
            return
        me, peer = way.to, way.sender
        if item is True:
            self._up.add((me, peer))
            self.step(me, LinkUp(peer, self.lives[peer]))
        elif isinstance(item, Because):
            self._up.discard((me, peer))
            self.step(me, LinkDown(peer, item))
        else:
            assert (me, peer) in self._up
            self._tap(peer, me, item)
            self.step(me, Received(peer, item))

    def settle(self, limit: int = 200_000) -> None:
        for way in self.ways.values():
            way.patience = 1.0
        for _ in range(limit):
            if not self.turn():
                return
        raise AssertionError("it never gets quiet")

    def step(self, server: Domain, event: Event) -> list[Effect]:
        core = self.cores[server]
        effects = core.step(self.now, event)
        for effect in effects:
            match effect:
                case Send(to, message):
                    assert (server, to) in self._up, f"{server} spoke to {to}, which is down: {message}"
                    way = self.ways[server, to]
                    if way.epoch:
                        self.counts[type(message).__name__] += 1
                        self._put(way, message)
                case Tell(endpoints, notice):
                    for endpoint in endpoints:
                        self.programs[endpoint].told(notice)
                case Answer(token, result):
                    assert token not in self.answers, f"two answers to {token}"
                    self.answers[token] = result
                    self._answer(token, result)
                case Persist(record) | Secure(record):
                    self.disks[server].append(record)
                case Ignored(what, why):
                    self.ignored[what, why] += 1
        if self.check and isinstance(core, DomainServer):
            violations = domain_server_violations(core)
            assert not violations, f"{server} after {event}: {violations}"
        return list(effects)

    def _answer(self, token: int, result: Any) -> None:
        for program in self.programs.values():
            if token in program.asked:
                _, touches = program.asked.pop(token)
                if touches and isinstance(result, Absolute):
                    program.told(result)

    def _tap(self, sender: Domain, to: Domain, message: Any) -> None:
        """Scopes are kept (C-009), and no server gets the copy of one event twice (C-019)."""
        groups = message.groups if isinstance(message, DomainFailed) else [getattr(message, "group", None)]
        for group in groups:
            if group is not None:
                for server in (sender, to):
                    wide_enough = inside(group.scope, server)
                    if wide_enough and server == group.scope:
                        wide_enough = server in self.tree.clusters
                    assert wide_enough, f"{message} about {group} from {sender} to {to}"
        if isinstance(message, EndpointsJoined | EndpointLeft | DomainFailed | ResolveRequest):
            key = (to, type(message).__name__, message.id)
            assert key not in self._seen, f"{to} got {message} twice"
            self._seen.add(key)
        if isinstance(message, EndpointsJoined | ResolveReply):
            for member in message.members:
                assert (message.group, member.endpoint) in self.ever_joined, f"invented {member}"

    # Programs

    def ask(self, server: Domain, endpoint: Endpoint | str, request: Any) -> Any:
        """Ask, and hand back the answer if it came at once."""
        self._token += 1
        self.step(server, Asked(Endpoint(endpoint), self._token, request))
        return self.answers.get(self._token)

    def open(self, host: Domain, name: str) -> Program:
        opened = self.ask(host, "", Open(name))
        assert isinstance(opened, Opened)
        program = self.programs[opened.endpoint] = Program(opened.endpoint)
        return program

    def join(self, program: Program, group: Group, *, online: bool = True) -> None:
        self.ever_joined.add((group, program.endpoint))
        program.joined.add(group)
        if online:
            program.online.add(group)
        self._granted(self.ask(host_of(program.endpoint), program.endpoint, Join(group, online)))

    def leave(self, program: Program, group: Group) -> None:
        program.joined.discard(group)
        program.online.discard(group)
        self._stop_touching(program, group)
        self._granted(self.ask(host_of(program.endpoint), program.endpoint, Leave(group)))

    def set_online(self, program: Program, group: Group, online: bool) -> None:
        (program.online.add if online else program.online.discard)(group)
        self._stop_touching(program, group)
        self._granted(self.ask(host_of(program.endpoint), program.endpoint, SetOnline(group, online)))

    def watch(self, program: Program, group: Group) -> None:
        program.watched.add(group)
        self._granted(self.ask(host_of(program.endpoint), program.endpoint, Watch(group)))

    def unwatch(self, program: Program, group: Group) -> None:
        program.watched.discard(group)
        self._stop_touching(program, group)
        self._granted(self.ask(host_of(program.endpoint), program.endpoint, Unwatch(group)))

    def resolve(self, program: Program, group: Group) -> int:
        token = self._token + 1
        program.asked[token] = (group, program.follows(group))
        self.ask(host_of(program.endpoint), program.endpoint, Resolve(group.name, group.scope))
        return token

    def send(self, program: Program, destinations: Iterable[Endpoint]) -> None:
        """Messages of one program are numbered, so that a receiver can tell order and repetition."""
        program.sent += 1
        send = SendTo(tuple(destinations), str(program.sent).encode())
        self._granted(self.ask(host_of(program.endpoint), program.endpoint, send))

    def register(self, group: Group, permanent: bool) -> None:
        self._granted(self.ask(group.scope, "", Register(group) if permanent else Unregister(group)))

    def kill(self, program: Program) -> None:
        del self.programs[program.endpoint]
        self.step(host_of(program.endpoint), EndpointGone(program.endpoint))

    def _stop_touching(self, program: Program, group: Group) -> None:
        """What was asked while it followed the group no longer edits its view."""
        if not program.follows(group):
            program.views.pop(group, None)
            for token, (asked, _) in program.asked.items():
                if asked == group:
                    program.asked[token] = (asked, False)

    def _granted(self, answer: Any) -> None:
        assert answer is not None and not isinstance(answer, Denied), answer

    # The model

    def sees(self, a: Domain, b: Domain) -> bool:
        path = path_between(a, b)
        return all(server in self.cores for server in path) and all(
            _link(one, other) not in self.cut for one, other in pairwise(path)
        )

    def members_seen_from(self, host: Domain, group: Group) -> set[Endpoint]:
        return {
            program.endpoint
            for program in self.programs.values()
            if group in program.joined and self.sees(host, host_of(program.endpoint))
        }

    def discrepancies(self) -> list[str]:
        """What a quiet world gets wrong."""
        return [
            *self._wrong_views(),
            *self._open_business(),
            *self._wrong_rows(),
            *self._low_interest(),
            *self._wrong_registries(),
        ]

    def _wrong_views(self) -> Iterable[str]:
        for program in self.programs.values():
            for group in sorted(program.online | program.watched):
                truth = self.members_seen_from(host_of(program.endpoint), group)
                view = program.views.get(group)
                if view != truth:
                    yield f"{program.endpoint} sees {view} in {group}, the truth is {truth}"

    def _open_business(self) -> Iterable[str]:
        for program in self.programs.values():
            for token in program.asked:
                yield f"question {token} of {program.endpoint} was never answered"
        for server, core in self.cores.items():
            if isinstance(core, DomainServer):
                if len(core.collections) or core.collections.questions:
                    yield f"{server} has open collections"
                if core.neighbours.unsynced:
                    yield f"{server} has children that never synced"
            elif core.resolves.open:
                yield f"{server} has open questions"

    def _wrong_rows(self) -> Iterable[str]:
        """Rows exist exactly for the handled groups with somebody below (C-146)."""
        for server, core in self.cores.items():
            if not isinstance(core, DomainServer):
                continue
            expected = {
                group
                for program in self.programs.values()
                if self._rises_to(host_of(program.endpoint), server)
                for group in program.joined | program.watched
                if core.neighbours.reach(group) is not None
            }
            if set(core.table.rows) != expected:
                yield f"{server} has rows {sorted(core.table.rows)} and should have {sorted(expected)}"

    def _rises_to(self, host: Domain, server: Domain) -> bool:
        if not inside(server, host):
            return False
        chain = [each for each in enclosing(host) if inside(server, each)]
        return all(each in self.cores for each in chain) and all(
            _link(one, other) not in self.cut for one, other in pairwise(chain)
        )

    def _low_interest(self) -> Iterable[str]:
        """Child entries are exact, outer ones never too low (C-103)."""
        groups = sorted({group for core in self.cores.values() for group in _groups_of(core)})
        for server, core in self.cores.items():
            if not isinstance(core, DomainServer):
                continue
            for peer, relation in core.neighbours.up.items():
                for group in groups:
                    if core.neighbours.in_range(group, relation):
                        want, truth = core.table.want(group, peer), self._interest_of(peer, server, group)
                        if want < truth or (relation is Relation.CHILD and want != truth):
                            yield f"{server} takes {peer} for {want.name} in {group}, it is {truth.name}"

    def _interest_of(self, server: Domain, peer: Domain, group: Group) -> Interest:
        """What a server would tell this neighbour if asked."""
        core = self.cores[server]
        if isinstance(core, LocalServer):
            return core.interest(group)
        if core.neighbours.relation(peer) is Relation.CHILD:
            return core.table.outer(group)
        return core.table.inner(group)

    def _wrong_registries(self) -> Iterable[str]:
        """Whoever hears the server of a scope holds its list; nobody outside the scope holds any (C-012)."""
        for server, core in self.cores.items():
            for record in core.registry.records():
                if not inside(record.scope, server):
                    yield f"{server} holds the list of {record.scope}"
            for scope in enclosing(server):
                owner = self.cores.get(scope)
                if owner is not None and self._rises_to(server, scope):
                    theirs = [each for each in owner.registry.records() if each.scope == scope]
                    if theirs != [each for each in core.registry.records() if each.scope == scope]:
                        yield f"{server} does not hold {theirs}"


def path_between(a: Domain, b: Domain) -> list[Domain]:
    """The servers on the unique path between two hosts' agents (C-019)."""
    if a == b:
        return [a]
    if parent(a) == parent(b):
        return [a, parent(a), b]
    up = [each for each in enclosing(a) if not inside(each, b)]
    down = [each for each in enclosing(b) if not inside(each, a)]
    return [*up, *reversed(down)]


def _groups_of(core: LocalServer | DomainServer) -> Iterable[Group]:
    return core.groups if isinstance(core, LocalServer) else core.table.rows


def _link(a: Domain, b: Domain) -> Link:
    return (min(a, b), max(a, b))
