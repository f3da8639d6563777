"""A turn takes on no more work once it has used its share of the processor, and goes on in the next one."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from rostra.config import WorldConfig
from rostra.observe.log import EventLog
from rostra.runtime.process import TURN_CPU_S, WRITES_AT_ONCE, Process


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
