"""`smooth-join`: joining never stalls messages that are already flowing.

For every delivery the journal has the delay of its slowest message above that of the quickest of the stream.
A delivery during which another member joined or left is judged: its messages may be late because one was
lost, which the journal says too (`recovered`), because something failed or came back, or by less than the
bound. A longer delay means that messages waited for the join or leave.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence, judged_with
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.places import host_of, way
from rostra.history.shape import said, shaped

BOUND_S: Final = 0.2
"""Less than a view change takes on any wide-area network, and more than a busy machine adds."""

TROUBLE: Final = (
    *("link-suspected", "link-broken", "link-down", "link-up", "link-moved"),
    *("server-changed", "line-changed"),
)
AFTERMATH_S: Final = 10.0
"""For so long after something failed or came back, what is late may be late for that."""


@judged_with("delivered")
def smooth_join(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every delivery of a stream that flowed while others joined or left (`FINDINGS`)."""
    kind = F.col("kind")
    stream = ("world", "writer", "epoch", "group", "member")
    story = Window.partitionBy(*stream).orderBy("seq")
    flowing = (
        evidence.of("delivered", "recovered", "stream-started")
        .select(*stream, "seq", "at", "kind", "latency_us", "observers", "first")
        .withColumn("repaired", F.last(F.when(kind == "recovered", F.col("seq")), True).over(story))
        .where(kind != "recovered")
        .withColumn("since", F.lag("at").over(story))
        .withColumn("before", F.lag("seq").over(story))
        .where((kind == "delivered") & F.col("latency_us").isNotNull() & F.col("since").isNotNull())
    )
    changes = evidence.of("member-joined", "member-left").select(
        "world", "group", "at", F.col("member").alias("who"), F.lit(None).alias("row")
    )
    # The last change before each delivery, in one pass over both: nothing is compared pair by pair.
    rows = flowing.select("world", "group", "at", F.lit(None).alias("who"), F.struct("*").alias("row"))
    changed = Window.partitionBy("world", "group").orderBy("at")
    last = F.last(F.when(F.col("who").isNotNull(), F.struct("at", "who")), True).over(changed)
    among = (
        rows.unionByName(changes, allowMissingColumns=True)
        .withColumn("change", last)
        .where(F.col("row").isNotNull() & F.col("change").isNotNull())
        .select("row.*", "change")
        .where(F.col("change.at") >= F.col("since"))
        .where((F.col("change.who") != F.col("member")) & ~F.array_contains("observers", F.col("change.who")))
    )
    late = (F.col("latency_us") > int(bound_s * 1e6)) & (
        F.col("repaired").isNull() | (F.col("repaired") < F.col("before"))
    )
    judged = among.withColumn("broken", late)
    disturbed = F.broadcast(
        evidence.marks.where(kind.isin(*TROUBLE)).select(
            F.col("world").alias("d_world"), F.unix_micros("at").alias("d_at")
        )
    )
    at = F.unix_micros("at")
    excused = (
        (F.col("world") == F.col("d_world"))
        & (F.col("d_at") <= at)
        & (F.col("d_at") >= F.unix_micros("since") - int(AFTERMATH_S * 1e6))
    )
    broken = undoubted(
        judged.where("broken").join(disturbed, excused, "left_anti"),
        evidence.doubted,
        F.array("writer"),
        F.col("at"),
        through=way(F.col("writer"), host_of(F.col("member"))),
        reached=F.col("since"),
    )
    text = said(
        "{observer} waited {late_ms} ms longer than usual for messages of {member} in {group}"
        " while {who} came or"
        " went, and none was lost",
        observer=F.element_at("observers", 1),
        late_ms=(F.col("latency_us") / 1000).cast("long"),
        who=F.col("change.who"),
    )
    return shaped(broken, FINDINGS, text=text).unionByName(
        shaped(judged.where(~F.col("broken")), FINDINGS, broken=F.lit(False), text=F.lit(None))
    )
