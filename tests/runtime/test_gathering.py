"""What is lent to a program while more comes in is told together; everything else at once."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from support.samples import CHESS

from rostra.runtime.programs import GATHERED_MAX, ProgramConnection


class Scene:
    """One program, and a process of which the test says whether more is coming in."""

    def __init__(self, *, takes_for_all: bool = False) -> None:
        self.more = True
        self.waiting: list[Any] = []
        self.written: list[list[bytes]] = []
        encoder = SimpleNamespace(
            delivery=lambda number, item: (b"head", item),
            delivery_to_all=lambda numbers, item: (b"heads", item),
            item=lambda group, item: item,
        )
        process: Any = SimpleNamespace(
            encoder=encoder,
            write_at_end_of_turn=self.waiting.append,
            write_next_turn=self._write_next_turn,
        )
        connection: Any = Mock()
        connection.write_all = self.written.append
        arenas: Any = None
        self.program = ProgramConnection(process, arenas, connection, takes_for_all=takes_for_all)
        session: Any = SimpleNamespace(write=self.program.write_deliveries)
        self.program.session = session

    def _write_next_turn(self, writer: Any) -> bool:
        if self.more:
            self.waiting.append(writer)
        return self.more

    def end_turn(self) -> None:
        waiting = self.waiting[:]
        self.waiting.clear()
        assert len(waiting) <= 1, "it is written to once in a turn"
        for writer in waiting:
            writer.write()


def test_frames_of_several_turns_leave_together_when_no_more_comes() -> None:
    scene = Scene()
    scene.program.say_in_order(b"1")
    scene.end_turn()
    scene.program.say_in_order(b"2")
    scene.end_turn()
    assert scene.written == []
    scene.more = False
    scene.end_turn()
    assert scene.written == [[b"1", b"2"]] and scene.waiting == []


def test_no_more_than_so_many_wait() -> None:
    scene = Scene()
    for nth in range(GATHERED_MAX):
        assert scene.written == []
        scene.program.say_in_order(b"%d" % nth)
        scene.end_turn()
    assert [len(frames) for frames in scene.written] == [GATHERED_MAX]


def test_a_delivery_takes_what_waits_with_it_at_once_and_in_order() -> None:
    scene = Scene()
    scene.program.say_in_order(b"1")
    scene.end_turn()
    item: Any = b"item"
    scene.program.deliver(7, CHESS, item)
    scene.program.say_in_order(b"2")
    scene.end_turn()
    assert scene.written == [[b"1", b"head", b"item", b"2"]]
    scene.program.say_in_order(b"3")
    scene.end_turn()
    assert len(scene.written) == 1, "the next may wait again"


def test_without_a_burst_nothing_waits() -> None:
    scene = Scene()
    scene.more = False
    scene.program.say_in_order(b"1")
    scene.end_turn()
    assert scene.written == [[b"1"]]


@pytest.mark.parametrize(
    ("takes_for_all", "numbers", "written"),
    [
        (True, [7, 8], [b"heads", b"item"]),
        (True, [7], [b"head", b"item"]),
        (False, [7, 8], [b"head", b"item"] * 2),
    ],
)
def test_what_several_endpoints_get_is_written_once_if_the_program_can_read_that(
    takes_for_all: bool, numbers: list[int], written: list[bytes]
) -> None:
    scene = Scene(takes_for_all=takes_for_all)
    item: Any = b"item"
    scene.program.deliver_to_all(numbers, CHESS, item)
    scene.end_turn()
    assert scene.written == [written]
