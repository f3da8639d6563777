"""Resolve requests and replies at a domain server, and what may be shared (C-120..C-123, C-174)."""

import pytest
from support.bench import (
    ALL,
    NONE,
    RESOLVE,
    Bench,
    G,
    asks,
    group,
    interest,
    joins,
    leaves,
    member,
    reply,
    to,
)

from rostra.core.effects import Ignored, Noted, Received, Send
from rostra.groups.members import Member
from rostra.names import Domain
from rostra.protocols.relaxed.collection import AT_ONCE_MAX
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import SyncDone
from rostra.protocols.relaxed.reports import document_of_server

C1, C2 = "eu.fr.c1", "eu.fr.c2"
H1, H2, H3 = "eu.fr.c1.h1", "eu.fr.c1.h2", "eu.fr.c1.h3"
A = member("eu.de.c1.h1/a")
B = member("us.ny.c1.h1/b")


def cluster(config=None):
    return Bench(C1, H1, H2, H3, C2, "eu.fr", cluster=True, config=config)


def middle(config=None):
    return Bench("eu.fr", C1, C2, "eu.de", "eu", config=config)


# Asking


@pytest.mark.spec("C-120", "C-118", "C-158")
def test_an_agents_request_goes_to_outer_neighbours_and_to_other_agents_with_members():
    bench = cluster()
    bench.tell(H2, RESOLVE)
    request = asks(H1)
    assert bench.everything(Received(Domain(H1), request)) == [
        Noted("collection opened", "resolve g@world"),
        Noted("collection opened", "resolve g@world"),
        *to("eu.fr", C2, H2, message=request),
    ]


@pytest.mark.spec("C-120", "C-118")
def test_a_clusters_request_goes_to_outer_neighbours_only():
    bench = middle()
    bench.tell(C2, ALL)
    request = asks(C1)
    assert bench.hear(C1, request) == to("eu", "eu.de", message=request)


@pytest.mark.spec("C-120", "C-118")
@pytest.mark.parametrize("sender", ["eu.de", "eu"])
def test_a_request_from_outside_goes_to_the_children_with_members(sender):
    bench = middle()
    bench.tell(C2, RESOLVE)
    request = asks(sender)
    assert bench.hear(sender, request) == to(C2, message=request)


@pytest.mark.spec("C-120", "C-092")
@pytest.mark.parametrize(("scope", "targets"), [("eu.fr", [C2]), ("eu.fr.c1", [])])
def test_a_request_stays_in_its_scope(scope, targets):
    bench, narrow = cluster(), group(scope)
    request = asks(H1, g=narrow)
    expected = to(*targets, message=request) or to(H1, message=reply(request, interest=ALL, g=narrow))
    assert bench.hear(H1, request) == expected


@pytest.mark.spec("C-120", "C-096")
def test_a_request_from_outside_about_an_unknown_group_is_answered_at_once():
    bench = middle()
    request = asks("eu.de")
    assert bench.hear("eu.de", request) == to("eu.de", message=reply(request, interest=NONE))


@pytest.mark.spec("C-120", "C-096")
def test_a_request_is_answered_at_once_when_everybody_is_pruned():
    bench = middle()
    bench.tell(C1, ALL)
    bench.confirm(C1, {"eu.de": NONE, "eu": NONE})
    request = asks(C1, 5)
    assert bench.hear(C1, request) == to(C1, message=reply(request, interest=NONE))


@pytest.mark.spec("C-120", "C-076")
def test_a_second_request_with_an_open_id_is_ignored():
    bench = middle()
    bench.hear(C1, asks(C1))
    assert bench.hear(C1, asks(C1)) == [Ignored("ResolveRequest", "request already open")]


@pytest.mark.spec("C-076", "C-125")
def test_a_request_under_the_id_of_anothers_is_ignored_and_that_one_is_answered():
    bench = middle()
    bench.tell(C1, RESOLVE)
    stolen = asks(C1)
    for liar in (C2, "eu.de"):
        assert bench.hear(liar, stolen) == [Ignored("ResolveRequest", "source outside the sender's side")]
    bench.hear(C1, stolen)
    bench.hear("eu.de", reply(stolen, interest=NONE))
    assert bench.hear("eu", reply(stolen, interest=NONE))[-1].to == C1


# Answering


