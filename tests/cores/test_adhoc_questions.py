"""A question that is asked twice gets the same answer twice: whoever asked goes by one of them, and what it
is owed from there on must still be here (X-022, X-026).

On a bad network answers come late, so delegates ask again as a rule.
"""

import pytest
from support.adhocbench import (
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

from rostra.names import Domain
from rostra.protocols.adhoc import events as ev
from rostra.protocols.adhoc.messages import (
    CutReply,
    CutRequest,
    Heartbeat,
    Progress,
    Report,
    Role,
    StartSync,
    ViewId,
)

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
    assert bench.core.relays.running[FAR.endpoint].pins.local[READER.endpoint] == first[0]


@pytest.mark.spec("X-070", "X-083")
def test_how_long_a_way_is_is_asked_on_the_way_itself_until_there_is_an_answer():
    bench = DelegateBench()
    bench.inside(FAR, MIT)
    bench.fire("peer", "mit", now=1.0)
    round_trips = bench.core.relays.round_trips
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
