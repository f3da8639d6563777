"""A set of servers agrees on changes: two phases, three phases, and who goes first.

Every order of messages and faults among three servers is `tests/faults/test_explore.py`'s.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.setnet import CHESS, GOES, SET, SetNet, founding_view, join, leave, server, servers

from rostra.core.effects import Ignored, LinkMoved, Received, Send, TimerFired
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.protocols.agreed.changes import (
    CommitRecord,
    GroupChange,
    GroupVerb,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetSplit,
    priority_of,
    same_event,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.cut import EXACT_MAX, largest_part
from rostra.protocols.agreed.messages import (
    Ack,
    AgreementStatus,
    AnySetMessage,
    Busy,
    Collecting,
    Commit,
    CoordinatorFailed,
    Initiate,
    PartedFromSet,
    SetMessage,
    Stale,
    Yield,
)
from rostra.protocols.agreed.state import Coordinating, Holding, Idle
from rostra.wire.numbers import BLOCKS

NINE = "abcdefghi"


# Two phases


@pytest.mark.spec("V-021", "V-070", "V-071")
def test_all_acknowledge_then_all_commit_and_who_was_asked_coordinates() -> None:
    net = SetNet("abcde")
    net.ask("c", join("ann"))
    net.ask("d", join("bob"))
    net.settle()
    assert [net.commits(name) for name in "abcde"] == [net.commits("a")] * 5
    assert sorted(each.request for each in net.commits("a")) == ["ann joins", "bob joins"]
    assert {message.round.coordinator for _, _, message in net.sent if isinstance(message, Initiate)} == {
        server("c"),
        server("d"),
    }


@pytest.mark.spec("V-071")
def test_nothing_is_committed_while_one_has_neither_acknowledged_nor_is_isolated() -> None:
    net = SetNet("abcd")
    net.frozen.add("d")
    net.ask("b", join("ann"))
    net.flow()
    assert net.count()["Ack"] == 2 and net.count()["Commit"] == 0
    assert not any(net.commits(name) for name in "abc")
    net.frozen.clear()
    net.flow()
    assert [net.commits(name) for name in "abcd"] == [[join("ann")]] * 4


@pytest.mark.spec("V-070")
@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_a_change_costs_what_the_paper_says(count: int) -> None:
    """2 M + (n-1) U; without multicast, 3(n-1) messages."""
    net = SetNet(NINE[:count])
    net.ask("b", join("ann"))
    net.settle()
    assert net.count() == {"Initiate": count - 1, "Ack": count - 1, "Commit": count - 1}
    assert net.now == 0.0  # nobody had to wait


@pytest.mark.spec("V-017", "V-070")
@pytest.mark.parametrize("silent", ["", "c", "cde", "acde"])
def test_silent_servers_are_isolated_then_removed_as_one_batch(silent: str) -> None:
    net = SetNet("abcde")
    net.frozen.update(silent)
    net.ask("b", join("ann"))
    net.settle()
    living = "".join(name for name in "abcde" if name not in silent)
    assert [net.view(name) for name in living] == [living] * len(living)
    assert net.commits("b") == [join("ann"), ServersFailed(servers(silent))][: 1 + bool(silent)]
    assert {pair for pair in net.isolations() if pair[0] == "b"} == {("b", name) for name in silent}


@pytest.mark.spec("V-061")
def test_a_hundred_joins_at_once_are_a_hundred_changes() -> None:
    net = SetNet("abc")
    net.ask("b", *[join(f"m{number:03}") for number in range(100)])
    net.settle()
    assert len(net.commits("a")) == 100 and net.agreed()
    assert sorted(each.request for each in net.commits("c")) == [
        f"m{number:03} joins" for number in range(100)
    ]


@pytest.mark.spec("V-022")
def test_one_event_known_to_all_is_committed_once() -> None:
    net = SetNet("abcde")
    for name in "abcde":
        net.ask(name, join("ann"))
    net.settle()
    assert [net.commits(name) for name in "abcde"] == [[join("ann")]] * 5 and net.agreed()


@pytest.mark.spec("V-072", "V-073", "V-065")
def test_an_acknowledgement_is_a_lock_that_only_its_coordinator_gives_back() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.ask("c", leave("bob"))  # of higher priority
    net.deliver("b", "a")
    net.deliver("c", "a")
    assert isinstance(net.sent[-1][2], Busy) and net.cores["a"].state.lock[0].change == join("ann")
    net.deliver("c", "b")  # now b knows, withdraws its round, and says so
    assert [type(message) for _, _, message in net.sent[-3:]] == [Yield, Yield, Ack]
    [*_, (_, _, acknowledged)] = net.sent
    assert isinstance(acknowledged, Ack)
    assert acknowledged.released == (Round(Pid(server("b"), 0), 0, server("b")),)
    net.settle()
    assert net.commits("a") == [leave("bob"), join("ann")] == net.commits("b") == net.commits("c")
    assert net.isolations() == []


@pytest.mark.spec("V-073")
def test_who_learns_of_a_better_change_from_a_third_yields_too() -> None:
    net = SetNet("abc")
    net.drops = lambda sender, to, message: (sender, to) == ("c", "b") and isinstance(message, Initiate)
    net.ask("c", leave("bob"))
    net.ask("b", join("ann"))
    net.deliver("c", "a")
    net.deliver("b", "a")
    net.deliver("a", "b")
    assert net.cores["b"].state.phase == Holding() and net.cores["b"].state.queue[0].deferrals == 1
    net.drops = lambda sender, to, message: False
    net.settle()
    assert net.commits("a") == [leave("bob"), join("ann")] and net.agreed() and not net.isolations()


@pytest.mark.spec("V-074")
def test_changes_complete_although_no_yield_arrives() -> None:
    net = SetNet("abcde", retries=3)
    net.drops = lambda sender, to, message: isinstance(message, Yield)
    for name, change in zip("abcde", [join("e"), join("d"), leave("c"), join("b"), leave("a")], strict=True):
        net.ask(name, change)
    net.settle()
    assert len(net.commits("a")) == 5 and net.agreed() and net.isolations() == []


@pytest.mark.spec("V-075")
def test_who_is_busy_for_long_is_not_isolated() -> None:
    net = SetNet("abc", retries=1)
    net.ask("b", join("zoe"))
    net.deliver("b", "a")
    net.lanes["b", "c"].clear()
    net.lanes["a", "b"].clear()
    net.drops = lambda sender, to, message: "b" in (sender, to)  # b's round is stuck, and a locked on it
    net.ask("c", leave("ann"))
    for _ in range(10):
        net.deliver("c", "a")
        assert isinstance(net.deliver("a", "c"), Busy)
        net.wait("c")
    assert ("c", "a") not in net.isolations()


@pytest.mark.spec("V-076")
@pytest.mark.parametrize("victim", "acde")
def test_one_lost_commit_is_asked_for_and_splits_nothing(victim: str) -> None:
    net = SetNet("abcde")
    net.drops = lambda sender, to, message: to == victim and isinstance(message, Commit) and net.now == 0.0
    net.ask("b", join("ann"))
    net.settle()
    assert net.agreed() and net.isolations() == [] and "CoordinatorFailed" not in net.count()
    assert net.now == net.config.commit_after_s


@pytest.mark.spec("V-076")
def test_a_repeated_acknowledgement_is_answered_by_what_became_of_the_round() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.deliver("b", "a")
    again = net.sent[-1][2]
    net.deliver("a", "b")
    assert [
        type(each.message) for each in net.step("b", Received(Domain("a"), again)) if isinstance(each, Send)
    ] == [Collecting]
    net.settle()
    assert [
        type(each.message) for each in net.step("b", Received(Domain("a"), again)) if isinstance(each, Send)
    ] == [Commit]
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.deliver("b", "a")
    net.lanes["b", "a"].clear()
    net.ask("c", leave("bob"))
    net.deliver("c", "b")
    net.lanes["b", "a"].clear()  # the Yield
    assert [
        type(each.message) for each in net.step("b", Received(Domain("a"), again)) if isinstance(each, Send)
    ] == [Yield]


@pytest.mark.spec("V-077")
def test_a_server_that_lacks_a_commit_gets_it_with_the_next_change() -> None:
    net = SetNet("abc")
    net.drops = lambda sender, to, message: to == "c" and isinstance(message, Commit)
    net.ask("b", join("ann"))
    net.flow()
    assert net.commits("c") == [] and net.commits("a") == [join("ann")]
    net.drops = lambda sender, to, message: False
    net.ask("a", join("bob"))
    net.flow()
    assert net.commits("c") == [join("ann"), join("bob")] and net.now == 0.0


@pytest.mark.spec("V-077")
def test_who_proposes_again_what_is_committed_is_told_so() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    first = net.lanes["b", "a"][0]
    net.settle()
    [answer] = [
        each.message for each in net.step("a", Received(Domain("b"), first)) if isinstance(each, Send)
    ]
    assert isinstance(answer, Stale) and answer.last.proposal == first.proposal


@pytest.mark.spec("V-078")
def test_another_successor_of_our_base_ends_the_conversation() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.settle()
    other = Proposal(
        Pid(server("c"), 7),
        1,
        founding_view("abc").pid,
        join("eve"),
        priority_of(join("eve"), founding_view("abc"), Pid(server("c"), 7)),
    )
    record = CommitRecord(other, Round(other.pid, 0, server("c")), ())
    net.step("a", Received(Domain("c"), Commit(SET, 1, 1, (), record)))
    assert ("a", "c") in net.isolations() and net.commits("a") == [join("ann")]


@pytest.mark.spec("V-078", "V-121")
@pytest.mark.parametrize("cut", ["", "a"])
def test_a_commit_that_went_on_without_us_is_not_applied_and_parts_us_from_who_sent_it(cut: str) -> None:
    """It follows our base; but we did not acknowledge it, or it says that it does without us."""
    net = SetNet("abc")
    net.frozen.add("c")
    if cut:
        net.ask("b", join("ann"))
        net.deliver("b", "a")
        proposal = net.cores["b"].state.phase.proposal  # type: ignore[union-attr]
    else:
        pid = Pid(server("b"), 7)
        priority = priority_of(join("ann"), founding_view("abc"), pid)
        proposal = Proposal(pid, 1, founding_view("abc").pid, join("ann"), priority)
    record = CommitRecord(proposal, Round(proposal.pid, 0, server("b")), servers(cut))
    net.step("a", Received(Domain("b"), Commit(SET, 1, 1, (), record)))
    assert ("a", "b") in net.isolations() and net.commits("a") == []


@pytest.mark.spec("V-079")
@pytest.mark.parametrize("frozen", "abc")
@pytest.mark.parametrize("steps", range(12))
def test_whoever_stands_still_at_any_moment_the_others_come_to_agree(frozen: str, steps: int) -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.ask("c", leave("bob"))
    for _ in range(steps):
        for sender, to in net.lanes:
            if net.lanes[sender, to]:
                net.deliver(sender, to)
                break
    net.frozen.add(frozen)
    net.settle()
    one, other = [name for name in "abc" if name != frozen]
    assert net.view(one) == net.view(other) in (one + other, "abc")  # it may owe nothing
    assert net.cores[one].state.base == net.cores[other].state.base
    asked = {"b": join("ann"), "c": leave("bob")}
    assert {asked[name] for name in one + other if name in asked} <= set(net.commits(one))
    # Two rounds of the longest wait at each of the phases that can follow each other.
    assert net.now <= 3 * (net.config.retries + 1) * net.config.commit_after_s + net.config.defer_s


# Who goes first


SPLIT = SetSplit(servers("ab"), servers("cde"), ("", ""), Pid(server("a"), 9))

SUBJECTS = [
    ServersFailed(servers("a")),
    ServersFailed(servers("bc")),
    SPLIT,
    leave("ann", 0),
    leave("bob", 2),
    join("ann"),
    join("zoe"),
    GroupChange(CHESS, GroupVerb.DELETE, (), "delete"),
]


@pytest.mark.spec("V-066")
def test_the_order_of_changes_is_the_spec_s_tuple() -> None:
    view, pid = founding_view("abcde"), Pid(server("e"), 3)
    order = sorted(SUBJECTS, key=lambda change: priority_of(change, view, pid))
    assert order == [
        ServersFailed(servers("a")),
        ServersFailed(servers("bc")),
        SPLIT,
        leave("ann", 0),
        GroupChange(CHESS, GroupVerb.DELETE, (), "delete"),
        leave("bob", 2),
        join("ann"),
        join("zoe"),
    ]
    junior = priority_of(ServersFailed(servers("d")), view, pid, failed_coordinator=True)
    assert junior < priority_of(ServersFailed(servers("a")), view, pid)


@pytest.mark.spec("V-066")
@pytest.mark.parametrize(("one", "other"), [(a, b) for a in SUBJECTS[4:8] for b in SUBJECTS[4:8] if a != b])
def test_of_two_changes_at_once_the_one_of_higher_priority_is_committed_first(one: Any, other: Any) -> None:
    net = SetNet("abcde")
    net.ask("d", one)
    net.ask("e", other)
    net.settle()
    view = founding_view("abcde")
    first = min(
        (one, "d"), (other, "e"), key=lambda each: priority_of(each[0], view, Pid(server(each[1]), 0))
    )
    assert net.commits("a")[0] == first[0] and len(net.commits("a")) == 2 and net.agreed()


@pytest.mark.spec("V-067")
def test_equal_ranks_in_two_groups_are_ordered_by_the_coordinators() -> None:
    net = SetNet("abcd")
    net.ask("d", leave("ann", 0, CHESS))
    net.ask("b", leave("ann", 0, GOES))
    net.settle()
    assert [each.group for each in net.commits("a")] == [GOES, CHESS]


@pytest.mark.spec("V-068", "V-123")
def test_a_stream_of_earlier_addresses_holds_no_join_back_for_ever() -> None:
    net = SetNet("abc")
    net.ask("c", join("zoe"))
    for number in range(40):
        net.ask("b", join(f"a{number:03}"))
        net.flow()
    net.settle()
    place = [each.request for each in net.commits("a")].index("zoe joins")
    assert place < len("abc") + 8


@pytest.mark.spec("V-068")
def test_age_never_passes_a_failure_nor_a_change_of_the_set() -> None:
    view, pid = founding_view("abc"), Pid(server("c"), 0)
    old = priority_of(join("ann"), view, pid, deferrals=10_000)
    assert priority_of(ServersFailed(servers("a")), view, pid) < old
    assert priority_of(SPLIT, view, pid) < old
    failed = GroupChange(CHESS, GroupVerb.FAIL, join("bob").members, "", 9)
    assert priority_of(failed, view, pid) < old < priority_of(join("ann"), view, pid)


# Failures


@pytest.mark.spec("V-062", "V-063", "V-094")
def test_five_of_nine_die_at_once_and_one_change_removes_them() -> None:
    net = SetNet(NINE)
    net.crash("a", "c", "e", "g", "i")
    net.settle()
    assert {net.view(name) for name in "bdfh"} == {"bdfh"} and net.agreed()
    assert len(net.commits("b")) < 5
    assert [each.joined for each in net.cores["b"].state.view.members] == [0] * 4


@pytest.mark.spec("V-062")
def test_failures_found_in_phase_one_are_one_batch_too() -> None:
    net = SetNet(NINE)
    net.frozen.update("cdef")
    net.ask("b", join("ann"))
    net.settle()
    assert net.commits("b") == [join("ann"), ServersFailed(servers("cdef"))]


@pytest.mark.spec("V-094", "V-095")
def test_those_who_stay_keep_their_order_and_their_seniority() -> None:
    net = SetNet("abcde")
    before = {each.id: each.gid for each in net.cores["e"].state.view.members}
    for name in "bd":
        net.crash(name)
        net.settle()
    assert net.views("e") == ["acde", "ace"]
    assert [each.gid for each in net.cores["e"].state.view.members] == [
        before[server(name)] for name in "ace"
    ]
    assert [net.cores["e"].state.view.rank(server(name)) for name in "ace"] == [0, 1, 2]
    assert net.cores["e"].state.view.number == 3


@pytest.mark.spec("V-019")
def test_a_newer_life_of_a_server_proves_that_the_older_one_failed() -> None:
    net = SetNet("abc")
    again = ServerId(Domain("c"), 2)
    net.gone.add("c")
    net.step(
        "a", Received(Domain("c"), Ack(SET, again.life, 1, (), Round(Pid(server("a"), 0), 0, server("a"))))
    )
    net.settle()
    assert (
        net.commits("a") == [ServersFailed(servers("c"))] and again not in net.cores["a"].state.view.servers
    )


@pytest.mark.spec("V-019", "V-071")
def test_an_acknowledgement_of_the_old_life_is_not_the_new_one_s() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    [round] = {message.round for _, _, message in net.sent if isinstance(message, Initiate)}
    net.step("b", Received(Domain("c"), Ack(SET, 2, 1, (), round)))
    phase = net.cores["b"].state.phase
    assert isinstance(phase, Coordinating) and phase.acked == frozenset()
    assert server("c") in net.cores["b"].state.isolated


@pytest.mark.spec("V-090", "V-126")
def test_after_isolation_no_word_but_that_one() -> None:
    net = SetNet("abc")
    net.frozen.add("c")
    net.ask("b", join("ann"))
    net.settle()
    net.frozen.clear()
    before = len(net.sent)
    net.ask("b", join("bob"))
    net.settle()
    assert {type(message) for _, to, message in net.sent[before:] if to == "c"} <= {PartedFromSet}
    assert ("c", "b") in net.isolations() and net.view("c") == "c"


# Coordinators that fail


def to_the_commit(net: SetNet, *, commits: str = "", acks: str = "acde", initiated: str = "acde") -> None:
    """b coordinates one change as far as that, and dies."""
    net.ask("b", join("ann"))
    for name in "acde":
        if name in initiated:
            net.deliver("b", name)
        else:
            net.lanes["b", name].clear()
    for name in acks:
        net.deliver(name, "b")
    for name in commits:
        net.deliver("b", name)
    for name in "acde":
        net.lanes["b", name].clear()
    net.crash("b")
    net.settle()


@pytest.mark.spec("V-080", "V-081", "V-084", "V-085", "V-124")
@pytest.mark.parametrize(("initiated", "acks"), [("acde", ""), ("acde", "c"), ("acde", "acd")])
def test_a_coordinator_dies_before_its_commit_and_three_phases_complete_it(initiated: str, acks: str) -> None:
    """XV-05: the change is committed once, then the coordinator is removed."""
    net = SetNet("abcde")
    to_the_commit(net, initiated=initiated, acks=acks)
    assert {tuple(net.views(name)) for name in "acde"} == {("abcde", "acde")}
    assert net.commits("a")[0] == join("ann") and net.agreed()
    again = {message.round.attempt for _, _, message in net.sent if isinstance(message, Initiate)}
    assert 1 in again
    assert any(isinstance(message, CoordinatorFailed) for _, _, message in net.sent)


@pytest.mark.spec("V-084", "V-086")
@pytest.mark.parametrize("initiated", ["a", "e", "cd"])
def test_who_did_not_know_of_the_change_may_have_proposed_the_removal_first(initiated: str) -> None:
    net = SetNet("abcde")
    to_the_commit(net, initiated=initiated, acks="")
    assert net.view("a") == "acde" and net.agreed()
    assert sorted(net.commits("a"), key=str) == [join("ann"), ServersFailed(servers("b"))]


@pytest.mark.spec("V-083", "V-085", "V-124")
@pytest.mark.parametrize("commits", ["a", "e", "cd"])
def test_a_coordinator_dies_after_a_commit_arrived_and_nobody_initiates_again(commits: str) -> None:
    net = SetNet("abcde")
    to_the_commit(net, commits=commits)
    assert {tuple(net.views(name)) for name in "acde"} == {("abcde", "acde")} and net.agreed()
    assert net.commits("e") == [join("ann"), ServersFailed(servers("b"))]
    again = [message for _, _, message in net.sent if isinstance(message, Initiate) and message.round.attempt]
    assert again == []


@pytest.mark.spec("V-084", "V-088")
def test_coordinator_and_the_only_one_that_committed_die_together() -> None:
    """XV-06."""
    net = SetNet("abcde")
    net.ask("b", join("ann"))
    for name in "acde":
        net.deliver("b", name)
    for name in "acde":
        net.deliver(name, "b")
    net.deliver("b", "c")
    net.crash("b", "c")
    net.settle()
    assert {tuple(net.views(name)) for name in "ade"} == {("abcde", "ade")}
    assert net.commits("a")[0] == join("ann") and net.agreed()


@pytest.mark.spec("V-082")
@pytest.mark.parametrize(("initiated", "senior"), [("e", "e"), ("ce", "c"), ("acde", "a")])
def test_the_most_senior_that_knows_the_change_wins(initiated: str, senior: str) -> None:
    """XV-07: only rank 4 knows of it; or others do, too."""
    net = SetNet("abcde")
    to_the_commit(net, initiated=initiated, acks="")
    [winner] = {
        message.round.coordinator
        for _, _, message in net.sent
        if isinstance(message, Initiate) and message.round.attempt
    }
    assert winner == server(senior)


@pytest.mark.spec("V-086", "V-121")
def test_the_example_of_claim_three_ends_in_one_view() -> None:
    """XV-08: change a known to one server, the higher change b to another, both coordinators dead."""
    net = SetNet("abcde")
    net.ask("d", join("ann"))  # a of the paper
    net.ask("e", leave("bob"))  # b
    net.deliver("d", "a")
    net.deliver("e", "b")
    for pair in net.lanes:
        net.lanes[pair].clear()
    net.crash("d", "e")
    net.settle()
    assert net.commits("a") == net.commits("b") == net.commits("c") and net.agreed()
    assert {each for each in net.commits("a") if isinstance(each, GroupChange)} == {join("ann"), leave("bob")}
    assert net.view("a") == "abc"


@pytest.mark.spec("V-087", "V-122")
def test_however_many_coordinators_fail_in_a_row_the_change_completes() -> None:
    net = SetNet("abcdef")
    net.ask("f", join("ann"))
    for name in "abcde":
        net.deliver("f", name)
    for victim in "fabcd":  # each as soon as it has won, before anybody has its Initiate
        net.crash(victim)
        net.drops = lambda sender, to, message: isinstance(message, Initiate)
        net.flow()
        net.drops = lambda sender, to, message: False
    net.settle()
    assert join("ann") in net.commits("e") and net.view("e") == "e"
    assert [each for each in net.commits("e") if each == join("ann")] == [join("ann")]


@pytest.mark.spec("V-088")
def test_a_change_that_was_put_off_is_not_lost_with_its_coordinator() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.deliver("b", "a")
    net.ask("c", leave("bob"))
    net.deliver("c", "b")
    net.deliver("b", "a")  # the Yield: a is released from ann's join
    net.crash("b")
    net.settle()
    assert join("ann") in net.commits("a") and net.agreed()


@pytest.mark.spec("V-081")
def test_a_late_commit_of_a_coordinator_given_up_is_not_applied() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.deliver("b", "a")
    net.deliver("b", "c")
    net.deliver("a", "b")
    net.deliver("c", "b")
    assert net.commits("b") == [join("ann")]
    late = net.lanes["b", "a"].popleft()
    status = CoordinatorFailed(
        SET, 1, 1, (server("b"),), late.record.proposal, late.record.round, AgreementStatus.ACKED
    )
    net.step("a", Received(Domain("c"), status))
    effects = net.step("a", Received(Domain("b"), late))
    assert Ignored("Commit", "isolated") in effects and net.commits("a") == []


@pytest.mark.spec("V-081")
def test_a_coordinator_that_hears_it_failed_isolates_who_says_so() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    [round] = {message.round for _, _, message in net.sent if isinstance(message, Initiate)}
    proposal = net.cores["b"].state.lock[0]
    net.step(
        "b", Received(Domain("c"), CoordinatorFailed(SET, 1, 1, (), proposal, round, AgreementStatus.ACKED))
    )
    assert ("b", "c") in net.isolations()


# Gossip


@pytest.mark.spec("V-091")
def test_gossip_is_evidence_and_isolates_nobody() -> None:
    net = SetNet("abcde")
    net.cut("a", "e")
    net.drops = lambda sender, to, message: False
    net.deliver("a", "b")
    assert dict(net.cores["b"].state.evidence) == {server("a"): frozenset([server("e")])}
    assert net.cores["b"].state.isolated == frozenset()


@pytest.mark.spec("V-091", "V-125")
def test_a_partial_cut_of_seven_makes_two_parts_and_the_larger_has_five() -> None:
    """abc and fg are cut from each other, d and e see all."""
    net = SetNet("abcdefg")
    for one in "abc":
        for other in "fg":
            net.cut(one, other)
    net.settle()
    parts = {net.view(name) for name in "abcdefg"}
    assert parts == {"abcde", "fg"}


@pytest.mark.spec("V-092")
def test_who_is_named_in_gossip_leaves_the_gossip_alone_and_its_sender() -> None:
    net = SetNet("abc")
    round = Round(Pid(server("c"), 0), 0, server("c"))
    net.step("a", Received(Domain("c"), Yield(SET, 1, 1, servers("ab"), round)))
    assert net.isolations() == [("a", "c")] and net.cores["a"].state.evidence == ()


@pytest.mark.spec("V-092", "V-125")
def test_a_deaf_server_is_removed_alone() -> None:
    """XV-12: it sends and does not receive."""
    net = SetNet("abcde")
    net.drops = lambda sender, to, message: to == "e"
    net.ask("e", join("ann"))
    net.ask("b", join("bob"))
    net.settle()
    assert {net.view(name) for name in "abcd"} == {"abcd"} and net.view("e") == "e"


accusers = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef"), max_size=3))


@pytest.mark.spec("V-091")
@given(accusers, st.sampled_from("abcdef"), st.booleans())
def test_the_largest_part_is_one_and_none_is_larger(
    accusations: dict[str, frozenset[str]], me: str, must_stay: bool
) -> None:
    """Against the obvious way: all parts, from the largest on."""
    view = servers("abcdef")
    said = {server(who): frozenset(map(server, whom)) for who, whom in accusations.items()}
    part = largest_part(view, said, me=server(me), must_stay=must_stay)

    def at_peace(some: tuple[ServerId, ...]) -> bool:
        return not any(other in said.get(one, ()) for one in some for other in some if one != other)

    every = [
        tuple(each for place, each in enumerate(view) if mask >> place & 1)
        for mask in range(1, 1 << len(view))
    ]
    candidates = [some for some in every if at_peace(some) and (server(me) in some or not must_stay)]
    assert part in candidates and len(part) == max(map(len, candidates))
    if any(server(me) in some and len(some) == len(part) for some in candidates):
        assert server(me) in part


def test_a_set_torn_beyond_counting_still_gets_an_answer() -> None:
    view = servers("abcdefghijklmnopqrstuvwxyz")
    said = {each: frozenset(view) for each in view[: EXACT_MAX + 4]}
    part = largest_part(view, said, me=view[-1])
    assert set(part) == set(view[EXACT_MAX + 4 :])


# What comes in


def test_what_is_of_no_use_is_ignored_and_says_why() -> None:
    net = SetNet("abc")
    round = Round(Pid(server("b"), 9), 0, server("b"))
    here = (SET, 1, 1, ())
    for message, why in [
        (Ack(*here, round), "of a round that is over"),
        (Yield(*here, Round(Pid(server("c"), 0), 0, server("c"))), "not its own round"),
        (Collecting(*here, round), "of a round that is over"),
        (Ack(Domain("us"), 1, 1, (), round), "of another set"),
    ]:
        assert net.step("a", Received(Domain("b"), message)) == [Ignored(type(message).__name__, why)]
    assert net.step("a", TimerFired(net.cores["a"].timer)) == [Ignored("TimerFired", "nothing waits for it")]


def test_nobody_agrees_to_its_own_removal() -> None:
    net = SetNet("abc")
    pid, view = Pid(server("b"), 0), founding_view("abc")
    change = ServersFailed(servers("a"))
    proposal = Proposal(pid, 1, view.pid, change, priority_of(change, view, pid))
    net.step("a", Received(Domain("b"), Initiate(SET, 1, 1, (), proposal, Round(pid, 0, server("b")))))
    assert ("a", "b") in net.isolations() and isinstance(
        net.cores["a"].state.phase, Idle | Holding | Coordinating
    )


def test_a_link_that_moved_gets_again_what_may_be_lost() -> None:
    net = SetNet("abc")
    net.ask("b", join("ann"))
    net.lanes["b", "a"].clear()
    net.step("b", LinkMoved(Domain("a"), 2))
    net.settle()
    assert net.agreed() and net.now == 0.0
    net.ask("b", join("bob"))
    net.deliver("b", "a")
    net.lanes["a", "b"].clear()
    net.step("a", LinkMoved(Domain("b"), 2))
    net.settle()
    assert net.agreed() and net.now == 0.0


def test_a_wait_of_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="retries must be at least 1"):
        AgreedConfig(retries=0)
    with pytest.raises(BadInput, match="ack_after_s must be positive"):
        AgreedConfig(ack_after_s=0)
    assert AgreedConfig.wan().defer_s == 8.0 and AgreedConfig.lan() == AgreedConfig()


def test_messages_have_numbers_of_their_block_and_come_back_as_they_were() -> None:
    """They are registered in `wire.numbers` when a service sends them."""
    [block] = BLOCKS["message"]["agreed"]
    kinds = SetMessage.__subclasses__()
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(tags) and all(tag in block for tag in tags)
    net = SetNet("abcde")
    to_the_commit(net, commits="a")
    sent = [message for _, _, message in net.sent]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=list[AnySetMessage]) == sent


def test_a_message_out_of_bounds_is_not_read() -> None:
    many = tuple(ServerId(Domain(f"s{number}"), 1) for number in range(65))
    for message in (
        PartedFromSet(SET, 1, 1, many),
        PartedFromSet(SET, -1, 1, ()),
        PartedFromSet(SET, 1, 1, (ServerId(Domain("a"), -1),)),
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=AnySetMessage)


def test_one_event_is_one_whoever_proposes_it() -> None:
    assert same_event(join("ann"), join("ann")) and not same_event(join("ann"), join("bob"))
    assert not same_event(join("ann"), leave("ann"))
    assert isinstance(SetNet("a").cores["a"].state.phase, Idle)
