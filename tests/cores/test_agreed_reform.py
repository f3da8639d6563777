"""Parts of a set become one: servers that start, cuts that heal, servers that come back."""

from itertools import combinations, permutations

import msgspec
import pytest
from support.setnet import CHESS, GOES, SET, SetNet, server, servers

from rostra.core.effects import Ignored, LinkDown, Received, Send, TimerFired
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    GroupChange,
    GroupVerb,
    MemberId,
    PartReopened,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServersFailed,
    SetMember,
    SetPart,
    SetSplit,
    SetView,
    merged_view,
    priority_of,
)
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedView
from rostra.protocols.agreed.messages import (
    Ack,
    AnySetMessage,
    Commit,
    Declined,
    Initiate,
    Offer,
    PartedFromSet,
    SetEvidence,
    SetProbe,
)
from rostra.protocols.agreed.state import Coordinating, Idle, Offering


def mesh(net: SetNet, names: str) -> None:
    for one, other in combinations(names, 2):
        net.link(one, other)
        net.flow()


def formed(names: str, **config: object) -> SetNet:
    net = SetNet(names, alone=True, **config)
    mesh(net, names)
    net.reform()
    assert net.agreed() and net.view("a") == names
    net.sent.clear()
    net.effects.clear()
    return net


def cut(net: SetNet, one_side: str, other_side: str) -> None:
    for one in one_side:
        for other in other_side:
            net.cut(one, other)
    net.settle()


def heal(net: SetNet, one_side: str, other_side: str) -> None:
    for one in one_side:
        for other in other_side:
            net.link(one, other)
    net.reform()


def member(name: str) -> MemberId:
    """`b1` is under server b."""
    return MemberId(Endpoint(f"{name[0]}.h1/{name}#1"), (1, 1))


def enters(name: str, group: Group = CHESS, kind: GroupKind = AGREED, data: bytes = b"") -> GroupChange:
    return GroupChange(group, GroupVerb.JOIN, (member(name),), f"{name} joins {group}", 0, data, kind)


def exits(name: str, group: Group = CHESS) -> GroupChange:
    return GroupChange(group, GroupVerb.LEAVE, (member(name),), f"{name} leaves {group}")


def ask(net: SetNet, *changes: GroupChange) -> None:
    """Each at the server above its member."""
    for change in changes:
        net.ask(change.members[0].endpoint[0], change)
        net.settle()


def group(net: SetNet, name: str, which: Group = CHESS) -> AgreedGroup:
    known = net.cores[name].state.table.get(which)
    assert known is not None
    return known


def shown(view: AgreedView) -> tuple[int, str]:
    return view.number, " ".join(each.endpoint.partition("/")[2].partition("#")[0] for each in view.ids)


# Servers that start


@pytest.mark.spec("V-103", "V-105")
@pytest.mark.parametrize("order", [*map("".join, permutations("abc")), "abcdefg", "gfedcba", "dgacbfe"])
def test_servers_that_start_in_any_order_end_in_one_set(order: str) -> None:
    net = SetNet("".join(sorted(order)), alone=True)
    mesh(net, order)
    net.reform()
    assert net.agreed() and sorted(net.view("a")) == sorted(order)


@pytest.mark.spec("V-095")
def test_who_starts_together_founds_the_set_and_who_starts_later_goes_last() -> None:
    net = SetNet("abc", alone=True)
    net.link("b", "c")
    net.reform()
    assert net.view("b") == "bc" and net.cores["b"].state.view.number == 1
    net.link("a", "b")
    net.link("a", "c")
    net.reform()
    assert net.view("a") == net.view("b") == "bca" and net.cores["a"].state.view.number == 2
    assert [each.gid[0] for each in net.cores["a"].state.view.members] == [0, 0, 2]


def test_a_server_alone_agrees_with_itself_and_brings_its_groups_along() -> None:
    net = SetNet("ab", alone=True)
    ask(net, enters("a1"), enters("b1", GOES), enters("b2"))
    assert shown(group(net, "a").view) == (1, "a1") and net.sent == []
    net.link("a", "b")
    net.reform()
    for name in "ab":
        assert shown(group(net, name).view) == (2, "a1 b2")
        assert shown(group(net, name, GOES).view) == (1, "b1")
    assert net.cores["a"].state.table == net.cores["b"].state.table


