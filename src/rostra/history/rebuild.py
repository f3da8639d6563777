"""Tables made anew from the events: with rows that came too late, and for tables that were not there before.

    events (all of them) ──▶ stays/rebuilt=17-1, open/rebuilt=17-1, epochs/rebuilt=17-1
                                      │
                                      ▼
                          _commits/17.json says so: from that moment readers see the new ones

All other tables follow from the events. Readers see no change before the one commit that replaces the newest
one. A rebuild that dies earlier has changed nothing, and its files are swept away. Each table has its own
commit, so a second call after a crash gives the same as one call; in an object store, one of two concurrent
rebuilds is refused.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rostra.errors import BadInput, RostraError
from rostra.history.arrow import shaped_as
from rostra.history.catalogue import lived_by, lives_table
from rostra.history.files import LocalDirectory
from rostra.history.partitions import Outputs, Written
from rostra.history.questions.stays import stays
from rostra.history.runs import Key
from rostra.history.schemas import KINDS_OF, TABLES
from rostra.history.session import fit
from rostra.history.tables import BatchCommit, Tables

REBUILT: Final = ("stays", *KINDS_OF)
"""Tables that follow from the events."""


def rebuild(
    spark: SparkSession,
    tables: Tables,
    names: Iterable[str] = REBUILT,
    *,
    tell: Callable[[str, int], None] = lambda table, rows: None,
    reach: Callable[[str], None] = lambda point: None,
) -> None:
    """Make these tables anew, one after the other. `tell` hears of each, and how many rows it has now."""
    tables.place.check_commits()
    fit(spark)
    for table in check(names):
        before = tables.require()[-1]
        directory = f"rebuilt={before.batch}-{before.rebuilds + 1}{tables.attempt()}"
        events = tables.read(spark, "events")
        if table == "stays":
            commit = _stays(spark, tables, events, before, directory)
        else:
            rows = events.where(F.col("kind").isin(*KINDS_OF[table])).select(TABLES[table].names)
            commit = _with(before, {table: directory}, {table: _save(tables, rows, table, directory)})
        reach(f"rebuilt {table}")
        tables.commit(commit, instead_of=before)
        reach(f"{table} committed")
        tell(table, commit.rows.get(table, 0))


def check(names: Iterable[str]) -> tuple[str, ...]:
    """These can be rebuilt, or BadInput."""
    chosen = tuple(names)
    for table in chosen:
        if table not in REBUILT:
            fix = f"one of: {', '.join(REBUILT)}; they follow from the events"
            raise BadInput(f"{table!r} cannot be rebuilt", fix=fix)
    return chosen


def _stays(
    spark: SparkSession, tables: Tables, events: DataFrame, before: BatchCommit, directory: str
) -> BatchCommit:
    epochs = tables.epochs(before)
    # No row can change the stays of lives whose books are closed; of others, what is known today may change.
    over_for_good = {key: life for key, life in lived_by(epochs).items() if epochs[key].finished}
    every = stays(events, lives_table(spark, over_for_good)).persist()
    try:
        gone = _save(tables, every.where(F.col("left_at").isNotNull()), "stays", directory)
        lasting = every.where(F.col("left_at").isNull()).sortWithinPartitions("world", "seen_by", "epoch")
        last = _save(tables, lasting, "open", directory)
        counts = {
            Key(row.world, row.seen_by, row.epoch): int(row["count"])
            for row in lasting.groupBy("world", "seen_by", "epoch").count().collect()
        }
    finally:
        every.unpersist()
    if sum(counts.values()) != last or not counts.keys() <= epochs.keys():
        raise RostraError(
            f"{sum(counts.values())} stays last, and {last} were written; nothing was changed",
            fix="another process changed the tables meanwhile; run one at a time",
        )
    known = {
        key: msgspec.structs.replace(
            epoch, opened=directory if key in counts else "", open_rows=counts.get(key, 0)
        )
        for key, epoch in epochs.items()
    }
    tables.write_epochs(directory, known)
    commit = _with(before, {"stays": directory, "epochs": directory}, {"stays": gone, "open": last})
    return msgspec.structs.replace(commit, late=0)


def _with(before: BatchCommit, rebuilt: dict[str, str], rows: dict[str, int]) -> BatchCommit:
    counts = {table: many for table, many in {**before.rows, **rows}.items() if many}
    return msgspec.structs.replace(
        before,
        rows=counts,
        rebuilt={**before.rebuilt, **rebuilt},
        rebuilds=before.rebuilds + 1,
        at=time.time(),
    )


def _save(tables: Tables, rows: DataFrame, table: str, directory: str) -> int:
    """Written by tasks, and moved to where readers will look. Says how many rows there are."""
    label = directory.removeprefix("rebuilt=")
    tables.clear(label)
    done = rows.mapInArrow(
        _writing(tables.place.uri(), f"{label}-{table}", table), "document BINARY"
    ).collect()
    written = [msgspec.json.decode(bytes(each.document), type=Written) for each in done]
    tables.place.put(f"{table}/{directory}", [each.files[table] for each in written if table in each.files])
    tables.clear(label)
    return sum(each.rows.get(table, 0) for each in written)


def _writing(
    tables: str, name: str, table: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: the rows of a task into one file, which readers do not see before it is moved."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outputs = Outputs(LocalDirectory(tables), name, {})
        for batch in batches:
            outputs.add(table, shaped_as(pa.Table.from_batches([batch]), outputs.schema(table)))
        document = msgspec.json.encode(Written(*outputs.close()))
        yield pa.RecordBatch.from_arrays([pa.array([document], pa.binary())], names=["document"])

    return write
