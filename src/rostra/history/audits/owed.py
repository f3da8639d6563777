"""Observers that must be given a list: new followers, and those that read too slowly and missed changes."""

from collections import defaultdict
from typing import Any, Final

from pyspark.sql import DataFrame

from rostra.history.audits.evidence import Evidence
from rostra.history.audits.facts import met
from rostra.history.audits.findings import FINDINGS
from rostra.history.runs import Key

PAYING: Final = ("absolute", "snapshot", "unfollowed")
COLUMNS: Final = ("world", "writer", "epoch", "group", "seq", "at", "kind", "observers", "told")


def owed(evidence: Evidence, bound_s: float, debt: str, complaint: str) -> DataFrame:
    """Observers that were still owed a list in a calm (`FINDINGS`, all broken).

    `complaint` has room for the observer and the group. Rows that name only some of their observers pay
    every debt on their host: who the others are is not known.
    """
    facts = evidence.facts
    turns: dict[tuple[Any, ...], list[tuple[int, int, str]]] = defaultdict(list)  # of each observer
    crowds = set()
    for *key, seq, at, kind, observers, told in facts.marked((debt, *PAYING), *COLUMNS):
        if told is not None and observers is not None and told > len(observers):
            crowds.add((*key,))
        for observer in observers or ():
            turns[(*key, observer)].append((seq, at, kind))
    ends = {life.key: life.last_at for life in facts.lived if life.ended_by is not None}
    waits = []
    for (*key, observer), story in turns.items():
        paid_at = ends.get(Key(*key[:3]))
        for seq, at, kind in sorted(story, reverse=True):
            if kind in PAYING:
                paid_at = at
            elif (*key,) not in crowds:
                waits.append((((*key,), observer, seq), key[0], at, paid_at))
    late: dict[Any, int] = {}
    for wait, calm, moment in met(waits, facts.calm(bound_s), facts.times):
        (_, writer, _, _), _, _ = wait
        if writer not in calm.broken:  # a host that stands still is given nothing
            late[wait] = min(moment, late.get(wait, moment))
    found = [
        (world, True, moment, writer, epoch, seq, complaint % (observer, group))
        for ((world, writer, epoch, group), observer, seq), moment in late.items()
    ]
    return evidence.few(found, FINDINGS)
