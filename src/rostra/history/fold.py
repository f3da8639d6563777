"""Stays as ingest keeps them: ended ones are written once, open ones are passed on to the next batch.

Ingest does this batch by batch in Arrow (`intervals`); a rebuild does it for all rows at once, by the
question `stays`. A life that ended without a row (a crash) ends its stays when it is sealed. Until then
`all_stays` ends them for readers, by what is known today.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rostra.history.catalogue import lived_by, lives_table
from rostra.history.questions.stays import ended_with_lives
from rostra.history.schemas import STAYS
from rostra.history.shape import schema

if TYPE_CHECKING:
    from rostra.history.tables import BatchCommit, Tables

NOW_IN = schema(world="text", seen_by="text", epoch="int64", directory="text")


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
    life = ["world", "seen_by", "epoch", "directory"]
    lasting = found.join(F.broadcast(now), life, "left_semi").select(STAYS.names)
    return past.unionByName(ended_with_lives(lasting, lives_table(spark, lived_by(epochs))))
