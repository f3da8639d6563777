"""Spark settings for small histories.

Spark compiles every step of a plan to machine code, and optimizes the plan again after every stage. For a
hundred million rows that pays; for ten thousand it takes nearly all of an audit's time (measured:
stable-truth over 12 000 rows 142 s, and 16 s without; all promises over 300 000 rows 74 s of processor with
it and 76 s without, over a million 91 s and 107 s).
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from rostra.history.arrow_fast_path import origin_of

SMALL_ROWS: Final = 300_000

TINY_ROWS: Final = 100_000
"""One task is quicker with so many than two are started, and what follows from them fits into a plan: it is
not held where Spark keeps things, by which all is planned twice (of 56,000 rows, a quarter of planning)."""

SMALL: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def suit(spark: SparkSession, events: DataFrame, most: int = SMALL_ROWS) -> None:
    """Set this session up for plans over so many rows; call it before a plan with many steps. How many there
    are the files of a journal or a table say, without a job."""
    origin = origin_of(events)
    if (events.count() if origin is None else origin.rows) <= most:
        for name, value in SMALL.items():
            spark.conf.set(name, value)
