"""Agreed groups with ``delivery="fifo"`` through crashes, cuts, pauses and programs that do not read.

`rostra sim storm --shape spoken --seeds 1000` goes through more of them.
"""

from collections.abc import Iterable

import pytest
from support.seeds import few_of

from rostra.names import Endpoint
from rostra.protocols.agreed import agent
from rostra.protocols.fifo.events import Item
from rostra.protocols.fifo.gate import ReaderGate
from rostra.protocols.fifo.sending import Outbound
from rostra.sim.storm import StormFailed, storm

FOUND_SOMETHING = (87, 98, 192, 213, 391)  # of those beyond the first fifty, of which five did


@pytest.mark.parametrize("seed", [*few_of(8, 20), *FOUND_SOMETHING])
def test_messages_keep_to_their_views_through_crashes_and_cuts(seed: int) -> None:
    storm(seed, "spoken")


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "spoken")
        except StormFailed as failure:
            return failure.what
    return ""


def test_messages_before_their_views_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReaderGate, "passes", lambda self, item: (item,) if hasattr(item, "run") else ())
    assert "view-first" in first_failure(range(6))


def test_a_gate_that_counts_one_view_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ReaderGate._judge

    def judged(self: ReaderGate, stream: Endpoint, item: Item) -> Iterable[Item] | None:
        self.view += 1
        try:
            return judge(self, stream, item)
        finally:
            self.view -= 1

    monkeypatch.setattr(ReaderGate, "_judge", judged)
    assert "view-first" in first_failure(range(30))


def test_a_blocked_side_that_sends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "sending_stopped", lambda *_: [])
    assert "blocked" in first_failure(range(30))


def test_sends_that_stay_blocked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outbound, "send_in", lambda self, view: setattr(self, "view", view))
    assert "fifo-live" in first_failure(range(6))
