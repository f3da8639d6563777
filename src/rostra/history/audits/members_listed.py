"""`members-listed`: once reachability stops changing, every member that is there is on its leader's list,
even while others join and leave (P-4, S-069)."""

from pyspark.sql import DataFrame

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.led_sets import BOUND_S, if_led, lists_judged


@if_led
def members_listed(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every list of a leader, in a stretch in which everything works (`FINDINGS`)."""
    return lists_judged(evidence, bound_s, "missing")
