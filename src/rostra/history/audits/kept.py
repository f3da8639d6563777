"""Facts that are used repeatedly are computed once, and passed on as rows.

A DataFrame is a plan that contains the plans of all frames it is made of, and audits are made of facts that
are made of other facts. For a small history planning is nearly all of an audit's cost (measured over 351
rows: all eight promises took 71 s of processor time, and 36 s this way). So facts of a few rows are collected
and passed on as literal rows, without the plan behind them; if there are none, Spark prunes what depends on
them.
"""

from collections.abc import Collection
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rostra.history.arrow import arrow_schema

FEW_ROWS: Final = 10_000
"""They travel with every plan that needs them."""


def kept(frame: DataFrame) -> DataFrame:
    """The same rows: as they are if they are few, else where Spark keeps them."""
    made = frame.persist()
    rows = made.limit(FEW_ROWS + 1).toArrow()
    if rows.num_rows > FEW_ROWS:
        made.count()  # all of them, so that Spark knows how many there are when it plans what follows
        return made
    made.unpersist()
    return handed_on(frame.sparkSession, rows, frame.schema)


def copied(frame: DataFrame) -> DataFrame:
    """The same for a frame of which it is known that it has few rows: nothing but one job."""
    return handed_on(frame.sparkSession, frame.toArrow(), frame.schema)


def handed_on(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """In one place: nothing has to be brought together for a window or a sum over them."""
    if not rows.num_rows:  # its columns may have no part at all, which Spark's Python does not take
        return spark.createDataFrame(table_of([], schema), schema)
    return spark.createDataFrame(rows, schema).coalesce(1)


def table_of(rows: Collection[tuple[Any, ...]], schema: StructType) -> pa.Table:
    """In Arrow, with columns for as many values of each row as the schema has. Times are microseconds since
    1970."""
    fields = arrow_schema(schema)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    made = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=False)]
    return pa.table(made, schema=fields)
