"""Storms and scenarios can fail: each of these bugs, planted in a server, is found by them."""

from collections.abc import Callable

import msgspec
import pytest
from faults import test_acceptance as scenarios
from support.scene import Scene

from rostra.protocols.links import core as links
from rostra.protocols.relaxed import collection, domain, interest, local, neighbours, resolves, view
from rostra.sim.storm import StormFailed, storm

Plant = Callable[[pytest.MonkeyPatch], None]


def tells_nobody_inside_what_the_outside_wants(patch: pytest.MonkeyPatch) -> None:
    """C-098."""
    apply = domain.DomainServer._apply
    patch.setattr(
        domain.DomainServer,
        "_apply",
        lambda self, group, shift: apply(self, group, msgspec.structs.replace(shift, inward=None)),
    )


def keeps_the_lost_in_open_answers(patch: pytest.MonkeyPatch) -> None:
    """T-23."""
    patch.setattr(collection.Collection, "lose", lambda self, part: None)


def counts_only_those_who_were_asked(patch: pytest.MonkeyPatch) -> None:
    """T-25."""
    init, counts = collection.Collection.__init__, collection.Collection.counts
    asked: dict[int, set[str]] = {}

    def remember(self, *args, **named):
        init(self, *args, **named)
        asked[id(self)] = set(self.waiting)

    patch.setattr(collection.Collection, "__init__", remember)
    patch.setattr(
        collection.Collection,
        "counts",
        lambda self, peer, side: counts(self, peer, side) and peer in asked[id(self)],
    )


def announces_nothing_when_the_link_comes_up(patch: pytest.MonkeyPatch) -> None:
    """T-43, the other way round: a reconnected agent behaves as a restarted one."""
    link_up = local.LocalServer._link_up

    def silent(self, *args):
        groups, self.groups = self.groups, {}
        link_up(self, *args)
        self.groups = groups

    patch.setattr(local.LocalServer, "_link_up", silent)


def ignores_that_a_domain_is_lost(patch: pytest.MonkeyPatch) -> None:
    """C-062, C-063, in the endpoints' library."""
    patch.setattr(view.GroupView, "filter", lambda self, notice: [])


def passes_no_change_on_to_siblings(patch: pytest.MonkeyPatch) -> None:
    """C-125."""
    patch.setattr(interest.InterestTable, "outer_listeners", lambda self, group: ())


def ends_epochs_for_one_side_only(patch: pytest.MonkeyPatch) -> None:
    """T-30: whoever gives a peer up keeps its session, so the peer never learns of it."""
    leave = links.Link._leave

    def keep_session(self, now, what):
        mine = self._mine
        reports = leave(self, now, what)
        if what == "silent":
            self._mine = mine
        return reports

    patch.setattr(links.Link, "_leave", keep_session)


def shares_any_open_question(patch: pytest.MonkeyPatch) -> None:
    """T-19."""
    patch.setattr(
        resolves.OpenResolve, "can_be_shared", lambda self, now: self.kind is resolves.QueryKind.RESOLVE
    )


def counts_those_who_still_owe_their_answer(patch: pytest.MonkeyPatch) -> None:
    """T-26."""
    patch.setattr(
        collection.Collection,
        "counts",
        lambda self, peer, side: side is self.side and peer != self.besides,
    )


def believes_old_knowledge_after_a_rise(patch: pytest.MonkeyPatch) -> None:
    """T-20."""
    patch.setattr(neighbours.Neighbours, "outer_set", lambda self, group: frozenset())


PLANTS: list[tuple[Plant, str]] = [
    (tells_nobody_inside_what_the_outside_wants, "uneven"),
    (keeps_the_lost_in_open_answers, "pair"),
    (counts_only_those_who_were_asked, "pair"),
    (announces_nothing_when_the_link_comes_up, "pair"),
    (ignores_that_a_domain_is_lost, "pair"),
    (passes_no_change_on_to_siblings, "pair"),
    (ends_epochs_for_one_side_only, "pair"),
]


SOONEST = 46
"""The first storm that finds the rarest of them, as the code is now; if it changes, others are asked."""


@pytest.mark.parametrize(("plant", "shape"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_is_found(plant: Plant, shape: str, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch)
    with pytest.raises(StormFailed):
        for seed in (SOONEST, *range(150)):
            storm(seed, shape)


RACES: list[tuple[Plant, Callable[[Scene], None]]] = [
    (
        believes_old_knowledge_after_a_rise,
        scenarios.test_interest_rises_at_the_moment_somebody_joins_far_away,
    ),
    (shares_any_open_question, scenarios.test_a_joiner_does_not_share_an_older_question),
    (counts_only_those_who_were_asked, scenarios.test_the_first_join_in_a_pruned_branch_is_in_the_answer),
    (
        counts_those_who_still_owe_their_answer,
        scenarios.test_a_join_overtaken_by_a_gap_in_interest_leaves_no_ghost,
    ),
]


@pytest.mark.parametrize(("plant", "scenario"), RACES, ids=[plant.__name__ for plant, _ in RACES])
def test_a_race_that_a_planted_bug_loses_is_lost(plant, scenario, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(12):
            scenario(Scene(seed))
