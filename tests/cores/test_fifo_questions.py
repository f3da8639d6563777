"""A question that is asked twice gets the same answer twice: whoever asked goes by one of them, and what it
is owed from there on must still be here (X-022, X-026).

On a bad network answers come late, so delegates ask again as a rule.
"""

import pytest
from msgspec.structs import replace
from support.fifobench import (
    DelegateBench,
    G,
    controls,
    cut,
    data,
    delegate,
    entry,
    speech,
    timers,
    user,
)

from rostra.groups.attributes import Role
from rostra.names import Domain, host_of
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.messages import CutReply, CutRequest, StartSync, ViewId
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Data, Heartbeat, Progress, Report, Status

A = user("huji.h1/a")
READER = user("huji.h2/reader", role=Role.RECEIVE)
FAR = user("mit.h1/far")
MIT = delegate("mit")


def inside() -> DelegateBench:
    """The delegate of HUJI with a sender and a receiver of its own; MIT's delegate is there, too."""
    bench = DelegateBench()
    bench.inside(FAR, MIT)
    for member in (A, READER):
        bench.joined(member)
        bench.message(member.endpoint, StartSync(G, 1, Role.BOTH, 1, 1))
    return bench


def starts(effects) -> list[int]:
    return [each.start for reply in controls(effects) for each in reply.cut.entries]


@pytest.mark.spec("X-022", "X-026")
def test_a_delegate_that_asks_again_is_owed_what_it_was_told_at_first():
    bench = inside()
    bench.hear("huji.h1", data(A, 1, 4))
    assert starts(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))) == [5]
    bench.hear("huji.h1", data(A, 5, 9))
    assert starts(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))) == [5], "the first answer is on its way"
    pins = bench.core.relays.running[A.endpoint].pins
    assert pins.lans[Domain("mit")] == (1, 5)
    bench.hear("mit", Report((Progress(A.endpoint, Domain("mit"), 1, 7),)))
    assert starts(bench.message(MIT.endpoint, ViewId(G, 10, 1, 1))) == [7], "so far it has everything"


@pytest.mark.spec("X-022", "X-026")
def test_a_member_that_asks_again_is_owed_what_it_was_told_at_first():
    bench = inside()
    bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 1), h1=1)))
    question = CutRequest(G, 5, 1, Domain("mit"), (FAR.endpoint,))
    bench.hear("mit", data(FAR, 1, 4))
    first = starts(bench.message(READER.endpoint, question))
    bench.hear("mit", data(FAR, 5, 9))
    assert starts(bench.message(READER.endpoint, question)) == first
    assert bench.core.relays.running[FAR.endpoint].pins.local[host_of(READER.endpoint)] == first[0]


@pytest.mark.spec("X-070", "X-083")
def test_how_long_a_way_is_is_asked_on_the_way_itself_until_there_is_an_answer():
    bench = DelegateBench()
    bench.inside(FAR, MIT)
    bench.fire("peer", "mit", now=1.0)
    round_trips = bench.core.relays.repairs.round_trips
    effects = bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 1), h1=1)))
    assert round_trips[Domain("mit")] == 1.0, "since it was asked first: never less than it is"
    assert asks(effects) == 1 and timers(effects)["measure mit"] == 2.0
    assert asks(bench.fire("measure", "mit", now=3.0)) == 1, "the question or its answer was lost"
    bench.step(ev.Heard(G, Domain("mit"), (Report(()),)), now=3.2)
    assert round_trips[Domain("mit")] == pytest.approx(0.2)
    bench.step(ev.Heard(G, Domain("mit"), (Report(()),)), now=3.21)
    assert round_trips[Domain("mit")] == pytest.approx(0.2), "of another question"


def asks(effects) -> int:
    return sum(each.message == Heartbeat(()) for each in speech(effects))