@pytest.mark.spec("C-121", "C-122", "C-123", "C-079", "C-158")
def test_one_reply_goes_back_when_all_have_answered():
    bench = middle()
    bench.tell(C1, RESOLVE)
    request = asks(C1)
    bench.hear(C1, request)
    assert bench.hear("eu", reply(request, B, interest=RESOLVE)) == []
    final = Received(Domain("eu.de"), reply(request, A, interest=NONE))
    assert bench.everything(final) == [
        Send(Domain(C1), interest(RESOLVE)),
        Noted("collection closed", "resolve g@world"),
        Send(Domain(C1), reply(request, A, B, interest=RESOLVE)),
    ]
    assert len(bench.server.collections) == 0


@pytest.mark.spec("C-122", "C-082")
def test_of_two_records_of_one_endpoint_the_larger_stamp_wins():
    bench = middle()
    request = asks(C1)
    bench.hear(C1, request)
    old, new = Member(A.endpoint, (1, 1)), Member(A.endpoint, (2, 1), b"new")
    bench.hear("eu.de", reply(request, old, interest=ALL))
    bench.hear("eu.de", joins("eu.de", new))
    assert bench.hear("eu", reply(request, interest=ALL)) == to(C1, message=reply(request, new, interest=ALL))


@pytest.mark.spec("C-122", "C-158")
def test_a_reply_nobody_waits_for_is_ignored():
    bench = middle()
    request = asks(C1)
    late = [Ignored("ResolveReply", "late reply")]
    assert bench.hear("eu", reply(request, interest=ALL)) == late
    bench.hear(C1, request)
    bench.hear("eu", reply(request, interest=ALL))
    assert bench.hear("eu", reply(request, interest=ALL)) == late
    assert bench.hear(C2, reply(request, interest=ALL)) == late
    other = group(name="other")
    assert bench.hear("eu.de", reply(request, interest=ALL, g=other)) == late


@pytest.mark.spec("C-122", "C-079", "C-097")
def test_a_reply_that_is_empty_but_interested_is_taken_at_its_word():
    """An empty list alone may race with a join already announced (T-11)."""
    bench = middle()
    bench.tell(C1, ALL)
    bench.confirm(C1, {"eu.de": ALL, "eu": NONE})
    assert (bench.want("eu.de"), bench.want("eu")) == (ALL, NONE)


@pytest.mark.spec("C-122")
def test_a_childs_reply_does_not_touch_its_entry():
    bench = middle()
    bench.tell(C1, RESOLVE)
    request = asks("eu")
    bench.hear("eu", request)
    bench.hear(C1, reply(request, interest=NONE))
    assert bench.want(C1) is RESOLVE


@pytest.mark.spec("C-187")
def test_a_reply_counts_without_the_records_that_cannot_be_the_senders():
    bench = middle()
    request = asks(C1)
    bench.hear(C1, request)
    assert bench.hear("eu.de", reply(request, A, B, interest=ALL)) == [
        Ignored("ResolveReply", "record outside the sender's side")
    ]
    assert bench.hear("eu", reply(request, interest=ALL)) == to(C1, message=reply(request, A, interest=ALL))


@pytest.mark.spec("C-023")
def test_between_events_no_member_is_remembered():
    bench = cluster()
    bench.tell(H1, ALL)
    bench.hear(H1, joins(H1, member(f"{H1}/x")))
    bench.hear(H1, leaves(H1, member(f"{H1}/x")))
    assert not len(bench.server.collections)
    assert b"/x" not in document_of_server(bench.server)


# Sharing


def answered(effects):
    return {str(each.to): each.message.members for each in effects if isinstance(each, Send)}


@pytest.mark.spec("C-174")
def test_ten_agents_that_resolve_at_once_send_one_request_out_and_all_get_complete_answers():
    agents = [f"{C1}.h{n}" for n in range(10)]
    bench = Bench(C1, *agents, C2, cluster=True)
    for agent in agents:
        bench.tell(agent, ALL)
    requests = {agent: asks(agent) for agent in agents}
    outward = []
    for agent, request in requests.items():
        effects = bench.hear(agent, request)
        outward += [each for each in effects if each.to == C2]
        assert [each.to for each in effects if each.to != C2] == [each for each in agents if each != agent]
    first = requests[agents[0]]
    assert outward == to(C2, message=first)

    far = member("eu.fr.c2.h1/far")
    assert bench.hear(C2, reply(first, far, interest=ALL)) == []
    answers = {}
    for agent in agents:
        for asking, request in requests.items():
            if asking != agent:
                answers |= answered(bench.hear(agent, reply(request, member(f"{agent}/m"), interest=ALL)))
    assert answers == {
        agent: (*(member(f"{other}/m") for other in agents if other != agent), far) for agent in agents
    }
    assert len(bench.server.collections) == 0


