"""Agreed groups: a server of a set that lies about parts, numbers and rounds, and messages that cost their
receiver more than their sender."""

from typing import Any

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from rostra.core.effects import LinkUp, Received, Send, SetTimer, TimerFired
from rostra.errors import UNDECODABLE
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.access.judge import Judge
from rostra.protocols.agreed.branch import BranchLost, HostHolds, HostQuestion, MemberAsked, ViewTold
from rostra.protocols.agreed.changes import (
    MEMBERS_MAX,
    GroupPlaced,
    GroupVerb,
    MemberId,
    PartsMerged,
    Pid,
    PlaceStep,
    Proposal,
    Round,
    ServerId,
    SetMember,
    SetPart,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.config import SET_MEMBERS_MAX, AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.cut import largest_part
from rostra.protocols.agreed.groups import (
    AGREED,
    AgreedGroup,
    AgreedMember,
    AgreedView,
    CarriedGroup,
)
from rostra.protocols.agreed.messages import AgreementStatus, CoordinatorFailed, Initiate, Offer, SetProbe
from rostra.protocols.agreed.observed import ViewAgreed
from rostra.protocols.agreed.rules import LivingState
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.agreed.sheets import with_proof
from rostra.protocols.agreed.state import founded
from rostra.protocols.agreed.told_views import view_of
from tests.attacks.test_agreed import CHESS, PARIS, Cluster, ignored, member
from tests.attacks.test_agreed_turns import calls_of
from tests.attacks.test_h6_protected_names import STRANGER, proof
from tests.attacks.test_k8_restricted_kinds import H2, PAYROLL, a_server
from tests.support.setnet import CHESS as WIDE
from tests.support.setnet import SET, SetNet, founding_view, join, server, servers
from tests.wire.behind import no_longer_than

REMEMBERED_BYTES = 64 << 20
RETURNING = ("agreed", "", "returning")


def can_be_read(message: Any) -> bool:
    try:
        msgpack.decode(msgpack.encode(message), type=type(message))
    except UNDECODABLE:
        return False
    return True


def part_of(names: str, number: int = 1, slot: int = 0) -> SetPart:
    """A part of servers that were never in ours."""
    members = tuple(SetMember(each, 9, place) for place, each in enumerate(servers(names)))
    view = SetView(number, Pid(server(names[0]), 0), members)
    return SetPart(view, slot, view.pid)


def beside(core: SetCore, *peers: str) -> SetCore:
    for peer in peers:
        core.step(0.0, LinkUp(Domain(peer), 1))
    return core


def core_of(names: str, me: str, **config: Any) -> SetCore:
    core = SetCore(SET, founded(server(me), founding_view(names)), AgreedConfig(**config))
    return beside(core, *[each for each in names if each != me])


def receive(core: SetCore, sender: str, message: Any) -> list[Any]:
    return core.step(0.0, Received(Domain(sender), message))


def merging(core: SetCore, *parts: SetPart) -> Initiate:
    """The merge that the speaker of the last part proposes."""
    speaker = parts[-1].view.servers[0]
    pid = Pid(speaker, 1)
    change = PartsMerged(parts)
    slot = max([each.slot for each in parts]) + 1
    proposal = Proposal(pid, slot, parts[-1].base, change, priority_of(change, parts[-1].view, pid))
    return Initiate(SET, 1, parts[-1].view.number + 1, (), proposal, Round(pid, 0, speaker))


def test_a_merge_of_our_part_with_another_is_acknowledged() -> None:
    core = beside(core_of("ab", "b"), "c")
    receive(core, "c", merging(core, core.state.part, part_of("c")))
    assert core.state.lock is not None


def test_a_merge_that_has_our_part_twice_is_none() -> None:
    """Each of us would be in the view twice, and no other part would ever merge with that."""
    core = beside(core_of("ab", "b"), "c")
    receive(core, "c", merging(core, core.state.part, core.state.part, part_of("c")))
    assert core.state.lock is None


def test_no_merge_makes_a_set_that_is_too_large() -> None:
    """Its view would be in no message that can be read, nor in a record."""
    names = "".join(chr(ord("A") + number) for number in range(SET_MEMBERS_MAX))
    core = beside(core_of(names, names[0], reform_s=1e9), "0")
    effects = receive(core, "0", SetProbe(SET, 1, 1, (), part_of("0")))
    assert not any(isinstance(each, Send) for each in effects)
    last = core_of(names, names[-1])
    receive(beside(last, "0"), "0", merging(last, last.state.part, part_of("0")))
    assert last.state.lock is None


@pytest.mark.parametrize("number", [2**62, 2**62 - 1])
def test_a_part_with_a_number_after_which_there_is_none_is_not_merged(number: int) -> None:
    for lie in (part_of("c", number), part_of("c", 1, number)):
        core = beside(core_of("ab", "b"), "c")
        receive(core, "c", merging(core, core.state.part, lie))
        assert core.state.lock is None
        speaker = beside(core_of("ab", "a", reform_s=1e9), "c")
        receive(speaker, "c", Offer(SET, 1, 1, (), lie, ()))
        assert speaker.state.lock is None and not speaker.state.offers


@pytest.mark.parametrize("where", ["number", "revision", "joined", "fence"])
def test_a_group_with_a_number_after_which_there_is_none_is_not_taken(where: str) -> None:
    most = 2**62
    view = AgreedView(most if where == "number" else 1, most if where == "revision" else 0)
    if where == "joined":
        ann = MemberId(Endpoint("c.h1/ann#1"), (1, 1))
        view = replace(view, members=(AgreedMember(ann, most),))
    known = AgreedGroup((view,), living=LivingState(most if where == "fence" else 0, ()))
    core = beside(core_of("ab", "b"), "c")
    merge = merging(core, core.state.part, part_of("c"))
    receive(core, "c", replace(merge, groups=(CarriedGroup(WIDE, known),)))
    assert core.state.lock is None


def test_a_server_that_started_meets_a_part_that_others_raised_far() -> None:
    far = part_of("c", 2**61 + 2**60 + 5)
    core = beside(core_of("b", "b"), "c")
    core.state = replace(core.state, view=replace(core.state.view, number=0))
    receive(core, "c", merging(core, core.state.part, far))
    assert core.state.lock is not None


def lone_round(core: SetCore, attempt: int, change: Any = None) -> Initiate:
    """Of b, in the set of a, b and c."""
    pid = Pid(server("b"), 0)
    change = join("ann") if change is None else change
    view = core.state.view
    proposal = Proposal(pid, 1, view.pid, change, priority_of(change, view, pid))
    return Initiate(SET, 1, 1, (), proposal, Round(pid, attempt, server("b")))


def test_after_a_round_with_an_absurd_number_the_next_can_still_be_counted() -> None:
    net = SetNet("abc")
    message = lone_round(net.cores["a"], 2**62)
    net.step("a", Received(Domain("b"), message))
    status = CoordinatorFailed(
        SET, 1, 1, (), message.proposal, replace(message.round, attempt=2**62), AgreementStatus.ACKED
    )
    net.step(
        "a", Received(Domain("c"), replace(status, round=replace(status.round, coordinator=server("b"))))
    )
    net.crash("b")
    net.settle()
    assert all(can_be_read(message) for _, _, message in net.sent)
    assert not {("a", "c"), ("c", "a")} & set(net.isolations())


def test_a_change_with_the_highest_of_all_fences_is_no_change() -> None:
    net = SetNet("abc")
    change = replace(join("ann"), kind=AGREED, fence=2**62)
    net.step("a", Received(Domain("b"), lone_round(net.cores["a"], 0, change)))
    lock = net.cores["a"].state.lock
    assert lock is None or lock[0].change != change


def test_a_change_that_was_put_off_for_ever_can_still_be_proposed_by_who_takes_it_over() -> None:
    net = SetNet("abc")
    net.ask("a", join("zoe"))
    message = lone_round(net.cores["a"], 0)
    priority = replace(message.proposal.priority, minus_deferrals=-(2**62), kind=2, address="0")
    late = replace(message, proposal=replace(message.proposal, priority=priority))
    core = net.cores["a"]
    core._enqueue(late.proposal.change, 2**62)
    net.settle()
    net.ask("a", join("ann"))
    net.settle()
    assert all(can_be_read(message) for _, _, message in net.sent)


def test_what_is_remembered_of_others_changes_has_a_bound_in_bytes() -> None:
    """A thousand groups on their way, of some megabytes each, which are proposed by nobody."""
    core = core_of("abc", "a")
    part = bytes(4 << 20)
    for number in range(40):
        pid = Pid(server("b"), number)
        change = GroupPlaced(Group(f"g{number}", SET), PlaceStep.TAKE, server("b"), None, part)
        view = core.state.view
        proposal = Proposal(pid, 9, view.pid, change, priority_of(change, view, pid))
        status = AgreementStatus.ACKED
        receive(core, "b", CoordinatorFailed(SET, 1, 1, (), proposal, Round(pid, 0, server("c")), status))
    kept = [each.proposal.change for each in core.state.remembered]
    assert kept and sum(len(each.part) for each in kept if isinstance(each, GroupPlaced)) <= REMEMBERED_BYTES


def test_a_cut_of_the_largest_set_in_two_is_found_without_trying_all_ways() -> None:
    """It took seconds in each step: every other server gave that one up."""
    names = [chr(ord("A") + number) for number in range(SET_MEMBERS_MAX)]
    view = tuple(server(each) for each in names)
    left, right = frozenset(view[:32]), frozenset(view[32:])
    said = {each: right if each in left else left for each in view}
    found: list[Any] = []
    assert calls_of(lambda: found.append(largest_part(view, said, me=view[0]))) < 60_000
    assert set(found[0]) == left


def test_a_host_does_not_speak_as_a_server_of_branches() -> None:
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    paris.join("h1", "ann")
    assert ignored(paris.receive("eu.fr.h1", BranchLost(Domain("eu.fr.h1"))))
    assert not paris.stack[AGREED_SERVER]._lost


def test_differences_do_not_make_a_view_larger_than_a_group() -> None:
    """A server that lies would fill the agent with members, a thousand times as many as a group has."""
    pid = Pid(ServerId(PARIS, 1), 1)
    members = tuple([AgreedMember(member("h1", f"m{n}", n), 1) for n in range(MEMBERS_MAX)])
    before = AgreedView(1, 0, pid, members)
    more = (AgreedMember(member("h1", "more"), 2),)
    assert view_of(ViewTold(CHESS, (), (2, 0, pid), before.id, more), before) is None
    assert view_of(ViewTold(CHESS, (), (2, 0, pid), before.id, members[:1]), before) is None
    less = ViewTold(CHESS, (), (2, 0, pid), before.id, more, left=(members[0].id,))
    assert view_of(less, before) is not None


def test_a_commit_does_not_look_at_all_members_for_each_host() -> None:
    hosts = [f"h{number}" for number in range(240)]
    paris = Cluster(*[f"eu.fr.{host}" for host in hosts])
    for host in hosts[:-1]:
        paris.join(host, "ann")
    calls = calls_of(lambda: paris.join(hosts[-1], "ann"))
    assert len(paris.group().view.members) == len(hosts)
    assert calls < 200 * len(hosts), f"{calls} calls for {len(hosts)} hosts"


@pytest.mark.parametrize("kind", [MemberAsked, HostHolds])
def test_false_proofs_in_one_message_are_verified_up_to_a_bound(
    kind: type[MemberAsked | HostHolds], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs a third of a millisecond, and a host sent four thousand at once."""
    examined: list[Endpoint] = []
    look = Judge._examined

    def looks(judge: Judge, now: float, authority: str, group: Group, who: Endpoint, data: bytes) -> Any:
        examined.append(who)
        return look(judge, now, authority, group, who, data)

    monkeypatch.setattr(Judge, "_examined", looks)
    sheet = with_proof(b"", proof(STRANGER))
    eves = tuple(
        [AgreedMember(MemberId(Endpoint(f"eu.h2/eve{n}#1"), (1, n)), 0, sheet) for n in range(1_000)]
    )
    node, question = a_server(), HostQuestion(H2, 1, 1)
    if kind is MemberAsked:
        message: Any = MemberAsked(PAYROLL, question, GroupVerb.JOIN, eves, AGREED)
    else:
        message = HostHolds(PAYROLL, question, eves, AGREED)
    node.step(10.0, Received(H2, message))
    assert len(examined) <= 64
    assert not any(core.table.groups for core in node[AGREED_SERVER].sets.values())


def test_requests_of_thousands_of_members_that_wait_count_as_many() -> None:
    """A thousand of them were kept for one host, of some megabytes each."""
    paris = Cluster("eu.fr.h1", "eu.de", "eu")
    paris.now = 60.0
    group = Group("wide", Domain("eu"))
    crowd = tuple([AgreedMember(member("h1", f"m{n}", n), 0) for n in range(1_000)])
    for verb in (GroupVerb.JOIN, GroupVerb.LEAVE):
        for _ in range(60):
            paris.receive("eu.fr.h1", MemberAsked(group, paris.question("h1"), verb, crowd, AGREED))
    part = paris.stack[AGREED_SERVER].sets[group.scope]
    waiting = [*part.waiting, *[each for waits in part.behind.values() for each in waits]]
    assert 1 < len(waiting) < 80


def test_a_host_whose_members_all_have_attachments_of_their_own_takes_its_server_many_short_turns() -> None:
    """Each is a change: four thousand of them took minutes in one step."""
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    paris.join("h2", "bob")
    held = tuple([AgreedMember(member("h1", f"m{n}", n), 0, b"%d" % n) for n in range(60)])
    turns = [paris.receive("eu.fr.h1", HostHolds(CHESS, paris.question("h1"), held, AGREED))]
    while any(isinstance(each, SetTimer) and each.timer == RETURNING for each in turns[-1]):
        turns.append(paris.stack.step(paris.now, TimerFired(RETURNING)))
    made = [sum(isinstance(each, ViewAgreed) for each in turn) for turn in turns]
    assert sum(made) == len(held) and max(made) <= 8
    assert {each.id for each in held} < set(paris.group().view.ids)
    assert [each.attributes for each in paris.group().view.members[1:]] == [each.attributes for each in held]


def test_members_that_are_not_let_in_again_are_brought_once() -> None:
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    within = replace(AGREED, within="chess")
    part, bob = Group("part", PARIS), (AgreedMember(member("h2", "bob"), 0),)
    for group, kind in ((CHESS, AGREED), (part, within)):
        paris.receive("eu.fr.h2", MemberAsked(group, paris.question("h2"), GroupVerb.JOIN, bob, kind))
    assert paris.group(part).view.ids == (bob[0].id,)
    held = tuple([AgreedMember(member("h1", f"m{n}", n), 0, b"%d" % n) for n in range(20)])
    with no_longer_than(20):
        effects = paris.receive("eu.fr.h1", HostHolds(part, paris.question("h1"), held, within))
        for _ in range(4):
            if any(isinstance(each, SetTimer) and each.timer == RETURNING for each in effects):
                effects = paris.stack.step(paris.now, TimerFired(RETURNING))
    assert not any(isinstance(each, SetTimer) and each.timer == RETURNING for each in effects)
    assert paris.group(part).view.ids == (bob[0].id,)
