"""What a host sees, member by member, is what a plain fold of the notices gives."""

from hypothesis import given
from hypothesis import strategies as st

from rostra.groups.members import Because, Cause, Member, Part
from rostra.journal.fold import JOINED, LEFT, ViewFold
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.requests import Absolute, Joined, Left, Only, Without
from rostra.sim.checkers import CheckReport

CHESS, GO = Group("chess", Domain("world")), Group("go", Domain("eu"))
ME, YOU = Endpoint("eu.fr.h1/me#1"), Endpoint("eu.fr.h1/you#2")
A, B, C = Endpoint("eu.fr.h1/a#1"), Endpoint("eu.de.h2/b#1"), Endpoint("us.ny.h3/c#1")
BECAUSE = Because(Domain("eu"), Domain("us"), "silent")

members = st.lists(
    st.builds(Member, st.sampled_from([A, B, C]), st.tuples(st.just(1), st.integers(1, 3))),
    unique_by=lambda member: member.endpoint,
).map(tuple)
domains = st.sampled_from([Domain("eu"), Domain("eu.fr"), Domain("us")])
parts = st.none() | st.builds(Part, st.booleans(), domains)
groups = st.sampled_from([CHESS, GO])
notices = st.one_of(
    st.builds(Absolute, groups, members),
    st.builds(Joined, groups, members, st.sampled_from([Cause.JOIN, Cause.MERGE]), parts),
    st.builds(
        Left,
        groups,
        st.sampled_from([A, B, C]),
        st.tuples(st.just(1), st.integers(1, 3)),
        st.just(Cause.LEAVE),
    ),
    st.builds(Only, domains, st.just(BECAUSE)),
    st.builds(Without, domains, st.just(BECAUSE)),
)


def member(endpoint: Endpoint, stamp: int = 1) -> Member:
    return Member(endpoint, (1, stamp))


@given(st.lists(notices, max_size=20))
def test_sight_is_what_the_obvious_fold_gives(script) -> None:
    sight, reports = ViewFold(), {CHESS: CheckReport(), GO: CheckReport()}
    for group in reports:
        sight.follow(ME, group)
    for notice in script:
        sight.take((ME,), notice)
        named = getattr(notice, "group", None)
        for group, report in reports.items():
            if named in (None, group):
                report.fold(notice)
            assert sight.seen[group] == report.members


@given(st.lists(notices, max_size=20))
def test_rows_with_news_are_everything_that_changed(script) -> None:
    """Whoever adds up lines with news, and nothing else, knows who is seen; every stay ends before the next
    of the same member begins."""
    sight, added_up = ViewFold(), {CHESS: {}, GO: {}}
    for group in added_up:
        sight.follow(ME, group)
    for notice in script:
        for group, _, lines, kept in sight.take((ME,), notice):
            for line in lines:
                if line.news and line.change == JOINED:
                    assert line.member not in added_up[group]
                    added_up[group][line.member] = line.stamp
                elif line.news:
                    assert line.change == LEFT
                    del added_up[group][line.member]
            assert kept >= 0
        assert added_up == sight.seen


def test_a_list_says_who_left_who_joined_and_how_many_stayed() -> None:
    sight = ViewFold()
    sight.follow(ME, CHESS)
    sight.take((ME,), Absolute(CHESS, (member(B), member(C))))

    ((group, observers, lines, kept),) = sight.take((ME,), Absolute(CHESS, (member(A), member(B))))

    assert (group, observers, kept) == (CHESS, (ME,), 1)
    assert [(line.member, line.change, line.cause) for line in lines] == [
        (C, "left", "unlisted"),
        (A, "joined", "snapshot"),
    ]


def test_a_member_that_came_back_unseen_left_and_joined() -> None:
    sight = ViewFold()
    sight.follow(ME, CHESS)
    sight.take((ME,), Absolute(CHESS, (member(A, 1),)))
    ((_, _, lines, kept),) = sight.take((ME,), Joined(CHESS, (member(A, 3),), Cause.MERGE))
    assert [(line.change, line.stamp) for line in lines] == [("left", (1, 1)), ("joined", (1, 3))]
    assert kept == 0


def test_a_part_that_came_back_without_somebody_says_that_it_left() -> None:
    sight = ViewFold()
    sight.follow(ME, CHESS)
    sight.take((ME,), Absolute(CHESS, (member(A), member(B), member(C))))
    part = Part(True, Domain("eu"))
    ((_, _, lines, kept),) = sight.take((ME,), Joined(CHESS, (member(A),), Cause.MERGE, part))
    assert [(line.member, line.change) for line in lines] == [(B, "left")]
    assert kept == 1


def test_a_lost_domain_concerns_every_group_that_was_told() -> None:
    sight = ViewFold()
    for observer, group in ((ME, CHESS), (ME, GO), (YOU, CHESS)):
        sight.follow(observer, group)
        sight.take((observer,), Absolute(group, (member(A), member(C))))
    told = sight.take((ME, YOU), Without(Domain("us"), BECAUSE))
    assert [(group, observers) for group, observers, _, _ in told] == [(CHESS, (ME, YOU)), (GO, (ME,))]
    assert all([line.member for line in lines] == [C] for _, _, lines, _ in told)


def test_sight_ends_with_the_last_follower() -> None:
    sight = ViewFold()
    sight.follow(ME, CHESS)
    sight.follow(YOU, CHESS)
    sight.take((ME, YOU), Absolute(CHESS, (member(A), member(B))))
    assert sight.unfollow(ME, CHESS) == []
    lost = sight.unfollow(YOU, CHESS)
    assert [(line.member, line.cause) for line in lost] == [(B, "unfollowed"), (A, "unfollowed")]
    assert sight.unfollow(YOU, CHESS) is None
    assert sight.take((YOU,), Absolute(CHESS, (member(A),))) == []
