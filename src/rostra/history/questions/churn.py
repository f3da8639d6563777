"""How much came and went, per group and minute: at home, and in the eyes of others."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.arrow_fast_path import EventSource, answered, origin_of
from rostra.history.questions.arrow_fast_path import COUNTS_SCHEMA, PARTS_OF_CHURN, Churn
from rostra.history.shape import every, schema, shaped, width_us

CHURN: Final = schema(
    world="text",
    group="text",
    at="time",  # beginning of the minute (or of `every_s`)
    joins="int64",  # that agents accepted
    leaves="int64",  # of their own will
    crashes="int64",  # a program that died in the group
    lost="int64",  # a member went out of some host's sight
    back="int64",  # and came back into it
)


def churn(events: DataFrame, every_s: float = 60.0) -> DataFrame:
    """What changed in each group in each minute in which anything did (`CHURN`).

    One pass and one aggregate; straight from files, tasks have added up most of it already. A join counts
    once, at home; a cut between two halves of a world counts in `lost` once for every host and every member
    that it no longer sees.
    """
    origin = origin_of(events)
    if origin is not None:
        return _straight(events, origin, width_us(every_s))
    kind, cause = F.col("kind"), F.col("cause")
    left = kind == "member-left"
    parts = {
        "joins": kind == "member-joined",
        "leaves": left & F.coalesce(cause != "crash", F.lit(True)),
        "crashes": left & (cause == "crash"),
        "lost": kind.isin("without", "only") & F.col("news"),
        "back": (kind == "joined") & (cause == "merge") & F.col("news"),
    }
    concerned = events.where(
        kind.isin("member-joined", "member-left", "without", "only")
        | ((kind == "joined") & (cause == "merge"))
    ).where(F.col("group").isNotNull())
    counted = concerned.groupBy("world", "group", every(every_s, F.col("at")).alias("at")).agg(
        *(F.count_if(part).alias(name) for name, part in parts.items())
    )
    return shaped(counted.where(sum((F.col(name) for name in parts), F.lit(0)) > 0), CHURN)


def _straight(events: DataFrame, origin: EventSource, width_us: int) -> DataFrame:
    counts = answered(events, origin, Churn(width_us), COUNTS_SCHEMA)
    summed = counts.groupBy("world", "group", "slot").agg(
        *(F.sum(part).alias(part) for part in PARTS_OF_CHURN)
    )
    return shaped(summed, CHURN, at=F.timestamp_micros(F.col("slot") * width_us))
