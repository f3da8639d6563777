"""Runs as Spark tasks: in parcels, each of which is kept as soon as it is done.

    <directory>/journals/<run>/                        the journal of each run, whole or not there
                failed/<run>/                          of a run that failed: to look into
                tables/runs/batch=<number>/*.parquet   rows of one parcel, there whole or not at all
                       events/ stays/ ...              what ingest makes of the journals

A sweep that is stopped loses only the parcel that was under way; the next call runs what is not there yet. So
a sweep can be stopped at any moment, continued, and made larger by editing its file.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rostra.history.sweeps.plan import SweepRun
from rostra.history.sweeps.run import JOURNALS, ROW, execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARROW: Final = {"text": pa.string(), "double": pa.float64(), "int64": pa.int64()}

ROWS: Final = pa.schema([(name, _ARROW[type_]) for name, type_ in ROW.items()])

PARCEL: Final = 64
"""Runs that are kept together. Raising it: fewer files and less waiting for the slowest run, more to do again
after a stop."""

Execute = Callable[[Sequence[SweepRun]], list[dict[str, Any]]]


class Results:
    """What is known already."""

    def __init__(self, directory: str | Path) -> None:
        self.tables = Path(directory) / "tables"
        self.path = self.tables / "runs"

    def read(self) -> pa.Table:
        """Every row, the newest of each run."""
        parcels = sorted(self.path.glob("batch=*/*.parquet"), key=lambda file: _number(file.parent))
        rows: dict[str, dict[str, Any]] = {}
        for file in parcels:
            rows |= {row["run"]: row for row in pq.ParquetFile(file).read().to_pylist()}
        return pa.Table.from_pylist([rows[run] for run in sorted(rows)], ROWS)

    def done(self) -> set[str]:
        """The runs that need not be run again. Those that failed are tried again."""
        table = self.read()
        return {
            run
            for run, error in zip(*(table[c].to_pylist() for c in ("run", "error")), strict=True)
            if not error
        }

    def keep(self, rows: list[dict[str, Any]]) -> None:
        """One more parcel, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        number = 1 + max((_number(path) for path in self.path.glob("batch=*")), default=-1)
        whole = self.path / f"batch={number}"
        part = self.path / f".batch={number}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        with (part / "rows.parquet").open("wb") as file:
            pq.write_table(pa.Table.from_pylist(rows, ROWS), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        part.rename(whole)


def sweep(
    runs: Sequence[SweepRun],
    results: Results,
    by: Execute,
    *,
    parcel: int = PARCEL,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Run what is not known yet; how many that were. `tell` hears how many of all runs are known."""
    known = results.done()
    unique = {run.id: run for run in runs}
    waiting = [run for name, run in unique.items() if name not in known]
    done = len(unique) - len(waiting)
    tell(done, len(unique))
    for first in range(0, len(waiting), parcel):
        some = waiting[first : first + parcel]
        results.keep(by(some))
        done += len(some)
        tell(done, len(unique))
    return len(waiting)


def here(runs: Sequence[SweepRun], journals: Path | None = None) -> list[dict[str, Any]]:
    """One after the other, in this process, without Spark."""
    return [execute(run, journals) for run in runs]


def on_spark(spark: "SparkSession", journals: Path | None = None) -> Execute:
    """One task for each run, so that a slow one does not delay others. Workers import the Rostra that is
    installed there; only the run itself is sent. With `journals`, a directory that every worker can write."""
    from rostra.history.tasks import run

    work = partial(execute, into=None if journals is None else str(journals))
    return lambda runs: run(spark, work, runs, dict[str, Any])


def ingest(spark: "SparkSession", directory: Path) -> None:
    """The journals of all runs into tables, beside their rows. What is there already is not read again."""
    from rostra.history.ingest import Ingest

    Ingest(spark, str(directory / JOURNALS), str(Results(directory).tables)).once()


def _number(path: Path) -> int:
    with contextlib.suppress(ValueError):
        return int(path.name.partition("=")[2])
    return -1
