"""Histories of a replicated object and of a lock under faults; and that a broken build is caught.
``make histories`` runs hours of them."""

from tests.faults.histories import Histories


def test_answers_under_faults_fit_one_order() -> None:
    run = Histories(1).run(60)

    assert run.count > 300 and len(run.deeds) > 2
    assert not [(name, found) for name, found in run.findings() if not found]


def test_a_store_that_ignores_fences_is_caught_and_one_that_checks_them_is_not() -> None:
    """An agent stands still for longer than its lease: its program holds the lock on, and writes too late."""
    findings: dict[bool, set[str]] = {True: set(), False: set()}
    for is_fenced in findings:
        for seed in (1, 5):
            run = Histories(
                seed, is_fenced=is_fenced, deeds=("pause",), lasts_s=(12.0,), holds_s=(10.0,)
            ).run(120, callers=0)
            findings[is_fenced] |= {name for name, found in run.findings() if found.ok is False}

    assert findings == {True: set(), False: {"store"}}
