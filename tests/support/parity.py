"""The same world shown to the simulator's checkers and, as its journal, to the audits."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from support.journal import Row

from rostra.journal.segments import read
from rostra.sim import checkers, fifo_checkers
from rostra.sim.fifo_storm import FifoStorm
from rostra.sim.history import AnyRecord
from rostra.sim.storm import _journal, _Storm

AUDITED: Final = (
    "per-source-order",
    "stable-truth",
    "watch-complete",
    "both-sides-told",
    "heals-alone",
    "fifo-gap-free",
)
"""What both can judge of one world alone."""

STORM_BOUND_S: Final = 30.0
CALM_BOUND_S: Final = 3.0
"""Enough for a few hosts on fast links."""


def rows_of(directory: Path, world: str) -> list[Row]:
    return [{**row, "world": world} for row in read(directory).to_pylist()]


def slowed(rows: list[Row]) -> list[Row]:
    """As if everything had taken so much longer that what is in time for a calm world is for a storm: so both
    are judged by one bound, and together."""
    began = min(row["at"] for row in rows)
    for row in rows:
        row["at"] = began + (row["at"] - began) * (STORM_BOUND_S / CALM_BOUND_S)
    return rows


def bounds_of(promise: str, bound_s: float) -> float | None:
    return bound_s if promise in ("both-sides-told", "heals-alone") else None


class Compared:
    """What the checkers say of a world, by what its journal holds: who was told of whom, and of questions
    only how many members their answers had."""

    def __init__(self, world: str, history: Iterable[AnyRecord], bound_s: float) -> None:
        records = list(history)
        found = (
            checkers.per_source_order(records, answers=False),
            checkers.stable_truth(records, answers=False),
            checkers.watch_complete(records),
            checkers.both_sides_told(records, bound_s=bound_s),
            checkers.heals_alone(records, bound_s=bound_s),
            fifo_checkers.fifo_gap_free(records),
        )
        self.world = world
        self.bound_s = bound_s
        self.answers: dict[str, str] = {verdict.promise: verdict.answer for verdict in found}
        self.why = {verdict.promise: verdict.why for verdict in found}
        self.rows: list[Row] = []

    def compare(self, promise: str, audited: str) -> Literal["same", "one of them", "different"]:
        """Do both say the same, or had only one of them something to judge? The one counts per host what it
        was told that was new, the other per program everything that it was told."""
        answers = {audited, self.answers[promise]}
        if len(answers) == 1:
            return "same"
        return "one of them" if answers == {"yes", "cannot tell"} else "different"

    @classmethod
    def of_storm(cls, seed: int, shape: str, directory: Path) -> "Compared":
        """A storm with its journal, blown over or not."""
        journal = _journal(directory, f"{shape}-{seed}")
        storm = FifoStorm(seed, journal=journal) if shape == "fifo" else _Storm(seed, shape, journal)
        try:
            storm.blow_over()
        finally:
            storm.world.close()
        assert storm.world.history is not None
        world = f"storm-{shape}-{seed}"
        found = cls(world, storm.world.history, STORM_BOUND_S)
        found.rows = rows_of(directory, world)
        return found
