"""The board: where an agent posts a block of messages once, for all programs of its machine to read.

    sender ══▶ agent ══▶ ▒▒▒▒▓▓▓▓░░░░ shared memory       written once
                 │            ║ ║ ║
                 └─ Posted ─▶ receivers                    read there by each, which then says `Seen`

A socket copies a block twice for every receiver, into the kernel and out of it. On the board it lies once,
and a receiver's first copy of it is the messages themselves.

Nothing depends on the board. It is shown to a program when the first large block for it comes by
(`BoardShown`), and whoever answers (`Seen`) sees it. A program of another version, in another container, of
a user who may not read it, or at the end of a TCP connection does not answer, and gets its blocks as before.
So does everybody while no place is free, and whoever holds too many places because it does not read: from
then on its socket fills, and that is dealt with as ever. A place is free again when all who were pointed to
it have seen it, or are gone.

The memory has no name, except while a program that it was shown to has not opened it; so nothing of it is
left behind by an agent that is killed. Programs can read it and not write to it.
"""

import contextlib
import mmap
import os
import secrets
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from rostra.errors import BadInput
from rostra.names import Group
from rostra.protocols.adhoc.events import Delivered
from rostra.protocols.adhoc.messages import Run
from rostra.protocols.adhoc.runs import as_array
from rostra.wire import BOARD_PREFIX, BoardShown

if TYPE_CHECKING:
    from rostra.runtime.process import Process
    from rostra.runtime.programs import Program

PLACE_BYTES: Final = 64 << 10
"""One place: a block as programs hand it over, and a little more."""

PLACES: Final = 128
"""The first is the board's mark. Raising it: more blocks that receivers have not read yet, and more memory
for every agent on which large blocks are said."""

HELD_MAX: Final = 48
"""Places that one program may hold. More, and a few that stand still take the board from all others."""

POST_FROM_BYTES: Final = 4 << 10
"""Smaller blocks are sent: to copy them costs less than to say where they are and that they were seen."""

SHOWN_S: Final = 10.0
"""How long a program may take to open what it was shown."""

MARK_BYTES: Final = 16


class Post(Struct, gc=False):
    """A block on the board, while the turn lasts in which it was posted."""

    run: Run  # kept because its identity names the post
    place: int
    frame: bytes  # what is the same for all who are pointed to it


class Looker:
    """A program, and what it may still be reading."""

    __slots__ = ("held", "name", "seen", "sees")

    def __init__(self, name: str) -> None:
        self.name = name  # under which the board was shown to it, until it has opened it
        self.sees = False
        self.seen = 0  # posts, in all
        self.held: deque[int] = deque()  # the places of those that it has not seen


