"""Packets of a neighbour that do not fit into a turn are taken in the next ones, once and in their order."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from rostra.core.effects import Event
from rostra.core.stack import Stack
from rostra.names import Domain
from rostra.node import Node
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import ChannelClosed, PacketArrived
from rostra.protocols.links.packets import Beat, Hello
from rostra.runtime.links import LinkEnd
from rostra.runtime.process import TURN_CPU_S, HostedNode
from rostra.runtime.store import MemoryStore
from rostra.transport.connection import Connection
from rostra.wire import FrameKind, FrameReader
from tests.runtime.test_turns import PacedProcess

SERVER, HOST = Domain("s"), Domain("s.h1")
HELLO = Hello(1, 0, "turns", HOST, 1, 0, SERVER)
END = -1


class SlowProcess(PacedProcess):
    """Each packet takes a part of a turn, and no other time passes."""

    def __init__(self) -> None:
        self.packet_s = 0.0
        self.taken: list[tuple[int, int]] = []  # the turn and the number of a packet, or the end
        super().__init__()

    def _take(self, hosted: HostedNode, event: Event) -> None:
        super()._take(hosted, event)
        if isinstance(event, PacketArrived) and isinstance(event.packet, Beat):
            self.used_s += self.packet_s
            self.taken.append((self.turn, event.packet.received))
        elif isinstance(event, ChannelClosed):
            self.taken.append((self.turn, END))


class Pausable(asyncio.Transport):
    reads = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: object) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Scene:
    """A server, and its end of the connection to a host that has said hello."""

    def __init__(self) -> None:
        self.process = SlowProcess()
        node = Node("turns", SERVER, Stack(), incarnation=1, config=LinkConfig.lan(), accepts_children=True)
        self.hosted = HostedNode(node, MemoryStore(), is_agent=False)
        connection = Connection(self.process, FrameReader("turns", FrameKind.LINK))
        self.wire = Pausable()
        connection.connection_made(self.wire)
        self.end = LinkEnd(self.process, self.hosted, HOST, connection)
        connection.role = self.end
        self.end.open()
        self.end.arrived([HELLO])

    def arrive(self, numbers: range) -> None:
        self.end.arrived([Beat(1, 1, number) for number in numbers])

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.process.taken]

    async def until(self, count: int) -> None:
        for _ in range(100):
            if len(self.process.taken) >= count:
                return
            await asyncio.sleep(0)
        pytest.fail(f"{count} were to be taken, and {len(self.process.taken)} were")


def run(scene: Callable[[Scene], Awaitable[None]], packet_s: float) -> None:
    async def whole() -> None:
        made = Scene()
        await asyncio.sleep(0)
        made.process.packet_s = packet_s
        await scene(made)

    asyncio.run(whole())


def test_packets_of_one_read_share_a_turn_as_long_as_it_is_short() -> None:
    async def scene(made: Scene) -> None:
        made.arrive(range(10))
        assert made.numbers == list(range(10)) and made.wire.reads

    run(scene, 0.05 * TURN_CPU_S)


def test_those_that_do_not_fit_are_taken_in_the_next_turns_and_nothing_is_read_meanwhile() -> None:
    async def scene(made: Scene) -> None:
        made.arrive(range(10))
        assert made.numbers == [0, 1, 2] and not made.wire.reads
        await made.until(10)
        assert made.numbers == list(range(10))
        turns = Counter(turn for turn, _ in made.process.taken)
        assert list(turns.values()) == [4, 3, 3], "a turn ends with at least one piece of what waits"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert made.wire.reads

    run(scene, 0.4 * TURN_CPU_S)


def test_what_arrives_while_others_wait_is_taken_after_them() -> None:
    async def scene(made: Scene) -> None:
        made.arrive(range(5))
        made.arrive(range(5, 10))
        assert made.numbers == [0, 1, 2]
        await made.until(10)
        assert made.numbers == list(range(10))

    run(scene, 0.4 * TURN_CPU_S)


def test_what_waits_when_the_connection_ends_is_taken_before_the_end() -> None:
    """The neighbour may have said in it why it goes; it is not sent again."""

    async def scene(made: Scene) -> None:
        made.arrive(range(10))
        made.end.lost("the peer is gone")
        assert made.numbers == [*range(10), END]
        for _ in range(5):
            await asyncio.sleep(0)
        assert made.numbers == [*range(10), END], "once"

    run(scene, 0.4 * TURN_CPU_S)
