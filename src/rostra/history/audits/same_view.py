"""`same-view`: all members of one partition see the same views, in the same order, with the same ranks.

A view has an id: its number, its revision, and the proposal that made the number. So of two journals that
have one id, agents' or servers', both have one list; and what one member is given only goes forward.

A list is compared by its digest, which every row has: no missing row explains two lists of one id.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.views import compared, given, if_agreed, shown
from rostra.history.shape import said, shaped


@if_agreed
def same_view(evidence: Evidence) -> DataFrame:
    """Every view that an agent or a server had, and every next view of a member (`FINDINGS`)."""
    lists = compared(shown(evidence), "world", "group", "view", value="digest").withColumn(
        "broken", F.col("digest") != F.col("first_value")
    )
    other = said("{writer} has another list as view {view} of {group} than {first_writer}")
    turns = given(evidence)
    back = undoubted(
        turns,
        evidence.doubted,
        F.array("writer"),
        F.col("at"),
        since=F.col("at_before"),
        wrong=F.col("place") < F.col("place_before"),
    )
    backwards = said("{observer} was given view {view} of {group}, and before it {view_before}")
    is_wrong = F.coalesce("broken", F.lit(True))
    return shaped(lists, FINDINGS, text=F.when(F.col("broken"), other)).unionByName(
        shaped(back, FINDINGS, text=F.when(is_wrong, backwards))
    )
