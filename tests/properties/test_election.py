"""The replicas of a domain, all together: through kills, cuts, pauses and restarts, and when the sky clears.

Safety while it blows: `VoterNet` watches every step. Liveness afterwards: one leads, all others follow it.
"""

from collections import Counter
from itertools import combinations

import pytest
from support.seeds import seeds
from support.voternet import NOTICE_S, VoterNet

from rostra.names import Domain
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.election.events import Committed, Follow, Lead, Resign

PAUSE_S_MAX = 3.0
SETTLED_S = 8.0
"""Give up who is gone, meet who is back, an attempt by each, and a second one."""

ATTEMPT_S_MAX = ElectionConfig().again_s(4) + PAUSE_S_MAX + 1.0


def storm(net: VoterNet, for_s: float) -> None:
    until = net.now + for_s
    while net.now < until:
        path = net.random.choice(net.paths)
        match net.random.choice(
            ("kill", "restart", "restart", "cut", "isolate", "heal", "heal", "pause", "leader")
        ):
            case "kill":
                net.kill(path)
            case "restart":
                net.restart(path)
            case "cut":
                net.cut(*net.random.sample(net.paths, 2))
            case "isolate":
                net.isolate(path)
            case "heal":
                net.heal()
            case "pause":
                net.pause(path, net.random.uniform(0.1, PAUSE_S_MAX))
            case "leader":
                for leader in net.leaders():
                    net.random.choice((net.kill, net.restart, net.isolate))(leader)
        for _ in range(net.random.randrange(4)):
            net.run(net.random.choice((0.0, 0.01, 0.02, 0.3, 1.0)))
            net.change()
        net.run(net.random.choice((0.005, 0.05, 0.5, 2.0)))


def terms_that_did_not_grow(net: VoterNet) -> list[str]:
    """At each replica through all its lives; and everywhere, of elections that were not at the same time."""
    found, latest, leads = [], Counter[Domain](), []
    for at, path, effect in net.history:
        match effect:
            case Lead(term):
                if term <= latest[path]:
                    found.append(f"{path} leads in term {term} after {latest[path]}")
                found += [
                    f"{path} leads in term {term} long after {before}"
                    for when, before in leads
                    if before >= term and when < at - ATTEMPT_S_MAX
                ]
                leads.append((at, term))
                latest[path] = term
            case Follow(_, term):
                if term < latest[path]:
                    found.append(f"{path} follows term {term} after {latest[path]}")
                latest[path] = term
    return found


def assert_nothing_broke(net: VoterNet) -> None:
    assert net.broken == []
    assert net.lost() == []
    assert terms_that_did_not_grow(net) == []


@pytest.mark.spec("C-160", "C-161")
@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", seeds(30))
def test_a_storm_makes_no_two_leaders_of_one_term_and_loses_nothing_and_calm_makes_one(
    count: int, seed: int
) -> None:
    net = VoterNet(count, seed)
    net.run(net.random.choice((0.0, 3.0)))
    storm(net, 60.0)
    assert_nothing_broke(net)

    dead = set(net.random.sample(net.paths, (count - 1) // 2))
    for path in net.paths:
        if path in dead:
            net.kill(path)
        elif path not in net.voters:
            net.restart(path)
    net.heal()
    net.run(PAUSE_S_MAX + SETTLED_S)

    leaders, settled = net.leaders(), len(net.history)
    assert len(leaders) == 1, leaders
    assert {voter.core.leader for voter in net.voters.values()} == set(leaders)
    assert len({net.disks[path].kept for path in net.voters}) == 1
    net.change()
    net.run(10.0)
    assert all(isinstance(effect, Committed) for _, _, effect in net.history[settled:]), "calm stays calm"
    assert len({net.disks[path].kept for path in net.voters}) == 1
    keys = net.disks[leaders[0]].keys()
    assert not [commit for commit in net.commits if net.lacks(keys, *commit[1:])]
    assert_nothing_broke(net)


@pytest.mark.spec("C-160")
@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("seed", seeds(10))
def test_when_the_leader_dies_another_leads_two_seconds_after_it_was_given_up(count: int, seed: int) -> None:
    net = VoterNet(count, seed)
    net.run(5.0)
    (leader,) = net.leaders()

    net.kill(leader)
    net.run(NOTICE_S[1] + 2.0)

    (other,) = net.leaders()
    assert other != leader
    assert {voter.core.leader for voter in net.voters.values()} == {other}
    assert_nothing_broke(net)


@pytest.mark.spec("C-160")
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("seed", seeds(10))
def test_a_minority_never_leads_and_its_return_changes_nothing(count: int, seed: int) -> None:
    net = VoterNet(count, seed)
    net.run(5.0)
    (leader,) = net.leaders()
    few = [path for path in net.paths if path != leader][: count // 2]
    quiet = len(net.history)

    for path in few:
        net.isolate(path)
    net.run(20.0)
    net.heal()
    net.run(5.0)

    assert net.leaders() == [leader]
    assert {path for _, path, _ in net.history[quiet:]} == set(few)
    assert all(isinstance(effect, Follow) for _, _, effect in net.history[quiet:])


@pytest.mark.spec("C-160")
@pytest.mark.parametrize("seed", seeds(10))
def test_a_leader_that_is_cut_off_resigns_and_the_majority_has_another(seed: int) -> None:
    net = VoterNet(5, seed)
    net.run(5.0)
    (leader,) = net.leaders()

    net.isolate(leader)
    net.run(NOTICE_S[1] + 2.0)
    (other,) = net.leaders()
    assert other != leader
    assert any(isinstance(effect, Resign) and path == leader for _, path, effect in net.history)
    net.heal()
    net.run(3.0)
    assert net.leaders() == [other]
    assert_nothing_broke(net)


@pytest.mark.spec("C-161")
@pytest.mark.parametrize("seed", seeds(10))
def test_a_leader_that_was_stopped_and_revived_resigns_before_anything_else(seed: int) -> None:
    net = VoterNet(3, seed)
    net.run(5.0)
    (old,) = net.leaders()

    net.pause(old, 4.0)
    net.run(3.9)
    (new,) = set(net.leaders()) - {old}
    awake = len(net.history)
    net.run(0.101)
    assert net.leaders() == [new], "it resigned as it awoke"
    assert net.history[awake][1:] == (old, Resign(net.disks[old].ballot.term, "stood still"))
    net.run(3.0)
    assert net.leaders() == [new]
    assert net.voters[old].core.leader == new
    assert_nothing_broke(net)


@pytest.mark.spec("C-160")
@pytest.mark.parametrize("seed", seeds(10))
def test_a_voter_that_lost_only_its_link_to_the_leader_disturbs_nobody(seed: int) -> None:
    net = VoterNet(3, seed)
    net.run(5.0)
    (leader,) = net.leaders()
    lonely = next(path for path in net.paths if path != leader)
    quiet = len(net.history)

    net.cut(lonely, leader)
    net.run(30.0)

    assert net.leaders() == [leader]
    assert net.history[quiet:] == []
    assert net.voters[lonely].core.leader is None

    net.heal()
    net.run(3.0)
    assert net.leaders() == [leader]
    assert net.voters[lonely].core.leader == leader
    assert [type(effect) for _, _, effect in net.history[quiet:]] == [Follow]


def test_all_pairs_are_linked_when_all_is_well() -> None:
    net = VoterNet(5, 0)
    net.run(3.0)
    for one, other in combinations(net.paths, 2):
        assert other in net.voters[one].core.up and one in net.voters[other].core.up
