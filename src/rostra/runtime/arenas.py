"""Shared memory for large blocks of group messages: written once by the agent, read by all its programs.

    a block for many programs ──▶ a slot of the group's arena ──▶ `Lent`, a few bytes, to each program
                                     ▲                                │
                                     └── free ◀── the last program has given it back (`Returned`)

Through sockets the kernel would copy every block once into and once out of each of them. An arena is written
once, and each program decodes its messages straight out of it.

**Who can read it.** An arena belongs to one group and to the receivers that were in it when the arena was
made. Each is offered a ticket, fetches the memory with it (`Listener`) and answers `Mapped`. When a receiver
joins or leaves, the group gets a new arena. So a program that can read an arena was a receiver for as long as
anything was written to it. The memory is sealed: programs can map it for reading only, and cannot resize it.

**Fallback.** A program that has not mapped the arena, holds its share of slots already, is on TCP or answers
that it cannot map gets the block itself in a `Delivery`. If no slot is free, all programs do. A program that
does not give slots back uses up its own share and delays no other.
"""

import os
import secrets
from typing import TYPE_CHECKING, Final

from rostra.errors import BadInput
from rostra.names import Group
from rostra.protocols.flow.messages import Run, Stream
from rostra.transport.memory import is_possible, sealed_memory
from rostra.wire import Arena, Retired
from rostra.wire.programs import TICKET_BYTES

if TYPE_CHECKING:
    from rostra.runtime.programs import ProgramConnection, Programs

MB_EACH: Final = 16
"""How large an arena is, in megabytes. Raising it: programs may be further behind before they get blocks
through their sockets; more memory for each group in which much is said."""

SLOT_BYTES: Final = 256 << 10
"""The most that one block takes: a little more than one read of an agent brings."""

LENT_BYTES_LEAST: Final = 8 << 10
"""Smaller blocks go through sockets: giving one back costs as much as having it copied. Measured: no
difference at 4 KiB, half the cost from 16 KiB on."""

SHARE: Final = 4
"""One program may hold one in so many of an arena's slots. Raising it: more programs may stand still at once
while the others go on."""

ARENAS_MAX: Final = 16
"""Groups that have one at a time."""

REST_S: Final = 0.5
"""A group gets a new arena at most this often, however many come and go. Raising it: fewer of them, later."""

IDLE_S: Final = 10.0
"""An arena in which nothing was written for so long is let go."""

READERS_LEAST: Final = 2

_HEAD: Final = b"\xdd"  # how an array of up to 2^32 begins: `runs.py`


