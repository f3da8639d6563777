"""The delegate of a LAN, one step at a time: tables 4.4, 4.5 and 4.6 of the specification."""

import pytest
from msgspec.structs import replace
from support.fifobench import (
    DelegateBench,
    G,
    asked,
    controls,
    cut,
    data,
    delegate,
    entry,
    ignored,
    noted,
    speech,
    timers,
    user,
)

from rostra.groups.attributes import DelegateAttributes, Role
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.delegate import Backup, In, Joining, Lingering, Out
from rostra.protocols.fifo.messages import (
    Channel,
    CutReply,
    CutRequest,
    DelegateMoved,
    Distances,
    Excluded,
    ForceJoin,
    Mirror,
    MirrorAsked,
    Mirrored,
    StartSync,
    SyncReply,
    ViewId,
)
from rostra.protocols.fifo.peers import PeerPhase
from rostra.protocols.fifo.relay import RelayActive, RelayAwaitingEnd, RelayDraining, RelayPolling
from rostra.protocols.fifo.repairs import ASKERS_MAX
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import (
    Below,
    Data,
    Heartbeat,
    Nak,
    Poll,
    Polled,
    Progress,
    Pulse,
    Report,
    Status,
    Tree,
)
from rostra.protocols.relaxed.requests import Join, Leave, Resolve

A = user("huji.h1/a")
B = user("huji.h3/b")
READER = user("huji.h2/reader", role=Role.RECEIVE)
FAR = user("mit.h1/far")
MIT, NTU = delegate("mit"), delegate("ntu")
HUJI = Domain("huji")


def inside(*members, **settings):
    """In the group with a sender `a` and a receiver `reader` of its own LAN, both with their numbers."""
    bench = DelegateBench(config=FifoConfig(**settings))
    bench.inside(*members)
    bench.joined(A)
    bench.joined(READER)
    sync(bench, A)
    sync(bench, READER)
    return bench


def sync(bench, member, *, first=1, have=()):
    return bench.message(member.endpoint, StartSync(G, 1, Role.BOTH, 1, first, have))


def with_mit(*, start=1, **settings):
    """And a peer that both sides know, with a sender `far`."""
    bench = inside(FAR, MIT, **settings)
    bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, start), h1=1)))
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    return bench


def sent(effects, kind=Data):
    """Who was sent what of the data channel."""
    return [
        (each.to if isinstance(each, ev.Transmit) else "LAN", each.message)
        for each in speech(effects)
        if isinstance(each.message, kind)
    ]


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


# 4.6, data


@pytest.mark.spec("X-067", "X-068")
def test_what_comes_from_our_lan_goes_to_the_others_and_what_comes_from_there_to_our_lan():
    bench = with_mit()
    assert [to for to, _ in sent(bench.hear("huji.h1", data(A, 1, 3)))] == ["mit"]
    assert [to for to, _ in sent(bench.hear("mit", data(FAR, 1, 3)))] == ["LAN"]
    assert sent(bench.hear("mit", data(FAR, 1, 3))) == []
    assert ignored(bench.hear("mit", data(FAR, 1, 3))) == [("Data", "duplicate")]


@pytest.mark.spec("X-068")
def test_what_is_passed_on_is_only_what_is_new():
    bench = with_mit()
    bench.hear("mit", data(FAR, 3, 2))
    [(_, first), (_, second)] = sent(bench.hear("mit", data(FAR, 1, 6)))
    assert [(each.run.first, each.run.count) for each in (first, second)] == [(1, 2), (5, 2)]


@pytest.mark.spec("X-068")
def test_data_that_runs_in_circles_is_dropped():
    bench = with_mit()
    looping = Data(FAR.endpoint, data(FAR, 1).run, 1, 0, hop=17)
    assert ignored(bench.hear("mit", looping)) == [("Data", "too many hops")]


