"""One agent's machine for one set: each arrow of `state.py` by itself; and trees that are three deep."""

from typing import Any

import pytest
from support.lednet import CHESS, LedNet

from rostra.core.effects import CancelTimer, Effect, Ignored, SetTimer
from rostra.names import Domain
from rostra.protocols.led.config import STEPS_MAX, LedConfig
from rostra.protocols.led.core import (
    CircuitDown,
    CircuitUp,
    LeaderNamed,
    MemberCame,
    MemberWent,
    PostLetter,
    RegistrarChanged,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
    WantCircuit,
)
from rostra.protocols.led.messages import (
    RESIGNED,
    Assert,
    AttachAsked,
    AttachNo,
    AttachOk,
    DetachedFromSet,
    EntryChange,
    ListChanges,
    ListEntry,
    ListReport,
    LocalMember,
    RootMoved,
    SetReleased,
)
from rostra.protocols.led.state import AgentId, Attach, Child, Contend, Leader

H1, H2, H3, H4, H5 = (Domain(f"eu.fr.h{number}") for number in range(1, 6))
EVERYONE = (H1, H2, H3, H4, H5)
CONFIG = LedConfig()


def contender() -> TreeCore:
    core = TreeCore(AgentId(H1, 1), CHESS, CONFIG)
    core.step(MemberCame(LocalMember("a#1")), EVERYONE)
    return core


def leader(*children: Domain) -> TreeCore:
    core = contender()
    core.step(LeaderNamed(core.state.number, H1), EVERYONE)
    for agent in children:
        core.step(TreeReceived(agent, AttachAsked(CHESS, 1, listed(agent))), EVERYONE)
    return core


def attaching(*children: Domain) -> TreeCore:
    """To H2, which leads; its own children are from when it led."""
    core = leader(*children)
    core.step(LeaderNamed(core.state.number, H2), EVERYONE)
    return core


def child(*children: Domain, root: Domain = H2) -> TreeCore:
    core = attaching(*children)
    core.step(TreeReceived(H2, AttachOk(CHESS, core.state.number, root)), EVERYONE)
    return core


def listed(agent: Domain, version: int = 1) -> tuple[ListEntry, ...]:
    return (ListEntry(agent, 1, version, (LocalMember("m#1"),)),)


def standing(core: TreeCore) -> Any:
    assert core.record is not None
    return core.record.standing


def asserted(effects: list[Effect]) -> list[Assert]:
    letters = [each.letter for each in effects if isinstance(each, PostLetter)]
    return [each for each in letters if isinstance(each, Assert)]


def sent(effects: list[Effect]) -> list[tuple[Domain, Any]]:
    return [(each.peer, each.message) for each in effects if isinstance(each, SendTree)]


def timer(effects: list[Effect], what: str) -> float:
    (found,) = [each.after_s for each in effects if isinstance(each, SetTimer) and each.timer[1] == what]
    return found


# Answers of the registrar


@pytest.mark.spec("S-034")
def test_an_assert_is_repeated_less_and_less_often_up_to_a_bound() -> None:
    core = contender()
    number = core.state.number
    waits = []
    for _ in range(7):
        effects = core.step(SetTimerFired("assert"), EVERYONE)
        assert [each.number for each in asserted(effects)] == [number]
        waits.append(timer(effects, "assert"))
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0]


@pytest.mark.spec("S-036")
def test_a_leader_asserts_three_times_in_a_lease_and_repeats_what_is_not_answered() -> None:
    core = contender()
    effects = core.step(LeaderNamed(core.state.number, H1), EVERYONE)
    assert timer(effects, "assert") == CONFIG.lease_s / 3
    first = core.state.number
    effects = core.step(SetTimerFired("assert"), EVERYONE)
    (new,) = asserted(effects)
    assert new.number > first and timer(effects, "assert") == CONFIG.assert_s
    assert asserted(core.step(SetTimerFired("assert"), EVERYONE)) == [new]
    assert core.leads, "its lease is the registrar's to end"
    effects = core.step(LeaderNamed(new.number, H1), EVERYONE)
    assert timer(effects, "assert") == CONFIG.lease_s / 3


