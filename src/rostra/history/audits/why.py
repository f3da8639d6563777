"""`why`: every removal has a recorded explanation.

    without, only   name accuser, accused and grounds; and the accuser's own journal says that it gave the
                    accused up, before it was told or within the bound
    left            home's own journal has the leave or crash, by its stamp; or, without a stamp (in groups
                    that speak), the row at least has a cause
    unlisted        it was missing from a list that should have had it: that is its explanation

Of accusers and homes whose journals are not here nothing is demanded but the words on the row itself.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.at_hand import REMOVING, unfounded
from rostra.history.audits.evidence import Evidence, Judged, leave
from rostra.history.audits.findings import FINDINGS, undoubted
from rostra.history.places import host_of
from rostra.history.questions.stays import sight
from rostra.history.shape import said, shaped

BOUND_S: Final = 60.0
"""How long before a removal its reason may lie, and how far two clocks may differ."""


def why(evidence: Evidence, bound_s: float = BOUND_S) -> DataFrame:
    """Every removal of a member from a host's sight (`FINDINGS`), one finding each."""
    removed = _removed(evidence.of(*REMOVING))
    fine = shaped(removed, FINDINGS, broken=F.lit(False), text=F.lit(None))
    return _unexplained(evidence, removed, bound_s).unionByName(fine)


def why_at_hand(evidence: Evidence, bound_s: float = BOUND_S) -> Judged:
    """What of it is not fine, and how many removals there are."""
    facts, found = evidence.facts, evidence.notable
    rows = unfounded(found.rows, facts.downs, frozenset(facts.accusers), int(bound_s * 1e6))
    suspects = evidence.notable_rows(rows)
    if evidence.is_none(suspects):
        return evidence.nothing, found.removed
    return _unexplained(evidence, _removed(suspects), bound_s), found.removed


def _removed(notices: DataFrame) -> DataFrame:
    return sight(notices).where(F.col("change") == "left")


def _unexplained(evidence: Evidence, removed: DataFrame, bound_s: float) -> DataFrame:
    by_cut = F.col("kind").isin("without", "only")
    named = F.col("accuser").isNotNull() & F.col("accused").isNotNull() & F.col("what").isNotNull()
    doubted = evidence.doubted

    cuts = removed.where(by_cut & named)
    events_of = cuts.select("world", "accuser", "accused", "writer", "epoch", "seq", "nth", "at")
    first = events_of.where(F.col("nth") == 0)
    grounded = (
        first.join(evidence.downs, ["world", "accuser", "accused"])
        .where(
            (F.unix_micros("down_at") <= F.unix_micros("at") + int(bound_s * 1e6))
            & (F.unix_micros("down_at") >= F.unix_micros("at") - int(bound_s * 1e6))
        )
        .select("world", "writer", "epoch", "seq")
        .distinct()
    )
    present = evidence.accusers
    groundless = undoubted(
        first.join(F.broadcast(present), ["world", "accuser"], "left_semi").join(
            grounded, ["world", "writer", "epoch", "seq"], "left_anti"
        ),
        doubted,
        F.array("accuser", "writer"),
        F.col("at"),
        since=F.timestamp_micros(F.unix_micros("at") - int(bound_s * 1e6)),
    )
    leaves = removed.where((F.col("kind") == "left") & F.col("cause").isin("leave", "crash")).where(
        F.col("stamp").isNotNull()
    )
    home = host_of(F.col("member"))
    unmade = undoubted(
        leaves.withColumn("home", home)
        .withColumn("key", leave())
        .join(evidence.unmade, "key", "left_semi")
        .join(F.broadcast(present.withColumnRenamed("accuser", "home")), ["world", "home"], "left_semi"),
        doubted,
        F.array("home"),
        F.col("at"),
        since=F.timestamp_micros(F.unix_micros("at") - int(bound_s * 1e6)),
    )
    speechless = removed.where(F.col("cause").isNull() | (by_cut & ~named)).withColumn("broken", F.lit(True))

    told = (
        (speechless, "{writer} lost {member} and was not told why"),
        (groundless, "{writer} was told that {accuser} gave up {accused}, and that journal does not say so"),
        (unmade, "{writer} was told that {member} left {group}, and its home knows of no such leave"),
    )
    return reduce(DataFrame.unionByName, (shaped(rows, FINDINGS, text=said(words)) for rows, words in told))