def test_two_parts_merge_in_seven_messages_and_with_nobody_waiting() -> None:
    """Probes cross; the junior speaker offers; then a change like any other, among both parts."""
    net = SetNet("ab", alone=True)
    net.link("a", "b")
    net.flow()
    assert net.now == 0.0 and net.agreed()
    assert net.count() == {"SetProbe": 3, "Offer": 2, "Initiate": 1, "Ack": 1, "Commit": 1}


# Cuts that heal


@pytest.mark.spec("V-104", "V-105", "V-093")
def test_the_union_is_of_those_who_are_there_now_and_its_number_is_above_both() -> None:
    """XV-13 among servers."""
    net = formed("abcdefg")
    ask(net, *[enters(f"{name}1") for name in "abcdefg"])
    cut(net, "abcd", "efg")
    assert net.view("a") == "abcd" and net.view("g") == "efg"
    ask(net, enters("b2"), exits("a1"), enters("f2"), enters("f3"), enters("f4"), exits("g1"))
    numbers = [net.cores[name].state.view.number for name in "ae"]
    here, there = group(net, "a").view, group(net, "e").view
    assert (shown(here)[1], shown(there)[1]) == ("b1 c1 d1 b2", "e1 f1 f2 f3 f4")
    number = max(here.number, there.number) + 1
    heal(net, "abcd", "efg")
    assert net.agreed() and net.view("a") == "abcdefg"
    assert net.cores["a"].state.view.number == max(numbers) + 1
    for name in "abcdefg":
        view = group(net, name).view
        assert shown(view) == (number, "b1 c1 d1 e1 f1 f2 b2 f3 f4"), "by the numbers at which they joined"
        assert view.parts == (here.ids, there.ids)
    ask(net, enters("c2"))
    assert shown(group(net, "g").view)[0] == number + 1, "and it goes on as one"


@pytest.mark.spec("V-105")
def test_three_parts_merge_two_at_a_time() -> None:
    net = formed("abcdef")
    cut(net, "ab", "cdef")
    cut(net, "cd", "ef")
    assert [net.view(name) for name in "ace"] == ["ab", "cd", "ef"]
    for one, other in combinations("abcdef", 2):
        net.link(one, other)
    net.reform()
    assert net.agreed() and net.view("a") == "abcdef"
    merges = [change for change in net.commits("f") if isinstance(change, PartsMerged)]
    assert [len(each.parts) for each in merges] == [2] * len(merges)


@pytest.mark.spec("V-105")
def test_merged_numbers_are_one_above_the_larger() -> None:
    def part(number: int, *names: str) -> SetPart:
        members = tuple([SetMember(server(name), number, 0) for name in names])
        return SetPart(
            SetView(number, Pid(server(names[0]), number), members), number, Pid(server(names[0]), 1)
        )

    pid = Pid(server("a"), 9)
    one, other = part(12, "a", "b"), part(17, "c")
    assert merged_view((one, other), pid) == merged_view((other, one), pid)
    assert merged_view((one, other), pid).number == 18
    assert merged_view((one, other), pid).servers == (server("a"), server("b"), server("c"))


@pytest.mark.spec("V-110")
def test_a_group_of_one_side_is_not_disturbed_by_a_cut_nor_by_its_end() -> None:
    net = formed("abcd")
    ask(net, enters("a1"), enters("b1"))
    before = group(net, "a").view
    cut(net, "ab", "cd")
    assert group(net, "a").view == before and shown(group(net, "c").view) == (3, "")
    heal(net, "ab", "cd")
    assert [group(net, name).view for name in "abcd"] == [before] * 4