@pytest.mark.spec("S-035")
@pytest.mark.parametrize("core", [contender(), leader()], ids=["contender", "leader"])
def test_an_answer_to_an_older_assert_is_ignored(core: TreeCore) -> None:
    old = core.state.number
    core.step(RegistrarChanged(), EVERYONE)
    before = core.state
    for named in (H1, H2):
        assert core.step(LeaderNamed(old, named), EVERYONE) == [Ignored("AssertReply", "late reply")]
    assert core.state == before and before.number > old


@pytest.mark.spec("S-035")
@pytest.mark.parametrize("core", [attaching(), child()], ids=["attaching", "child"])
def test_an_agent_that_asserted_nothing_ignores_answers(core: TreeCore) -> None:
    before = core.state
    ignored = [Ignored("AssertReply", "not contending")]
    assert core.step(LeaderNamed(before.number, H3), EVERYONE) == ignored
    assert core.state == before


@pytest.mark.spec("S-035")
def test_an_agent_that_waits_before_it_asserts_again_ignores_answers() -> None:
    core = attaching()
    core.step(TreeReceived(H2, AttachNo(CHESS, core.state.number)), EVERYONE)
    before = core.state
    ignored = [Ignored("AssertReply", "not contending")]
    assert core.step(LeaderNamed(before.number, H2), EVERYONE) == ignored
    assert core.state == before


@pytest.mark.spec("S-035", "S-071")
def test_an_answer_for_an_agent_that_has_nothing_any_more_makes_no_record() -> None:
    """It gives a name back that it did not know to be its own (TS23)."""
    core = contender()
    number = core.state.number
    core.step(MemberWent("a#1"), EVERYONE)
    assert core.step(LeaderNamed(number, H2), EVERYONE) == [Ignored("AssertReply", "not contending")]
    released = PostLetter(None, SetReleased(CHESS, number, 1))
    assert core.step(LeaderNamed(number, H1), EVERYONE) == [released]
    assert core.record is None


@pytest.mark.spec("S-056", "S-057")
def test_of_all_agents_leaders_and_contenders_alone_assert_to_a_new_registrar() -> None:
    assert len(asserted(leader(H3).step(RegistrarChanged(), EVERYONE))) == 1
    assert len(asserted(contender().step(RegistrarChanged(), EVERYONE))) == 1
    assert child(H3).step(RegistrarChanged(), EVERYONE) == []
    assert attaching(H3).step(RegistrarChanged(), EVERYONE) == []


# Attaching


@pytest.mark.spec("S-040", "S-042")
def test_a_leader_that_becomes_a_child_keeps_its_children_and_lists_them() -> None:
    core = leader(H3, H4)
    effects = core.step(LeaderNamed(core.state.number, H2), EVERYONE)
    ((to, asked),) = sent(effects)
    assert (to, [entry.origin for entry in asked.entries]) == (H2, [H1, H3, H4])
    effects = core.step(TreeReceived(H2, AttachOk(CHESS, asked.number, H2)), EVERYONE)
    assert standing(core) == Child(H2, H2, asked.entries)
    assert sent(effects) == [(H3, RootMoved(CHESS, H2)), (H4, RootMoved(CHESS, H2))]
    assert [entry.origin for entry in core.entries] == [H1, H3, H4]


@pytest.mark.spec("S-041")
@pytest.mark.parametrize(
    ("core", "redirect"),
    [
        (contender(), None),
        (attaching(), None),
        (child(), H2),
        (TreeCore(AgentId(H1, 1), CHESS, CONFIG), None),
    ],
    ids=["contender", "attaching", "child", "none"],
)
def test_only_a_leader_accepts_children(core: TreeCore, redirect: Domain | None) -> None:
    before = core.state
    effects = core.step(TreeReceived(H5, AttachAsked(CHESS, 7, listed(H5))), EVERYONE)
    assert effects == [SendTree(H5, AttachNo(CHESS, 7, redirect))]
    assert core.state == before


