"""`fifo-gap-free`: messages of one sender arrive in order, without gap or duplicate, while connected.

A receiver is owed a stream from `stream-started`. Every run that is handed over begins right after the one
before; a `stream-gap` says that some numbers are missing and that the receiver was told, which is what
happens when it was not connected: then the stream goes on right after them, and the numbers begin right after
the last that it had. Each run is compared with the one before, so a gap that comes with a duplicate is two
offences and not none. Of receivers that a row only counts nothing is known, so that they are judged from the
second row on that names them.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence, judged_with
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.audits.observers import each_named
from rostra.history.shape import said, shaped

THE_RECEIVER_LEFT: Final = "the receiver left"


@judged_with("delivered", "stream-gap")
def fifo_gap_free(evidence: Evidence) -> DataFrame:
    """Every run that a receiver was handed (`FINDINGS`)."""
    runs = evidence.of("delivered", "stream-started", "stream-gap", "stream-ended").select(
        F.xxhash64("world", "writer", "epoch", "group", "member").alias("key"),
        *("world", "writer", "epoch", "seq", "at", "kind"),
        *("group", "member", "first", "last", "cause", "observers", "told"),
    )
    story = Window.partitionBy("key", "observer").orderBy("seq")
    # What must come next after each row. A receiver that joins again begins with a new stream.
    over = (F.col("kind") == "stream-ended") & (F.col("cause") == THE_RECEIVER_LEFT)
    owed = (
        F.when(F.col("kind") == "stream-started", F.col("first"))
        .when(over, F.lit(None))
        .otherwise(F.col("last") + 1)
    )
    judged = (
        each_named(runs, "key")
        .withColumn("owed", F.lag(owed).over(story))
        .withColumn("before", F.lag("kind").over(story))
        .where(
            F.col("kind").isin("delivered", "stream-gap")
            | ((F.col("kind") == "stream-started") & (F.col("before") == "stream-gap"))
        )
        .where(~F.col("unsure"))
    )
    begun = F.col("before").isNotNull() & (F.col("before") != "stream-ended")
    wrong = (
        F.when((F.col("kind") == "delivered") & ~begun, "delivered before its stream began")
        .when(F.col("last") < F.col("first"), "delivered backwards")
        .when(F.col("first") > F.col("owed"), "left out")
        .when(F.col("first") < F.col("owed"), "delivered again, or out of order")
    )
    named = judged.withColumn("wrong", wrong)
    text = said(
        "{observer}: messages of {member} in {group} were {wrong}: {first} came[ where {owed} was due]"
    )
    is_wrong = F.col("wrong").isNotNull()
    found = undoubted(
        named, evidence.doubted, F.array("writer"), F.col("at"), since=F.col("at"), wrong=is_wrong
    )
    return shaped(found, FINDINGS, text=F.when(is_wrong, text))
