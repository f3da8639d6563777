"""`one-registrar`: once reachability stops changing, all agents of a led set's scope believe in one registrar
(P-1, S-066)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.led_sets import BOUND_S, if_led, judged, stood, while_wrong
from rostra.history.shape import said


@if_led
def one_registrar(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every agent with a part in a led set, in a stretch in which everything works (`FINDINGS`)."""
    scope = F.element_at(F.split("group", "@"), -1)
    there = evidence.once(stood(evidence).where(F.col("domain").isNotNull()).withColumn("scope", scope))
    each = there.select("world", "scope", "domain", "from_at", "until_at", F.lit(1).alias("agents"))
    believed = while_wrong(each, ["world", "scope", "domain"], F.col("agents") > 0)
    registrars = believed.drop("domain").withColumn("registrars", F.lit(1))
    key = ["world", "scope"]
    wrong = while_wrong(registrars, key, F.col("registrars") > 1)
    text = said(f"agents in {{scope}} believe in several registrars, {bound_s:g} s after everything works")
    return judged(evidence, wrong, there, key, text, bound_s)
