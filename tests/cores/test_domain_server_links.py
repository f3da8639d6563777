"""Neighbours that go and come: failures, merges, restarts (C-131..C-138)."""

import pytest
from support.bench import (
    ALL,
    NONE,
    OWN,
    RESOLVE,
    SILENT,
    Bench,
    G,
    an_id,
    asks,
    group,
    interest,
    joins,
    leaves,
    member,
    reply,
    to,
)

from rostra.core.effects import LinkDown, LinkUp, Noted, Received, Send
from rostra.groups.members import Cause, Part
from rostra.names import Domain
from rostra.protocols.relaxed.collection import CollectionKind, Side
from rostra.protocols.relaxed.merges import MERGES_MAX
from rostra.protocols.relaxed.messages import DomainFailed, EndpointsJoined, ResolveRequest, SyncDone

C1, C2 = "eu.fr.c1", "eu.fr.c2"
H1, H2 = "eu.fr.c1.h1", "eu.fr.c1.h2"
A = member("eu.de.c1.h1/a")
B = member("us.ny.c1.h1/b")
X = member("eu.fr.c1.h1/x")


def middle(*up):
    """gms(eu.fr); every child that is named has an online member."""
    bench = Bench("eu.fr", *(up or (C1, C2, "eu.de", "eu")))
    for child in bench.server.neighbours.children:
        bench.tell(child, ALL)
    return bench


def failed(domain, *groups, keep=False):
    return DomainFailed(OWN, groups or (G,), Domain(domain), keep, SILENT)


def merged(part, *members):
    return EndpointsJoined(OWN, G, members, Cause.MERGE, part)


def pulls(bench):
    return [each for each in bench.server.collections if each.kind is CollectionKind.PULL]


def pushes(bench):
    return [each for each in bench.server.collections if each.kind is CollectionKind.PUSH]


# Down


@pytest.mark.spec("C-131", "C-022", "C-132")
def test_a_lost_agent_is_told_to_outer_neighbours_and_to_the_other_agents():
    bench = Bench(C1, H1, H2, C2, "eu.fr", cluster=True)
    bench.tell(H1, ALL)
    bench.tell(H2, ALL)
    assert bench.down(H1) == to("eu.fr", H2, C2, message=failed(H1))


@pytest.mark.spec("C-131", "C-132")
def test_a_lost_cluster_is_told_outward_and_not_to_its_siblings():
    """They have detected it first-hand; and then the interest falls, after the failure."""
    bench = middle()
    bench.tell(C2, RESOLVE)
    assert bench.down(C1) == [
        *to("eu", "eu.de", message=failed(C1)),
        *to("eu", "eu.de", message=interest(RESOLVE)),
    ]


@pytest.mark.spec("C-131")
def test_a_lost_sibling_is_told_to_the_children():
    bench = middle()
    assert bench.down("eu.de") == to(C1, C2, message=failed("eu.de"))


@pytest.mark.spec("C-131")
def test_a_lost_parent_leaves_the_children_with_its_domain():
    bench = middle()
    assert bench.down("eu") == to(C1, C2, message=failed("eu", keep=True))


@pytest.mark.spec("C-131")
def test_the_loss_of_the_last_interested_outer_neighbour_is_told_inward_after_the_failure():
    bench = middle(C1, "eu.de")
    assert bench.down("eu.de") == [
        Send(Domain(C1), failed("eu.de")),
        Send(Domain(C1), interest(NONE)),
    ]


@pytest.mark.spec("C-131", "C-158")
def test_a_row_goes_with_the_child_that_needed_it():
    bench = Bench(C1, H1, C2, cluster=True)
    bench.tell(H1, RESOLVE)
    assert bench.everything(LinkDown(Domain(H1), SILENT)) == [
        Send(Domain(C2), failed(H1)),
        Noted("row dropped", "g@world"),
        Send(Domain(C2), interest(NONE)),
    ]


