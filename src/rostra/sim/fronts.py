"""The fronts of a simulated world: the production core before every node that programs talk to.

    SimProgram ── Ask, Submit, Reading ──▶ SimLink ── ProgramSession, FrontCore ──▶ node
               ◀── Answered, Told, items ──┘

A program's requests reach the front of its host at once, or wait in the inbox of a paused process. Each is a
turn of its own, as on a machine without load, unless joins are gathered (`SimFronts.gather`). A deaf program
is one whose buffer is full; it reads just enough to be taken for alive.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from rostra.core.effects import Answer, Asked, Effect, Event, Tell
from rostra.core.observer import BESIDE
from rostra.core.stack import Stack
from rostra.errors import BadInput, RostraError
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group, parent
from rostra.protocols.claims.agent import JoinClaimed
from rostra.protocols.fifo.events import Deliver, DeliverAll, Item
from rostra.protocols.front.config import WATCH_TICK_S, FrontConfig
from rostra.protocols.front.core import JOINS_AT_ONCE, LOOK_EVERY, FrontCore
from rostra.protocols.front.messages import Answered, Ask, Ping, Pong, Told
from rostra.protocols.front.port import Hold, Writes
from rostra.protocols.front.session import ProgramSession
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Join, Leave

if TYPE_CHECKING:
    from rostra.sim.processes import SimProcess
    from rostra.sim.world import World

OWN_UID = 1000
"""Of the user who runs the agents, and of programs without another user."""


WRITES_AT_ONCE: Final = 16
"""Programs that are written to between two looks at how long the turn is."""

TURN_STEPS_OVER: Final = 2 * JOINS_AT_ONCE + LOOK_EVERY + 8
"""Steps of a turn after it has become long: those of one piece of work, which is not interrupted."""


class NodeFront(Protocol):
    """The part of a front that gets the node's effects for programs."""

    def tell(self, tell: Tell) -> None: ...

    def answer(self, answer: Answer) -> None: ...

    def deliver(self, deliver: Deliver) -> None: ...

    def deliver_all(self, deliver: DeliverAll) -> None: ...


class ProgramSide(Protocol):
    """The program at the far end of a link."""

    def take(self, item: Answered | Told) -> None: ...

    def heard(self, group: Group, item: Item) -> None: ...

    def disconnected(self, why: str) -> None: ...


class ProgramDid(Event, frozen=True):
    """For the front of a process, not for its node: what a program said, or another word of its link."""

    link: "SimLink"
    items: tuple[Any, ...] = ()
    word: str = ""  # full, drained, gone


class SimFronts:
    """All fronts of a world, by the path of their node; made when the first program talks to it."""

    def __init__(self, world: "World", config: FrontConfig, turn_steps: int) -> None:
        self.world = world
        self.config = config
        self.turn_steps = turn_steps  # a turn with so many steps is long
        self.of: dict[Domain, NodeFront] = {}

    def connect(
        self,
        process: "SimProcess",
        name: str,
        program: ProgramSide,
        uid: int = OWN_UID,
        *,
        administers: bool = True,
    ) -> "SimLink":
        front = self.of.get(process.path)
        if front is None:
            front = self.of[process.path] = SimFront(self.world, process, self.config)
        assert isinstance(front, SimFront), "programs of a test reach its agent by themselves"
        return front.connect(name, program, uid, administers)

    def end(self, process: "SimProcess") -> None:
        """The process has crashed, and its front with it."""
        self.of.pop(process.path, None)

    def gather(self, process: "SimProcess", begin: bool) -> None:
        """Joins from now on, until the gathering ends, are of one turn."""
        front = self.of.get(process.path)
        if front is None and process.node is not None:
            front = self.of[process.path] = SimFront(self.world, process, self.config)
        if isinstance(front, SimFront):
            front.gathers = begin
            front.in_turn(lambda: None)

    def happened(self, process: "SimProcess", did: ProgramDid) -> None:
        front = self.of.get(process.path)
        if isinstance(front, SimFront) and did.link.front is front:  # else it is of an earlier life
            front.happened(did)

    def keep_pace(self, process: "SimProcess") -> None:
        """A turn of its node has ended: apply back-pressure to programs, or end it."""
        front = self.of.get(process.path)
        if isinstance(front, SimFront) and process.node is not None:
            link = process.node.links.get(parent(process.path))
            if link is not None and AGENT in process.stack:
                front.core.keep_pace(link.backlog)

    def watched(self) -> dict[Group, set[Domain]]:
        """Groups that agents follow for their programs, and which do: a little longer than those watch."""
        found: dict[Group, set[Domain]] = {}
        for path, front in self.of.items():
            watching = front.core.watching if isinstance(front, SimFront) else None
            for group in watching.watches.groups if watching is not None else ():
                found.setdefault(group, set()).add(path)
        return found

    # What nodes order

    def tell(self, process: "SimProcess", order: Tell) -> None:
        if (front := self.of.get(process.path)) is not None:
            front.tell(order)

    def answer(self, process: "SimProcess", order: Answer) -> None:
        if (front := self.of.get(process.path)) is not None:
            front.answer(order)

    def deliver(self, process: "SimProcess", order: Deliver) -> None:
        if (front := self.of.get(process.path)) is not None:
            front.deliver(order)

    def deliver_all(self, process: "SimProcess", order: DeliverAll) -> None:
        if (front := self.of.get(process.path)) is not None:
            front.deliver_all(order)


