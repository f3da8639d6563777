"""The figures of `make wan-views`, simulated: three sites 230, 230 and 390 ms apart; what changes cost."""

import pytest

from benchmarks.timed_set import TimedSet, crowd, join, leave
from benchmarks.wan_views import EXPECTED_MS, costs, per_second, recovery, simulated
from rostra.protocols.agreed.changes import GroupChange, ServersFailed
from rostra.protocols.agreed.messages import Commit, CoordinatorFailed, Initiate, Yield

NINE = tuple("abcdefghi")
ONE_WAY_S = 0.01


def even(one: str, other: str) -> float:
    return ONE_WAY_S


def begun(names: tuple[str, ...]) -> TimedSet:
    servers = TimedSet(names, even)
    servers.ask(names[0], crowd(3))
    servers.run(10.0)
    servers.now = 20.0
    return servers


@pytest.mark.spec("V-070", "V-071")
@pytest.mark.parametrize("coordinator", list(EXPECTED_MS))
def test_first_and_last_server_have_a_view_after_two_and_three_one_way_trips(coordinator: str) -> None:
    assert simulated(coordinator) == pytest.approx(EXPECTED_MS[coordinator], abs=0.5)


@pytest.mark.spec("V-084", "V-085")
@pytest.mark.parametrize(("dead", "three_ms", "compressed_ms"), [("huji", 460, 230), ("mit", 780, 390)])
def test_recovery_takes_four_trips_or_at_most_two(dead: str, three_ms: float, compressed_ms: float) -> None:
    """If all find the coordinator's links down at once, the one that has the commit need not be asked."""
    assert recovery(dead, committed=False).last_ms == pytest.approx(three_ms, abs=0.5)
    assert recovery(dead, committed=True).last_ms == pytest.approx(compressed_ms / 2, abs=0.5)


@pytest.mark.spec("V-070", "V-084", "V-085")
@pytest.mark.parametrize("servers", [3, 5])
def test_messages_are_the_papers_and_do_not_grow_with_the_members(servers: int) -> None:
    few, many = costs(servers, 10), costs(servers, 1_000)
    assert [each.messages for each in few] == [each.expected for each in few]
    assert [each.messages for each in many] == [each.messages for each in few]


def test_a_core_set_does_one_change_per_round_trip_of_its_coordinator() -> None:
    assert per_second(("mit",), 20) == pytest.approx(1 / 0.230, rel=0.05)
    assert per_second(("huji",), 20) == pytest.approx(1 / 0.390, rel=0.05)


@pytest.mark.spec("V-065", "V-066")
@pytest.mark.parametrize("slow", ["", "a", "e"])
def test_of_two_joins_at_once_the_smaller_address_comes_first(slow: str) -> None:
    """XV-02, whatever the order of messages."""
    servers = TimedSet(NINE[:5], lambda one, other: 0.3 if slow and slow in (one, other) else ONE_WAY_S)
    servers.ask("a", crowd(3))
    servers.run(10.0)
    servers.now = 20.0
    servers.ask("b", join(7))
    servers.ask("d", join(5))
    servers.run(60.0)
    for name in NINE[:5]:
        joins = [
            change for _, who, change in servers.commits if who == name and isinstance(change, GroupChange)
        ]
        assert joins[1:] == [join(5), join(7)]


@pytest.mark.spec("V-075")
def test_one_lost_commit_costs_that_server_one_wait_and_a_round_trip() -> None:
    """XV-03: no election."""
    servers = begun(NINE[:5])
    servers.ask("b", join(9))
    servers.run(20.0 + 2.5 * ONE_WAY_S)
    servers.lose("b", "d")
    servers.run(40.0)
    had = servers.when(join(9))
    assert had["e"] == pytest.approx(20.0 + 3 * ONE_WAY_S)
    assert had["d"] <= 20.0 + 3 * ONE_WAY_S + servers.config.commit_after_s + 2 * ONE_WAY_S
    assert not any(isinstance(message, CoordinatorFailed) for *_, message in servers.sent)


@pytest.mark.spec("V-017", "V-087")
@pytest.mark.parametrize("silent", ["e", "abde"])
def test_silent_servers_delay_a_change_once_and_the_next_view_is_without_them(silent: str) -> None:
    """XV-04: (R+1) T_ack for the batch, not for each; no other change comes between."""
    servers = begun(NINE[:5])
    for name in silent:
        servers.crash(name)
    servers.ask("c", join(9), leave(1))
    servers.run(90.0)
    config = servers.config
    waited_s = (config.retries + 1) * config.ack_after_s
    mine = [(at, change) for at, name, change in servers.commits if name == "c"][1:]
    (first_at, first), (_, second), (_, third) = mine
    assert first_at == pytest.approx(20.0 + waited_s, abs=5 * ONE_WAY_S)
    assert {first, third} == {join(9), leave(1)} and isinstance(second, ServersFailed)
    assert "".join(sorted(str(each.server) for each in second.failed)) == silent


@pytest.mark.spec("V-087")
def test_five_of_nine_die_at_once_and_the_rest_need_at_most_three_commits() -> None:
    """XV-10."""
    servers = begun(NINE)
    for name in "abcde":
        servers.crash(name)
    for name in "abcde":
        servers.notice(name)
    servers.run(120.0)
    for name in "fghi":
        changes = [change for at, who, change in servers.commits if who == name and at >= 20.0]
        assert len(changes) <= 3
        assert "".join(str(each.server) for each in servers.cores[name].state.view.servers) == "fghi"


@pytest.mark.spec("V-086")
@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_coordinators_that_die_in_a_row_cost_an_election_each_and_the_change_is_committed_once(
    deaths: int,
) -> None:
    """XV-05, repeated: each dies when it has all acknowledgements."""
    servers = begun(NINE[:6])
    servers.ask("a", join(9))
    for coordinator in NINE[:deaths]:
        initiated = [at for at, who, _, what in servers.sent if who == coordinator and _is_for(what)]
        while not initiated:
            servers.run(servers.now + ONE_WAY_S / 4)
            initiated = [at for at, who, _, what in servers.sent if who == coordinator and _is_for(what)]
        servers.run(initiated[-1] + 1.99 * ONE_WAY_S)
        servers.crash(coordinator)
        servers.run(servers.now + 0.5)
        servers.notice(coordinator)
    servers.run(servers.now + 60.0)
    for name in NINE[deaths:6]:
        assert [change for _, who, change in servers.commits if who == name].count(join(9)) == 1
        left = "".join(str(each.server) for each in servers.cores[name].state.view.servers)
        assert left == "".join(NINE[deaths:6])


def _is_for(message: object) -> bool:
    return isinstance(message, Initiate) and message.proposal.change == join(9)


@pytest.mark.spec("V-066", "V-072", "V-073")
@pytest.mark.parametrize("coordinators", [2, 3, 4, 5])
def test_a_conflict_of_coordinators_costs_a_commit_each_and_few_yields(coordinators: int) -> None:
    """At most c - 1 coordinators yield for each commit; each tells all it has asked."""
    servers = begun(NINE[:5])
    since = len(servers.sent)
    for place, name in enumerate(NINE[:coordinators]):
        servers.ask(name, join(20 + place))
    servers.run(120.0)
    sent = [(who, message) for _, who, _, message in servers.sent[since:]]
    commits = {message.record.proposal.pid for _, message in sent if isinstance(message, Commit)}
    assert len(commits) == coordinators
    withdrawn = {(who, message.round) for who, message in sent if isinstance(message, Yield)}
    assert len(withdrawn) <= coordinators * (coordinators - 1)
