"""An hour of groups that speak, in virtual time, with all that goes wrong in one: ``make soak``.

    python -m tests.faults.soak --hours 1 --seed 1

It prints what each slice cost, and exits with 1 at the first promise that was not kept.

    peace ── a deed: joins, leaves, kills, pauses, or a cut, a dead server ──▶ repaired soon ──▶ peace ...

A twentieth of everything is lost throughout, and messages have from 16 bytes to 100 kB. In the end all that a
talk storm asks for must hold; and an hour must cost what its messages cost: the world is cut into slices, and
the events of each are counted. If something piled up, or was gone through again and again, later slices would
take more events for each message than earlier ones.
"""

import argparse
import sys
import time
from random import Random
from typing import Final

from msgspec import Struct

from rostra.sim.fifo_storm import CHURN, FAULTS, FifoOutcome, FifoStorm
from rostra.sim.history import SubmissionRecord

LOSS: Final = 0.05
SLICES: Final = 6
MEMBERS_LEAST: Final = 4


class Slice(Struct, frozen=True):
    """One part of the time."""

    until_s: float
    said: int  # messages
    events: int

    @property
    def events_per_message(self) -> float:
        return self.events / max(1, self.said)


class SoakOutcome(Struct, frozen=True):
    talk: FifoOutcome
    slices: tuple[Slice, ...]


class Soak(FifoStorm):
    EVERY_S = (0.5, 1.0, 2.0)
    BYTES_PER_S = 2_000

    def __init__(self, seed: int, *, for_s: float = 3600.0) -> None:
        super().__init__(seed, faults=0.35)
        self.for_s = for_s
        self.pauses = Random(f"soak {seed}")

    def soak(self) -> SoakOutcome:
        world = self.world
        world.settle()
        world.lose(LOSS)
        slices = [self._slice(self.for_s / SLICES) for _ in range(SLICES)]
        return SoakOutcome(self._end(), tuple(slices))

    def _slice(self, for_s: float) -> Slice:
        world = self.world
        until, said, events = world.now + for_s, self._said(), world.events
        while world.now < until:
            while len(self._talking("joining", "in")) < MEMBERS_LEAST:
                self._join()
            world.run(self.pauses.uniform(1.0, 20.0))
            deed = self.luck.choice(FAULTS if self.luck.random() < self.faults else CHURN)
            getattr(self, f"_{deed}")()
            world.run(self.pauses.uniform(0.0, 12.0))
            self._repair()
        return Slice(world.now, self._said() - said, world.events - events)

    def _repair(self) -> None:
        self.world.heal()
        self._go_on()
        self._restart()
        self._resume()
        self.world.lose(LOSS)

    def _said(self) -> int:
        assert self.world.history is not None
        return sum(record.run.count for record in self.world.history if isinstance(record, SubmissionRecord))


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
