"""Agreed groups with ``delivery="atomic"`` through crashes, cuts, pauses, loss and programs that do not read.

`rostra sim storm --shape order --seeds 1000` goes through more of them.
"""

from collections.abc import Iterable

import pytest

from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.atomic import hub_flush, logs, receiver
from rostra.protocols.atomic.hub import Station
from rostra.protocols.atomic.hub_early import HubEarly
from rostra.protocols.atomic.messages import HubReport, StationId
from rostra.sim.order_storm import OrderStorm
from rostra.sim.storm import StormFailed, storm
from rostra.sim.view_storm import LEDGER

FOUND_SOMETHING = (8, 10, 13, 17, 151, 720100, 3000572, 4000103)
"""Even ones with ``stable="majority"``."""

SENT = (81, 717, 1245)
"""Every twelfth one from 9 on has ``stable="sent"``."""

NEGOTIATED = (4, 34, 740044, 3001044)
"""Every fifth one is in the order of the paper."""


@pytest.mark.spec("A-100", "A-101", "A-102", "A-104", "A-105", "A-108")
@pytest.mark.parametrize("seed", [*FOUND_SOMETHING, *SENT, *NEGOTIATED])
def test_members_keep_one_order_through_crashes_and_cuts(seed: int) -> None:
    storm(seed, "order")


@pytest.mark.parametrize("seed", [101, 30010])
def test_they_keep_it_where_stations_report_before_a_view_is_agreed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one such view is agreed, in the other one is given up, too."""
    monkeypatch.setattr(OrderStorm, "agreed", AgreedConfig(early_flush=True))
    monkeypatch.setattr(OrderStorm, "joined", (LEDGER,))
    used: list[int] = []
    before = HubEarly._reports_before

    def counted(self: HubEarly) -> dict[StationId, HubReport]:
        reports = before(self)
        used.append(len(reports))
        return reports

    monkeypatch.setattr(HubEarly, "_reports_before", counted)
    storm(seed, "order")
    assert max(used) > 1


@pytest.mark.parametrize("seed", [60051])
def test_members_of_one_group_with_a_majority_that_stops_and_goes_on_are_shown_what_is_so(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view is in the log, and its members were not given it yet: they have not joined with the next one."""
    monkeypatch.setattr(OrderStorm, "joined", (LEDGER,))
    storm(seed, "order")


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "order")
        except StormFailed as failure:
            return failure.what
    return ""


def test_messages_that_are_delivered_before_they_are_stable_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(self: Station) -> bool:
        self.accept, before = self.log.next, self.accept
        return self.accept > before

    monkeypatch.setattr(Station, "_advance", at_once)
    assert "all-or-none" in first_failure([75])


@pytest.mark.spec("A-045")
def test_the_order_of_arrival_is_found_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """TA1: frames that pass each other on the way."""
    monkeypatch.setattr(receiver, "final_place", lambda config, held, position: held.place)
    assert "total-order" in first_failure([4])


def test_a_log_of_an_excluded_station_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hub_flush, logs):
        monkeypatch.setattr(module, "is_prefix", lambda *_: True)
    assert "same-view" in first_failure([16])  # a member sees itself among the failed
