"""Led groups through crashes, cuts and pauses: one leader, an exact list, no cycle.

`rostra sim storm --shape sets --seeds 1000` goes through more of them.
"""

import re
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from support.seeds import few_of

from rostra.core.room import SharedRoom
from rostra.protocols.led.agent import LedAgent
from rostra.protocols.led.core import REPORT, TreeCore
from rostra.protocols.led.sequences import Sequences
from rostra.protocols.led.transient import TransientSets
from rostra.sim.set_storm import MOVE_S
from rostra.sim.storm import StormFailed, storm


@pytest.mark.spec("S-066", "S-067", "S-068", "S-069", "S-070", "S-071")
@pytest.mark.parametrize("seed", [*few_of(8, 12), 900171, 901161, 909222])
def test_led_groups_have_one_leader_and_an_exact_list_after_crashes_and_cuts(seed: int) -> None:
    storm(seed, "sets")


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "sets")
        except StormFailed as failure:
            return failure.what
    return ""


def test_children_that_are_lost_and_stay_listed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeCore, "_drop_child", lambda self, peer, up, out: None)
    assert first_failure(range(3))


@pytest.mark.spec("S-069")
def test_a_list_that_waits_until_nothing_changes_any_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-4 alone is broken by it: when all others are calm, every list is exact."""
    wishes = TreeCore._wishes_of_standing

    def patient(self: TreeCore) -> dict[str, Any]:
        wanted = wishes(self)
        if REPORT in wanted:
            wanted[REPORT] = replace(wanted[REPORT], about=(self.entries,), after_s=2 * MOVE_S)
        return wanted

    monkeypatch.setattr(TreeCore, "_wishes_of_standing", patient)
    assert "P-4" in first_failure((4,))


def test_a_leader_that_ignores_a_new_registrar_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeCore, "_registrar_changed", lambda self, out: None)
    monkeypatch.setattr(LedAgent, "_calm", lambda self: None)
    assert first_failure(range(4))


def test_members_of_a_program_that_died_are_found_if_they_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedAgent, "_gone", lambda self, me: None)
    assert "P-3" in first_failure((0, 1, 3, 4, 5))


def _nothing(*args: object) -> None:
    pass


@pytest.mark.spec("S-078", "S-079", "S-085")
@pytest.mark.parametrize(
    ("core", "does", "found"),
    [
        (TransientSets, "gone", "eu."),
        (TransientSets, "circuit_up", "eu."),
        (Sequences, "_release", "hosts: "),
        (SharedRoom, "give", "circuits: |sets|questions: |sequences: "),
    ],
)
def test_what_transient_sets_and_sequences_leave_behind_is_found(
    core: type, does: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, does, _nothing)
    assert re.search(found, first_failure((2, 6, 10, 14)))
