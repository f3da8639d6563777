"""Which rows are new, which wait, which are missing: arithmetic on runs of row numbers; no row is read.

Every writer numbers the rows of an epoch from 1 on. They arrive as **runs**, cut anywhere, late, out of order
and more than once. Per writer and epoch there is one **frontier**: everything up to it is in the tables.

        1 ────────────── frontier      first ───── last
        ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ ░░░░░░░ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒
             in the tables       hole        held

A run that touches the frontier is **accepted**; one below it is a **duplicate**; one beyond a hole is
**held** until the hole is filled or **given up**: when nothing else waits to be read and the world has rows
that are `hole_after_us` newer than the held row. A hole that was given up is remembered, and rows of it that
come after all are **late**: they are added to the events, but stays were computed without them.

An epoch is **over** when its `closing` row is below the frontier, and **sealed** when the writer's next epoch
has been there for `hole_after_us`: then its open stays end, as known or unknown, and it does not change
again.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace


class Key(NamedTuple):
    world: str
    writer: str
    epoch: int


class RowRun(Struct, frozen=True):
    """Rows `first` to `last` of one writer and epoch, all there (or said to be dropped), in one source."""

    key: Key
    first: int
    last: int
    rows: int | None  # None if it was cut, so that they are not counted
    began_us: int  # the earliest time in it
    ended_us: int  # the latest time in it
    role: str
    closing: bool  # its last row says that no other follows
    source: str  # a journal's segment, or where it was held


class Piece(Struct, frozen=True):
    """What is taken of a run."""

    run: RowRun
    first: int
    last: int

    @property
    def whole(self) -> bool:
        return (self.first, self.last) == (self.run.first, self.run.last)


class MissingRows(NamedTuple):
    key: Key
    first: int
    last: int


class Epoch(Struct, frozen=True):
    """What is known of one epoch of one writer, all of it from rows in the tables."""

    role: str
    frontier: int
    began_us: int
    ended_us: int
    over: bool = False
    sealed: bool = False
    holes: tuple[tuple[int, int], ...] = ()  # given up, and not filled since
    opened: str = ""  # the directory of `open` with its stays that last; empty if there are none
    open_rows: int = 0  # how many they are

    @property
    def finished(self) -> bool:
        """Its stays have ended; whatever comes now comes too late for them."""
        return self.over or self.sealed


class IngestPlan(Struct):
    accepted: list[Piece]
    late: list[Piece]
    held: list[Piece]
    given_up: list[MissingRows]
    duplicates: int  # runs of which nothing was taken
    epochs: dict[Key, Epoch]


def plan(
    epochs: Mapping[Key, Epoch], arrived: Iterable[RowRun], *, hole_after_us: int, more_waits: bool = False
) -> IngestPlan:
    """What becomes of the runs that arrived (and of those that were held), and what is known then.

    While `more_waits` to be read, nothing is given up: what is missing may be next.
    """
    made = IngestPlan([], [], [], [], 0, dict(epochs))
    by_key: dict[Key, list[RowRun]] = {}
    for run in arrived:
        by_key.setdefault(run.key, []).append(run)
    newest = _newest(epochs, by_key)
    for key in sorted(by_key):
        runs = sorted(by_key[key], key=lambda run: (run.first, -run.last, run.source))
        give_up_us = None if more_waits else newest[key.world] - hole_after_us
        _follow(made, key, runs, give_up_us)
    if not more_waits:
        _seal(made.epochs, newest, hole_after_us)
    return made


def _newest(epochs: Mapping[Key, Epoch], by_key: Mapping[Key, list[RowRun]]) -> dict[str, int]:
    """The newest time of each world, in held rows too."""
    newest: dict[str, int] = {}
    for key, epoch in epochs.items():
        newest[key.world] = max(newest.get(key.world, 0), epoch.ended_us)
    for key, runs in by_key.items():
        newest[key.world] = max(newest.get(key.world, 0), *(run.ended_us for run in runs))
    return newest


def _follow(made: IngestPlan, key: Key, runs: list[RowRun], give_up_us: int | None) -> None:
    """One epoch of one writer. A hole is given up if the row after it is at least as old as `give_up_us`."""
    known = made.epochs.get(key)
    frontier = known.frontier if known else 0
    late, holes = _fill(known.holes if known else (), runs)
    accepted: list[Piece] = []
    place = 0
    while place < len(runs):
        best: RowRun | None = None
        while place < len(runs) and runs[place].first <= frontier + 1:
            run = runs[place]
            if run.last > (best.last if best else frontier):
                best = run
            place += 1
        if best is not None:
            accepted.append(Piece(best, max(best.first, frontier + 1), best.last))
            frontier = best.last
        elif place < len(runs):
            after = runs[place]
            if give_up_us is None or after.began_us > give_up_us:
                break
            holes.append((frontier + 1, after.first - 1))
            made.given_up.append(MissingRows(key, frontier + 1, after.first - 1))
            frontier = after.first - 1
    held: list[Piece] = []
    covered = frontier
    for run in runs[place:]:
        if run.last > covered:
            held.append(Piece(run, max(run.first, covered + 1), run.last))
            covered = run.last
    if known is not None and known.finished:
        late, accepted = [*late, *accepted], []
    made.late += late
    made.accepted += accepted
    made.held += held
    used = {id(piece.run) for piece in (*late, *accepted, *held)}
    made.duplicates += sum(id(run) not in used for run in runs)
    taken = [*late, *accepted]
    if taken:
        made.epochs[key] = _known(known, taken, frontier, tuple(holes))


def _fill(holes: Iterable[tuple[int, int]], runs: list[RowRun]) -> tuple[list[Piece], list[tuple[int, int]]]:
    """Rows of holes that were given up, and what is missing still. Runs are in order of their first row."""
    late: list[Piece] = []
    missing: list[tuple[int, int]] = []
    for first, last in holes:
        for run in runs:
            start, end = max(run.first, first), min(run.last, last)
            if start > end:
                continue
            late.append(Piece(run, start, end))
            if start > first:
                missing.append((first, start - 1))
            first = end + 1
        if first <= last:
            missing.append((first, last))
    return late, missing


def _known(
    known: Epoch | None, taken: list[Piece], frontier: int, holes: tuple[tuple[int, int], ...]
) -> Epoch:
    began_us = min(piece.run.began_us for piece in taken)
    ended_us = max(piece.run.ended_us for piece in taken)
    over = any(piece.run.closing and piece.last == piece.run.last for piece in taken)
    if known is None:
        return Epoch(taken[0].run.role, frontier, began_us, ended_us, over, holes=holes)
    return replace(
        known,
        frontier=frontier,
        began_us=min(known.began_us, began_us),
        ended_us=max(known.ended_us, ended_us),
        over=known.over or over,
        holes=holes,
    )


def _seal(epochs: dict[Key, Epoch], newest: Mapping[str, int], hole_after_us: int) -> None:
    in_order = sorted(epochs)
    for key, later in pairwise(in_order):
        same_writer = (key.world, key.writer) == (later.world, later.writer)
        long_ago = newest[key.world] - epochs[later].began_us >= hole_after_us
        if same_writer and long_ago and not epochs[key].finished:
            epochs[key] = replace(epochs[key], sealed=True)
