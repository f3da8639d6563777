"""K12: a program leaves a group as if it were of another kind, and joins it as one of a third."""

from rostra.core.effects import Asked
from rostra.groups.kinds import MembershipKind
from rostra.names import ROOT, Domain, Group, incarnation_of
from rostra.protocols.atomic.requests import JoinOrdered, LeaveOrdered
from rostra.protocols.front.messages import Ask
from rostra.protocols.relaxed.requests import Close, Denied, Done, Leave, Open
from rostra.sim import World
from tests.cores.test_front import EVE, HOST, Caller

CHESS = Group("chess", ROOT)
OF_NO_TOKEN = -(1 << 61)


def in_an_order() -> tuple[World, Caller]:
    world = World(1, domains={"haifa": 2}, fifo=True).settle()
    eve = Caller(world, EVE)
    eve.link.say_to_front(Ask(50, eve.endpoint, JoinOrdered(CHESS)))
    world.run(4.0)
    assert eve._answers[50] == Done()
    return world, eve


def join_as_another(world: World, eve: Caller) -> None:
    number = incarnation_of(eve.ask(Open("more"), 0).endpoint)
    eve.link.say_to_front(Ask(51, number, JoinOrdered(CHESS, MembershipKind.RELAXED)))
    world.run(10.0)


def test_a_member_leaves_as_it_came() -> None:
    """Its claim was released: the agent ended when another kind was claimed beside its station."""
    world, eve = in_an_order()
    answer = eve.ask(Leave(CHESS))
    assert isinstance(answer, Denied) and answer.code == "NOT_ALLOWED"
    join_as_another(world, eve)
    assert isinstance(eve._answers[51], Denied)
    eve.ask(LeaveOrdered(CHESS))
    world.run(4.0)
    eve.ask(Close())
    world.run(4.0)
    assert not eve.ended


def test_a_group_that_is_not_over_as_one_kind_is_not_entered_as_another() -> None:
    """Whatever removed its last member from the list."""
    world, eve = in_an_order()
    process = world.processes[Domain(HOST)]
    session = eve.link.session
    assert session is not None
    me = session.endpoints[eve.endpoint]
    world.nodes.inject(process, Asked(me, OF_NO_TOKEN, Leave(CHESS)))
    world.run(4.0)
    join_as_another(world, eve)
    refused = eve._answers[51]
    assert isinstance(refused, Denied) and refused.code == "REFUSED"
    assert not eve.ended
