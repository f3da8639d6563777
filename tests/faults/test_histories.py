"""Histories of a replicated object and of a lock under faults; and that a broken build is caught.
``make histories`` runs hours of them."""

from typing import Any

import pytest

import rostra.protocols.atomic.hub as hub
from rostra.client.commands import CommandLog
from tests.faults.histories import Histories


def wrong(run: Histories) -> set[str]:
    return {name for name, found in run.findings() if found.ok is False}


def test_answers_under_faults_fit_one_order() -> None:
    run = Histories(2).run(50)

    assert run.count > 300 and run.in_doubt and len(run.deeds) > 2
    assert not wrong(run)


@pytest.mark.long
def test_when_all_who_had_the_newest_view_are_gone_the_rest_is_told() -> None:
    """A member that was out of it came back, and went on with its older state in silence."""
    run = Histories(31).run(520)

    assert run.lost and not wrong(run)


def test_replicas_that_forget_what_they_answered_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a command that is sent again is applied again."""
    apply = CommandLog.apply

    def forgetful(log: CommandLog, position: int, asked: Any, owner: str) -> Any:
        if asked.session in log._sessions:
            log._sessions[asked.session].outcomes = {}
        return apply(log, position, asked, owner)

    monkeypatch.setattr(CommandLog, "apply", forgetful)
    monkeypatch.setattr(CommandLog, "outcome", lambda *_: None)
    found = set[str]()
    for seed in range(1, 5):
        found |= wrong(Histories(seed, deeds=("drop",), slow_s=0.05).run(40, workers=0))
        if found:
            break

    assert found & {"counter, blind", "queue, blind", "register, blind", "counter, witnessed"}


def test_delivery_before_it_is_stable_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the orderer delivers what nobody else has. It is cut off, answers, and crashes."""

    def early(station: Any) -> bool:
        before, station.accept = station.accept, station.log.next
        return bool(station.accept > before)

    monkeypatch.setattr(hub.Station, "_advance", early)
    found = set[str]()
    for seed in range(1, 5):
        found |= wrong(
            Histories(seed, deeds=("lonely crash",), every_s=4.0, lasts_s=(4.0,)).run(60, workers=0)
        )
        if any(name.endswith("witnessed") for name in found):
            break

    assert any(name.endswith("witnessed") for name in found)


def test_a_store_that_ignores_fences_is_caught_and_one_that_checks_them_is_not() -> None:
    """An agent stands still for longer than its lease: its program holds the lock on, and writes too late."""

    def run(seed: int, is_fenced: bool) -> Histories:
        pauses = Histories(seed, is_fenced=is_fenced, deeds=("pause",), lasts_s=(12.0,), holds_s=(10.0,))
        return pauses.run(120, callers=0)

    caught = next(seed for seed in range(4, 12) if wrong(run(seed, False)) == {"store"})
    fenced = run(caught, True)

    assert fenced.refused and not wrong(fenced)
