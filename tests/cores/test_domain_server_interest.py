"""The interest table: who is in range, what is wanted, what is told (C-092..C-103)."""

from itertools import product

import pytest
from support.bench import (
    ALL,
    NONE,
    OWN,
    RESOLVE,
    Bench,
    G,
    an_id,
    asks,
    group,
    interest,
    joins,
    member,
    reply,
    to,
)
from support.tref import T_REF, UNEVEN

from rostra.core.effects import Ignored, LinkUp, Noted, Received, Send
from rostra.names import ROOT, Domain, inside
from rostra.protocols.relaxed.messages import Interest, InterestChanged, SyncDone
from rostra.protocols.relaxed.neighbours import Neighbours, Relation

C1 = "eu.fr.c1"


@pytest.mark.spec("C-018")
def test_the_reference_tree_has_31_servers_and_37_links():
    assert len(T_REF.servers) == 31
    assert len(T_REF.links()) == 37
    for server in T_REF.servers:
        if server not in T_REF.hosts:
            neighbours = Neighbours(server, cluster=server in T_REF.clusters)
            known = {peer for peer in T_REF.servers if neighbours.relation(peer) is not None}
            assert known == set(T_REF.neighbours(server))


@pytest.mark.spec("C-010", "C-025")
@pytest.mark.parametrize("tree", [T_REF, UNEVEN])
def test_a_server_handles_exactly_the_groups_that_are_its_business(tree):
    scopes = {*tree.servers}
    for server, scope in product(tree.domains, sorted(scopes)):
        strict_prefix = scope != server and inside(scope, server)
        own_cluster = server in tree.clusters and scope == server
        neighbours = Neighbours(server, cluster=server in tree.clusters)
        handled = neighbours.reach(group(scope)) is not None
        assert handled is (strict_prefix or own_cluster), (scope, server)


@pytest.mark.spec("C-092")
@pytest.mark.parametrize(
    ("scope", "in_range"),
    [
        ("world", {"eu.fr.c1.h1", "eu.fr.c2", "eu.fr"}),
        ("eu", {"eu.fr.c1.h1", "eu.fr.c2", "eu.fr"}),
        ("eu.fr", {"eu.fr.c1.h1", "eu.fr.c2"}),
        ("eu.fr.c1", {"eu.fr.c1.h1"}),
        ("eu.fr.c1.h1", set()),
        ("eu.fr.c2", set()),
        ("us", set()),
    ],
)
def test_the_range_of_a_scope_around_a_cluster(scope, in_range):
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    up = bench.server.neighbours.up
    assert {
        peer for peer, relation in up.items() if bench.server.neighbours.in_range(group(scope), relation)
    } == in_range


@pytest.mark.spec("C-092", "C-020")
@pytest.mark.parametrize("server", ["eu", "us"])
def test_nothing_ever_goes_to_the_root(server):
    neighbours = Neighbours(Domain(server), cluster=False)
    for scope in T_REF.servers:
        assert not neighbours.in_range(group(scope), Relation.PARENT)


@pytest.mark.spec("C-092")
@pytest.mark.parametrize("tree", [T_REF, UNEVEN])
def test_ranges_agree_on_both_ends_of_every_link(tree):
    """Whoever may be told of a group by a neighbour is one that handles it."""
    for a, b in tree.links():
        if b in tree.hosts or a in tree.hosts:
            continue
        one, other = (Neighbours(each, cluster=each in tree.clusters) for each in (a, b))
        for scope in tree.servers:
            there, back = one.relation(b), other.relation(a)
            assert one.in_range(group(scope), there) == other.in_range(group(scope), back), (a, b, scope)


@pytest.mark.spec("C-009")
@pytest.mark.parametrize(
    ("sender", "scope"),
    [("eu.fr.c2", "eu.fr.c1"), ("eu.fr", "eu.fr"), ("eu.fr.c1.h1", "eu.fr.c1.h1"), ("eu.fr.c1.h1", "us")],
)
def test_what_is_out_of_scope_is_ignored(sender, scope):
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    far = group(scope)
    for message in (
        InterestChanged(an_id(sender), far, ALL),
        asks(sender, g=far),
        reply(an_id(sender), interest=NONE, g=far),
        joins(sender, g=far),
    ):
        assert bench.hear(sender, message) == [Ignored(type(message).__name__, "out of scope")]
    assert not bench.server.table.rows


@pytest.mark.spec("C-021")
@pytest.mark.parametrize("stranger", ["eu.de", "us.ny.c1", "eu.fr.c1.h1.x", "eu", "world", C1])
def test_only_a_neighbour_by_its_path_can_connect(stranger):
    bench = Bench(C1, cluster=True)
    assert bench.up(stranger) == [Ignored("LinkUp", "not a neighbour")]
    assert bench.hear(stranger, asks(stranger)) == [Ignored("ResolveRequest", "sender is not connected")]


