"""Entries on their way to the disk; no node waits for it.

    scribe ── entry ──▶ Writer: numbers it, keeps it ── a heartbeat, or enough rows ──▶ Pen: a thread
    the node's loop     costs an append                                                 columns, zstd, fsync

The loop only ever appends to a list. A **pen** is the one thread of a process that makes columns and files of
what its writers hand over, in order.

What can go wrong is the disk: full, gone, slow. Then the pen keeps what it has and tries again, for ever, and
says so once for each new trouble. Meanwhile rows wait in memory, up to a bound; beyond it they are dropped.
Their numbers are used up, and the first row that is kept again says how many and which: nothing is lost
without a mark. A node that ends without being able to write loses what waits, and the journal shows that its
epoch has no `closing`.
"""

import struct
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final, Protocol

import pyarrow as pa

from rostra.journal.bounds import Bounds
from rostra.journal.entries import Entry, Identity
from rostra.journal.segments import Place, table_of

CHUNK_ENTRIES: Final = 250
"""Entries that are made into columns at a time. While that happens the loop has to wait its turn, a
millisecond or so."""

PAUSE_S: Final = 0.001
"""How long the pen rests after each, so that the loop is never kept waiting twice in a row. A segment of
50,000 rows is on the disk a second later for it, and nothing waits for that."""

_ENDS_A_SEGMENT: Final = frozenset({"started", "heartbeat", "closing"})
"""Marks are written at once: the first, so that a life that ended in its first seconds is known of at all."""

INPUTS: Final = "_inputs"
"""Where recordings are, beside the segments; Spark passes over names that begin so."""

_SIZE: Final = struct.Struct("<Q")

RETRY_S: Final = 1.0
"""How long a pen waits before it tries a disk again that did not take a segment."""


class Writer:
    """Numbers the entries of one node and hands them to the pen in segments."""

    def __init__(self, who: Identity, pen: "Pen", bounds: Bounds) -> None:
        self.who = who
        self.dropped = 0  # rows, since the beginning
        self._pen = pen
        self._bounds = bounds
        self._entries: list[Entry] = []
        self._first = 1  # number of the first row that is not handed over yet
        self._rows = 0
        self._handed = 0
        self._written = 0  # of those handed over; set by the pen
        self._lost_from = 0  # the first number of a run that is being dropped; 0 if none is

    def take(self, entry: Entry) -> None:
        """In the loop. Never waits, never fails."""
        rows = entry.rows
        waiting = self.waiting
        if waiting and waiting + rows > self._bounds.waiting_rows and entry.kind != "closing":
            self._drop(rows)
            return
        if self._lost_from:
            self._mark_loss(entry)
        self._entries.append(entry)
        self._rows += rows
        if self._rows >= self._bounds.segment_rows or entry.kind in _ENDS_A_SEGMENT:
            self.hand_over()

    @property
    def waiting(self) -> int:
        """Rows in memory."""
        return self._rows + self._handed - self._written

    def hand_over(self) -> None:
        if self._entries:
            self._pen.put(Segment(self, self._first, self._entries))
            self._first += self._rows
            self._handed += self._rows
            self._entries, self._rows = [], 0

    def written(self, rows: int) -> None:
        """Called by the writing thread."""
        self._written += rows

    def _drop(self, rows: int) -> None:
        if not self._lost_from:
            self.hand_over()
            self._lost_from = self._first
            self._pen.say(f"rows of {self.who.writer} are dropped: the disk does not keep up")
        self._first += rows
        self.dropped += rows
        self._pen.lost(rows)

    def _mark_loss(self, next_entry: Entry) -> None:
        first, self._lost_from = self._lost_from, 0
        last = self._first - 1
        self._entries.append(
            Entry(
                "dropped",
                next_entry.at,
                next_entry.virtual_s,
                columns={
                    "what": "the disk did not keep up",
                    "count": last - first + 1,
                    "first": first,
                    "last": last,
                },
            )
        )
        self._rows += 1


class Work(Protocol):
    """Something for the pen to write."""

    def write(self, place: Place) -> None:
        """May fail, and is tried again until it does not."""


class Segment:
    def __init__(self, writer: Writer, first: int, entries: Sequence[Entry]) -> None:
        self._writer, self._first, self._entries = writer, first, entries
        self._table: pa.Table | None = None

    def write(self, place: Place) -> None:
        if self._table is None:
            self._table = in_chunks(self._writer.who, self._first, self._entries)
        place.write(self._table)
        self._writer.written(self._table.num_rows)


class RecordingPart:
    """A part of a recording."""

    def __init__(self, name: str, words: bytes, written: Callable[[int, int], None]) -> None:
        self._name, self._words, self._written = name, words, written

    def write(self, place: Place) -> None:
        packed = pa.compress(self._words, codec="zstd", asbytes=True)
        whole = _SIZE.pack(len(self._words)) + packed
        place.put(INPUTS, self._name, lambda file: file.write(whole), mode=0o600)
        self._written(len(self._words), len(packed))


def unpacked(part: bytes) -> bytes:
    """What `RecordingPart` wrote, as it was."""
    (size,) = _SIZE.unpack_from(part)
    return bytes(pa.decompress(part[_SIZE.size :], size, codec="zstd", asbytes=True))


class Pen:
    """The thread that writes. `say` is called when something goes wrong and when it goes on, `lost` with
    each number of rows dropped: both from any thread."""

    def __init__(
        self,
        place: Place,
        *,
        say: Callable[[str], None] = lambda what: None,
        lost: Callable[[int], None] = lambda rows: None,
        retry_s: float = RETRY_S,
    ) -> None:
        self.place = place
        self.say = say
        self.lost = lost
        self.failures = 0
        self.trouble = ""  # why the last try failed, while it is so
        self._retry_s = retry_s
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rostra-journal", daemon=True)
        self._thread.start()

    def put(self, work: Work) -> None:
        self._work.put(work)

    def close(self, timeout_s: float) -> bool:
        """Write what waits; was there time for all of it?"""
        self._work.put(None)
        if self.trouble:
            timeout_s = min(timeout_s, 2 * self._retry_s)  # it will not get better by waiting
        self._thread.join(timeout_s)
        self._give_up.set()
        return not self._thread.is_alive() and not self.trouble

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            while not self._try(work):
                if self._give_up.wait(self._retry_s):
                    return

    def _try(self, work: Work) -> bool:
        try:
            work.write(self.place)
        except Exception as error:  # Whatever it is, it must not end the thread: the next try may do better.
            self.failures += 1
            trouble = f"{type(error).__name__}: {error}"
            if trouble != self.trouble:
                self.trouble = trouble
                self.say(f"cannot write to {self.place.name}: {trouble}")
            return False
        if self.trouble:
            self.trouble = ""
            self.say(f"writing to {self.place.name} again")
        return True


def in_chunks(who: Identity, first: int, entries: Sequence[Entry]) -> pa.Table:
    """Like `table_of`, a few entries at a time: between two chunks another thread runs."""
    tables: list[pa.Table] = []
    place = first
    for start in range(0, len(entries), CHUNK_ENTRIES):
        if start:
            time.sleep(PAUSE_S)
        table = table_of(who, place, entries[start : start + CHUNK_ENTRIES])
        place += table.num_rows
        tables.append(table)
    metadata: dict[Any, Any] = {**tables[0].schema.metadata, b"rostra.last": str(place - 1).encode()}
    whole = pa.concat_tables([table.replace_schema_metadata(metadata) for table in tables])
    return whole.combine_chunks()
