"""Joins, leaves and failures that pass through a domain server (C-118, C-125..C-129, C-132)."""

import pytest
from support.bench import (
    ALL,
    NONE,
    RESOLVE,
    Bench,
    asks,
    fails,
    group,
    interest,
    joins,
    leaves,
    member,
    reply,
    to,
)

from rostra.core.effects import Ignored, Send
from rostra.groups.members import Member, Part
from rostra.names import Domain

H1, H2, H3 = "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c1.h3"
X = member(f"{H1}/x")
Y = member("eu.fr.c2.h1/y")
FAR = member("us.ny.c1.h1/far")


def cluster(**interests):
    """gms(eu.fr.c1) with three hosts, a sibling and the parent; interests of h1, h2, h3, c2 and parent."""
    bench = Bench("eu.fr.c1", H1, H2, H3, "eu.fr.c2", "eu.fr", cluster=True)
    for host in ("h1", "h2", "h3"):
        bench.tell(f"eu.fr.c1.{host}", interests.get(host, NONE))
    bench.confirm(H1, {"eu.fr.c2": interests.get("c2", NONE), "eu.fr": interests.get("parent", NONE)})
    return bench


def middle(**interests):
    """gms(eu.fr) with two clusters, a sibling and the parent."""
    bench = Bench("eu.fr", "eu.fr.c1", "eu.fr.c2", "eu.de", "eu")
    for child in ("c1", "c2"):
        bench.tell(f"eu.fr.{child}", interests.get(child, NONE))
    bench.confirm("eu.fr.c1", {"eu.de": interests.get("de", NONE), "eu": interests.get("parent", NONE)})
    return bench


CHANGES = pytest.mark.parametrize("change", [joins(H1, X), leaves(H1, X)], ids=["join", "leave"])


@pytest.mark.spec("C-118", "C-125", "C-126")
@CHANGES
def test_a_change_from_an_agent_goes_outward_and_to_the_other_agents_that_want_all(change):
    bench = cluster(h1=ALL, h2=ALL, h3=RESOLVE, c2=ALL, parent=ALL)
    assert bench.hear(H1, change) == to("eu.fr", "eu.fr.c2", H2, message=change)


@pytest.mark.spec("C-118", "C-125", "C-126")
@CHANGES
def test_a_change_is_not_sent_to_those_who_only_want_resolves_or_nothing(change):
    bench = cluster(h1=ALL, h2=RESOLVE, c2=RESOLVE)
    assert bench.hear(H1, change) == []


@pytest.mark.spec("C-118", "C-125", "C-126", "C-132")
@pytest.mark.parametrize("change", [joins("eu.fr.c1", X), leaves("eu.fr.c1", X)], ids=["join", "leave"])
def test_a_change_from_a_cluster_goes_outward_and_not_to_the_other_clusters(change):
    """The other cluster is a sibling of the first and hears it first-hand."""
    bench = middle(c1=ALL, c2=ALL, de=ALL, parent=ALL)
    assert bench.hear("eu.fr.c1", change) == to("eu", "eu.de", message=change)


@pytest.mark.spec("C-118", "C-125", "C-126")
@pytest.mark.parametrize("sender", ["eu.de", "eu"])
@pytest.mark.parametrize("make", [joins, leaves])
def test_a_change_from_outside_goes_to_the_children_that_want_all(sender, make):
    who = member("eu.de.c1.h1/z") if sender == "eu.de" else FAR
    change = make(sender, who)
    assert middle(c1=ALL, c2=RESOLVE, de=ALL, parent=ALL).hear(sender, change) == to(
        "eu.fr.c1", message=change
    )
    assert middle(c1=ALL, c2=ALL).hear(sender, change) == to("eu.fr.c1", "eu.fr.c2", message=change)


@pytest.mark.spec("C-126")
def test_a_leave_in_an_unknown_group_follows_the_same_rule():
    """An unknown group is unknown to the outer neighbours too: they may want it (T-06)."""
    bench = Bench("eu.fr.c1", H1, H2, "eu.fr.c2", cluster=True)
    assert bench.hear(H1, leaves(H1, X)) == to("eu.fr.c2", message=leaves(H1, X))
    assert bench.hear("eu.fr.c2", leaves("eu.fr.c2", Y)) == []


