"""Which side of a group lives, by the commits of its set: absence, attempts, fences, and memory."""

import pytest
from msgspec.structs import replace
from support.setnet import CHESS, SET

from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    CommitRecord,
    GroupChange,
    GroupVerb,
    MemberId,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetMember,
    SetPart,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, GroupTable
from rostra.protocols.agreed.orders import SplitGroup, encode_order

FR, DE, IT = [ServerId(Domain(f"eu.{name}"), 1) for name in ("fr", "de", "it")]
EU = ServerId(SET, 1)
ALL = (FR, DE, IT, EU)
MAJORITY = GroupKind(MembershipKind.AGREED, survive="majority")


def member(name: str) -> MemberId:
    """`fr1` is below eu.fr."""
    return MemberId(Endpoint(f"eu.{name[:2]}.h1/{name}#1"), (1, 1))


class Side:
    """One server's table, and the view of its set."""

    def __init__(
        self, table: GroupTable | None = None, servers: tuple[ServerId, ...] = ALL, at: int = 0
    ) -> None:
        self.table = table or GroupTable()
        members = tuple([SetMember(each, 0, place, each == EU) for place, each in enumerate(servers)])
        self.view = SetView(1, Pid(EU, 0), members)
        self.count = at

    def proposal(self, change: AnyChange) -> Proposal:
        self.count += 1
        pid = Pid(self.view.servers[0], self.count)
        return Proposal(pid, self.count, self.view.pid, change, priority_of(change, self.view, pid))

    def commit(self, proposal: Proposal, *absent: ServerId, tried: tuple[Proposal, ...] = ()) -> str:
        round = Round(proposal.pid, 0, self.view.servers[0])
        record = CommitRecord(proposal, round, absent, absent, tried)
        self.table, outcomes = self.table.apply(record, self.view)
        return outcomes[0].code if outcomes else ""

    def do(self, change: AnyChange, *absent: ServerId, tried: tuple[Proposal, ...] = ()) -> str:
        code = self.commit(self.proposal(change), *absent, tried=tried)
        if isinstance(change, ServersFailed):
            self.view = SetView(2, Pid(EU, self.count), self.view.without(frozenset(change.failed)))
        return code

    def joins(self, *names: str, kind: GroupKind = MAJORITY) -> None:
        for name in names:
            assert self.do(joins(name, kind)) == ""

    @property
    def group(self) -> AgreedGroup:
        known = self.table.get(CHESS)
        assert known is not None
        return known

    @property
    def lives(self) -> bool:
        return not self.group.blocked

    def merge(self, other: "Side") -> None:
        parts = (SetPart(self.view, 1, Pid(FR, 90)), SetPart(other.view, 1, Pid(DE, 90)))
        pid = Pid(FR, 99)
        change = PartsMerged(parts)
        proposal = Proposal(
            pid, 99, Pid(FR, 90), change, priority_of(change, self.view, Pid(self.view.servers[0], 99))
        )
        record = CommitRecord(proposal, Round(pid, 0, FR))
        self.table, _ = self.table.apply(record, self.view, other.table.carried())


def joins(name: str, kind: GroupKind = MAJORITY) -> GroupChange:
    return GroupChange(CHESS, GroupVerb.JOIN, (member(name),), f"{name} joins", kind=kind)


def leaves(name: str) -> GroupChange:
    return GroupChange(CHESS, GroupVerb.LEAVE, (member(name),), f"{name} leaves")


def cut(side: Side, *there: ServerId) -> tuple[Side, Side]:
    """Both sides of a cut, each after the removal of the other."""
    here = tuple([each for each in side.view.servers if each not in there])
    one, other = Side(side.table, at=10), Side(side.table, at=20)
    one.do(ServersFailed(there), *there)
    other.do(ServersFailed(here), *here)
    return one, other


@pytest.mark.spec("V-098", "V-100")
def test_the_side_with_most_of_those_who_lived_last_goes_on() -> None:
    side = Side()
    side.joins("fr1", "fr2", "de1", "it1", "it2")
    assert side.lives and side.group.living.fence == 5
    here, there = cut(side, DE, IT)
    assert not here.lives and there.lives and there.group.living.fence == 6
    here.joins("fr3", "fr4", "fr5")
    assert not here.lives, "newcomers do not count (H1)"


