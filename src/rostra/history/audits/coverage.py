"""How much of a history can be judged: the time of every host and server, less what journals do not hold."""

from typing import Final

from pyspark.sql import DataFrame

from rostra.history.audits.evidence import Evidence
from rostra.history.shape import schema

COVERAGE: Final = schema(
    world="text",
    day="date",  # UTC
    place="text",  # path of a host or domain
    seconds="double",  # from its first row on, to the world's newest
    known_s="double",  # without those in doubt
    share="double",
)


def coverage(evidence: Evidence) -> DataFrame:
    """One row for each day and place (`COVERAGE`)."""
    rows = [
        (*each[:3], each.all_us / 1e6, each.known_us / 1e6, each.known_us / each.all_us)
        for each in evidence.facts.covered
    ]
    return evidence.few(rows, COVERAGE)
