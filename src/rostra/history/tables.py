"""Tables, and what is committed of them: readers see whole batches, each once, or not at all.

    <tables>/events/batch=17/*.parquet         rows, as Spark wrote them
             stays/ notices/ suspicions/ traffic/ ...   the same
             open/batch=17/                    stays that last, of writers whose sight batch 17 changed
             epochs/batch=17/                  what is known of every writer, after batch 17
             held/batch=17/                    rows behind a hole that opened in batch 17
             stays/rebuilt=17-1/               all stays up to batch 17, made anew from the events
             _commits/17.json                  the commit of batch 17: without it the batch does not exist
             _writing/                         what tasks have not finished
             _unused.json                      directories that will be removed, and since when
             _set_aside/*.json                 files that could not be used, and why
             _checkpoint/                      how far Spark has read
             _read/17.3f1c.json                segments that were read, where Spark cannot list them

A batch is written first, and then committed by the rename of one small file. A crash in between leaves a
directory that readers do not look at, and the next attempt writes it again. Batches 10 to 19 are compacted by
writing `batch=10-19` and then replacing commit 19 by one that stands for all ten; the nine others are ignored
from then on. A rebuilt table gets a directory for all its rows so far, in the same way. Directories that no
commit mentions are removed after a while, since readers may still use them.

In an object store nothing is renamed and nothing locked. Each attempt at a batch has directories of its own
(`batch=17.3f1c`), and a commit is a conditional put: of two writers of batch 17 one is refused, and its files
are swept away.
"""

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs
from msgspec import Struct

from rostra.errors import UNDECODABLE, BadInput, RostraError, Unreachable
from rostra.history.files import HIDDEN, LocalDirectory
from rostra.history.runs import Epoch, Key, RowRun
from rostra.journal.schema import Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = 3

COMMITS, SET_ASIDE, CHECKPOINT, WRITING = "_commits", "_set_aside", "_checkpoint", "_writing"
READ: Final = "_read"
UNUSED: Final = "_unused.json"

APPENDED: Final = (
    *("events", "stays", "notices", "suspicions", "traffic", "deliveries", "views"),
    *("follows", "members", "holes"),
)
"""Tables that grow by every batch. Of the others, only what the newest commit mentions means anything."""

READ_PIECES: Final = 16
"""Names of segments are in at most so many files, before all of them are put into one."""

TRIES: Final = 20
"""Of a reader whose list of commits changed while it read them."""


T = TypeVar("T")


class BatchCommit(Struct, frozen=True, omit_defaults=True):
    """Batches `since` to `batch` are there."""

    batch: int
    since: int
    rows: dict[str, int]  # in each table that has any
    files: int = 0  # segments that were read
    set_aside: int = 0
    duplicates: int = 0  # runs that were there already
    late: int = 0  # runs that came late, ever, and that stays know nothing of
    held: tuple[RowRun, ...] = ()  # after this batch; each says in whose `held` it is
    extra: dict[str, Type] = {}  # columns of `events` that newer writers added, ever
    groups: tuple[str, ...] = ()  # that are in these batches, and were in none before
    rebuilt: dict[str, str] = {}  # tables that were made anew, and where all their rows up to here are
    rebuilds: int = 0  # how often that was done since this batch came
    at: float = 0.0
    format: int = 1
    attempt: str = ""  # in an object store: ends the names of this batch's directories
    read: tuple[str, ...] = ()  # files in `_read`, which name all segments up to here, if Spark does not

    @property
    def label(self) -> str:
        return f"{self.batch}{self.attempt}"

    @property
    def directory(self) -> str:
        return f"batch={self.label}" if self.since == self.batch else f"batch={self.since}-{self.label}"

    @property
    def epochs_in(self) -> str:
        return self.rebuilt.get("epochs", f"batch={self.label}")


class SetAside(Struct, frozen=True):
    """A file that could not be used."""

    file: str
    why: str
    size: int
    mtime_ns: int
    batch: int
    contradicts: Key | None = None  # the life of which it has other rows than the tables