# want, inner, outer


@pytest.mark.spec("C-094")
def test_a_disconnected_neighbour_wants_nothing():
    bench = Bench(C1, "eu.fr.c1.h1", cluster=True)
    assert bench.want("eu.fr.c2") is NONE
    assert bench.want("eu.fr") is NONE
    assert bench.want("eu.fr.c1.h2") is NONE


@pytest.mark.spec("C-094")
def test_unknown_outer_neighbours_want_everything_and_unknown_children_nothing():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    assert (bench.want("eu.fr.c2"), bench.want("eu.fr")) == (ALL, ALL)
    assert bench.want("eu.fr.c1.h1") is NONE
    assert bench.server.table.child_holders(G) == ()


@pytest.mark.spec("C-094", "C-101")
def test_an_unsynced_child_is_asked_but_not_told():
    bench = Bench(C1, "eu.fr.c1.h1", cluster=True, synced=False)
    table = bench.server.table
    assert (bench.want("eu.fr.c1.h1"), table.child_holders(G)) == (NONE, ("eu.fr.c1.h1",))
    assert table.child_listeners(G) == ()
    bench.tell("eu.fr.c1.h1", RESOLVE)
    assert (bench.want("eu.fr.c1.h1"), table.child_holders(G)) == (RESOLVE, ("eu.fr.c1.h1",))
    assert table.child_holders(group("us")) == ()


@pytest.mark.spec("C-094", "C-099")
@pytest.mark.parametrize("entry", list(Interest))
def test_an_unconfirmed_neighbour_counts_as_all_whatever_it_says(entry):
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", ALL)
    bench.tell("eu.fr.c2", entry)
    assert bench.server.table.rows[G].entries[Domain("eu.fr.c2")] is entry
    assert bench.want("eu.fr.c2") is ALL

    bench.confirm("eu.fr.c1.h1", {"eu.fr.c2": entry})

    assert bench.want("eu.fr.c2") is entry


@pytest.mark.spec("C-095", "C-093")
@pytest.mark.parametrize(("one", "other"), list(product(Interest, repeat=2)))
def test_inner_is_the_strongest_of_the_children(one, other):
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", cluster=True)
    bench.tell("eu.fr.c1.h1", one)
    bench.tell("eu.fr.c1.h2", other)
    assert bench.server.table.inner(G) is max(one, other)
    assert (G in bench.server.table.rows) is (max(one, other) is not NONE)


@pytest.mark.spec("C-095", "C-096")
@pytest.mark.parametrize(("sibling", "above"), list(product(Interest, repeat=2)))
def test_outer_is_the_strongest_of_siblings_and_parent(sibling, above):
    bench = Bench("eu.fr", "eu.fr.c1", "eu.de", "eu")
    assert bench.server.table.advertised(G, Relation.CHILD) is ALL  # no row: nothing is known
    bench.tell("eu.fr.c1", ALL)
    bench.confirm("eu.fr.c1", {"eu.de": sibling, "eu": above})
    assert bench.server.table.outer(G) is max(sibling, above)
    assert bench.server.table.advertised(G, Relation.CHILD) is max(sibling, above)
    assert bench.server.table.advertised(G, Relation.SIBLING) is ALL


@pytest.mark.spec("C-095")
def test_an_outer_neighbour_out_of_range_adds_nothing():
    narrow = group("eu")
    bench = Bench("eu.fr", "eu.fr.c1", "eu")
    bench.tell("eu.fr.c1", ALL, narrow)
    assert bench.server.table.outer(narrow) is NONE


# What is told


@pytest.mark.spec("C-097", "C-100", "C-158")
def test_a_first_member_makes_a_row_and_is_told_to_every_outer_neighbour_in_range():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    heard = InterestChanged(an_id("eu.fr.c1.h1"), G, RESOLVE)
    assert bench.everything(Received(Domain("eu.fr.c1.h1"), heard)) == [
        Noted("row made", "g@world"),
        *to("eu.fr", "eu.fr.c2", message=interest(RESOLVE)),
    ]


@pytest.mark.spec("C-097", "C-092")
@pytest.mark.parametrize(("scope", "told"), [("eu.fr", ["eu.fr.c2"]), ("eu.fr.c1", [])])
def test_interest_in_a_narrow_group_stays_in_its_scope(scope, told):
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    narrow = group(scope)
    assert bench.tell("eu.fr.c1.h1", ALL, narrow) == to(*told, message=interest(ALL, narrow))


