"""Many small batches become one large one; readers see either the small ones or the large one.

Ten batches make a batch of ten, ten of those one of a hundred. Every row is written again once per step, so a
history of a million batches costs six writes of each row, and has at most a few dozen directories. Batches
that are large already are not copied.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession

from rostra.errors import RostraError
from rostra.history.arrow import row_groups
from rostra.history.files import LocalDirectory, parquet_files
from rostra.history.partitions import Outputs, Written
from rostra.history.tables import APPENDED, BatchCommit, Tables
from rostra.history.tasks import run
from rostra.journal.schema import Type

READ_FOR_S: Final = 600.0
"""Directories that no commit mentions any more are kept so long: a reader may have begun with them."""

LARGE_ROWS: Final = 20_000_000
"""Together so many events are not merged any further."""

ROWS_PER_FILE: Final = 4_000_000

FEW_ROWS: Final = 20_000
"""So many are copied here rather than by Spark: a job would cost more than it saves."""


class Compaction:
    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        *,
        every: int = 10,
        reach: Callable[[str], None] = lambda point: None,
    ) -> None:
        self._spark, self._tables = spark, tables
        self._every, self._reach = every, reach

    def when_due(self) -> None:
        """After every batch: whatever has come together, step by step."""
        while due := self._due(self._tables.commits()):
            self._merge(due)
        self._tables.sweep(older_than_s=READ_FOR_S)

    def everything(self) -> int:
        """All batches into one. Says how many there were."""
        commits = self._tables.require()
        if len(commits) > 1:
            self._merge(commits)
        self._tables.sweep(older_than_s=READ_FOR_S)
        return len(commits)

    def _due(self, commits: tuple[BatchCommit, ...]) -> tuple[BatchCommit, ...]:
        """The last `every` of them, if they are of one size and not large."""
        last = commits[-self._every :]
        spans = {commit.batch - commit.since for commit in last}
        events = sum(commit.rows.get("events", 0) for commit in last)
        is_due = self._every > 1 and len(last) == self._every and len(spans) == 1 and events <= LARGE_ROWS
        return last if is_due else ()

    def _merge(self, commits: tuple[BatchCommit, ...]) -> None:
        first, last = commits[0], commits[-1]
        attempt = self._tables.attempt()
        directory = f"batch={first.since}-{last.batch}{attempt}"
        rebuilt = {table for commit in commits for table in commit.rebuilt if table in APPENDED}
        counts = self._tables.counts(commits)
        merged = msgspec.structs.replace(
            last,
            since=first.since,
            rows=counts,
            files=sum(commit.files for commit in commits),
            set_aside=sum(commit.set_aside for commit in commits),
            duplicates=sum(commit.duplicates for commit in commits),
            groups=tuple(sorted({group for commit in commits for group in commit.groups})),
            rebuilt={
                **{table: where for table, where in last.rebuilt.items() if table not in APPENDED},
                **dict.fromkeys(sorted(rebuilt), directory),
                **({"epochs": last.epochs_in} if attempt else {}),  # which stay where they are
            },
            attempt=attempt,
            at=time.time(),
        )
        self._write(commits, merged)
        self._reach("compacted")
        self._tables.commit(merged, instead_of=last)
        self._reach("compaction committed")
        self._tables.forget(commits[:-1])

    def _write(self, commits: tuple[BatchCommit, ...], merged: BatchCommit) -> None:
        """Rows of several files one after the other, by tasks of Spark."""
        place = self._tables.place
        self._tables.clear(merged.label)
        merges = [
            Merge(place.uri(), table, f"{merged.label}-{table}-{nth:03}", files, merged.extra)
            for table in APPENDED
            for nth, files in enumerate(self._divided(table, commits))
        ]
        if sum(merged.rows.values()) <= FEW_ROWS:
            written = [merge(each) for each in merges]
        else:
            written = run(self._spark, merge, merges, Written)
        for table in APPENDED:
            some = [each for merge, each in zip(merges, written, strict=True) if merge.table == table]
            rows, expected = sum(each.rows[table] for each in some), merged.rows.get(table, 0)
            if rows != expected:
                raise RostraError(
                    f"compacting {table} gave {rows} rows of {expected}; nothing was changed",
                    fix="another process changed the tables meanwhile; run one ingest at a time",
                )
            place.put(f"{table}/{merged.directory}", [each.files[table] for each in some])
        self._tables.clear(merged.label)

    def _divided(self, table: str, commits: tuple[BatchCommit, ...]) -> Iterator[tuple[str, ...]]:
        """Its files, so many at a time that they make a large one."""
        together: list[str] = []
        rows = 0
        for directory in self._tables.directories(table, commits):
            for path, many in parquet_files(directory):
                if together and rows + many > ROWS_PER_FILE:
                    yield tuple(together)
                    together, rows = [], 0
                together.append(path)
                rows += many
        if together:
            yield tuple(together)


class Merge(Struct, frozen=True):
    """Files of one table that become one."""

    tables: str
    table: str
    name: str
    files: tuple[str, ...]
    extra: dict[str, Type]


def merge(work: Merge) -> Written:
    outputs = Outputs(LocalDirectory(work.tables), work.name, work.extra)
    for path in work.files:
        for rows in row_groups(path, outputs.schema(work.table)):
            outputs.add(work.table, rows)
    return Written(*outputs.close())