class Tables:
    def __init__(self, where: str | Path) -> None:
        self.place = LocalDirectory(where)

    # What is committed

    def commits(self) -> tuple[BatchCommit, ...]:
        """In order, each batch in exactly one of them. Empty if nothing was ever ingested."""
        for _ in range(TRIES):
            try:
                found = [self._read_commit(number) for number in self._numbers()]
            except FileNotFoundError:
                continue  # compacted just now
            chain = list(_chain(found))
            if not chain or chain[-1].since == 0:
                return tuple(reversed(chain))
        raise RostraError(
            f"the commits of {self.place} do not fit together",
            fix=f"look into {self.place.full(COMMITS)}; a file that was removed by hand can be put back",
        )

    def newest(self) -> BatchCommit | None:
        commits = self.commits()
        return commits[-1] if commits else None

    def commit(self, commit: BatchCommit, instead_of: BatchCommit | None = None) -> None:
        """It is there from now on. In an object store it is refused if another writer was quicker."""
        name = f"{COMMITS}/{commit.batch}.json"
        content = msgspec.json.encode(msgspec.structs.replace(commit, format=FORMAT))
        if not self.place.is_object:
            self.place.write(name, content)
            return

        def is_known(there: bytes) -> bool:
            try:
                return msgspec.json.decode(there, type=BatchCommit) == instead_of
            except UNDECODABLE:
                return False

        if not self.place.swap(name, content, is_known if instead_of is not None else None):
            raise Unreachable(
                f"another process writes to {self.place}: batch {commit.batch} is there already",
                fix="let it finish, or stop it; then try again",
            )

    def attempt(self) -> str:
        """A suffix for the names of directories that only this attempt writes to."""
        return f".{uuid4().hex[:8]}" if self.place.is_object else ""

    def clear(self, label: str) -> None:
        """What tasks have not finished of this batch. Where there is a lock, there is nothing else."""
        if not self.place.is_object:
            self.place.remove(WRITING)
            return
        for info in list(self.place.list(WRITING)):
            if str(info.base_name).startswith(f"{label}-"):
                self.place.remove(f"{WRITING}/{info.base_name}")

    def names_read(self, commit: BatchCommit | None) -> set[str]:
        """Segments that were read up to there."""
        return {name for file in (commit.read if commit else ()) for name in self._read(file, list[str])}

    def note_read(self, before: BatchCommit | None, label: str, names: list[str]) -> tuple[str, ...]:
        """That these were read as well, once it is committed."""
        pieces = before.read if before else ()
        if len(pieces) >= READ_PIECES:
            names, pieces = sorted({*names, *self.names_read(before)}), ()
        file = f"{READ}/{label}.json"
        self.place.write(file, msgspec.json.encode(names))
        return (*pieces, file)

    def forget(self, commits: Iterable[BatchCommit]) -> None:
        """They are part of another now."""
        for commit in commits:
            self.place.remove(f"{COMMITS}/{commit.batch}.json")

    def _numbers(self) -> list[int]:
        names = (info.base_name.removesuffix(".json") for info in self.place.list(COMMITS))
        return sorted(int(name) for name in names if name.isdecimal())

    def _read_commit(self, number: int) -> BatchCommit:
        name = f"{COMMITS}/{number}.json"
        commit = self._read(name, BatchCommit)
        if commit.format > FORMAT:
            raise RostraError(
                f"{self.place} was written by a newer Rostra (format {commit.format})", fix="use that one"
            )
        if commit.format < FORMAT:
            raise RostraError(
                f"{self.place} was written by an older Rostra (format {commit.format})",
                fix="make the tables anew in an empty directory; the journals are as they were",
            )
        return commit

    # What is known of writers

    def epochs(self, commit: BatchCommit | None) -> dict[Key, Epoch]:
        if commit is None:
            return {}
        rows = self.place.read_table(_epochs_file(commit.epochs_in)).to_pylist()
        return {
            Key(row.pop("world"), row.pop("writer"), row.pop("epoch")): msgspec.convert(row, Epoch)
            for row in rows
        }

    def write_epochs(self, directory: str, epochs: Mapping[Key, Epoch]) -> None:
        rows = [{**key._asdict(), **msgspec.to_builtins(epochs[key])} for key in sorted(epochs)]
        self.place.write_table(_epochs_file(directory), pa.Table.from_pylist(rows, EPOCHS_IN_ARROW))
        self.place.settle(_epochs_file(directory))

    # What was set aside

    def set_aside(self) -> list[SetAside]:
        return [
            self._read(f"{SET_ASIDE}/{info.base_name}", SetAside)
            for info in sorted(self.place.list(SET_ASIDE), key=lambda info: str(info.base_name))
            if info.base_name.endswith(".json") and not info.base_name.startswith(".")
        ]

    # Rows

    def directories(self, table: str, commits: Iterable[BatchCommit] | None = None) -> list[str]:
        """Where the committed rows of a table are, as Spark is told."""
        commits = self.commits() if commits is None else commits
        return [
            self.place.uri(f"{table}/{commit.rebuilt.get(table, commit.directory)}")
            for commit in counting(table, commits)
            if commit.rows.get(table, 0)
        ]

    def counts(self, commits: Iterable[BatchCommit]) -> dict[str, int]:
        """How many rows each table has, by the commits' word; `open` are the stays that last."""
        commits = tuple(commits)
        counts = {
            table: sum(commit.rows.get(table, 0) for commit in counting(table, commits)) for table in APPENDED
        }
        counts["open"] = commits[-1].rows.get("open", 0) if commits else 0
        return {table: many for table, many in counts.items() if many}

    def require(self) -> tuple[BatchCommit, ...]:
        """What is committed; an error if there is nothing."""
        commits = self.commits()
        if not commits:
            raise BadInput(
                f"there are no tables in {self.place}",
                fix=f"make them:  rostra history ingest --journal DIR --tables {self.place}",
            )
        return commits

    def files(self, table: str, commits: Iterable[BatchCommit]) -> list[str]:
        """The files with these rows, as URIs for Spark, in the order of batches. Spark's `inputFiles` would
        not do: it names no file for rows that another query has cached."""
        return [
            self.place.uri(path)
            for directory in self.directories(table, commits)
            for path in sorted(
                str(info.path).removeprefix(f"{self.place.path}/")
                for info in self.place.list(directory.removeprefix(f"{self.place.uri()}/"), recursive=True)
                if info.is_file and not info.base_name.startswith(HIDDEN)
            )
        ]

    def read(
        self, spark: "SparkSession", table: str, commits: tuple[BatchCommit, ...] | None = None
    ) -> "DataFrame":
        """A table as it is committed now, or was; batches that come later are not in it."""
        from rostra.history import schemas
        from rostra.history.spelling import closest

        commits = self.require() if commits is None else commits
        if table == "stays":
            from rostra.history.fold import all_stays

            return all_stays(self, spark, commits)
        if table not in schemas.TABLES:
            raise BadInput(f"there is no table {table!r}", fix=closest(table, schemas.TABLES))
        schema = schemas.TABLES[table]
        if table == "events":
            schema = schemas.widened(commits[-1].extra)
        return self.rows(spark, self.directories(table, commits), schema)

    def rows(self, spark: "SparkSession", directories: list[str], schema: "StructType") -> "DataFrame":
        from rostra.history.schemas import with_new_names

        if not directories:
            return with_new_names(spark.createDataFrame([], schema), schema)
        from rostra.history.journals import read_files

        return with_new_names(read_files(spark, directories, schema), schema)

    # Tidiness

    def sweep(self, *, older_than_s: float, now: float | None = None) -> list[str]:
        """Remove directories that no commit has mentioned for so long that no reader can use them still."""
        commits = self.commits()
        if not commits:
            return []
        newest = commits[-1]
        used = {f"{table}/{commit.directory}" for commit in commits for table in APPENDED}
        used |= {f"{table}/{directory}" for commit in commits for table, directory in commit.rebuilt.items()}
        used |= {f"held/batch={run.source}" for run in newest.held}
        used |= {f"open/{epoch.opened}" for epoch in self.epochs(newest).values()}
        used.add(f"epochs/{newest.epochs_in}")
        for number in set(self._numbers()) - {commit.batch for commit in commits}:
            self.place.remove(f"{COMMITS}/{number}.json")  # part of a later one, whose writer died
        for info in list(self.place.list(READ)):
            which, file = str(info.base_name).partition(".")[0], f"{READ}/{info.base_name}"
            if which.isdecimal() and int(which) < newest.batch and file not in newest.read:
                self.place.remove(file)
        now = time.time() if now is None else now
        noted = self._noted_unused()
        unused: dict[str, float] = {}
        removed = []
        for table in (*APPENDED, "open", "epochs", "held", *((WRITING,) if self.place.is_object else ())):
            for info in self.place.list(table):
                name = f"{table}/{info.base_name}"
                is_ours = info.type == pafs.FileType.Directory and _number_in(info.base_name) <= newest.batch
                if not is_ours or name in used:
                    continue
                since = noted.get(name, now)
                if now - since >= older_than_s:
                    self.place.remove(name)
                    removed.append(name)
                else:
                    unused[name] = since
        if unused != noted:
            self.place.write(UNUSED, msgspec.json.encode(unused))
        return removed

    def _noted_unused(self) -> dict[str, float]:
        """Directories that no commit mentions, and since when that is known."""
        if not self.place.exists(UNUSED):
            return {}
        return self._read(UNUSED, dict[str, float])

    def _read(self, name: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self.place.read(name), type=kind)
        except UNDECODABLE as error:
            raise RostraError(f"{self.place.full(name)} cannot be read: {error}") from None