@pytest.mark.spec("C-096", "C-097")
def test_what_is_told_is_the_aggregate_and_only_when_it_changes():
    """Two agents are online; one goes offline: nothing is sent upward (T-13)."""
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", ALL)
    assert bench.tell("eu.fr.c1.h2", ALL) == []
    assert bench.tell("eu.fr.c1.h1", RESOLVE) == []
    assert bench.tell("eu.fr.c1.h2", NONE) == to("eu.fr.c2", message=interest(RESOLVE))
    assert bench.tell("eu.fr.c1.h1", NONE) == to("eu.fr.c2", message=interest(NONE))


@pytest.mark.spec("C-097")
def test_a_pruned_neighbour_is_told_of_a_new_interest_all_the_same():
    """NONE is not a one-way street (T-11)."""
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", RESOLVE)
    bench.confirm("eu.fr.c1.h1", {"eu.fr.c2": NONE})
    assert bench.want("eu.fr.c2") is NONE
    assert bench.tell("eu.fr.c1.h2", ALL) == to("eu.fr.c2", message=interest(ALL))


@pytest.mark.spec("C-098")
def test_children_that_have_members_are_told_when_the_outer_interest_changes():
    bench = Bench("eu.fr", "eu.fr.c1", "eu.fr.c2", "eu.de")
    bench.tell("eu.fr.c1", ALL)
    request = asks("eu.fr.c1")
    bench.hear("eu.fr.c1", request)
    assert bench.hear("eu.de", reply(request, interest=NONE)) == [
        Send(Domain("eu.fr.c1"), interest(NONE)),
        Send(Domain("eu.fr.c1"), reply(request, interest=NONE)),
    ]
    assert bench.tell("eu.de", RESOLVE) == to("eu.fr.c1", message=interest(RESOLVE))
    assert bench.tell("eu.de", RESOLVE) == []


@pytest.mark.spec("C-098")
def test_agents_are_never_told_of_outer_interest():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", ALL)
    bench.confirm("eu.fr.c1.h1", {"eu.fr.c2": NONE})
    assert bench.tell("eu.fr.c2", ALL) == []


@pytest.mark.spec("C-099")
def test_every_rise_makes_all_outer_neighbours_unconfirmed_again():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    bench.tell("eu.fr.c1.h1", RESOLVE)
    bench.confirm("eu.fr.c1.h1", {"eu.fr.c2": NONE, "eu.fr": NONE})
    assert (bench.want("eu.fr.c2"), bench.want("eu.fr")) == (NONE, NONE)
    bench.tell("eu.fr.c1.h1", ALL)
    assert (bench.want("eu.fr.c2"), bench.want("eu.fr")) == (ALL, ALL)


@pytest.mark.spec("C-099", "C-122")
def test_an_answer_to_a_request_from_before_the_rise_confirms_nothing():
    """The neighbour may have answered before it knew that we are interested now (T-20)."""
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", RESOLVE)
    early, late = asks("eu.fr.c1.h1", 1), asks("eu.fr.c1.h1", 2)
    bench.hear("eu.fr.c1.h1", early)
    bench.tell("eu.fr.c1.h1", ALL)
    bench.hear("eu.fr.c1.h1", late)
    bench.hear("eu.fr.c2", reply(early, interest=NONE))
    assert bench.want("eu.fr.c2") is ALL
    bench.hear("eu.fr.c2", reply(late, interest=NONE))
    assert bench.want("eu.fr.c2") is NONE


@pytest.mark.spec("C-099")
def test_a_row_that_went_and_came_back_is_not_confirmed_by_an_answer_from_its_first_life():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", ALL)
    request = asks("eu.fr.c1.h1")
    bench.hear("eu.fr.c1.h1", request)
    bench.tell("eu.fr.c1.h1", NONE)
    bench.tell("eu.fr.c1.h1", ALL)
    bench.hear("eu.fr.c2", reply(request, interest=NONE))
    assert bench.want("eu.fr.c2") is ALL


@pytest.mark.spec("C-100", "C-130", "C-146")
def test_outer_neighbours_never_make_a_row():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", "eu.fr", cluster=True)
    assert bench.tell("eu.fr.c2", ALL) == [Ignored("InterestChanged", "no row")]
    assert bench.hear("eu.fr", joins("eu.fr", member("us.ny.c1.h1/x"))) == []
    assert not bench.server.table.rows