@pytest.mark.spec("X-070", "X-083")
def test_only_an_answer_to_a_question_measures_a_way():
    """What is handed over to a new delegate crosses its first question: by that, a way of 40 ms was taken for
    one of 2 ms, and asked all the time."""
    round_trips = []
    for hop in (1, 0):
        bench = inside()
        bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 1), h1=1)))
        bench.core.relays.repairs.round_trips[Domain("mit")] = 0.04
        bench.hear("mit", data(FAR, 3))
        bench.fire("recover", now=1.0)
        bench.step(ev.Heard(G, Domain("mit"), (replace(data(FAR, 1, repair=True), hop=hop),)), now=1.002)
        round_trips.append(bench.core.relays.repairs.round_trips[Domain("mit")])
    assert round_trips == [0.04, pytest.approx(0.002)]


@pytest.mark.spec("X-070", "X-083")
def test_what_is_handed_over_unasked_says_so():
    bench = DelegateBench()
    bench.inside()
    for member in (A, READER):
        bench.joined(member)
        bench.message(member.endpoint, StartSync(G, 1, Role.BOTH, 1, 1))
    bench.joined(FAR)
    bench.hear("huji.h1", data(A, 1, 4))
    bench.joined(MIT)
    handed = [
        each.message
        for each in speech(bench.message(MIT.endpoint, ViewId(G, 9, 1, 1)))
        if isinstance(each.message, Data) and each.to == "mit"
    ]
    assert [(each.repair, each.hop) for each in handed] == [(True, 1)]


@pytest.mark.spec("X-088")
def test_a_report_that_home_has_not_seen_goes_there_directly_the_next_time():
    """Two delegates each took the other for the way home, and neither was heard there again."""
    bench = inside()
    ntu = delegate("ntu")
    bench.joined(ntu)
    bench.message(ntu.endpoint, ViewId(G, 4, 1, 1))
    bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 1), h1=1)))
    bench.message(MIT.endpoint, ViewId(G, 9, 1, 1))
    bench.core.relays.running[FAR.endpoint].via = Domain("ntu")
    bench.message(READER.endpoint, CutRequest(G, 5, 1, Domain("mit"), (FAR.endpoint,)))
    bench.hear("mit", replace(data(FAR, 1), repair=True))
    bench.hear("huji.h2", Status(READER.endpoint, ((FAR.endpoint, 2),)))
    bench.hear("huji.h1", Status(A.endpoint, ((FAR.endpoint, 2),)))
    towards = []
    for now in (1.0, 2.0, 3.0, 4.0):
        effects = bench.fire("report", now=now)
        towards += [each.to for each in speech(effects) if isinstance(each.message, Report)]
    assert towards == ["ntu", "mit", "ntu", "mit"]


@pytest.mark.spec("X-083")
def test_what_is_only_late_is_waited_for_the_next_time():
    bench = inside()
    bench.message(MIT.endpoint, CutReply(G, 1, 1, cut("mit", entry(FAR, 1), h1=1)))
    relays, mit = bench.core.relays, Domain("mit")
    relays.repairs.round_trips[mit] = 0.1
    assert timers(bench.hear("mit", data(FAR, 2)))["recover"] == 0.0, "on a way that keeps its order, at once"
    bench.fire("recover", now=1.0)
    bench.step(ev.Heard(G, mit, (data(FAR, 1),)), now=1.03)
    assert timers(bench.hear("mit", data(FAR, 4)))["recover"] == pytest.approx(0.03)
    bench.fire("recover", now=1.06)
    bench.step(ev.Heard(G, mit, (data(FAR, 3, repair=True),)), now=1.16)
    assert relays.repairs.overtaken_s[mit] == pytest.approx(0.027), "it was lost: less the next time"
    for number in range(6, 100, 2):  # never more than a round of repair
        bench.hear("mit", data(FAR, number))
        bench.fire("recover", now=bench.now + 1.0)
        bench.step(ev.Heard(G, mit, (data(FAR, number - 1),)), now=bench.now + 0.5)
    assert relays.repairs.overtaken_s[mit] == pytest.approx(FifoConfig().again_after(0.1))
