"""Arenas, the agent's side: who may read what, what is free when, and what is nobody's fault but a program's.

The programs here are real memory and pretended connections; `tests/live/test_arenas.py` has real ones.
"""

import mmap
import os
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from support.samples import ANN, CHESS, PAYROLL

from rostra.client.arenas import mapped
from rostra.errors import BadInput
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of, payloads
from rostra.runtime import arenas as module
from rostra.runtime.arenas import IDLE_S, REST_S, SHARE, SLOT_BYTES, Arenas
from rostra.transport.memory import sealed_memory
from rostra.wire import Arena, Encoder, FrameKind, FrameReader, Lent, ProgramWelcome, Retired
from rostra.wire.reader import Arrived

SLOTS = 2 * SHARE  # so everybody may hold two
BODIES = [bytes([n]) * 1000 for n in range(50)]


class Reader:
    """A program that could read arenas, and what it was told."""

    def __init__(self, encoder: Encoder, *, shares: bool = True) -> None:
        self.shares = shares
        self._frames = FrameReader(encoder.world, FrameKind.TO_PROGRAM)
        self._frames.feed(encoder.to_program(ProgramWelcome(encoder.world, CHESS.scope, 1)))
        self.told: list[Arrived] = []

    def say_in_order(self, frame: bytes) -> None:
        self.told += self._frames.feed(frame)

    @property
    def offer(self) -> Arena:
        return [each for each in self.told if isinstance(each, Arena)][-1]


class Scene:
    """An agent's arenas, and programs that receive what is said in one group."""

    def __init__(self, readers: int = 3, slots: int = SLOTS) -> None:
        self.encoder = Encoder("T-REF")
        record = SimpleNamespace(counters=Counter(), count=lambda *_: None, note_rarely=self._note)
        self.process = SimpleNamespace(now=100.0, turn=1, encoder=self.encoder, record=record)
        self.arenas = Arenas(SimpleNamespace(process=self.process), slots * SLOT_BYTES)  # type: ignore[arg-type]
        self.readers = [Reader(self.encoder) for _ in range(readers)]
        self.noted: list[Any] = []

    def _note(self, *words: Any, **values: Any) -> None:
        self.noted.append((words, values))

    def say(self, *to: Any, bodies: list[bytes] = BODIES, group: Any = CHESS) -> list[Lent | None]:
        """One block to these, in a turn of its own: how each is told where it stands; None: it has to get it
        through its socket."""
        self.process.turn += 1
        run = Run(7, len(bodies), block_of(bodies), 0.5)
        found: list[Lent | None] = []
        for reader in to or self.readers:
            before = len(reader.told)
            frame = self.arenas.lend(reader, 3, group, ANN, run)
            if frame is None:
                found.append(None)
            else:
                reader.say_in_order(frame)
                (lent,) = reader.told[before:]
                assert isinstance(lent, Lent)
                found.append(lent)
        return found

    def map(self, *who: Any) -> mmap.mmap:
        """They fetch what they were offered."""
        for reader in who or self.readers:
            file = self.arenas.fetch(reader.offer.ticket)
            assert file is not None
            memory = mapped(file, reader.offer.size_bytes)
            assert self.arenas.mapped(reader, reader.offer.number) is None
        return memory

    def begin(self) -> mmap.mmap:
        """Everybody hears two blocks through sockets, is offered an arena and maps it."""
        assert self.say() + self.say() == [None] * 2 * len(self.readers)
        return self.map()

    def give_back(self, lent: Lent | None, *who: Any) -> list[BadInput | None]:
        assert lent is not None
        return [self.arenas.returned(reader, lent.arena, (lent.begin,)) for reader in who or self.readers]


def read(memory: mmap.mmap, lent: Lent | None) -> list[bytes]:
    assert lent is not None
    whole = memory[lent.begin : lent.begin + lent.size]
    assert whole[:1] == b"\xdd" and int.from_bytes(whole[1:5], "big") == lent.count
    return payloads(Run(lent.first, lent.count, whole[5:]))


# Memory


def test_who_is_handed_the_file_of_an_arena_can_read_it_and_cannot_change_it() -> None:
    file, ours = sealed_memory(SLOT_BYTES)
    ours[:4] = b"said"
    theirs = mapped(file, SLOT_BYTES)
    assert theirs[:4] == b"said"
    ours[:4] = b"more"
    assert theirs[:4] == b"more"
    with pytest.raises(TypeError):
        theirs[:4] = b"evil"
    again = os.open(f"/proc/self/fd/{file}", os.O_RDWR)
    for each in (file, again):
        with pytest.raises(PermissionError):
            mmap.mmap(each, SLOT_BYTES)
        with pytest.raises(PermissionError):
            os.pwrite(each, b"evil", 0)
        for size in (0, 2 * SLOT_BYTES):
            with pytest.raises(PermissionError):
                os.ftruncate(each, size)
    assert ours[:4] == b"more"
    os.close(again)
    os.close(file)


# Lending