class SimFront:
    """The front of one node in one life, and its port."""

    def __init__(self, world: "World", process: "SimProcess", config: FrontConfig) -> None:
        self.world = world
        self.process = process
        self.gathers = False
        self.silent: set[SimLink] = set()  # they answer no pings
        self.asked: dict[tuple[Endpoint, Group], int] = {}  # joins with delivery: the number of the question
        self.turn = self.steps = 0  # and the steps of this turn
        self._gathering = False  # this turn began before joins were gathered
        self._depth = 0
        self._work: deque[Callable[[], None]] = deque()
        self._writers: list[Writes] = []
        self._ticking = False
        self.core = FrontCore(self, process.path, config, world.timers.detect, OWN_UID)

    def connect(self, name: str, program: ProgramSide, uid: int, administers: bool) -> "SimLink":
        link = SimLink(self, program)
        user = self.core.shares.user(uid, "")
        if (refusal := self.core.connection_refusal(user, self.core.config.limits.programs_max)) is not None:
            link.refuse(refusal)
        else:
            link.session = self.core.connected(name, link, user, administers=administers)
        return link

    def happened(self, did: ProgramDid) -> None:
        link, session = did.link, did.link.session
        if session is None or session.number not in self.core.by_number:
            return
        match did.word:
            case "full":
                self.in_turn(session.full)
            case "drained":
                self.in_turn(session.drained)
            case "gone":
                self.in_turn(lambda: session.lost("" if link.why is None else link.why))
            case _:
                link.arrived(did.items)
        if not self._ticking and self.wants_ticks:
            self._ticking = True
            self.world.at(self.world.now + WATCH_TICK_S, self._tick, None, None)

    # Turns

    def in_turn(self, what: Callable[[], None]) -> None:
        """Do this; when the outermost of these is done, what waits for the end of the turn."""
        if not self._depth and not self._gathering:
            self.turn, self.steps = self.turn + 1, 0
        self._depth += 1
        try:
            what()
            if self._depth == 1:
                self._end_turn()
                self._gathering = self.gathers
        finally:
            self._depth -= 1

    def _end_turn(self) -> None:
        """As `Process` does: some work and some writers at least; what a long turn has no time for, in the
        next one."""
        while self._writers or (self._work and not self.gathers):
            while self._work and not self.gathers:
                self._work.popleft()()
                if self.turn_is_long:
                    break
            self._write()
            if self.turn_is_long and not self.gathers and (self._work or self._writers):
                self.in_next_turn(lambda: None)
                break
        over = self.steps - self.world.fronts.turn_steps
        assert over <= TURN_STEPS_OVER, f"{self.process.path} took {self.steps} steps in one turn"

    def _write(self) -> None:
        writers, self._writers = self._writers, []
        for begin in range(0, len(writers), WRITES_AT_ONCE):
            if begin and self.turn_is_long and not self.gathers:
                self._writers = [*writers[begin:], *self._writers]
                break
            for writer in writers[begin : begin + WRITES_AT_ONCE]:
                writer.write()

    def tell(self, tell: Tell) -> None:
        self.in_turn(lambda: self.core.tell(tell))

    def answer(self, answer: Answer) -> None:
        self.in_turn(lambda: self.core.answer(answer))

    def deliver(self, deliver: Deliver) -> None:
        self.in_turn(lambda: self.core.deliver(deliver))

    def deliver_all(self, deliver: DeliverAll) -> None:
        self.in_turn(lambda: self.core.deliver_all(deliver))

    @property
    def wants_ticks(self) -> bool:
        """Is there something that time alone changes? Programs of a simulated world answer at once."""
        watching = self.core.watching
        return bool(self.silent) or (watching is not None and watching.watches.has_idle)

    def _tick(self, *_: None) -> None:
        self._ticking = False
        if self.world.fronts.of.get(self.process.path) is not self:
            return  # it has crashed
        if not self.process.paused:
            self.in_turn(self.core.tick)
        if self.wants_ticks:
            self._ticking = True
            self.world.at(self.world.now + WATCH_TICK_S, self._tick, None, None)

    # The port

    @property
    def now(self) -> float:
        return self.world.now + self.process.skew_s

    @property
    def stack(self) -> Stack:
        return self.process.stack

    @property
    def turn_is_long(self) -> bool:
        return self.steps >= self.world.fronts.turn_steps

    recorded = 0

    def step(self, event: Event) -> None:
        self.steps += 1
        self.world.nodes.step(self.process, event)

    def report(self, effect: Effect) -> None:
        self.world.nodes.show(self.process, BESIDE, (effect,))

    def step_soon(self, event: Event) -> None:
        self.world.nodes.inject(self.process, event)

    def write_at_end_of_turn(self, writer: Writes) -> None:
        self._writers.append(writer)

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        self._work.append(work)

    def in_next_turn(self, work: Callable[[], None]) -> None:
        self.world.at(self.world.now, self._in_this_life, work, None)

    def _in_this_life(self, work: Callable[[], None], _: None) -> None:
        if self.world.fronts.of.get(self.process.path) is self:
            self.in_turn(work)

    def reserve_number(self) -> None:
        """Numbers of a simulated life are its own."""

    def entered(self, group: Group) -> None:
        self.world.channels.entered(self.process, group)

    def luck(self, endpoint: Endpoint, group: Group) -> int:
        return self.world.luck_of(endpoint, group, self.asked.get((endpoint, group), 0))

    def wait_for_news(self, asker: object, at_most_s: float, ask: Callable[[], None]) -> None:
        ask()

    def inspected(self, document: bytes, after: int) -> bytes:
        return document

    def count(self, thing: str, label: str = "", by: int = 1) -> None:
        self.world.notes[thing, label] += by

    def note(self, event: str, **values: Any) -> None:
        self.world.notes["Noted", event] += 1