@pytest.mark.spec("C-174", "C-158")
def test_two_clusters_share_one_collection_and_each_gets_its_own_reply():
    bench = middle()
    bench.tell(C1, ALL)
    bench.tell(C2, ALL)
    one, two = asks(C1), asks(C2)
    assert bench.hear(C1, one) == to("eu", "eu.de", message=one)
    assert bench.everything(Received(Domain(C2), two)) == [Noted("collection shared", "resolve g@world")]
    bench.hear("eu", reply(one, B, interest=ALL))
    assert bench.hear("eu.de", reply(one, A, interest=ALL)) == [
        Send(Domain(C1), reply(one, A, B, interest=ALL)),
        Send(Domain(C2), reply(two, A, B, interest=ALL)),
    ]


@pytest.mark.spec("C-174")
def test_two_outer_neighbours_share_what_is_collected_from_the_children():
    bench = middle()
    bench.tell(C1, ALL)
    one, two = asks("eu"), asks("eu.de")
    assert bench.hear("eu", one) == to(C1, message=one)
    assert bench.hear("eu.de", two) == []
    here = member("eu.fr.c1.h1/x")
    assert bench.hear(C1, reply(one, here, interest=ALL)) == [
        Send(Domain("eu"), reply(one, here, interest=ALL)),
        Send(Domain("eu.de"), reply(two, here, interest=ALL)),
    ]


@pytest.mark.spec("C-174")
def test_outer_neighbours_of_a_cluster_do_not_share():
    bench = cluster()
    bench.tell(H1, ALL)
    for neighbour in ("eu.fr", C2):
        request = asks(neighbour)
        assert bench.hear(neighbour, request) == to(H1, message=request)


@pytest.mark.spec("C-174")
def test_a_child_and_an_outer_neighbour_do_not_share():
    bench = middle()
    bench.tell(C1, ALL)
    bench.hear(C1, asks(C1))
    assert bench.hear("eu", asks("eu")) == to(C1, message=asks("eu"))


@pytest.mark.spec("C-174")
def test_a_request_does_not_share_a_collection_from_before_the_interest_was_all():
    """What changed between the neighbour's answer and the new interest is in neither of them (T-19)."""
    bench = middle()
    bench.tell(C1, RESOLVE)
    early, late = asks(C1), asks(C2)
    bench.hear(C1, early)
    bench.tell(C2, ALL)
    assert bench.hear(C2, late) == to("eu", "eu.de", message=late)


@pytest.mark.spec("C-174")
def test_a_request_does_not_share_across_an_interruption_of_the_interest():
    bench = middle()
    bench.tell(C1, ALL)
    early, late = asks(C1), asks(C2)
    bench.hear(C1, early)
    bench.tell(C1, RESOLVE)
    bench.tell(C1, ALL)
    assert bench.hear(C2, late) == to("eu", "eu.de", message=late)


@pytest.mark.spec("C-174")
def test_outer_requests_do_not_share_while_the_outer_interest_is_below_all():
    bench = middle()
    bench.tell(C1, ALL)
    bench.confirm(C1, {"eu": RESOLVE, "eu.de": RESOLVE})
    bench.hear("eu", asks("eu"))
    assert bench.hear("eu.de", asks("eu.de")) == to(C1, message=asks("eu.de"))


@pytest.mark.spec("C-174", "C-101")
def test_after_a_link_came_up_a_request_does_not_share_what_the_new_neighbour_was_not_asked_for():
    bench = Bench("eu.fr", C1, C2, "eu.de")
    bench.tell(C1, ALL)
    bench.hear(C1, asks(C1))
    bench.up("eu")
    assert bench.hear(C2, asks(C2)) == to("eu", "eu.de", message=asks(C2))
    bench.hear("eu.de", asks("eu.de"))
    bench.up("eu.fr.c3")
    assert bench.hear("eu", asks("eu")) == to(C1, "eu.fr.c3", message=asks("eu"))


