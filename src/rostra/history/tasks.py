"""Work that Spark spreads over its cores and machines, one task for each piece of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

DONE: Final = "nth LONG, document BINARY"

Given = TypeVar("Given")
Made = TypeVar("Made")


def run(
    spark: SparkSession, work: Callable[[Given], Made], pieces: Sequence[Given], into: type[Made]
) -> list[Made]:
    """What came of each, in their order. The work is a function of a module, found by name on every machine;
    pieces and what comes of them are plain data."""
    if not pieces:
        return []
    each_its_task = spark.range(0, len(pieces), 1, len(pieces))
    documents = [msgspec.json.encode(each) for each in pieces]
    done = each_its_task.mapInArrow(_over(work, documents, type(pieces[0])), DONE).collect()
    in_order = sorted(done, key=lambda row: int(row.nth))
    return [msgspec.json.decode(bytes(row.document), type=into) for row in in_order]


def _over(
    work: Callable[[Any], Any], documents: Sequence[bytes], kind: type[Any]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`. Documents are sent to every task: that is less than Spark needs to deal them out."""

    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for nth in batch.column("id").to_pylist():
                made = msgspec.json.encode(work(msgspec.json.decode(documents[nth], type=kind)))
                columns = [pa.array([nth], pa.int64()), pa.array([made], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["nth", "document"])

    return do