@pytest.mark.spec("C-131", "C-065")
def test_a_loss_names_only_the_groups_that_both_sides_share():
    mine, theirs, narrow = group(name="mine"), group(name="theirs"), group("eu.fr", name="narrow")
    bench = Bench(C1, H1, H2, C2, "eu.fr", cluster=True)
    for child, g, state in ((H1, mine, ALL), (H1, narrow, ALL), (H2, theirs, ALL), (H2, mine, RESOLVE)):
        bench.tell(child, state, g)
    assert bench.down(H1) == [
        Send(Domain("eu.fr"), failed(H1, mine)),
        Send(Domain(C2), failed(H1, mine, narrow)),
        Send(Domain("eu.fr"), interest(RESOLVE, mine)),
        Send(Domain(C2), interest(RESOLVE, mine)),
        Send(Domain(C2), interest(NONE, narrow)),
    ]


@pytest.mark.spec("C-131")
def test_nobody_is_told_of_the_loss_of_a_neighbour_that_had_nobody():
    bench = middle()
    bench.confirm(C1, {"eu": NONE, "eu.de": NONE})
    assert bench.down("eu.de") == []
    bench.tell(C2, NONE)
    assert bench.down(C2) == []


@pytest.mark.spec("C-131")
def test_nobody_who_only_resolves_is_told_of_a_loss():
    bench = middle()
    bench.tell(C1, RESOLVE)
    bench.tell(C2, RESOLVE)
    assert [each for each in bench.down("eu.de") if isinstance(each.message, DomainFailed)] == []


@pytest.mark.spec("C-020")
def test_the_loss_of_the_root_is_no_event():
    bench = Bench("eu", "eu.fr", "us", "world")
    bench.tell("eu.fr", ALL)
    assert bench.down("world") == []


@pytest.mark.spec("C-064", "C-150")
def test_a_failure_notice_does_not_grow_with_the_number_of_members():
    few, many = middle(C1, "eu"), middle(C1, "eu")
    few.hear(C1, joins(C1, X))
    for n in range(100):
        many.hear(C1, joins(C1, member(f"{H1}/x{n}")))
    assert few.down(C1)[0] == many.down(C1)[0] == Send(Domain("eu"), failed(C1))


@pytest.mark.spec("C-131")
def test_a_loss_completes_what_waited_only_for_it():
    bench = middle()
    request = asks(C1)
    bench.hear(C1, request)
    bench.hear("eu", reply(request, B, interest=ALL))
    assert bench.down("eu.de") == [
        *to(C1, C2, message=failed("eu.de")),
        Send(Domain(C1), reply(request, B, interest=ALL)),
    ]


@pytest.mark.spec("C-131")
@pytest.mark.parametrize(
    ("lost", "other", "kept"), [("eu.de", "eu", (B,)), ("eu", "eu.de", (A,))], ids=["sibling", "parent"]
)
def test_a_loss_takes_back_what_the_lost_side_had_answered(lost, other, kept):
    """FILTER_IN must also remove what the parent's side contributed (T-50)."""
    bench = middle()
    request = asks(C1)
    bench.hear(C1, request)
    answers = {"eu.de": A, "eu": B}
    bench.hear(lost, reply(request, answers[lost], interest=ALL))
    bench.down(lost)
    effects = bench.hear(other, reply(request, answers[other], interest=ALL))
    assert effects == to(C1, message=reply(request, *kept, interest=ALL))


@pytest.mark.spec("C-131")
def test_a_lost_child_takes_back_what_it_had_answered():
    bench = middle()
    request = asks("eu")
    bench.hear("eu", request)
    bench.hear(C1, reply(request, X, interest=ALL))
    bench.down(C1)
    assert bench.hear(C2, reply(request, interest=ALL)) == to("eu", message=reply(request, interest=ALL))


@pytest.mark.spec("C-131", "C-159")
def test_the_questions_of_a_lost_neighbour_are_discarded():
    bench = middle()
    request = asks(C1)
    bench.hear(C1, request)
    bench.down(C1)
    assert not bench.server.collections.questions
    assert len(bench.server.collections) == 0