@pytest.mark.spec("X-068", "X-070")
def test_data_goes_on_along_the_tree_and_not_back():
    bench = with_mit()
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    bench.message(MIT.endpoint, Tree(G, 5, HUJI, ((HUJI, Domain("mit")), (HUJI, Domain("ntu")))))
    assert [to for to, _ in sent(bench.hear("mit", data(FAR, 1)))] == ["LAN", "ntu"]
    assert ignored(bench.message(MIT.endpoint, Tree(G, 4, HUJI, ()))) == [("Tree", "older tree")]


@pytest.mark.spec("X-069", "X-070")
def test_the_delegate_with_the_smallest_name_makes_the_tree():
    bench = with_mit()
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    distances = Distances(G, Domain("mit"), ((Domain("ntu"), 0.01),))
    assert timers(bench.message(MIT.endpoint, distances))["plan"] == 1.0
    trees = [message for message in controls(bench.fire("plan")) if isinstance(message, Tree)]
    assert len(trees) == 2 and trees[0] == trees[1]
    assert len(trees[0].links) == 2


@pytest.mark.spec("X-070")
def test_a_coordinator_whose_tree_loses_is_told_which_one_is_used():
    """Two delegates made a tree of the same number. The one that lost would go on with a tree that the others
    do not use, and streams would end where the two differ."""
    bench = with_mit()
    kept = Tree(G, 5, Domain("mit"), ((HUJI, Domain("mit")),))
    lost = Tree(G, 5, Domain("abc"), ())
    bench.message(MIT.endpoint, kept)
    abc = Endpoint("abc.-delegate/adhoc#1")
    assert controls(bench.message(abc, lost)) == [kept]
    assert controls(bench.message(abc, kept)) == [], "the same tree: there is nothing to tell"
    assert controls(bench.message(MIT.endpoint, lost)) == [], "passed on by a delegate that did not make it"


@pytest.mark.spec("X-070")
def test_a_coordinator_that_hears_of_a_higher_tree_makes_one_above_both():
    bench = with_mit()
    bench.fire("plan")
    ours = bench.core.forwarding.tree
    theirs = Tree(G, ours.version, Domain("mit"), ours.links)
    assert timers(bench.message(MIT.endpoint, theirs))["plan"] == 1.0
    [tree] = [message for message in controls(bench.fire("plan")) if isinstance(message, Tree)]
    assert (tree.coordinator, tree.links) == (HUJI, ours.links)
    assert tree.version > ours.version


@pytest.mark.spec("X-033")
def test_data_of_a_stream_without_numbers_is_kept_and_not_passed_on():
    bench = inside(FAR, MIT)
    assert sent(bench.hear("mit", data(FAR, 12, 2))) == []
    effects = bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 12), h1=1)))
    assert [(to, message.run.first) for to, message in sent(effects)] == [("LAN", 12)]


@pytest.mark.spec("X-002", "X-070")
@pytest.mark.parametrize("said", [False, True])
def test_the_first_tree_is_kept_only_where_something_was_said_that_another_would_delay(said):
    """NTU came before MIT, which is between the two: without a word on the way nobody would notice."""
    bench = inside(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    bench.message(NTU.endpoint, Distances(G, Domain("ntu"), ((HUJI, 0.39),)))
    bench.fire("plan")
    if said:
        bench.hear("huji.h1", data(A, 1))
    bench.joined(MIT)
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    bench.message(MIT.endpoint, Distances(G, Domain("mit"), ((HUJI, 0.23), (Domain("ntu"), 0.23))))
    bench.fire("plan")
    first, best = (HUJI, Domain("ntu")), (Domain("mit"), Domain("ntu"))
    links = bench.core.forwarding.tree.links
    assert (first in links, best in links) == (said, not said)


# 4.6, repair


@pytest.mark.spec("X-083")
def test_a_hole_is_asked_for_at_once_where_the_stream_comes_from_and_then_at_its_home():
    bench = with_mit()
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    effects = bench.hear("ntu", data(FAR, 3))
    assert timers(effects)["recover"] == 0.0
    effects = bench.fire("recover", now=1.0)
    assert sent(effects, Nak) == [("ntu", Nak(FAR.endpoint, ((1, 2),), HUJI, 1))]
    assert timers(effects)["recover"] == pytest.approx(1.25 * 0.25 + 0.01)
    assert sent(bench.fire("recover", now=2.0), Nak) == [("mit", Nak(FAR.endpoint, ((1, 2),), HUJI, 2))]


@pytest.mark.spec("X-083")
def test_a_new_hole_is_not_asked_for_together_with_one_that_was_asked_for_before():
    """It would be looked for at home first, and answered as if its repair had been lost."""
    bench = with_mit()
    bench.hear("mit", data(FAR, 2))
    bench.fire("recover", now=1.0)
    bench.now = 2.0
    bench.hear("mit", data(FAR, 4))
    assert sent(bench.fire("recover", now=2.0), Nak) == [
        ("mit", Nak(FAR.endpoint, ((3, 3),), HUJI, 1)),
        ("mit", Nak(FAR.endpoint, ((1, 1),), HUJI, 2)),
    ]


@pytest.mark.spec("X-083")
def test_a_delegate_that_asks_again_is_answered_twice_and_a_member_is_not():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1))
    for attempt, answers in ((1, 1), (2, 2), (7, 2)):
        nak = Nak(A.endpoint, ((1, 1),), Domain("mit"), attempt)
        assert [to for to, _ in sent(bench.hear("mit", nak))] == ["mit"] * answers
    nak = Nak(A.endpoint, ((1, 1),), Domain("huji.h2"), 2)
    assert [to for to, _ in sent(bench.hear("huji.h2", nak))] == ["LAN"]