@pytest.mark.spec("S-041", "S-037")
def test_an_agent_that_is_refused_waits_and_asserts_with_a_suspicion() -> None:
    core = attaching()
    effects = core.step(TreeReceived(H2, AttachNo(CHESS, core.state.number)), EVERYONE)
    assert isinstance(standing(core), Contend) and asserted(effects) == []
    assert CONFIG.assert_s <= timer(effects, "assert") < 2 * CONFIG.assert_s
    (again,) = asserted(core.step(SetTimerFired("assert"), EVERYONE))
    assert again.suspect == H2


@pytest.mark.spec("S-041")
def test_two_agents_that_refused_each_other_do_not_assert_again_at_the_same_moment() -> None:
    waits = set()
    for host in EVERYONE[2:]:
        core = TreeCore(AgentId(host, 1), CHESS, CONFIG)
        core.step(MemberCame(LocalMember("a#1")), EVERYONE)
        core.step(LeaderNamed(core.state.number, H2), EVERYONE)
        effects = core.step(TreeReceived(H2, AttachNo(CHESS, core.state.number)), EVERYONE)
        waits.add(timer(effects, "assert"))
    assert len(waits) == len(EVERYONE[2:])


@pytest.mark.spec("S-041", "S-070")
def test_a_child_that_asks_to_attach_anew_is_no_child_of_an_agent_that_does_not_lead() -> None:
    """It has lost us for its parent before we knew: it is not to be listed by two ways."""
    core = child(H3)
    effects = core.step(TreeReceived(H3, AttachAsked(CHESS, 9, listed(H3))), EVERYONE)
    assert sent(effects) == [(H3, AttachNo(CHESS, 9, H2))]
    assert [entry.origin for entry in core.entries] == [H1]


@pytest.mark.spec("S-041")
def test_an_agent_is_sent_on_to_the_parent_so_many_times_and_then_contends() -> None:
    core = attaching()
    for step in range(STEPS_MAX):
        at, onward = (H2, H3) if step % 2 == 0 else (H3, H2)
        assert standing(core).parent == at
        effects = core.step(TreeReceived(at, AttachNo(CHESS, core.state.number, onward)), EVERYONE)
        assert [to for to, _ in sent(effects)] == [onward]
    core.step(TreeReceived(H2, AttachNo(CHESS, core.state.number, H3)), EVERYONE)
    assert isinstance(standing(core), Contend)


@pytest.mark.spec("S-041", "S-070")
@pytest.mark.parametrize("onward", [H1, H2])
def test_an_agent_is_not_sent_to_itself_nor_to_who_sends_it_on(onward: Domain) -> None:
    core = attaching()
    core.step(TreeReceived(H2, AttachNo(CHESS, core.state.number, onward)), EVERYONE)
    assert isinstance(standing(core), Contend)


@pytest.mark.spec("S-042")
def test_an_answer_of_another_agent_or_to_an_older_question_is_ignored() -> None:
    core = attaching()
    before = core.state
    for peer, number in ((H3, before.number), (H2, before.number - 1)):
        late = core.step(TreeReceived(peer, AttachOk(CHESS, number, peer)), EVERYONE)
        assert late == [Ignored("AttachOk", "late reply")]
        late = core.step(TreeReceived(peer, AttachNo(CHESS, number, H4)), EVERYONE)
        assert late == [Ignored("AttachNo", "late reply")]
    assert core.state == before


@pytest.mark.spec("S-061")
def test_a_lost_parent_is_tried_again_with_the_whole_list_before_the_agent_contends() -> None:
    core = child(H3)
    effects = core.step(CircuitDown(H2), (H3,))
    assert WantCircuit(H2) in effects and asserted(effects) == []
    assert timer(effects, "connect") == CONFIG.attach_s
    ((to, asked),) = sent(core.step(CircuitUp(H2), EVERYONE))
    assert (to, [entry.origin for entry in asked.entries]) == (H2, [H1, H3])

    core.step(CircuitDown(H2), (H3,))
    (contended,) = asserted(core.step(SetTimerFired("connect"), (H3,)))
    assert contended.suspect == H2 and [entry.origin for entry in core.entries] == [H1, H3]