@pytest.mark.spec("V-099", "V-100")
def test_members_behind_servers_that_a_change_went_on_without_do_not_count() -> None:
    side = Side()
    side.joins("fr1", "de1", "it1")
    side.do(joins("fr2"), DE, IT)
    assert not side.lives and side.group.view.number == 4, "the view comes, and stands still"


@pytest.mark.spec("V-099", "V-100")
def test_a_view_that_stands_still_here_may_live_with_those_it_went_on_without() -> None:
    """They may have committed it, too, and have been enough."""
    side = Side()
    side.joins("fr1", "de1", "it1")
    side.do(joins("fr2"), DE, IT)
    assert not side.lives and side.group.living.fence == 3
    (attempt,) = side.group.living.attempts
    assert (attempt.fence, len(attempt.members)) == (4, 4)
    side.do(joins("fr3"), DE)
    assert side.lives and side.group.living.fence == 5, "4 may be taken"


@pytest.mark.spec("V-120")
def test_a_view_depends_on_its_proposal_alone_and_not_on_who_was_absent() -> None:
    side = Side()
    side.joins("fr1", "de1", "it1")
    proposal = side.proposal(joins("de2"))
    one, other = Side(side.table), Side(side.table)
    one.commit(proposal)
    other.commit(proposal, DE)
    assert one.group.view == other.group.view and one.group.view.rank(member("de2")) == 3


@pytest.mark.spec("V-100")
def test_a_proposal_that_others_may_have_committed_is_an_attempt_and_the_next_fence_is_above_it() -> None:
    side = Side()
    side.joins("fr1", "de1", "it1")
    three = tuple(map(member, ("fr2", "fr3", "fr4")))
    torn = side.proposal(GroupChange(CHESS, GroupVerb.JOIN, three, "three join", kind=MAJORITY))
    assert side.do(ServersFailed((FR,)), FR, tried=(torn,)) == ""
    assert not side.lives, "two of three who lived last, but two of six of a view that may be there"
    assert len(side.group.living.attempts[0].members) == 6

    other = Side()
    other.joins("fr1", "de1", "de2", "it1", "it2")
    torn = other.proposal(joins("fr2"))
    other.do(ServersFailed((FR,)), FR, tried=(torn,))
    assert other.lives and other.group.living.fence == 7, "6 may be taken"


@pytest.mark.spec("V-100")
def test_a_group_that_others_may_have_made_does_not_begin_here_and_unites_with_theirs() -> None:
    side, there = Side(), Side()
    torn = side.proposal(joins("fr1"))
    there.commit(torn)
    assert there.lives and there.group.living.fence == 1
    side.do(ServersFailed((FR,)), FR, tried=(torn,))
    assert side.do(joins("de1", AGREED)) == "" and side.group.kind == MAJORITY
    side.joins("it1")
    assert not side.lives, "fr1 may live with fence 1"
    side.merge(there)
    side.view = Side().view
    side.joins("de2")
    assert side.lives and side.group.living.fence == 2
    assert set(side.group.view.ids) == set(map(member, ("fr1", "de1", "it1", "de2")))


@pytest.mark.spec("V-100")
def test_a_group_that_others_did_not_make_begins_when_their_member_joins() -> None:
    side = Side()
    torn = side.proposal(joins("fr1"))
    side.do(joins("de1"), tried=(torn,))
    assert not side.lives
    side.do(joins("fr1"))
    assert side.lives and side.group.living.fence == 2, "1 may be taken"


@pytest.mark.spec("V-106")
def test_two_sides_that_wait_for_the_members_of_others_wait_for_all_of_them_after_a_merge() -> None:
    one, other = Side(), Side(at=10)
    one.do(ServersFailed((FR,)), FR, tried=(one.proposal(joins("fr1")),))
    other.do(ServersFailed((DE,)), DE, tried=(other.proposal(joins("de1")),))
    sides = [Side(one.table), Side(other.table)]
    for here, there in ((one, sides[1]), (other, sides[0])):
        here.merge(there)
        waits_for = {each.id for attempt in here.group.living.attempts for each in attempt.members}
        assert waits_for == {member("fr1"), member("de1")}
    assert one.group == other.group


