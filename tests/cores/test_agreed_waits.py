"""How long a server of a set waits for another, and what it does then."""

from random import Random

import pytest
from msgspec.structs import replace
from support.setnet import SET, SetNet, founding_view, join, leave, server, servers

from rostra.core.effects import Ignored, Received
from rostra.names import Domain
from rostra.protocols.agreed.changes import Pid, Round, ServersFailed, priority_of
from rostra.protocols.agreed.messages import Ack, AgreementStatus, Busy, Commit, CoordinatorFailed, Initiate
from rostra.protocols.agreed.state import Coordinating


@pytest.mark.spec("V-070")
@pytest.mark.parametrize("retries", [1, 3])
def test_a_silent_server_is_asked_again_as_often_as_is_set_before_it_is_isolated(retries: int) -> None:
    net = SetNet("abc", retries=retries)
    net.frozen.add("c")
    net.ask("b", join("ann"))
    net.flow()
    for count in range(1, retries + 1):
        net.wait("b")
        asked = [message for _, to, message in net.sent if to == "c" and isinstance(message, Initiate)]
        assert len(asked) == 1 + count and not net.isolations()
    net.frozen.clear()
    net.flow()  # it answers in the last moment
    assert net.agreed() and net.view("a") == "abc" and not net.isolations()
    net.frozen.add("c")
    net.ask("b", join("bob"))
    net.flow()
    for _ in range(retries + 1):
        net.wait("b")
    assert ("b", "c") in net.isolations() and join("bob") in net.commits("b")


@pytest.mark.spec("V-075")
def test_one_word_of_life_in_the_last_moment_is_enough() -> None:
    """It was silent until then, and is locked by another."""
    net = SetNet("abc", retries=1)
    net.ask("b", join("zoe"))
    net.deliver("b", "a")
    net.lanes["b", "c"].clear()
    net.lanes["a", "b"].clear()
    net.drops = lambda sender, to, message: "b" in (sender, to)
    net.ask("c", leave("ann"))
    net.lanes["c", "a"].clear()
    net.wait("c")
    net.deliver("c", "a")
    assert isinstance(net.deliver("a", "c"), Busy)
    net.wait("c")
    assert ("c", "a") not in net.isolations()


@pytest.mark.spec("V-079", "V-082")
def test_an_election_does_not_wait_for_ever_for_a_server_that_is_silent() -> None:
    """The coordinator is dead, and another stands still with its links up."""
    net = SetNet("abcd")
    net.ask("d", join("ann"))
    net.deliver("d", "a")
    net.deliver("d", "b")
    net.crash("d")
    net.frozen.add("c")
    net.settle()
    assert [net.view(name) for name in "ab"] == ["ab", "ab"]
    assert net.commits("a") == net.commits("b") and net.commits("a")[0] == join("ann")


@pytest.mark.spec("V-081")
def test_who_does_not_know_the_change_isolates_its_coordinator_too_before_it_says_so() -> None:
    """Otherwise it could acknowledge the change afterwards, to a coordinator that others have given up."""
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.deliver("b", "c")
    net.cut("b", "c")
    late = net.lanes["b", "a"].popleft()
    assert isinstance(net.deliver("c", "a"), CoordinatorFailed)
    assert ("a", "b") in net.isolations()
    [status] = [
        message for _, to, message in net.sent if to == "c" and isinstance(message, CoordinatorFailed)
    ]
    assert status.status is AgreementStatus.UNAWARE and server("b") in status.isolated
    assert Ignored("Initiate", "isolated") in net.step("a", Received(Domain("b"), late))


@pytest.mark.spec("V-085")
def test_the_removal_of_a_coordinator_whose_change_was_completed_goes_before_all_else() -> None:
    net = SetNet("abcd")
    net.ask("d", join("ann"))
    for name in "abc":
        net.deliver("d", name)
    net.crash("d")
    net.settle()
    proposals = [message.proposal for _, _, message in net.sent if isinstance(message, Initiate)]
    [removal, *_] = [each for each in proposals if each.change == ServersFailed(servers("d"))]
    view, pid = founding_view("abcd"), Pid(server("a"), 0)
    assert removal.priority < priority_of(ServersFailed(servers("a")), view, pid)
    assert net.commits("a") == [join("ann"), ServersFailed(servers("d"))]