@pytest.mark.spec("V-102", "V-106")
def test_groups_with_opposite_merge_rules_after_one_heal() -> None:
    whole = GroupKind(MembershipKind.AGREED, merge="size > 1")
    net = formed("abc")
    ask(net, *[enters(name, which, whole) for which in (CHESS, GOES) for name in ("a1", "b1")])
    ask(net, enters("c1", CHESS, whole), enters("c1", GOES, whole), enters("c2", CHESS, whole))
    cut(net, "ab", "c")
    heal(net, "ab", "c")
    assert net.agreed()
    assert shown(group(net, "a").view)[1] == "a1 b1 c1 c2" and group(net, "a").apart == ()
    ours, [theirs] = group(net, "c", GOES), group(net, "c", GOES).apart
    assert (shown(ours.view)[1], shown(theirs.view)[1]) == ("a1 b1", "c1")
    assert group(net, "a", GOES).view == ours.view and group(net, "a", GOES).apart[0].view == theirs.view

    # The side of one gets no second member by itself; but rules are asked at each change, and "a1" leaves.
    ask(net, exits("a1", GOES))
    assert len(group(net, "b", GOES).apart) == 1
    ask(net, exits("c1", GOES))
    assert group(net, "b", GOES).apart == (), "an empty part is none"


@pytest.mark.spec("V-102")
def test_parts_kept_apart_merge_when_both_satisfy_the_rule() -> None:
    even = GroupKind(MembershipKind.AGREED, merge="size < 3")
    net = formed("ab")
    ask(net, enters("a1", kind=even), enters("a2"), enters("a3"), enters("b1"))
    cut(net, "a", "b")
    heal(net, "a", "b")
    assert [shown(each.view)[1] for each in group(net, "b").parts] == ["a1 a2 a3", "b1"]
    ask(net, exits("a2"))
    assert [shown(each.view)[1] for each in group(net, "b").parts] == ["a1 a3 b1"]
    assert group(net, "a").view == group(net, "b").view


@pytest.mark.spec("V-088")
def test_a_request_done_before_a_merge_is_not_done_again_after_it() -> None:
    net = formed("ab")
    cut(net, "a", "b")
    ask(net, enters("b1"), exits("b1"))
    heal(net, "a", "b")
    net.ask("a", enters("b1"))  # its agent asks again, another server
    net.settle()
    assert shown(group(net, "a").view)[1] == ""


# Servers that come back


@pytest.mark.spec("V-019")
def test_a_server_that_restarts_is_removed_first_and_then_joins() -> None:
    """XV-19: between its acknowledgement and the commit."""
    net = formed("abc")
    net.ask("a", enters("a1"))
    net.deliver("a", "b")
    net.crash("b", seen=False)
    net.restart("b")
    for name in "ac":
        net.link("b", name)
    for name in "ac":  # whose links see the new incarnation
        net.cut(name, "b")
        net.link(name, "b")
    net.reform()
    assert net.agreed() and net.view("a") == "acb"
    assert [each.life for each in net.cores["a"].state.view.servers] == [1, 1, 2]
    kinds = [type(each) for each in net.commits("a")]
    assert kinds.index(ServersFailed) < kinds.index(PartsMerged)


def test_a_link_that_ends_and_begins_again_leaves_one_set() -> None:
    net = formed("abcd")
    net.cut("a", "d")
    net.link("a", "d")
    net.reform()
    assert net.agreed() and sorted(net.view("a")) == list("abcd")


# Merges that do not come about


@pytest.mark.spec("V-105")
def test_without_links_between_all_of_both_parts_nothing_merges_and_groups_go_on() -> None:
    net = formed("abcd")
    cut(net, "ab", "cd")
    for one, other in (("a", "c"), ("a", "d"), ("b", "c")):
        net.link(one, other)
    for _ in range(5):
        net.settle()
        net.probes.pop("a", None)
        net.step("a", TimerFired(net.cores["a"].probe_timer))
    net.settle()
    assert (net.view("a"), net.view("c")) == ("ab", "cd")
    ask(net, enters("c1"), enters("b1"))
    assert shown(group(net, "d").view) == (1, "c1") and shown(group(net, "a").view) == (1, "b1")
    assert Declined in [type(message) for _, _, message in net.sent]
    net.link("b", "d")
    net.reform()
    assert net.agreed() and shown(group(net, "d").view)[1] == "b1 c1"


def step_by_step(net: SetNet, steps: int) -> None:
    """The next message of the first lane that has one, so many times."""
    for _ in range(steps):
        pairs = [pair for pair, lane in net.lanes.items() if lane and pair[1] not in net.gone]
        if pairs:
            net.deliver(*pairs[0])


