"""The delegate of a LAN, one step at a time: tables 4.4 and 4.5 of the specification, members and peers."""

import pytest
from msgspec.structs import replace
from support.fifobench import (
    DelegateBench,
    G,
    asked,
    controls,
    cut,
    data,
    entry,
    ignored,
    noted,
    timers,
    user,
)
from support.fifodelegate import FAR, MIT, NTU, READER, A, B, inside, sent, sync, with_mit

from rostra.groups.attributes import DelegateAttributes, Role
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.fifo.delegate import In, Joining, Lingering, Out
from rostra.protocols.fifo.messages import (
    CutReply,
    CutRequest,
    ForceJoin,
    StartSync,
    SyncReply,
    ViewId,
)
from rostra.protocols.fifo.peers import PeerPhase
from rostra.protocols.flow.messages import (
    Status,
)
from rostra.protocols.relaxed.requests import Join, Leave, Resolve

# 4.4


@pytest.mark.spec("X-037")
def test_0_to_1_however_many_force_it_a_delegate_joins_once():
    bench = DelegateBench()
    effects = []
    for number in range(50):
        effects += bench.message(Endpoint(f"huji.h{number}/m#1"), ForceJoin(G, 1))
    [join] = asked(effects)
    assert isinstance(join, Join) and join.attributes == DelegateAttributes()
    assert isinstance(bench.core.state, Joining)


@pytest.mark.spec("X-031", "X-022")
def test_1_to_2_what_came_before_the_snapshot_is_answered_after_it_in_order_and_once():
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    sync(bench, A)
    sync(bench, A)
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    effects = bench.listed(bench.me, A, MIT)
    assert [type(message) for message in controls(effects)] == [ViewId, SyncReply, CutReply]
    assert isinstance(bench.core.state, In)


@pytest.mark.spec("X-103")
def test_questions_to_a_delegate_that_is_not_in_the_group_make_it_join():
    bench = DelegateBench()
    assert [type(request) for request in asked(sync(bench, A))] == [Join]
    assert [type(message) for message in controls(bench.listed(bench.me, A))] == [SyncReply]
    stranger = DelegateBench()
    assert ignored(stranger.message(MIT.endpoint, ViewId(G, 1, 1, 1))) == [("ViewId", "not in the group")]
    assert isinstance(stranger.core.state, Out)


def test_a_late_snapshot_is_asked_for_again():
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    assert asked(bench.fire("snapshot")) == [Resolve("g", Domain("world"))]


@pytest.mark.spec("X-024", "X-025", "X-026", "X-040")
def test_a_member_is_given_its_numbers_in_the_step_that_asked_and_pinned_there():
    bench = inside()
    assert bench.core.relays.running[A.endpoint].inbound.next == 1
    bench.hear("huji.h1", data(A, 1, 6))
    bench.joined(B)
    [reply] = controls(sync(bench, B))
    [own] = reply.cuts
    assert own.complete and [(each.endpoint, each.start) for each in own.entries] == [(A.endpoint, 7)]
    assert bench.core.relays.running[A.endpoint].pins.local[host_of(B.endpoint)] == 7
    assert dict(own.floors) == {"huji.h1": (1, 1), "huji.h2": (1, 1), "huji.h3": (1, 1)}


@pytest.mark.spec("X-012")
def test_a_question_of_somebody_whose_join_is_not_seen_yet_waits_for_it():
    bench = inside()
    assert controls(sync(bench, B)) == []
    assert [type(message) for message in controls(bench.joined(B))] == [SyncReply]


@pytest.mark.spec("X-042", "X-043")
def test_a_lan_that_is_still_syncing_is_marked_and_a_question_about_it_waits():
    bench = inside(FAR, MIT)
    [reply] = controls(sync(bench, A))
    assert {each.lan: each.complete for each in reply.cuts} == {"huji": True, "mit": False}
    request = CutRequest(G, 5, 1, Domain("mit"))
    assert controls(bench.message(A.endpoint, request)) == []
    effects = bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 30), h1=1)))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert (answer.req, answer.cut.complete, answer.cut.entries[0].start) == (5, True, 30)


def test_a_question_about_a_lan_that_is_lost_is_answered_with_nothing():
    bench = inside(FAR, MIT)
    bench.message(A.endpoint, CutRequest(G, 5, 1, Domain("mit"), (FAR.endpoint,)))
    [answer] = controls(bench.without("mit"))
    assert (answer.req, answer.unknown, answer.cut.entries) == (5, (FAR.endpoint,), ())