@pytest.mark.spec("X-083")
def test_at_home_the_sender_is_asked_and_then_the_whole_lan():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 2))
    assert [to for to, _ in sent(bench.fire("recover", now=1.0), Nak)] == ["huji.h1"]
    assert [to for to, _ in sent(bench.fire("recover", now=2.0), Nak)] == ["LAN"]


@pytest.mark.spec("X-006", "X-072")
def test_what_its_home_has_forgotten_is_lost_and_not_what_any_other_has():
    bench = with_mit()
    bench.joined(NTU)
    bench.hear("mit", data(FAR, 4))
    inbound = bench.core.relays.running[FAR.endpoint].inbound
    bench.hear("ntu", Below(FAR.endpoint, 4, Domain("ntu")))
    assert inbound.next == 1, "home may still have it"
    bench.hear("mit", Below(FAR.endpoint, 4, Domain("mit")))
    assert inbound.next == 5


@pytest.mark.spec("X-092")
def test_those_who_wait_for_what_we_miss_ourselves_are_remembered_within_a_bound():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1000))
    for number in range(1, 1000):
        bench.hear("mit", Nak(A.endpoint, ((number, number),), Domain("mit")))
    assert len(bench.core.relays.running[A.endpoint].askers) == ASKERS_MAX


def test_one_who_asks_again_for_what_we_miss_ourselves_is_sent_it_once():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 3))
    bench.core.relays.running[A.endpoint].everywhere = True
    for attempt in (1, 2, 3):
        bench.hear("ntu", Nak(A.endpoint, ((1, 2),), Domain("ntu"), attempt))
    assert list(bench.core.relays.running[A.endpoint].askers) == [(1, 2, "ntu")]
    assert [to for to, _ in sent(bench.hear("huji.h1", data(A, 1)), Data)].count("ntu") == 1


def test_a_question_for_more_than_its_sender_can_have_sent_tells_us_of_nothing():
    """A window is all that a sender is ahead of those it waits for, and its delegate is one of them."""
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1))
    inbound, window = bench.core.relays.running[A.endpoint].inbound, bench.core.config.window_messages
    bench.hear("mit", Nak(A.endpoint, ((2, 2**40),), Domain("mit")))
    bench.hear("huji.h2", Nak(A.endpoint, ((2, 2 + window),), Domain("huji.h2")))
    assert inbound.high == 1 and not inbound.holes.holes
    bench.hear("mit", Nak(A.endpoint, ((2, 1 + window),), Domain("mit")))
    assert inbound.high == 1 + window


