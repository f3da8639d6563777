"""A long time of ordinary trouble in one world of groups that speak: the storm that goes on for an hour.

    peace ── a deed: joins, leaves, kills, pauses, or a cut, a dead server ──▶ repaired soon ──▶ peace ...

A twentieth of everything is lost throughout, and messages have from 16 bytes to 100 kB. In the end all that a
talk storm asks for must hold; and an hour must cost what its messages cost: the world is cut into slices, and
the events of each are counted. If something piled up, or was gone through again and again, later slices would
take more events for each message than earlier ones.
"""

from random import Random
from typing import Final

from msgspec import Struct

from rostra.sim.history import SubmissionRecord
from rostra.sim.talk_storm import CHURN, FAULTS, TalkOutcome, TalkStorm

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
    talk: TalkOutcome
    slices: tuple[Slice, ...]


class Soak(TalkStorm):
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
