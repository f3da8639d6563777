"""Groups with a monitor of their own through crashes, cuts, pauses, loss and programs that do not read.

`rostra sim storm --shape monitored --seeds 1000` goes through more of them.
"""

import pytest

from rostra.protocols.atomic import monitor, receiver
from rostra.protocols.claims.agent import ClaimAgent
from rostra.sim.storm import StormFailed, storm


@pytest.mark.spec("A-090", "A-100", "A-101", "A-102", "A-104", "A-105", "A-107", "A-108")
@pytest.mark.parametrize("seed", [7, 12, 322, 818])
def test_members_keep_one_order_through_crashes_and_cuts(seed: int) -> None:
    """In 322 a majority of newcomers was left that knew no member; in 818 a host was excluded from a group
    that was silent afterwards."""
    storm(seed, "monitored")


def failure(seed: int) -> str:
    with pytest.raises(StormFailed) as failed:
        storm(seed, "monitored")
    return failed.value.what


@pytest.mark.spec("A-072")
def test_two_monitors_without_a_majority_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "has_quorum", lambda base, stations: True)
    assert "same-view" in failure(8)


@pytest.mark.spec("A-082")
def test_two_hosts_that_found_one_group_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimAgent, "is_alone", lambda self, group: True)
    assert "one-line" in failure(0)


@pytest.mark.spec("A-045")
def test_the_order_of_arrival_is_found_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """TA1: frames that pass each other on the way."""
    monkeypatch.setattr(receiver, "final_place", lambda config, held, position: held.place)
    assert "total-order" in failure(0)
