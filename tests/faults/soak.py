"""An hour of groups that speak, in virtual time, with all that goes wrong in one: ``make soak``.

    python -m tests.faults.soak --hours 1 --seed 1

It prints what each slice cost, and exits with 1 at the first promise that was not kept.
"""

import argparse
import sys
import time

from rostra.sim.soak import Soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    began = time.process_time()
    soak = Soak(chosen.seed, for_s=3600 * chosen.hours)
    try:
        print(f"{chosen.hours:g} h of virtual time, with seed {chosen.seed}", file=sys.stderr, flush=True)
        outcome = soak.soak()
    except KeyboardInterrupt:
        print(f"stopped at {soak.world.now:.0f} s; no promise was broken until then", file=sys.stderr)
        return 130
    except AssertionError as error:
        print(f"seed {chosen.seed}, at {soak.world.now:.1f} s: {error}", file=sys.stderr)
        return 1
    for each in outcome.slices:
        per_message = f"{each.events_per_message:.0f} for each"
        print(f"until {each.until_s:6.0f} s: {each.said:6} messages, {each.events:8} events, {per_message}")
    talk = outcome.talk
    print(
        f"{talk.virtual_s:.0f} s, {talk.given} messages delivered, {talk.gaps} gaps told, 0 violations,"
        f" in {time.process_time() - began:.0f} s of processor time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