@pytest.mark.spec("X-087")
def test_what_is_stable_is_kept_for_a_receiver_of_our_own_that_does_not_have_it():
    """Home may have given our LAN up, and we do not know it."""
    bench = with_mit()
    bench.hear("mit", data(FAR, 1, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((FAR.endpoint, 3),)))
    bench.hear("mit", Heartbeat((Pulse(FAR.endpoint, 5, 5),), 1))
    [(_, repair)] = sent(bench.hear("huji.h2", Nak(FAR.endpoint, ((3, 5),), Domain("huji.h2"))))
    assert (repair.run.first, repair.run.end) == (3, 6)


@pytest.mark.spec("X-081")
def test_a_member_is_repaired_at_once_and_the_same_number_not_twice_in_a_moment():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 5))
    nak = Nak(A.endpoint, ((2, 3),), Domain("huji.h2"))
    [(to, repair)] = sent(bench.hear("huji.h2", nak))
    assert (to, repair.run.first, repair.run.count, repair.repair) == ("LAN", 2, 2, True)
    assert sent(bench.hear("huji.h3", nak)) == []
    bench.now = 0.01
    assert len(sent(bench.hear("huji.h3", nak))) == 1


@pytest.mark.spec("X-072", "X-083")
def test_a_peer_is_repaired_directly_and_remembered_if_we_miss_it_too():
    bench = with_mit()
    bench.joined(NTU)
    bench.hear("mit", data(FAR, 1, 2))
    nak = Nak(FAR.endpoint, ((2, 4),), Domain("ntu"))
    assert [(to, each.run.first) for to, each in sent(bench.hear("ntu", nak))] == [("ntu", 2)]
    assert ("ntu", 3) in [(to, each.run.first) for to, each in sent(bench.hear("mit", data(FAR, 3, 2)))]


@pytest.mark.spec("X-029")
def test_whoever_asks_for_what_is_forgotten_is_told_so():
    bench = with_mit(start=10)
    effects = bench.hear("huji.h2", Nak(FAR.endpoint, ((4, 5),), Domain("huji.h2")))
    assert sent(effects, Below) == [("huji.h2", Below(FAR.endpoint, 10, HUJI))]


def between(start=1):
    """HUJI in the middle of a tree: a stream comes from MIT, and NTU is behind us."""
    bench = with_mit(start=start)
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 9, 1, 1))
    links = ((HUJI, Domain("mit")), (HUJI, Domain("ntu")))
    bench.message(MIT.endpoint, Tree(G, 5, Domain("aaa"), links))
    bench.fire("settled")
    return bench


@pytest.mark.spec("X-002", "X-068")
def test_a_repair_is_passed_on_away_from_home_only():
    """Whoever is nearer to home asks for itself, so that its stream is the same with us and without us."""
    bench = between()
    bench.hear("mit", data(FAR, 1))
    effects = bench.hear("ntu", data(FAR, 2, repair=True))
    assert [to for to, _ in sent(effects)] == ["LAN"]
    effects = bench.hear("mit", data(FAR, 3, repair=True))
    assert [to for to, _ in sent(effects)] == ["LAN", "ntu"]


@pytest.mark.spec("X-070", "X-080")
def test_news_in_a_heartbeat_count_wherever_they_come_from():
    """The tree has changed since the last data came: the loss of a last message must still be seen."""
    bench = between()
    rome = delegate("rome")
    bench.joined(rome)
    bench.message(rome.endpoint, ViewId(G, 9, 1, 1))
    bench.hear("ntu", data(FAR, 1))  # it once came from there
    links = ((HUJI, Domain("ntu")), (HUJI, Domain("rome")), (Domain("mit"), Domain("rome")))
    bench.message(MIT.endpoint, Tree(G, 6, Domain("aaa"), links))
    bench.fire("settled")
    relay = bench.core.relays.running[FAR.endpoint]
    assert relay.via == "ntu"
    news = Heartbeat((Pulse(FAR.endpoint, 2, 0),), 1)
    effects = bench.hear("rome", news)
    assert (relay.inbound.high, relay.via) == (2, "rome")
    assert sent(effects, Heartbeat)[-1] == ("ntu", Heartbeat(news.pulses, 2))
    again = bench.hear("ntu", news)
    assert sent(again, Heartbeat) == [] and ignored(again) == [("Heartbeat", "not from its own direction")]


