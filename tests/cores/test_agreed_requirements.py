"""Rules of paper 001 that other tests pass without: each was left out once, and the test here turned red."""

import pytest
from support.setnet import CHESS, SET, SetNet, join, server

from rostra.core.effects import LinkDown, Received
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.agreed.changes import GroupChange, GroupVerb, same_event
from rostra.protocols.agreed.messages import Commit, SetEvidence
from rostra.protocols.agreed.state import Electing


def lose(net: SetNet, at: str, peer: str) -> None:
    net.step(at, LinkDown(Domain(peer), Because(Domain(at), Domain(peer), "silent")))


@pytest.mark.spec("V-081", "V-082")
def test_a_commit_of_a_coordinator_that_we_isolated_waits_for_the_election() -> None:
    net = SetNet("abcd")
    net.drops = lambda sender, to, message: isinstance(message, Commit) and sender == "a" and to in "bd"
    net.ask("a", join("ann"))
    net.flow()
    net.crash("a", seen=False)
    lose(net, "b", "a")
    net.deliver("b", "c")
    while net.lanes["c", "b"]:
        net.deliver("c", "b")
    assert isinstance(net.cores["b"].state.phase, Electing) and net.commits("b") == []
    for each in "cd":
        lose(net, each, "a")
    net.settle()
    assert net.agreed() and net.commits("b")[0] == net.commits("d")[0] == join("ann")


@pytest.mark.spec("V-022")
def test_two_failures_in_one_group_are_two_events() -> None:
    """They have no request by which to tell them apart."""
    ann, bob = [GroupChange(CHESS, GroupVerb.FAIL, join(who).members, "") for who in ("ann", "bob")]
    assert same_event(ann, ann) and not same_event(ann, bob)
    net = SetNet("abc")
    net.ask("a", join("ann"), join("bob"))
    net.settle()
    net.ask("a", ann, bob)
    net.settle()
    assert net.agreed() and {ann, bob} <= set(net.commits("c"))


@pytest.mark.spec("V-091", "V-103")
def test_whom_a_server_accused_that_is_gone_does_not_keep_others_apart() -> None:
    net = SetNet("abc", reform_s=1e9)
    net.step("a", Received(Domain("c"), SetEvidence(SET, 1, 1, (server("b"),))))
    assert net.cores["a"].state.evidence
    net.crash("c")
    net.settle()
    assert net.view("a") == net.view("b") == "ab" and net.cores["a"].state.evidence == ()
