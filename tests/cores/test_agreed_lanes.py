"""Lanes: changes of different groups of one set do not wait for each other; those of the whole set do.

Every order of messages and faults among three servers is `tests/faults/test_explore.py`'s.
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from benchmarks.timed_set import TimedSet, join
from benchmarks.wan_views import per_second
from rostra.core.effects import Ignored, Received
from rostra.core.records import Records
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import ROOT, Domain, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupPlace,
    GroupVerb,
    Pid,
    Proposal,
    Round,
    ServersFailed,
    SetMember,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.config import EMPTIED_MAX, AgreedConfig
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView, GroupTable
from rostra.protocols.agreed.keep import SetKeeper
from rostra.protocols.agreed.lanes import ERA, PASSED_MAX, fits_a_lane
from rostra.protocols.agreed.messages import Initiate
from rostra.protocols.agreed.state import Coordinating, Locked

CHESS, RADIO = Group("chess", ROOT), Group("radio", ROOT)
ONE_WAY_S = 0.1
PLAIN = GroupKind(MembershipKind.AGREED)


def begun(many: int = 30, names: str = "abc") -> TimedSet:
    config = AgreedConfig(ack_after_s=1.0, commit_after_s=2.0, gather_s=0.0, reform_s=0.0, lanes=many)
    return TimedSet(names, lambda one, other: ONE_WAY_S, config)


def create(name: str) -> GroupChange:
    return GroupChange(Group(name, ROOT), GroupVerb.CREATE, (), f"{name} is created")


def in_place(servers: TimedSet, changes: Iterable[AnyChange]) -> list[float]:
    """When the last server had each, in one-way trips."""
    return [round(max(servers.when(each).values()) / ONE_WAY_S, 3) for each in changes]


@pytest.mark.parametrize(("many", "trips"), [(0, [3, 5]), (30, [3, 3])])
def test_changes_of_two_groups_at_once_take_three_trips_each_or_the_second_waits(
    many: int, trips: list[int]
) -> None:
    servers = begun(many)
    changes = [join(1, CHESS), join(2, RADIO)]
    servers.ask("b", *changes)
    servers.run(10.0)
    assert in_place(servers, changes) == trips
    assert sum(servers.messages().values()) == 2 * 3 * 2, "each costs what the paper says"


@pytest.mark.parametrize(("many", "trips"), [(0, [3, 6]), (30, [3, 3])])
def test_two_coordinators_of_two_groups_do_not_yield_to_each_other(many: int, trips: list[int]) -> None:
    servers = begun(many)
    changes = [join(1, CHESS), join(2, RADIO)]
    servers.ask("b", changes[0])
    servers.ask("c", changes[1])
    servers.run(10.0)
    assert sorted(in_place(servers, changes)) == trips
    assert bool(servers.messages()["Yield"]) == (not many)


def test_far_sites_change_groups_ten_times_as_often_with_lanes() -> None:
    sites = ("huji", "mit", "ntu")
    assert per_second(sites, lanes=30) > 10 * per_second(sites)


def test_a_failure_ends_all_lanes_and_the_next_changes_follow_it() -> None:
    servers = begun()
    servers.ask("b", join(1, CHESS), join(2, RADIO))
    servers.run(1.0)
    assert {group for group, _ in servers.cores["a"].state.lanes} == {CHESS, RADIO}
    servers.crash("c")
    servers.notice("c")
    servers.run(3.0)
    for name in "ab":
        state = servers.cores[name].state
        assert state.lanes == () and isinstance(state.last.proposal.change, ServersFailed)
        assert state.slot == ERA, "above all slots of lanes"
    servers.ask("a", join(3, CHESS))
    servers.run(5.0)
    assert servers.cores["b"].state.lanes[0][1].slot == ERA + 1


def test_a_change_of_the_whole_set_waits_for_lanes_and_lanes_wait_for_it() -> None:
    servers = begun()
    first, whole, later = join(1, CHESS), create("tea"), join(2, RADIO)
    servers.ask("b", first)
    servers.run(0.05)
    servers.ask("c", whole)  # which has not heard of the first
    servers.run(0.16)
    servers.ask("a", later)
    servers.run(20.0)
    for name in "abc":
        order = [change for _, where, change in servers.commits if where == name]
        assert sorted(order, key=str) == sorted([first, whole, later], key=str)
        assert order.index(whole) == [each for _, where, each in servers.commits if where == "a"].index(whole)
    assert len({core.state.base for core in servers.cores.values()}) == 1


def test_with_as_many_lanes_as_there_may_be_the_next_change_is_of_the_whole_set() -> None:
    servers = begun(many=6)  # two for each server
    changes = [join(number, Group(f"g{number}", ROOT)) for number in range(5)]
    servers.ask("b", *changes)
    servers.run(20.0)
    assert in_place(servers, changes) == [3, 3, 5, 7, 7]
    assert [len(core.state.lanes) for core in servers.cores.values()] == [2, 2, 2]


def test_who_is_passed_again_and_again_proposes_a_change_of_the_whole_set() -> None:
    """V-068: others' changes of the whole set would go first for ever."""
    servers = begun()
    servers.ask("a", *[create(f"a{number}") for number in range(50)])
    servers.ask("b", *[create(f"b{number}") for number in range(50)])
    mine = join(1, CHESS)
    servers.ask("c", mine)
    servers.run(100.0)
    order = [change for _, where, change in servers.commits if where == "c"]
    assert len(order) == 101
    assert order.index(mine) <= 2 * PASSED_MAX


