"""Led sets, core by core: the scenarios of the specification, and two builds in which they fail.

Each scenario runs with every registrar rule, and with whole and compressed lists (S-021, TS19).
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from support.figure4 import Figure4Node, SingleEventCore
from support.lednet import CHESS, SCOPE_SERVER, USUAL, LedNet

from rostra.core.effects import Ignored
from rostra.names import Domain, Group
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import (
    LeaderNamed,
    MemberCame,
    MemberWent,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
)
from rostra.protocols.led.messages import (
    Assert,
    AssertReply,
    AttachAsked,
    AttachNo,
    ListEntry,
    ListReport,
    LocalMember,
    SetReleased,
)
from rostra.protocols.led.registrar import Criterion
from rostra.protocols.led.state import AgentId, Attach, Child, Contend

H1, H2, H3, H4, H5 = (Domain(f"eu.fr.h{number}") for number in range(1, 6))
GO, POKER = Group("go", Domain("eu")), Group("poker", Domain("eu"))

Net = Callable[..., LedNet]


@pytest.fixture(params=["scope", "highest", "hash", "scope compressed"])
def net(request: pytest.FixtureRequest) -> Net:
    rule, _, compressed = request.param.partition(" ")
    return lambda *given, **more: LedNet(
        *given, **{"rule": rule, "config": LedConfig(compressed=bool(compressed)), **more}
    )


def join(world: LedNet, host: Domain, name: str, group: Group = CHESS) -> None:
    world.nodes[host].join(f"{name}#1", group)


def leave(world: LedNet, host: Domain, name: str, group: Group = CHESS) -> None:
    world.nodes[host].leave(f"{name}#1", group)


def standing(world: LedNet, host: Domain) -> Any:
    record = world.nodes[host].state(CHESS).record
    return None if record is None else record.standing


@pytest.mark.spec("S-023", "S-031", "S-040", "S-042", "S-017")
def test_xs_01_the_first_leads_and_the_second_is_its_child(net: Net) -> None:
    world = net()
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)

    assert world.leader() == H1
    assert standing(world, H2).parent == H1
    assert world.listed() == {f"{H1}/a#1", f"{H2}/b#1"}
    assert world.wrong() == []


@pytest.mark.spec("S-023", "S-045")
def test_what_a_first_a_second_and_a_later_join_cost() -> None:
    world = LedNet()
    join(world, H1, "a")
    world.run(0.4)
    assert world.posted == {"Assert": 1, "AssertReply": 1}
    world.posted.clear()

    join(world, H2, "b")
    world.run(0.4)
    assert world.posted == {"Assert": 1, "AssertReply": 1, "AttachAsked": 1, "AttachOk": 1}
    world.posted.clear()

    join(world, H2, "c")
    world.run(0.4)
    assert world.posted == {"ListReport": 1}
    world.posted.clear()

    join(world, H1, "d")
    world.run(0.4)
    assert not world.posted


@pytest.mark.spec("S-064", "S-067", "S-068")
def test_xs_02_five_join_at_once(net: Net) -> None:
    world = net(number=5)
    for host in world.hosts:
        join(world, host, "a")
    world.run(10.0)

    assert len(world.listed()) == 5
    assert sum(isinstance(standing(world, host), Child) for host in world.hosts) == 4
    assert world.wrong() == []


def rejoined_at_a_child(world: LedNet) -> LedNet:
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)
    leave(world, H2, "b")
    world.run(1.0)
    join(world, H2, "b")
    world.run(30.0)
    return world


@pytest.mark.spec("S-024", "S-027")
def test_xs_03_who_left_and_joined_again_at_a_child_is_listed(net: Net) -> None:
    assert rejoined_at_a_child(net()).wrong() == []


def test_figure_4_fails_xs_03() -> None:
    wrong = rejoined_at_a_child(LedNet(rule="highest", node=Figure4Node)).wrong()
    assert any(each.startswith("P-") for each in wrong), wrong


def a_report_crosses_the_last_leave(world: LedNet) -> LedNet:
    """H1 leads in a part of its own, and H2 is told so. Its first report is slow. The parts unite, H1 becomes
    a child of H3, and the last member of H1 leaves."""
    world.cut([H1, H2])
    world.run(5.0)
    join(world, H1, "a")
    join(world, H3, "b")
    world.run(1.0)

    slowed: list[Any] = []

    def slow(source: Domain, to: Domain, message: Any) -> float | None:
        first = (source, to) == (H2, H1) and not slowed
        slowed.append(message)
        return 6.0 if first else None

    world.on_message = slow
    join(world, H2, "d")
    world.run(0.3)
    world.heal()
    world.run(2.0)
    leave(world, H1, "a")
    world.run(60.0)
    return world


@pytest.mark.spec("S-027", "S-041")
def test_xs_04_a_child_whose_parent_is_gone_is_listed(net: Net) -> None:
    world = a_report_crosses_the_last_leave(net(number=4))
    assert f"{H2}/d#1" in world.listed()
    assert world.wrong() == []


def test_figure_4_fails_xs_04() -> None:
    world = a_report_crosses_the_last_leave(LedNet(number=4, rule="highest", node=Figure4Node))
    assert any(each.startswith("P-") for each in world.wrong())


@pytest.mark.spec("S-025", "S-046", "S-047")
def test_xs_05_a_join_and_a_leave_in_quick_succession(net: Net) -> None:
    world = net()
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)
    join(world, H2, "d")
    leave(world, H2, "d")
    world.run(1.0)

    assert world.listed() == {f"{H1}/a#1", f"{H2}/b#1"}


def the_parent_changes_between_a_leave_and_a_join(world: LedNet) -> LedNet:
    """Figure 2 of the paper: H4 is below H1, which is below H2; the way from H1 to H2 is slow."""
    world.cut([H1, H4])
    world.run(5.0)
    join(world, H1, "a")
    join(world, H2, "c")
    world.run(1.0)
    join(world, H4, "x")
    world.run(1.0)
    world.heal()
    world.run(5.0)
    assert (standing(world, H4).parent, standing(world, H1).parent) == (H1, H2)
    world.on_message = lambda source, to, message: 5.0 if (source, to) == (H1, H2) else None
    join(world, H4, "d")
    world.run(0.2)
    leave(world, H4, "d")
    world.run(0.2)
    world.break_circuit(H1, H4)
    world.run(1.0)
    join(world, H4, "d")
    world.run(30.0)
    return world


@pytest.mark.spec("S-044", "S-046", "S-048", "S-061", "S-062")
@pytest.mark.parametrize("compressed", [False, True])
def test_xs_06_the_last_statement_of_each_path_stands(compressed: bool) -> None:
    world = LedNet(number=4, config=LedConfig(flatten_s=1_000.0, compressed=compressed))
    the_parent_changes_between_a_leave_and_a_join(world)
    assert f"{H4}/d#1" in world.listed()
    assert world.wrong() == []


def test_single_events_fail_xs_06() -> None:
    world = LedNet(number=4, config=LedConfig(flatten_s=1_000.0), core=SingleEventCore)
    the_parent_changes_between_a_leave_and_a_join(world)
    assert f"P-3: {H4}/d#1 is missing" in world.wrong()


@pytest.mark.spec("S-033", "S-064", "S-069")
@pytest.mark.parametrize("after_s", [0.03, 0.3, 5.0])
def test_xs_07_the_leader_crashes(net: Net, after_s: float) -> None:
    world = net(number=5)
    join(world, H1, "a")
    world.run(0.0 if after_s < 0.1 else 1.0)
    for host in (H2, H3, H4, H5):
        join(world, host, "b")
    world.run(after_s)
    world.crash(H1)
    world.run(30.0)

    assert world.listed() == {f"{host}/b#1" for host in (H2, H3, H4, H5)}
    assert world.wrong() == []


@pytest.mark.spec("S-022", "S-027", "S-038", "S-071")
def test_xs_08_a_leader_without_members_leads_while_it_has_children(net: Net) -> None:
    world = net()
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)
    leave(world, H1, "a")
    world.run(1.0)
    assert world.leader() == H1
    assert world.listed() == {f"{H2}/b#1"}

    leave(world, H2, "b")
    world.run(1.0)
    assert world.leader() is None
    assert all(not node.registrar.entries for node in world.nodes.values())
    assert world.wrong() == []


@pytest.mark.spec("S-055", "S-056", "S-057", "S-058", "S-066")
@pytest.mark.parametrize("event", ["crash", "cut", "higher", "unite"])
def test_xs_09_the_registrar_changes(net: Net, event: str) -> None:
    world = net(number=5, groups=(CHESS, GO, POKER))
    if event == "higher":
        world.crash(H5)
    if event == "unite":
        world.cut([H1, H2])
    world.run(3.0)
    for group in world.groups:
        for host in (H1, H2, H3):
            join(world, host, "a", group)
    world.run(10.0)
    match event:
        case "crash":
            registrar = world.nodes[H1].believed(CHESS)
            assert registrar is not None
            world.crash(registrar.path)
        case "cut":
            world.cut([H5, SCOPE_SERVER])
        case "higher":
            world.start(H5)
        case "unite":
            world.heal()
    world.run(30.0)

    for group in world.groups:
        assert world.wrong(group) == []


@pytest.mark.spec("S-060", "S-034")
def test_xs_10_a_registrar_that_restarts_has_its_table_within_a_third_of_the_lease() -> None:
    world = LedNet(number=3, groups=(CHESS, GO, POKER))
    for group in world.groups:
        join(world, H1, "a", group)
        join(world, H2, "b", group)
    world.run(3.0)
    world.restart(SCOPE_SERVER)
    world.run(world.config.lease_s / 3 + 0.5)

    assert set(world.nodes[SCOPE_SERVER].registrar.entries) == {CHESS, GO, POKER}
    for group in world.groups:
        assert world.wrong(group) == []


@pytest.mark.spec("S-004", "S-057", "S-067", "S-068")
def test_xs_11_a_set_of_nine_is_cut_and_united(net: Net) -> None:
    world = net(number=9)
    for host in world.hosts:
        join(world, host, "a")
    world.run(10.0)
    leader = world.leader()
    some = [host for host in world.hosts if host != leader][:4]
    world.cut(some)
    world.run(1.0)
    join(world, some[0], "new")
    leave(world, some[1], "a")
    leave(world, next(host for host in world.hosts if host not in (*some, leader)), "a")
    world.run(30.0)
    assert world.wrong() == []
    assert len(world.listed(part=1)) == 4
    assert len(world.listed(part=0)) == 4

    world.heal()
    world.run(30.0)
    assert world.wrong() == []
    assert len(world.listed()) == 8


@pytest.mark.spec("S-004", "S-067")
@pytest.mark.parametrize("seed", range(4))
def test_xs_12_three_parts_unite_in_any_order(net: Net, seed: int) -> None:
    world = net(seed, 9)
    for host in world.hosts:
        join(world, host, "a")
    world.run(5.0)
    parts = [world.hosts[0:3], world.hosts[3:6]]
    world.cut(*parts)
    world.run(20.0)
    assert world.wrong() == []
    world.cut(Random(seed).choice(parts))
    world.run(20.0)
    assert world.wrong() == []
    world.heal()
    world.run(30.0)
    assert world.wrong() == []
    assert len(world.listed()) == 9


def a_late_answer_of_the_old_registrar(world: LedNet) -> LedNet:
    """H4 is the registrar, and told H1 that H2 leads. That answer is late. H4 crashes; H1 asserts to H3
    before H2 does."""
    world.slow_news_s = 0.0

    def late(source: Domain, to: Domain, letter: Any) -> float | None:
        if isinstance(letter, AssertReply) and (source, to) == (H4, H1):
            return 3.0
        return 1.0 if isinstance(letter, Assert) and (source, to) == (H2, H3) else USUAL

    world.on_letter = late
    join(world, H2, "b")
    world.run(0.2)
    join(world, H1, "a")
    world.run(0.2)
    world.crash(H4)
    world.run(30.0)
    return world


@pytest.mark.spec("S-035", "S-070")
def test_xs_13_a_late_answer_of_the_old_registrar_is_ignored() -> None:
    world = a_late_answer_of_the_old_registrar(LedNet(number=4, rule="highest"))
    assert world.ignored["not the registrar"] > 0
    assert world.wrong() == []


def test_figure_4_fails_xs_13() -> None:
    wrong = a_late_answer_of_the_old_registrar(LedNet(number=4, rule="highest", node=Figure4Node)).wrong()
    assert any("IS-1" in each for each in wrong)


@pytest.mark.spec("S-041", "S-070")
def test_xs_14_two_leaders_that_are_told_of_each_other_both_refuse() -> None:
    world = LedNet(number=3)
    world.cut([H1], [H2])
    world.run(3.0)
    join(world, H1, "a")
    join(world, H2, "b")
    world.run(3.0)
    assert {each for each in world.hosts if isinstance(standing(world, each), Child)} == set()
    held: dict[Domain, tuple[Domain, AssertReply]] = {}

    def cross(source: Domain, to: Domain, letter: Any) -> float | None:
        """The registrar's first answer to each names the other, and both arrive at one time."""
        if not isinstance(letter, AssertReply) or len(held) == 2:
            return USUAL
        held[to] = source, letter
        for agent, other in ((H1, H2), (H2, H1)) if len(held) == 2 else ():
            registrar, answer = held[agent]
            told = AssertReply(answer.group, answer.number, other)
            world.later(0.01, partial(world.nodes[agent].letter, registrar, told))
        return None

    world.on_letter = cross
    world.heal()
    world.run(40.0)

    assert set(held) == {H1, H2} and world.posted["AttachNo"] >= 2
    assert world.wrong() == []
    assert len(world.listed()) == 2


