"""Agents of led membership in one process and in virtual time: shipped cores, and a network that is made up.

Datagrams are delayed, lost and repeated; circuits keep their order, and both ends learn of their end; each
node learns by itself, and late, which nodes it reaches. `on_letter` and `on_message` delay or lose one.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random
from typing import Any

from rostra.core.effects import CancelTimer, Effect, Event, Ignored, Noted, SetTimer
from rostra.names import Domain, Group
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import (
    CircuitDown,
    CircuitUp,
    LeaderNamed,
    MemberCame,
    MemberWent,
    PostLetter,
    RegistrarChanged,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
    WantCircuit,
)
from rostra.protocols.led.invariants import exact_list, no_cycle, no_empty_record, one_leader
from rostra.protocols.led.messages import (
    Assert,
    AssertReply,
    Entries,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LocalMember,
    NotRegistrar,
    SetReleased,
    encode_letter,
)
from rostra.protocols.led.registrar import Criterion, Registrar
from rostra.protocols.led.rules import RULES
from rostra.protocols.led.state import AgentId, Child, Leader, TreeState
from rostra.protocols.links.packets import Data

CHESS = Group("chess", Domain("eu"))
SCOPE_SERVER = Domain("eu")
USUAL = -1.0
"""A delay: whatever it is."""


def agents(number: int) -> list[Domain]:
    return [Domain(f"eu.fr.h{place + 1}") for place in range(number)]


class LedNode:
    """An agent, or a server that is only a registrar, in one life."""

    def __init__(self, net: "LedNet", path: Domain, life: int) -> None:
        self.net = net
        self.id = AgentId(path, life)
        self.path = path
        self.trees: dict[Group, TreeCore] = {}
        self.up: set[Domain] = set()
        self.reachable: frozenset[AgentId] = frozenset([self.id])
        self.registrar = Registrar(
            net.config, lambda agent: any(each.path == agent for each in self.reachable), net.criterion
        )
        self.registrars: dict[Group, AgentId | None] = {}
        self._floor = 0

    # What programs do

    def join(self, name: str, group: Group) -> None:
        self.tree_step(group, MemberCame(LocalMember(name)))

    def leave(self, name: str, group: Group) -> None:
        self.tree_step(group, MemberWent(name))

    # The network

    def letter(self, sender: Domain, letter: Any) -> None:
        group = letter.group
        match letter:
            case Assert() | SetReleased() | LeaderProbed() | LeaderAsked():
                if self.believed(group) != self.id:
                    if isinstance(letter, Assert):
                        believed = self.believed(group)
                        answer = NotRegistrar(group, letter.number, believed.path if believed else None)
                        self.net.post(self.path, sender, answer)
                else:
                    self.perform(group, self.registrar.step(self.net.now, sender, letter))
            case AssertReply(number=number, leader=leader):
                believed = self.believed(group)
                if believed is None or believed.path != sender:
                    self.net.ignored["not the registrar"] += 1
                else:
                    self.tree_step(group, LeaderNamed(number, leader))
            case LeaderProbe(number=number):
                tree = self.trees.get(group)
                leading = tree is not None and tree.leads
                self.net.post(self.path, sender, LeaderProbed(group, number, leading))

    def circuit_up(self, peer: Domain) -> None:
        self.up.add(peer)
        for group in list(self.trees):
            self.tree_step(group, CircuitUp(peer))

    def circuit_down(self, peer: Domain) -> None:
        self.up.discard(peer)
        for group in list(self.trees):
            self.tree_step(group, CircuitDown(peer))

    def tree(self, peer: Domain, message: Any) -> None:
        self.tree_step(message.group, TreeReceived(peer, message))

    def reach(self, reachable: frozenset[AgentId]) -> None:
        """The network layer says who is in our partition."""
        self.reachable = reachable | {self.id}
        for group in self.net.groups:
            before, after = self.registrars.get(group), self.believed(group)
            if before != after:
                self.registrars[group] = after
                if before == self.id:
                    self.registrar.drop()
                if group in self.trees:
                    self.tree_step(group, RegistrarChanged())

    def believed(self, group: Group) -> AgentId | None:
        return RULES[self.net.rule](group, self.net.candidates(self.reachable))

    def timer(self, key: Any) -> None:
        if key[1] in ("probe", "leases"):
            self.perform(self.net.groups[0], self.registrar.fired(self.net.now, key))
        else:
            self.tree_step(Group(key[2], Domain(key[3])), SetTimerFired(key[1]))

    def tree_step(self, group: Group, event: Event) -> None:
        tree = self.trees.get(group)
        if tree is None:
            tree = self.net.core(self.id, group, self.net.config, TreeState(self._floor))
            self.trees[group] = tree
        effects = tree.step(event, self.up)
        if tree.record is None:
            self._floor = max(self._floor, tree.state.number)
            del self.trees[group]
        self.perform(group, effects)
        self.net.check(group)

    def perform(self, group: Group, effects: Iterable[Effect]) -> None:
        net = self.net
        for effect in effects:
            match effect:
                case PostLetter(to, letter):
                    if to is None:
                        believed = self.believed(group)
                        to = None if believed is None else believed.path
                    if to is not None:
                        net.post(self.path, to, letter)
                case SendTree(peer, message):
                    net.send(self.path, peer, message)
                case WantCircuit(peer):
                    net.want(self.path, peer)
                case SetTimer(key, after_s):
                    net.set_timer(self, key, after_s)
                case CancelTimer(key):
                    net.timers.pop((self.path, key), None)
                case Ignored(_, why):
                    net.ignored[why] += 1
                case Noted(what):
                    net.noted[what] += 1

    # For checks

    def state(self, group: Group) -> TreeState:
        tree = self.trees.get(group)
        return TreeState() if tree is None else tree.state

    def list_of(self, group: Group) -> Entries:
        tree = self.trees.get(group)
        return () if tree is None else tree.entries


class LedNet:
    def __init__(
        self,
        seed: int = 0,
        number: int = 3,
        *,
        rule: str = "scope",
        config: LedConfig | None = None,
        criterion: Criterion = Criterion.FIRST,
        loss: float = 0.0,
        repeats: float = 0.0,
        node: Callable[["LedNet", Domain, int], Any] = LedNode,
        core: type[TreeCore] = TreeCore,
        groups: tuple[Group, ...] = (CHESS,),
    ) -> None:
        self.luck = Random(seed)
        self.rule, self.criterion, self.loss, self.repeats = rule, criterion, loss, repeats
        self.config = config or LedConfig()
        self.groups = groups
        self.core = core
        self.now = 0.0
        self.hosts = agents(number)
        self.parts: dict[Domain, int] = dict.fromkeys([*self.hosts, SCOPE_SERVER], 0)
        self.timers: dict[tuple[Domain, Any], object] = {}
        self.ignored: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.posted: Counter[str] = Counter()  # kinds of letters and messages
        self.octets: Counter[str] = Counter()
        self.violations: list[str] = []
        self.on_letter: Callable[[Domain, Domain, Any], float | None] = lambda a, b, c: USUAL
        self.on_message: Callable[[Domain, Domain, Any], float | None] = lambda a, b, c: None
        self.slow_news_s = 0.3
        self.no_circuits = False  # none comes up any more
        self._circuits: dict[tuple[Domain, Domain], int] = {}  # epochs of those that are up
        self._epochs = count(1)
        self._lanes: dict[tuple[Domain, Domain], float] = {}  # when the last message arrives
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._lives = count(1)
        self._node = node
        self.nodes: dict[Domain, Any] = {}
        for path in self.parts:
            self.start(path)
        self.news(0.0)
        self.run(0.001)

    # Nodes

    def start(self, path: Domain) -> Any:
        assert path not in self.nodes
        self.nodes[path] = self._node(self, path, next(self._lives))
        self.news()
        return self.nodes[path]

    def crash(self, path: Domain) -> None:
        del self.nodes[path]
        for key in [key for key in self.timers if key[0] == path]:
            del self.timers[key]
        self._break_circuits(lambda one, other: path in (one, other))
        self.news()

    def restart(self, path: Domain) -> Any:
        self.crash(path)
        return self.start(path)

    def cut(self, *parts: Iterable[Domain]) -> None:
        """Each of these is a partition of its own; the rest is one."""
        self.parts = dict.fromkeys(self.parts, 0)
        for number, part in enumerate(parts, 1):
            for path in part:
                self.parts[path] = number
        self._break_circuits(lambda one, other: self.parts[one] != self.parts[other])
        self.news()

    def heal(self) -> None:
        self.cut()

    def news(self, at_most_s: float | None = None) -> None:
        """Every node learns for itself, after a while, whom it reaches now."""
        for path in list(self.nodes):
            delay = self.luck.uniform(0.0, self.slow_news_s if at_most_s is None else at_most_s)
            self.later(delay, partial(self._tell_news, path))

    def _tell_news(self, path: Domain) -> None:
        node = self.nodes.get(path)
        if node is not None:
            node.reach(
                frozenset(
                    [each.id for each in self.nodes.values() if self.parts[each.path] == self.parts[path]]
                )
            )

    def candidates(self, reachable: frozenset[AgentId]) -> list[AgentId]:
        is_server = self.rule == "scope"
        agents_only = [each for each in reachable if each.path != SCOPE_SERVER]
        if not is_server:
            return agents_only
        servers = [each for each in reachable if each.path == SCOPE_SERVER]
        return servers or agents_only

    # Datagrams and circuits

    def post(self, source: Domain, to: Domain, letter: Any) -> None:
        if source == to:
            self.later(0.0, lambda: self.nodes[to].letter(source, letter) if to in self.nodes else None)
            return
        self.posted[type(letter).__name__] += 1
        self.octets[type(letter).__name__] += len(encode_letter(letter))
        chosen = self.on_letter(source, to, letter)
        if chosen is None:
            return
        for _ in range(1 + (self.luck.random() < self.repeats)):
            if chosen == USUAL and self.luck.random() < self.loss:
                continue
            delay = self.luck.uniform(0.001, 0.05) if chosen == USUAL else chosen
            self.later(delay, lambda: self._arrive(source, to, letter))

    def _arrive(self, source: Domain, to: Domain, letter: Any) -> None:
        if to in self.nodes and self.parts[source] == self.parts[to]:
            self.nodes[to].letter(source, letter)

    def want(self, one: Domain, other: Domain) -> None:
        def connect() -> None:
            if one not in self.nodes or self.no_circuits:
                return
            if other not in self.nodes or self.parts[one] != self.parts[other]:
                self.later(0.2, connect) if other not in self.nodes[one].up else None
                return
            pair = (min(one, other), max(one, other))
            if pair in self._circuits or other in self.nodes[one].up:
                return
            if one in self.nodes[other].up:
                self.nodes[other].circuit_down(one)
            self._circuits[pair] = next(self._epochs)
            self.nodes[other].circuit_up(one)
            self.nodes[one].circuit_up(other)

        self.later(self.luck.uniform(0.001, 0.05), connect)

    def send(self, source: Domain, to: Domain, message: Any) -> None:
        pair = (min(source, to), max(source, to))
        self.posted[type(message).__name__] += 1
        self.octets[type(message).__name__] += len(encode_letter(Data(1, 1, 1, 1, (message,))))
        epoch = self._circuits.get(pair)
        if epoch is None:
            return  # broken, which this end will learn
        delay = self.on_message(source, to, message)
        due = self.now + (self.luck.uniform(0.001, 0.05) if delay is None else delay)
        due = self._lanes[source, to] = max(due, self._lanes.get((source, to), 0.0))

        def arrive() -> None:
            if self._circuits.get(pair) == epoch:
                self.nodes[to].tree(source, message)

        self.later(due - self.now, arrive)

    def _break_circuits(self, which: Callable[[Domain, Domain], bool]) -> None:
        for pair in [pair for pair in self._circuits if which(*pair)]:
            self.break_circuit(*pair)

    def break_circuit(self, one: Domain, other: Domain) -> None:
        pair = (min(one, other), max(one, other))
        del self._circuits[pair]
        self._lanes.pop((one, other), None)
        self._lanes.pop((other, one), None)
        for me, peer in (pair, pair[::-1]):
            if me in self.nodes:
                node = self.nodes[me]
                self.later(
                    self.luck.uniform(0.01, 0.5),
                    partial(self._down, me, peer, node),
                )

    def _down(self, me: Domain, peer: Domain, node: Any) -> None:
        pair = (min(me, peer), max(me, peer))
        if me in self.nodes and self.nodes[me] is node and peer in node.up and pair not in self._circuits:
            node.circuit_down(peer)

    # Time

    def later(self, delay: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + delay, next(self._numbers), work))

    def set_timer(self, node: Any, key: Any, after_s: float) -> None:
        mark = self.timers[node.path, key] = object()

        def fire() -> None:
            if self.timers.get((node.path, key)) is mark:
                del self.timers[node.path, key]
                node.timer(key)

        self.later(after_s, fire)

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while self._heap and self._heap[0][0] <= until:
            self.now, _, work = heapq.heappop(self._heap)
            work()
        self.now = until

    # Checks

    def check(self, group: Group) -> None:
        states = {path: node.state(group) for path, node in self.nodes.items()}
        for wrong in (*no_cycle(states), *no_empty_record(states)):
            self.violations.append(f"{self.now:.3f} {wrong}")

    def states(self, group: Group = CHESS, part: int | None = None) -> dict[Domain, TreeState]:
        return {
            path: node.state(group)
            for path, node in self.nodes.items()
            if part is None or self.parts[path] == part
        }

    def leader(self, group: Group = CHESS, part: int | None = None) -> Domain | None:
        states = self.states(group, part)
        leaders = [
            path
            for path, state in states.items()
            if state.record is not None and isinstance(state.record.standing, Leader)
        ]
        return leaders[0] if leaders else None

    def wrong(self, group: Group = CHESS) -> list[str]:
        """P-2 and P-3 in every partition, and what was broken on the way."""
        found = list(self.violations)
        for part in sorted(set(self.parts.values())):
            states = self.states(group, part)
            found += one_leader(states)
            leader = self.leader(group, part)
            if leader is not None:
                found += exact_list(self.nodes[leader].list_of(group), states)
        return found

    def listed(self, group: Group = CHESS, part: int | None = None) -> set[str]:
        leader = self.leader(group, part)
        entries = () if leader is None else self.nodes[leader].list_of(group)
        return {f"{entry.origin}/{member.name}" for entry in entries for member in entry.members}

    def depth(self, group: Group = CHESS) -> int:
        def above(path: Domain) -> int:
            record = self.nodes[path].state(group).record
            standing = None if record is None else record.standing
            return 1 + above(standing.parent) if isinstance(standing, Child) else 0

        return max([above(path) for path in self.nodes])