@pytest.mark.spec("C-100", "C-158", "C-173")
def test_a_row_goes_with_the_last_interest_below():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c2", cluster=True)
    bench.tell("eu.fr.c1.h1", ALL)
    bench.tell("eu.fr.c1.h2", RESOLVE)
    bench.tell("eu.fr.c1.h1", NONE)
    assert list(bench.server.table.rows) == [G]
    heard = InterestChanged(an_id("eu.fr.c1.h2"), G, NONE)
    assert bench.everything(Received(Domain("eu.fr.c1.h2"), heard)) == [
        Noted("row dropped", "g@world"),
        Send(Domain("eu.fr.c2"), interest(NONE)),
    ]
    assert not bench.server.table.rows


@pytest.mark.spec("C-130")
def test_a_child_that_never_had_members_changes_nothing_by_saying_so():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c2", cluster=True)
    assert bench.tell("eu.fr.c1.h1", NONE) == []


@pytest.mark.spec("C-101", "C-081", "C-088")
def test_a_server_tells_its_parent_once_that_all_its_children_are_synced():
    bench = Bench("eu.fr", "eu.fr.c1", "eu.fr.c2", "eu", synced=False)
    assert bench.hear("eu.fr.c1", SyncDone(an_id("eu.fr.c1"))) == []
    assert bench.hear("eu.fr.c2", SyncDone(an_id("eu.fr.c2"))) == to("eu", message=SyncDone(OWN))
    assert bench.hear("eu.fr.c2", SyncDone(an_id("eu.fr.c2"))) == [Ignored("SyncDone", "nothing to sync")]
    bench.up("eu.fr.c3")
    assert bench.hear("eu.fr.c3", SyncDone(an_id("eu.fr.c3"))) == []
    bench.down("eu")
    assert bench.up("eu") == to("eu", message=SyncDone(OWN))


@pytest.mark.spec("C-101")
def test_the_loss_of_the_last_unsynced_child_lets_its_parent_say_that_it_is_synced():
    bench = Bench("eu.fr", "eu.fr.c1", "eu", synced=False)
    assert bench.down("eu.fr.c1") == to("eu", message=SyncDone(OWN))


@pytest.mark.spec("C-101")
def test_sync_done_is_for_parents_only():
    bench = Bench("eu.fr", "eu.de", "eu")
    assert bench.hear("eu.de", SyncDone(an_id("eu.de"))) == [Ignored("SyncDone", "nothing to sync")]


@pytest.mark.spec("C-101", "C-138")
def test_a_resolve_asks_the_children_that_have_not_synced_and_only_those():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c1.h3", "eu.fr", cluster=True, synced=False)
    bench.hear("eu.fr.c1.h3", SyncDone(an_id("eu.fr.c1.h3")))
    request = asks("eu.fr")
    assert bench.hear("eu.fr", request) == to("eu.fr.c1.h1", "eu.fr.c1.h2", message=request)
    for agent in ("eu.fr.c1.h1", "eu.fr.c1.h2"):
        bench.hear(agent, SyncDone(an_id(agent)))
    later = asks("eu.fr", 2)
    assert bench.hear("eu.fr", later) == to("eu.fr", message=reply(later, interest=NONE))


@pytest.mark.spec("C-101")
def test_an_unsynced_child_that_says_it_has_nobody_is_not_asked_about_that_group():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr", cluster=True, synced=False)
    bench.tell("eu.fr.c1.h1", RESOLVE)
    bench.tell("eu.fr.c1.h2", RESOLVE)
    bench.tell("eu.fr.c1.h2", NONE)
    request = asks("eu.fr")
    assert bench.hear("eu.fr", request) == to("eu.fr.c1.h1", message=request)


@pytest.mark.spec("C-145")
def test_a_row_has_at_most_one_entry_per_neighbour():
    bench = Bench(C1, "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c2", "eu.fr", cluster=True)
    bench.tell("eu.fr.c1.h1", ALL)
    for peer in bench.server.neighbours.up:
        for state in (RESOLVE, ALL):
            bench.tell(peer, state)
    assert len(bench.server.table.rows[G].entries) == len(bench.server.neighbours.up) == 4


def test_relations_follow_from_paths():
    root = Neighbours(ROOT, cluster=False)
    assert root.relation(Domain("eu")) is Relation.CHILD
    assert root.relation(ROOT) is None
    top = Neighbours(Domain("eu"), cluster=False)
    assert (top.relation(ROOT), top.relation(Domain("us"))) == (Relation.PARENT, Relation.SIBLING)
    assert top.relation(Domain("us.ny")) is None


def test_a_second_up_or_down_in_a_row_is_ignored():
    bench = Bench("eu.fr", "eu")
    assert bench.up("eu") == [Ignored("LinkUp", "already up")]
    bench.down("eu")
    assert bench.down("eu") == [Ignored("LinkDown", "already down")]
    assert bench.everything(LinkUp(Domain("eu"), 2)) == to("eu", message=SyncDone(OWN))
