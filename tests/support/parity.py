"""The same world shown to the simulator's checkers and, as its journal, to the audits."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from support.journal import Row

from rostra.journal.segments import read
from rostra.protocols.resolve.requests import Gap
from rostra.sim import checkers
from rostra.sim.history import AnyRecord, Told
from rostra.sim.storm import TALK, _journal, _Storm
from rostra.sim.talk_storm import TalkStorm

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


def rows_of(directory: Path, world: str) -> list[Row]:
    return [{**row, "world": world} for row in read(directory).to_pylist()]


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
            checkers.fifo_gap_free(records),
        )
        self.world = world
        self.bound_s = bound_s
        self.answers: dict[str, str] = {verdict.promise: verdict.answer for verdict in found}
        self.why = {verdict.promise: verdict.why for verdict in found}
        self.rows: list[Row] = []
        self._unread = any(isinstance(record, Told) and isinstance(record.notice, Gap) for record in records)

    def agrees(self, promise: str, audited: str) -> bool:
        """Does the audit say what the checker says? `both-sides-told` is judged per host by the one and per
        program by the other: where a program did not read (it got a `Gap`), its host may have been told of
        a cut that was over before the program was told of anything."""
        checked = self.answers[promise]
        told_hosts = promise == "both-sides-told" and self._unread and checked == "cannot tell"
        return audited == checked or (told_hosts and audited == "yes")

    @classmethod
    def of_storm(cls, seed: int, shape: str, directory: Path) -> "Compared":
        """A storm with its journal, blown over or not."""
        journal = _journal(directory, f"{shape}-{seed}")
        storm = TalkStorm(seed, journal=journal) if shape == TALK else _Storm(seed, shape, journal)
        try:
            storm.blow_over()
        finally:
            storm.world.close()
        assert storm.world.history is not None
        world = f"storm-{shape}-{seed}"
        found = cls(world, storm.world.history, STORM_BOUND_S)
        found.rows = rows_of(directory, world)
        return found
