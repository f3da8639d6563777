"""Entries: what a journal is given to keep, before it is laid out in rows and columns."""

from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from rostra.journal.fold import ViewLine

Role = Literal["agent", "server", "lab", "sim"]

OBSERVERS_MAX: Final = 16
"""Endpoints that one row names; it counts all of them. Raising it: larger rows on hosts where thousands
follow one group."""


class Identity(Struct, frozen=True):
    """The writer of a journal."""

    world: str
    writer: str
    role: Role
    epoch: int


class Entry(Struct, gc=False):
    """Something that happened, as the columns of its rows; those that follow from who writes are left out.

    With `lines` it is a row for each of them, and one more if some were `kept`; member, life, stamp, change,
    news, cause, count and last of each row are then said there.
    """

    kind: str
    at: int  # microseconds since 1970, UTC
    virtual_s: float | None = None
    lines: list[ViewLine] | None = None
    kept: int = 0
    columns: dict[str, Any] = {}  # by name, those that have a value

    @property
    def rows(self) -> int:
        return 1 if self.lines is None else max(1, len(self.lines) + (self.kept > 0))


class Sheet:
    """Where entries are written, and what time it is there.

    `now` counts seconds and only grows; `at` is what the wall clock shows. In a simulated world `now` is
    written as well.
    """

    __slots__ = ("_put", "_virtual", "at", "now")

    def __init__(self, put: Callable[[Entry], None], *, virtual: bool = False) -> None:
        self._put = put
        self._virtual = virtual
        self.at, self.now = 0, 0.0

    def turn(self, at: int, now: float) -> None:
        """Set the time: everything until the next turn happens at it."""
        self.at, self.now = at, now

    def write(self, kind: str, lines: list[ViewLine] | None = None, kept: int = 0, **columns: Any) -> None:
        virtual_s = self.now if self._virtual else None
        self._put(Entry(kind, self.at, virtual_s, lines, kept, columns))


def micros(seconds: float) -> int:
    """As durations are written."""
    return max(0, round(seconds * 1e6))