@pytest.mark.spec("S-034")
def test_xs_15_half_of_all_datagrams_are_lost(net: Net) -> None:
    world = net(number=5, loss=0.5)
    for host in world.hosts:
        join(world, host, "a")
    world.run(60.0)
    assert world.wrong() == []
    assert len(world.listed()) == 5


@pytest.mark.spec("S-034")
def test_an_assert_is_repeated_with_the_same_number_until_it_is_answered() -> None:
    world = LedNet()
    lost: list[int] = []

    def lose_three(source: Domain, to: Domain, letter: Any) -> float | None:
        if isinstance(letter, Assert) and len(lost) < 3:
            lost.append(letter.number)
            return None
        return USUAL

    world.on_letter = lose_three
    join(world, H1, "a")
    world.run(0.4)
    assert isinstance(standing(world, H1), Contend)
    world.run(5.0)
    assert len(set(lost)) == 1
    assert world.leader() == H1


@pytest.mark.spec("S-037")
def test_xs_16_a_leader_that_does_not_answer_is_replaced() -> None:
    """Its host is reachable, its agent is not: the registrar asks before it believes that."""
    world = LedNet(number=3)
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)
    world.on_letter = lambda source, to, letter: None if H1 in (source, to) else USUAL
    world.no_circuits = True
    world.break_circuit(H1, H2)
    world.run(world.config.attach_s + 3 * world.config.assert_s + 1.0)

    assert isinstance(standing(world, H2), type(standing(world, H1)))
    assert world.posted["LeaderProbe"] == 1
    assert world.nodes[SCOPE_SERVER].registrar.entries[CHESS].leader.agent == H2


