"""The disk on which a cluster's server keeps the backlogs of slow receivers (`protocols/fifo/spill.py`).

    loop ── Spill, ReadSpilled, ForgetSpilled ──▶ one thread ── SQLite ──▶ <state>/<domain>.spill.sqlite
    loop ◀── Spilled, SpilledRead ─────────────── one thread               removed when empty

The loop never waits for this disk: writes go to a thread of their own, in order. A backlog is of no use after
its delegate has died, so nothing is made to survive a crash, and the file of an earlier life is removed at
the start.

At most `bytes_max` is kept, whatever the disk has room for. What does not fit, or is refused by the disk, is
logged and counted, and its receiver is excluded.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.protocols.fifo.events import ForgetSpilled, ReadSpilled, Spill, Spilled, SpilledRead
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import cut
from rostra.transport.trusted import own_file

MB_MAX: Final = 256
"""What all backlogs of a server may fill. Raising it: receivers may sleep for longer, more disk."""

NO_STATE: Final = "its server has no state directory"
NO_ROOM: Final = "no room for its backlog"
FAILED: Final = "the disk failed"

Answer = Spilled | SpilledRead | None
Trouble = tuple[str, str] | None  # why, of the three above; and what the disk says


class SpillDisk:
    """`answer` is called in the loop, once for each `Spill` and `ReadSpilled`, in their order."""

    def __init__(
        self,
        directory: Path | None,
        domain: Domain,
        record: EventLog,
        answer: Callable[[Spilled | SpilledRead], None],
        bytes_max: int = MB_MAX << 20,
    ) -> None:
        self.domain = domain
        self.bytes = 0  # kept at present
        self._file = None if directory is None else directory / f"{domain}.spill.sqlite"
        self._bytes_max = bytes_max
        self._record, self._answer = record, answer
        self._loop = asyncio.get_running_loop()
        self._db: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._remove()

    def keep(self, order: Spill) -> None:
        if self._file is None:
            refusal = Spilled(order.group, order.backlog, NO_STATE)
            self._loop.call_soon(self._answered, refusal, (NO_STATE, "give it one with --state"))
        else:
            self._do(lambda: self._keep(order))

    def read(self, order: ReadSpilled) -> None:
        self._do(lambda: self._read(order))

    def forget(self, order: ForgetSpilled) -> None:
        if self._thread is not None:
            self._do(lambda: self._forget(order))

    def close(self) -> None:
        if self._thread is not None:
            self._do(self._let_go)
            self._thread.shutdown(wait=True)
            self._thread = None

    # In the thread

    def _keep(self, order: Spill) -> tuple[Answer, Trouble]:
        size = sum([len(run.block) for run in order.runs])
        if self.bytes + size > self._bytes_max:
            full = f"{self.bytes} of {self._bytes_max} bytes are in use"
            return Spilled(order.group, order.backlog, NO_ROOM), (NO_ROOM, full)
        rows = [(order.backlog, run.first, run.end, run.at, run.block) for run in order.runs]
        try:
            with self._opened() as db:
                db.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", rows)
        except (OSError, sqlite3.Error) as error:
            return Spilled(order.group, order.backlog, FAILED), (FAILED, str(error))
        self.bytes += size
        return Spilled(order.group, order.backlog), None

    def _read(self, order: ReadSpilled) -> tuple[Answer, Trouble]:
        found: list[Run] = []
        size, next = 0, order.first
        try:
            rows = self._opened().execute(
                "SELECT first, upto, at, block FROM runs WHERE backlog = ? AND upto > ? AND first < ?"
                " ORDER BY first",
                (order.backlog, order.first, order.end),
            )
            for first, upto, at, block in rows:
                if first > next:
                    break  # never a hole
                run = cut(Run(first, upto - first, block, at), next, min(upto, order.end))
                found.append(run)
                size, next = size + len(run.block), run.end
                if size >= order.bytes_max:
                    break
        except (OSError, sqlite3.Error) as error:
            return SpilledRead(order.group, order.backlog, (), FAILED), (FAILED, str(error))
        return SpilledRead(order.group, order.backlog, tuple(found)), None

    def _forget(self, order: ForgetSpilled) -> tuple[Answer, Trouble]:
        below = 1 << 62 if order.below is None else order.below
        try:
            with self._opened() as db:
                gone = db.execute(
                    # By `first`, which is in order: else every acknowledgement goes through the backlog.
                    "DELETE FROM runs WHERE backlog = ? AND first < ? AND upto <= ? RETURNING length(block)",
                    (order.backlog, below, below),
                ).fetchall()
        except sqlite3.Error as error:
            return None, (FAILED, str(error))
        self.bytes -= sum([size for (size,) in gone])
        if self.bytes == 0:
            self._let_go()
        return None, None

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            assert self._file is not None
            own_file(self._file)
            self._db = sqlite3.connect(self._file)
            self._db.execute("PRAGMA page_size = 32768")  # so that messages of a few kilobytes waste little
            self._db.execute("PRAGMA journal_mode = MEMORY")  # to undo what did not fit, and for nothing else
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute(
                "CREATE TABLE runs (backlog INTEGER, first INTEGER, upto INTEGER, at REAL, block BLOB,"
                " PRIMARY KEY (backlog, first)) WITHOUT ROWID"
            )
        return self._db

    def _let_go(self) -> tuple[Answer, Trouble]:
        if self._db is not None:
            self._db.close()
            self._db = None
        self._remove()
        return None, None

    def _remove(self) -> None:
        if self._file is not None:
            for left in (self._file, self._file.with_name(f"{self._file.name}-journal")):
                with contextlib.suppress(OSError):
                    left.unlink(missing_ok=True)

    # Between the two

    def _do(self, what: Callable[[], tuple[Answer, Trouble]]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="spill")
        self._thread.submit(what).add_done_callback(self._done)

    def _done(self, work: "Future[tuple[Answer, Trouble]]") -> None:
        answer, trouble = work.result()
        if answer is not None or trouble is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the answer is not awaited any more
                self._loop.call_soon_threadsafe(self._answered, answer, trouble)

    def _answered(self, answer: Answer, trouble: Trouble) -> None:
        if trouble is not None:
            why, because = trouble
            self._record.count("spills_refused", why)
            self._record.note_rarely(
                f"spill {why}", "spill_refused", node=self.domain, why=why, because=because
            )
        if answer is not None:
            self._answer(answer)
