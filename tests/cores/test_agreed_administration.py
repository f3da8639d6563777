"""An administrator's changes of a set: each of the paper's six, and what is refused (V-008, V-009)."""

from itertools import combinations

import pytest
from msgspec.structs import replace
from support.setnet import CHESS, SET, SetNet, server, servers

from rostra.core.effects import Received, TimerFired
from rostra.errors import BadInput, NotAllowed, RostraError, Unreachable
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint
from rostra.protocols.agreed.administration import decide, is_done
from rostra.protocols.agreed.calls import AdministerSet, SetVerb
from rostra.protocols.agreed.changes import (
    GroupChange,
    GroupVerb,
    MemberId,
    PartReopened,
    Pid,
    Priority,
    Proposal,
    ServersFailed,
    SetSplit,
)
from rostra.protocols.agreed.groups import AGREED
from rostra.protocols.agreed.messages import Ack, AgreementStatus, Commit, CoordinatorFailed

MAJORITY = GroupKind(MembershipKind.AGREED, survive="majority", merge="any")


def formed(names: str, parent: str = "") -> SetNet:
    net = SetNet(names, alone=True, parent=parent)
    for one, other in combinations(names, 2):
        net.link(one, other)
        net.flow()
    net.reform()
    assert net.agreed()
    net.effects.clear()
    return net


def enters(name: str, kind: GroupKind = AGREED) -> GroupChange:
    member = MemberId(Endpoint(f"{name[0]}.h1/{name}#1"), (1, 1))
    return GroupChange(CHESS, GroupVerb.JOIN, (member,), f"{name} joins", 0, b"", kind)


def members(net: SetNet, at: str) -> str:
    known = net.cores[at].state.table.get(CHESS)
    assert known is not None
    return " ".join(each.endpoint.partition("/")[2].partition("#")[0] for each in known.view.ids)


def order(verb: SetVerb, *names: str, sides: tuple[str, ...] = ()) -> AdministerSet:
    return AdministerSet(SET, verb, tuple(map(Domain, names)), sides)


def administer(net: SetNet, at: str, what: AdministerSet) -> None:
    """As the server would: its own changes, and those that it asks others for."""
    changes, others = decide(net.cores[at], what)
    net.ask(at, *changes)
    for each in others:
        if net.cores[each].state.gave_up:
            net.ask(each, PartReopened(f"{at} asks"))
    if what.verb is SetVerb.MERGE:
        net.reform()
    net.settle()
    assert is_done(net.cores[at].state, what)


def split(first: str, second: str) -> SetSplit:
    return SetSplit(servers(first), servers(second), ("north", "south"), Pid(server("a"), 1 << 50))


@pytest.mark.spec("V-008", "V-009")
def test_a_set_is_split_in_two_by_one_change_and_stays_so_although_all_are_linked() -> None:
    net = formed("abcde")
    for name in ("a1", "b1", "d1", "e1"):
        net.ask(name[0], enters(name))
        net.settle()
    net.effects.clear()
    administer(net, "d", order(SetVerb.SPLIT, "a", "b", "c", sides=("north", "south")))
    assert [net.views(name) for name in "abcde"] == [["abc"]] * 3 + [["de"]] * 2, "one view for each"
    assert {net.cores[name].state.gave_up for name in "abc"} == {"eu#north"}
    assert {net.cores[name].state.gave_up for name in "de"} == {"eu#south"}
    assert [members(net, name) for name in "abcde"] == ["a1 b1"] * 3 + ["d1 e1"] * 2
    net.now += 600.0
    net.reform()
    assert [net.view(name) for name in "abcde"] == ["abc"] * 3 + ["de"] * 2
    one, other = (net.cores[name].state.table.get(CHESS) for name in "ad")
    assert one is not None and other is not None
    assert one.view.id != other.view.id, "one id, one list"
    assert net.cores["a"].state.view.pid != net.cores["d"].state.view.pid
    net.ask("d", enters("d2"))
    net.settle()
    assert members(net, "e") == "d1 e1 d2" and members(net, "a") == "a1 b1"


@pytest.mark.spec("V-008", "V-009", "V-107")
def test_an_administrator_merges_the_sides_of_a_split_again() -> None:
    net = formed("abcd")
    for name in ("a1", "c1"):
        net.ask(name[0], enters(name))
        net.settle()
    administer(net, "a", order(SetVerb.SPLIT, "a", "b", sides=("north", "south")))
    net.effects.clear()
    administer(net, "c", order(SetVerb.MERGE, "a"))
    assert net.agreed() and net.view("a") == "abcd", "by seniority"
    assert net.views("a") == ["ab", "abcd"], "the word to look for others, and one merge"
    assert members(net, "d") == "a1 c1" and net.cores["a"].state.gave_up == ""