@pytest.mark.spec("C-131", "C-079")
def test_a_reply_completed_by_a_loss_advertises_the_interest_after_the_loss():
    bench = middle(C1, "eu.de")
    request = asks(C1)
    bench.hear(C1, request)
    assert bench.down("eu.de") == [
        Send(Domain(C1), failed("eu.de")),
        Send(Domain(C1), reply(request, interest=NONE)),
        Send(Domain(C1), interest(NONE)),
    ]


@pytest.mark.spec("C-131", "C-137")
def test_nothing_is_sent_to_a_lost_neighbour():
    bench = middle()
    bench.down("eu")
    for event in (joins(C1, X), leaves(C1, X), asks(C1)):
        assert "eu" not in [each.to for each in bench.hear(C1, event)]
    assert bench.want("eu") is NONE


# Up


@pytest.mark.spec("C-133", "C-088")
def test_a_child_that_comes_up_does_the_work_itself():
    bench = middle()
    bench.down(C1)
    assert bench.everything(LinkUp(Domain(C1), 2)) == []
    assert Domain(C1) in bench.server.neighbours.unsynced


@pytest.mark.spec("C-134", "C-102")
def test_a_parent_that_comes_up_is_told_interest_then_synced_then_both_merges_start():
    bench = middle(C1, C2, "eu.de")
    assert bench.everything(LinkUp(Domain("eu"), 2)) == [
        Send(Domain("eu"), interest(ALL)),
        Send(Domain("eu"), SyncDone(OWN)),
        Noted("collection opened", "merge push g@world"),
        *to(C1, C2, message=ResolveRequest(OWN, G)),
        Noted("collection opened", "merge pull g@world"),
        Send(Domain("eu"), ResolveRequest(OWN, G)),
    ]


@pytest.mark.spec("C-134")
def test_a_sibling_that_comes_up_is_told_interest_and_asked():
    bench = middle(C1, "eu")
    assert bench.everything(LinkUp(Domain("eu.de"), 2)) == [
        Send(Domain("eu.de"), interest(ALL)),
        Noted("collection opened", "merge pull g@world"),
        Send(Domain("eu.de"), ResolveRequest(OWN, G)),
    ]


@pytest.mark.spec("C-134")
def test_with_offline_members_only_there_is_a_push_and_no_pull():
    bench = Bench("eu.fr", C1, "eu.de")
    bench.tell(C1, RESOLVE)
    assert bench.up("eu") == [
        Send(Domain("eu"), interest(RESOLVE)),
        Send(Domain("eu"), SyncDone(OWN)),
        Send(Domain(C1), ResolveRequest(OWN, G)),
    ]


@pytest.mark.spec("C-134", "C-098")
def test_the_first_outer_neighbour_to_come_up_is_news_for_the_children_before_anything_else():
    bench = middle(C1)
    assert bench.up("eu.de") == [
        Send(Domain(C1), interest(ALL)),
        Send(Domain("eu.de"), interest(ALL)),
        Send(Domain("eu.de"), ResolveRequest(OWN, G)),
    ]


@pytest.mark.spec("C-134", "C-092")
def test_a_neighbour_that_comes_up_hears_only_of_groups_in_its_range():
    """For a returning sibling the paper takes all rows, also those whose scope ends below (T-41)."""
    bench = Bench(C1, H1, cluster=True)
    for scope in ("world", "eu", "eu.fr", "eu.fr.c1"):
        bench.tell(H1, RESOLVE, group(scope))
    assert [each.message.group.scope for each in bench.up(C2)] == ["eu", "eu.fr", "world"]
    told = [each.message for each in bench.up("eu.fr") if each.to == "eu.fr"]
    assert told == [interest(RESOLVE, group("eu")), interest(RESOLVE), SyncDone(OWN)]


@pytest.mark.spec("C-134", "C-101")
def test_sync_done_waits_for_the_children():
    bench = Bench("eu.fr", C1, synced=False)
    bench.tell(C1, RESOLVE)
    assert SyncDone(OWN) not in [each.message for each in bench.up("eu")]
    assert bench.hear(C1, SyncDone(an_id(C1))) == to("eu", message=SyncDone(OWN))


