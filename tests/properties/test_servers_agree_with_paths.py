"""Real servers against a model that only knows paths (C-070..C-073, C-103, C-146).

Each seed is a random life of a small world: see `support.churn`. Every step is checked for the invariants
of C-159, every message for its scope (C-009), its path (C-019) and invented members (C-075), every notice
for the order of its source (C-067), and every silence for views, answers, rows, interest, registries, and
open business.
"""

import pytest
from msgspec.structs import replace
from support.churn import churn
from support.tref import DEEP, ONE_CLUSTER, PAIR, ROOT_CLUSTER, T_REF, UNEVEN

from rostra.protocols.relaxed.collection import Collection
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.interest import InterestTable

EVERY = pytest.mark.spec(
    "C-009", "C-067", "C-070", "C-071", "C-072", "C-075", "C-103", "C-146", "C-159", "C-183"
)


@EVERY
@pytest.mark.parametrize("seed", range(30))
def test_the_reference_tree(seed):
    churn(T_REF, seed, rounds=2)


@EVERY
@pytest.mark.parametrize("seed", range(50))
def test_a_tree_with_clusters_at_three_depths(seed):
    churn(UNEVEN, seed)


@EVERY
@pytest.mark.parametrize("seed", range(30))
def test_a_deep_tree(seed):
    churn(DEEP, seed)


@EVERY
@pytest.mark.parametrize("seed", range(50))
def test_two_clusters(seed):
    churn(PAIR, seed)


@EVERY
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(
    "tree", [ONE_CLUSTER, ROOT_CLUSTER], ids=["one cluster", "a world that is a cluster"]
)
def test_a_single_cluster(tree, seed):
    churn(tree, seed)


def finds_something(tree, seeds) -> bool:
    for seed in seeds:
        try:
            churn(tree, seed, rounds=2)
        except AssertionError:
            return True
    return False


def test_the_comparison_finds_joins_that_do_not_correct_open_collections(monkeypatch):
    monkeypatch.setattr(Collection, "counts", lambda self, peer, side: False)
    assert finds_something(UNEVEN, range(30))


def test_the_comparison_finds_losses_that_are_not_taken_out_of_open_collections(monkeypatch):
    monkeypatch.setattr(Collection, "lose", lambda self, part: None)
    assert finds_something(UNEVEN, range(60))


def test_the_comparison_finds_merges_that_do_not_happen(monkeypatch):
    monkeypatch.setattr(DomainServer, "_merge", lambda self, *what: None)
    assert finds_something(UNEVEN, range(30))


def test_the_comparison_finds_interest_that_is_not_told_inward(monkeypatch):
    reconsider = InterestTable.reconsider
    monkeypatch.setattr(
        InterestTable, "reconsider", lambda self, group: replace(reconsider(self, group), inward=None)
    )
    assert finds_something(UNEVEN, range(30))