@pytest.mark.spec("C-125", "C-102")
def test_a_join_from_a_child_that_announced_nothing_raises_it_to_resolve_first():
    bench = Bench("eu.fr.c1", H1, "eu.fr.c2", cluster=True)
    assert bench.hear(H1, joins(H1, X)) == [
        Send(Domain("eu.fr.c2"), interest(RESOLVE)),
        Send(Domain("eu.fr.c2"), joins(H1, X)),
    ]
    assert bench.want(H1) is RESOLVE


@pytest.mark.spec("C-125", "C-146")
def test_a_baseline_that_names_nobody_makes_no_row():
    """It can arrive after its sender's last interest was withdrawn; a row made by it would live for ever."""
    bench = Bench("eu.fr", "eu.fr.c1", "eu.de")
    nobody = joins("eu.fr.c1", part=Part(True, Domain("eu.fr.c1")))
    assert bench.hear("eu.fr.c1", nobody) == to("eu.de", message=nobody)
    assert not bench.server.table.rows


@pytest.mark.spec("C-125")
def test_a_join_does_not_lower_an_announced_interest():
    bench = cluster(h1=ALL)
    bench.hear(H1, joins(H1, X))
    assert bench.want(H1) is ALL


@pytest.mark.spec("C-125", "C-187")
@pytest.mark.parametrize(
    ("sender", "record"),
    [
        (H1, member(f"{H2}/x")),
        (H1, member(f"{H1}0/x")),
        ("eu.fr.c2", X),
        ("eu.fr.c2", member("eu.fr.c22.h1/x")),
        ("eu.fr", Y),
        ("eu.fr", X),
    ],
)
def test_a_record_that_is_not_on_the_senders_side_is_ignored_with_its_message(sender, record):
    bench = cluster(h1=ALL, h2=ALL, h3=ALL, c2=ALL, parent=ALL)
    why = "record outside the sender's side"
    assert bench.hear(sender, joins(sender, record)) == [Ignored("EndpointsJoined", why)]
    assert bench.hear(sender, leaves(sender, record)) == [Ignored("EndpointLeft", why)]


@pytest.mark.spec("C-125")
def test_a_record_outside_the_scope_is_ignored_though_the_parent_could_know_it():
    narrow = group("eu")
    bench = Bench("eu.fr.c1", H1, "eu.fr", cluster=True)
    bench.tell(H1, ALL, narrow)
    assert bench.hear("eu.fr", joins("eu.fr", FAR, g=narrow)) == [
        Ignored("EndpointsJoined", "record outside the sender's side")
    ]
    known = joins("eu.fr", member("eu.de.c1.h1/x"), g=narrow)
    assert bench.hear("eu.fr", known) == to(H1, message=known)


@pytest.mark.spec("C-059", "C-125")
@pytest.mark.parametrize(
    ("sender", "part"),
    [
        (H1, Part(True, Domain("eu.fr.c1"))),
        ("eu.fr.c2", Part(False, Domain("eu.fr.c2"))),
        ("eu.fr", Part(True, Domain("eu.fr.c2"))),
        ("eu.fr", Part(True, Domain("eu"))),
        ("eu.fr", Part(False, Domain("eu.fr.c1"))),
    ],
)
def test_nobody_can_replace_what_is_not_on_its_side(sender, part):
    bench = cluster(h1=ALL, h2=ALL, c2=ALL, parent=ALL)
    assert bench.hear(sender, joins(sender, part=part)) == [
        Ignored("EndpointsJoined", "part outside the sender's side")
    ]


@pytest.mark.spec("C-059", "C-125")
@pytest.mark.parametrize(
    ("sender", "part"),
    [
        ("eu.fr.c2", Part(True, Domain("eu.fr.c2.h1"))),
        ("eu.fr", Part(True, Domain("eu.de"))),
        ("eu.fr", Part(True, Domain("us"))),
        ("eu.fr", Part(False, Domain("eu"))),
        ("eu.fr", Part(False, Domain("eu.fr"))),
    ],
)
def test_a_baseline_for_the_senders_side_is_passed_on_even_if_it_is_empty(sender, part):
    bench = cluster(h1=ALL, c2=ALL, parent=ALL)
    baseline = joins(sender, part=part)
    assert bench.hear(sender, baseline) == to(H1, message=baseline)


# Open collections


def collected(bench, sender, request, last):
    """Let the last neighbour answer with nobody; the list in the reply that follows."""
    effects = bench.hear(last, reply(request, interest=ALL))
    return next(each.message.members for each in effects if each.to == sender)


