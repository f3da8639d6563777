"""First members of several kinds, all at once and through takeovers: one kind at every moment.

`rostra sim storm --shape claims --seeds 1000` goes through more of them.
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from support.seeds import few_of

from rostra.core.secure import WaitingEffects
from rostra.protocols.claims.server import ClaimServer
from rostra.protocols.claims.table import ClaimTable
from rostra.protocols.front.core import FrontCore
from rostra.sim.storm import StormFailed, storm

TRIED = range(10)
ISOLATED = (32, 95, 145)
"""In these a leader is cut off from the other replicas just when it takes a claim."""


@pytest.mark.parametrize("seed", few_of(6, 12))
def test_first_members_of_two_kinds_end_as_one(seed: int) -> None:
    storm(seed, "claims")


@pytest.mark.parametrize("seed", [*few_of(4, 6), 15])
def test_disks_may_fill_and_drain_meanwhile(seed: int) -> None:
    storm(seed, "disks")


def first_failure(tried: Iterable[int] = TRIED, shape: str = "claims") -> str:
    for seed in tried:
        try:
            storm(seed, shape)
        except StormFailed as failure:
            return failure.what
    return ""


def test_an_answer_that_does_not_wait_for_a_majority_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitingEffects, "must_wait", lambda self, effect: False)
    assert "chess@eu has" in first_failure(ISOLATED)


def test_a_server_that_goes_on_without_room_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = WaitingEffects.room_changed
    monkeypatch.setattr(WaitingEffects, "room_changed", lambda self, lacking: changed(self, ""))
    assert "on a full disk" in first_failure((26,), "disks")


def test_a_claim_that_nobody_writes_down_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    put = ClaimTable.records_of
    monkeypatch.setattr(ClaimTable, "records_of", lambda self, name, host: put(self, name, host)[:0])
    assert "chess@eu" in first_failure()


def test_a_release_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimTable, "release", lambda self, name, host, permanent: [])
    assert "chess@eu is " in first_failure()


def test_a_front_that_forgets_the_rule_of_an_agreed_group_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agreed members join as in production, and groups may differ in their rule alone."""
    join = FrontCore.join_agreed

    def forgetful(self, session, token, endpoint, asked, *, is_new):
        join(self, session, token, endpoint, replace(asked, survive=""), is_new=is_new)

    monkeypatch.setattr(FrontCore, "join_agreed", forgetful)
    assert "chess@eu" in first_failure()


def test_a_second_kind_that_is_let_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = ClaimServer._decide

    def generous(self, message):
        *before, answer = decide(self, message)
        kind = getattr(message, "group_kind", None)
        return [*before, type(answer)(answer.id, answer.claimer, answer.group, kind, answer.birth)]

    monkeypatch.setattr(ClaimServer, "_decide", generous)
    found = first_failure()
    assert "has members of" in found or "is in chess@eu as" in found