class SimLink:
    """Both ends of one program's connection."""

    peer = "this world"

    def __init__(self, front: SimFront, program: ProgramSide) -> None:
        self.front = front
        self.session: ProgramSession | None = None  # if it was let in
        self.is_open = True
        self.why: str | None = None  # the front has hung up
        self._program = program
        self._held = Hold.NOT
        self._unheard: list[Any] = []  # what it said while it was not read
        self._items: list[tuple[Group, Item]] = []
        self._unread = 1 << 62
        self._claimed: set[tuple[int, Group]] = set()

    # From the program

    def say_to_front(self, *items: Any) -> None:
        self._do(items)

    def stop_reading(self) -> None:
        self._do(word="full")

    def read_again(self) -> None:
        self._do(word="drained")

    def hang_up(self) -> None:
        self._do(word="gone")

    def _do(self, items: tuple[Any, ...] = (), word: str = "") -> None:
        self.front.world.nodes.inject(self.front.process, ProgramDid(self, items, word))

    def arrived(self, items: tuple[Any, ...]) -> None:
        if not self.is_open:
            return
        if self._held:
            self._unheard += items
            return
        session, front = self.session, self.front
        assert session is not None
        match items:
            case (Ask(token, number, Join(group_kind=GroupKind()) as join),):
                # For storms over claims alone (`claim_storm.py`): the kind, without the service behind it.
                endpoint = session.endpoints[number]
                claim = JoinClaimed(endpoint, session.expect(token, endpoint, join), join)
                self._claimed.add((number, join.group))
                front.in_turn(lambda: front.step(claim))
            case (Ask(token, number, Leave(group) as leave),) if (number, group) in self._claimed:
                # As that service would: the front takes no plain leave of a member of a strong kind.
                endpoint = session.endpoints[number]
                left = Asked(endpoint, session.expect(token, endpoint, leave), leave)
                front.in_turn(lambda: front.step(left))
            case _:
                front.in_turn(lambda: session.arrived(list(items)))

    def _go_on(self) -> None:
        unheard, self._unheard = self._unheard, []
        self.arrived(tuple(unheard))

    # From the front

    @property
    def unread_bytes(self) -> int:
        if self.session is not None and self.session.is_full:
            self._unread -= 1  # a program that reads nothing at all is given up
        return self._unread

    def send(self, items: list[Answered | Told]) -> None:
        for item in items:
            if self.is_open:
                self._program.take(item)

    def say(self, word: Any) -> None:
        if type(word) is Ping and self not in self.front.silent:
            self.say_to_front(Pong(word.number))

    def deliver(self, number: int, group: Group, item: Item) -> None:
        if not self._items:
            assert self.session is not None
            self.front.write_at_end_of_turn(self.session)
        self._items.append((group, item))

    def deliver_to_all(self, numbers: Sequence[int], group: Group, item: Item) -> None:
        for number in numbers:
            self.deliver(number, group, item)

    def write_deliveries(self) -> None:
        items, self._items = self._items, []
        for group, item in items:
            if self.is_open:
                self._program.heard(group, item)

    def enters(self) -> None: ...

    def left(self, group: Group) -> None: ...

    def take(self, item: Any) -> RostraError | None:
        return BadInput(f"{type(item).__name__} after the handshake")

    def hold(self, why: Hold) -> None:
        self._held |= why

    def release(self, why: Hold) -> None:
        self._held &= ~why
        if not self._held and self._unheard:
            self.front.in_next_turn(self._go_on)

    def refuse(self, error: RostraError) -> None:
        self.close(str(error))

    def close(self, why: str) -> None:
        if self.is_open:
            self.is_open = False
            self.why = why
            self._program.disconnected(why)
            self.hang_up()

    def abort(self, why: str) -> None:
        self.close(why)

    def gone(self) -> None: ...

    def ended(self) -> None:
        self.is_open = False
        self.front.silent.discard(self)
