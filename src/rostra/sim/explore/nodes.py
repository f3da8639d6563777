"""Nodes that run cores, and links between them: what most models are made of.

    node ── Send ──▶ lane: in order, in one epoch ──▶ Received ── node

A link keeps the promises of `protocols/links` and no more. Each end enters an epoch on its own, and gets what
the other sent in this epoch, in order. If one end leaves the epoch (it crashed, or it suspects the other),
the other end gets a part of what is still under way, from the first on, then it sees the link go down. Both
have left before the next epoch begins.

    up a b        a's end of the link to b comes up     crash a       and start again, with its disk alone
    deliver a b   a's next message reaches b            suspect a b   a gives b up, wrongly
    down a b      a sees that b left the epoch

A node that crashed starts again at once: as long as its links do not come up it may as well be dead. A model
adds what its nodes do on their own, such as a timer that fires.

Nodes whose names can be exchanged without any difference are symmetric: of states that are the same but for
names, one is explored.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import permutations
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from rostra.core.effects import Effect, Event, LinkDown, LinkUp, Received, Send
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.sim.explore.model import Numbers, SearchBounds, Words, renamed, shown

NodesState = tuple[int, ...]
"""Numbers of: every node, every lane, what is spent of the bounds, history, trouble."""


class Act(NamedTuple):
    verb: str
    node: int
    peer: int = -1


class Lane(Struct, frozen=True):
    """One end of an epoch, and what is under way to it."""

    entered: bool = False
    ended: bool = False  # the other end left
    messages: tuple[Any, ...] = ()


class FaultChoice(Struct, frozen=True):
    """Something that a node may do on its own."""

    verb: str
    event: Event
    bound: str  # the field of the model's bounds that counts it


class _Stepped(Struct, frozen=True):
    node: int
    sends: tuple[tuple[int, int], ...]  # to which node, the number of which message
    effects: int
    failed: tuple[str, ...]


class Nodes:
    """What models of nodes on links have in common. A node (`begin`, `restart`, `step`) is a frozen value. It
    does not hold the node's own name, so that equal nodes are equal. The model's bounds include `crashes` and
    `suspicions`.

    A step is a pure function of a node and an event, and there are far fewer of these than states of the
    world: each is computed once.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    plants: ClassVar[Mapping[str, str]] = {}
    symmetric: ClassVar[bool] = True

    def __init__(self, names: Sequence[str], bounds: SearchBounds, plant: str | None = None) -> None:
        self.names = tuple([Domain(name) for name in names])
        self.bounds = bounds
        self.plant = plant
        self._limits: dict[str, int] = asdict(bounds)
        count = self._count = len(self.names)
        self._peers = [[peer for peer in range(count) if peer != node] for node in range(count)]
        # Where in a state the lane is that leads to the first of two nodes, from the second.
        self._lane = [[count + to * count + sender for sender in range(count)] for to in range(count)]
        self._spent = count + count * count
        self._history, self._trouble = self._spent + 1, self._spent + 2
        self._numbers = Numbers()
        self._idle = self._numbers.of(None)
        self._fresh = self._numbers.of(Lane())
        self._stepped: dict[tuple[int | str, ...], _Stepped] = {}
        self._opened: dict[int, int] = {}
        self._taken: dict[int, tuple[int, int]] = {}
        self._ended: dict[int, int] = {}
        self._appended: dict[tuple[int, int], int] = {}
        self._restarted: dict[tuple[int, int], int] = {}
        self._watched: dict[tuple[int, int, int, int], int] = {}
        self._wrong: dict[tuple[int, int], tuple[str, ...]] = {}
        self._possible: dict[int, tuple[FaultChoice, ...]] = {}
        self._affordable: dict[tuple[int, str], int | None] = {}
        orders = list(permutations(range(count))) if self.symmetric else [tuple(range(count))]
        self._orders = {order: number for number, order in enumerate(orders)}
        self._renamings: list[dict[str, str]] = [
            {self.names[node]: self.names[place] for place, node in enumerate(order)} for order in orders
        ]
        self._renamed: list[dict[int, int]] = [{} for _ in orders]
        self._shape: dict[int, int] = {}

    # What a model supplies

    def begin(self, who: Domain) -> Hashable:
        raise NotImplementedError

    def restart(self, who: Domain, node: Any) -> Hashable:
        """With what is on its disk."""
        raise NotImplementedError

    def step(self, who: Domain, node: Any, event: Event) -> tuple[Hashable, Sequence[Effect]]:
        """A pure function. If the core has a bug, an assertion in it may fail."""
        raise NotImplementedError

    def choices(self, node: Any) -> Sequence[FaultChoice]:
        return ()

    def history(self) -> Hashable:
        """What invariants need to know of the past, at the beginning."""
        return ()

    def watch(self, history: Any, who: Domain, node: Any, effects: Sequence[Effect]) -> Any:
        """And after these effects of a node, which are those of its last step."""
        return history

    def wrong_at(self, who: Domain, node: Any) -> Sequence[str]:
        """The invariants of one node that do not hold."""
        return ()

    def wrong(self, history: Any) -> Sequence[str]:
        """The invariants of the past that do not hold."""
        return ()

    def tell(self, who: Domain, effect: Effect) -> str:
        """An effect as a reader should see it; nothing of most."""
        return ""

    # The model

    def initial(self) -> NodesState:
        number = self._numbers.of
        nodes = [number(self.begin(who)) for who in self.names]
        lanes = [self._idle] * (self._count * self._count)
        return (*nodes, *lanes, number((0,) * len(self._limits)), number(self.history()), number(()))

    def actions(self, state: NodesState) -> list[Act]:
        found: list[Act] = []
        idle, numbers, spent = self._idle, self._numbers, state[self._spent]
        may_crash = self._afford(spent, "crashes") is not None
        may_suspect = self._afford(spent, "suspicions") is not None
        for node, lanes in enumerate(self._lane):
            found += [
                Act(choice.verb, node)
                for choice in self._choices(state[node])
                if self._afford(spent, choice.bound) is not None
            ]
            if may_crash:
                found.append(Act("crash", node))
            for peer in self._peers[node]:
                number = state[lanes[peer]]
                if number == idle:
                    if state[self._lane[peer][node]] == idle:
                        found.append(Act("up", node, peer))
                    continue
                lane: Lane = numbers[number]
                if not lane.entered:
                    found.append(Act("up", node, peer))
                elif lane.messages:
                    found.append(Act("deliver", peer, node))
                if lane.ended:
                    found.append(Act("down", node, peer))
                elif may_suspect and lane.entered:
                    found.append(Act("suspect", node, peer))
        return found

    def apply(self, state: NodesState, action: Act) -> NodesState:
        return self._apply(state, action)[0]

    def violations(self, state: NodesState) -> Sequence[str]:
        found: tuple[str, ...] = self._numbers[state[self._trouble]]
        for node in range(self._count):
            found += self._checked(node, state[node])
        return found + self._checked(-1, state[self._history])

    def words(self, action: Act) -> Words:
        names = (self.names[action.node],) if action.peer < 0 else self._pair(action)
        return (action.verb, *names)

    def remark(self, state: NodesState, action: Act) -> str:
        if action.verb != "deliver":
            return ""
        lane: Lane = self._numbers[state[self._lane[action.peer][action.node]]]
        return shown(lane.messages[0])

    def told(self, state: NodesState, action: Act) -> list[str]:
        _, node, stepped = self._apply(state, action)
        if stepped is None:
            return []
        effects: tuple[Effect, ...] = self._numbers[stepped.effects]
        return [line for effect in effects if (line := self.tell(self.names[node], effect))]

    def _pair(self, action: Act) -> tuple[str, str]:
        return self.names[action.node], self.names[action.peer]

    # What happens

    def _apply(self, state: NodesState, action: Act) -> tuple[NodesState, int, _Stepped | None]:
        """The next state, the node at which something happened, and what it did about it."""
        verb, node, peer = action
        world = list(state)
        if verb == "deliver":
            node, peer = peer, node
            place = self._lane[node][peer]
            world[place], message = self._take(world[place])
            stepped = self._step(node, world[node], "received", peer, message)
        elif verb == "up":
            place = self._lane[node][peer]
            if world[place] == self._idle:
                world[place] = world[self._lane[peer][node]] = self._fresh
            world[place] = self._open(world[place])
            stepped = self._step(node, world[node], "up", peer)
        elif verb == "down" or verb == "suspect":
            place = self._lane[node][peer]
            entered = self._numbers[world[place]].entered
            world[place] = self._idle
            if verb == "suspect":
                self._pay(world, "suspicions")
                self._leave(world, peer, node)
            if not entered:
                return tuple(world), node, None
            stepped = self._step(node, world[node], "down", peer)
        elif verb == "crash":
            self._pay(world, "crashes")
            world[node] = self._restart(node, world[node])
            for peer in self._peers[node]:
                world[self._lane[node][peer]] = self._idle
                self._leave(world, peer, node)
            return tuple(world), node, None
        else:
            choices = self._choices(world[node])
            number = next(number for number, each in enumerate(choices) if each.verb == verb)
            self._pay(world, choices[number].bound)
            stepped = self._step(node, world[node], "chose", number)
        world[node] = stepped.node
        failed = stepped.failed
        for to, message in stepped.sends:
            mine: Lane | None = self._numbers[world[self._lane[node][to]]]
            if mine is None or not mine.entered:
                failed += (f"{self.names[node]} sent to {self.names[to]}, and their link is down",)
            elif not mine.ended:
                place = self._lane[to][node]
                world[place] = self._append(world[place], message)
        world[self._history] = self._watch(world[self._history], node, stepped)
        if failed:
            world[self._trouble] = self._numbers.of(failed)
        return tuple(world), node, stepped

    def _leave(self, world: list[int], at: int, left: int) -> None:
        """The end at one node of the epoch that the other left."""
        place = self._lane[at][left]
        if world[place] != self._idle:
            world[place] = self._end(world[place])

    def _pay(self, world: list[int], bound: str) -> None:
        spent = self._afford(world[self._spent], bound)
        assert spent is not None, f"no {bound} are left"
        world[self._spent] = spent

    # Each computed once

    def _step(self, node: int, number: int, *happened: int | str) -> _Stepped:
        key = (node, number, *happened)
        found = self._stepped.get(key)
        if found is None:
            found = self._stepped[key] = self._step_anew(node, number, *happened)
        return found

    def _step_anew(self, node: int, number: int, what: int | str, *about: int | str) -> _Stepped:
        numbers, who, before = self._numbers, self.names[node], self._numbers[number]
        event: Event
        match what, about:
            case "received", (int(peer), int(message)):
                event = Received(self.names[peer], numbers[message])
            case "up", (int(peer),):
                event = LinkUp(self.names[peer], 1)
            case "down", (int(peer),):
                event = LinkDown(self.names[peer], Because(who, self.names[peer], "silent"))
            case _, (int(choice),):
                event = self._choices(number)[choice].event
        try:
            after, effects = self.step(who, before, event)
        except AssertionError as error:
            return _Stepped(number, (), numbers.of(()), (f"{who} failed at {shown(event)}: {error}",))
        sends = [
            (self.names.index(effect.to), numbers.of(effect.message))
            for effect in effects
            if isinstance(effect, Send)
        ]
        return _Stepped(numbers.of(after), tuple(sends), numbers.of(tuple(effects)), ())

    def _open(self, number: int) -> int:
        found = self._opened.get(number)
        if found is None:
            found = self._opened[number] = self._numbers.of(replace(self._numbers[number], entered=True))
        return found

    def _end(self, number: int) -> int:
        found = self._ended.get(number)
        if found is None:
            found = self._ended[number] = self._numbers.of(replace(self._numbers[number], ended=True))
        return found

    def _take(self, number: int) -> tuple[int, int]:
        """The lane without its next message, and that."""
        found = self._taken.get(number)
        if found is None:
            lane: Lane = self._numbers[number]
            rest = self._numbers.of(replace(lane, messages=lane.messages[1:]))
            found = self._taken[number] = rest, self._numbers.of(lane.messages[0])
        return found

    def _append(self, number: int, message: int) -> int:
        found = self._appended.get((number, message))
        if found is None:
            lane: Lane = self._numbers[number]
            longer = replace(lane, messages=(*lane.messages, self._numbers[message]))
            found = self._appended[number, message] = self._numbers.of(longer)
        return found

    def _restart(self, node: int, number: int) -> int:
        found = self._restarted.get((node, number))
        if found is None:
            again = self.restart(self.names[node], self._numbers[number])
            found = self._restarted[node, number] = self._numbers.of(again)
        return found

    def _watch(self, history: int, node: int, stepped: _Stepped) -> int:
        key = (history, node, stepped.node, stepped.effects)
        found = self._watched.get(key)
        if found is None:
            numbers = self._numbers
            after = self.watch(
                numbers[history], self.names[node], numbers[stepped.node], numbers[stepped.effects]
            )
            found = self._watched[key] = numbers.of(after)
        return found

    def _checked(self, node: int, number: int) -> tuple[str, ...]:
        found = self._wrong.get((node, number))
        if found is None:
            value = self._numbers[number]
            if node < 0:
                found = tuple(self.wrong(value))
            else:
                who = self.names[node]
                found = tuple([f"{who}: {rule}" for rule in self.wrong_at(who, value)])
            self._wrong[node, number] = found
        return found

    def _choices(self, number: int) -> tuple[FaultChoice, ...]:
        found = self._possible.get(number)
        if found is None:
            found = self._possible[number] = tuple(self.choices(self._numbers[number]))
        return found

    def _afford(self, spent: int, bound: str) -> int | None:
        """What is spent after one more of these; none if none is left."""
        try:
            return self._affordable[spent, bound]
        except KeyError:
            counts, place = list(self._numbers[spent]), list(self._limits).index(bound)
            counts[place] += 1
            enough = counts[place] <= self._limits[bound]
            found = self._affordable[spent, bound] = self._numbers.of(tuple(counts)) if enough else None
            return found

    # Symmetry

    def canonical(self, state: NodesState) -> NodesState:
        """The least of all that this state becomes by renaming nodes. Nodes are first put in the order of
        their shapes, which no renaming changes: so few renamings are left to try, and mostly one."""
        if len(self._orders) == 1:
            return state
        shapes = [self._shape_of(part) for part in state[: self._count]]
        least = sorted(shapes)
        if len(set(least)) == self._count:
            if shapes == least:
                return state
            return self._rename(state, tuple([shapes.index(shape) for shape in least]))
        return min(
            [
                self._rename(state, order)
                for order in self._orders
                if [shapes[node] for node in order] == least
            ]
        )

    def _rename(self, state: NodesState, order: tuple[int, ...]) -> NodesState:
        """The state in which the node that was the k-th in this order is the k-th."""
        number = self._orders[order]
        renamed, lanes = self._renamed[number], self._lane
        try:
            other = [renamed[state[node]] for node in order]
            for node in order:
                lane = lanes[node]
                other += [renamed[state[lane[sender]]] for sender in order]
            other += (state[self._spent], renamed[state[self._history]], state[self._trouble])
        except KeyError:
            for part in state:
                if part not in renamed:
                    renamed[part] = self._renamed_value(part, number)
            return self._rename(state, order)
        return tuple(other)

    def _renamed_value(self, part: int, number: int) -> int:
        return self._numbers.of(renamed(self._numbers[part], self._renamings[number]))

    def _shape_of(self, number: int) -> int:
        found = self._shape.get(number)
        if found is None:
            family = {self._renamed_value(number, each) for each in range(len(self._renamings))}
            for each in family:
                self._shape[each] = min(family)
            found = self._shape[number]
        return found