@pytest.mark.spec("V-009")
def test_a_merge_with_one_part_leaves_the_others_as_they_are() -> None:
    net = formed("abc")
    administer(net, "a", order(SetVerb.SPLIT, "a", sides=("north", "south")))
    administer(net, "b", order(SetVerb.SPLIT, "b", sides=("east", "west")))
    own, asked = decide(net.cores["a"], order(SetVerb.MERGE, "b"))
    net.ask("a", *own)
    for each in asked:
        net.ask(each, PartReopened("as a asks"))
    for _ in range(4):
        net.settle()
        net.step("a", TimerFired(net.cores["a"].probe_timer))
    assert [net.view(name) for name in "abc"] == ["ab", "ab", "c"]
    assert net.cores["c"].state.gave_up == "eu#south#west"


@pytest.mark.spec("V-009")
def test_a_split_of_a_part_is_not_done_because_the_part_has_one_of_the_names() -> None:
    net = formed("abc")
    administer(net, "a", order(SetVerb.SPLIT, "a", "b", sides=("north", "south")))
    again = order(SetVerb.SPLIT, "a", sides=("north", "east"))
    assert not is_done(net.cores["a"].state, again)
    administer(net, "a", again)
    assert [net.view(name) for name in "abc"] == ["a", "b", "c"]


@pytest.mark.spec("V-009", "V-099")
def test_of_a_group_with_a_rule_one_side_of_a_split_lives() -> None:
    net = formed("abcdef", parent="f")
    for name in ("a1", "b1", "c1", "d1", "e1"):
        net.ask(name[0], enters(name, MAJORITY))
        net.settle()
    known = {name: net.cores[name].state.table.get(CHESS) for name in "abcde"}
    assert not any(each is None or each.blocked for each in known.values())
    net.ask("a", split("abf", "cde"))
    net.settle()
    known = {name: net.cores[name].state.table.get(CHESS) for name in "abcde"}
    assert [bool(each and each.blocked) for each in known.values()] == [True, True, False, False, False]


@pytest.mark.spec("V-008", "V-009")
def test_a_server_leaves_and_joins_again() -> None:
    net = formed("abc")
    administer(net, "a", order(SetVerb.LEAVE, "b"))
    assert [net.view(name) for name in "abc"] == ["ac", "b", "ac"]
    assert len(net.views("a")) == 1
    net.ask("b", PartReopened("as JOIN asks the server that is to join"))
    net.reform()
    assert net.agreed() and sorted(net.view("a")) == ["a", "b", "c"]
    assert len([view for view in net.views("a") if len(view) == 3]) == 1


@pytest.mark.spec("V-008", "V-009")
def test_the_parent_is_removed_and_taken_back() -> None:
    net = formed("abc", parent="c")
    administer(net, "a", order(SetVerb.DEL_PARENT))
    assert [net.view(name) for name in "abc"] == ["ab", "ab", "c"]
    assert not any(each.parent for each in net.cores["a"].state.view.members)
    with pytest.raises(BadInput, match="has no parent"):
        decide(net.cores["a"], order(SetVerb.DEL_PARENT))
    net.ask("c", PartReopened("as ADD_PARENT asks the server of the domain"))
    net.reform()
    assert net.agreed() and sorted(net.view("b")) == ["a", "b", "c"]
    assert [each.id.server for each in net.cores["a"].state.view.members if each.parent] == ["c"]


REFUSED = [
    (order(SetVerb.LEAVE, "x"), BadInput, "not in set"),
    (order(SetVerb.LEAVE), BadInput, "0 servers for leave"),
    (order(SetVerb.JOIN, "eu.a"), Unreachable, "no link"),
    (order(SetVerb.JOIN, "us.a"), BadInput, "no child of eu"),
    (order(SetVerb.JOIN, "a", "b"), BadInput, "2 servers"),
    (order(SetVerb.ADD_PARENT), Unreachable, "no link to eu"),
    (order(SetVerb.DEL_PARENT), BadInput, "no parent"),
    (order(SetVerb.MERGE), BadInput, "no other part"),
    (order(SetVerb.MERGE, "eu.x"), Unreachable, "no link"),
    (order(SetVerb.SPLIT, "a", "b", "c", sides=("n", "s")), BadInput, "has no server"),
    (order(SetVerb.SPLIT, sides=("n", "s")), BadInput, "has no server"),
    (order(SetVerb.SPLIT, "x", sides=("n", "s")), BadInput, "not in set"),
    (order(SetVerb.SPLIT, "a", sides=("n", "n")), BadInput, "each with a name"),
    (order(SetVerb.SPLIT, "a", sides=("n",)), BadInput, "each with a name"),
    (order(SetVerb.SPLIT, "a", sides=("n", "s.t")), BadInput, "no name for a set"),
    (order(SetVerb.SPLIT, "a", sides=("n", "#")), BadInput, "label"),
]


