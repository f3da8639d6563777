"""Growing journals become tables: each row once, even if processes crash, or segments are late, doubled or
broken.

    journal/date=*/…parquet
         │  Structured Streaming lists new segments, and remembers which ones a batch was given
         ▼
       look          each file: broken -> set aside;  good -> which numbers are in it       (look)
         ▼
       plan          which are new, which wait behind a hole, which are there already       (runs)
         ▼
       write         each row read once, by one task, for all tables: events, stays ...   (partitions)
         ▼
       move          events/batch=N, stays/batch=N ...
         ▼
       commit        _commits/N.json: from now on, and not before, batch N is there         (tables)

**Exactly once.** Spark numbers its batches and repeats one until it is done. A batch writes into directories
with its number, replaces what an earlier attempt left there, and starts from the state that the commit before
it names. So an attempt that crashes before its commit changes nothing; if it crashes after, the commit is
found, and the repetition does nothing. Two attempts may differ in what they find (a file may be gone by now);
only one of them is ever committed.

**Why a stream of names.** The stream that Spark follows is a list of files (`binaryFile`, of which only the
path is read), and not their rows: Spark's Parquet source stops for ever at the first broken file, or passes
over it in silence. See docs/decisions/0016-ingest-streams-names.md.

**Object stores**, which Spark cannot list without a jar, are listed here, and what was read is noted with
each commit (`tables`); the rest is the same.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rostra.errors import BadInput, RostraError, Unreachable
from rostra.history.arrow_fast_path import FILE_WEIGHT
from rostra.history.compact import Compaction
from rostra.history.files import is_object, open_files, status
from rostra.history.intervals import Ending
from rostra.history.journals import contradicting, differ, is_within, other_rows, rows_between, segments
from rostra.history.look import Seen, ToLookAt, look, look_at
from rostra.history.partitions import (
    Partition,
    Take,
    Trouble,
    WriterLife,
    Written,
    shared,
    write_partition,
)
from rostra.history.runs import Epoch, IngestPlan, Key, Piece, RowRun, plan
from rostra.history.schemas import HOLES
from rostra.history.session import fit, given_up
from rostra.history.tables import APPENDED, CHECKPOINT, COMMITS, SET_ASIDE, BatchCommit, SetAside, Tables
from rostra.history.tasks import run
from rostra.journal.schema import SIGHT, Type

FILES_PER_BATCH: Final = 5000
HOLE_AFTER_S: Final = 600.0
EVERY_S: Final = 5.0

FEW: Final = 64
"""So many files are looked at and written here rather than by Spark: a job would cost more than it saves."""

FOR_EVER: Final = "36500d"
"""Spark would pass over files that are a week older than the newest one; a late segment is still ours."""

LISTED: Final = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"

OPEN_DIRECTORIES: Final = 16
"""Stays that last are in at most so many, before all of them are put into one."""

LOCK_WITHIN_S: Final = 30.0
LOOK_EVERY_S: Final = 0.2


class BatchDone(msgspec.Struct, frozen=True):
    """For the progress line of `rostra history ingest`."""

    commit: BatchCommit
    took_s: float
    set_aside: tuple[SetAside, ...]
    given_up: int


def nothing(_: Any) -> None:
    pass


class Ingest:
    """One journal into one set of tables. `reach` hears of every point where it is interesting to die."""

    def __init__(
        self,
        spark: SparkSession,
        journal: str | Path,
        tables: str | Path,
        *,
        world: str | None = None,
        files_per_batch: int = FILES_PER_BATCH,
        hole_after_s: float = HOLE_AFTER_S,
        compact_every: int = 10,
        tell: Callable[[BatchDone], None] = nothing,
        reach: Callable[[str], None] = nothing,
        stop: threading.Event | None = None,
    ) -> None:
        self._spark = spark
        self._stop = stop or threading.Event()
        self._journal = str(journal) if "://" in str(journal) else os.path.abspath(journal)
        self._tables = Tables(tables)
        self._world = world
        self._files_per_batch = files_per_batch
        self._hole_after_us = int(hole_after_s * 1_000_000)
        self._compaction = Compaction(spark, self._tables, every=compact_every, reach=reach)
        self._tell, self._reach = tell, reach
        self._failure: RostraError | None = None
        self._lists = self._tables.place.is_object or is_object(self._journal)

    def once(self) -> None:
        """All that is there now, in as many batches as it takes."""
        if self._lists:
            self._read_listed(None)
            return
        with self._running({"availableNow": True}) as query:
            self._await(query)

    def follow(self, *, every_s: float = EVERY_S) -> None:
        """Until `stop` is set."""
        if self._lists:
            self._read_listed(every_s)
            return
        with self._running({"processingTime": f"{every_s} seconds"}) as query:
            self._await(query)

    @contextmanager
    def _running(self, trigger: Mapping[str, Any]) -> Iterator[StreamingQuery]:
        self._check()
        with locked(self._spark, self._tables):
            query = (
                self._listing()
                .writeStream.foreachBatch(self._batch)
                .option("checkpointLocation", self._tables.place.uri(CHECKPOINT))
                .trigger(**trigger)
                .start()
            )
            try:
                yield query
            finally:
                with suppress(Py4JError, OSError):  # a Java machine that died first needs no stopping
                    query.stop()

    def _read_listed(self, every_s: float | None) -> None:
        """Batch by batch, as long as there is something to read; then wait for more, or end."""
        self._tables.place.check_commits()
        fit(self._spark)
        with locked(self._spark, self._tables):
            if self._tables.newest() is not None:
                self._compaction.when_due()  # the process that committed last may have died before it
            while not self._stop.is_set():
                before = self._tables.newest()
                read = self._tables.names_read(before)
                new = [path for path in segments(self._journal) if path not in read]
                if new or self._changed_since_set_aside():
                    self._write_batch(new[: self._files_per_batch], before.batch + 1 if before else 0)
                elif every_s is None:
                    return
                else:
                    self._stop.wait(every_s)

    def _await(self, query: StreamingQuery) -> None:
        """Asked in short questions, so that a signal never finds us in the middle of one."""
        while query.isActive:
            if self._stop.wait(LOOK_EVERY_S):
                return
        error = query.exception()
        if error is not None:
            raise self._failure or given_up(error)

    def _check(self) -> None:
        place = self._tables.place
        has_commits = any(place.list(COMMITS))
        if has_commits and not place.exists(f"{CHECKPOINT}/offsets"):
            raise BadInput(
                f"{place} has tables, and no memory of what was read ({CHECKPOINT} is gone)",
                fix="put it back, or make the tables anew in an empty directory",
            )
        if "://" not in self._journal and "*" not in self._journal and not os.path.isdir(self._journal):
            raise BadInput(
                f"there is no journal at {self._journal}", fix="name the directory that nodes write to"
            )

    def _listing(self) -> DataFrame:
        return (
            self._spark.readStream.format("binaryFile")
            .schema(LISTED)
            .option("pathGlobFilter", "*.parquet")
            .option("recursiveFileLookup", "true")
            .option("maxFilesPerTrigger", self._files_per_batch)
            .option("maxFileAge", FOR_EVER)
            .load(self._journal)
            .select("path")
        )

    # One batch

    def _batch(self, listed: DataFrame, batch: int) -> None:
        try:
            self._write_batch([row.path for row in listed.collect()], batch)
        except RostraError as error:
            self._failure = error
            raise

    def _write_batch(self, paths: list[str], batch: int) -> None:
        began = time.monotonic()
        before = self._tables.newest()
        if before is not None and batch <= before.batch:
            self._compaction.when_due()  # committed, but the process died before Spark recorded that
            return
        if batch != (before.batch + 1 if before else 0):
            last = f"the last one is {before.batch}" if before else "there is none"
            raise RostraError(
                f"batch {batch} cannot be written to {self._tables.place}: {last}",
                fix="tables and their _checkpoint belong together; put back the one that was changed",
            )
        more_waits = len(paths) >= self._files_per_batch
        again = self._changed_since_set_aside()
        seen = self._look(sorted({*paths, *again}))
        self._reach("looked")
        commit = self._write_good(
            IngestAttempt(batch, self._tables.attempt(), paths), before, seen, more_waits
        )
        for each in again:
            if not any(one.path == each and one.why for one in seen):
                self._tables.place.remove(_aside_name(each))
        self._reach("committed")
        self._tell(
            BatchDone(
                commit,
                time.monotonic() - began,
                tuple(each for each in self._tables.set_aside() if each.batch == batch),
                commit.rows.get("holes", 0),
            )
        )
        self._compaction.when_due()

    def _look(self, paths: list[str]) -> list[Seen]:
        if len(paths) <= FEW:
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda path: look(path, self._world), paths))
        slices = min(len(paths), 4 * self._spark.sparkContext.defaultParallelism)
        parts = [ToLookAt(paths[nth::slices], self._world) for nth in range(slices)]
        told = run(self._spark, look_at, parts, list[Seen])
        return sorted((seen for some in told for seen in some), key=lambda seen: seen.path)

    def _write_good(
        self, this: "IngestAttempt", before: BatchCommit | None, seen: list[Seen], more_waits: bool
    ) -> BatchCommit:
        """What a look found good; if reading all of it shows otherwise, once more without what is damaged."""
        while True:
            try:
                return self._write(this, before, seen, more_waits)
            except Damaged as damaged:
                for each in seen:
                    each.why = each.why or damaged.why.get(each.path, "")

    def _write(
        self, this: "IngestAttempt", before: BatchCommit | None, seen: list[Seen], more_waits: bool
    ) -> BatchCommit:
        known = self._tables.epochs(before)
        others = self._contradicting([run for each in seen if not each.why for run in each.runs], known)
        for each in seen:
            each.why = each.why or others.get(each.path, "")
        good = [each for each in seen if not each.why]
        made = plan(
            known,
            [*(before.held if before else ()), *(run for each in good for run in each.runs)],
            hole_after_us=self._hole_after_us,
            more_waits=more_waits,
        )
        extra = dict(before.extra if before else {})
        for each in good:
            extra |= each.extra
        written = self._run_partitions(this.label, lives_of(known, made, good), extra)
        self._reach("written")
        rows = self._move(this.label, written)
        epochs = with_open(made.epochs, written, f"batch={this.label}")
        rows["open"] = sum(epoch.open_rows for epoch in epochs.values())
        rows["holes"] = self._write_holes(this, made)
        self._tables.write_epochs(f"batch={this.label}", epochs)
        broken = [each for each in seen if each.why]
        for each in broken:
            self._set_aside(each, this.batch)
        commit = BatchCommit(
            batch=this.batch,
            since=this.batch,
            attempt=this.attempt,
            read=self._tables.note_read(before, this.label, this.paths) if self._lists else (),
            rows={table: many for table, many in rows.items() if many},
            files=len(good),
            set_aside=len(broken),
            duplicates=made.duplicates,
            late=(before.late if before else 0) + len(made.late),
            held=tuple(_held(piece, this.label) for piece in made.held),
            extra=extra,
            groups=tuple(sorted({group for each in written for group in each.groups} - self._groups())),
            at=time.time(),
        )
        self._reach("before commit")
        self._tables.commit(commit)
        return commit

    def _contradicting(self, arrived: list[RowRun], known: Mapping[Key, Epoch]) -> dict[str, str]:
        """Files with other rows than are in the tables, or in this batch, under the same numbers."""
        found = contradicting(arrived)
        for each in arrived:
            key, path = each.key, each.source
            if path not in found and key in known and each.first <= known[key].frontier:
                first, last = each.first, min(each.last, known[key].frontier)
                if differ(self._ingested(key, first, last), rows_between(path, first, last)):
                    found[path] = other_rows(key, str(self._tables.place))
        return found

    def _ingested(self, key: Key, first: int, last: int) -> pa.Table:
        paths = [open_files(path)[1] for path in self._tables.files("events", self._tables.commits())]
        of_life = (
            (pc.field("world") == key.world)
            & (pc.field("writer") == key.writer)
            & (pc.field("epoch") == key.epoch)
        )
        events = ds.dataset(paths, filesystem=self._tables.place.files, format="parquet")
        return events.to_table(filter=of_life & is_within(first, last))

    def _groups(self) -> set[str]:
        """Those that are in the tables."""
        return {group for commit in self._tables.commits() for group in commit.groups}

    # What a batch writes

    def _run_partitions(self, label: str, lives: list[WriterLife], extra: dict[str, Type]) -> list[Written]:
        """Each partition by a task of Spark; a batch that is not worth a task is written here."""
        place = self._tables.place
        self._tables.clear(label)  # whatever the dead left behind
        cores = self._spark.sparkContext.defaultParallelism
        partitions = [
            Partition(place.uri(), f"{label}-{nth:03}", tuple(some), extra)
            for nth, some in enumerate(shared(lives, cores))
        ]
        if sum(life.weight for life in lives) <= FEW * FILE_WEIGHT:
            written = [write_partition(each) for each in partitions]
        else:
            written = run(self._spark, write_partition, partitions, Written)
        troubles = [trouble for each in written for trouble in each.troubles]
        if troubles:
            raise Damaged(troubles)
        return written

    def _move(self, label: str, written: list[Written]) -> dict[str, int]:
        """To where readers will look; in the place of what an earlier attempt left there."""
        rows: dict[str, int] = {}
        for table in (*APPENDED, "open", "held"):
            files = [each.files[table] for each in written if table in each.files]
            self._tables.place.put(f"{table}/batch={label}", files)
            rows[table] = sum(each.rows.get(table, 0) for each in written)
            if files:
                self._reach(f"moved {table}")
        self._tables.clear(label)
        return rows

    def _write_holes(self, this: "IngestAttempt", made: IngestPlan) -> int:
        rows = [
            *((*hole.key, hole.first, hole.last, "given up", this.batch) for hole in made.given_up),
            *((*piece.run.key, piece.first, piece.last, "came late", this.batch) for piece in made.late),
        ]
        if rows:
            columns = [pa.array(values) for values in zip(*rows, strict=True)]
            file = f"holes/batch={this.label}/holes.parquet"
            self._tables.place.write_table(file, pa.table(columns, names=HOLES.names))
            self._tables.place.settle(file)
        return len(rows)

    # What could not be used

    def _set_aside(self, seen: Seen, batch: int) -> None:
        found = status(seen.path)
        size, mtime_ns = found or (0, 0)
        record = SetAside(seen.path, seen.why, size, mtime_ns, batch, seen.contradicts)
        self._tables.place.write(_aside_name(seen.path), msgspec.json.encode(record))

    def _changed_since_set_aside(self) -> list[str]:
        """Files that were sent again, under the same name; Spark would not look at them twice."""
        return [
            each.file
            for each in self._tables.set_aside()
            if (found := status(each.file)) is not None and found != (each.size, each.mtime_ns)
        ]


class IngestAttempt(msgspec.Struct, frozen=True):
    """At a batch: what its directories are called, and which segments it is to read."""

    batch: int
    attempt: str
    paths: list[str]

    @property
    def label(self) -> str:
        return f"{self.batch}{self.attempt}"


class Damaged(Exception):
    """Files that looked good, and could not be read."""

    def __init__(self, troubles: list[Trouble]) -> None:
        super().__init__(troubles)
        self.why = {trouble.source: trouble.why for trouble in troubles}


def lives_of(known: Mapping[Key, Epoch], made: IngestPlan, good: list[Seen]) -> list[WriterLife]:
    """What is to be written for each epoch of each writer that this batch concerns."""
    kinds = {each.path: each.kinds for each in good}
    takes: dict[Key, list[Take]] = {}
    sees: set[Key] = set()  # its sight may have changed
    for into, pieces in (("events", made.accepted), ("late", made.late), ("held", made.held)):
        for piece in pieces:
            key, source = piece.run.key, piece.run.source
            was_held = is_held(source)
            if into == "held" and was_held:
                continue  # it stays where it is
            if into == "events" and (was_held or not set(SIGHT).isdisjoint(kinds[source])):
                sees.add(key)
            takes.setdefault(key, []).append(
                Take(
                    f"held/batch={source}" if was_held else source,
                    piece.first,
                    piece.last,
                    piece.run.rows if piece.whole else None,
                    into,
                )
            )
    endings = {
        key: Ending(epoch.ended_us, "closing" if epoch.over else "unknown")
        for key, epoch in made.epochs.items()
        if epoch.finished and not (key in known and known[key].finished)
    }
    renewed = sees | set(endings) | scattered(known)
    return [
        WriterLife(
            key,
            tuple(sorted(takes.get(key, ()), key=lambda take: take.first)),
            known[key].opened if key in known and key in renewed else "",
            endings.get(key),
        )
        for key in sorted({*takes, *endings, *scattered(known)})
    ]


def scattered(known: Mapping[Key, Epoch]) -> set[Key]:
    """Epochs whose open stays are to be written anew only so that they are in fewer directories."""
    directories = sorted({epoch.opened for epoch in known.values() if epoch.opened})
    if len(directories) <= OPEN_DIRECTORIES:
        return set()
    return {key for key, epoch in known.items() if epoch.opened}


def with_open(epochs: Mapping[Key, Epoch], written: Iterable[Written], directory: str) -> dict[Key, Epoch]:
    """The same epochs, which know where their stays that last are now."""
    renewed = dict(epochs)
    for key, many in (each for some in written for each in some.opened):
        renewed[key] = msgspec.structs.replace(renewed[key], opened=directory if many else "", open_rows=many)
    return renewed


def is_held(source: str) -> bool:
    """Rows of an earlier batch, whose label this is; else of a segment, which has a path."""
    return "/" not in source


def _held(piece: Piece, label: str) -> RowRun:
    """It waits in the tables, because the journal may be deleted at any time."""
    run = piece.run
    if is_held(run.source):
        return msgspec.structs.replace(run, first=piece.first, rows=run.rows if piece.whole else None)
    rows = run.rows if piece.whole else None
    return msgspec.structs.replace(run, first=piece.first, rows=rows, source=label)


def _aside_name(path: str) -> str:
    return f"{SET_ASIDE}/{hashlib.sha256(path.encode()).hexdigest()[:24]}.json"


@contextmanager
def locked(spark: SparkSession, tables: Tables) -> Iterator[None]:
    """One ingest at a time.

    The Java machine holds the lock, since it does the writing: if this process is killed, Java may live on
    for a moment, and the next ingest has to wait for that.
    """
    if not tables.place.is_local:
        yield
        return
    os.makedirs(tables.place.path, exist_ok=True)
    jvm: Any = spark.sparkContext._jvm
    file = jvm.java.io.RandomAccessFile(tables.place.full("_lock"), "rw")
    deadline = time.monotonic() + LOCK_WITHIN_S
    try:
        while file.getChannel().tryLock() is None:
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"another process writes to {tables.place}",
                    fix="let it finish, or stop it; then try again",
                )
            time.sleep(0.2)
        yield
    finally:
        with suppress(Py4JError, OSError):
            file.close()
