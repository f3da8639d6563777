"""Is anything called broken where nothing is? ``make clean-history WORLDS=100``

Worlds of crowds and big groups, clocks that are off and tails that are lost (`support.clean`), judged by
every promise. A *no* is false, and is told with its world and its words. A promise that nothing gave a chance
to be kept is one that this shows nothing of, and that is an error, too.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does
from support.clean import SHOWN, clean_worlds
from support.segments import SCHEMA
from support.spark import SMALL

from rostra.history.audits import PROMISES, Evidence, judge
from rostra.history.session import end, start

TOGETHER = 13
"""Lives that are judged in one job for each promise."""

JUDGED = ("per-source-order", "stable-truth", "watch-complete", "both-sides-told", "fifo-gap-free", "why")
"""These have something to judge in such worlds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--promise", action="append", choices=PROMISES, help="only this one")
    asked = parser.parse_args()
    promises = asked.promise or list(PROMISES)
    seeds = range(asked.first, asked.first - (-asked.worlds // len(SHOWN)))
    found: Counter[tuple[str, str]] = Counter()
    worlds = 0
    spark = start("local[1]", app="clean", settings=SMALL)
    try:
        for begin in range(0, len(seeds), TOGETHER):
            some = seeds[begin : begin + TOGETHER]
            with tempfile.TemporaryDirectory() as directory:
                place = Path(directory)
                (place / "journal").mkdir()
                rows = [
                    row
                    for seed in some
                    for _, shown in clean_worlds(seed, place / str(seed))
                    for row in shown
                ]
                pq.write_table(pa.Table.from_pylist(rows, SCHEMA), place / "journal" / "all.parquet")
                events = spark.read.parquet(str(place / "journal")).cache()
                with Evidence(events) as evidence:
                    worlds += len(evidence.facts.times)
                    for promise in promises:
                        for verdict in judge(evidence, promise):
                            found[promise, verdict["answer"]] += 1
                            if verdict["answer"] == "no":
                                print(f"{verdict['world']}: {promise}: {verdict['why']}")
                events.unpersist()
            print(f"{worlds} worlds", file=sys.stderr)
    finally:
        end(spark)
    for promise in promises:
        said = ", ".join(f"{found[promise, answer]} {answer}" for answer in ("yes", "no", "cannot tell"))
        print(f"{promise:18} {said}")
    wrong = sum(found[promise, "no"] for promise in promises)
    idle = [promise for promise in JUDGED if promise in promises and not found[promise, "yes"]]
    print(
        f"{worlds} clean worlds: {wrong} promises called broken" + "; nothing to judge: " * bool(idle), *idle
    )
    return 1 if wrong or idle else 0


if __name__ == "__main__":
    sys.exit(main())
