"""Logs on a node's disk: entries by position, and one small head for what the owner must know of them.

    step ──▶ LogBatch(log, entries, head, low) ── Persist ──▶ disk ── LogsSynced ──▶ step: what rests on it

All entries of one step are one batch, and all batches of one turn are synced together, so that messages which
came at once cost one sync. The service that owns the log defines the content of head and entries, and holds
back all effects that depend on a batch until it is reported as written. If a crash loses the end of a write,
it loses the last batches as a whole; nothing that another process has seen depends on them. A log that cannot
be written is reported too: the other logs, and the node, go on.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from rostra.core.effects import Event


class LogBatch(Struct, frozen=True, array_like=True):
    """What one step changes in one log."""

    log: str
    entries: tuple[tuple[int, bytes], ...] = ()  # position and content of each; positions grow
    head: bytes | None = None  # the new head; None: the one before stays
    low: int = 0  # entries below this position are not needed any more
    anew: bool = False  # first of all: what was there is gone

    @property
    def size(self) -> int:
        return sum([len(data) for _, data in self.entries]) + len(self.head or b"")

    def then(self, later: "LogBatch") -> "LogBatch":
        """This one and a later one of the same log, as one."""
        if later.anew:
            return later
        head = self.head if later.head is None else later.head
        low = max(self.low, later.low)
        return LogBatch(self.log, (*self.entries, *later.entries), head, low, self.anew)


class LogsSynced(Event, frozen=True):
    """The first `count` batches of this life are on disk, but for those of logs that failed: of these nothing
    is since the last report, and no more is written in this life, unless they were new."""

    count: int
    failed: tuple[tuple[str, str], ...] = ()  # logs, and why


class KeptLog(Struct):
    """What is left of a log after all its batches."""

    head: bytes | None = None
    size: int = 0  # bytes of the entries
    entries: deque[tuple[int, bytes]] = field(default_factory=deque)

    def take(self, batch: LogBatch) -> None:
        if batch.anew:
            self.head, self.entries, self.size = None, deque(), 0
        if batch.head is not None:
            self.head = batch.head
        self.entries.extend(batch.entries)
        self.size += sum([len(data) for _, data in batch.entries])
        while self.entries and self.entries[0][0] < batch.low:
            self.size -= len(self.entries.popleft()[1])

    def all(self, log: str) -> LogBatch:
        """The same as one batch."""
        return LogBatch(log, tuple(self.entries), self.head, anew=True)


def kept_logs(written: Iterable[Any]) -> dict[str, KeptLog]:
    """The logs that these writes leave, applied in order; other records are skipped. A log that ended has no
    head."""
    logs: dict[str, KeptLog] = {}
    for batch in written:
        if isinstance(batch, LogBatch):
            logs.setdefault(batch.log, KeptLog()).take(batch)
    return {name: log for name, log in logs.items() if log.head is not None}