class Board:
    """Of one agent. Its memory is taken when it is first needed."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._lookers: dict[int, Looker] = {}  # by the program's number
        self._file = -1
        self._memory: mmap.mmap | None = None
        self._mark = secrets.token_bytes(MARK_BYTES)
        self._free = list(range(PLACES - 1, 0, -1))  # the last one freed is taken first: caches still know it
        self._holders = [0] * PLACES
        self._posts: dict[int, Post] = {}  # of this turn, by the identity of the run
        self._fails = False

    def post(self, program: "Program", number: int, group: Group, item: Delivered) -> bytes | None:
        """The frame that points endpoint `number` of a program to this block; none if it has to be sent."""
        looker = self._lookers.get(program.number)
        if looker is None:
            self._show_to(program)
            return None
        if not looker.sees or len(looker.held) >= HELD_MAX:
            return None
        post = self._posts.get(id(item.run)) or self._write_down(group, item)
        if post is None:
            return None
        looker.held.append(post.place)
        self._holders[post.place] += 1
        return self._process.encoder.posted(number, post.frame)

    def seen(self, program: "Program", posts: int) -> None:
        """A program has read so many in all. Raises `BadInput` if that cannot be."""
        looker = self._lookers.get(program.number)
        if looker is None or not looker.seen <= posts <= looker.seen + len(looker.held):
            raise BadInput(f"{posts} posts seen", fix="count those that were posted")
        if not looker.sees:
            looker.sees = True
            self._hide(looker)
        for _ in range(posts - looker.seen):
            self._let_go(looker.held.popleft())
        looker.seen = posts

    def gone(self, program: "Program") -> None:
        looker = self._lookers.pop(program.number, None)
        if looker is not None:
            self._hide(looker)
            for place in looker.held:
                self._let_go(place)

    def write(self) -> None:
        """The turn ends: nobody will be pointed to what was posted in it any more."""
        for post in self._posts.values():
            self._let_go(post.place)
        self._posts.clear()

    def close(self) -> None:
        for looker in self._lookers.values():
            self._hide(looker)
        self._lookers.clear()
        self._fails = True
        if self._memory is not None:
            self._memory.close()
            os.close(self._file)
            self._memory = None

    @property
    def free(self) -> int:
        """Places where nobody reads."""
        return len(self._free)

    def _write_down(self, group: Group, item: Delivered) -> Post | None:
        block = as_array(item.run)
        if not self._free or len(block) > PLACE_BYTES:
            return None
        assert self._memory is not None
        place = self._free.pop()
        at = place * PLACE_BYTES
        self._memory[at : at + len(block)] = block
        if not self._posts:
            self._process.write_at_end_of_turn(self)
        post = Post(item.run, place, self._process.encoder.post(group, item, at, len(block)))
        self._posts[id(item.run)] = post
        self._holders[place] = 1  # ourselves, until the turn ends
        return post

    def _let_go(self, place: int) -> None:
        self._holders[place] -= 1
        if not self._holders[place]:
            self._free.append(place)

    def _show_to(self, program: "Program") -> None:
        self._lookers[program.number] = looker = Looker("")
        if not program.connection.is_of_this_machine or not self._is_there():
            return
        looker.name = f"{BOARD_PREFIX}{secrets.token_hex(16)}"
        try:
            # Given a directory for the name, link(2) follows the link that /proc has for our file.
            os.link(f"/proc/self/fd/{self._file}", looker.name, src_dir_fd=self._file, follow_symlinks=True)
        except OSError as error:
            looker.name = ""
            self._note_failure(error)
            return
        shown = BoardShown(looker.name, self._mark, PLACES * PLACE_BYTES)
        program.say(self._process.encoder.to_program(shown))
        self._process.loop.call_later(SHOWN_S, self._hide, looker)

    def _is_there(self) -> bool:
        if self._memory is None and not self._fails:
            try:
                self._take_memory()
            except OSError as error:
                self._note_failure(error)
        return not self._fails

    def _take_memory(self) -> None:
        directory, bits = os.path.dirname(BOARD_PREFIX), getattr(os, "O_TMPFILE", 0)
        if not bits:
            raise OSError("this system has no files without a name")
        self._file = os.open(directory, bits | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            # Whoever may use the socket may look at the board. And all of it is taken now: a page that cannot
            # be had later would end the process.
            os.fchmod(self._file, self._process.world.agents.socket_mode & 0o444 | 0o600)
            os.posix_fallocate(self._file, 0, PLACES * PLACE_BYTES)
            self._memory = mmap.mmap(self._file, PLACES * PLACE_BYTES)
        except OSError:
            os.close(self._file)
            raise
        self._memory[:MARK_BYTES] = self._mark
        self._process.record.note("board", bytes=PLACES * PLACE_BYTES, because="large blocks are said here")

    def _note_failure(self, error: OSError) -> None:
        self._fails = True
        self._process.record.note("no_board", because=f"{error}; programs get their messages by socket")

    def _hide(self, looker: Looker) -> None:
        if looker.name:
            with contextlib.suppress(OSError):
                os.unlink(looker.name)
            looker.name = ""