@pytest.mark.spec("V-100")
def test_who_leaves_in_a_part_without_its_server_is_still_asked_for() -> None:
    """Its own part may have counted it before it left."""
    side = Side()
    side.joins("fr1", "fr2", "de1", "de2", "de3")
    here, there = cut(side, DE)
    assert there.lives and not here.lives
    for name in ("de1", "de2"):  # known to a server here, which has taken the changes over
        here.do(leaves(name))
    here.joins("fr3")
    assert not here.lives
    there.do(leaves("de3"))
    assert there.lives


@pytest.mark.spec("V-122")
def test_a_join_of_a_branch_that_was_lost_before_is_void() -> None:
    side = Side()
    side.joins("fr1", "de1", "fr2")
    here, _ = cut(side, DE)
    assert here.do(joins("de2")) == "Unreachable" and here.group.view.rank(member("de2")) is None


@pytest.mark.spec("V-098")
def test_a_side_without_members_does_not_choose_another_kind_while_others_may_live() -> None:
    side = Side()
    side.joins("de1", "de2")
    here, there = cut(side, DE)
    here.do(joins("fr1", AGREED))
    assert here.group.kind == MAJORITY and not here.lives and there.lives
    for name in ("de1", "de2"):
        there.do(leaves(name))
    assert there.group.view.members == ()


@pytest.mark.spec("V-100", "V-106")
def test_what_an_emptied_side_knew_of_living_views_is_not_forgotten_in_a_merge() -> None:
    side = Side()
    side.joins("fr1", "de1", "de2")
    here, there = cut(side, DE)
    there.joins("de3", "de4")
    for name in ("de1", "de2", "de3", "de4"):
        there.do(leaves(name))
    fence = there.group.living.fence
    assert there.group.view.members == () and fence > here.group.living.fence
    here.merge(there)
    assert here.group.living.fence == fence


@pytest.mark.spec("V-100", "V-106")
def test_two_losers_that_merge_do_not_live() -> None:
    """H3."""
    side = Side()
    side.joins("fr1", "de1", "it1", "it2", "it3")
    one, rest = cut(side, DE, IT)
    other = Side(rest.table, (DE, IT), at=30)
    other.view = rest.view
    other.do(ServersFailed((IT,)), IT)
    assert not one.lives and not other.lives
    one.merge(other)
    one.view = Side(None, (FR, DE, EU)).view
    one.joins("fr2")
    assert not one.lives and one.group.living.fence >= 5


@pytest.mark.spec("V-100", "V-106")
def test_a_group_lives_with_the_change_after_a_merge_whoever_came_back_with_it() -> None:
    """Those who were out, by seniority and by name: two orders of the same, which is nothing new."""
    side = Side()
    side.joins("it1", "de1", "fr1", "fr2", "fr3")
    here, there = cut(side, DE, IT)
    assert here.lives and not there.lives
    here.merge(there)
    assert not here.lives
    here.view = side.view
    here.joins("fr4")
    assert [id for id, _ in here.group.living.returned] == [member("de1"), member("it1")]
    assert here.lives, here.group.blocked
    here.do(leaves("fr1"))
    assert here.lives, here.group.blocked


TEAM = Group("team", SET)


def in_team(verb: GroupVerb, name: str) -> GroupChange:
    kind = GroupKind(MembershipKind.AGREED, within="chess")
    return GroupChange(TEAM, verb, (member(name),), f"{verb} {name} in the team", kind=kind)


def team(side: Side) -> list[MemberId]:
    known = side.table.get(TEAM)
    return list(known.view.ids) if known is not None else []


