"""Stays as ingest keeps them: what has ended is written once, what still lasts is handed on.

Batch by batch this is done in Arrow (`intervals`); `fold` does it with Spark for everything at once, when the
table is rebuilt. A life that ended without a row (a crash) ends its stays when it is sealed. Until then,
readers are told by `all_stays` how it looks today.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
)

from rostra.history.catalogue import lived_by
from rostra.history.questions.stays import sight
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
_BEGINNING = (*_LIFE, "group", "member", "life", "stamp")


def fold(changes: DataFrame) -> DataFrame:
    """All stays (`STAYS`) that these events tell of; those that last have no `left_at`.

    Two 64-bit hashes stand for the five names of a story: numbers sort much faster than names, and two
    stories with the same 128 bits will not be met.
    """
    is_join = F.col("change") == "joined"
    changed = (
        sight(changes)
        .withColumn("seen_by", F.col("writer"))
        .withColumn("joined_by", F.col("cause"))
        .select(
            *_story("writer"),
            "seq",
            "at",
            is_join.alias("is_join"),
            F.when(~is_join, F.col("cause")).alias("ended_by"),
            F.when(is_join, F.struct(*_BEGINNING, "joined_by")).alias("of"),
        )
    )
    story = Window.partitionBy("story", "twin").orderBy("seq")
    intervals = (
        changed.withColumn("next_seq", F.lead("seq").over(story))
        .withColumn("next_at", F.lead("at").over(story))
        .withColumn("next_is_join", F.lead("is_join").over(story))
        .withColumn("next_by", F.lead("ended_by").over(story))
        .where("is_join")
    )
    return shaped(
        intervals,
        STAYS,
        **{name: f"of.{name}" for name in (*_BEGINNING, "joined_by")},
        joined_seq="seq",
        joined_at="at",
        left_seq="next_seq",
        left_at="next_at",
        ended_by=F.when(F.col("next_is_join"), F.lit("joined again")).when(
            F.col("next_seq").isNotNull(), F.coalesce("next_by", F.lit("left"))
        ),
    )


def _story(writer: str) -> list[Column]:
    names = ("world", writer, "epoch", "group", "member")
    return [F.xxhash64(*names).alias("story"), F.xxhash64(F.lit("twin"), *names).alias("twin")]


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
    """`ENDS`, of lives whose books are closed: no row can change their stays any more."""
    rows = [
        (*key, epoch.ended_us, "closing" if epoch.over else "unknown")
        for key, epoch in epochs.items()
        if epoch.finished
    ]
    return spark.createDataFrame(rows, ENDS)


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