def test_a_block_stands_once_for_all_who_receive_it() -> None:
    scene = Scene()
    memory = scene.begin()
    told = scene.say()
    assert len({(lent.begin, lent.arena) for lent in told if lent is not None}) == 1
    assert read(memory, told[0]) == BODIES
    lent = told[0]
    assert lent is not None and (lent.stream, lent.first, lent.count, lent.at) == (ANN, 7, 50, 0.5)
    assert scene.process.record.counters["blocks_lent", ""] == 3


def test_a_block_is_free_when_the_last_has_given_it_back_and_not_before() -> None:
    scene = Scene()
    memory = scene.begin()
    lent = scene.say()[0]
    others = [bytes([200 + n]) * 1000 for n in range(50)]
    assert scene.give_back(lent, *scene.readers[:2]) == [None, None]
    second = scene.say(bodies=others)[0]
    assert read(memory, lent) == BODIES and read(memory, second) == others
    assert scene.give_back(lent, scene.readers[2]) == [None]
    third = scene.say(*scene.readers[:2], bodies=others)[0]
    assert lent is not None and third is not None and third.begin == lent.begin


def test_only_who_has_mapped_an_arena_is_lent_to() -> None:
    scene = Scene()
    scene.say()
    scene.say()
    scene.map(*scene.readers[:2])
    assert [lent is None for lent in scene.say()] == [False, False, True]


@pytest.mark.parametrize("size", [1, SLOT_BYTES])
def test_small_blocks_and_very_large_ones_go_through_sockets(size: int) -> None:
    scene = Scene()
    scene.begin()
    assert scene.say(bodies=[bytes(size)]) == [None] * 3


def test_who_says_that_it_cannot_is_lent_nothing_and_offered_nothing() -> None:
    scene = Scene()
    old = Reader(scene.encoder, shares=False)
    scene.begin()
    assert [scene.say(old), scene.say(old)] == [[None], [None]] and old.told == []


def test_one_receiver_alone_needs_no_arena() -> None:
    scene = Scene(readers=1)
    for _ in range(5):
        assert scene.say() == [None]
    assert scene.readers[0].told == []