@pytest.mark.spec("S-036")
def test_a_registrar_that_replaced_a_leader_by_mistake_has_one_leader_again_within_a_lease() -> None:
    world = LedNet(number=3)
    join(world, H1, "a")
    world.run(1.0)
    world.nodes[SCOPE_SERVER].registrar.entries.clear()
    join(world, H2, "b")
    world.run(0.5)
    world.run(world.config.lease_s)
    assert world.wrong() == []
    assert len(world.listed()) == 2


@pytest.mark.spec("S-032")
@pytest.mark.parametrize("criterion", Criterion)
def test_which_of_two_leaders_wins(criterion: Criterion) -> None:
    """Two sets of two and of five members meet; the smaller one asserted first."""
    world = LedNet(number=3, criterion=criterion)
    world.cut([H1])
    world.run(3.0)
    for name in "vwxyz":
        join(world, H1, name)
    for name in "ab":
        join(world, H3, name)
    world.run(3.0)
    world.heal()
    world.run(30.0)
    assert world.wrong() == []
    expected = {Criterion.FIRST: H3, Criterion.HIGHER: H3, Criterion.LARGER: H1}
    assert world.leader() == expected[criterion]


@pytest.mark.spec("S-043", "S-040")
def test_ten_merges_leave_a_tree_of_depth_two_at_most() -> None:
    world = LedNet(number=11)
    for place in range(11):
        world.cut(*[[host] for host in world.hosts[place:]])
        world.run(3.0)
        join(world, world.hosts[place], "a")
        world.run(3.0)
    world.heal()
    world.run(120.0)
    assert world.wrong() == []
    assert len(world.listed()) == 11
    assert world.depth() <= 2


