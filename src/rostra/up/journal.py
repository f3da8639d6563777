"""What the supervisor of a small world does to it, as journal rows of role `lab`: the ground truth.

Servers write what they observe, the supervisor what it did. With both, an audit can tell a failure that was
detected late from one that did not happen.
"""

import time
from collections.abc import Iterable
from typing import Final

from rostra.errors import BadInput
from rostra.journal.bounds import Bounds
from rostra.journal.entries import Identity
from rostra.journal.schema import VERSION
from rostra.journal.segments import Place
from rostra.journal.truth import Truth
from rostra.journal.writer import Pen, Writer
from rostra.names import Domain

SUPERVISOR: Final = "the_supervisor"
"""No server can be called that."""

CLOSE_TIMEOUT_S: Final = 5.0

Line = tuple[Domain, Domain]
"""One direction of a link: its sender and its receiver."""


class LabJournal:
    """Every change is written at once: they are few, and a user waits to see the effect of each."""

    def __init__(self, at: str, world: str) -> None:
        place = Place(at)
        epoch = time.time_ns() // 1_000_000
        try:
            place.claim(SUPERVISOR, epoch)
        except OSError as error:
            raise BadInput(
                f"cannot keep a journal at {at}: {error.strerror or error}",
                fix="name a directory that we may write",
            ) from None
        self._pen = Pen(place)
        self._writer = Writer(Identity(world, SUPERVISOR, "lab", epoch), self._pen, Bounds())
        self._truth = Truth(self._writer.take)
        self._cut: set[Line] = set()
        self._truth.started(_wall_us(), 0.0, {"schema": VERSION})

    def servers_changed(self, servers: Iterable[Domain], change: str) -> None:
        for server in servers:
            self._truth.server_changed(_wall_us(), 0.0, server, change)
        self._writer.hand_over()

    def lines_are_cut(self, cut: Iterable[Line]) -> None:
        """These lines carry nothing now, and all others do."""
        before, self._cut = self._cut, set(cut)
        for sender, to in sorted(self._cut - before):
            self._truth.line_changed(_wall_us(), 0.0, sender, to, "cut")
        for sender, to in sorted(before - self._cut):
            self._truth.line_changed(_wall_us(), 0.0, sender, to, "healed")
        self._writer.hand_over()

    def close(self) -> None:
        self._truth.closing(_wall_us(), 0.0, "the world ended")
        self._pen.close(CLOSE_TIMEOUT_S)


def _wall_us() -> int:
    return time.time_ns() // 1000