EPOCHS_IN_ARROW: Final = pa.schema(
    [
        ("world", pa.string()),
        ("writer", pa.string()),
        ("epoch", pa.int64()),
        ("role", pa.string()),
        ("frontier", pa.int64()),
        ("began_us", pa.int64()),
        ("ended_us", pa.int64()),
        ("over", pa.bool_()),
        ("sealed", pa.bool_()),
        ("holes", pa.list_(pa.list_(pa.int64()))),
        ("opened", pa.string()),
        ("open_rows", pa.int64()),
    ]
)


def counting(table: str, commits: Iterable[BatchCommit]) -> list[BatchCommit]:
    """Those whose rows of this table count: what was there before it was rebuilt does not."""
    chosen: list[BatchCommit] = []
    for commit in reversed(tuple(commits)):
        chosen.append(commit)
        if table in commit.rebuilt:
            break
    return chosen[::-1]


def _number_in(directory: str) -> int:
    """The batch up to which it goes: of `batch=17`, `batch=10-17`, `rebuilt=17-1`, and in an object store of
    `batch=17.3f1c`, `rebuilt=17-1.3f1c` and what tasks write for them, `17.3f1c-000-...`."""
    shapes = r"batch=(?:\d+-)?(\d+)(?:\.\w+)?|rebuilt=(\d+)-\d+(?:\.\w+)?|(\d+)(?:-\d+)?\.\w+-.+"
    found = re.fullmatch(shapes, directory)
    return int(found[1] or found[2] or found[3]) if found else sys.maxsize


def _epochs_file(directory: str) -> str:
    return f"epochs/{directory}/epochs.parquet"


def _chain(found: list[BatchCommit]) -> Iterator[BatchCommit]:
    """From the newest commit backwards; whatever a later one stands for is passed over."""
    wanted = found[-1].batch if found else -1
    for commit in reversed(found):
        if commit.batch == wanted:
            yield commit
            wanted = commit.since - 1
