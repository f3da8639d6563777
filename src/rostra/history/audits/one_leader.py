"""`one-leader`: once reachability stops changing, a led set has one leader (P-2, S-067)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.led_sets import BOUND_S, if_led, judged, stood, while_wrong
from rostra.history.shape import said


@if_led
def one_leader(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every agent with a part in a led set, in a stretch in which everything works (`FINDINGS`)."""
    there = evidence.once(stood(evidence))
    key = ["world", "group"]
    leads = (F.col("what") == "leads").cast("int").alias("leaders")
    counts = there.select(*key, "from_at", "until_at", F.lit(1).alias("agents"), leads)
    wrong = while_wrong(counts, key, (F.col("agents") > 0) & (F.col("leaders") != 1))
    text = said(f"{{group}} has no leader, or several, {bound_s:g} s after everything works")
    return judged(evidence, wrong, there, key, text, bound_s)
