"""Histories of a replicated object and of a lock under faults; and that a broken build is caught.
``make histories`` runs hours of them."""

from tests.faults.histories import Histories


def wrong(run: Histories) -> set[str]:
    return {name for name, found in run.findings() if found.ok is False}


def test_answers_under_faults_fit_one_order() -> None:
    run = Histories(2).run(50)

    assert run.count > 300 and run.in_doubt and len(run.deeds) > 2
    assert not wrong(run)


def test_a_store_that_ignores_fences_is_caught_and_one_that_checks_them_is_not() -> None:
    """An agent stands still for longer than its lease: its program holds the lock on, and writes too late."""

    def run(seed: int, is_fenced: bool) -> Histories:
        pauses = Histories(seed, is_fenced=is_fenced, deeds=("pause",), lasts_s=(12.0,), holds_s=(10.0,))
        return pauses.run(120, callers=0)

    caught = next(seed for seed in range(4, 12) if wrong(run(seed, False)) == {"store"})
    fenced = run(caught, True)

    assert fenced.refused and not wrong(fenced)
