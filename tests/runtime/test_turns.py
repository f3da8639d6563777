"""A turn takes on no more work once it has used its share of the processor, and goes on in the next one."""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from rostra.config import WorldConfig
from rostra.core.effects import SetTimer, TimerFired
from rostra.names import Domain
from rostra.node import GO_ON, GO_ON_S, TICK
from rostra.observe.log import EventLog
from rostra.runtime.data import READS_PER_TURN_MAX
from rostra.runtime.process import TURN_CPU_S, WRITES_AT_ONCE, HostedNode, Process


class PacedProcess(Process):
    """Time passes only when a test says so, and all of it is our processor time."""

    def __init__(self) -> None:
        self.used_s = 0.0
        super().__init__(WorldConfig("turns", {}), EventLog(quiet=True))

    def clock(self) -> float:
        return self.used_s

    def cpu_clock(self) -> float:
        return self.used_s


class Piece:
    """Work or a writer that takes so long."""

    def __init__(self, process: PacedProcess, takes_s: float, turns: list[int]) -> None:
        self._process, self._takes_s, self._turns = process, takes_s, turns

    def write(self) -> None:
        self._process.used_s += self._takes_s
        self._turns.append(self._process.turn)


def run(scene: Callable[[PacedProcess], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scene(PacedProcess())

    asyncio.run(whole())


async def looks(process: PacedProcess, until: Callable[[], bool]) -> set[int]:
    """The turns after which the loop came back to its sockets and tasks, until this holds."""
    seen: set[int] = set()
    while not until():
        await asyncio.sleep(0)
        seen.add(process.turn)
    return seen


def test_work_that_does_not_fit_into_a_turn_goes_on_in_the_next_ones() -> None:
    async def scene(process: PacedProcess) -> None:
        turns: list[int] = []
        for _ in range(10):
            process.at_end_of_turn(Piece(process, 0.4 * TURN_CPU_S, turns).write)
        seen = await looks(process, lambda: len(turns) == 10)
        assert Counter(turns) == {1: 3, 2: 3, 3: 3, 4: 1}
        assert seen >= {1, 2, 3, 4}, "between two turns the loop looks at everything else"

    run(scene)


def test_a_piece_that_is_longer_than_a_turn_is_alone_in_it() -> None:
    async def scene(process: PacedProcess) -> None:
        turns: list[int] = []
        for _ in range(3):
            process.at_end_of_turn(Piece(process, 2 * TURN_CPU_S, turns).write)
        await looks(process, lambda: len(turns) == 3)
        assert turns == [1, 2, 3]

    run(scene)


def test_programs_that_cannot_all_be_written_to_in_a_turn_are_in_the_next_and_in_their_order() -> None:
    async def scene(process: PacedProcess) -> None:
        turns: list[int] = []
        written: list[int] = []

        class Numbered(Piece):
            number = 0

            def write(self) -> None:
                super().write()
                written.append(self.number)

        for number in range(3 * WRITES_AT_ONCE):
            writer = Numbered(process, 0.1 * TURN_CPU_S, turns)
            writer.number = number
            process.write_at_end_of_turn(writer)
        await looks(process, lambda: len(written) == 3 * WRITES_AT_ONCE)
        assert written == list(range(3 * WRITES_AT_ONCE))
        assert Counter(turns) == {1: WRITES_AT_ONCE, 2: WRITES_AT_ONCE, 3: WRITES_AT_ONCE}

    run(scene)


def test_what_a_turn_used_is_what_its_work_and_its_writers_used() -> None:
    async def scene(process: PacedProcess) -> None:
        turns: list[int] = []
        process.at_end_of_turn(Piece(process, 0.003, turns).write)
        process.write_at_end_of_turn(Piece(process, 0.004, turns))
        await looks(process, lambda: len(turns) == 2)
        assert abs(process.lag.turn_cpu_s - 0.007) < 1e-9

    run(scene)


class Crowded:
    """A node that has messages left for so many pieces, each of which takes so long."""

    path = Domain("s.h1")

    def __init__(self, process: PacedProcess, pieces: int, takes_s: float) -> None:
        self._process, self._pieces, self._takes_s = process, pieces, takes_s
        self.turns: list[int] = []

    def step(self, now: float, event: object) -> list[SetTimer]:
        self._process.used_s += self._takes_s
        self.turns.append(self._process.turn)
        assert isinstance(event, TimerFired) and event.timer == GO_ON
        return [SetTimer(GO_ON, GO_ON_S)] if len(self.turns) < self._pieces else []

    def flush(self, now: float) -> list[SetTimer]:
        return []


def test_a_step_goes_on_in_the_same_turn_until_that_is_long() -> None:
    """So that messages which came together share a turn, and with it the notices and writes that they cause.
    With a turn for each piece, a crowd of 5,000 programs never came in."""

    async def scene(process: PacedProcess) -> None:
        node: Any = Crowded(process, 8, 0.3 * TURN_CPU_S)
        hosted = HostedNode(node, None, is_agent=False)  # type: ignore[arg-type]
        process.step(hosted, TimerFired(GO_ON))
        seen = await looks(process, lambda: len(node.turns) == 8)
        assert Counter(node.turns) == {1: 4, 2: 4}
        assert seen >= {1, 2}

    run(scene)


def test_datagrams_that_come_in_a_long_turn_are_read_in_the_next() -> None:
    async def scene(process: PacedProcess) -> None:
        turns: list[int] = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.bind(("127.0.0.1", 0))
            here.setblocking(False)

            def arrived(*_: object, **__: object) -> None:
                process.at_end_of_turn(lambda: None)
                Piece(process, 0.3 * TURN_CPU_S, turns).write()

            process.data.core.arrived = arrived  # type: ignore[method-assign]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
                for _ in range(READS_PER_TURN_MAX):
                    there.sendto(b"x", here.getsockname())
            process.loop.add_reader(here.fileno(), process.data._readable, here)
            await looks(process, lambda: len(turns) == READS_PER_TURN_MAX)
            process.loop.remove_reader(here.fileno())
        assert max(Counter(turns).values()) == 4

    run(scene)


def test_timers_that_fire_together_are_taken_in_as_many_turns_as_they_need_and_ticks_at_once() -> None:
    """The streams of programs that died end by a timer each, with an item for each reader: 200 ms."""

    async def scene(process: PacedProcess) -> None:
        fired: list[tuple[str, int]] = []

        class Node:
            path = Domain("s.h1")

            def step(self, now: float, event: TimerFired) -> list[SetTimer]:
                process.used_s += 0.6 * TURN_CPU_S
                fired.append((str(event.timer[0]), process.turn))
                return []

            def flush(self, now: float) -> list[SetTimer]:
                return []

        hosted = HostedNode(Node(), None, is_agent=False)  # type: ignore[arg-type]
        for name in ("a", "b", "c", "d", "e"):
            process._set_timer(hosted, SetTimer((name,), 0.0))
        process._set_timer(hosted, SetTimer(TICK, 0.0))
        await looks(process, lambda: len(fired) == 6)
        turns = Counter(turn for name, turn in fired if name != "tick")
        assert len(fired) == len(set(fired)) and max(turns.values()) == 2
        assert dict(fired)["tick"] == 1, "links and pings do not wait"

    run(scene)