@pytest.mark.spec("C-125", "C-128", "C-119")
def test_a_join_from_a_pruned_neighbour_still_counts():
    """Nobody was there when the request was forwarded, so the neighbour was not asked (T-25)."""
    bench = middle(c1=ALL, de=NONE, parent=ALL)
    request = asks("eu.fr.c1", 5)
    assert bench.hear("eu.fr.c1", request) == to("eu", message=request)
    newcomer = member("eu.de.c1.h1/d")
    bench.hear("eu.de", joins("eu.de", newcomer))
    assert collected(bench, "eu.fr.c1", request, "eu") == (newcomer,)


@pytest.mark.spec("C-128", "C-119")
def test_a_join_from_a_neighbour_that_was_not_yet_linked_counts():
    bench = Bench("eu.fr", "eu.fr.c1", "eu")
    bench.tell("eu.fr.c1", RESOLVE)
    request = asks("eu.fr.c1", 5)
    bench.hear("eu.fr.c1", request)
    bench.up("eu.de")
    newcomer = member("eu.de.c1.h1/d")
    bench.hear("eu.de", joins("eu.de", newcomer))
    assert collected(bench, "eu.fr.c1", request, "eu") == (newcomer,)


@pytest.mark.spec("C-129")
def test_a_join_from_a_neighbour_that_still_owes_its_answer_does_not_count_but_is_passed_on():
    """It may be older than the answer, and its withdrawal may never have been sent to us (T-26)."""
    bench = middle(c1=ALL, de=ALL, parent=ALL)
    request = asks("eu.fr.c1", 5)
    bench.hear("eu.fr.c1", request)
    early = joins("eu.de", member("eu.de.c1.h1/ghost"))
    assert bench.hear("eu.de", early) == to("eu.fr.c1", message=early)
    bench.hear("eu", reply(request, interest=ALL))
    assert collected(bench, "eu.fr.c1", request, "eu.de") == ()


@pytest.mark.spec("C-126")
def test_a_leave_takes_back_an_answer_unless_it_is_older():
    bench = middle(c1=ALL, de=ALL, parent=ALL)
    request = asks("eu.fr.c1", 5)
    bench.hear("eu.fr.c1", request)
    goes = Member(member("eu.de.c1.h1/goes").endpoint, (1, 3))
    stays = Member(member("eu.de.c1.h1/stays").endpoint, (1, 3))
    bench.hear("eu.de", reply(request, goes, stays, interest=ALL))
    bench.hear("eu.de", leaves("eu.de", Member(goes.endpoint, (1, 3))))
    bench.hear("eu.de", leaves("eu.de", Member(stays.endpoint, (1, 2))))
    assert collected(bench, "eu.fr.c1", request, "eu") == (stays,)


@pytest.mark.spec("C-125", "C-059")
def test_a_baseline_replaces_its_part_of_what_was_collected():
    bench = middle(c1=ALL, de=ALL, parent=ALL)
    request = asks("eu.fr.c1", 5)
    bench.hear("eu.fr.c1", request)
    old, other, new = member("eu.de.c1.h1/old"), member("eu.de.c2.h1/other"), member("eu.de.c1.h2/new")
    bench.hear("eu.de", reply(request, old, other, interest=ALL))
    bench.hear("eu.de", joins("eu.de", new, part=Part(True, Domain("eu.de.c1"))))
    assert collected(bench, "eu.fr.c1", request, "eu") == (new, other)


@pytest.mark.spec("C-118", "C-119")
def test_what_happens_on_the_askers_own_side_is_not_collected():
    bench = middle(c1=ALL, c2=ALL, de=ALL, parent=ALL)
    request = asks("eu.fr.c1", 5)
    bench.hear("eu.fr.c1", request)
    bench.hear("eu.fr.c2", joins("eu.fr.c2", Y))
    bench.hear("eu.fr.c1", joins("eu.fr.c1", X))
    bench.hear("eu.de", reply(request, interest=ALL))
    assert collected(bench, "eu.fr.c1", request, "eu") == ()


@pytest.mark.spec("C-119")
def test_in_a_cluster_the_asking_agents_own_joins_are_its_own_business():
    bench = cluster(h1=ALL, h2=ALL, h3=ALL)
    request = asks(H1, 5)
    bench.hear(H1, request)
    beside = member(f"{H2}/beside", 9)
    bench.hear(H2, reply(request, interest=ALL))
    bench.hear(H2, joins(H2, beside))
    bench.hear(H1, joins(H1, X))
    assert collected(bench, H1, request, H3) == (beside,)


# Failures


