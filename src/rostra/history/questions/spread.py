"""Where were a group's members: how many in each region, site and cluster?"""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.places import enclosing, host_of
from rostra.history.questions.stays import lasting
from rostra.history.shape import schema, shaped

SPREAD: Final = schema(
    world="text",
    group="text",
    depth="int32",  # 0 is the world
    domain="text",  # at the lowest level, a host
    members="int64",
    hosts="int64",  # that have one of them
    share="double",  # of all members of the group
)


def spread(intervals: DataFrame, at: datetime) -> DataFrame:
    """Members at a time by domain, for every level from the world down to the host (`SPREAD`).

    Of `memberships` it is the truth; of `stays`, all members that any host saw.
    """
    present = (
        intervals.where(lasting(F.lit(at)))
        .select("world", "group", "member", host_of(F.col("member")).alias("host"))
        .distinct()
    )
    placed = present.select(
        "world", "group", "host", F.posexplode(enclosing(F.col("host"))).alias("depth", "domain")
    )
    counted = placed.groupBy("world", "group", "depth", "domain").agg(
        F.count(F.lit(1)).alias("members"), F.count_distinct("host").alias("hosts")
    )
    whole = Window.partitionBy("world", "group")
    return shaped(counted, SPREAD, share=F.col("members") / F.max("members").over(whole))