def test_questions_to_another_epoch_are_refused():
    bench = inside()
    effects = bench.message(A.endpoint, StartSync(G, 1, Role.BOTH, 7, 1))
    assert ignored(effects) == [("StartSync", "of another epoch")]


@pytest.mark.spec("X-044")
def test_2_to_3_to_0_a_delegate_stays_a_while_after_its_last_member():
    bench = inside()
    bench.left(READER, last=0)
    assert timers(bench.left(A, last=0))["linger"] == 10.0
    assert isinstance(bench.core.state, Lingering)
    bench.joined(user("huji.h1/again", stamp=200))
    assert isinstance(bench.core.state, In)
    bench.left(user("huji.h1/again"), last=0, stamp=201)
    assert [type(request) for request in asked(bench.fire("linger"))] == [Leave]
    assert bench.core.over and not bench.core.relays.running


def test_a_sender_that_was_here_before_us_says_where_it_is():
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    bench.listed(bench.me, A, MIT)
    assert A.endpoint in bench.core.relays.unknown and A.endpoint not in bench.core.relays.running
    [early] = controls(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1)))
    assert not early.cut.complete and early.cut.entries == ()
    effects = sync(bench, A, first=1001)
    [again] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert again.req == 9 and again.cut.complete
    assert [each.start for each in again.cut.entries] == [1001]


@pytest.mark.spec("X-022", "X-026", "X-066")
def test_a_lan_that_has_more_than_we_is_given_the_number_that_it_asks_for_in_both_answers():
    """Our predecessor passed on nine messages of `a`, which sends us again what is not stable. Two answers
    name one start: what lies between two would be promised by the first, and forgotten by the second."""
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    bench.listed(bench.me, A, B, READER, MIT)
    sync(bench, A, first=3)
    bench.hear("huji.h1", data(A, 3, 2))
    [early] = controls(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1, ((A.endpoint, 10),))))
    assert not early.cut.complete  # `b` has not said where it is
    bench.hear("huji.h1", data(A, 5, 9))
    effects = sync(bench, B, have=((A.endpoint, 14),))
    [late] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert late.cut.complete
    starts = [
        each.start for reply in (early, late) for each in reply.cut.entries if each.endpoint == A.endpoint
    ]
    assert starts == [10, 10]
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.lans[Domain("mit")] == (1, 10)
    sync(bench, READER, have=((A.endpoint, 14),))
    assert pins.stable == 9


def test_a_delegate_that_left_meanwhile_is_not_answered_again_and_holds_nothing():
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    bench.listed(bench.me, A, MIT)
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    bench.left(MIT)
    effects = sync(bench, A, first=1001)
    assert not [message for message in controls(effects) if isinstance(message, CutReply)]
    assert not bench.core.relays.pinned


@pytest.mark.spec("X-045", "X-053")
def test_receivers_elsewhere_cost_a_delegate_nothing():
    bench = inside(MIT)
    bench.joined(*[user(f"mit.h1/r{n}", role=Role.RECEIVE, stamp=n) for n in range(100)])
    assert len(bench.core.view.members) == 4
    assert set(bench.core.relays.running) == {A.endpoint}


# 4.5


@pytest.mark.spec("X-038")
def test_a_lan_is_asked_once_its_delegate_is_there():
    bench = inside(FAR)
    assert bench.core.peers.machines[Domain("mit")].phase is PeerPhase.WAIT_PEER
    [question] = controls(bench.joined(MIT))
    assert question == ViewId(G, 1, 1, 1)
    assert bench.core.peers.machines[Domain("mit")].phase is PeerPhase.PEER_SYNC
    assert controls(bench.fire("peer", "mit")) == [question]
    effects = bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 12), h1=1)))
    assert noted(effects, "stream begins") == [f"{FAR.endpoint} at 12"]
    assert bench.core.relays.running[FAR.endpoint].pins.local == {
        host_of(A.endpoint): 12,
        host_of(READER.endpoint): 12,
    }


@pytest.mark.spec("X-039")
def test_a_peer_is_told_our_own_senders_and_nobody_elses():
    bench = with_mit()
    bench.joined(NTU)
    [answer] = controls(bench.message(NTU.endpoint, ViewId(G, 4, 1, 1)))
    assert [each.endpoint for each in answer.cut.entries] == [A.endpoint]


@pytest.mark.spec("X-041")
def test_crossing_questions_are_both_answered_at_once():
    bench = inside(FAR, MIT)
    [answer] = controls(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1)))
    assert isinstance(answer, CutReply) and answer.req == 9
    assert bench.core.peers.machines[Domain("mit")].phase is PeerPhase.PEER_SYNC


