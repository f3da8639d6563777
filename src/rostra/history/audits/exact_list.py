"""`exact-list`: once reachability and memberships stop changing, the list of a led set's leader is exact
(P-3, S-068).

Each member is judged by itself, so also while others come and go: a member that has been there for the bound
is listed, and one that has been gone for it is not.
"""

from pyspark.sql import DataFrame

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.led_sets import BOUND_S, if_led, lists_judged


@if_led
def exact_list(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every list of a leader, in a stretch in which everything works (`FINDINGS`)."""
    return lists_judged(evidence, bound_s, "missing", "ghost")
