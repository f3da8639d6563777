"""A group on its way between two sets (`protocols/agreed/moves`): the child set {p a}, the parent set {p b}.

    ask b          a program below b joins: the group must come up     leave b    and leaves: it goes down
    ask a          a program below a joins, wherever the group is      crash a    for good, unless it is p
    deliver a p    a's next message reaches p                          down a p   a sees the link go down
    wait a         what a waits for has not come: nothing is under way
    restart p      in a new life, which knows nothing, linked to a and b

Server p is in both sets and moves the group; b is a cluster of the parent set, so that a join below it makes
the group if that is nowhere. Each host keeps the last view that it got. Messages keep their order, and
none is lost: that sets agree is for the models `set` and `reform` to show.

What must hold after every step:

- One id of a view is one list of members (V-120).
- A host gets views of growing numbers (V-026).

And when nothing is under way, after requests that were not done are asked again as agents do, and probes:

- Of servers that see each other, one set has the group, and no server is about to hand it on (V-020, V-027).
- All members whose servers live are in its view, and no others; no request is lost.
- If the child set has it, the parent set says so (V-034).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from rostra.core.effects import Effect, Event, LinkDown, LinkUp, Received, Send, TimerFired
from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupPlace,
    GroupPlaced,
    GroupVerb,
    MemberId,
    Pid,
    PlaceStep,
    ServerId,
    SetMember,
    SetView,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ChangeAsked, SetCommitted
from rostra.protocols.agreed.groups import AgreedGroup, AgreedMember, AgreedView, GroupTable
from rostra.protocols.agreed.moves import NOWHERE, encode_part, next_step
from rostra.protocols.agreed.state import PARENT_COUNT, Idle, SetState, alone, founded
from rostra.sim.explore.model import Numbers, SearchBounds, Words

A, P, B = range(3)
NAMES: Final = ("a", "p", "b")
LOWER, UPPER = Domain("eu"), Domain("world")
SERVERS: Final = (Domain("eu.a"), LOWER, Domain("b"))
SETS: Final = {A: (LOWER,), P: (LOWER, UPPER), B: (UPPER,)}
GROUP: Final = Group("chess", UPPER)
KIND: Final = GroupKind(MembershipKind.AGREED)
FIRST, SECOND, THIRD = (
    MemberId(Endpoint("eu.a.h1/ann#1"), (1, 1)),
    MemberId(Endpoint("b.h1/bob#1"), (1, 1)),
    MemberId(Endpoint("eu.a.h1/eve#1"), (1, 2)),
)
JOINS: Final = {
    A: GroupChange(GROUP, GroupVerb.JOIN, (THIRD,), "eve joins", kind=KIND),
    B: GroupChange(GROUP, GroupVerb.JOIN, (SECOND,), "bob joins", kind=KIND),
}
LEAVE: Final = GroupChange(GROUP, GroupVerb.LEAVE, (SECOND,), "bob leaves")
CONFIG: Final = AgreedConfig(retries=1)

ROUNDS: Final = 12
"""Repetitions that a world gets to come to its end."""

STEPS_MAX: Final = 32
"""Proposals of p in one step. More would be without end."""


class MoveBounds(SearchBounds, frozen=True, kw_only=True):
    """How often in one run: `joins` below b, `leaves` there, `changes` below a; `crashes` of any server, and
    `restarts` of p."""

    joins: int = 1
    leaves: int = 1
    changes: int = 1
    crashes: int = 1
    restarts: int = 0


class MoveNode(Struct, frozen=True):
    sets: tuple[SetState, ...]  # in the order of `SETS`
    crashed: bool = False
    host: AgreedView | None = None  # the last view that its host got
    wants: frozenset[str] = frozenset()  # requests of its host that are not done
    left: bool = False


class ToldHost(Struct, frozen=True):
    """A view, from p to the host below a."""

    view: AgreedView


class PassedUp(Struct, frozen=True):
    """A request, from a to p."""

    change: GroupChange


class MoveLane(Struct, frozen=True):
    messages: tuple[Any, ...] = ()
    ended: bool = False  # the sender is gone


class MoveAct(NamedTuple):
    verb: str
    node: int
    peer: int = -1


class KeepsHanding(SetCore):
    """A group that was about to go stays so, when its mover is lost."""

    def _apply(self, record: CommitRecord) -> None:
        before = self.state.table.places
        super()._apply(record)
        table = self.state.table
        kept = {
            name: replace(table.places.get(name, NOWHERE), mover=place.mover)
            for name, place in before.items()
            if place.mover is not None and name in table.groups
        }
        self._set(table=replace(table, places={**table.places, **kept}))


class KeepsId(SetCore):
    """A group that is taken back has the view that it had."""

    def _apply(self, record: CommitRecord) -> None:
        before = self.state.table
        super()._apply(record)
        table = self.state.table
        known = table.groups.get(GROUP)
        was_moving = before.places.get(GROUP, NOWHERE).mover is not None
        if known is not None and was_moving and known.views[:-1] == before.groups[GROUP].views:
            self._set(table=table.having(GROUP, replace(known, views=known.views[:-1])))


class MoveModel:
    name: ClassVar[str] = "move"
    about: ClassVar[str] = "a group moves between two sets, while servers crash and members join and leave"
    plants: ClassVar[Mapping[str, str]] = {
        "drop-early": "the old set forgets the group before the new one has it",
        "no-hand": "the new set takes the group while the old one goes on with it",
        "keep-handing": "a set whose mover is lost does not take the group back",
        "tell-early": "hosts are told views of the new set before the old one has forgotten the group",
        "same-id": "a group that is taken back has the view that the other set may have taken",
    }

    def __init__(self, bounds: MoveBounds | None = None, plant: str | None = None) -> None:
        self.bounds = bounds or MoveBounds()
        self.plant = plant
        self._limits: dict[str, int] = asdict(self.bounds)
        if self.bounds.changes > 1 or self.bounds.joins > 1 or self.bounds.leaves > 1:
            raise BadInput("a program joins and leaves once", fix="at most 1 of joins, leaves, changes")
        kinds = {"keep-handing": KeepsHanding, "same-id": KeepsId}
        self._core: type[SetCore] = kinds.get(plant or "", SetCore)
        self._numbers = Numbers()
        self._closed = self._numbers.of(None)
        self._empty = self._numbers.of(MoveLane())
        # Lanes: to a from p, to p from a, to p from b, to b from p.
        self._lane = {(A, P): 3, (P, A): 4, (P, B): 5, (B, P): 6}
        self._spent, self._seen, self._trouble = 7, 8, 9
        self._stepped: dict[tuple[Any, ...], tuple[int, tuple[tuple[int, int], ...], tuple[Effect, ...]]] = {}
        self._ends: dict[tuple[int, ...], tuple[str, ...]] = {}

    # The model

    def initial(self) -> tuple[int, ...]:
        number = self._numbers.of
        ids = [ServerId(server, 1) for server in SERVERS]
        low = SetView(1, Pid(ids[A], 0), (SetMember(ids[A], 0, 0), SetMember(ids[P], 0, 1, parent=True)))
        up = SetView(1, Pid(ids[B], 0), (SetMember(ids[P], 0, 0), SetMember(ids[B], 0, 1)))
        view = AgreedView(1, 0, Pid(ids[A], 1), (AgreedMember(FIRST, 1),), (FIRST,))
        tables = {
            LOWER: GroupTable({GROUP: AgreedGroup((view,), kind=KIND)}),
            UPPER: GroupTable(places={GROUP: GroupPlace((LOWER,))}),
        }
        nodes = []
        for node, names in SETS.items():
            states = []
            for name in names:
                linked = {SERVERS[other] for other in SETS if other != node and name in SETS[other]}
                state = founded(ids[node], low if name == LOWER else up)
                count = PARENT_COUNT if (node, name) == (P, LOWER) else 2
                states.append(replace(state, linked=frozenset(linked), table=tables[name], count=count))
            nodes.append(number(MoveNode(tuple(states), host=view if node == A else None)))
        spent = number((0,) * len(self._limits))
        seen = number(frozenset([(view.id, view.ids)]))
        return (*nodes, *[self._empty] * 4, spent, seen, number(()))

    def actions(self, state: tuple[int, ...]) -> list[MoveAct]:
        numbers = self._numbers
        nodes = self._nodes(state)
        may = self._may(state)
        found: list[MoveAct] = []
        living = [node for node in SETS if not nodes[node].crashed]
        if B in living and may["joins"]:
            found.append(MoveAct("ask", B))
        if B in living and may["leaves"] and self._is_in(nodes[B], SECOND):
            found.append(MoveAct("leave", B))
        if A in living and may["changes"]:
            found.append(MoveAct("ask", A))
        if may["crashes"]:
            found += [MoveAct("crash", node) for node in living]
        calm = True
        for to, sender in self._lane:
            lane: MoveLane | None = numbers[state[self._lane[to, sender]]]
            if lane is None or nodes[to].crashed:
                continue
            if lane.messages:
                found.append(MoveAct("deliver", sender, to))
            if lane.ended:
                found.append(MoveAct("down", to, sender))
            calm = calm and not lane.messages and not lane.ended
        if calm:
            found += [MoveAct("wait", node) for node in living if self._waits(nodes[node])]
            if nodes[P].crashed and may["restarts"]:
                found.append(MoveAct("restart", P))
        return found

    def apply(self, state: tuple[int, ...], action: MoveAct) -> tuple[int, ...]:
        return self._apply(state, action)[0]

    def canonical(self, state: tuple[int, ...]) -> tuple[int, ...]:
        return state

    def words(self, action: MoveAct) -> Words:
        return (action.verb, *[NAMES[each] for each in action[1:] if each >= 0])

    def remark(self, state: tuple[int, ...], action: MoveAct) -> str:
        if action.verb != "deliver":
            return ""
        message = self._numbers[state[self._lane[action.peer, action.node]]].messages[0]
        change = getattr(getattr(message, "proposal", None), "change", None)
        return f"{type(message).__name__} {_named(change)}".strip()

    def told(self, state: tuple[int, ...], action: MoveAct) -> list[str]:
        _, node, effects = self._apply(state, action)
        return [
            f"{NAMES[node]} commits {_named(effect.record.proposal.change)} in the set of {effect.view.pid}"
            for effect in effects
            if isinstance(effect, SetCommitted)
        ]

    # What happens

    def _nodes(self, state: Sequence[int]) -> list[MoveNode]:
        return [self._numbers[each] for each in state[:3]]

    def _may(self, state: Sequence[int]) -> dict[str, bool]:
        spent = dict(zip(self._limits, self._numbers[state[self._spent]], strict=True))
        return {name: spent[name] < limit for name, limit in self._limits.items()}

    def _pay(self, world: list[int], bound: str) -> None:
        counts = dict(zip(self._limits, self._numbers[world[self._spent]], strict=True))
        counts[bound] += 1
        world[self._spent] = self._numbers.of(tuple(counts.values()))

    def _waits(self, node: MoveNode) -> bool:
        return any(not isinstance(each.phase, Idle) for each in node.sets)

    def _is_in(self, node: MoveNode, member: MemberId) -> bool:
        return node.host is not None and member in node.host.ids

    def _apply(
        self, state: tuple[int, ...], action: MoveAct
    ) -> tuple[tuple[int, ...], int, tuple[Effect, ...]]:
        verb, node, peer = action
        world, numbers = list(state), self._numbers
        match verb:
            case "deliver":
                node, peer = peer, node
                place = self._lane[node, peer]
                lane: MoveLane = numbers[world[place]]
                world[place] = numbers.of(replace(lane, messages=lane.messages[1:]))
                return self._step(world, node, "received", peer, numbers.of(lane.messages[0]))
            case "ask":
                self._pay(world, "joins" if node == B else "changes")
                return self._step(world, node, "ask")
            case "leave":
                self._pay(world, "leaves")
                return self._step(world, node, "leave")
            case "down":
                world[self._lane[node, peer]] = self._closed
                return self._step(world, node, "down", peer)
            case "crash":
                self._pay(world, "crashes")
                world[node] = numbers.of(replace(numbers[world[node]], crashed=True))
                for to, sender in self._lane:
                    place = self._lane[to, sender]
                    if to == node:
                        world[place] = self._closed
                    elif sender == node and world[place] != self._closed:
                        world[place] = numbers.of(replace(numbers[world[place]], ended=True))
                return tuple(world), node, ()
            case "restart":
                self._pay(world, "restarts")
                return self._restart(world)
            case "probe":
                return self._step(world, node, "probe")
        return self._step(world, node, "wait")

    def _restart(self, world: list[int]) -> tuple[tuple[int, ...], int, tuple[Effect, ...]]:
        me = ServerId(SERVERS[P], 2)
        sets = (alone(me, parent=True), alone(me))
        world[P] = self._numbers.of(MoveNode(sets))
        state = tuple(world)
        for other in (A, B):
            if self._nodes(state)[other].crashed:
                continue
            world = list(state)
            world[self._lane[P, other]] = world[self._lane[other, P]] = self._empty
            state, _, _ = self._step(world, P, "up", other)
            state, _, _ = self._step(list(state), other, "up", P)
        return state, P, ()

    def _step(
        self, world: list[int], node: int, *happened: Any
    ) -> tuple[tuple[int, ...], int, tuple[Effect, ...]]:
        numbers = self._numbers
        key = (node, world[node], *happened)
        if key not in self._stepped:
            self._stepped[key] = self._step_anew(node, numbers[world[node]], *happened)
        after, sends, effects = self._stepped[key]
        before: MoveNode = numbers[world[node]]
        world[node] = after
        for to, message in sends:
            place = self._lane[to, node]
            lane: MoveLane | None = numbers[world[place]]
            if lane is not None and not lane.ended:
                world[place] = numbers.of(replace(lane, messages=(*lane.messages, numbers[message])))
        trouble = self._wrong(world, before.host, numbers[after], effects)
        if trouble:
            world[self._trouble] = numbers.of(trouble)
        return tuple(world), node, effects

    def _step_anew(
        self, node: int, before: MoveNode, what: str, *about: int
    ) -> tuple[int, tuple[tuple[int, int], ...], tuple[Effect, ...]]:
        step = _NodeStep(self, node, before)
        numbers = self._numbers
        match what, about:
            case "received", (int(peer), int(message)):
                step.receive(peer, numbers[message])
            case "down", (int(peer),):
                step.all_sets(peer, LinkDown(SERVERS[peer], Because(SERVERS[node], SERVERS[peer], "silent")))
            case "up", (int(peer),):
                step.all_sets(peer, LinkUp(SERVERS[peer], 1))
            case "ask", _:
                step.wants |= {JOINS[node].request}
                step.ask()
            case "again", _:
                step.ask()
            case "leave", _:
                step.left = True
                step.wants |= {LEAVE.request}
                step.ask()
            case "probe", _:
                for place, name in enumerate(SETS[node]):
                    if step.cores[place].state.probes:
                        step.drive(place, TimerFired(("agreed", name, "probe")))
            case _:
                for place, name in enumerate(SETS[node]):
                    if not isinstance(step.cores[place].state.phase, Idle):
                        step.drive(place, TimerFired(("agreed", name)))
        step.go_on()
        sends = tuple([(to, numbers.of(message)) for to, message in step.sends])
        return numbers.of(step.node()), sends, tuple(step.effects)

    # What must hold

    def _wrong(
        self, world: list[int], told: AgreedView | None, node: MoveNode, effects: tuple[Effect, ...]
    ) -> tuple[str, ...]:
        seen = self._numbers[world[self._seen]]
        views = [
            outcome.view
            for effect in effects
            if isinstance(effect, SetCommitted)
            for outcome in effect.outcomes
            if outcome.view is not None
        ]
        found = []
        for view in views:
            seen |= {(view.id, view.ids)}
            if len({id for id, _ in seen}) < len(seen):
                found.append(f"two views of {view.number} by {view.pid} differ")
        world[self._seen] = self._numbers.of(seen)
        if told is not None and node.host is not None and told != node.host:
            found += _regressed(told, node.host)
        return tuple(found)

    def violations(self, state: tuple[int, ...]) -> Sequence[str]:
        found: tuple[str, ...] = self._numbers[state[self._trouble]]
        if not found and self._is_quiet(state):
            key = (*state[: self._spent], state[self._seen])
            if key not in self._ends:
                self._ends[key] = tuple(self._end_of(state))
            found = self._ends[key]
        return found

    def _is_quiet(self, state: Sequence[int]) -> bool:
        lanes = [self._numbers[state[place]] for place in self._lane.values()]
        if any(lane is not None and (lane.messages or lane.ended) for lane in lanes):
            return False
        return not any(self._waits(node) for node in self._nodes(state) if not node.crashed)

    def _end_of(self, state: tuple[int, ...]) -> list[str]:
        """What is wrong in the end, if requests are asked again, probes go on, and nothing else fails."""
        wrong: list[str] = []
        for _ in range(ROUNDS):
            state = self._drained(state)
            if self._numbers[state[self._trouble]]:
                return list(self._numbers[state[self._trouble]])
            wrong = self._unfinished(state)
            if not wrong:
                return []
            for node, each in enumerate(self._nodes(state)):
                if not each.crashed:
                    state = self._step(list(state), node, "again")[0]
                    state = self._drained(state)
                    state = self._step(list(state), node, "probe")[0]
                    state = self._drained(state)
        return wrong

    def _drained(self, state: tuple[int, ...]) -> tuple[int, ...]:
        for _ in range(2_000):
            acts = [each for each in self.actions(state) if each.verb in ("deliver", "down", "wait")]
            if not acts:
                return state
            state = self._apply(state, acts[0])[0]
        raise AssertionError("messages without end")

    def _unfinished(self, state: tuple[int, ...]) -> list[str]:
        nodes = self._nodes(state)
        a, p, b = nodes
        found = []
        for node, each in enumerate(nodes):
            found += [f"{NAMES[node]} waits, and nothing can come"] if not each.crashed and each.wants else []
        if p.crashed:
            parts = [[A]] if not a.crashed else []
            parts += [[B]] if not b.crashed else []
        else:
            parts = [[node for node, each in enumerate(nodes) if not each.crashed]]
        for part in parts:
            found += self._wrong_in(part, nodes)
        return found

    def _wrong_in(self, part: list[int], nodes: list[MoveNode]) -> list[str]:
        members = set()
        if A in part:
            members |= {FIRST} | ({THIRD} if JOINS[A].request in _done(nodes[A]) else set())
        if B in part and nodes[B].host is not None and not nodes[B].left:
            members.add(SECOND)
        tables = {
            (name, node): nodes[node].sets[place].table
            for node in part
            for place, name in enumerate(SETS[node])
        }
        owners = {name for (name, _), table in tables.items() if GROUP in table.groups}
        if not members:
            return []
        if len(owners) != 1:
            return [f"{len(owners)} sets have the group of {[NAMES[each] for each in part]}"]
        (owner,) = owners
        found = []
        for (name, node), table in tables.items():
            place = table.places.get(GROUP, NOWHERE)
            if place.mover is not None:
                found.append(f"{NAMES[node]} is about to hand it on, for ever")
            known = table.groups.get(GROUP)
            if name == owner and (known is None or set(known.view.ids) != members):
                found.append(f"{NAMES[node]} has other members than those that are there")
            if name == UPPER and owner == LOWER and place.below != (LOWER,):
                found.append(f"{NAMES[node]} does not know where it is")
        return found


def _regressed(told: AgreedView, view: AgreedView) -> list[str]:
    is_later = view.id[:2] > told.id[:2]
    return [] if is_later else [f"a host was told view {told.number}, and then {view.number}"]


def _as_held(change: GroupChange, known: AgreedGroup) -> GroupChange:
    """The request; or if it was done, and undone since, its host says that it holds the member."""
    is_done = any(outcome.request == change.request for outcome in known.outcomes)
    request = f"back {known.view.pid}" if is_done else change.request
    return replace(change, kind=None, request=request)


def _done(node: MoveNode) -> frozenset[str]:
    """Requests of a's host that a view has shown to be done."""
    is_in = node.host is not None and THIRD in node.host.ids
    return frozenset([JOINS[A].request] if is_in else [])