@pytest.mark.spec("S-027", "S-022")
def test_an_inner_agent_whose_members_all_left_stays_where_it_is_and_lists_its_children() -> None:
    core = child(H3)
    effects = core.step(MemberWent("a#1"), EVERYONE)
    assert sent(effects) == [] and isinstance(standing(core), Child)
    ((to, report),) = sent(core.step(SetTimerFired("report"), EVERYONE))
    assert (to, type(report)) == (H2, ListReport)
    assert {entry.origin: len(entry.members) for entry in report.entries} == {H1: 0, H3: 1}
    effects = core.step(TreeReceived(H3, DetachedFromSet(CHESS)), EVERYONE)
    assert sent(effects) == [(H2, DetachedFromSet(CHESS))] and core.record is None


@pytest.mark.spec("S-062")
def test_what_a_lost_child_reported_goes_and_nothing_else() -> None:
    core = child(H3, H4)
    core.step(CircuitDown(H3), (H2, H4))
    ((_, report),) = sent(core.step(SetTimerFired("report"), EVERYONE))
    assert [entry.origin for entry in report.entries] == [H1, H4]


@pytest.mark.spec("S-065", "S-048")
def test_entries_of_an_older_life_are_void_as_soon_as_one_of_the_new_life_is_here() -> None:
    """H5 was below H3 in its first life, with a high version; it is below H4 in its second."""
    core = leader()
    for peer, life, version, name in ((H3, 1, 99, "old#1"), (H4, 2, 1, "new#1")):
        below = (ListEntry(peer, 1, 1), ListEntry(H5, life, version, (LocalMember(name),)))
        core.step(TreeReceived(peer, AttachAsked(CHESS, 1, below)), EVERYONE)
    assert [member.name for entry in core.entries if entry.origin == H5 for member in entry.members] == [
        "new#1"
    ]


@pytest.mark.spec("S-043")
def test_a_child_moves_to_the_root_and_leaves_its_parent_when_it_is_in() -> None:
    core = child(root=H3)
    effects = core.step(SetTimerFired("flatten"), EVERYONE)
    ((to, asked),) = sent(effects)
    assert (to, type(asked), standing(core).parent) == (H3, AttachAsked, H2)
    effects = core.step(TreeReceived(H3, AttachOk(CHESS, asked.number, H3)), EVERYONE)
    assert sent(effects) == [(H2, DetachedFromSet(CHESS))]
    assert standing(core) == Child(H3, H3, asked.entries)


@pytest.mark.spec("S-027", "S-042")
def test_an_agent_that_has_nothing_left_detaches_from_all_that_may_list_it() -> None:
    """Also from one that it asked to be its parent: the answer may be on its way."""
    for core, above in ((attaching(), [H2]), (child(), [H2]), (child(root=H3), [H2, H3])):
        if len(above) == 2:
            core.step(SetTimerFired("flatten"), EVERYONE)
        effects = core.step(MemberWent("a#1"), EVERYONE)
        assert sent(effects) == [(each, DetachedFromSet(CHESS)) for each in above]
        assert core.record is None


@pytest.mark.spec("S-042", "S-061")
def test_an_agent_that_waits_no_longer_for_a_parent_detaches_from_it() -> None:
    core = attaching(H3)
    effects = core.step(SetTimerFired("connect"), EVERYONE)
    assert sent(effects) == [(H2, DetachedFromSet(CHESS))] and len(asserted(effects)) == 1


@pytest.mark.spec("S-043", "S-042")
def test_answers_to_an_older_question_move_no_child() -> None:
    core = child(root=H3)
    core.step(SetTimerFired("flatten"), EVERYONE)
    before = core.state
    for late in (AttachOk(CHESS, before.number - 1, H3), AttachNo(CHESS, before.number - 1)):
        assert core.step(TreeReceived(H3, late), EVERYONE) == [Ignored(type(late).__name__, "late reply")]
    assert core.state == before


