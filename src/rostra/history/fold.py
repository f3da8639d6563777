"""Stays as ingest keeps them: ended ones are written once, open ones are passed on to the next batch.

Ingest does this batch by batch in Arrow (`intervals`); a rebuild does it for all rows at once, by the
question `stays`. A life that ended without a row (a crash) ends its stays when it is sealed. Until then
`all_stays` ends them for readers, by what is known today.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rostra.history.catalogue import lived_by
from rostra.history.runs import Epoch, Key
from rostra.history.schemas import STAYS
from rostra.history.shape import shaped

if TYPE_CHECKING:
    from rostra.history.tables import BatchCommit, Tables

ENDS = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("seen_by", StringType(), nullable=False),
        StructField("epoch", LongType(), nullable=False),
        StructField("life_ended_us", LongType(), nullable=False),
        StructField("life_ended_by", StringType(), nullable=False),  # closing | unknown
    ]
)
"""Lives of writers that are over, and end whatever they still saw."""

NOW_IN = "world STRING, seen_by STRING, epoch LONG, directory STRING"

_LIFE = ["world", "seen_by", "epoch"]


def ended(stays: DataFrame, ends: DataFrame) -> DataFrame:
    """The same stays; those that last end with the life of the writer that saw them."""
    open_then_over = F.col("left_at").isNull() & F.col("life_ended_us").isNotNull()
    return shaped(
        stays.join(F.broadcast(ends), _LIFE, "left"),
        STAYS,
        left_at=F.when(open_then_over, F.timestamp_micros("life_ended_us")).otherwise(F.col("left_at")),
        ended_by=F.when(open_then_over, F.col("life_ended_by")).otherwise(F.col("ended_by")),
    )


def over_for_good(spark: SparkSession, epochs: Mapping[Key, Epoch]) -> DataFrame:
    """Lives whose books are closed, as `stays` wants them: no row can change their stays any more."""
    rows = [
        (*key, epoch.ended_us, "closing" if epoch.over else "unknown")
        for key, epoch in epochs.items()
        if epoch.finished
    ]
    lived = "world STRING, writer STRING, epoch LONG, last_us LONG, ended_by STRING"
    return spark.createDataFrame(rows, lived).withColumn("last_at", F.timestamp_micros("last_us"))


def over_by_now(spark: SparkSession, epochs: Mapping[Key, Epoch]) -> DataFrame:
    """`ENDS`, as far as one can tell today, by the rule of the question `lives`."""
    lived = lived_by(epochs)
    rows = [(*key, epochs[key].ended_us, each.ended_by) for key, each in lived.items() if each.ended_by]
    return spark.createDataFrame(rows, ENDS)


def all_stays(tables: "Tables", spark: SparkSession, commits: tuple["BatchCommit", ...]) -> DataFrame:
    """Those that have ended and those that last, as known after the newest commit."""
    past = tables.rows(spark, tables.directories("stays", commits), STAYS)
    epochs = tables.epochs(commits[-1])
    opened = {key: epoch.opened for key, epoch in epochs.items() if epoch.open_rows}
    if not opened:
        return past
    directories = [tables.place.uri(f"open/{directory}") for directory in sorted(set(opened.values()))]
    # A directory has what a writer saw then; its sight may have changed since, and be in another one.
    now = spark.createDataFrame([(*key, directory) for key, directory in opened.items()], NOW_IN)
    if tables.place.is_object:  # Spark does not know of these files
        each = [
            tables.rows(spark, [path], STAYS).withColumn("directory", F.lit(path.rpartition("/")[2]))
            for path in directories
        ]
        found = reduce(DataFrame.unionByName, each)
    else:
        found = tables.rows(spark, directories, STAYS).withColumn(
            "directory", F.element_at(F.split("_metadata.file_path", "/"), -2)
        )
    lasting = found.join(F.broadcast(now), [*_LIFE, "directory"], "left_semi").select(STAYS.names)
    return past.unionByName(ended(lasting, over_by_now(spark, epochs)))