def _named(change: AnyChange | None) -> str:
    match change:
        case GroupPlaced(_, step):
            return step.name
        case GroupChange(request=request):
            return request
        case None:
            return ""
    return type(change).__name__


class _NodeStep:
    """One step of one server: its cores, and what comes of it."""

    def __init__(self, model: MoveModel, node: int, before: MoveNode) -> None:
        self.model, self.index = model, node
        self.cores = [
            model._core(name, state, CONFIG) for name, state in zip(SETS[node], before.sets, strict=True)
        ]
        self.host, self.wants, self.left = before.host, before.wants, before.left
        self.sends: list[tuple[int, Any]] = []
        self.effects: list[Effect] = []

    def node(self) -> MoveNode:
        return MoveNode(tuple([core.state for core in self.cores]), False, self.host, self.wants, self.left)

    def drive(self, place: int, event: Event) -> None:
        for effect in self.cores[place].step(0.0, event):
            self.effects.append(effect)
            if isinstance(effect, Send):
                self.sends.append((SERVERS.index(effect.to), effect.message))

    def propose(self, place: int, change: AnyChange) -> None:
        self.drive(place, ChangeAsked(change))

    def all_sets(self, peer: int, event: Event) -> None:
        for place, name in enumerate(SETS[self.index]):
            if name in SETS[peer]:
                self.drive(place, event)

    def receive(self, peer: int, message: Any) -> None:
        match message:
            case ToldHost(view):
                if GROUP not in self.cores[0].state.table.groups or self.model.plant == "tell-early":
                    self.tell(view)
            case PassedUp(change):
                if GROUP in self.cores[1].state.table.groups and not self.is_busy(1):
                    self.propose(1, _as_held(change, self.cores[1].state.table.groups[GROUP]))
            case _:
                place = SETS[self.index].index(message.set)
                self.drive(place, Received(SERVERS[peer], message))

    def tell(self, view: AgreedView) -> None:
        mine = {A: (FIRST, THIRD), B: (SECOND,)}.get(self.index, ())
        if any(each in view.ids for each in mine):
            self.host = view
        if self.index == A and THIRD in view.ids:
            self.wants -= {JOINS[A].request}
        if self.index == B and SECOND in view.ids:
            self.wants -= {JOINS[B].request}

    # As `MovingServer` does

    def ask(self) -> None:
        """What the host below wants, and is not done."""
        table = self.cores[0].state.table
        place = table.places.get(GROUP, NOWHERE)
        for request in sorted(self.wants):
            change = LEAVE if request == LEAVE.request else JOINS[self.index]
            if place.mover is not None or self.is_busy(0):
                continue
            if GROUP in table.groups:
                self.propose(0, _as_held(change, table.groups[GROUP]))
            elif self.index == A:
                self.sends.append((P, PassedUp(change)))
            elif place.below and change is not LEAVE:
                self.propose(0, GroupPlaced(GROUP, PlaceStep.WANT, self.cores[0].state.me, change))
            elif not place.below:
                self.propose(0, change)

    def is_busy(self, place: int) -> bool:
        state = self.cores[place].state
        changes = [each.change for each in state.queue]
        if state.lock is not None:
            changes.append(state.lock[0].change)
        return any(isinstance(each, GroupPlaced | GroupChange) for each in changes)

    def go_on(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.moves_on():
                break
        else:
            raise AssertionError("p proposes without end")
        self.tell_hosts()

    def moves_on(self) -> bool:
        if self.index == P:
            lower, upper = self.cores
            if self.is_busy(0) or self.is_busy(1) or not all(map(_is_formed, self.cores)):
                return False
            step = self.planted(
                next_step(GROUP, upper.state.me, lower.state.table, upper.state.table, may_go_down=True)
            )
            if step is None:
                return self.loses()
            self.propose(0 if step[0] else 1, step[1])
            return not self.is_busy(0) and not self.is_busy(1)
        state = self.cores[0].state
        is_root = self.index == A and not any(each.parent for each in state.view.members)
        is_free = isinstance(state.phase, Idle) and not state.linked and not self.is_busy(0)
        if is_root and is_free and self.host is not None and GROUP not in state.table.groups:
            held = encode_part(AgreedGroup((self.host,), kind=KIND))
            self.propose(0, GroupPlaced(GROUP, PlaceStep.HELD, state.me, part=held))
        return False

    def loses(self) -> bool:
        """Members below a, of the upper set, when a is lost."""
        lower, upper = [core.state for core in self.cores]
        known = upper.table.groups.get(GROUP)
        lost = () if known is None else tuple([id for id in known.view.ids if id in (FIRST, THIRD)])
        if not lost or SERVERS[A] in lower.linked:
            return False
        self.propose(1, GroupChange(GROUP, GroupVerb.FAIL, lost, ""))
        return not self.is_busy(1)

    def planted(self, step: tuple[bool, GroupPlaced] | None) -> tuple[bool, GroupPlaced] | None:
        if step is None:
            return None
        is_lower, change = step
        here = self.cores[0].state.table.groups.get(GROUP)
        there = self.cores[1].state.table.groups.get(GROUP)
        match self.model.plant, change.step:
            case "drop-early", PlaceStep.TAKE if not is_lower:
                return True, replace(change, step=PlaceStep.DROP, part=b"")
            case "no-hand", PlaceStep.HAND if is_lower and here is not None:
                if there is not None:
                    return None
                return False, replace(change, step=PlaceStep.TAKE, part=encode_part(here))
        return step

    def tell_hosts(self) -> None:
        tables = [core.state.table for core in self.cores]
        known = tables[-1].groups.get(GROUP)
        if known is None:
            return
        if self.index != P:
            if self.has_committed():
                self.tell(known.view)
            if self.index == B and self.left and SECOND not in known.view.ids:
                self.wants -= {LEAVE.request}
        else:
            told = [(A, ToldHost(known.view))] if self.has_committed() else []
            if GROUP not in tables[0].groups:
                self.sends += told
            elif self.model.plant == "tell-early":
                self.sends = [*told, *self.sends]

    def has_committed(self) -> bool:
        return any(isinstance(effect, SetCommitted) for effect in self.effects)


def _is_formed(core: SetCore) -> bool:
    return core.state.linked <= {each.server for each in core.state.view.servers}
