"""The connections of a node's programs: the driver of its front (`protocols/front`).

    socket ── Connection ── ProgramSession ── FrontCore ── Process.step ──▶ node
              ▲ frames            │
              └── ProgramConnection ◀── Answered, Told, deliveries

All answers and notices for a program in one turn leave as one frame. Large blocks of group messages stand in
shared memory, for programs that can map it (`arenas.py`).
"""

import os
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rostra.core.effects import Effect, Event
from rostra.core.stack import Stack
from rostra.errors import BadInput, RostraError, StoreFailed, TooLarge
from rostra.names import Endpoint, Group
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.fifo.events import Delivered, Item
from rostra.protocols.front.config import FrontConfig
from rostra.protocols.front.core import FrontCore
from rostra.protocols.front.messages import Answered, Goodbye, Ping, Pong, Told
from rostra.protocols.front.port import Hold
from rostra.protocols.front.session import ProgramSession
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Denied, denied
from rostra.runtime.arenas import Arenas
from rostra.transport.connection import Connection
from rostra.wire import Mapped, ProgramHello, ProgramWelcome, Returned

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

GATHERED_MAX: Final = 6
"""Blocks that go together to a program that reads them out of an arena, while more are coming in. A
program that is woken has to fetch itself into the caches, which costs it as much as some blocks. Raising it:
fewer wakings; programs stand idle for longer at the beginning of a burst."""


class ProgramConnection:
    """The way to one program: its socket, and how notices are encoded there."""

    __slots__ = (
        "_arenas",
        "_connection",
        "_gathers",
        "_process",
        "_spoken",
        "abort",
        "close",
        "hold",
        "refuse",
        "release",
        "session",
        "shares",
        "takes_for_all",
    )

    session: ProgramSession

    def __init__(
        self,
        process: "Process",
        arenas: Arenas,
        connection: Connection,
        *,
        shares: bool = False,
        takes_for_all: bool = False,
    ) -> None:
        self.shares = shares  # can it read arenas?
        self.takes_for_all = takes_for_all  # and `DeliveryToAll`?
        self.hold: Callable[[Hold], None] = connection.hold
        self.release: Callable[[Hold], None] = connection.release
        self.refuse: Callable[[RostraError], None] = connection.refuse
        self.close: Callable[[str], None] = connection.close
        self.abort: Callable[[str], None] = connection.abort
        self._process = process
        self._arenas = arenas
        self._connection = connection
        self._spoken: list[bytes] = []  # deliveries, as frames in pieces
        self._gathers = True  # may these wait for more?

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    @property
    def unread_bytes(self) -> int:
        return self._connection.unread_bytes + self._connection.unread_bytes_of_kernel

    def send(self, items: list[Answered | Told]) -> None:
        try:
            self._connection.write(self._process.encoder.tells(items))
        except TooLarge as error:
            self._connection.refuse(error)

    def say(self, word: Ping | Pong | Goodbye | ProgramWelcome) -> None:
        self._connection.write(self._process.encoder.to_program(word))

    # Groups with delivery

    def deliver(self, number: int, group: Group, item: Item) -> None:
        if type(item) is Delivered or type(item) is OrderedRun:
            position = item.position if type(item) is OrderedRun else 0
            lent = self._arenas.lend(self, number, group, item.stream, item.run, position)
            if lent is not None:
                self.say_in_order(lent)
                return
        if not self._spoken:
            self._process.write_at_end_of_turn(self.session)
        encoder = self._process.encoder
        # Encoded once for all who get it.
        self._spoken += encoder.delivery(number, encoder.item(group, item))
        self._gathers = False

    def deliver_to_all(self, numbers: Sequence[int], group: Group, item: Item) -> None:
        if len(numbers) == 1 or not self.takes_for_all or type(item) is OrderedRun:  # which may be lent
            for number in numbers:
                self.deliver(number, group, item)
            return
        if not self._spoken:
            self._process.write_at_end_of_turn(self.session)
        encoder = self._process.encoder
        self._spoken += encoder.delivery_to_all(numbers, encoder.item(group, item))
        self._gathers = False

    def say_in_order(self, frame: bytes) -> None:
        """Something in the order of deliveries, which may wait for the next turn if that begins at once."""
        if not self._spoken:
            self._process.write_at_end_of_turn(self.session)
        self._spoken.append(frame)

    def write_deliveries(self) -> None:
        if self._spoken:
            gathers = self._gathers and len(self._spoken) < GATHERED_MAX
            if gathers and self._process.write_next_turn(self.session):
                return
            spoken, self._spoken, self._gathers = self._spoken, [], True
            self._connection.write_all(spoken)

    def enters(self) -> None:
        self._connection.carry_messages()

    def left(self, group: Group) -> None:
        self._arenas.left(self, group)

    def take(self, item: Any) -> RostraError | None:
        match item:
            case Returned(arena, begins):
                return self._arenas.returned(self, arena, begins)
            case Mapped(arena):
                return self._arenas.mapped(self, arena)
        return BadInput(f"{type(item).__name__} after the handshake")

    def gone(self) -> None:
        self._arenas.gone(self)

    def ended(self) -> None:
        for unknown, times in self._connection.unknown.items():
            self._process.record.count("unknown", unknown, times)


