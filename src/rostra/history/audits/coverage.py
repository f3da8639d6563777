"""How much of a history can be judged: the time of every host and server, less what journals do not hold."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, DoubleType, StringType, StructField, StructType

from rostra.history.audits.evidence import Evidence

COVERAGE: Final = StructType(
    [
        StructField("world", StringType(), nullable=False),
        StructField("day", DateType(), nullable=False),  # UTC
        StructField("place", StringType(), nullable=False),  # path of a host or domain
        StructField("seconds", DoubleType(), nullable=False),  # from its first row on, to the world's newest
        StructField("known_s", DoubleType(), nullable=False),  # without those in doubt
        StructField("share", DoubleType(), nullable=False),
    ]
)


def coverage(evidence: Evidence) -> DataFrame:
    """One row for each day and place (`COVERAGE`)."""
    rows = [
        (*each[:3], each.all_us / 1e6, each.known_us / 1e6, each.known_us / each.all_us)
        for each in evidence.facts.covered
    ]
    return evidence.few(rows, COVERAGE)
