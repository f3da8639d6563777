"""All kinds of groups in one world, through crashes, cuts, pauses and loss.

`rostra sim storm --shape strong --seeds 1000` goes through more of them.
"""

import pytest

from rostra.protocols.atomic import receiver
from rostra.protocols.atomic.hub import Station
from rostra.sim.storm import StormFailed, storm


@pytest.mark.spec("A-008", "A-100", "A-101")
@pytest.mark.parametrize("seed", [2, 4])
def test_no_kind_of_group_breaks_another(seed: int) -> None:
    storm(seed, "strong")


def test_the_order_of_arrival_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "final_place", lambda config, held, position: held.place)
    with pytest.raises(StormFailed, match="total-order"):
        storm(9, "strong")


def test_a_station_that_forgets_what_its_members_said_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Station, "_hand_up", lambda self, out: None)
    with pytest.raises(StormFailed, match="order-live"):
        storm(9, "strong")
