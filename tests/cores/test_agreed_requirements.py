"""Rules of paper 001 that other tests pass without: each was left out once, and the test here turned red."""

import pytest
from msgspec.msgpack import encode
from msgspec.structs import replace
from support.setnet import CHESS, SET, SetNet, founding_view, join, leave, server, servers

from rostra.core.effects import LinkDown, Received
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    CommitRecord,
    GroupChange,
    GroupVerb,
    MemberId,
    PartReopened,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetMember,
    SetSplit,
    SetView,
    name_of_part,
    priority_of,
    same_event,
)
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedMember, AgreedView, GroupTable
from rostra.protocols.agreed.messages import Collecting, Commit, SetEvidence
from rostra.protocols.agreed.orders import SplitGroup, decide, encode_order
from rostra.protocols.agreed.rules import LivingState, RuleMember, united_state
from rostra.protocols.agreed.sheets import GroupSheet
from rostra.protocols.agreed.sight import lost_domains
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


@pytest.mark.spec("V-066")
def test_a_split_goes_behind_failures_and_before_what_joins() -> None:
    view, pid = founding_view("abc"), Pid(server("a"), 1)
    split = SetSplit(servers("a"), servers("bc"), ("", "side"), Pid(server("a"), 9))
    order = [ServersFailed(servers("c")), split, PartReopened("a")]
    told = [priority_of(each, view, pid) for each in order]
    assert [each.kind for each in told] == [0, 1, 2] and told == sorted(told)
    assert max(told) < priority_of(leave("ann"), view, pid), "the set first, and then its users"


@pytest.mark.spec("V-076")
def test_who_is_told_that_acknowledgements_are_missing_waits_on() -> None:
    net = SetNet("abc")
    net.ask("a", join("ann"))
    net.deliver("a", "b")
    round = net.cores["b"].state.lock[1]
    for _ in range(3 * net.config.retries):
        net.wait("b")
        net.step("b", Received(Domain("a"), Collecting(SET, 1, 1, (), round)))
    assert net.isolations() == [] and net.cores["b"].state.lock is not None
    for _ in range(net.config.retries + 1):
        net.wait("b")
    assert ("b", "a") in net.isolations()


@pytest.mark.spec("V-100")
def test_who_was_out_of_a_living_view_was_out_until_the_last_time_that_either_side_knows() -> None:
    ann = join("ann").members[0]
    states = [LivingState(5, (), (), ((ann, fence),)) for fence in (5, 3)]
    assert united_state(states).returned == united_state(reversed(states)).returned == ((ann, 5),)


@pytest.mark.spec("V-045", "V-095")
def test_whoever_joins_a_group_that_was_split_off_is_junior_to_those_who_came_with_it() -> None:
    members = tuple(
        [AgreedMember(join(who).members[0], place) for place, who in enumerate(("ann", "bob"), 7)]
    )
    chess = AgreedGroup((AgreedView(8, 0, Pid(server("a"), 1), members),))
    one, other = Group("one", SET), Group("other", SET)
    order, me = SplitGroup(one, other, ()), members[0].id.endpoint
    code, views = decide(order, me, CHESS, {CHESS: chess}, AgreedView(), Pid(server("a"), 2))
    assert not code
    made = {each.group: each.view for each in views}
    assert made[one].members == members and made[one].number > max([each.joined for each in members])


@pytest.mark.spec("V-045", "V-099")
def test_what_becomes_of_a_group_has_fences_above_its_own() -> None:
    kind = GroupKind(MembershipKind.AGREED, survive="majority")
    ann = join("ann").members[0]
    member = AgreedMember(ann, 1)
    chess = AgreedGroup(
        (AgreedView(1, 0, Pid(server("a"), 1), (member,)),),
        kind=kind,
        living=LivingState(41, (RuleMember(ann),)),
    )
    view = SetView(1, Pid(server("a"), 0), (SetMember(server("a")), SetMember(ServerId(SET, 1), parent=True)))
    data = encode_order(ann.endpoint, SplitGroup(Group("one", SET), Group("other", SET), ()))
    change = GroupChange(CHESS, GroupVerb.ORDER, (), "split", data=data)
    pid = Pid(server("a"), 2)
    proposal = Proposal(pid, 1, view.pid, change, priority_of(change, view, pid))
    table, _ = GroupTable({CHESS: chess}).apply(CommitRecord(proposal, Round(pid, 0, server("a"))), view)
    assert table.groups[Group("one", SET)].living.fence > 41


@pytest.mark.spec("V-043")
def test_a_join_that_was_ordered_behind_the_end_of_its_group_does_not_make_it_anew() -> None:
    """Its member was in the group that is over: the program has heard of the end, and did not join again."""
    bob = join("bob").members[0]
    last = AgreedView(2, 0, Pid(server("a"), 1), left=(bob,), attributes=encode(GroupSheet(over="deleted")))
    view, pid = founding_view("a"), Pid(server("a"), 2)
    view = replace(view, members=(*view.members, SetMember(ServerId(SET, 1), parent=True)))
    for who, code in (("bob", "Terminated"), ("ann", "")):
        member = replace(join(who).members[0], endpoint=Endpoint(f"a.h1/{who}#1"))
        ended = replace(last, left=(member,) if code else (bob,))
        change = GroupChange(CHESS, GroupVerb.JOIN, (member,), f"{who} joins", kind=AGREED)
        proposal = Proposal(pid, 1, view.pid, change, priority_of(change, view, pid))
        record = CommitRecord(proposal, Round(pid, 0, server("a")))
        _, outcomes = GroupTable({CHESS: AgreedGroup((ended,))}).apply(record, view)
        assert [each.code for each in outcomes] == [code]


@pytest.mark.spec("V-070")
def test_members_behind_a_server_that_we_isolated_are_shown_as_suspects() -> None:
    state = SetNet("abc").cores["a"].state
    members = [MemberId(Endpoint(f"{SET}.{each}.h1/ann#1"), (1, 1)) for each in "abc"]
    branches = [ServerId(Domain(f"{SET}.{each}"), 1) for each in "abc"]
    view = SetView(1, state.view.pid, tuple(map(SetMember, branches)))
    state = replace(state, view=view, isolated=frozenset([branches[1]]))
    shown = AgreedView(1, members=tuple([AgreedMember(each, 1) for each in members]))
    assert lost_domains(SET, state, shown, lambda host: None) == (branches[1].server,)


@pytest.mark.spec("V-108")
def test_a_part_is_named_after_the_seniority_of_its_first_server() -> None:
    view = SetView(9, Pid(server("a"), 1), (SetMember(server("b"), 4), SetMember(server("c"), 6)))
    assert name_of_part(SET, view) == "eu#4.b"


@pytest.mark.spec("V-099")
def test_a_group_that_is_made_anew_has_fences_above_those_that_were_given_out() -> None:
    view, pid = founding_view("a"), Pid(server("a"), 2)
    view = replace(view, members=(*view.members, SetMember(ServerId(SET, 1), parent=True)))
    ann = MemberId(Endpoint("a.h1/ann#1"), (1, 1))
    kind = GroupKind(MembershipKind.AGREED, survive="majority")
    change = GroupChange(CHESS, GroupVerb.JOIN, (ann,), "ann joins", kind=kind, fence=1_024)
    proposal = Proposal(pid, 1, view.pid, change, priority_of(change, view, pid))
    table, _ = GroupTable().apply(CommitRecord(proposal, Round(pid, 0, server("a"))), view)
    assert table.groups[CHESS].living.fence == 1_025