def asked_of(child, effects):
    return [each for each in effects if each == Send(Domain(child), ResolveRequest(OWN, G))]


@pytest.mark.spec("C-177")
@pytest.mark.parametrize("siblings", [1, 8])
def test_neighbours_that_come_up_together_cost_one_push_and_one_shared_question(siblings):
    """The parent is pushed to; siblings pull, and all of them rest on one collection (C-174)."""
    bench, others = middle(C1), [f"eu.s{number}" for number in range(siblings)]
    effects = [effect for peer in ("eu", *others) for effect in bench.up(peer)]
    for peer in others:
        bench.tell(peer, ALL)
    [push] = pushes(bench)
    assert push.peer == "eu"
    for peer in others:
        effects += bench.hear(peer, asks(peer))
    assert len(asked_of(C1, effects)) == 1
    assert len([each for each in bench.server.collections if each.side is Side.INNER]) == 2


@pytest.mark.spec("C-178")
def test_many_groups_merge_in_turns_in_the_order_of_their_names():
    bench = Bench("eu.fr", C1)
    names = [f"g{number:05}" for number in range(2_000)]
    for name in reversed(names):
        bench.server.step(0.0, Received(Domain(C1), interest(ALL, group("world", name), an_id(C1))))
    effects = bench.server.step(0.0, LinkUp(Domain("eu"), 1))
    pushed, most = [], 0
    while requests := [each for each in effects if type(getattr(each, "message", None)) is ResolveRequest]:
        most = max(most, len(bench.server.collections))
        effects = []
        for each in requests:
            if each.to == C1:
                pushed.append(each.message.group.name)
            answer = reply(each.message.id, interest=ALL, g=each.message.group)
            effects += bench.server.step(0.0, Received(each.to, answer))
    assert (pushed, most) == (names, MERGES_MAX)
    assert not len(bench.server.collections) and not bench.server.merges.waiting(Domain("eu"))


@pytest.mark.spec("C-178")
def test_merges_that_wait_end_with_their_link_and_begin_again_with_the_next():
    bench = Bench("eu.fr", C1)
    wanted = [group("world", f"g{number:03}") for number in range(MERGES_MAX + 9)]
    for each in wanted:
        bench.tell(C1, RESOLVE, each)
    for epoch in (1, 2):
        bench.up("eu")
        assert len(pushes(bench)) == MERGES_MAX and bench.server.merges.waiting(Domain("eu")) == 9
        bench.tell("eu", RESOLVE, wanted[0])  # its merge is pointless, and makes room for the next
        assert len(pushes(bench)) == MERGES_MAX and bench.server.merges.waiting(Domain("eu")) == 8, epoch
        bench.down("eu")
        assert not len(bench.server.collections) and not bench.server.merges.waiting(Domain("eu"))


# Merges end


def request_id(bench, kind):
    return next(each.id for each in bench.server.collections if each.kind is kind)


@pytest.mark.spec("C-124", "C-059")
@pytest.mark.parametrize("members", [(X,), ()])
def test_a_finished_push_is_a_baseline_of_our_domain_for_the_parent_even_if_empty(members):
    bench = middle(C1)
    bench.up("eu")
    id = request_id(bench, CollectionKind.PUSH)
    assert bench.hear(C1, reply(id, *members, interest=ALL)) == to(
        "eu", message=merged(Part(True, Domain("eu.fr")), *members)
    )


@pytest.mark.spec("C-124", "C-131")
def test_a_push_whose_last_awaited_child_dies_still_ends_as_a_push():
    """The paper answers with a reply that nobody expects, and the merge never happens (T-22)."""
    bench = middle(C1, C2)
    bench.up("eu")
    bench.hear(C1, reply(request_id(bench, CollectionKind.PUSH), X, interest=ALL))
    baseline = merged(Part(True, Domain("eu.fr")), X)
    assert Send(Domain("eu"), baseline) in bench.down(C2)