@pytest.mark.spec("V-007", "V-009")
@pytest.mark.parametrize(("what", "kind", "why"), REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(
    what: AdministerSet, kind: type[RostraError], why: str
) -> None:
    net = formed("abc")
    before = {name: core.state for name, core in net.cores.items()}
    with pytest.raises(kind, match=why):
        decide(net.cores["a"], what)
    assert {name: core.state for name, core in net.cores.items()} == before


@pytest.mark.spec("V-009")
def test_a_part_is_merged_before_a_server_joins_it_and_the_parent_is_not_told_to_leave() -> None:
    net = formed("abc", parent="c")
    with pytest.raises(BadInput, match="is the parent"):
        decide(net.cores["a"], order(SetVerb.LEAVE, "c"))
    net.ask("a", split("a", "bc"))
    net.settle()
    with pytest.raises(NotAllowed, match="is a part of"):
        decide(net.cores["a"], AdministerSet(SET, SetVerb.JOIN, (Domain("eu.b"),)))
    with pytest.raises(BadInput, match="no other server"):
        decide(net.cores["a"], order(SetVerb.LEAVE, "a"))


@pytest.mark.spec("V-009", "V-088")
@pytest.mark.parametrize("heard", ["b", "c", "d", ""])
def test_a_split_is_completed_if_its_coordinator_dies_in_the_middle_of_the_commit(heard: str) -> None:
    """Those that have not heard of it ask the others, also on the other side of it."""
    net = formed("abcd")
    net.drops = lambda sender, to, message: isinstance(message, Commit) and sender == "a" and to != heard
    net.ask("a", split("ab", "cd"))
    net.flow()
    net.drops = lambda sender, to, message: False
    net.crash("a")
    net.settle()
    assert [net.view(name) for name in "bcd"] == ["b", "cd", "cd"]
    assert {net.cores[name].state.gave_up for name in "cd"} == {"eu#south"}
    assert net.cores["b"].state.gave_up == "eu#north"


@pytest.mark.spec("V-009")
def test_of_two_splits_at_once_one_is_made() -> None:
    net = formed("abcd")
    net.ask("a", split("ab", "cd"))
    net.ask("d", split("acd", "b"))
    net.settle()
    assert [net.view(name) for name in "abcd"] == ["ab", "ab", "cd", "cd"]
    assert not net.isolations(), "the other one does not concern this view, and is dropped"
    assert not any(core.state.queue for core in net.cores.values())


@pytest.mark.spec("V-009")
def test_a_split_without_servers_that_another_server_says_it_acknowledged_ends_no_server() -> None:
    """It goes into the record of the commit, and so to all of the set."""
    net = formed("abc")
    empty = replace(split("", ""), names=("", ""))
    tried: list[Proposal] = []

    def lies(sender: str, to: str, message: object) -> bool:
        if sender == "b" and isinstance(message, Ack) and not message.tried:
            state = net.cores["a"].state
            pid, before = Pid(server("b"), 77), state.base
            tried.append(Proposal(pid, state.slot + 1, before, empty, Priority(0, 1, 1, 0, 0, "", 0, 77)))
            net.lanes[sender, to].append(replace(message, tried=tuple(tried)))
            return True
        return False

    net.drops = lies
    net.ask("a", enters("a1", MAJORITY))
    net.settle()
    assert tried and [members(net, name) for name in "abc"] == ["a1"] * 3


def test_a_server_cannot_put_another_change_into_an_election() -> None:
    """What is agreed on under one name is one change (2.1)."""
    net = formed("abc")
    net.drops = lambda sender, to, message: sender == "a" and isinstance(message, Commit)
    net.ask("a", enters("b1"))
    net.flow()
    lock = net.cores["b"].state.lock
    assert lock is not None
    swapped = replace(lock[0], change=ServersFailed(servers("ab")))
    head = (SET, 1, net.cores["c"].state.number, ())
    said = CoordinatorFailed(*head, swapped, replace(lock[1], attempt=1), AgreementStatus.ACKED)
    net.crash("a", seen=False)
    net.step("b", Received(Domain("c"), said))
    after = net.cores["b"].state.lock
    assert after is not None and after[0] == lock[0]
    net.cut("a", "b")
    net.cut("a", "c")
    net.settle()
    assert net.view("b") == "bc" and members(net, "b") == "b1"


@pytest.mark.spec("V-009")
def test_a_parent_that_left_of_its_own_accord_is_the_parent_when_it_is_back() -> None:
    net = formed("abc", parent="c")
    net.ask("c", SetSplit(servers("c"), servers("ab"), ("alone", ""), Pid(server("c"), 1 << 50)))
    net.settle()
    net.ask("c", PartReopened("by hand"))
    net.reform()
    assert [each.id.server for each in net.cores["a"].state.view.members if each.parent] == ["c"]


@pytest.mark.spec("V-066")
def test_leaving_waits_for_the_lease_that_was_given() -> None:
    """The server that is asked gave its word itself, and keeps it."""
    net = formed("abc")
    net.cores["a"].leases.give(net.now, server("b"), 5.0)
    began = net.now
    net.ask("a", SetSplit(servers("b"), servers("ac"), ("alone", ""), Pid(server("a"), 1 << 50)))
    net.flow()
    assert net.view("a") == "abc"
    net.settle()
    assert net.view("a") == "ac" and net.now >= began + 5.0
