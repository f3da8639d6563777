"""How long until all observers knew of a change?

The member's own agent (its home) accepts a join or leave; then all programs that follow the group are told.
Home's row and the observers' rows carry the same stamp, so they are matched exactly. The time between them is
measured on two clocks: a negative one shows that these clocks differ by at least that much, and that the
other times of those hosts are wrong by as much. `negative` counts them.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.places import DISTANCES, distance, host_of
from rostra.history.shape import schema, shaped

KNOWN: Final = schema(
    world="text",
    group="text",
    member="text",
    life="int64",
    stamp="int64",
    change="text",  # joined | left
    at="time",  # when home accepted it
    distance="text",  # host | cluster | region | world | everybody
    observers="int64",  # hosts at this distance that were told
    last_s="double",  # until the last of them knew
    first_s="double",  # until the first of them did
)

CONVERGENCE: Final = schema(
    world="text",
    change="text",  # joined | left
    distance="text",  # host | cluster | region | world | everybody
    changes="int64",  # that a host at this distance was told of
    p50_s="double",  # until the last observer at this distance knew
    p90_s="double",
    p99_s="double",
    max_s="double",
    negative="int64",  # changes heard of before they happened: clocks
)

EVERYBODY: Final = "everybody"


def known(events: DataFrame) -> DataFrame:
    """One row per change and distance (`KNOWN`): when did the last observer at that distance know?

    Home is part of the member's own name, so nothing is joined: one aggregate by the change's identity.
    """
    kind = F.col("kind")
    at_home = kind.isin("member-joined", "member-left")
    told = kind.isin("joined", "left") & F.col("news") & F.col("cause").isin("join", "leave", "crash")
    rows = events.where((at_home | told) & F.col("stamp").isNotNull()).select(
        F.xxhash64("world", "group", "member", "life", "stamp").alias("key"),
        F.unix_micros("at").alias("us"),
        at_home.alias("at_home"),
        F.when(~at_home, distance(F.col("writer"), host_of(F.col("member")))).alias("distance"),
        F.when(
            at_home,
            F.struct(
                *("world", "group", "member", "life", "stamp", "at"),
                F.when(kind == "member-joined", "joined").otherwise("left").alias("change"),
            ),
        ).alias("of"),
    )
    us, away = F.col("us"), F.col("distance")
    by_change = rows.groupBy("key").agg(
        F.first("of", ignorenulls=True).alias("of"),
        *(F.max(F.when(away == d, us)).alias(f"{d}_last") for d in DISTANCES),
        *(F.min(F.when(away == d, us)).alias(f"{d}_first") for d in DISTANCES),
        *(F.count_if(away == d).alias(f"{d}_observers") for d in DISTANCES),
    )
    by_change = (
        by_change.where(F.col("of").isNotNull())
        .withColumn(f"{EVERYBODY}_last", F.greatest(*(f"{d}_last" for d in DISTANCES)))
        .withColumn(f"{EVERYBODY}_first", F.least(*(f"{d}_first" for d in DISTANCES)))
        .withColumn(f"{EVERYBODY}_observers", sum((F.col(f"{d}_observers") for d in DISTANCES), F.lit(0)))
    )
    each = F.array(
        *(
            F.struct(
                F.lit(d).alias("distance"),
                F.col(f"{d}_observers").alias("observers"),
                F.col(f"{d}_last").alias("last"),
                F.col(f"{d}_first").alias("first"),
            )
            for d in (*DISTANCES, EVERYBODY)
        )
    )
    spread = by_change.select("of.*", F.explode(each).alias("to")).where(F.col("to.observers") > 0)
    home = F.unix_micros("at")
    return shaped(
        spread,
        KNOWN,
        distance="to.distance",
        observers="to.observers",
        last_s=(F.col("to.last") - home) / 1e6,
        first_s=(F.col("to.first") - home) / 1e6,
    )


def convergence(events: DataFrame) -> DataFrame:
    """Percentiles of the time until the last observer knew, per kind of change and distance
    (`CONVERGENCE`). Percentiles are within a ten-thousandth of their rank."""
    asked = F.percentile_approx("last_s", F.array(*map(F.lit, (0.5, 0.9, 0.99))), F.lit(10_000)).alias("p")
    summed = (
        known(events)
        .groupBy("world", "change", "distance")
        .agg(
            F.count(F.lit(1)).alias("changes"),
            asked,
            F.max("last_s").alias("max_s"),
            F.count_if(F.col("first_s") < 0).alias("negative"),
        )
    )
    p = F.col("p")
    return shaped(summed, CONVERGENCE, p50_s=p[0], p90_s=p[1], p99_s=p[2])
