"""What journals say of groups whose messages have one order, for the audits of their promises.

Every row has a digest of all that members of a host were given since a view, up to a position; and how many
messages that were. A view begins with a row that names the view before it, and the view before ends with one.
"""

from collections.abc import Callable
from functools import wraps

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS


def orders(evidence: Evidence) -> DataFrame:
    """Every row about an order, of which the position of its view is known."""
    return evidence.events.where((F.col("kind") == "ordered") & F.col("first").isNotNull()).select(
        *("world", "writer", "epoch", "seq", "at", "group", "view", "base", "first", "last", "count"),
        *("digest", "cause", "fence", "what"),
    )


def if_ordered(audit: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """Where no group has an order there is nothing to judge, and nothing to plan."""

    @wraps(audit)
    def judge(evidence: Evidence, *given: float, **bounds: float) -> DataFrame:
        if evidence.events.where(F.col("kind") == "ordered").isEmpty():
            return evidence.events.sparkSession.createDataFrame([], FINDINGS)
        return audit(evidence, *given, **bounds)

    return judge