@pytest.mark.spec("V-087")
@pytest.mark.parametrize(("attempt", "winner"), [(1, "a"), (2, "b")])
def test_of_two_that_act_for_one_change_the_later_attempt_or_the_senior_goes_on(
    attempt: int, winner: str
) -> None:
    """Each has won an election about the same change: they commit the same, and neither waits for ever."""
    net = SetNet("abc")
    net.ask("c", join("ann"))
    proposal = net.cores["c"].state.lock[0]  # type: ignore[index]
    net.crash("c", seen=False)
    for name, tried in (("a", 1), ("b", attempt)):
        state = net.cores[name].state
        round = Round(proposal.pid, tried, server(name))
        phase = Coordinating(proposal, round)
        net.cores[name].state = replace(state, phase=phase, isolated=frozenset([server("c")]))
        net.waits[name] = net.config.ack_after_s
    net.settle()
    assert net.commits("a") == net.commits("b") == [join("ann"), ServersFailed(servers("c"))]
    [first, *_] = [message for _, _, message in net.sent if isinstance(message, Commit)]
    assert first.record.round.coordinator == server(winner) and not net.isolations()


@pytest.mark.spec("V-087")
def test_who_is_locked_on_a_round_follows_a_later_attempt_at_once() -> None:
    """It does not know that the first coordinator failed, and has to: the others went on without it."""
    net = SetNet("abcd")
    net.ask("b", join("ann"))
    for name in "acd":
        net.deliver("b", name)
    net.cut("a", "b")
    net.deliver("a", "d")
    net.deliver("d", "a")
    proposal = net.cores["c"].state.lock[0]  # type: ignore[index]
    later = Initiate(SET, 1, 1, (), proposal, Round(proposal.pid, 1, server("a")), None, (), servers("b"))
    net.step("c", Received(Domain("a"), later))
    [*_, (_, to, answer)] = [each for each in net.sent if each[0] == "c" and isinstance(each[2], Ack)]
    assert to == "a" and answer.round == later.round and ("c", "b") in net.isolations()


@pytest.mark.spec("V-066", "V-068")
def test_no_change_gets_so_old_that_it_passes_one_of_a_higher_kind() -> None:
    view, pid = founding_view("abcde"), Pid(server("e"), 3)
    kinds = [ServersFailed(servers("e")), leave("bob", 4), join("ann")]
    young = [priority_of(change, view, pid) for change in kinds]
    old = [priority_of(change, view, pid, deferrals=10**6) for change in kinds]
    assert young[0] < old[1] < young[1] < old[2] < young[2]


@pytest.mark.spec("XV-09", "V-073")
@pytest.mark.parametrize("third", ["c", "cd", "cde"])
@pytest.mark.parametrize("seed", range(12))
def test_two_coordinators_that_do_not_hear_each_other_never_make_two_views_in_one_part(
    third: str, seed: int
) -> None:
    """Either one yields by what a third says, or the set is cut in two."""
    net, luck = SetNet(f"ab{third}"), Random(seed)
    net.drops = lambda sender, to, message: {sender, to} == {"a", "b"}
    for name in luck.sample("ab", 2):
        net.ask(name, leave("ann") if name == "a" else join("bob"))
    while pairs := [pair for pair, lane in net.lanes.items() if lane]:
        net.deliver(*luck.choice(pairs))
    net.settle()
    for name in net.cores:
        assert name in net.view(name)
        for other in net.view(name):
            assert net.view(other) == net.view(name) and net.commits(other) == net.commits(name)
    assert len({net.view(name) for name in net.cores}) <= 2
    assert leave("ann") in net.commits("a") and join("bob") in net.commits("b")