@pytest.mark.spec("C-124", "C-060")
@pytest.mark.parametrize(
    ("peer", "who", "part"),
    [("eu.de", A, Part(True, Domain("eu.de"))), ("eu", B, Part(False, Domain("eu")))],
)
@pytest.mark.parametrize("empty", [False, True])
def test_a_finished_pull_is_a_baseline_of_the_other_side_for_the_children(peer, who, part, empty):
    bench = middle(C1, C2)
    bench.tell(C2, RESOLVE)
    bench.up(peer)
    members = () if empty else (who,)
    effects = bench.hear(peer, reply(request_id(bench, CollectionKind.PULL), *members, interest=ALL))
    assert effects == to(C1, message=merged(part, *members))


@pytest.mark.spec("C-124", "C-125")
def test_a_finished_pull_corrects_open_collections_that_had_that_sides_answer():
    bench = middle(C1, C2, "eu")
    bench.up("eu.de")
    request = asks(C2)
    bench.hear(C2, request)
    gone = member("eu.de.c1.h1/gone")
    bench.hear("eu.de", reply(request, gone, interest=ALL))
    bench.hear("eu.de", reply(request_id(bench, CollectionKind.PULL), A, interest=ALL))
    effects = bench.hear("eu", reply(request, interest=ALL))
    assert effects == to(C2, message=reply(request, A, interest=ALL))


@pytest.mark.spec("C-131")
def test_a_pull_is_discarded_with_its_neighbour():
    bench = middle(C1, "eu.de")
    bench.up("eu")
    assert len(pulls(bench)) == 1
    bench.down("eu")
    assert pulls(bench) == []
    assert pushes(bench) == []


@pytest.mark.spec("C-136", "C-158")
def test_a_pull_is_discarded_when_nobody_below_wants_every_change_any_more():
    bench = middle(C1)
    bench.up("eu.de")
    id = request_id(bench, CollectionKind.PULL)
    bench.tell(C1, RESOLVE)
    assert pulls(bench) == []
    assert [each.why for each in bench.hear("eu.de", reply(id, A, interest=ALL))] == ["late reply"]


@pytest.mark.spec("C-136")
def test_a_push_is_discarded_when_the_parent_does_not_want_every_change():
    bench = middle(C1)
    bench.up("eu")
    assert len(pushes(bench)) == 1
    bench.tell("eu", RESOLVE)
    assert pushes(bench) == []


@pytest.mark.spec("C-125", "C-129")
def test_a_push_takes_joins_from_children_that_have_answered_and_not_from_those_that_have_not():
    bench = middle(C1, C2)
    bench.up("eu")
    id = request_id(bench, CollectionKind.PUSH)
    late, early = member("eu.fr.c1.h2/late"), member("eu.fr.c2.h1/early")
    bench.hear(C1, reply(id, X, interest=ALL))
    bench.hear(C1, joins(C1, late))
    bench.hear(C2, joins(C2, early))
    effects = bench.hear(C2, reply(id, interest=ALL))
    assert effects == to("eu", message=merged(Part(True, Domain("eu.fr")), X, late))


@pytest.mark.spec("C-138", "C-023")
def test_a_restarted_server_learns_everything_from_its_children():
    bench = Bench("eu.fr", "eu.de", "eu")
    assert not bench.server.table.rows
    bench.up(C1)
    request = asks("eu")
    assert bench.hear("eu", request) == to(C1, message=request)
    assert bench.tell(C1, ALL) == to("eu", "eu.de", message=interest(ALL))
    baseline = joins(C1, X, part=Part(True, Domain(C1)))
    assert bench.hear(C1, baseline) == to("eu", "eu.de", message=baseline)
    assert bench.hear(C1, SyncDone(an_id(C1))) == []  # the parent was told when there were no children
    assert bench.hear(C1, reply(request, X, interest=ALL)) == to(
        "eu", message=reply(request, X, interest=ALL)
    )
