"""Work that Spark spreads over its cores and machines, one task for each piece of it."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

Work = Callable[[bytes], bytes]
"""A document in, a document out; found by name on every machine, so it is a function of a module."""


def run(spark: SparkSession, work: Work, documents: Sequence[bytes]) -> list[bytes]:
    """What came of each, in their order."""
    if not documents:
        return []
    each_its_task = spark.sparkContext.parallelize([(document,) for document in documents], len(documents))
    given = spark.createDataFrame(each_its_task, "document BINARY")
    return [bytes(row.document) for row in given.mapInArrow(_over(work), "document BINARY").collect()]


def _over(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for document in batch.column("document"):
                done = pa.array([work(document.as_py())], pa.binary())
                yield pa.RecordBatch.from_arrays([done], names=["document"])

    return do
