"""Where nothing is wrong nothing is called broken: `make clean-history`, small.

One life of a cut and healed world with a crowd on one host, shown whole, and with clocks off and two lost
tails; and journals by hand, each the least in which a missing row once was held against its readers.
"""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from support.by_hand import served, unkept
from support.clean import clean_worlds
from support.court import Court, quiet
from support.parity import STORM_BOUND_S, bounds_of
from support.segments import SCHEMA

from rostra.history.audits.clocks import _apart
from rostra.journal.entries import OBSERVERS_MAX

SEED = 4
"""Its world with clocks off and two lost tails was called broken, for three reasons."""

SECOND = 1_000_000

BY_HAND = {
    "a-server-that-ceased-to-write": served("a-server-that-ceased-to-write"),
    "a-link-whose-return-is-lost": served("a-link-whose-return-is-lost", blinked=True),
    "a-cut-that-both-ends-lost": served("a-cut-that-both-ends-lost", cut=True),
    "a-life-of-which-no-file-is-here": unkept("a-life-of-which-no-file-is-here"),
}

CRASHED = "a-server-that-came-back-and-a-merge-that-did-not"


class Brought:
    def __init__(self, directory: Path) -> None:
        lives = [
            (world, rows)
            for world, rows in clean_worlds(SEED, directory, OBSERVERS_MAX + 2)
            if not world.endswith(("clocks", "tails"))
        ]
        self.worlds = [world for world, _ in lives]
        cases = (*(shown for _, shown in lives), *BY_HAND.values(), served(CRASHED, crashed=True))
        self.table = pa.Table.from_pylist(quiet([row for case in cases for row in case]), SCHEMA)


@pytest.mark.parametrize(
    "promise",
    [
        *("per-source-order", "stable-truth", "watch-complete", "both-sides-told", "why"),
        *("heals-alone", "fifo-gap-free", "smooth-join"),
    ],
)
def test_no_promise_is_called_broken_where_nothing_is(promise: str, court: Court) -> None:
    found = court.verdicts(promise, bounds_of(promise, STORM_BOUND_S))
    for world in court.brought[__name__].worlds:
        assert found[world].answer != "no", found[world]
    if promise not in ("heals-alone", "smooth-join"):
        whole, *_ = court.brought[__name__].worlds
        assert (found[whole].answer, found[whole].share) == ("yes", 1.0), found[whole]


@pytest.mark.parametrize("promise", ["stable-truth", "both-sides-told", "watch-complete", "why"])
@pytest.mark.parametrize("world", BY_HAND)
def test_rows_that_cease_say_nothing_of_what_came_after_them(world: str, promise: str, court: Court) -> None:
    verdict = court.verdicts(promise)[world]
    assert verdict.broken == 0 and verdict.doubts > 0, verdict


@pytest.mark.parametrize("promise", ["stable-truth", "heals-alone"])
def test_a_tail_that_a_server_lost_excuses_nothing_once_it_is_back(promise: str, court: Court) -> None:
    verdict = court.verdicts(promise, bounds_of(promise, STORM_BOUND_S))[CRASHED]
    assert (verdict.answer, verdict.doubts) == ("no", 1) and "us.h1" in verdict.why, verdict


def test_clocks_are_compared_by_all_meetings_and_by_the_first_where_later_ones_are_lost() -> None:
    ours = [at * SECOND for at in (0, 96, 300)]
    for ahead_s in (0, 30, -96, 96, 1000):
        theirs = [at + ahead_s * SECOND for at in ours]
        assert _apart(ours, theirs, True) == _apart(ours, theirs, False) == ahead_s * SECOND
        assert _apart(ours, theirs[:1], True) == ahead_s * SECOND  # its tail is lost
        assert _apart(ours, [theirs[0], theirs[2]], True) == ahead_s * SECOND  # it did not notice the second
    apart = [later - earlier for earlier, later in pairwise(ours)]
    assert _apart(ours, ours[1:2], False) == 0 and _apart(ours, ours[1:2], True) == apart[0]
