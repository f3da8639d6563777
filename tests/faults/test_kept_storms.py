"""Groups with ``stable="disk"`` through crashes of all hosts at once.

`rostra sim storm --shape kept --seeds 1000` goes through more of them.
"""

import pytest

from rostra.protocols.atomic import hub_flush
from rostra.sim.storm import StormFailed, storm


@pytest.mark.spec("A-100", "A-102")
@pytest.mark.parametrize("seed", [0, 11])
def test_what_any_member_was_given_is_given_again_when_all_were_lost(seed: int) -> None:
    storm(seed, "kept")


def test_hosts_that_go_on_without_most_of_the_last_view_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_flush, "waits_for", lambda *_: "")
    with pytest.raises(StormFailed, match="on-disk"):
        storm(ALONE, "kept")


ALONE = 12