@pytest.mark.spec("S-043")
@pytest.mark.parametrize("how", ["no", "lost", "silent"])
def test_a_child_that_the_root_does_not_take_stays_with_its_parent(how: str) -> None:
    core = child(root=H3)
    core.step(SetTimerFired("flatten"), EVERYONE)
    match how:
        case "no":
            effects = core.step(TreeReceived(H3, AttachNo(CHESS, core.state.number)), EVERYONE)
        case "lost":
            effects = core.step(CircuitDown(H3), (H2,))
        case _:
            effects = core.step(SetTimerFired("connect"), EVERYONE)
    assert standing(core) == Child(H2, H2, standing(core).sent) and asserted(effects) == []
    assert sent(effects) == ([(H3, DetachedFromSet(CHESS))] if how == "silent" else [])
    assert not any(isinstance(each, SetTimer) for each in effects), "until it hears of another root"


@pytest.mark.spec("S-043", "S-061")
def test_a_child_that_loses_its_parent_while_it_moves_to_the_root_goes_on_moving() -> None:
    core = child(root=H3)
    ((_, asked),) = sent(core.step(SetTimerFired("flatten"), EVERYONE))
    assert core.step(CircuitDown(H2), (H3,)) == []
    core.step(TreeReceived(H3, AttachOk(CHESS, asked.number, H3)), (H3,))
    assert standing(core) == Child(H3, H3, asked.entries)


@pytest.mark.spec("S-043", "S-064")
def test_a_child_that_leads_from_now_on_tells_its_children() -> None:
    core = child(H3)
    core.step(CircuitDown(H2), (H3,))
    core.step(SetTimerFired("connect"), (H3,))
    effects = core.step(LeaderNamed(core.state.number, H1), (H3,))
    assert sent(effects) == [(H3, RootMoved(CHESS, H1))] and core.took_over


@pytest.mark.spec("S-012", "S-043")
@pytest.mark.parametrize("onward", [None, H4, H1, H2])
@pytest.mark.parametrize("moves", [False, True])
def test_a_child_whose_parent_resigns_goes_on_to_the_root_or_where_it_is_sent_or_contends(
    onward: Domain | None, moves: bool
) -> None:
    core = child(root=H3)
    if moves:
        core.step(SetTimerFired("flatten"), EVERYONE)
    before = standing(core)
    effects = core.step(TreeReceived(H2, AttachNo(CHESS, RESIGNED, onward)), EVERYONE)
    if moves:
        assert standing(core) == before.moving and sent(effects) == asserted(effects) == []
    elif onward == H4:
        assert [to for to, _ in sent(effects)] == [H4] and standing(core).parent == H4
    else:
        assert [each.suspect for each in asserted(effects)] == [None]


@pytest.mark.spec("S-043", "S-070")
def test_a_root_is_believed_from_the_parent_alone_and_is_never_the_agent_itself() -> None:
    core = child(H3)
    before = core.state
    ignored = [Ignored("RootMoved", "not our parent")]
    for peer, root in ((H3, H4), (H2, H1)):
        assert core.step(TreeReceived(peer, RootMoved(CHESS, root)), EVERYONE) == ignored
    assert core.state == before
    assert sent(core.step(TreeReceived(H2, RootMoved(CHESS, H4)), EVERYONE)) == [(H3, RootMoved(CHESS, H4))]


@pytest.mark.spec("S-045")
@pytest.mark.parametrize("moves", [False, True])
def test_what_changes_while_an_agent_attaches_is_reported_when_it_is_in(moves: bool) -> None:
    core = child(root=H3) if moves else attaching()
    if moves:
        core.step(SetTimerFired("flatten"), EVERYONE)
    number, above = core.state.number, H3 if moves else H2
    core.step(MemberCame(LocalMember("b#1")), EVERYONE)
    effects = core.step(TreeReceived(above, AttachOk(CHESS, number, above)), EVERYONE)
    assert moves or timer(effects, "report") == CONFIG.report_s
    ((to, report),) = sent(core.step(SetTimerFired("report"), EVERYONE))
    assert (to, [member.name for member in report.entries[0].members]) == (above, ["a#1", "b#1"])


