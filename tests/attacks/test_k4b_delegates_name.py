"""K4b: a neighbour that calls itself by the name of the cluster's own delegate."""

from support.fifonet import Net

from rostra.core.effects import LinkDown, LinkMoved, LinkUp, Received
from rostra.groups.members import Because, Cause, Member
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.relaxed.messages import (
    EndpointsJoined,
    Interest,
    InterestChanged,
    MessageId,
    ResolveRequest,
    Routed,
)

STRANGER = Domain("a.-delegate")
GROUP = Group("g", ROOT)


def attack(net: Net) -> None:
    """As a child would that wants to hear of the group, is in it, speaks in it, and goes."""
    a, id = Domain("a"), MessageId(STRANGER, 9, 1)
    impostor = Endpoint(f"{STRANGER}/adhoc#9")
    net.step(a, LinkUp(STRANGER, 9))
    for message in (
        InterestChanged(id, GROUP, Interest.ALL),
        ResolveRequest(id, GROUP),
        EndpointsJoined(id, GROUP, (Member(impostor, (9, 1)),), Cause.JOIN),
        Routed(id, impostor, (Endpoint("b.-delegate/adhoc#0"),), b""),
    ):
        net.step(a, Received(STRANGER, message))
    net.step(a, LinkMoved(STRANGER, 9))


def test_a_server_whose_delegate_was_not_needed_yet_goes_on() -> None:
    net = Net(lans={"a": 1, "b": 1})
    attack(net)
    ann, bob = net.join("a.h1/ann"), net.join("b.h1/bob")
    net.run(3.0)
    net.send(ann)
    net.run(3.0)
    assert net.numbers(bob, ann) == [1]


def test_a_delegate_that_speaks_goes_on() -> None:
    net = Net(lans={"a": 1, "b": 1})
    ann, bob = net.join("a.h1/ann"), net.join("b.h1/bob")
    net.run(3.0)
    attack(net)
    net.step(Domain("a"), LinkDown(STRANGER, Because(Domain("a"), STRANGER, "silent")))
    net.run(3.0)
    net.send(ann)
    net.run(3.0)
    assert net.numbers(bob, ann) == [1]
    assert net.ignored["LinkUp", "a neighbour with the name of our delegate"] == 1
