"""The delegate of a LAN, one step at a time: table 4.6 of the specification, data, trees and repair."""

import pytest
from support.fifobench import (
    G,
    controls,
    cut,
    data,
    delegate,
    entry,
    ignored,
    noted,
    timers,
)
from support.fifodelegate import FAR, HUJI, MIT, NTU, READER, A, between, inside, sent, with_mit

from rostra.names import Domain, Endpoint
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.messages import (
    CutReply,
    CutRequest,
    Distances,
    ViewId,
)
from rostra.protocols.fifo.repairs import ASKERS_MAX
from rostra.protocols.flow.messages import (
    Below,
    Data,
    ForwardingTree,
    Heartbeat,
    Nak,
    Pulse,
    Report,
    Status,
)

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
    bench.message(MIT.endpoint, ForwardingTree(G, 5, HUJI, ((HUJI, Domain("mit")), (HUJI, Domain("ntu")))))
    assert [to for to, _ in sent(bench.hear("mit", data(FAR, 1)))] == ["LAN", "ntu"]
    assert ignored(bench.message(MIT.endpoint, ForwardingTree(G, 4, HUJI, ()))) == [
        ("ForwardingTree", "older tree")
    ]


@pytest.mark.spec("X-069", "X-070")
def test_the_delegate_with_the_smallest_name_makes_the_tree():
    bench = with_mit()
    bench.joined(NTU)
    bench.message(NTU.endpoint, ViewId(G, 4, 1, 1))
    distances = Distances(G, Domain("mit"), ((Domain("ntu"), 0.01),))
    assert timers(bench.message(MIT.endpoint, distances))["plan"] == 1.0
    trees = [message for message in controls(bench.fire("plan")) if isinstance(message, ForwardingTree)]
    assert len(trees) == 2 and trees[0] == trees[1]
    assert len(trees[0].links) == 2


@pytest.mark.spec("X-070")
def test_a_coordinator_whose_tree_loses_is_told_which_one_is_used():
    """Two delegates made a tree of the same number. The one that lost would go on with a tree that the others
    do not use, and streams would end where the two differ."""
    bench = with_mit()
    kept = ForwardingTree(G, 5, Domain("mit"), ((HUJI, Domain("mit")),))
    lost = ForwardingTree(G, 5, Domain("abc"), ())
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
    theirs = ForwardingTree(G, ours.version, Domain("mit"), ours.links)
    assert timers(bench.message(MIT.endpoint, theirs))["plan"] == 1.0
    [tree] = [message for message in controls(bench.fire("plan")) if isinstance(message, ForwardingTree)]
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


@pytest.mark.spec("X-071")
def test_a_delegate_that_answers_no_heartbeat_of_a_stream_that_not_all_have_is_silent():
    """The last message was acknowledged by a delegate that then died, and had not forwarded it. Only
    heartbeats followed, which nothing answered: the tree led through it for good (hostile storm 360293)."""
    bench = with_mit()
    bench.hear("huji.h1", data(A, 1, 3))
    bench.hear("mit", Report(()))
    bench.hear("huji.h1", Heartbeat((Pulse(A.endpoint, 3, 0),)))
    effects = bench.fire("ways", now=bench.core.context.now + bench.core.config.silent_s)
    assert noted(effects, "way is silent") == ["mit"]


@pytest.mark.spec("X-039")
def test_a_request_in_pieces_is_answered_once_with_the_numbers_of_all_of_them():
    bench = with_mit()
    epoch = bench.core.epoch
    bench.hear("huji.h1", data(A, 1, 3))
    some = CutRequest(G, 7, epoch, HUJI, have=((A.endpoint, 2),), last=False)
    assert controls(bench.message(READER.endpoint, some)) == []
    [reply] = controls(bench.message(READER.endpoint, CutRequest(G, 7, epoch, HUJI)))
    assert [entry.start for entry in reply.cut.entries if entry.endpoint == A.endpoint] == [2]


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
    bench.message(MIT.endpoint, ForwardingTree(G, 6, Domain("aaa"), links))
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