@pytest.mark.spec("V-041")
def test_members_of_a_subgroup_are_members_of_its_group_and_leave_with_it() -> None:
    side = Side()
    side.joins("fr1", "de1", "it1", kind=AGREED)
    for name in ("fr1", "de1", "it1"):
        assert side.do(in_team(GroupVerb.JOIN, name)) == ""
    assert side.do(in_team(GroupVerb.JOIN, "fr9")) == "Denied" and len(team(side)) == 3
    side.do(leaves("fr1"))
    assert team(side) == [member("de1"), member("it1")]
    side.do(ServersFailed((IT,)), IT)
    assert team(side) == [member("de1")]
    side.do(in_team(GroupVerb.LEAVE, "de1"))
    assert team(side) == [] and side.group.view.ids == (member("de1"),)
    known = side.table.get(TEAM)
    assert known is not None and [view.number for view in known.views] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.spec("V-041")
def test_a_member_of_a_subgroup_joined_it_later_than_its_group() -> None:
    """Its stamps differ: each join has its own."""
    side = Side()
    side.joins("fr1", "de1", kind=AGREED)
    later = MemberId(member("fr1").endpoint, (1, 9))
    assert side.do(replace(in_team(GroupVerb.JOIN, "fr1"), members=(later,))) == ""
    assert team(side) == [later]
    side.do(leaves("fr1"))
    assert team(side) == []


@pytest.mark.spec("V-041")
def test_a_subgroup_of_a_subgroup_loses_its_members_with_the_same_commit() -> None:
    """Whichever of them comes first by name."""
    inner = Group("a", SET)
    side = Side()
    side.joins("fr1", "de1", kind=AGREED)
    for name in ("fr1", "de1"):
        assert side.do(in_team(GroupVerb.JOIN, name)) == ""
        kind = GroupKind(MembershipKind.AGREED, within="team")
        assert (
            side.do(GroupChange(inner, GroupVerb.JOIN, (member(name),), f"{name} joins a", kind=kind)) == ""
        )
    side.do(leaves("fr1"))
    known = side.table.get(inner)
    assert team(side) == [member("de1")] and known is not None and known.view.ids == (member("de1"),)


@pytest.mark.spec("V-045")
def test_a_split_that_keeps_its_group_is_one_change_and_does_not_touch_it() -> None:
    """Its fence and its rule, too; each subgroup lives by the same rule, of its own."""
    side = Side()
    side.joins("fr1", "de1", "it1")
    before = side.group
    order = encode_order(member("fr1").endpoint, SplitGroup(TEAM, Group("rest", SET), (), keep=True))
    change = GroupChange(CHESS, GroupVerb.ORDER, (), "split", data=order)
    assert side.do(change) == ""
    assert side.group == replace(before, outcomes=side.group.outcomes)
    assert team(side) == list(before.view.ids)
    known = side.table.get(TEAM)
    assert known is not None and (known.kind.survive, known.kind.within) == ("majority", "chess")
    assert known.living.fence > before.living.fence and not known.blocked
    assert side.do(change) == "" and side.group.view == before.view, "asked again, it is not done again"
    side.do(ServersFailed((DE, FR)), DE, FR)
    assert not side.lives and side.table.groups[TEAM].blocked


@pytest.mark.spec("V-099")
def test_no_view_lives_before_one_of_them_is_what_the_rule_asks() -> None:
    """Before, the first member lived alone, and no view after it could: newcomers do not count."""
    side, large = Side(), GroupKind(MembershipKind.AGREED, survive="size > 2")
    side.joins("fr1", "de1", kind=large)
    assert (
        not side.lives and side.group.blocked == "no view has lived yet: the rule does not hold for 2 members"
    )
    assert side.group.living.fence == 0
    side.joins("it1", kind=large)
    assert side.lives and side.group.living.fence == 1
    side.joins("it2", kind=large)
    assert side.lives
    side.do(ServersFailed((DE,)))
    assert side.lives
    side.do(ServersFailed((FR,)))
    assert not side.lives, "it1 and it2 are left"


@pytest.mark.spec("V-099")
def test_an_attempt_that_the_rule_forbids_keeps_nobody_waiting() -> None:
    side, large = Side(), GroupKind(MembershipKind.AGREED, survive="size > 1")
    lost = side.proposal(joins("fr1", large))
    side.count -= 1
    side.do(joins("de1", large), FR, tried=(lost,))
    side.do(ServersFailed((FR,)))
    assert not side.lives
    side.joins("it1", kind=large)
    assert side.lives, "fr1 alone lives on no side"
