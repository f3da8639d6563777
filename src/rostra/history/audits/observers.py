"""Rows expanded to one per observer. A row names the first few of its observers and counts all.

row     observers       told      of b, between its two rows
5       a b             2
6       a ...           17        may have been told this too
7       b               1         so what it was told before it is not known: `unsure`
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def each_named(rows: DataFrame, *story: str) -> DataFrame:
    """One row for each observer that is named; `unsure` if another row of the same story, since the observer
    was last named or since the story began, was told to more observers than it names."""
    up_to_here = Window.partitionBy(*story).orderBy("seq")
    leaves_out = F.coalesce(F.col("told") > F.size("observers"), F.lit(False)).cast("int")
    counted = rows.withColumn("leaves_out", leaves_out).withColumn(
        "so_far", F.sum("leaves_out").over(up_to_here)
    )
    own = Window.partitionBy(*story, "observer").orderBy("seq")
    before = F.coalesce(F.lag("so_far").over(own), F.lit(0))
    return (
        counted.withColumn("observer", F.explode("observers"))
        .withColumn("unsure", F.col("so_far") - F.col("leaves_out") > before)
        .drop("observers", "told", "leaves_out", "so_far")
    )
