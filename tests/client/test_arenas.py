"""Arenas, the program's side: what it believes, what it copies, and what it gives back."""

import fcntl
import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.samples import ANN, CHESS

from rostra.client.arenas import RETURNED_AT_ONCE, Loan, ReadArenas, mapped
from rostra.errors import Malformed
from rostra.protocols.flow.runs import block_of
from rostra.transport.addresses import SocketPath, TcpAddress
from rostra.transport.memory import sealed_memory
from rostra.wire import Arena, Lent, Returned

SIZE = 1 << 20
BODIES = [b"e4", b"", b"x" * 300]
BLOCK = b"\xdd\x00\x00\x00\x03" + block_of(BODIES)


class Scene:
    def __init__(self, share: int = 1000) -> None:
        self.said: list[Any] = []
        self.file, self.memory = sealed_memory(SIZE)
        self.arenas = ReadArenas(SocketPath("/nowhere"), self.said.append)
        self.arenas.has(Arena(3, SIZE, bytes(16), share), mapped(self.file, SIZE))

    def lend(self, begin: int = 0, size: int = len(BLOCK), count: int = 3, arena: int = 3) -> Loan:
        if begin + len(BLOCK) <= SIZE:
            self.memory[begin : begin + len(BLOCK)] = BLOCK
        return self.arenas.lent(Lent(7, CHESS, ANN, 40, count, 0.5, arena, begin, size))


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    os.close(made.file)


def test_messages_are_copies_that_outlive_their_block(scene: Scene) -> None:
    loan = scene.lend(begin=4096)
    assert (loan.sender, loan.first, loan.count, loan.at, loan.size) == (ANN, 40, 3, 0.5, len(BLOCK))
    bodies = loan.read()
    scene.memory[:] = b"\xff" * SIZE
    assert bodies == BODIES and {type(body) for body in bodies} == {bytes}


def test_blocks_are_given_back_a_few_at_a_time_and_each_once(scene: Scene) -> None:
    for nth in range(RETURNED_AT_ONCE):
        assert scene.said == []
        scene.lend(begin=nth * 1000).read()
    assert scene.said == [Returned(3, tuple(nth * 1000 for nth in range(RETURNED_AT_ONCE)))]


@pytest.mark.parametrize(("share", "at_once"), [(1, 1), (2, 1), (8, 2), (16, 4), (1000, RETURNED_AT_ONCE)])
def test_blocks_are_given_back_before_the_agent_has_none_left_for_us(share: int, at_once: int) -> None:
    scene = Scene(share)
    for nth in range(at_once):
        assert scene.said == []
        scene.lend(begin=nth * 1000).give_back()
    assert [len(each.begins) for each in scene.said] == [at_once]
    os.close(scene.file)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ({"begin": SIZE}, "in an arena of"),
        ({"begin": SIZE - len(BLOCK) + 1}, "in an arena of"),
        ({"size": SIZE + 1}, "in an arena of"),
        ({"begin": 1 << 62}, "in an arena of"),
        ({"arena": 4}, "not mapped here"),
    ],
)
def test_a_block_outside_of_what_is_mapped_is_the_agents_mistake(
    scene: Scene, where: dict[str, int], why: str
) -> None:
    with pytest.raises(Malformed, match=why):
        scene.lend(**where)
    assert scene.said == []


def test_the_last_byte_of_an_arena_can_be_lent(scene: Scene) -> None:
    assert scene.lend(begin=SIZE - len(BLOCK)).read() == BODIES


@pytest.mark.parametrize("spoiled", [{"count": 2}, {"size": len(BLOCK) - 1}, {"begin": 0, "size": 1}])
def test_a_block_that_is_not_what_it_is_said_to_be_is_the_agents_mistake(
    scene: Scene, spoiled: dict[str, int]
) -> None:
    with pytest.raises(Malformed):
        scene.lend(**spoiled).read()


def test_what_is_unread_of_a_retired_arena_can_still_be_read_and_is_not_given_back(scene: Scene) -> None:
    loans = [scene.lend() for _ in range(2 * RETURNED_AT_ONCE)]
    scene.arenas.retired(3)
    assert [loan.read() for loan in loans] == [BODIES] * len(loans)
    assert scene.said == []
    with pytest.raises(Malformed):
        scene.lend()


def test_memory_that_could_become_shorter_is_not_mapped() -> None:
    """Reading beyond the end of a file ends a program, whatever it does about it."""
    file = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, SIZE)
    with pytest.raises(Malformed):
        mapped(file, SIZE)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    assert len(mapped(file, SIZE)) == SIZE
    with pytest.raises(Malformed):
        mapped(file, 2 * SIZE)
    os.close(file)


def test_only_programs_on_the_agents_own_socket_can_share_memory_with_it() -> None:
    assert ReadArenas(SocketPath("/run/rostra.sock"), print).are_possible
    assert not ReadArenas(TcpAddress("127.0.0.1", 7700), print).are_possible
    assert not ReadArenas("a simulated world", print).are_possible
