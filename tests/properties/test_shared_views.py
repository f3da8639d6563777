"""Views that share a list say what each of them would say alone."""

from hypothesis import example, given
from hypothesis import strategies as st

from rostra.groups.members import Because, Cause, Member, Part
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.requests import Absolute, Joined, Left, Only, Without
from rostra.protocols.relaxed.view import Fellows, GroupView

G = Group("g", Domain("world"))
SILENT = Because(Domain("eu"), Domain("us"), "silent")
WHO = [Endpoint(f"{site}.h1/{name}#1") for site in ("eu", "us") for name in "ab"]
VIEWS = 3

members = st.builds(Member, st.sampled_from(WHO), st.tuples(st.just(1), st.integers(1, 4)))
several = st.lists(members, max_size=4, unique_by=lambda member: member.endpoint).map(
    lambda found: tuple(sorted(found, key=lambda member: member.endpoint))
)
domains = st.sampled_from([Domain("eu"), Domain("us")])
notices = st.one_of(
    st.builds(Absolute, st.just(G), several),
    st.builds(Joined, st.just(G), several, st.just(Cause.JOIN)),
    st.builds(Joined, st.just(G), several, st.just(Cause.MERGE), st.builds(Part, st.booleans(), domains)),
    st.builds(
        Left, st.just(G), st.sampled_from(WHO), st.tuples(st.just(1), st.integers(1, 4)), st.just(Cause.LEAVE)
    ),
    st.builds(Only, domains, st.just(SILENT)),
    st.builds(Without, domains, st.just(SILENT)),
)
# Most are told to all, and some to some only, in any order.
deeds = st.tuples(
    notices, st.one_of(st.permutations(range(VIEWS)), st.lists(st.integers(0, VIEWS - 1), unique=True))
)


def applied(view, notice):
    match notice:
        case Absolute():
            return view.replace(notice)
        case Joined():
            return view.add(notice)
        case Left():
            return view.remove(notice)
    return view.filter(notice)


EVERYBODY = tuple(range(VIEWS))
A_LEAVE_THEN_AN_OLDER_LIST = [
    (Left(G, WHO[0], (1, 2), Cause.LEAVE), EVERYBODY),
    (Absolute(G, (Member(WHO[0], (1, 1)),)), EVERYBODY),
]


@given(st.lists(deeds, max_size=20), st.none() | st.integers(0, VIEWS - 1))
@example(A_LEAVE_THEN_AN_OLDER_LIST, None)
def test_a_shared_list_is_what_each_would_have_alone(script, looks):
    fellows = Fellows()
    shared, alone = [GroupView(G, fellows) for _ in range(VIEWS)], [GroupView(G) for _ in range(VIEWS)]
    for notice, told in script:
        for number in told:
            assert applied(shared[number], notice) == applied(alone[number], notice)
            if looks is not None:  # one that is behind has to be right when it is asked
                assert shared[looks].members == alone[looks].members
                assert shared[looks].derived(len) == len(alone[looks])
    for one, other in zip(shared, alone, strict=True):
        assert one.members == other.members and one.known is other.known
        assert all((who in one) is (who in other) and one.get(who) == other.get(who) for who in WHO)


def test_fellows_who_are_told_the_same_keep_one_list_and_a_closed_one_holds_nobody_up():
    fellows = Fellows()
    views = [GroupView(G, fellows) for _ in range(VIEWS)]
    first = Member(WHO[0], (1, 1))
    for view in views:
        view.replace(Absolute(G, (first,)))  # each its own answer, with the same in it
    assert all(view.members is views[0].members for view in views)
    views[0].close()
    for number in range(1, 4):
        notice = Joined(G, (Member(WHO[number], (1, 1)),), Cause.JOIN)
        reports = [view.add(notice) for view in views[1:]]
        assert reports[0] == reports[1] and reports[0][0] is reports[1][0]
    assert all(view.members is views[0].members for view in views) and len(views[0]) == 4


def test_one_who_was_told_something_else_goes_on_alone():
    fellows = Fellows()
    views = [GroupView(G, fellows) for _ in range(VIEWS)]
    first, second, third = (Member(who, (1, 1)) for who in WHO[:3])
    for view in views:
        view.replace(Absolute(G, (first,)))
    views[0].add(Joined(G, (second,), Cause.JOIN))
    assert views[1].members == (first,)
    views[2].add(Joined(G, (third,), Cause.JOIN))
    assert [view.members for view in views] == [(first, second), (first,), (first, third)]


def test_a_list_that_brings_nothing_is_looked_through_once_for_all(monkeypatch):
    looks, newer = [], GroupView._newer
    monkeypatch.setattr(GroupView, "_newer", lambda *args: looks.append(args[1]) or newer(*args))
    fellows = Fellows()
    views = [GroupView(G, fellows) for _ in range(VIEWS)]
    members = tuple(Member(who, (1, 1)) for who in WHO)
    first, second = Absolute(G, members), Absolute(G, members)
    assert [len(view.replace(first)) for view in views] == [1] * VIEWS and looks == []
    assert [view.replace(second) for view in views] == [[]] * VIEWS and looks == [members]