@pytest.mark.spec("S-049", "S-026", "S-028")
def test_a_burst_of_joins_is_reported_in_few_lists_and_a_repeated_one_not_at_all() -> None:
    world = LedNet()
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)
    world.posted.clear()
    for number in range(100):
        join(world, H2, f"p{number}")
    world.run(1.0)
    assert world.posted == {"ListReport": 1}
    world.posted.clear()
    join(world, H2, "p1")
    leave(world, H2, "nobody")
    world.run(1.0)
    assert not world.posted


@pytest.mark.spec("S-007")
def test_sets_whose_names_begin_alike_have_nothing_to_do_with_each_other() -> None:
    one, other = Group("a/b", Domain("eu")), Group("a/c", Domain("eu"))
    world = LedNet(groups=(one, other))
    join(world, H1, "x", one)
    join(world, H2, "y", other)
    world.run(2.0)
    assert (world.leader(one), world.leader(other)) == (H1, H2)
    assert world.listed(one) == {f"{H1}/x#1"}
    assert world.listed(other) == {f"{H2}/y#1"}


@pytest.mark.spec("S-065")
def test_members_of_an_agent_that_restarts_are_gone_until_they_join_again(net: Net) -> None:
    world = net()
    join(world, H1, "a")
    world.run(1.0)
    join(world, H2, "b")
    world.run(1.0)
    world.restart(H2)
    join(world, H2, "c")
    world.run(30.0)
    assert world.listed() == {f"{H1}/a#1", f"{H2}/c#1"}
    assert world.wrong() == []


