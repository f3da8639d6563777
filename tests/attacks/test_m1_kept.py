"""M1: what a delegate keeps for those who are not members grows without bound."""

from support.fifonet import G, Net

from rostra.core.effects import Received
from rostra.groups.attributes import Role
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo.early_control import KEPT_PER_HOST_MAX
from rostra.protocols.fifo.messages import Control, CutRequest, Distances, StartSync, encode
from rostra.protocols.relaxed.messages import MessageId, Routed

HOST = Domain("a.h2")


def routed(net: Net, number: int, source: str, to: str, message: Control) -> None:
    """From a hostile agent, which invents endpoints of its host."""
    id = MessageId(HOST, 9, number)
    words = Routed(id, Endpoint(source), (Endpoint(f"{to}.-delegate/adhoc#0"),), encode(message))
    net.step(Domain("a"), Received(HOST, words))


def test_a_delegate_keeps_a_few_questions_of_a_host_and_the_newest() -> None:
    net = Net(lans={"a": 2, "b": 1})
    ann, bob, member = net.join("a.h1/ann"), net.join("b.h1/bob"), net.join("a.h2/member")
    net.run(3.0)
    for number in range(2_000):
        routed(net, number, f"a.h2/ghost-{number}#1", "a", StartSync(G, number, Role.BOTH, 1, 1))
        routed(net, number, "a.h2/ghost#1", "a", CutRequest(G, number, 1, Domain(f"x{number}")))
    assert len(net.delegate("a").kept) == KEPT_PER_HOST_MAX
    newcomer = net.join("a.h2/newcomer")
    net.run(3.0)
    net.send(ann)
    net.run(3.0)
    assert net.numbers(bob, ann) == net.numbers(member, ann) == net.numbers(newcomer, ann) == [1]


def test_a_delegate_keeps_distances_of_delegates_alone() -> None:
    net = Net(lans={"a": 2, "b": 1})
    ann, bob = net.join("a.h1/ann"), net.join("b.h1/bob")
    net.join("a.h2/member")
    net.run(3.0)
    planner = net.delegate("a").planner
    before = dict(planner._distances)
    for number in range(2_000):
        message = Distances(G, Domain(f"x{number}"), ((Domain("b"), 0.0),))
        routed(net, number, "a.h2/member#1", "a", message)
        routed(net, number, "a.h2/member#1", "b", message)
    assert planner._distances == before
    net.send(bob)
    net.run(3.0)
    assert net.numbers(ann, bob) == [1]
    assert net.ignored["Distances", "not for its sender to say"] == 4_000


def test_who_is_in_no_group_makes_a_delegate_keep_nothing() -> None:
    net = Net(lans={"a": 2, "b": 1})
    for number in range(2_000):
        group = Group(f"g{number}", G.scope)
        routed(net, number, f"a.h2/ghost-{number}#1", "a", StartSync(group, 1, Role.BOTH, 1, 1))
    net.run(1.0)
    assert net.nodes[Domain("a")].groups == {}
