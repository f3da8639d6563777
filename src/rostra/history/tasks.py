"""Work that Spark spreads over its cores and machines, one task for each piece of it."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

Work = Callable[[bytes], bytes]
"""A document in, a document out; found by name on every machine, so it is a function of a module."""

DONE = "nth LONG, document BINARY"


def run(spark: SparkSession, work: Work, documents: Sequence[bytes]) -> list[bytes]:
    """What came of each, in their order."""
    many = len(documents)
    if not many:
        return []
    each_its_task = spark.range(0, many, 1, many)
    done = each_its_task.mapInArrow(_over(work, documents), DONE).collect()
    return [bytes(row.document) for row in sorted(done, key=lambda row: int(row.nth))]


def _over(
    work: Work, documents: Sequence[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`. Documents are sent to every task: that is less than Spark needs to deal them out."""

    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for nth in batch.column("id").to_pylist():
                columns = [pa.array([nth], pa.int64()), pa.array([work(documents[nth])], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["nth", "document"])

    return do