@pytest.mark.spec("S-059")
def test_who_joins_before_the_first_report_asserts_again_later() -> None:
    world = LedNet(number=0)
    world.hosts = [H1, H2]
    world.parts |= {H1: 0, H2: 0}
    world.slow_news_s = 2.0
    for host in world.hosts:
        world.start(host)
        join(world, host, "a")
    assert world.nodes[H1].believed(CHESS) == world.nodes[H1].id
    world.run(30.0)
    assert world.wrong() == []
    assert len(world.listed()) == 2


@pytest.mark.spec("S-019")
def test_a_registrar_holds_names_and_no_members() -> None:
    world = LedNet()
    for number in range(200):
        join(world, H1, f"p{number}")
    world.run(1.0)
    (entry,) = world.nodes[SCOPE_SERVER].registrar.entries.values()
    assert (entry.leader.agent, entry.leader.size) == (H1, 200) or entry.leader.size == 1
    assert "p1#1" not in repr(entry)


@pytest.mark.spec("S-036", "S-071")
def test_a_registrar_forgets_a_leader_that_asserts_no_more() -> None:
    world = LedNet()
    join(world, H1, "a")
    world.run(1.0)
    world.on_letter = lambda source, to, letter: None if isinstance(letter, SetReleased) else USUAL
    leave(world, H1, "a")
    world.run(2 * world.config.lease_s + 0.1)
    assert not world.nodes[SCOPE_SERVER].registrar.entries


@pytest.mark.spec("S-066", "S-067", "S-068", "S-069", "S-070", "S-071")
@pytest.mark.parametrize("seed", range(12))
def test_xs_21_soak(net: Net, seed: int) -> None:
    world = net(seed, 5, loss=0.2, repeats=0.1)
    soak(world, Random(seed + 1_000))
    assert world.wrong() == []