@pytest.mark.spec("X-069")
def test_the_first_answer_to_a_question_measures_the_round_trip_and_only_ever_shortens_it():
    bench = with_mit()
    round_trips = bench.core.relays.repairs.round_trips
    round_trips[Domain("mit")] = 0.9
    bench.step(ev.Heard(G, Domain("mit"), (data(FAR, 2),)), now=1.0)
    bench.fire("recover", now=1.0)
    effects = bench.step(ev.Heard(G, Domain("mit"), (data(FAR, 1, repair=True),)), now=1.2)
    assert round_trips[Domain("mit")] == pytest.approx(0.2)
    assert timers(effects)["distances"] == 1.0
    bench.step(ev.Heard(G, Domain("mit"), (data(FAR, 4),)), now=2.0)
    bench.fire("recover", now=2.0)
    bench.step(ev.Heard(G, Domain("mit"), (data(FAR, 3, repair=True),)), now=3.0)
    assert round_trips[Domain("mit")] == pytest.approx(0.2), "something was lost and resent on the way"


# 4.6, stability


@pytest.mark.spec("X-087", "X-088", "X-124")
def test_a_message_is_stable_when_every_receiver_and_every_lan_has_it():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    pins = bench.core.relays.running[A.endpoint].pins
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 8),)))
    assert pins.stable == 0
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    assert pins.stable == 4
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 3),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 2, 9),)))
    assert pins.stable == 4
    pulse = Heartbeat((Pulse(A.endpoint, 4, 4),))
    assert [(to, message.pulses) for to, message in sent(bench.fire("announce"), Heartbeat)] == [
        ("LAN", pulse.pulses),
        ("mit", pulse.pulses),
    ]


@pytest.mark.spec("X-088")
def test_a_lans_entry_is_what_its_receivers_have_and_not_what_its_delegate_holds():
    bench = with_mit()
    bench.hear("mit", data(FAR, 1, 9))
    bench.hear("huji.h1", Status(A.endpoint, ((FAR.endpoint, 10),)))
    bench.hear("huji.h2", Status(READER.endpoint, ((FAR.endpoint, 4),)))
    [(to, report)] = sent(bench.fire("report"), Report)
    assert (to, report.entries) == ("mit", (Progress(FAR.endpoint, HUJI, 1, 4),))


@pytest.mark.spec("X-088")
def test_entries_of_other_lans_are_passed_on_unchanged_towards_home():
    bench = with_mit()
    bench.joined(NTU)
    entry_of_ntu = Progress(FAR.endpoint, Domain("ntu"), 1, 4)
    [(to, report)] = sent(bench.hear("ntu", Report((entry_of_ntu,))), Report)
    assert (to, report.entries) == ("mit", (entry_of_ntu,))


@pytest.mark.spec("X-051")
def test_whoever_leaves_no_longer_holds_up_the_others():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 10),)))
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 0
    bench.left(READER)
    assert pins.stable == 9


@pytest.mark.spec("X-066", "X-089")
def test_what_a_lost_lan_has_not_confirmed_is_kept_for_its_return():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 4), data(A, 5, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    bench.without("mit")
    relay = bench.core.relays.running[A.endpoint]
    assert (relay.pins.stable, relay.lowest) == (9, 5)
    bench.joined(MIT, FAR, cause=Cause.MERGE)
    effects = bench.message(MIT.endpoint, ViewId(G, 30, 1, 1, ((A.endpoint, 5),)))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert [each.start for each in answer.cut.entries] == [5]
    assert relay.pins.lans[Domain("mit")] == (1, 10)


@pytest.mark.spec("X-026", "X-066", "X-089")
def test_what_a_lost_sender_of_ours_will_be_asked_for_is_not_called_stable_meanwhile():
    """Only the control channel to its host is cut: it would hear that everybody else has its messages, and
    forget them. When it is back, newcomers begin where it was lost."""
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 5),)))
    bench.without("huji.h1")
    effects = bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    effects += bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 10),)))
    effects += bench.fire("announce")
    stable = [pulse.stable for _, beat in sent(effects, Heartbeat) for pulse in beat.pulses]
    bench.joined(A, cause=Cause.MERGE)
    bench.joined(NTU)
    effects = bench.message(NTU.endpoint, ViewId(G, 9, 1, 1))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    [start] = [each.start for each in answer.cut.entries]
    assert max(stable, default=0) < start == 5