@pytest.mark.spec("V-105", "V-079", "V-120")
@pytest.mark.parametrize("steps", range(30))
@pytest.mark.parametrize("victim", "ac")
def test_either_speaker_crashes_at_any_step_of_a_merge(victim: str, steps: int) -> None:
    net = formed("abcd")
    ask(net, enters("b1"), enters("d1"))
    cut(net, "ab", "cd")
    for one, other in (("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")):
        net.link(one, other)
    step_by_step(net, steps)
    net.crash(victim)
    net.reform()
    left = "".join(name for name in "abcd" if name != victim)
    assert net.agreed() and sorted(net.view(left[0])) == sorted(left)
    assert sorted(group(net, "b").view.ids) == [member("b1"), member("d1")]


@pytest.mark.spec("V-105")
@pytest.mark.parametrize("steps", range(30))
def test_a_cut_at_any_step_of_a_merge_leaves_two_parts_or_one(steps: int) -> None:
    net = formed("abcd")
    cut(net, "ab", "cd")
    for one, other in (("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")):
        net.link(one, other)
    step_by_step(net, steps)
    cut(net, "ab", "cd")
    assert (net.view("a"), net.view("b"), net.view("c"), net.view("d")) == ("ab", "ab", "cd", "cd")
    heal(net, "ab", "cd")
    assert net.agreed() and sorted(net.view("a")) == list("abcd")


def test_a_part_that_never_stops_changing_is_merged_nevertheless() -> None:
    """While a merge is offered, groups stand still: otherwise its base would always be an old one."""
    net = formed("abc")
    cut(net, "a", "bc")
    for one in "bc":
        net.link("a", one)
    count = 0
    for _ in range(200):
        if sorted(net.view("a")) == list("abc"):
            break
        if not net.cores["c"].state.queue and isinstance(net.cores["c"].state.phase, Idle):
            count += 1
            net.ask("c", enters(f"c{count}"))
        step_by_step(net, 1)
    net.reform()
    assert net.agreed() and sorted(net.view("a")) == list("abc") and count < 20


@pytest.mark.spec("V-066", "V-103", "V-105")
def test_parts_that_are_never_idle_offer_and_merge_before_their_next_change() -> None:
    net = formed("abcd")
    cut(net, "ab", "cd")
    net.ask("a", enters("a1"), enters("a2"))
    net.ask("c", enters("c1"), enters("c2"))
    net.sent.clear()
    for one, other in ("ac", "ad", "bc", "bd"):
        net.link(one, other)

    def sent(sender: str, to: str) -> list[str]:
        return [type(message).__name__ for who, whom, message in net.sent if (who, whom) == (sender, to)]

    assert sent("a", "c") == ["SetProbe"], "though a coordinates a change"
    net.deliver("c", "a")
    assert sent("a", "c") == ["SetProbe", "SetProbe"], "the junior part's probe is answered"
    net.deliver("a", "c")
    assert sent("c", "a") == ["SetProbe"], "c coordinates one, too"
    net.deliver("c", "d")
    net.deliver("d", "c")
    assert isinstance(net.cores["c"].state.phase, Offering) and len(net.cores["c"].state.queue) == 1
    net.deliver("c", "a")
    net.deliver("a", "b")
    net.deliver("b", "a")
    match net.cores["a"].state.phase:
        case Coordinating(proposal):
            assert isinstance(proposal.change, PartsMerged)
    net.reform()
    assert net.agreed() and sorted(net.view("a")) == list("abcd")
    assert {each.endpoint for each in group(net, "a").view.ids} == {
        member(each).endpoint for each in ("a1", "a2", "c1", "c2")
    }


def test_a_coordinator_that_hears_of_the_merge_from_a_busy_server_makes_way() -> None:
    net = formed("abc")
    cut(net, "a", "bc")
    net.ask("c", enters("c1"))
    for one in "bc":
        net.link("a", one)
    net.reform()
    assert net.agreed() and shown(group(net, "a").view) == (1, "c1")