@pytest.mark.spec("X-041")
def test_a_question_of_a_delegate_that_is_not_noticed_yet_waits_for_its_notice():
    bench = inside()
    effects = bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    assert controls(effects) == []
    assert timers(effects)["unnoticed mit"] == 5.0
    assert [type(message) for message in controls(bench.joined(MIT))] == [ViewId, CutReply]


def test_a_question_whose_notice_never_comes_makes_us_ask_the_servers():
    bench = inside()
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    assert asked(bench.fire("unnoticed", "mit")) == [Resolve("g", Domain("world"))]
    assert Domain("mit") not in bench.core.peers.machines


@pytest.mark.spec("X-022")
def test_an_answer_that_nobody_waits_for_is_dropped():
    bench = inside(FAR, MIT)
    for req, epoch in ((2, 1), (1, 2)):
        effects = bench.message(MIT.endpoint, CutReply(G, req, epoch, cut("mit", entry(FAR, 3), h1=1)))
        assert ignored(effects) == [("CutReply", "not asked for")]
    bench.without("mit")
    effects = bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 3), h1=1)))
    assert ignored(effects) == [("CutReply", "not asked for")]


@pytest.mark.spec("X-060")
def test_a_merge_asks_again_with_what_our_lan_has():
    bench = with_mit()
    bench.hear("mit", data(FAR, 1, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((FAR.endpoint, 4),)))
    bench.hear("huji.h1", Status(A.endpoint, ((FAR.endpoint, 6),)))
    bench.without("mit")
    [question] = controls(bench.joined(MIT, FAR, cause=Cause.MERGE))
    assert question.have == ((FAR.endpoint, 4),)


@pytest.mark.spec("X-025", "X-045")
@pytest.mark.parametrize("role", [Role.BOTH, Role.RECEIVE])
def test_a_lan_whose_first_member_is_noticed_is_owed_what_is_said_until_its_delegate_asks(role):
    """Nobody waits for it; what it will be given is kept all the same, and comes with the numbers."""
    bench = inside()
    bench.hear("huji.h1", data(A, 1, 2))
    bench.joined(user("mit.h1/first", role=role))
    bench.hear("huji.h1", data(A, 3, 2))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 5),)))
    assert bench.core.relays.running[A.endpoint].pins.stable == 4, "everybody who is there has it"
    bench.joined(MIT)
    effects = bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    [answer] = [each for each in controls(effects) if isinstance(each, CutReply)]
    assert [(each.endpoint, each.start) for each in answer.cut.entries] == [(A.endpoint, 3)]
    [(to, again)] = sent(effects)
    assert (to, again) == ("mit", replace(data(A, 3, 2, stable=4, repair=True), hop=1))
    assert sent(bench.message(MIT.endpoint, ViewId(G, 10, 1, 1))) == [], "once"


@pytest.mark.spec("X-066", "X-092")
def test_what_an_expected_lan_will_be_given_is_a_quarter_of_a_window_and_not_kept_for_ever():
    for said, then_s in ((5, 1.0), (1, 31.0)):
        bench = inside(window_messages=16, held_messages=16)
        bench.joined(user("mit.h1/first", role=Role.RECEIVE))
        for number in range(1, said + 1):
            bench.hear("huji.h1", data(A, number))
            bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, number + 1),)))
        bench.now += then_s
        bench.hear("huji.h1", data(A, said + 1))
        bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, said + 2),)))
        bench.joined(MIT)
        [*_, answer] = controls(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1)))
        assert [each.start for each in answer.cut.entries] == [said + 2], "as if it had not been noticed"


@pytest.mark.spec("X-025")
def test_who_is_noticed_while_a_peers_numbers_are_asked_for_is_pinned_when_they_come():
    bench = inside(FAR, MIT)
    late = user("huji.h3/late", role=Role.RECEIVE)
    bench.joined(late)
    bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 5), h1=1)))
    bench.hear("mit", data(FAR, 5, 3))
    [reply] = controls(sync(bench, late))
    starts = {each.endpoint: each.start for cut in reply.cuts for each in cut.entries}
    assert starts[FAR.endpoint] == 5, "and not 8"


@pytest.mark.spec("X-047")
def test_who_asks_for_its_numbers_blocks_no_stream_that_has_ended_since_it_was_noticed():
    bench = inside()
    late = user("huji.h3/late", role=Role.RECEIVE)
    bench.joined(late)
    bench.hear("huji.h1", data(A, 1, 2))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 3),)))
    bench.left(A, last=2)
    assert A.endpoint in bench.core.relays.running, "the newcomer may want it"
    sync(bench, late)
    assert bench.core.relays.running[A.endpoint].pins.stable == 2
