"""One change after the other in a set: what waits gets older, and who is isolated does not count."""

import pytest
from support.setnet import SetNet, join, server

from rostra.core.effects import LinkDown, LinkUp
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.agreed.messages import PartedFromSet
from rostra.protocols.agreed.state import Coordinating


@pytest.mark.spec("V-068", "V-123")
def test_a_join_that_waits_at_one_server_gets_older_with_every_commit() -> None:
    net = SetNet("abc")
    net.ask("b", join("mia"), join("zoe"), join("a000"))
    for number in range(1, 20):
        before = len(net.commits("b"))
        while len(net.commits("b")) == before:
            net.deliver(*next(pair for pair, lane in net.lanes.items() if lane))
        net.ask("b", join(f"a{number:03}"))
    assert "zoe joins" in [each.request for each in net.commits("b")][:4]


@pytest.mark.spec("V-090")
def test_the_acknowledgement_of_a_server_that_we_isolated_does_not_count() -> None:
    net = SetNet("abc")
    net.frozen.add("a")
    net.ask("b", join("ann"))
    net.deliver("b", "c")
    net.step("b", LinkDown(Domain("c"), Because(Domain("b"), Domain("c"), "silent")))
    net.step("b", LinkUp(Domain("c"), 1))
    before = len(net.sent)
    net.deliver("c", "b")
    phase = net.cores["b"].state.phase
    assert isinstance(phase, Coordinating) and server("c") not in phase.acked
    assert [type(message) for _, _, message in net.sent[before:]] == [PartedFromSet]