@pytest.mark.spec("C-174")
def test_sharing_can_be_turned_off():
    bench = middle(RelaxedConfig(share_collections=False))
    bench.tell(C1, ALL)
    for child in (C1, C2):
        assert bench.hear(child, asks(child)) == to("eu", "eu.de", message=asks(child))


@pytest.mark.spec("C-174", "C-131")
def test_a_shared_collection_outlives_the_asker_that_opened_it():
    bench = middle()
    bench.tell(C1, ALL)
    bench.tell(C2, ALL)
    one, two = asks(C1), asks(C2)
    bench.hear(C1, one)
    bench.hear(C2, two)
    bench.down(C1)
    bench.hear("eu", reply(one, B, interest=ALL))
    assert bench.hear("eu.de", reply(one, A, interest=ALL)) == to(C2, message=reply(two, A, B, interest=ALL))


@pytest.mark.spec("C-174", "C-128")
def test_a_question_may_rest_on_a_collection_that_is_complete_and_kept_up_to_date():
    """One agent is slow to answer the first question; the outer part is in, and changes still reach it."""
    bench = cluster()
    bench.tell(H1, ALL)
    bench.tell(H2, ALL)
    one = asks(H1)
    bench.hear(H1, one)
    bench.hear(C2, reply(one, interest=ALL))
    bench.hear("eu.fr", reply(one, A, interest=ALL))
    bench.hear("eu.fr", joins("eu.fr", B))
    two = asks(H3)
    assert bench.hear(H3, two) == to(H1, H2, message=two)
    bench.hear(H1, reply(two, interest=ALL))
    assert bench.hear(H2, reply(two, interest=ALL)) == to(H3, message=reply(two, A, B, interest=ALL))


# One that asks without end


def test_questions_beyond_a_few_wait_and_are_forwarded_as_one():
    bench = Bench(C1, H1, H2, cluster=True)
    bench.tell(H2, RESOLVE)
    requests = [asks(H1, number) for number in range(1, 2 * AT_ONCE_MAX)]
    for number, request in enumerate(requests):
        forwarded = to(H2, message=request) if number < AT_ONCE_MAX else []
        assert bench.hear(H1, request) == forwarded
    late, *later = requests[AT_ONCE_MAX:]
    assert bench.hear(H1, late) == [Ignored("ResolveRequest", "request already open")]
    own = member(f"{H2}/own")

    answered, asked = bench.hear(H2, reply(requests[0], interest=RESOLVE))
    assert [answered] == to(H1, message=reply(requests[0], interest=NONE))
    assert [asked] == to(H2, message=late), "one question for all of them, and after they were asked"
    assert bench.hear(H2, reply(late, own, interest=RESOLVE)) == [
        send for each in (late, *later) for send in to(H1, message=reply(each, own, interest=NONE))
    ]


def test_those_of_another_neighbour_do_not_wait_for_them():
    bench = Bench(C1, H1, H2, H3, cluster=True)
    bench.tell(H2, RESOLVE)
    for number in range(1, 2 * AT_ONCE_MAX):
        bench.hear(H1, asks(H1, number))
    assert bench.hear(H3, asks(H3)) == to(H2, message=asks(H3))


def test_questions_that_wait_are_discarded_with_their_source():
    bench = Bench(C1, H1, H2, cluster=True)
    bench.tell(H2, RESOLVE)
    for number in range(1, 2 * AT_ONCE_MAX):
        bench.hear(H1, asks(H1, number))
    bench.down(H1)
    assert not bench.server.collections.asked_by and not bench.server.collections.questions
    bench.up(H1)
    assert bench.hear(H1, asks(H1, 1000)) == to(H2, message=asks(H1, 1000))


def test_a_server_without_links_has_nobody_to_ask():
    bench = Bench(C1, H1, cluster=True)
    assert bench.hear(H1, asks(H1)) == to(H1, message=reply(asks(H1), interest=ALL))
    assert bench.hear(H1, SyncDone(asks(H1).id)) == [Ignored("SyncDone", "nothing to sync")]
    bench.tell(H1, ALL)
    assert bench.hear(H1, asks(H1, 2)) == to(H1, message=reply(asks(H1, 2), interest=NONE))
    assert bench.server.table.rows[G].outer is NONE