@pytest.mark.spec("V-090", "V-093")
def test_strangers_are_turned_away_and_probes_are_not() -> None:
    net = formed("ab")
    cut(net, "a", "b")
    net.link("a", "b")
    [probe_] = [message for message in net.lanes["a", "b"] if isinstance(message, SetProbe)]
    stray = Ack(SET, 1, 9, (), net.cores["b"].state.last.round)  # type: ignore[union-attr]
    net.lanes["b", "a"].clear()
    effects = net.step("a", Received(Domain("b"), stray))
    assert [type(each.message).__name__ for each in effects if isinstance(each, Send)] == ["PartedFromSet"]
    effects = net.step("b", Received(Domain("a"), probe_))
    assert [type(each.message).__name__ for each in effects if isinstance(each, Send)] == ["Offer"]
    assert net.cores["b"].state.phase == Offering(server("a"))


@pytest.mark.spec("V-093")
def test_what_was_sent_before_two_parts_met_parts_them_not_again() -> None:
    """A server's list of those it isolated, on its way while the merge was agreed on."""
    net = formed("ab")
    cut(net, "a", "b")
    before = net.cores["b"].state.view.number
    heal(net, "a", "b")
    late = SetEvidence(SET, 1, before, (server("a"),))
    net.step("a", Received(Domain("b"), late))
    net.step("a", Received(Domain("b"), PartedFromSet(SET, 1, before, ())))
    assert net.cores["a"].state.isolated == frozenset() and net.view("a") == "ab"
    now = net.cores["b"].state.view.number
    net.step("a", Received(Domain("b"), msgspec.structs.replace(late, view=now)))
    assert net.view("a") == "a", "but what is sent in the new view does"


@pytest.mark.spec("V-096")
def test_after_a_merge_the_views_of_both_parts_are_history() -> None:
    net = formed("abc")
    ask(net, enters("a1"), enters("b1"), enters("c1"))
    cut(net, "ab", "c")
    ask(net, enters("b2"), enters("c2"), enters("c3"))
    before = [*group(net, "a").views, *group(net, "c").views]
    heal(net, "ab", "c")
    for name in "abc":
        past = group(net, name).past
        assert {each.id for each in before} == {each.id for each in past}, name
        assert [each.number for each in past] == sorted([each.number for each in past])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda part: msgspec.structs.replace(
            part, view=msgspec.structs.replace(part.view, members=part.view.members * 2)
        ),
        lambda part: SetPart(SetView(3, part.base, (SetMember(server("x")),)), 3, part.base),
    ],
)
def test_a_probe_that_makes_no_sense_is_ignored(spoil: object) -> None:
    net = formed("ab")
    cut(net, "a", "b")
    net.link("a", "b")
    [message] = [each for each in net.lanes["a", "b"] if isinstance(each, SetProbe)]
    bad = msgspec.structs.replace(message, part=spoil(message.part))  # type: ignore[operator]
    assert net.step("b", Received(Domain("a"), bad)) == [Ignored("SetProbe", "not its speaker")]


def test_messages_of_a_merge_survive_the_wire() -> None:
    net = formed("ab")
    ask(net, enters("a1"), enters("b1"))
    cut(net, "a", "b")
    heal(net, "a", "b")
    decoder = msgspec.msgpack.Decoder(AnySetMessage)
    kinds = set()
    for _, _, message in net.sent:
        assert decoder.decode(msgspec.msgpack.encode(message)) == message
        kinds.add(type(message))
    assert {SetProbe, Offer, Initiate, Ack, Commit} <= kinds


# Giving up


def later(net: SetNet, seconds: float) -> None:
    """Probes go on for so long."""
    until = net.now + seconds
    while due := [name for name in net.probes if name not in net.gone and net.probes[name] <= until]:
        name = min(due, key=lambda each: (net.probes[each], each))
        net.now = max(net.now, net.probes.pop(name))
        net.step(name, TimerFired(net.cores[name].probe_timer))
        net.settle()
    net.now = until


def parts_that_gave_up(*parts: str) -> SetNet:
    names = "".join(parts)
    net = formed("".join(sorted(names)), reform_s=60.0)
    for one, other in combinations(parts, 2):
        for first in one:
            for second in other:
                net.cut(first, second)
    net.settle()
    later(net, 100.0)
    return net


