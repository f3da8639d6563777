"""Do audits say what the checkers say, of many storms? ``make parity-history STORMS=50``

The history of each storm is shown to the checkers, its journal to the audits. A difference is told with the
command that replays the storm. With ``ARGS=--large`` they are judged as a large history is: what grows with
its events is not handed on as rows.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rostra.history.audits import Evidence, verdicts
from rostra.history.audits import evidence as evidence_of
from rostra.history.audits import kept as facts
from rostra.history.session import end, start
from rostra.history.tuning import SMALL
from rostra.sim.storm import replay_command

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does
from support.journal import frame
from support.parity import AUDITED, STORM_BOUND_S, Compared, bounds_of

SHAPES = ("single", "pair", "uneven", "fifo")
TOGETHER = 8
"""Storms that are judged in one job for each promise."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="storms of each shape")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--large", action="store_true", help="judge them in the way of large histories")
    asked = parser.parse_args()
    if asked.large:
        evidence_of.SMALL_ROWS = facts.FEW_ROWS = 0  # type: ignore[misc]
    storms = [(seed, shape) for seed in range(asked.first, asked.first + asked.seeds) for shape in SHAPES]
    spark = start("local[2]", app="parity", settings=SMALL)
    found: Counter[str] = Counter()
    try:
        for begin in range(0, len(storms), TOGETHER):
            with tempfile.TemporaryDirectory() as directory:
                some = [
                    Compared.of_storm(*storm, Path(directory) / f"{storm[1]}-{storm[0]}")
                    for storm in storms[begin : begin + TOGETHER]
                ]
            evidence = Evidence(frame(spark, [row for each in some for row in each.rows]).cache())
            for promise in AUDITED:
                rows = verdicts(evidence, promise, bounds_of(promise, STORM_BOUND_S)).collect()
                said = {row["world"]: row for row in rows}
                for (seed, shape), each in zip(storms[begin:], some, strict=False):
                    if shape == "fifo" and promise != "fifo-gap-free":
                        continue  # checkers pass over what is told of groups that speak
                    audited = said[each.world]
                    found[each.compare(promise, audited["answer"])] += 1
                    if each.compare(promise, audited["answer"]) == "different":
                        print(
                            f"{promise}: {each.world}: the checker says {each.answers[promise]} "
                            f"({each.why[promise]}), the audit {audited['answer']} ({audited['why']})\n"
                            f"  {replay_command(seed, shape)}"
                        )
            evidence.release()
            evidence.events.unpersist()
            done = min(begin + TOGETHER, len(storms))
            print(f"{done} of {len(storms)} storms, {found['different']} differences", file=sys.stderr)
    finally:
        end(spark)
    print(
        f"{found.total()} verdicts of {len(storms)} storms: {found['different']} differ; of "
        f"{found['one of them']} one says yes, and the other had nothing to judge"
    )
    return 1 if found["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
