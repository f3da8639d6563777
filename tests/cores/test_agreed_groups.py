"""The views of agreed groups: numbers, ranks, seniority, attributes and history."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import encode
from msgspec.structs import replace
from support.setnet import CHESS, GOES, SET

from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupVerb,
    MemberId,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetMember,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.config import CREATED_MAX, EMPTIED_MAX
from rostra.protocols.agreed.groups import (
    AGREED,
    REQUESTS_KEPT,
    VIEWS_KEPT,
    AgreedGroup,
    AgreedMember,
    AgreedView,
    GroupTable,
    Outcome,
    fold_parts,
    united,
)
from rostra.protocols.agreed.orders import AnyOrder, CreateGroup, SetAttributes, decide
from rostra.protocols.agreed.sheets import GroupSheet, encode_group, group_sheet, history_of

FR, DE = ServerId(Domain("eu.fr"), 1), ServerId(Domain("eu.de"), 1)
EU = ServerId(Domain("eu"), 1)
VIEW = SetView(
    1, Pid(ServerId(SET, 1), 0), (SetMember(FR), SetMember(DE, 0, 1), SetMember(EU, 0, 2, parent=True))
)


def member(name: str, host: str = "eu.fr.h1", stamp: int = 1) -> MemberId:
    return MemberId(Endpoint(f"{host}/{name}#1"), (1, stamp))


ANN, BOB, EVE = member("ann"), member("bob", "eu.de.h1"), member("eve", "eu.fr.h2")


class Commits:
    """Changes, one after the other, as every server of the set applies them."""

    def __init__(self) -> None:
        self.table = GroupTable()
        self.count = 0

    def commit(self, change: AnyChange) -> tuple[Outcome, ...]:
        pid = Pid(FR, self.count)
        proposal = Proposal(pid, self.count + 1, VIEW.pid, change, priority_of(change, VIEW, pid))
        self.count += 1
        self.table, outcomes = self.table.apply(CommitRecord(proposal, Round(pid, 0, FR)), VIEW)
        return outcomes

    def do(
        self, verb: GroupVerb, *members: MemberId, group: Group = CHESS, data: bytes = b"", request: str = ""
    ) -> Outcome:
        request = request or f"request {self.count}"
        [outcome] = self.commit(GroupChange(group, verb, members, request, 0, data))
        return outcome

    def view(self, group: Group = CHESS) -> AgreedView:
        known = self.table.get(group)
        assert known is not None
        return known.view


@pytest.fixture
def commits() -> Commits:
    made = Commits()
    made.do(GroupVerb.CREATE)
    return made


def joined(commits: Commits, *members: MemberId) -> None:
    for each in members:
        commits.do(GroupVerb.JOIN, each)


@pytest.mark.spec("V-040")
def test_a_new_group_has_view_zero_and_nobody_in_it(commits: Commits) -> None:
    assert (commits.view().number, commits.view().members) == (0, ())
    assert commits.do(GroupVerb.CREATE).code == "NameTaken"


@pytest.mark.spec("V-094", "V-095")
def test_numbers_grow_by_one_and_joiners_go_last(commits: Commits) -> None:
    joined(commits, EVE, BOB, ANN)
    assert commits.view().number == 3 and commits.view().ids == (EVE, BOB, ANN)
    assert [each.gid for each in commits.view().members] == [(1, EVE), (2, BOB), (3, ANN)]
    commits.do(GroupVerb.LEAVE, EVE)
    assert [commits.view().rank(each) for each in (EVE, BOB, ANN)] == [None, 0, 1]
    assert commits.view().left == (EVE,) and commits.view().number == 4
    assert [each.gid for each in commits.view().members] == [(2, BOB), (3, ANN)]


@pytest.mark.spec("V-056")
def test_joining_twice_is_one_membership_and_a_new_stamp_takes_its_place(commits: Commits) -> None:
    joined(commits, ANN)
    again = commits.do(GroupVerb.JOIN, ANN)
    assert again.code == "" and again.view == commits.view() and commits.view().number == 1
    joined(commits, member("ann", stamp=2))
    assert commits.view().ids == (member("ann", stamp=2),) and commits.view().failed == (ANN,)
    assert commits.do(GroupVerb.JOIN, ANN, group=GOES).code == "NoSuchGroup"


def test_leaving_what_one_is_not_in_is_refused_and_changes_nothing(commits: Commits) -> None:
    joined(commits, ANN)
    assert commits.do(GroupVerb.LEAVE, BOB).code == "NotMember" and commits.view().number == 1


@pytest.mark.spec("V-043")
def test_a_group_ends_with_an_empty_view_and_its_name_is_free(commits: Commits) -> None:
    joined(commits, ANN, BOB)
    last = commits.do(GroupVerb.DELETE).view
    assert last is not None and (last.number, last.members, last.left) == (3, (), (ANN, BOB))
    assert commits.table.get(CHESS) is None and commits.do(GroupVerb.JOIN, ANN).code == "NoSuchGroup"
    assert commits.do(GroupVerb.CREATE).code == ""


@pytest.mark.parametrize("kind", [GroupKind(MembershipKind.AGREED, survive="(("), GroupKind()])
def test_no_group_becomes_of_a_kind_that_none_can_have(commits: Commits, kind: GroupKind) -> None:
    """Neither a new one, nor one whose last member has left; whichever server of the set asks for it."""
    joined(commits, ANN)
    commits.do(GroupVerb.LEAVE, ANN)
    for group in (CHESS, Group("new", SET)):
        before = commits.table.get(group)
        [outcome] = commits.commit(GroupChange(group, GroupVerb.JOIN, (BOB,), "request", kind=kind))
        assert outcome.code == "Invalid"
        assert commits.table.get(group) == before


@pytest.mark.spec("V-042", "V-044")
def test_attributes_are_a_revision_of_the_same_number(commits: Commits) -> None:
    joined(commits, ANN, BOB)
    number = commits.view().id
    commits.do(GroupVerb.ATTRIBUTES, data=b"blue")
    commits.do(GroupVerb.ATTRIBUTES, BOB, data=b"db")
    view = commits.view()
    assert (view.number, view.revision, view.attributes) == (2, 2, b"blue")
    assert [each.attributes for each in view.members] == [b"", b"db"]
    assert view.pid == number[2] and view.id != number
    assert commits.do(GroupVerb.ATTRIBUTES, EVE, data=b"db").code == "NotMember"
    joined(commits, EVE)
    assert (commits.view().number, commits.view().revision, commits.view().attributes) == (3, 0, b"blue")


@pytest.mark.spec("V-047", "V-049")
def test_the_past_is_answered_from_its_own_view_and_revision(commits: Commits) -> None:
    joined(commits, ANN, BOB)
    commits.do(GroupVerb.ATTRIBUTES, ANN, data=b"db")
    commits.do(GroupVerb.LEAVE, ANN)
    group = commits.table.get(CHESS)
    assert group is not None
    views = [group.at(number) for number in range(4)]
    assert [None if view is None else view.rank(ANN) for view in views] == [None, 0, 0, None]
    assert [view and [each.attributes for each in view.members] for view in views[2:]] == [
        [b"db", b""],
        [b""],
    ]
    first = group.at(2, revision=0)
    assert first is not None and first.members[0].attributes == b""


@pytest.mark.spec("V-096")
def test_as_many_views_are_kept_as_promised_and_no_more(commits: Commits) -> None:
    for _ in range(VIEWS_KEPT):
        joined(commits, ANN)
        commits.do(GroupVerb.LEAVE, ANN)
    group = commits.table.get(CHESS)
    assert group is not None and len(group.views) == VIEWS_KEPT
    newest = group.view.number
    assert group.at(newest - VIEWS_KEPT + 1) is not None and group.at(newest - VIEWS_KEPT) is None


@pytest.mark.spec("V-040", "V-096")
def test_of_a_group_with_a_history_of_two_views_two_can_be_asked_for(commits: Commits) -> None:
    sheet = encode_group(GroupSheet(history=2))
    commits.do(GroupVerb.ATTRIBUTES, data=sheet)
    joined(commits, ANN)
    joined(commits, BOB)
    joined(commits, EVE)
    group = commits.table.get(CHESS)
    assert group is not None
    assert [group.at(number) is not None for number in range(5)] == [False, False, True, True, False]
    assert [view.number for view in group.past] == [2]
    assert history_of(group.view.attributes) == 2


@pytest.mark.spec("V-040")
def test_the_bytes_of_a_group_that_says_nothing_of_its_history_are_what_they_were() -> None:
    assert encode_group(GroupSheet((("a", "b"),))) == encode(((("a", "b"),), "", (), (), ""))
    assert group_sheet(encode_group(GroupSheet(history=7))) == GroupSheet(history=7)
    assert history_of(b"") == history_of(encode_group(GroupSheet())) == VIEWS_KEPT


@pytest.mark.spec("V-088")
def test_a_request_asked_again_is_answered_and_not_done_again(commits: Commits) -> None:
    first = commits.do(GroupVerb.ATTRIBUTES, data=b"blue", request="paint")
    commits.do(GroupVerb.ATTRIBUTES, data=b"red")
    assert commits.do(GroupVerb.ATTRIBUTES, data=b"blue", request="paint") == first
    assert commits.view().attributes == b"red"
    for _ in range(REQUESTS_KEPT):
        commits.do(GroupVerb.ATTRIBUTES, data=b"red")
    assert commits.do(GroupVerb.ATTRIBUTES, data=b"blue", request="paint") != first


@pytest.mark.spec("V-064", "V-110")
def test_a_lost_server_takes_its_branch_out_of_every_group_in_one_view_each(commits: Commits) -> None:
    joined(commits, ANN, BOB, EVE)
    commits.do(GroupVerb.CREATE, group=GOES)
    commits.do(GroupVerb.JOIN, BOB, group=GOES)
    poker = Group("poker", SET)
    commits.do(GroupVerb.CREATE, group=poker)
    commits.do(GroupVerb.JOIN, EVE, group=poker)
    outcomes = commits.commit(ServersFailed((FR,)))
    failed = [(each.group, each.view.failed) for each in outcomes if each.view]
    assert failed == [(CHESS, (ANN, EVE)), (poker, (EVE,))]
    assert commits.view(poker).ids == () and commits.view(poker).number == 2
    assert commits.view().ids == (BOB,) and commits.view().number == 4 and commits.view().rank(BOB) == 0
    assert commits.view(GOES).number == 1  # it had nobody there


@pytest.mark.spec("V-064")
def test_a_lost_parent_takes_nobody_with_it(commits: Commits) -> None:
    joined(commits, ANN, BOB)
    assert commits.commit(ServersFailed((EU,))) == () and commits.view().ids == (ANN, BOB)


def test_two_partitions_of_a_group_become_one_view_above_both(commits: Commits) -> None:
    joined(commits, ANN, BOB)
    left, right = Commits(), Commits()
    left.table, right.table, left.count, right.count = commits.table, commits.table, 10, 20
    left.do(GroupVerb.FAIL, BOB)
    left.do(GroupVerb.JOIN, EVE)
    for number in range(8):
        right.do(GroupVerb.JOIN, member(f"m{number}", "eu.de.h1"))
    right.do(GroupVerb.LEAVE, member("m0", "eu.de.h1"))
    after = united(left.view(), right.view(), Pid(DE, 99))
    assert after == united(right.view(), left.view(), Pid(DE, 99))
    assert after.number == max(left.view().number, right.view().number) + 1
    assert (
        set(after.ids) == {*left.view().ids, *right.view().ids} and member("m0", "eu.de.h1") not in after.ids
    )
    assert after.ids[:2] == (ANN, BOB) and EVE in after.ids


steps = st.tuples(
    st.sampled_from([GroupVerb.JOIN, GroupVerb.LEAVE, GroupVerb.FAIL, GroupVerb.ATTRIBUTES]),
    st.lists(st.sampled_from([ANN, BOB, EVE, member("ann", stamp=2)]), min_size=1, max_size=3, unique=True),
)


def played(script: Iterable[tuple[GroupVerb, list[MemberId]]]) -> list[AgreedView]:
    commits = Commits()
    commits.do(GroupVerb.CREATE)
    views = [commits.view()]
    for verb, members in script:
        commits.do(verb, *members)
        if commits.view() != views[-1]:
            views.append(commits.view())
    return views


@pytest.mark.spec("V-094", "V-095", "V-127")
@given(st.lists(steps, max_size=20))
def test_any_two_successive_views_keep_the_rules(script: list[tuple[GroupVerb, list[MemberId]]]) -> None:
    views = played(script)
    assert views == played(script)
    for before, after in pairwise(views):
        if after.number == before.number:
            assert after.revision == before.revision + 1 and after.ids == before.ids
            continue
        assert after.number == before.number + 1 and after.revision == 0
        stayed = tuple([each for each in after.ids if each in before.ids])
        assert stayed == after.ids[: len(stayed)] and after.ids[len(stayed) :] == after.joined
        assert set(before.ids) - set(stayed) == {*after.left, *after.failed}
        assert set(before.ids) != set(after.ids)
        gids = [each.gid for each in after.members]
        assert gids == sorted(gids) and len(set(gids)) == len(gids)
    assert len({view.id for view in views}) == len(views)


# Groups without members


def emptied(name: str) -> tuple[Group, AgreedGroup]:
    return Group(name, Domain("eu")), AgreedGroup((AgreedView(),))


@pytest.mark.spec("V-040")
def test_a_created_group_is_not_forgotten_with_those_that_are_empty() -> None:
    sheets = {"made": GroupSheet((("a", "b"),)), "over": GroupSheet((), "it was deleted")}
    groups = dict([emptied(f"g{number}") for number in range(EMPTIED_MAX + 1)])
    for name, sheet in sheets.items():
        groups[Group(name, Domain("eu"))] = AgreedGroup((AgreedView(attributes=encode(sheet)),))
    after = GroupTable(groups)._forgetting()
    assert [group.name for group in after.groups] == ["made"]


@pytest.mark.spec("V-040")
def test_as_many_groups_are_created_as_a_set_can_keep_and_no_more() -> None:
    sheet = encode(GroupSheet((("a", "b"),)))
    groups = {
        Group(f"g{number}", Domain("eu")): AgreedGroup((AgreedView(attributes=sheet),))
        for number in range(CREATED_MAX)
    }
    caller, pid = Endpoint("eu.fr.h1/ann#1"), Pid(ServerId(Domain("eu.fr"), 1), 7)
    late, known = Group("late", Domain("eu")), Group("g7", Domain("eu"))

    def asked(group: Group, order: AnyOrder) -> str:
        return decide(order, caller, group, groups, AgreedView(), pid)[0]

    assert asked(late, CreateGroup(AGREED)) == "TooLarge"
    assert asked(known, SetAttributes((("c", "d"),))) == "", "it is one of them"
    groups[known] = AgreedGroup((AgreedView(attributes=encode(GroupSheet((), "it was deleted"))),))
    assert asked(late, CreateGroup(AGREED)) == ""


@pytest.mark.spec("V-047")
def test_an_earlier_stay_of_an_endpoint_has_no_rank_in_views_of_a_later_one() -> None:
    view = AgreedView(3, members=(AgreedMember(BOB, 1), AgreedMember(member("ann", stamp=2), 3)))
    assert (view.rank(member("ann", stamp=2)), view.rank(ANN), view.rank(BOB)) == (1, None, 0)


def seen(kind: GroupKind, pid: Pid, *views: tuple[int, tuple[MemberId, ...]]) -> AgreedGroup:
    """A part of a group that had these views: number, and members."""
    made = [AgreedView(number, 0, pid, tuple([AgreedMember(id, 1) for id in ids])) for number, ids in views]
    return AgreedGroup(tuple(made), kind=kind)


@pytest.mark.spec("V-105", "V-110", "V-120")
@pytest.mark.parametrize("survive", ["", "majority"])
def test_a_part_that_is_empty_now_leaves_its_numbers_to_the_one_that_it_meets(survive: str) -> None:
    """A host that was given up holds view 8 of the part that is empty (storms 6001992, 6002436)."""
    kind, pid = GroupKind(MembershipKind.AGREED, survive=survive), Pid(DE, 9)
    ours = seen(kind, Pid(FR, 1), (5, (ANN, BOB)), (6, (BOB,)))
    emptied = seen(kind, Pid(EU, 1), (8, (ANN,)), (9, ()))
    for parts in ([ours, emptied], [emptied, ours]):
        folded = fold_parts(parts, pid)
        assert (folded.view.number, folded.view.pid, folded.view.ids) == (10, pid, (BOB,))
        assert folded.view.parts == ((BOB,), ())
        assert bool(folded.blocked) == bool(survive)  # until all servers have heard of it
        assert fold_parts([folded, emptied], Pid(DE, 10)).view == folded.view
    third = seen(kind, Pid(DE, 1), (4, (EVE,)))
    assert fold_parts([ours, third, emptied], pid).view.number == 10
    assert fold_parts([ours, third], pid).view.number == 7


@pytest.mark.spec("V-110")
def test_a_part_that_only_removed_members_disturbs_nobody_when_it_is_back() -> None:
    before = seen(AGREED, Pid(FR, 1), (5, (ANN, BOB)))
    without = replace(before, views=(*before.views, AgreedView(6, 0, Pid(EU, 1), (), failed=(ANN, BOB))))
    assert fold_parts([before, without], Pid(DE, 9)).view == before.view
