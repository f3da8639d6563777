"""`make month AT=DIR`: a made-up month to try everything on, without Spark and Java."""

import argparse
import sys
from pathlib import Path

from benchmarks.sample import PLANTS, sample
from rostra.errors import RostraError


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m benchmarks.sample", description=__doc__)
    words.add_argument("directory", type=Path, metavar="DIR", help="a new or empty directory")
    words.add_argument("--events", type=int, default=1_000_000, metavar="N", help="about so many rows")
    words.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same rows")
    words.add_argument("--days", type=int, default=30, metavar="N", help="how long it lasts")
    words.add_argument(
        "--talk", type=float, default=0.0, metavar="SHARE", help="of all rows: what groups say, and watches"
    )
    words.add_argument("--plant", choices=PLANTS, metavar="PROMISE", help="break this promise once")
    said = words.parse_args()
    try:
        made = sample(
            said.directory,
            events=said.events,
            seed=said.seed,
            days=said.days,
            talk=said.talk,
            planted=said.plant,
        )
    except RostraError as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2
    print(f"{made.rows:,} rows of {made.writers} writers in {made.segments} segments: {said.directory}")
    if said.plant is not None:
        print(f"planted: {PLANTS[said.plant]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