class _Arena:
    __slots__ = ("file", "free", "group", "held", "memory", "number", "offered", "share", "used_at", "users")

    def __init__(self, number: int, group: Group, size_bytes: int, now: float) -> None:
        self.number, self.group = number, group
        self.file, self.memory = sealed_memory(size_bytes)
        # The one that was given back last is lent next: the fewer are in use, the more stays in the caches.
        self.free = list(range(0, size_bytes, SLOT_BYTES))[::-1]
        self.share = max(1, len(self.free) // SHARE)
        self.users: dict[int, int] = {}  # by where a slot begins: how often it is lent
        self.offered: dict[ProgramConnection, None] = {}
        self.held: dict[ProgramConnection, dict[int, int]] = {}  # those who mapped it: what is lent to each
        self.used_at = now

    def write(self, run: Run) -> tuple[int, int] | None:
        """Where the block stands now, and its size; none if there is no room."""
        if not self.free:
            return None
        begin, memory = self.free.pop(), self.memory
        end = begin + 5 + len(run.block)
        memory[begin : begin + 5] = _HEAD + run.count.to_bytes(4, "big")
        memory[begin + 5 : end] = run.block
        self.users[begin] = 0
        return begin, end - begin

    def give_back(self, program: "ProgramConnection", begin: int) -> bool:
        """False if this program does not have it."""
        held = self.held.get(program, {})
        times = held.pop(begin, 0)
        if not times:
            return False
        if times > 1:
            held[begin] = times - 1
        self.users[begin] -= 1
        if not self.users[begin]:
            del self.users[begin]
            self.free.append(begin)
        return True

    def close(self) -> None:
        """Our part of it; what programs have mapped is theirs to let go."""
        self.memory.close()
        os.close(self.file)


class Arenas:
    """The arenas of one agent. There are none if `size_bytes` is less than a slot for each share."""

    def __init__(self, programs: "Programs", size_bytes: int) -> None:
        self.is_on = is_possible() and size_bytes >= SHARE * SLOT_BYTES
        self._programs = programs
        self._size_bytes = size_bytes - size_bytes % SLOT_BYTES
        self._arenas: dict[Group, _Arena] = {}
        self._numbers: dict[int, _Arena] = {}
        self._numbered = 0
        self._tickets: dict[bytes, _Arena] = {}
        self._receivers: dict[Group, dict[ProgramConnection, None]] = {}  # who could read one
        self._rest_until: dict[Group, float] = {}
        self._turn = 0
        self._loans: dict[int, tuple[Run, int, bytes]] = {}  # of this turn, by the identity of the run

    # To programs

    def lend(
        self,
        program: "ProgramConnection",
        number: int,
        group: Group,
        stream: Stream,
        run: Run,
        position: int = 0,
    ) -> bytes | None:
        """The frame that says where this block stands; none if it has to go through the socket."""
        if not program.shares or not LENT_BYTES_LEAST <= len(run.block) <= SLOT_BYTES - 5:
            return None
        arena = self._arenas.get(group)
        if arena is None or program not in arena.offered:
            self._wants_one(program, group)
            return None
        held = arena.held.get(program)
        counters = self._programs.process.record.counters
        if held is None or len(held) >= arena.share:
            counters["blocks_not_lent", "not mapped yet" if held is None else "too many held"] += 1
            return None
        process = self._programs.process
        if self._turn != process.turn:
            self._turn = process.turn
            self._loans.clear()
        known = self._loans.get(id(run))
        if known is None:
            written = arena.write(run)
            if written is None:
                counters["blocks_not_lent", "no room"] += 1
                return None
            arena.used_at = process.now
            loan = process.encoder.loan(group, stream, run, arena.number, *written, position)
            known = self._loans[id(run)] = (run, written[0], loan)
        _, begin, loan = known
        held[begin] = held.get(begin, 0) + 1
        arena.users[begin] += 1
        counters["blocks_lent", ""] += 1
        return process.encoder.lent(number, loan)

    def _wants_one(self, program: "ProgramConnection", group: Group) -> None:
        """Does this program receive messages of the group, and can it map an arena?"""
        receivers = self._receivers.setdefault(group, {})
        if program not in receivers:
            receivers[program] = None
            return  # with the next block: by then we know of the others who get this one
        now = self._programs.process.now
        if len(receivers) < READERS_LEAST or now < self._rest_until.get(group, now):
            return
        self._rest_until[group] = now + REST_S
        if (before := self._arenas.get(group)) is not None:
            self._retire(before)
        if len(self._arenas) < ARENAS_MAX:
            self._make(group, receivers)

    def _make(self, group: Group, receivers: "dict[ProgramConnection, None]") -> None:
        process = self._programs.process
        try:
            arena = _Arena(self._numbered + 1, group, self._size_bytes, process.now)
        except OSError as error:
            process.record.note_rarely("arena_refused", "arena_refused", because=error.strerror or str(error))
            return
        self._numbered += 1
        self._arenas[group] = self._numbers[arena.number] = arena
        for program in receivers:
            arena.offered[program] = None
            ticket = secrets.token_bytes(TICKET_BYTES)
            self._tickets[ticket] = arena
            offer = Arena(arena.number, self._size_bytes, ticket, arena.share)
            program.say_in_order(process.encoder.to_program(offer))
        process.record.count("arenas_made")

    def _retire(self, arena: _Arena) -> None:
        frame = self._programs.process.encoder.to_program(Retired(arena.number))
        for program in arena.offered:
            program.say_in_order(frame)
        del self._arenas[arena.group], self._numbers[arena.number]
        self._tickets = {ticket: other for ticket, other in self._tickets.items() if other is not arena}
        self._loans.clear()
        arena.close()

    # From programs

    def fetch(self, ticket: bytes) -> int | None:
        """The file that this ticket is for. A ticket is good for once."""
        arena = self._tickets.pop(ticket, None)
        return None if arena is None else arena.file

    def mapped(self, program: "ProgramConnection", number: int) -> BadInput | None:
        """From now on it can be lent to; or what it did wrong."""
        arena = self._numbers.get(number)
        if arena is None and number <= self._numbered:
            return None  # retired while it was being mapped
        if arena is None or program not in arena.offered or program in arena.held:
            return BadInput(f"arena {number} is not this program's to map")
        arena.held[program] = {}
        return None

    def returned(self, program: "ProgramConnection", number: int, begins: tuple[int, ...]) -> BadInput | None:
        """These slots are free once every holder has returned them; or what the program did wrong."""
        arena = self._numbers.get(number)
        if arena is None and number <= self._numbered:
            return None  # retired meanwhile
        self._loans.clear()  # a slot that is free must not be found again
        for begin in begins:
            if arena is None or not arena.give_back(program, begin):
                return BadInput(f"block {begin} of arena {number} is not lent to this program")
        return None

    def left(self, program: "ProgramConnection", group: Group) -> None:
        """The program receives no more messages of the group, and must not be able to read them."""
        receivers = self._receivers.get(group)
        if receivers is None or program not in receivers:
            return
        del receivers[program]
        arena = self._arenas.get(group)
        if arena is not None and program in arena.offered:
            self._retire(arena)
        if not receivers:
            del self._receivers[group]
            self._rest_until.pop(group, None)

    def gone(self, program: "ProgramConnection") -> None:
        for group in [group for group, programs in self._receivers.items() if program in programs]:
            self.left(program, group)

    # As time passes

    def tick(self) -> None:
        idle_since = self._programs.process.now - IDLE_S
        for arena in [arena for arena in self._arenas.values() if arena.used_at < idle_since]:
            self._retire(arena)

    def close(self) -> None:
        for arena in self._arenas.values():
            arena.close()
        self._arenas.clear()
        self._numbers.clear()
        self._tickets.clear()