def test_who_gives_nothing_back_takes_its_share_and_the_others_go_on() -> None:
    scene = Scene()
    scene.begin()
    stopped, *others = scene.readers
    for nth in range(50):
        first, *told = scene.say()
        assert (first is None) == (nth >= SLOTS // SHARE)
        assert None not in told
        assert scene.give_back(told[0], *others) == [None, None]
    assert scene.process.record.counters["blocks_not_lent", "too many held"] == 48
    lent = next(each for each in stopped.told if isinstance(each, Lent))
    scene.give_back(lent, stopped)
    assert None not in scene.say()


def test_when_no_room_is_left_everybody_is_served_through_sockets() -> None:
    scene = Scene(readers=2 * SHARE + 2)
    scene.begin()
    for first in range(0, len(scene.readers), 2):  # each pair holds other blocks than the rest
        pair = scene.readers[first : first + 2]
        for _ in range(SLOTS // SHARE):
            last = scene.say(*pair)
    assert last == [None, None] and scene.process.record.counters["blocks_not_lent", "no room"] > 0
    assert scene.noted == []


# Who may read what


def test_a_ticket_is_good_for_once_and_for_nothing_else() -> None:
    scene = Scene()
    scene.say()
    scene.say()
    ticket = scene.readers[0].offer.ticket
    assert len({reader.offer.ticket for reader in scene.readers}) == 3
    assert scene.arenas.fetch(ticket) is not None
    assert scene.arenas.fetch(ticket) is None
    assert scene.arenas.fetch(bytes(16)) is None


def test_groups_do_not_share_memory() -> None:
    scene = Scene()
    chess = scene.begin()
    for _ in range(2):
        scene.say(group=PAYROLL)
    payroll = scene.map()
    assert read(payroll, scene.say(group=PAYROLL)[0]) == BODIES
    assert not any(chess[:])


def test_who_comes_later_gets_new_memory_in_which_nothing_was_said_before() -> None:
    scene = Scene()
    old = scene.begin()
    lent = scene.say()[0]
    scene.give_back(lent)
    late = Reader(scene.encoder)
    scene.readers.append(late)
    scene.say()
    assert scene.say()[-1] is None and late.told == [], "not at once: many may come in a row"
    scene.process.now += REST_S
    scene.say()
    assert all(isinstance(reader.told[-1], Arena) for reader in scene.readers)
    assert Retired(1) in scene.readers[0].told and Retired(1) not in late.told
    new = scene.map()
    assert not any(new[:])
    assert read(new, scene.say()[-1]) == BODIES and any(old[:])


def test_who_has_left_cannot_read_what_is_said_then() -> None:
    scene = Scene()
    theirs = scene.begin()
    scene.give_back(scene.say()[0])
    before = theirs[:]
    leaver, *others = scene.readers
    scene.arenas.left(leaver, CHESS)  # type: ignore[arg-type]
    assert leaver.told[-1] == Retired(1) and others[0].told[-1] == Retired(1)
    secret = [b"psst" * 250] * 50
    assert scene.say(*others, bodies=secret) == [None, None]
    scene.process.now += REST_S
    scene.say(*others, bodies=secret)
    memory = scene.map(*others)
    assert read(memory, scene.say(*others, bodies=secret)[0]) == secret
    assert theirs[:] == before and b"psst" not in before


def test_all_that_a_dead_program_held_comes_back() -> None:
    scene = Scene()
    scene.begin()
    dead, *others = scene.readers
    while scene.say(dead)[0] is not None:
        pass
    scene.arenas.gone(dead)  # type: ignore[arg-type]
    scene.process.now += REST_S
    scene.say(*others)
    scene.map(*others)
    begins = set()
    for _ in range(SLOTS // SHARE):
        begins |= {lent.begin for lent in scene.say(*others) if lent is not None}
    assert len(begins) == SLOTS // SHARE
    assert all(not isinstance(each, Arena) or each.number == 1 for each in dead.told)


def test_an_arena_in_which_nothing_is_said_is_let_go_and_comes_again_when_needed() -> None:
    scene = Scene()
    scene.begin()
    scene.say()
    scene.arenas.tick()
    assert None not in scene.say()
    scene.process.now += IDLE_S + 1
    scene.arenas.tick()
    assert all(reader.told[-1] == Retired(1) for reader in scene.readers)
    assert scene.say() == [None] * 3
    scene.map()
    assert None not in scene.say()


def test_no_more_arenas_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ARENAS_MAX", 1)
    scene = Scene()
    scene.begin()
    for _ in range(3):
        assert scene.say(group=PAYROLL) == [None] * 3
    assert [each.number for each in scene.readers[0].told if isinstance(each, Arena)] == [1]


def test_a_machine_that_gives_no_memory_is_noted_and_nobody_is_the_worse_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> int:
        raise OSError(23, "Too many open files in system")

    monkeypatch.setattr(os, "memfd_create", full)
    scene = Scene()
    assert [scene.say() for _ in range(3)] == [[None] * 3] * 3
    assert scene.noted[0][1] == {"because": "Too many open files in system"}


@pytest.mark.parametrize("slots", [0, SHARE - 1])
def test_a_setting_of_nothing_turns_arenas_off(slots: int) -> None:
    assert not Scene(slots=slots).arenas.is_on
    assert Scene(slots=SHARE).arenas.is_on


# What programs do wrong


def test_who_gives_back_what_it_does_not_have_is_told_what_is_wrong() -> None:
    scene = Scene()
    scene.begin()
    lent = scene.say()[0]
    alone = scene.say(scene.readers[0])[0]
    assert lent is not None and alone is not None
    one, other, _ = scene.readers
    returned: Any = scene.arenas.returned
    assert returned(one, lent.arena, (lent.begin,)) is None
    for who, arena, begins in [
        (one, lent.arena, (lent.begin,)),  # twice
        (other, lent.arena, (alone.begin,)),  # another's
        (other, lent.arena, (1,)),  # nothing begins there
        (other, lent.arena, (1 << 62,)),
        (other, lent.arena + 1, (lent.begin,)),  # there never was such an arena
    ]:
        assert isinstance(returned(who, arena, begins), BadInput), (arena, begins)
    assert returned(other, lent.arena, (lent.begin,)) is None


def test_who_gives_back_too_early_spoils_nothing_for_the_others() -> None:
    """It may do so in the very turn in which it is lent; the others are lent something else."""
    scene = Scene()
    memory = scene.begin()
    first, second, _ = scene.readers
    run = Run(7, 50, block_of(BODIES), 0.5)
    arenas: Any = scene.arenas
    first.say_in_order(arenas.lend(first, 3, CHESS, ANN, run))
    assert scene.give_back(first.told[-1], first) == [None]  # type: ignore[arg-type]
    second.say_in_order(arenas.lend(second, 3, CHESS, ANN, run))
    kept = second.told[-1]
    assert isinstance(kept, Lent)
    scene.say(first, bodies=[bytes(1000)] * 50)
    assert read(memory, kept) == BODIES


def test_what_is_said_of_an_arena_that_is_gone_crossed_on_the_way() -> None:
    scene = Scene()
    scene.begin()
    lent = scene.say()[0]
    scene.arenas.left(scene.readers[0], CHESS)  # type: ignore[arg-type]
    assert scene.give_back(lent) == [None] * 3
    assert scene.arenas.mapped(scene.readers[1], 1) is None  # type: ignore[arg-type]


def test_who_maps_what_it_was_not_offered_is_told_what_is_wrong() -> None:
    scene = Scene()
    scene.begin()
    arenas: Any = scene.arenas
    assert isinstance(arenas.mapped(Reader(scene.encoder), 1), BadInput)
    assert isinstance(arenas.mapped(scene.readers[0], 1), BadInput), "twice"
    assert isinstance(arenas.mapped(scene.readers[0], 2), BadInput), "never made"
