"""A board, as a program sees it: memory that its agent writes and all programs of the machine read.

See `rostra.runtime.board` for the whole of it.
"""

import mmap
import os
from typing import Final

from rostra.client.changes import Messages
from rostra.errors import Malformed
from rostra.protocols.adhoc.runs import payloads_in
from rostra.wire import BOARD_PREFIX, BoardShown, Posted

SEEN_EVERY: Final = 8
"""After so many posts the agent is told that we saw them. Raising it: fewer frames, more places held."""

SEEN_WITHIN_S: Final = 0.05
"""And after so long, if no more come."""


class Board:
    """Opened; raises `OSError` or `ValueError` where there is no such board for us."""

    __slots__ = ("_memory", "_view")

    def __init__(self, shown: BoardShown) -> None:
        if not shown.name.startswith(BOARD_PREFIX) or "/" in shown.name.removeprefix(BOARD_PREFIX):
            raise ValueError(f"{shown.name} is no board")
        file = os.open(shown.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._memory = mmap.mmap(file, shown.size, prot=mmap.PROT_READ)
        finally:
            os.close(file)
        self._view = memoryview(self._memory)
        if self._view[: len(shown.mark)] != shown.mark:
            self.close()
            raise ValueError(f"{shown.name} is another board")

    def read(self, posted: Posted) -> Messages:
        """What a post says. Raises `Malformed` if it is not there."""
        end = posted.begin + posted.size
        if end > len(self._view):
            raise Malformed(f"a post that ends at {end} on a board of {len(self._view)} bytes")
        bodies = payloads_in(self._view[posted.begin : end])
        return Messages(posted.stream, posted.first, bodies, posted.at)

    def close(self) -> None:
        self._view.release()
        self._memory.close()