def soak(world: LedNet, luck: Random) -> None:
    members: list[tuple[Domain, str]] = []
    deeds = ("join", "join", "join", "leave", "crash", "restart", "cut", "heal", "rest", "break")
    for step in range(40):
        alive = [host for host in world.hosts if host in world.nodes]
        match luck.choice(deeds):
            case "join" if alive:
                members.append((luck.choice(alive), f"p{step}"))
                join(world, *members[-1])
            case "leave" if members:
                host, name = members.pop(luck.randrange(len(members)))
                if host in world.nodes:
                    leave(world, host, name)
            case "crash" if alive and luck.random() < 0.5:
                world.crash(luck.choice(alive))
            case "restart" if alive:
                world.restart(luck.choice(alive))
            case "cut":
                world.cut(luck.sample(sorted(world.parts), 3))
            case "heal":
                world.heal()
            case "break" if world._circuits:
                world.break_circuit(*luck.choice(sorted(world._circuits)))
        world.run(luck.choice((0.01, 0.2, 2.0, 5.0)))
    world.loss = 0.0
    for path in world.parts:
        if path not in world.nodes:
            world.start(path)
    if luck.random() < 0.5:
        world.heal()
    world.run(60.0)


# One core alone


ME = AgentId(H1, 1)


def contender(*names: str) -> TreeCore:
    core = TreeCore(ME, CHESS, LedConfig())
    for name in names:
        core.step(MemberCame(LocalMember(name)), ())
    return core


@pytest.mark.spec("S-035")
def test_an_agent_whose_members_all_left_ignores_the_answer_and_gives_the_name_back() -> None:
    core = contender("a#1")
    core.step(MemberWent("a#1"), ())
    assert core.record is None


@pytest.mark.spec("S-048")
def test_an_unsorted_list_of_a_peer_is_ignored() -> None:
    core = contender("a#1")
    entries = (ListEntry(H3, 1, 1), ListEntry(H2, 1, 1))
    before = core.state
    effects = core.step(TreeReceived(H2, AttachAsked(CHESS, 1, entries)), (H2,))
    assert effects == [Ignored("AttachAsked", "not a list")]
    assert core.state == before


def test_a_report_of_an_agent_that_is_no_child_is_ignored() -> None:
    core = contender("a#1")
    before = core.state
    effects = core.step(TreeReceived(H2, ListReport(CHESS, (ListEntry(H2, 1, 1),))), (H2,))
    assert effects == [Ignored("ListReport", "not a child")]
    assert core.state == before


@pytest.mark.spec("S-041")
def test_an_agent_that_attaches_accepts_nobody() -> None:
    core = contender("a#1")
    core.step(LeaderNamed(1, H2), (H2, H3))
    assert isinstance(core.record and core.record.standing, Attach)
    effects = core.step(TreeReceived(H3, AttachAsked(CHESS, 7, (ListEntry(H3, 1, 1),))), (H2, H3))
    assert effects == [SendTree(H3, AttachNo(CHESS, 7))]


def test_a_timer_that_nothing_waits_for_is_ignored() -> None:
    core = contender("a#1")
    assert core.step(SetTimerFired("flatten"), ()) == [Ignored("TimerFired", "nothing waits for it")]


@pytest.mark.spec("S-063")
def test_a_child_that_is_cut_off_for_a_moment_stays_listed_in_doubt() -> None:
    world = LedNet(number=3, config=LedConfig(grace_s=2.0))
    for host in world.hosts:
        join(world, host, "a")
    world.run(10.0)
    leader = world.leader()
    child = next(host for host in world.hosts if host != leader)
    everyone = world.listed()
    world.no_circuits = True
    world.break_circuit(leader, child)
    for after_s in (0.5, 0.5, 0.5):
        world.run(after_s)
        assert world.listed() == everyone  # no change is seen
        doubted = [entry.origin for entry in world.nodes[leader].list_of(CHESS) if entry.in_doubt]
        assert doubted == [child]
    world.no_circuits = False
    world.run(3.0)
    assert not any(entry.in_doubt for entry in world.nodes[leader].list_of(CHESS))
    assert world.wrong() == []


@pytest.mark.spec("S-063", "S-062")
def test_one_that_stays_away_for_longer_is_dropped() -> None:
    world = LedNet(number=3, config=LedConfig(grace_s=2.0))
    for host in world.hosts:
        join(world, host, "a")
    world.run(10.0)
    leader = world.leader()
    child = next(host for host in world.hosts if host != leader)
    world.cut([child])
    world.run(1.5)
    assert len(world.listed(part=world.parts[leader])) == 3
    world.run(1.5)
    assert len(world.listed(part=world.parts[leader])) == 2
    world.heal()
    world.run(40.0)
    assert world.wrong() == []