@pytest.mark.spec("V-107", "V-108")
def test_parts_that_meet_no_other_for_long_are_sets_of_their_own() -> None:
    """XV-15."""
    net = parts_that_gave_up("ab", "cd", "ef", "g")
    names = {net.cores[name].state.gave_up for name in "abcdefg"}
    assert len(names) == 4 and all(name.startswith(f"{SET}#") for name in names)
    assert net.cores["a"].state.gave_up == net.cores["b"].state.gave_up
    net.sent.clear()
    for one, other in combinations("abcdefg", 2):
        net.link(one, other)
    later(net, 500.0)
    assert net.view("a") == "ab" and net.view("g") == "g"
    assert not [message for _, _, message in net.sent if isinstance(message, SetProbe | Offer)]


@pytest.mark.spec("V-108")
def test_a_part_of_a_part_has_a_longer_name() -> None:
    net = parts_that_gave_up("abc", "d")
    first = net.cores["a"].state.gave_up
    cut(net, "a", "bc")
    assert {net.cores[name].state.gave_up for name in "abc"} == {first}, "for a time"
    later(net, 200.0)
    names = {net.cores[name].state.gave_up for name in "abcd"}
    assert len(names) == 3 and net.cores["b"].state.gave_up == net.cores["c"].state.gave_up
    assert all(net.cores[name].state.gave_up.startswith(f"{first}#") for name in "abc")
    later(net, 500.0)
    assert {net.cores[name].state.gave_up for name in "abcd"} == names, "once"


@pytest.mark.spec("V-109")
def test_a_merge_with_a_part_that_gave_up_is_declined_by_it() -> None:
    net = parts_that_gave_up("ab", "cd")
    for one, other in combinations("abcd", 2):
        net.link(one, other)
    ours, theirs = net.cores["a"].state.part, net.cores["c"].state.part
    change, pid = PartsMerged((ours, theirs)), Pid(server("a"), 99)
    slot = max(ours.slot, theirs.slot) + 1
    proposal = Proposal(pid, slot, ours.base, change, priority_of(change, ours.view, pid))
    message = Initiate(SET, 1, 9, (), proposal, Round(pid, 0, server("a")))
    for name in "cd":
        effects = net.step(name, Received(Domain("a"), message))
        assert [type(each.message) for each in effects if isinstance(each, Send)] == [Declined]
        assert net.view(name) == "cd" and net.cores[name].state.lock is None


@pytest.mark.spec("V-109")
def test_what_one_part_sends_does_not_move_the_other_when_both_gave_up() -> None:
    """As with one multicast address for both: each receives all that the other sends."""
    net = parts_that_gave_up("ab", "cd")
    for one, other in combinations("abcd", 2):
        net.link(one, other)
    later(net, 10.0)
    ask(net, enters("c1"))
    net.sent.clear()
    ask(net, enters("a1"), enters("b1"))
    said = [(sender, message) for sender, _, message in net.sent]
    assert {"Initiate", "Ack", "Commit"} <= {type(message).__name__ for _, message in said}
    before = {name: net.cores[name].state for name in "cd"}
    net.sent.clear()
    for sender, message in said:
        for name in "cd":
            net.step(name, Received(Domain(sender), message))
    net.settle()
    for name, state in before.items():
        now = net.cores[name].state
        assert (now.view, now.base, now.table, now.phase) == (
            state.view,
            state.base,
            state.table,
            state.phase,
        )
    answered = {type(message) for sender, _, message in net.sent if sender in "cd"}
    assert answered <= {PartedFromSet}, "which says that they are apart, and to them it is nothing new"
    ask(net, exits("a1"))
    assert net.view("a") == "ab" and net.view("c") == "cd"
    assert [len(group(net, name).view.members) for name in "abcd"] == [1, 1, 1, 1]


@pytest.mark.spec("V-008", "V-107", "V-109")
def test_an_administrator_merges_parts_that_gave_up() -> None:
    net = parts_that_gave_up("ab", "cd")
    for one, other in combinations("abcd", 2):
        net.link(one, other)
    net.ask("b", PartReopened("by hand"))
    net.settle()
    for _ in range(3):
        net.step("a", TimerFired(net.cores["a"].probe_timer))
        net.settle()
    assert SetProbe in {type(message) for sender, _, message in net.sent if sender == "a"}
    assert net.view("a") == "ab" and net.view("c") == "cd", "both sides must agree"
    net.ask("d", PartReopened("by hand"))
    net.reform()
    assert net.agreed() and net.view("a") == "abcd" and net.cores["c"].state.gave_up == ""