@pytest.mark.spec("X-064", "X-066")
def test_after_too_long_a_time_a_lost_lan_starts_where_we_are():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 4), data(A, 5, 5))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 5),)))
    bench.without("mit")
    bench.now = 31.0
    bench.hear("huji.h1", data(A, 10, 1))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 11),)))
    bench.joined(MIT, FAR, cause=Cause.MERGE)
    effects = bench.message(MIT.endpoint, ViewId(G, 30, 1, 1, ((A.endpoint, 5),)))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert [each.start for each in answer.cut.entries] == [11]


# 4.6, ends


@pytest.mark.spec("X-050")
def test_after_a_crash_the_lan_is_polled_and_its_last_number_is_said():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    effects = bench.left(A)
    assert sent(effects, Poll) == [("LAN", Poll(A.endpoint))]
    bench.hear("huji.h2", Polled(A.endpoint, 6))
    effects = bench.fire("poll", A.endpoint)
    assert bench.core.relays.running[A.endpoint].final == 5
    assert ("mit", Heartbeat((Pulse(A.endpoint, 5, 0, True),), 1)) in sent(effects, Heartbeat)
    assert sent(bench.fire("recover", now=1.0), Nak)[0][1].ranges == ((4, 5),)


@pytest.mark.spec("X-050")
def test_the_end_of_a_crashed_senders_stream_is_polled_for_at_home_and_awaited_elsewhere():
    bench = with_mit()
    ours, theirs = [bench.core.relays.running[each.endpoint] for each in (A, FAR)]
    assert ours.state == theirs.state == RelayActive()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.left(A)
    bench.left(FAR)
    assert (ours.state, theirs.state) == (RelayPolling(4), RelayAwaitingEnd())
    bench.hear("huji.h2", Polled(A.endpoint, 6), Polled(A.endpoint, 5))
    assert ours.state == RelayPolling(6)
    bench.hear("mit", Heartbeat((Pulse(FAR.endpoint, 2, 0, True),)))
    bench.fire("poll", A.endpoint)
    assert (ours.state, theirs.state) == (RelayDraining(5), RelayDraining(2))


def test_a_leaver_is_kept_until_everybody_has_its_last_message():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.left(A, last=3)
    assert A.endpoint in bench.core.relays.running
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 4),)))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 4),)))
    bench.fire("announce")
    assert A.endpoint not in bench.core.relays.running


@pytest.mark.spec("X-006", "X-044", "X-048")
def test_a_delegate_stays_while_somebody_needs_the_last_messages_of_its_lan():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.left(READER, last=0)
    bench.left(A, last=3)
    effects = bench.fire("linger")
    assert asked(effects) == [] and timers(effects)["linger"] == 10.0
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 4),)))
    bench.fire("announce")
    assert [type(request) for request in asked(bench.fire("linger"))] == [Leave]


@pytest.mark.spec("X-091")
def test_under_expel_the_only_one_that_blocks_has_to_go_after_a_while():
    from rostra.groups.attributes import FifoAttributes, Slow
    from rostra.groups.kinds import FIFO
    from rostra.groups.members import Member

    bench = inside(window_messages=8, held_messages=8)
    slow = Member(Endpoint("huji.h3/slow#1"), (1, 1), b"", FIFO, FifoAttributes(Role.RECEIVE, 1, Slow.EXPEL))
    bench.joined(slow)
    sync(bench, slow)
    bench.hear("huji.h1", data(A, 1, 8))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 9),)))
    for second in range(1, 6):
        assert controls(bench.fire("patience", now=float(second))) == []
    [word] = controls(bench.fire("patience", now=6.0))
    assert word == Excluded(G, "too slow", ((A.endpoint, 1),))
    assert bench.core.relays.running[A.endpoint].pins.stable == 8