def test_servers_that_do_not_know_of_lanes_are_not_asked_in_one() -> None:
    servers = begun()
    for core in servers.cores.values():
        view = core.state.view
        old = replace(view.members[0], level=1)
        core.state = replace(core.state, view=replace(view, members=(old, *view.members[1:])))
    servers.ask("b", join(1, CHESS))
    servers.run(5.0)
    assert all(core.state.lanes == () and core.state.last for core in servers.cores.values())


# Which changes


def group(kind: GroupKind) -> AgreedGroup:
    return AgreedGroup((AgreedView(1),), kind=kind)


RULED, INNER = replace(PLAIN, survive="majority"), replace(PLAIN, within="chess")


@pytest.mark.parametrize(
    ("change", "table", "fits"),
    [
        (join(1, CHESS), GroupTable(), True),
        (join(1, CHESS), GroupTable({CHESS: group(PLAIN), RADIO: group(RULED)}), True),
        (join(1, CHESS), GroupTable({CHESS: group(RULED)}), False),
        (replace(join(1, CHESS), kind=RULED), GroupTable(), False),
        (replace(join(1, CHESS), kind=INNER), GroupTable(), False),
        (join(1, CHESS), GroupTable({CHESS: group(PLAIN), RADIO: group(INNER)}), False),
        (join(1, RADIO), GroupTable({CHESS: group(PLAIN), RADIO: group(INNER)}), False),
        (join(1, CHESS), GroupTable(places={RADIO: GroupPlace()}), False),
        (create("tea"), GroupTable(), False),
        (replace(create("tea"), verb=GroupVerb.ORDER), GroupTable(), False),
    ],
)
def test_what_concerns_more_than_one_group_or_a_rule_has_no_lane(
    change: GroupChange, table: GroupTable, fits: bool
) -> None:
    assert fits_a_lane(change, table) is fits


def proposed(servers: TimedSet, change: GroupChange, *, slot: int = 1) -> Initiate:
    """By a server that does not keep to the rules."""
    state = servers.cores["a"].state
    pid = Pid(state.me, 7)
    proposal = Proposal(pid, slot, state.base, change, priority_of(change, state.view, pid), lane=True)
    return Initiate(ROOT, 1, state.view.number, (), proposal, Round(pid, 0, state.me))


@pytest.mark.parametrize(
    ("change", "slot", "why"),
    [
        (create("tea"), 1, "not for a lane"),
        (replace(join(1, CHESS), kind=RULED), 1, "not for a lane"),
        (join(1, CHESS), ERA, "not of the next slot"),
    ],
)
def test_a_proposal_that_is_in_the_wrong_lane_is_ignored(change: GroupChange, slot: int, why: str) -> None:
    servers = begun()
    core = servers.cores["b"]
    out = core.step(0.0, Received(Domain("a"), proposed(servers, change, slot=slot)))
    assert out == [Ignored("Initiate", why)] and core.state.locks == ()


def test_groups_are_forgotten_by_the_whole_set_and_not_in_a_lane() -> None:
    """Servers come to it in different orders of lanes, and would forget different groups."""
    many = {Group(f"g{number}", ROOT): group(PLAIN) for number in range(EMPTIED_MAX + 1)}
    table, servers = GroupTable(many), begun()
    assert table.must_forget
    view = SetView(1, Pid(servers.cores["a"].state.me, 0), (SetMember(servers.cores["a"].state.me),))
    initiate = proposed(servers, join(1, CHESS))
    in_lane = CommitRecord(initiate.proposal, initiate.round)
    assert len(table.apply(in_lane, view)[0].groups) >= len(many)
    of_all = replace(in_lane, proposal=replace(in_lane.proposal, lane=False))
    assert len(table.apply(of_all, view)[0].groups) < len(many)

    for core in servers.cores.values():
        core.state = replace(core.state, table=table)
    servers.ask("b", join(1, CHESS))
    servers.run(5.0)
    assert servers.cores["a"].state.lanes == () and servers.cores["a"].state.slot == ERA


def test_locks_of_lanes_outlive_a_restart() -> None:
    servers = begun()
    servers.ask("b", join(1, CHESS))
    servers.run(1.0)
    servers.ask("b", join(2, CHESS), join(3, RADIO))
    servers.run(1.15)
    for name, phase in (("b", Coordinating), ("c", Locked)):
        records, before = Records(), servers.cores[name].state
        SetKeeper(ROOT, records).keep(ROOT, before)
        after = SetKeeper(ROOT, records).recovered()[ROOT]
        assert [group for group, _ in after.lanes] == [CHESS, RADIO]
        assert after.locks == before.locks
        for (_, was), (_, now) in zip(before.lanes, after.lanes, strict=True):
            assert (now.base, now.slot, now.last) == (was.base, was.slot, was.last)
            assert isinstance(now.phase, phase)


def test_a_lost_commit_in_a_lane_is_asked_for_and_a_coordinator_s_death_is_one_in_all_lanes() -> None:
    servers = begun()
    servers.ask("b", join(1, CHESS), join(2, RADIO))
    servers.run(0.21)  # it has committed both
    servers.lose("b", "c")
    servers.run(5.0)
    assert in_place(servers, [join(1, CHESS)])[0] > 20
    servers.ask("b", join(3, CHESS), join(4, RADIO))
    servers.run(5.15)
    servers.crash("b")
    servers.run(5.3)
    servers.notice("b")
    servers.run(20.0)
    for number, group_of_it in ((3, CHESS), (4, RADIO)):
        assert set(servers.when(join(number, group_of_it))) == {"a", "c"}
    assert {core.state.base for name, core in servers.cores.items() if name != "b"} == {
        servers.cores["a"].state.base
    }
