"""Growing journals become tables: each row once, whatever dies, arrives late, comes twice or is broken.

    journal/date=*/…parquet
         │  Structured Streaming lists new segments, and remembers which ones a batch was given
         ▼
       look          each file: broken -> set aside;  good -> which numbers are in it       (look)
         ▼
       plan          which are new, which wait behind a hole, which are there already       (runs)
         ▼
       write         events/batch=N, and what is made of them: stays, notices ...           (fold)
         ▼
       commit        _commits/N.json: from now on, and not before, batch N is there         (tables)

**Exactly once.** Spark numbers its batches and repeats one until it has heard that it is done. Whatever a
batch writes goes into directories that bear its number, in the place of whatever an earlier attempt left
there, and starts from the state that the commit before it names. So an attempt that dies anywhere changes
nothing, and one that died after its commit is recognised by it and does nothing again. What a batch finds out
on the way (a file that is gone by now) may differ between attempts; only one of them is ever committed.

**Why a stream of names.** The stream that Spark follows is a list of files (`binaryFile`, of which only the
path is read), and not their rows: Spark's Parquet source stops for ever at the first broken file, or passes
over it in silence. See docs/decisions/0016-ingest-streams-names.md.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from rostra.errors import BadInput, RostraError, Unreachable
from rostra.history.compact import ROWS_PER_FILE, Compaction
from rostra.history.files import status
from rostra.history.fold import ended, finished, fold
from rostra.history.journals import only_in, ranges, read_files, read_pieces
from rostra.history.look import Seen, is_readable, look, looking
from rostra.history.runs import Plan, Run, plan
from rostra.history.schemas import HOLES, KINDS_OF, STAYS, TABLES, widened
from rostra.history.tables import CHECKPOINT, COMMITS, SET_ASIDE, Commit, SetAside, Tables
from rostra.journal.schema import KEY, KIND_NAMES, SIGHT

FILES_PER_BATCH: Final = 1000
HOLE_AFTER_S: Final = 600.0
EVERY_S: Final = 5.0

FEW: Final = 16
"""So many files are looked at here rather than by Spark: a job would cost more than it saves."""

FOR_EVER: Final = "36500d"
"""Spark would pass over files that are a week older than the newest one; a late segment is still ours."""

LISTED: Final = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"

LOCK_WITHIN_S: Final = 30.0
LOOK_EVERY_S: Final = 0.2


class BatchDone(msgspec.Struct, frozen=True):
    """For whoever shows progress."""

    commit: Commit
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

    def once(self) -> None:
        """All that is there now, in as many batches as it takes."""
        with self._running({"availableNow": True}) as query:
            self._await(query)

    def follow(self, *, every_s: float = EVERY_S) -> None:
        """Until `stop` is set."""
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

    def _await(self, query: StreamingQuery) -> None:
        """Asked in short questions, so that a signal never finds us in the middle of one."""
        while query.isActive:
            if self._stop.wait(LOOK_EVERY_S):
                return
        error = query.exception()
        if error is not None:
            raise self._failure or _told(error)

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
            self._compaction.when_due()  # committed; whoever did it died before Spark heard of it
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
        commit = self._write_good(batch, before, seen, more_waits)
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
        listed = self._spark.createDataFrame([(path,) for path in paths], "path STRING").repartition(slices)
        told = listed.mapInArrow(looking(self._world), "seen BINARY").collect()
        return sorted((msgspec.json.decode(row.seen, type=Seen) for row in told), key=lambda seen: seen.path)

    def _write_good(self, batch: int, before: Commit | None, seen: list[Seen], more_waits: bool) -> Commit:
        """What a look found good; if reading all of it shows otherwise, once more without what is damaged."""
        try:
            return self._write(batch, before, seen, more_waits)
        except (PySparkException, Py4JJavaError):
            damaged = {each.path: why for each in seen if not each.why and (why := is_readable(each.path))}
            if not damaged:
                raise
            for each in seen:
                each.why = each.why or damaged.get(each.path, "")
            return self._write(batch, before, seen, more_waits)

    def _write(self, batch: int, before: Commit | None, seen: list[Seen], more_waits: bool) -> Commit:
        good = [each for each in seen if not each.why]
        known = self._tables.epochs(before)
        made = plan(
            known,
            [*(before.held if before else ()), *(run for each in good for run in each.runs)],
            hole_after_us=self._hole_after_us,
            more_waits=more_waits,
        )
        extra = dict(before.extra if before else {})
        for each in good:
            extra |= each.extra
        schema = widened(extra)
        kinds = {kind for each in good for kind in each.kinds}
        if any(piece.run.source.isdecimal() for piece in made.accepted):
            kinds |= set(KIND_NAMES)  # what was held may be anything
        rows = {"events": self._write_events(batch, made, good, schema)}
        self._reach("events")
        if rows["events"]:
            rows |= self._write_parts(batch, kinds, schema)
        self._reach("parts")
        over = finished(self._spark, known, made.epochs)
        open_in, had_open = (before.open_in, before.rows.get("open", 0)) if before else (0, 0)
        if over is not None or (made.accepted and kinds & set(SIGHT)):
            opened = [self._tables.place.uri(f"open/batch={open_in}")] if had_open else []
            rows |= self._write_stays(batch, opened, made, over, schema, rows["events"] + had_open)
            open_in = batch
        else:
            rows["open"] = had_open
        self._reach("stays")
        held = self._write_held(batch, made, schema)
        rows["holes"] = self._write_holes(batch, made)
        self._tables.write_epochs(batch, made.epochs)
        broken = [each for each in seen if each.why]
        for each in broken:
            self._set_aside(each, batch)
        commit = Commit(
            batch=batch,
            since=batch,
            rows={table: many for table, many in rows.items() if many},
            files=len(good),
            set_aside=len(broken),
            duplicates=made.duplicates,
            held=held,
            open_in=open_in,
            extra=extra,
            at=time.time(),
        )
        self._reach("before commit")
        self._tables.commit(commit)
        return commit

    # What a batch writes

    def _where(self, source: str) -> str:
        """A file, or the rows that an earlier batch held."""
        return self._tables.place.uri(f"held/batch={source}") if source.isdecimal() else source

    def _write_events(self, batch: int, made: Plan, good: list[Seen], schema: StructType) -> int:
        taken = [*made.accepted, *made.late]
        if not taken:
            return 0
        rows = read_pieces(self._spark, taken, good, schema, self._where)
        written = self._save(rows, "events", batch)
        counted = [piece.run.rows if piece.whole else None for piece in taken]
        expected = sum(many or 0 for many in counted)
        if None not in counted and written != expected:
            raise RostraError(
                f"batch {batch} has {written} rows, and its segments had {expected}",
                fix="a segment was changed while it was read; segments never change: look for who does that",
            )
        return written

    def _save(self, rows: DataFrame, table: str, batch: int) -> int:
        rows.write.mode("overwrite").parquet(self._tables.place.uri(f"{table}/batch={batch}"))
        return self._tables.place.rows(f"{table}/batch={batch}")

    def _write_parts(self, batch: int, kinds: set[str], schema: StructType) -> dict[str, int]:
        """Tables that are some kinds of events."""
        events = read_files(self._spark, [self._tables.place.uri(f"events/batch={batch}")], schema)
        return {
            table: self._save(
                events.where(F.col("kind").isin(*kinds)).select(TABLES[table].names), table, batch
            )
            for table, kinds in KINDS_OF.items()
        }

    def _write_stays(
        self, batch: int, opened: list[str], made: Plan, over: DataFrame | None, schema: StructType, rows: int
    ) -> dict[str, int]:
        events = self._tables.rows(
            self._spark, [self._tables.place.uri(f"events/batch={batch}")] if made.accepted else [], schema
        )
        if made.late:
            events = only_in(events, ranges(self._spark, made.late), inside=False)
        stays = fold(self._tables.rows(self._spark, opened, STAYS), events)
        if over is not None:
            stays = ended(stays, over)
        stays = stays.coalesce(
            max(self._spark.sparkContext.defaultParallelism, rows // ROWS_PER_FILE)
        ).persist()
        try:
            return {
                "stays": self._save(stays.where(F.col("left_at").isNotNull()), "stays", batch),
                "open": self._save(stays.where(F.col("left_at").isNull()), "open", batch),
            }
        finally:
            stays.unpersist()

    def _write_held(self, batch: int, made: Plan, schema: StructType) -> tuple[Run, ...]:
        """Rows behind holes are copied, because nobody knows how long their journal is kept."""
        fresh = [piece for piece in made.held if not piece.run.source.isdecimal()]
        if fresh:
            rows = only_in(
                read_files(self._spark, sorted({piece.run.source for piece in fresh}), schema),
                ranges(self._spark, fresh),
            )
            self._save(rows.dropDuplicates(list(KEY)), "held", batch)
        return tuple(
            msgspec.structs.replace(
                piece.run,
                first=piece.first,
                rows=piece.run.rows if piece.whole else None,
                source=piece.run.source if piece.run.source.isdecimal() else str(batch),
            )
            for piece in made.held
        )

    def _write_holes(self, batch: int, made: Plan) -> int:
        rows = [
            *((*hole.key, hole.first, hole.last, "given up", batch) for hole in made.given_up),
            *((*piece.run.key, piece.first, piece.last, "came late", batch) for piece in made.late),
        ]
        if rows:
            columns = [pa.array(values) for values in zip(*rows, strict=True)]
            self._tables.place.write_table(
                f"holes/batch={batch}/holes.parquet", pa.table(columns, names=HOLES.names)
            )
        return len(rows)

    # What could not be used

    def _set_aside(self, seen: Seen, batch: int) -> None:
        found = status(seen.path)
        size, mtime_ns = found or (0, 0)
        record = SetAside(seen.path, seen.why, size, mtime_ns, batch)
        self._tables.place.write(_aside_name(seen.path), msgspec.json.encode(record))

    def _changed_since_set_aside(self) -> list[str]:
        """Files that were sent again, under the same name; Spark would not look at them twice."""
        return [
            each.file
            for each in self._tables.set_aside()
            if (found := status(each.file)) is not None and found != (each.size, each.mtime_ns)
        ]


def _aside_name(path: str) -> str:
    return f"{SET_ASIDE}/{hashlib.sha256(path.encode()).hexdigest()[:24]}.json"


def _told(error: PySparkException) -> RostraError:
    return RostraError(f"Spark gave up: {str(error).strip().splitlines()[0]}", fix="its log says more")


@contextmanager
def locked(spark: SparkSession, tables: Tables) -> Iterator[None]:
    """One ingest at a time.

    The lock is held by the Java machine and not by us, since it is what writes: if we are killed, it may live
    on for a moment, and whoever comes next has to wait for that.
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