@pytest.mark.spec("S-042", "S-061")
def test_an_agent_whose_circuit_is_lost_while_it_attaches_asks_again_with_its_list_of_then() -> None:
    core = attaching()
    assert WantCircuit(H2) in core.step(CircuitDown(H2), ())
    core.step(MemberCame(LocalMember("b#1")), ())
    ((to, asked),) = sent(core.step(CircuitUp(H2), EVERYONE))
    assert (to, type(asked), len(asked.entries[0].members)) == (H2, AttachAsked, 2)


@pytest.mark.spec("S-049")
def test_a_list_that_is_again_what_the_parent_has_is_not_sent() -> None:
    core = child(H3)
    entries = core.entries
    core.step(TreeReceived(H3, ListReport(CHESS, listed(H3, 2))), EVERYONE)
    core.step(TreeReceived(H3, ListReport(CHESS, listed(H3, 1))), EVERYONE)
    assert core.entries == entries
    assert sent(core.step(SetTimerFired("report"), EVERYONE)) == []


@pytest.mark.spec("S-046")
def test_changes_of_an_agent_that_the_child_did_not_list_are_no_list() -> None:
    core = leader(H3)
    before = core.state
    part = EntryChange(H5, 2, (LocalMember("m#1"),))
    effects = core.step(TreeReceived(H3, ListChanges(CHESS, (), (part,))), EVERYONE)
    assert effects == [Ignored("ListChanges", "not a list")] and core.state == before


# Children in doubt


def doubting() -> TreeCore:
    core = TreeCore(AgentId(H1, 1), CHESS, LedConfig(grace_s=5.0))
    core.step(MemberCame(LocalMember("a#1")), EVERYONE)
    core.step(LeaderNamed(core.state.number, H1), EVERYONE)
    core.step(TreeReceived(H2, AttachAsked(CHESS, 1, listed(H2))), EVERYONE)
    core.step(CircuitDown(H2), ())
    return core


@pytest.mark.spec("S-063", "S-042")
def test_a_child_in_doubt_reports_nothing_until_it_has_attached_again() -> None:
    core = doubting()
    before = core.state
    effects = core.step(TreeReceived(H2, ListReport(CHESS, listed(H2, 2))), EVERYONE)
    assert effects == [Ignored("ListReport", "not a child")] and core.state == before
    core.step(TreeReceived(H2, AttachAsked(CHESS, 2, listed(H2, 2))), EVERYONE)
    assert not any(entry.in_doubt for entry in core.entries)


@pytest.mark.spec("S-063")
def test_a_child_that_is_lost_a_second_time_has_the_whole_grace_again() -> None:
    core = doubting()
    attached = core.step(TreeReceived(H2, AttachAsked(CHESS, 2, listed(H2))), EVERYONE)
    assert any(isinstance(each, CancelTimer) and each.timer[1] == f"grace {H2}" for each in attached)
    assert timer(core.step(CircuitDown(H2), ()), f"grace {H2}") == 5.0


@pytest.mark.spec("S-063")
def test_a_circuit_that_comes_and_goes_before_the_child_attached_again_costs_no_grace() -> None:
    core = doubting()
    before = core.state
    assert core.step(CircuitUp(H2), EVERYONE) == [] == core.step(CircuitDown(H2), ())
    assert core.state == before
    core.step(SetTimerFired(f"grace {H2}"), ())
    assert [entry.origin for entry in core.entries] == [H1]