@pytest.mark.spec("X-101")
def test_nothing_is_stable_before_everybody_who_was_here_has_said_what_it_has():
    bench = DelegateBench()
    bench.message(A.endpoint, ForceJoin(G, 1))
    bench.listed(bench.me, A, B, READER)
    sync(bench, A, first=5)
    sync(bench, READER, have=((A.endpoint, 5),))
    bench.hear("huji.h1", data(A, 5, 4))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 9),)))
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 4
    [reply] = controls(sync(bench, B, have=((A.endpoint, 6),)))
    assert [each.start for each in reply.cuts[0].entries] == [6]
    assert pins.stable == 5


@pytest.mark.spec("X-101")
def test_nothing_is_stable_before_every_lan_that_was_there_has_asked():
    bench = inside(FAR, MIT)
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 0
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1, ((A.endpoint, 4),)))
    assert (pins.stable, pins.lans[Domain("mit")]) == (3, (1, 4))
    silent = inside(FAR, MIT)
    silent.hear("huji.h1", data(A, 1, 9))
    silent.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    silent.fire("awaited")
    assert silent.core.relays.running[A.endpoint].pins.stable == 9


@pytest.mark.spec("X-101")
def test_a_successor_that_does_not_know_how_far_its_lan_was_goes_on_from_there():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 4),)))
    bench.joined(delegate("mit", 2))
    effects = bench.message(delegate("mit", 2).endpoint, ViewId(G, 1, 2, 1))
    [answer] = [message for message in controls(effects) if isinstance(message, CutReply)]
    assert [each.start for each in answer.cut.entries] == [4]
    assert bench.core.relays.running[A.endpoint].pins.lans[Domain("mit")] == (2, 4)


# 4.4, backups


def backup():
    from rostra.protocols.fifo.delegate import DelegateCore

    bench = DelegateBench()
    bench.core = DelegateCore(G, bench.me.endpoint, FifoConfig(), luck=1, channel=Channel(), backup=True)
    return bench


def mirror(number, *streams, whole=False, epoch=1, ended=()):
    return Mirror(
        G,
        HUJI,
        epoch,
        number,
        whole,
        (A.endpoint, READER.endpoint),
        ((Domain("mit"), 1),),
        tuple(Mirrored(member.endpoint, member.stamp, needed) for member, needed in streams),
        ended,
    )


@pytest.mark.spec("X-100")
def test_a_stream_whose_number_is_unknown_is_mirrored_as_one_that_is_needed_from_its_start():
    from rostra.protocols.fifo.delegate import DelegateCore

    bench = DelegateBench()
    bench.core = DelegateCore(G, bench.me.endpoint, FifoConfig(), luck=1, channel=Channel(), mirrored=True)
    [mirror_of_all] = [each.message for each in bench.inside(A, MIT) if isinstance(each, ev.Replicate)]
    assert A.endpoint in bench.core.relays.unknown
    assert mirror_of_all.streams == (Mirrored(A.endpoint, A.stamp, 1),)


@pytest.mark.spec("X-036", "X-100")
def test_an_active_delegate_tells_its_backups_what_changed():
    from rostra.protocols.fifo.delegate import DelegateCore

    bench = DelegateBench()
    bench.core = DelegateCore(G, bench.me.endpoint, FifoConfig(), luck=1, channel=Channel(), mirrored=True)

    def told(effects):
        return [effect.message for effect in effects if isinstance(effect, ev.Replicate)]

    [first] = told(bench.inside(MIT))
    assert (first.whole, first.number) == (True, 1)
    bench.joined(A)
    [second] = told(bench.fire("mirror"))
    assert (second.whole, second.number, second.members) == (False, 2, (A.endpoint,))
    assert second.streams == (Mirrored(A.endpoint, A.stamp, 1),)
    assert told(bench.fire("mirror")) == []
    [again] = told(bench.step(ev.Replicated(G, MirrorAsked(G, HUJI))))
    assert again.whole and again.streams == second.streams