@pytest.mark.spec("V-107")
def test_a_server_that_starts_joins_a_part_that_gave_up() -> None:
    net = parts_that_gave_up("ab", "c")
    net.crash("c")
    net.restart("c")
    for name in "ab":
        net.link("c", name)
    net.reform()
    assert net.agreed() and net.view("a") == "abc"


@pytest.mark.spec("V-107")
def test_a_part_that_heals_in_time_does_not_give_up() -> None:
    net = formed("abc", reform_s=60.0)
    cut(net, "ab", "c")
    later(net, 50.0)
    heal(net, "ab", "c")
    later(net, 500.0)
    assert net.agreed() and net.view("a") == "abc" and net.cores["a"].state.gave_up == ""


@pytest.mark.spec("V-009", "V-120")
def test_a_server_that_left_stays_out_although_its_links_are_up() -> None:
    net = formed("abc")
    ask(net, enters("a1"), enters("b1"))
    net.ask("b", SetSplit(servers("b"), servers("ac"), ("alone", ""), Pid(server("b"), 1 << 50)))
    net.settle()
    assert shown(group(net, "c").view) == (3, "a1"), "with all below it"
    later(net, 60.0)
    assert (net.view("a"), net.view("b"), net.view("c")) == ("ac", "b", "ac")
    views = [net.cores[name].state.view for name in "ab"]
    assert views[0].pid != views[1].pid, "one id, one list"
    net.crash("b")
    net.restart("b")
    for name in "ac":
        net.link("b", name)
    net.reform()
    assert net.agreed() and net.view("a") == "acb"


# Roles


@pytest.mark.spec("V-002", "V-003")
def test_the_parent_takes_part_in_every_change_and_is_shown_as_parent() -> None:
    net = SetNet("abc", alone=True, parent="c")
    mesh(net, "abc")
    net.reform()
    flags = {each.id.server: each.parent for each in net.cores["a"].state.view.members}
    assert flags == {"a": False, "b": False, "c": True}
    net.ask("a", enters("a1"))
    net.deliver("a", "b")
    net.deliver("b", "a")
    assert isinstance(net.cores["a"].state.phase, Coordinating), "it waits for the parent"
    net.settle()
    assert net.agreed() and shown(group(net, "c").view) == (1, "a1")


@pytest.mark.spec("V-101")
def test_servers_go_on_and_merge_whatever_their_groups_may_do() -> None:
    never = GroupKind(MembershipKind.AGREED, survive="never", merge="never")
    net = formed("abc")
    ask(net, enters("b1", CHESS, never), enters("c1", CHESS, never), enters("b1", GOES))
    cut(net, "ab", "c")
    ask(net, enters("c1", GOES))
    heal(net, "ab", "c")
    assert net.agreed() and shown(group(net, "a", GOES).view)[1] == "b1 c1"
    assert [shown(each.view)[1] for each in group(net, "a").parts] == ["b1", "c1"]


def test_a_server_that_was_replaced_too_late_hears_from_a_probe_that_the_set_went_on_without_it() -> None:
    """Its replicas were without a leader: the next one has the view as it was, and no link of it ended."""
    net = formed("abc")
    for name in "ab":
        net.step(name, LinkDown(Domain("c"), Because(Domain(name), Domain("c"), "silent")))
    net.settle()
    net.lanes["a", "c"].clear()
    net.lanes["b", "c"].clear()
    assert (net.view("a"), net.view("c")) == ("ab", "abc")
    net.link("a", "c")
    net.link("b", "c")
    net.reform()
    assert net.agreed() and sorted(net.view("a")) == ["a", "b", "c"]


def test_a_probe_from_before_a_merge_isolates_nobody() -> None:
    net = formed("ab")
    probe = SetProbe(
        SET,
        1,
        0,
        (),
        SetPart(SetView(0, Pid(server("a"), 0), (SetMember(server("a")),)), 0, Pid(server("a"), 0)),
    )
    effects = net.step("b", Received(Domain("a"), probe))
    assert effects == [Ignored("SetProbe", "we agree already")]
