"""The shapes of what servers say and keep, held against the paper's figures 5 and 6."""

import msgspec
import pytest
from support.queuenet import QueueNet
from support.tref import T_REF

from rostra.groups.members import Because, Cause, Part
from rostra.names import ROOT, Domain, Group
from rostra.protocols.relaxed.collection import CollectionKind
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
    Message,
    MessageId,
    ResolveReply,
    ResolveRequest,
)

G = Group("g", ROOT)
ID = MessageId(Domain("eu.fr.c1.h1"), 7, 3)


def fields(message: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(message)}


@pytest.mark.spec("C-077")
def test_each_kind_of_registration_update_has_its_own_fields_and_no_others():
    assert fields(EndpointsJoined) == {"id", "group", "members", "cause", "complete_for"}
    assert fields(EndpointLeft) == {"id", "group", "endpoint", "stamp", "cause", "meta", "last"}
    assert fields(DomainFailed) == {"id", "groups", "domain", "keep", "because"}


@pytest.mark.spec("C-077")
def test_a_message_with_the_fields_of_another_kind_is_no_message():
    failure = DomainFailed(ID, (G,), Domain("eu"), False, Because(Domain("us"), Domain("eu"), "silent"))
    joined = EndpointsJoined(ID, G, (), Cause.MERGE, Part(True, Domain("eu")))
    one, other = (msgspec.msgpack.decode(msgspec.msgpack.encode(each)) for each in (failure, joined))

    for tag, body in ((one[0], other[1:]), (other[0], one[1:])):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode([tag, *body]), type=Message)


@pytest.mark.spec("C-078", "C-079", "C-080")
def test_requests_replies_and_interest_have_the_fields_of_the_paper_and_replies_say_their_interest():
    assert fields(ResolveRequest) == {"id", "group"}
    assert fields(ResolveReply) == {"id", "group", "members", "interest"}
    assert fields(InterestChanged) == {"id", "group", "interest"}
    assert [interest.name for interest in Interest] == ["NONE", "RESOLVE", "ALL"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode([6, ["h", 1, 2], ["g", "world"], 3]), type=Message)


@pytest.mark.spec("C-089")
def test_a_row_knows_a_state_per_neighbour_who_is_unconfirmed_and_how_often_it_rose():
    net = QueueNet(T_REF)
    net.settle()
    cluster = net.cores[Domain("eu.fr.c1")]
    assert isinstance(cluster, DomainServer)
    offline = net.open(Domain("eu.fr.c1.h1"), "p")

    net.join(offline, G, online=False)
    net.settle()
    row = cluster.table.rows[G]
    first_rise = row.rise
    assert row.entries[Domain("eu.fr.c1.h1")] is Interest.RESOLVE
    # An offline join asks nobody anything, so nobody has confirmed what it wants.
    assert row.unconfirmed == {Domain("eu.fr"), Domain("eu.fr.c2")}

    net.set_online(offline, G, True)
    net.settle()
    assert row.entries[Domain("eu.fr.c1.h1")] is Interest.ALL
    assert row.unconfirmed == set()
    assert row.rise > first_rise


@pytest.mark.spec("C-090")
def test_an_open_collection_knows_what_for_on_whose_behalf_and_whom_it_waits_for():
    net = QueueNet(T_REF)
    net.settle()
    far = net.open(Domain("us.ca.c2.h2"), "far")
    net.join(far, G)
    net.settle()
    asker = net.open(Domain("eu.fr.c1.h1"), "asker")
    cluster = net.cores[Domain("eu.fr.c1")]
    assert isinstance(cluster, DomainServer)

    net.resolve(asker, G)
    while not len(cluster.collections):
        assert net.turn()
    (question,) = cluster.collections.questions.values()
    # A cluster collects from its agents and from the world outside apart (C-174); only outside waits here.
    (collection,) = [part for part in question.parts if part.waiting]
    assert (question.source, collection.kind, collection.group) == ("eu.fr.c1.h1", CollectionKind.RESOLVE, G)
    assert collection.waiting == {"eu.fr", "eu.fr.c2"}
    assert (collection.members, collection.rise) == ({}, 0)  # nothing collected yet, and no row to have risen

    net.settle()
    assert len(cluster.collections) == 0 and not cluster.collections.questions


@pytest.mark.spec("C-068", "C-074")
@pytest.mark.parametrize("seed", range(5))
def test_two_members_may_differ_for_a_while_and_one_may_miss_what_happened_while_it_was_cut_off(seed):
    net = QueueNet(T_REF, seed)
    here = net.open(Domain("eu.fr.c1.h1"), "here")
    there = net.open(Domain("us.ca.c2.h2"), "there")
    for member in (here, there):
        net.join(member, G)
    net.settle()

    for a, b in T_REF.links():
        if {a, b} == {"eu", "us"}:
            net.cut_link(a, b)
    net.settle()
    passing = net.open(Domain("us.ny.c1.h1"), "passing")
    net.join(passing, G)
    net.settle()
    assert here.views[G] != there.views[G]  # nobody promised otherwise
    net.leave(passing, G)
    net.settle()
    net.heal_link(Domain("eu"), Domain("us"))
    net.settle()

    assert here.views[G] == there.views[G] == {here.endpoint, there.endpoint}
    assert not any(passing.endpoint in str(notice) for notice in here.notices)


@pytest.mark.spec("C-073", "C-135")
@pytest.mark.parametrize(
    ("broken", "scope"),
    [
        (("eu", "us"), ROOT),
        (("eu", "eu.fr"), ROOT),
        (("eu.fr", "eu.fr.c1"), ROOT),
        (("eu.fr", "eu.fr.c1"), Domain("eu.fr")),
        (("eu.fr.c1", "eu.fr.c1.h1"), Domain("eu.fr.c1")),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_after_a_merge_at_any_level_both_sides_know_each_other_and_the_work_stops_at_the_scope(
    broken, scope, seed
):
    group = Group("g", scope)
    net = QueueNet(T_REF, seed)
    members = [
        net.open(host, "member") for host in T_REF.hosts if scope == ROOT or host.startswith(f"{scope}.")
    ]
    for member in members:
        net.join(member, group)
    net.settle()
    a, b = map(Domain, broken)

    net.cut_link(a, b)
    net.settle()
    net.heal_link(a, b)
    net.settle()

    everybody = {member.endpoint for member in members}
    assert all(member.views[group] == everybody for member in members)
    assert net.discrepancies() == []  # rows nowhere but in scope, and every path's members seen
