"""Agreed groups through crashes, cuts and pauses: same views, one living side, no change lost.

`rostra sim storm --shape views --seeds 1000` goes through more of them.
"""

from collections.abc import Iterable

import pytest
from support.seeds import few_of, seeds

from rostra.core.effects import Effect
from rostra.protocols.agreed import groups, losses, told_views
from rostra.protocols.agreed.changes import AnyChange, ServersFailed
from rostra.protocols.agreed.lanes import Lanes
from rostra.protocols.agreed.moving import MovingServer
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.server import AgreedServer
from rostra.sim.storm import StormFailed, storm

FOUND_SOMETHING = (
    62,
    64,
    93,
    6001992,
    6002436,
    6004250,
    6004863,
    6007010,
    6008795,
    7000974,
    7007207,
    40005391,
    50002498,
)  # eleven of the first fifty did, too


@pytest.mark.parametrize("seed", [*seeds(50), *FOUND_SOMETHING])
def test_views_agree_through_crashes_and_cuts(seed: int) -> None:
    storm(seed, "views")


@pytest.mark.parametrize("seed", [*few_of(10, 20), 29, 255, 257, 720012])
def test_groups_move_through_crashes_and_cuts(seed: int) -> None:
    storm(seed, "moves")


@pytest.mark.parametrize("seed", few_of(5, 8))
def test_groups_change_at_once_through_crashes_and_cuts(seed: int) -> None:
    storm(seed, "lanes")


def test_a_core_set_that_does_not_ask_hosts_about_a_group_that_came_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MovingServer, "_ask_holdings", lambda self, message, out: [])
    assert "every-change" in first_failure(range(4), "moves")


def first_failure(tried: Iterable[int], shape: str = "views") -> str:
    for seed in tried:
        try:
            storm(seed, shape)
        except StormFailed as failure:
            return failure.what
    return ""


def test_members_of_servers_that_were_cut_off_that_still_count_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = groups._judged
    monkeypatch.setattr(groups, "_judged", lambda part, absent=(), **more: judged(part, (), **more))
    assert "one-living" in first_failure((3, 16, 20, 21))


def test_a_parent_that_removes_whom_it_still_reaches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where groups move. It tells them no view from then on."""
    look_at = MovingServer._look_at

    def lose(self: MovingServer, core: CoreSet, change: AnyChange, out: list[Effect]) -> None:
        look_at(self, core, change, out)
        if core.is_parent and isinstance(change, ServersFailed):
            self._lose([each.server for each in change.failed], out)

    monkeypatch.setattr(MovingServer, "_look_at", lose)
    assert "same-view" in first_failure((4, 6))


def test_lanes_that_do_not_wait_for_changes_of_the_whole_set_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lanes, "_obstacle", lambda self: None)
    found = first_failure(range(2), "lanes")
    assert "every-change" in found or "same-view" in found  # whichever is looked at first


def test_ranks_that_differ_from_host_to_host_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = told_views.listed
    monkeypatch.setattr(told_views, "listed", lambda members: tuple(sorted(listed(members))))
    assert "same-view" in first_failure(range(6))


def test_a_lost_host_that_nobody_removes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "remove_lost", lambda server, now, out: server._lost.clear())
    monkeypatch.setattr(AgreedServer, "_excuse", lambda self, core, out: None)
    monkeypatch.setattr(AgreedServer, "_has_gone", lambda self, id, group: False)
    assert "every-change" in first_failure(range(12))