@pytest.mark.spec("C-127", "C-065")
def test_a_failure_is_passed_on_to_each_neighbour_with_only_its_own_groups():
    one, two, narrow = group(name="a"), group(name="b"), group("eu.fr", name="c")
    bench = Bench("eu.fr.c1", H1, H2, H3, "eu.fr.c2", "eu.fr", cluster=True)
    for child, g, state in ((H1, one, ALL), (H2, two, ALL), (H2, narrow, ALL), (H3, one, RESOLVE)):
        bench.tell(child, state, g)
    notice = fails("eu.fr.c2.h1", one, two, narrow)
    assert bench.hear("eu.fr.c2", notice) == [
        Send(Domain(H1), fails("eu.fr.c2.h1", one)),
        Send(Domain(H2), fails("eu.fr.c2.h1", two, narrow)),
    ]
    # From the parent, a group that does not reach the parent is none of its business.
    assert bench.hear("eu.fr", fails("eu.de", two, narrow)) == to(H2, message=fails("eu.de", two))


@pytest.mark.spec("C-127", "C-118")
def test_a_failure_below_a_child_goes_outward_only():
    bench = middle(c1=ALL, c2=ALL, de=ALL, parent=ALL)
    notice = fails("eu.fr.c1.h1")
    assert bench.hear("eu.fr.c1", notice) == to("eu", "eu.de", message=notice)


@pytest.mark.spec("C-009", "C-127")
def test_a_failure_in_groups_out_of_scope_is_ignored():
    bench = middle(c1=ALL)
    assert bench.hear("eu", fails("us.ny", group("eu"))) == [Ignored("DomainFailed", "out of scope")]


@pytest.mark.spec("C-033")
@pytest.mark.parametrize("named", ["eu.fr.c2", "eu.de", "eu"])
def test_hearsay_about_an_own_neighbour_is_ignored(named):
    """Believing it would kill a live link for ever (T-29)."""
    bench = middle(c1=ALL, c2=ALL, de=ALL, parent=ALL)
    assert bench.hear("eu.fr.c1", fails(named)) == [Ignored("DomainFailed", "own neighbour")]
    assert bench.want(named) is ALL


@pytest.mark.parametrize(
    ("sender", "domain", "keep"),
    [
        ("eu.fr.c1", "eu.fr.c2.h1", False),
        ("eu.fr.c1", "world", True),
        ("eu.de", "eu.fr.c1.h1", False),
        ("eu", "eu.de.c1", False),
        ("eu", "world", False),
        ("eu", "eu.fr", True),
        ("eu", "us", True),
    ],
)
def test_nobody_can_declare_dead_what_is_not_on_its_side(sender, domain, keep):
    bench = middle(c1=ALL, c2=ALL, de=ALL, parent=ALL)
    assert bench.hear(sender, fails(domain, keep=keep)) == [
        Ignored("DomainFailed", "part outside the sender's side")
    ]


@pytest.mark.spec("C-127")
def test_a_failure_from_above_that_keeps_a_domain_keeps_it_in_open_collections_too():
    """The paper drops the named domain whatever the type, and with it everybody here (T-24)."""
    bench = Bench("eu.fr.c1", H1, "eu.fr.c2", "eu.fr", cluster=True)
    bench.tell(H1, ALL)
    request = asks(H1, 5)
    bench.hear(H1, request)
    german = member("eu.de.c1.h1/d")
    bench.hear("eu.fr", reply(request, german, FAR, interest=ALL))
    notice = fails("eu", keep=True)
    assert bench.hear("eu.fr", notice) == to(H1, message=notice)
    assert collected(bench, H1, request, "eu.fr.c2") == (german,)


@pytest.mark.spec("C-127", "C-129")
def test_a_failure_drops_its_domain_from_what_was_collected_but_not_from_what_is_still_owed():
    bench = middle(c1=ALL, de=ALL, parent=ALL)
    answered, owed = asks("eu.fr.c1", 5), asks("eu.fr.c2", 6)
    lost, kept = member("eu.de.c1.h1/lost"), member("eu.de.c2.h1/kept")
    bench.hear("eu.fr.c1", answered)
    bench.hear("eu.de", reply(answered, lost, kept, interest=ALL))
    bench.hear("eu.de", fails("eu.de.c1"))
    assert collected(bench, "eu.fr.c1", answered, "eu") == (kept,)
    bench.hear("eu.fr.c2", owed)
    bench.hear("eu.de", fails("eu.de.c1"))
    bench.hear("eu.de", reply(owed, lost, interest=ALL))
    assert collected(bench, "eu.fr.c2", owed, "eu") == (lost,)