@pytest.mark.spec("S-063", "S-048")
def test_of_two_equally_old_statements_the_one_without_doubt_counts() -> None:
    core = doubting()
    core.step(TreeReceived(H4, AttachAsked(CHESS, 1, (*listed(H2), *listed(H4)))), EVERYONE)
    assert [(entry.origin, entry.in_doubt) for entry in core.entries] == [
        (H1, False),
        (H2, False),
        (H4, False),
    ]
    core.step(TreeReceived(H4, DetachedFromSet(CHESS)), EVERYONE)
    assert [(entry.origin, entry.in_doubt) for entry in core.entries] == [(H1, False), (H2, True)]


@pytest.mark.spec("S-049")
def test_changes_within_the_time_of_a_report_go_up_in_one_and_do_not_put_it_off() -> None:
    core = child()
    effects = core.step(MemberCame(LocalMember("b#1")), EVERYONE)
    assert timer(effects, "report") == CONFIG.report_s > 0
    for name in ("c#1", "d#1"):
        assert core.step(MemberCame(LocalMember(name)), EVERYONE) == []
    effects = core.step(SetTimerFired("report"), EVERYONE)
    assert [len(report.entries[0].members) for _, report in sent(effects)] == [4]
    assert core.step(MemberCame(LocalMember("d#1")), EVERYONE) == []


# Trees


def three_deep(**more: Any) -> LedNet:
    """Three sets are united one after another, and each time the leader of the older ones loses: H2 is below
    H1, H1 below H3, and H3 below H4."""
    world = LedNet(number=4, **more)
    for part, late in (([H1, H2], H3), ([H1, H2, H3], H4)):
        world.cut(part)
        world.run(5.0)
        for host in (*part, late):
            world.nodes[host].join("a#1", CHESS)
            world.run(1.0)
        world.run(20.0)
        world.heal()
        world.run(5.0)
    return world


@pytest.mark.spec("S-040", "S-044", "S-045")
@pytest.mark.parametrize("compressed", [False, True])
def test_sets_that_are_united_one_after_another_make_a_tree_with_one_report_for_each_level(
    compressed: bool,
) -> None:
    world = three_deep(config=LedConfig(flatten_s=1_000.0, compressed=compressed))
    assert world.depth() == 3 and world.leader() == H4
    assert len(world.listed()) == 4 and world.wrong() == []

    def whole(source: Domain, to: Domain, message: Any) -> None:
        if isinstance(message, ListReport):
            assert message.entries == world.nodes[source].list_of(CHESS)

    world.on_message = whole
    for change in (lambda: world.nodes[H2].join("b#1", CHESS), lambda: world.nodes[H2].leave("b#1", CHESS)):
        world.posted.clear()
        change()
        world.run(1.0)
        assert world.posted == {"ListChanges" if compressed else "ListReport": 3}
        assert world.wrong() == []


@pytest.mark.spec("S-043")
@pytest.mark.parametrize("seed", range(4))
def test_a_deep_tree_becomes_flat_and_the_list_never_loses_a_member(seed: int) -> None:
    world = three_deep(seed=seed, config=LedConfig(flatten_s=50.0))
    everyone = {f"{host}/a#1" for host in world.hosts}
    assert world.depth() == 3 and world.listed() == everyone
    for _ in range(8_000):
        world.run(0.02)
        assert world.listed() == everyone
    assert world.depth() <= 2 and world.wrong() == []


@pytest.mark.spec("S-056", "S-057")
def test_a_new_registrar_costs_one_assert_for_each_set_and_children_send_nothing() -> None:
    world = LedNet(number=5, rule="highest")
    for host in world.hosts[:4]:
        world.nodes[host].join("a#1", CHESS)
        world.run(1.0)
    world.posted.clear()
    world.crash(H5)
    world.run(2.0)
    assert world.leader() == H1 and isinstance(standing(world.nodes[H1].trees[CHESS]), Leader)
    assert world.posted == {"Assert": 1, "AssertReply": 1}
    assert set(world.nodes[H4].registrar.entries) == {CHESS}


def test_these_helpers_stand_where_they_say() -> None:
    stood = [standing(core) for core in (contender(), leader(H3), attaching(H3), child(H3))]
    assert [type(each) for each in stood] == [Contend, Leader, Attach, Child]
