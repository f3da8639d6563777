"""Many small batches become one large one; readers see the ones or the other, never both and never neither.

Ten batches make a batch of ten, ten of those one of a hundred: every row is written anew once per step, so a
history of a million batches costs six writes of each row, and has at most a few dozen directories.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from rostra.errors import RostraError
from rostra.history.schemas import TABLES, widened
from rostra.history.tables import APPENDED, Commit, Tables

READ_FOR_S: Final = 600.0
"""Directories that mean nothing any more are kept so long for whoever reads them still."""

ROWS_PER_FILE: Final = 4_000_000


class Compaction:
    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        *,
        every: int = 10,
        read_for_s: float = READ_FOR_S,
        reach: Callable[[str], None] = lambda point: None,
    ) -> None:
        self._spark, self._tables = spark, tables
        self._every, self._read_for_s, self._reach = every, read_for_s, reach

    def when_due(self) -> None:
        """After every batch: whatever has come together, step by step."""
        while due := self._due(self._tables.commits()):
            self._merge(due)
        self._tables.sweep(older_than_s=self._read_for_s)

    def everything(self) -> int:
        """All batches into one. Says how many there were."""
        commits = self._tables.require()
        if len(commits) > 1:
            self._merge(commits)
        self._tables.sweep(older_than_s=self._read_for_s)
        return len(commits)

    def _due(self, commits: tuple[Commit, ...]) -> tuple[Commit, ...]:
        """The last `every` of them, if they are of one size."""
        last = commits[-self._every :]
        spans = {commit.batch - commit.since for commit in last}
        return last if self._every > 1 and len(last) == self._every and len(spans) == 1 else ()

    def _merge(self, commits: tuple[Commit, ...]) -> None:
        first, last = commits[0], commits[-1]
        merged = msgspec.structs.replace(
            last,
            since=first.since,
            rows={
                **{table: many for table, many in last.rows.items() if table not in APPENDED},
                **{
                    table: many
                    for table in APPENDED
                    if (many := sum(commit.rows.get(table, 0) for commit in commits))
                },
            },
            files=sum(commit.files for commit in commits),
            set_aside=sum(commit.set_aside for commit in commits),
            duplicates=sum(commit.duplicates for commit in commits),
            at=time.time(),
        )
        for table in APPENDED:
            if merged.rows.get(table):
                self._rewrite(table, commits, merged)
        self._reach("compacted")
        self._tables.commit(merged)
        self._reach("compaction committed")
        self._tables.forget(commits[:-1])

    def _rewrite(self, table: str, commits: tuple[Commit, ...], merged: Commit) -> None:
        schema: Any = widened(merged.extra) if table == "events" else TABLES[table]
        rows = self._tables.rows(self._spark, self._tables.directories(table, commits), schema)
        files = max(1, -(-merged.rows[table] // ROWS_PER_FILE))
        target = f"{table}/{merged.directory}"
        rows.coalesce(files).write.mode("overwrite").parquet(self._tables.place.uri(target))
        written = self._tables.place.rows(target)
        if written != merged.rows[table]:
            raise RostraError(
                f"compacting {table} gave {written} rows of {merged.rows[table]}; nothing was changed",
                fix="somebody changed the tables meanwhile; one ingest at a time",
            )
