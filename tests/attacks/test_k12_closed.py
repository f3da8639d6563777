"""K12: a program opens endpoints, joins with them and closes them, again and again. Nothing of it is kept,
and what it asked with them is answered."""

from typing import Any

import pytest

from rostra.groups.kinds import DeliveryKind, MembershipKind
from rostra.names import OPEN, ROOT, Domain, Group, incarnation_of
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.protocols.atomic.requests import JoinOrdered
from rostra.protocols.fifo.core import HOST as STREAMS
from rostra.protocols.fifo.requests import Enter
from rostra.protocols.front.messages import Ask
from rostra.protocols.led.requests import JoinLed
from rostra.protocols.relaxed.requests import Close, Denied, Done, Join, Open
from rostra.protocols.scopes.requests import JoinOpen
from rostra.sim import World
from tests.cores.test_front import EVE, HOST, Caller, front

CHESS = Group("chess", ROOT)
JOINS = [
    Join(CHESS),
    Enter(CHESS),
    Enter(CHESS, membership=MembershipKind.LED),
    JoinAgreed(CHESS),
    JoinAgreed(CHESS, delivery=DeliveryKind.FIFO),
    JoinLed(CHESS),
    JoinOpen(Group("chess", OPEN)),
    JoinOrdered(CHESS),
    JoinOrdered(CHESS, order="negotiated"),
    JoinOrdered(CHESS, MembershipKind.RELAXED),
    JoinOrdered(CHESS, MembershipKind.LED),
]


@pytest.mark.parametrize("settles", [True, False], ids=["when it is in", "before it is in"])
@pytest.mark.parametrize("join", JOINS, ids=repr)
def test_of_an_endpoint_that_is_closed_nothing_is_kept(join: Any, settles: bool) -> None:
    """Questions that were never answered used up what the users of an agent may ask at once; for a member of
    a led group with FIFO the agent kept the whole machine."""
    world = World(1, domains={"haifa": 2, "paris": 1}, fifo=True).settle()
    eve = Caller(world, EVE)
    for nth in range(3):
        number = incarnation_of(eve.ask(Open(f"more-{nth}"), 0).endpoint)
        token = eve._token + 1
        eve.link.say_to_front(Ask(token, number, join))
        eve._token = token
        if settles:
            world.run(4.0)
        assert eve.ask(Close(), number) == Done()
        world.run(0.1)
        assert isinstance(eve._answers[token], Done if settles else Done | Denied)
    world.run(60.0)
    core, session = front(world), eve.link.session
    assert session is not None
    assert not (session._unread or session._ordered or session._waiting or session._joins)
    assert not (core._own_tokens or core._joining or core._proving)
    held = core.shares.all
    assert (held.endpoints, held.memberships, held.questions) == (1, 0, 0)
    assert not world.processes[Domain(HOST)].stack[STREAMS]._asked


@pytest.mark.parametrize("join", JOINS, ids=repr)
def test_of_a_program_that_is_lost_nothing_is_kept(join: Any) -> None:
    world = World(1, domains={"haifa": 2, "paris": 1}, fifo=True).settle()
    Caller(world)
    for settle_s in (0.0, 4.0):
        eve = Caller(world, EVE)
        eve.link.say_to_front(Ask(99, eve.endpoint, join))
        world.run(settle_s)
        eve.link.hang_up()
        world.run(60.0)
    core = front(world)
    assert not (core._own_tokens or core._joining or core._proving)
    held = core.shares.all
    assert (held.programs, held.endpoints, held.memberships, held.questions) == (1, 1, 0, 0)
    assert not world.processes[Domain(HOST)].stack[STREAMS]._asked