@pytest.mark.spec("X-036")
def test_a_backup_keeps_the_image_and_asks_for_what_it_missed_and_says_nothing_else():
    bench = backup()
    assert bench.step(ev.Replicated(G, mirror(1, (A, 5), (FAR, 9), whole=True))) == []
    assert bench.step(ev.Replicated(G, mirror(2, (A, 7), ended=(FAR.endpoint,)))) == []
    assert bench.core.mirrors.streams == {A.endpoint: Mirrored(A.endpoint, A.stamp, 7)}
    assert bench.step(ev.Replicated(G, mirror(4, (A, 9)))) == [ev.Replicate(G, MirrorAsked(G, HUJI))]
    assert ignored(bench.hear("huji.h1", data(A, 7))) == [("Heard", "not in the group")]
    assert ignored(sync(bench, A)) == [("StartSync", "a backup")]


@pytest.mark.spec("X-100", "X-101")
def test_4_to_1_to_2_an_appointed_backup_goes_on_where_the_image_says():
    bench = backup()
    bench.step(ev.Replicated(G, mirror(1, (A, 7), (FAR, 9), whole=True)))
    effects = bench.step(ev.Appointed(2))
    assert [type(request) for request in asked(effects)] == [Join]
    assert [message for message in controls(effects) if isinstance(message, DelegateMoved)] == [
        DelegateMoved(G, HUJI, 1, 2)
    ] * 3
    new = delegate("huji", 2)
    bench.me = new
    effects = bench.listed(new, A, READER, FAR, MIT)
    [question] = [message for message in controls(effects) if isinstance(message, ViewId)]
    assert (question.epoch, question.have) == (2, ((FAR.endpoint, 9),))
    relay = bench.core.relays.running[A.endpoint]
    assert relay.inbound.next == 7 and relay.pins.lans == {Domain("mit"): (1, 7)}
    bench.message(A.endpoint, StartSync(G, 1, Role.BOTH, 2, 9))
    assert (relay.inbound.next, relay.pins.stable) == (9, 8)


@pytest.mark.spec("X-104", "X-125")
def test_2_to_4_a_delegate_that_sees_a_higher_epoch_of_its_lan_falls_silent():
    bench = with_mit()
    effects = bench.joined(delegate("huji", 2))
    assert [type(request) for request in asked(effects)] == [Leave]
    assert isinstance(bench.core.state, Backup)
    assert speech(bench.hear("huji.h1", data(A, 1))) == []
    assert controls(sync(bench, A)) == []
    stale = backup()
    stale.step(ev.Replicated(G, mirror(1, whole=True, epoch=3)))
    assert ignored(stale.step(ev.Appointed(3))) == [("Appointed", "not above the epochs before")]


@pytest.mark.spec("X-101")
def test_a_lan_whose_delegate_is_gone_is_owed_what_it_was_until_a_successor_asks():
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 9))
    bench.hear("huji.h2", Status(READER.endpoint, ((A.endpoint, 10),)))
    bench.without("mit.-delegate")
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.stable == 0
    bench.fire("orphaned", "mit")
    assert pins.stable == 9


@pytest.mark.spec("X-080")
def test_a_heartbeat_from_where_the_tree_has_it_come_from_reaches_the_lan():
    """A repair from home made that the direction; heartbeats of the tree were no news to the delegate, and
    its members never learned that they missed a message."""
    bench = with_mit()
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    links = ((Domain("huji"), Domain("ntu")), (Domain("mit"), Domain("ntu")))
    bench.message(MIT.endpoint, Tree(G, 9, HUJI, links))
    bench.hear("mit", data(FAR, 1, 2))
    assert bench.core.relays.running[FAR.endpoint].via == "mit"
    effects = bench.hear("ntu", Heartbeat((Pulse(FAR.endpoint, 2, 0),), 2))
    assert ("LAN", 2) in [(to, beat.pulses[0].high) for to, beat in sent(effects, Heartbeat)]
