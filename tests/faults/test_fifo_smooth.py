"""Joins disturb nothing, whatever is lost: pairs of runs with one seed, with others who come and go and
without them, compared interval by interval (`spec/xpand.md`, 8.3)."""

import pytest

from benchmarks.xpand_sim import smooth


@pytest.mark.spec("X-002")
@pytest.mark.parametrize(("tree", "loss"), [("star", 0.01), ("chain", 0.05), ("chain", 0.1), ("star", 0.2)])
def test_no_interval_grows_because_others_join_and_leave_whatever_is_lost(tree, loss):
    found = smooth(1, loss, tree, for_s=30.0)
    assert found.intervals > 250
    assert found.longest_alone_ms > 150.0, "something was lost and repaired"
    assert found.grown_ms <= 5.0 and found.later_ms <= 5.0 and found.distance < 0.02
