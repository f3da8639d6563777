"""Tables for tools that read Delta: a copy that only grows, each row once, without Spark.

    <tables>/events/batch=0-9, batch=10 ...  ──▶  DIR/events    a Delta table
             stays/ notices/ ...             ──▶  DIR/stays ...

Rows of a table have an order: commit by commit, file by file; compaction keeps it. So one number says how
much was exported: the count of rows. Delta stores it in the same commit as the rows, as the version that our
application id has reached. An export that is killed before a commit has changed nothing, and of two
concurrent ones Delta refuses one.

Exported rows cannot be taken back. So each commit also keeps a digest of its last row; if that row differs
now, because the table was rebuilt, the export is refused. Delta's own `optimize` is never called (1.6.6
doubles rows when two rewrites race).
"""

import hashlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rostra.errors import NotInstalled, RostraError, Unreachable
from rostra.history.arrow import spelled, table_in_arrow
from rostra.history.files import damaged, open_file, parquet_in
from rostra.history.tables import APPENDED, BatchCommit, Tables

if TYPE_CHECKING:
    from deltalake import DeltaTable

APPLICATION: Final = "rostra-history"
LAST_ROW: Final = "rostra-history-last-row"

ROWS_PER_COMMIT: Final = 2_000_000
BATCH_ROWS: Final = 65_536

DELTA_FIX: Final = "pip install 'rostra[delta]'"


def check_delta() -> None:
    if find_spec("deltalake") is None:
        raise NotInstalled("an export to Delta takes deltalake, which is not installed", fix=DELTA_FIX)


def export(
    tables: Tables,
    to: str | Path,
    *,
    rows_per_commit: int = ROWS_PER_COMMIT,
    tell: Callable[[str, int], None] = lambda table, rows: None,
    reach: Callable[[str], None] = lambda point: None,
) -> None:
    """Whatever is committed and not there yet, table by table. `tell` hears how many rows each got. Of stays,
    those that have ended: one that lasts is not yet the row that it will be."""
    check_delta()
    commits = tables.require()
    for table in APPENDED:
        tell(table, _Export(tables, table, commits, f"{to}/{table}", rows_per_commit, reach).run())


class _Export:
    def __init__(
        self,
        tables: Tables,
        table: str,
        commits: tuple[BatchCommit, ...],
        to: str,
        rows_per_commit: int,
        reach: Callable[[str], None],
    ) -> None:
        self._table, self._to, self._rows_per_commit, self._reach = table, to, rows_per_commit, reach
        directories = (
            each.removeprefix(f"{tables.place.uri()}/") for each in tables.directories(table, commits)
        )
        self._files = [path for directory in directories for path in parquet_in(tables.place, directory)]
        whole = table_in_arrow(table, commits[-1].extra)
        self._schema = pa.schema([pa.field(field.name, spelled(field.type)) for field in whole])

    def run(self) -> int:
        """How many rows were added."""
        there = self._opened()
        done = there.transaction_version(APPLICATION) or 0
        self._check(there, done)
        added = 0
        rows = Rows(self._files, self._schema, done)
        while rows.has_more():
            added += self._append(there, rows)
        return added

    def _opened(self) -> "DeltaTable":
        """As it is now; if another commits from here on, Delta refuses ours. There is one for every table,
        also for those that have no rows yet."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._to):
            DeltaTable.create(self._to, self._schema, mode="ignore", configuration=APPEND_ONLY)
        return DeltaTable(self._to)

    def _check(self, there: "DeltaTable", done: int) -> None:
        """Is what was exported still the beginning of this table?"""
        if not done:
            return
        last = next(iter(Rows(self._files, self._schema, done - 1)), None)
        if last is None or there.transaction_version(LAST_ROW) != digest(last.slice(0, 1)):
            raise RostraError(
                f"{self._to} has {done} rows of another table: {self._table} was rebuilt since, or made anew",
                fix="export into an empty directory",
            )

    def _append(self, there: "DeltaTable", rows: "Rows") -> int:
        """One commit: some rows, how many there are then, and which was the last."""
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        some = pa.Table.from_batches(rows.take(self._rows_per_commit), self._schema)
        self._reach(f"read {self._table}")
        try:
            write_deltalake(
                there,
                some,
                mode="append",
                schema_mode="merge",
                commit_properties=CommitProperties(
                    app_transactions=[
                        Transaction(APPLICATION, rows.position),
                        Transaction(LAST_ROW, digest(some.slice(some.num_rows - 1))),
                    ]
                ),
            )
        except CommitFailedError as error:
            raise Unreachable(
                f"another process writes to {self._to}: {str(error).splitlines()[0]}",
                fix="let it finish; then call this again",
            ) from None
        self._reach(f"exported {self._table}")
        return int(some.num_rows)


APPEND_ONLY: Final = {"delta.appendOnly": "true"}


class Rows:
    """Of these files, one after the other, from a place on."""

    def __init__(self, files: list[str], schema: pa.Schema, position: int) -> None:
        self.position = position
        self._schema = schema
        self._batches = self._from(files, position)
        self._next = next(self._batches, None)

    def __iter__(self) -> Iterator[Any]:
        while self._next is not None:
            yield self._next
            self._next = next(self._batches, None)

    def has_more(self) -> bool:
        return self._next is not None

    def take(self, at_least: int) -> list[Any]:
        """So many, or a few more."""
        taken: list[Any] = []
        many = 0
        while self._next is not None and many < at_least:
            taken.append(self._next)
            many += self._next.num_rows
            self._next = next(self._batches, None)
        self.position += many
        return taken

    def _from(self, files: list[str], skipped: int) -> Iterator[Any]:
        for path in files:
            try:
                with open_file(path) as opened:
                    file = pq.ParquetFile(opened, page_checksum_verification=True)
                    if file.metadata.num_rows <= skipped:
                        skipped -= file.metadata.num_rows
                        continue
                    for batch in file.iter_batches(BATCH_ROWS):
                        if batch.num_rows <= skipped:
                            skipped -= batch.num_rows
                            continue
                        yield self._shaped(batch.slice(skipped))
                        skipped = 0
            except (pa.ArrowException, OSError) as error:
                raise damaged(path, error) from None

    def _shaped(self, batch: Any) -> Any:
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(batch.num_rows, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def digest(row: Any) -> int:
    """Of one row, in 60 bits; columns that are empty do not count, because a newer writer may add some."""
    [values] = row.to_pylist()
    said = {name: value for name, value in sorted(values.items()) if value is not None}
    return int(hashlib.sha256(repr(said).encode()).hexdigest()[:15], 16)