class Programs:
    """All programs of one node: the `FrontPort` of its front."""

    def __init__(
        self, process: "Process", hosted: "HostedNode", make: Callable[..., FrontCore] = FrontCore
    ) -> None:
        self.process = process
        self.hosted = hosted
        self.count = process.record.count
        self.note = process.record.note
        self.step = partial(process.step, hosted)
        self.write_at_end_of_turn = process.write_at_end_of_turn
        self.at_end_of_turn = process.at_end_of_turn
        world = process.world
        config = FrontConfig(limits=world.agents)
        self.front = make(self, hosted.path, config, world.links.detect, os.geteuid())
        self.arenas = Arenas(self, process.arena_bytes if hosted.is_agent else 0)
        # Those that the node orders thousands of times a second.
        self.tell, self.answer, self.deliver = self.front.tell, self.front.answer, self.front.deliver
        self.deliver_all = self.front.deliver_all

    def welcome(
        self, hello: ProgramHello, connection: Connection, *, administers: bool = True
    ) -> ProgramSession:
        shares = hello.shares and connection.is_local and self.arenas.is_on
        link = ProgramConnection(
            self.process, self.arenas, connection, shares=shares, takes_for_all=hello.takes_for_all
        )
        user = self.front.shares.user(connection.peer_uid, connection.peer_ip)
        link.session = self.front.connected(hello.program, link, user, administers=administers)
        node = self.hosted.node
        link.say(ProgramWelcome(node.world, node.path, node.incarnation))
        return link.session

    def connection_refusal(self, connection: Connection, free: int) -> RostraError | None:
        user = self.front.shares.user(connection.peer_uid, connection.peer_ip)
        return self.front.connection_refusal(user, free)

    def close_all(self) -> None:
        """We are shutting down: leave every group for every program."""
        self.front.draining = True
        for session in list(self.front.by_number.values()):
            self.front.close_all(session)
        self.front.end_endpoints()

    def say_goodbye(self, why: str) -> None:
        for session in list(self.front.by_number.values()):
            session.link.say(Goodbye(why))
            session.link.close(why)

    def tick(self) -> None:
        self.arenas.tick()
        self.front.tick()

    # What the front needs

    @property
    def now(self) -> float:
        return self.process.now

    @property
    def turn(self) -> int:
        return self.process.turn

    @property
    def stack(self) -> Stack:
        return self.hosted.node.stack

    @property
    def turn_is_long(self) -> bool:
        return self.process.turn_is_long

    def report(self, effect: Effect) -> None:
        if self.hosted.observers:
            self.process.report(self.hosted, effect)

    def step_soon(self, event: Event) -> None:
        self.process.loop.call_soon(self.step, event)

    def in_next_turn(self, work: Callable[[], None]) -> None:
        self.process.loop.call_soon(work)

    def reserve_number(self) -> Denied | None:
        agent, store = self.stack.find(AGENT), self.hosted.store
        try:
            if agent is not None:
                store.reserve_above(agent.next_number)
        except StoreFailed as error:
            self.process.no_room(self.hosted, "numbers", error)
            return None if agent is not None and store.has_reserved(agent.next_number) else denied(error)
        return None

    def entered(self, group: Group) -> None:
        self.process.data.entered(group)

    def luck(self, endpoint: Endpoint, group: Group) -> int:
        return secrets.randbits(64)

    @property
    def recorded(self) -> int:
        return self.process.record.recorded

    def wait_for_news(self, asker: object, at_most_s: float, ask: Callable[[], None]) -> None:
        self.process.patience.wait(asker, at_most_s, ask)

    def inspected(self, document: bytes, after: int) -> bytes:
        return self.process.inspect(self.hosted, document, after)
