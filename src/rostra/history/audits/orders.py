"""What journals say of groups whose messages have one order, for the audits of their promises.

Every row has a digest of all that members of a host were given since a view, up to a position; and how many
messages that were. A view begins with a row that names the view before it, and the view before ends with one.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence, judged_with

if_ordered: Final = judged_with("ordered")


def orders(evidence: Evidence) -> DataFrame:
    """Every row about an order, of which the position of its view is known."""
    return (
        evidence.of("ordered")
        .where(F.col("first").isNotNull())
        .select(
            *("world", "writer", "epoch", "seq", "at", "group", "view", "base", "first", "last", "count"),
            *("digest", "cause", "fence", "what"),
        )
    )
