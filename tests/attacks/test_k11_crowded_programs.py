"""K11: one program with thousands of endpoints, groups or requests costs its agent what they are worth, a
turn's work at a time, and nothing of it is kept when it is over."""

from typing import Any

import pytest

from rostra.groups.attributes import Role
from rostra.groups.kinds import MembershipKind
from rostra.groups.members import Cause
from rostra.names import ROOT, Domain, Group, incarnation_of
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed
from rostra.protocols.atomic.requests import JoinOrdered, LeaveOrdered
from rostra.protocols.claims.agent import CLAIM_AGENT
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.front.messages import Ask, Goodbye
from rostra.protocols.front.session import ProgramSession
from rostra.protocols.led.requests import JoinLed, LeaveLed
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.requests import Denied, Done, Join, Leave, Left, Open, Watch
from rostra.sim import World
from tests.cores.test_front import ANN, EVE, HOST, Caller, front

CHESS = Group("chess", ROOT)


def test_a_program_that_has_every_name_of_the_agents_own_endpoint_does_not_end_it() -> None:
    """Each name that was taken was a call within a call: RecursionError, and the agent's end."""
    world = World(1, domains={"haifa": 2}, fifo=True).settle()
    eve, ann = Caller(world, EVE), Caller(world, ANN)
    for number in range(1, 1_200):
        eve.ask(Open("rostra.watch" if number == 1 else f"rostra.watch-{number}"), 0)
    assert ann.ask(Watch(CHESS)) == Done()


@pytest.mark.parametrize("ends", ["hangs up", "says goodbye"])
def test_a_program_with_many_endpoints_leaves_a_few_in_each_turn(ends: str) -> None:
    """The simulator checks the steps of a turn: it was one for each endpoint."""
    world = World(1, domains={"haifa": 2}, fifo=True, turn_steps=4).settle()
    eve, ann = Caller(world, EVE), Caller(world, ANN)
    ann.ask(Join(CHESS))
    for number in range(300):
        opened = eve.ask(Open(f"many-{number}"), 0)
        eve.ask(Join(CHESS), incarnation_of(opened.endpoint))
    world.settle()
    eve.link.hang_up() if ends == "hangs up" else eve.link.say_to_front(Goodbye())
    world.settle()
    left = [each.cause for each in ann.told if isinstance(each, Left)]
    assert left == [Cause.CRASH if ends == "hangs up" else Cause.LEAVE] * 300
    shares = front(world).shares.all
    assert (shares.programs, shares.endpoints, shares.memberships) == (1, 1, 1)


def test_what_was_put_off_is_not_copied_at_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join, a leave, a join: each pair is a turn. A packet of 1 MiB was half a minute of the processor."""
    world = World(1, domains={"haifa": 2}, fifo=True).settle()
    eve = Caller(world, EVE)
    pair = (Join(CHESS), Leave(CHESS))
    queues: list[Any] = []
    go_on = ProgramSession.go_on

    def looked_at(session: ProgramSession) -> None:
        queues.append(session._later)
        go_on(session)

    monkeypatch.setattr(ProgramSession, "go_on", looked_at)
    eve.link.say_to_front(*[Ask(100 + number, eve.endpoint, pair[number % 2]) for number in range(60)])
    world.settle()
    assert len(queues) > 20 and len(set(map(id, queues))) == 1
    assert all(eve._answers[100 + number] == Done() for number in range(60))


@pytest.mark.parametrize("role", [Role.BOTH, Role.SUBMIT])
def test_of_groups_that_were_entered_and_left_nothing_is_kept(role: Role) -> None:
    """A set was kept for each name that was ever entered, and looked at whenever any endpoint closed."""
    world = World(1, domains={"haifa": 2}, fifo=True).settle()
    eve = Caller(world, EVE)
    for number in range(5):
        group = Group(f"g{number}", ROOT)
        eve.ask(Enter(group, role))
        if number % 2:
            world.run(3.0)
        assert eve.ask(Exit(group)) == Done()
    world.settle()
    assert front(world)._entering.groups == {}


def test_one_that_was_refused_is_forgotten_when_it_is_out() -> None:
    world = World(1, domains={"haifa": 2}, fifo=True).settle()
    ann, eve = Caller(world, ANN), Caller(world, EVE)
    ann.ask(Join(CHESS))
    world.settle()
    answers: list[Any] = []
    for _ in range(2):  # and is refused again
        token = eve._token + 1
        eve.ask(Enter(CHESS))
        world.settle()
        answers.append(eve._answers[token])
    assert [type(each) for each in answers] == [Denied, Denied]
    assert front(world)._entering.groups == {}


@pytest.mark.parametrize(
    ("join", "leave"),
    [
        (Enter(CHESS, membership=MembershipKind.LED), Exit(CHESS)),
        (JoinLed(CHESS), LeaveLed(CHESS)),
        (JoinAgreed(CHESS), LeaveAgreed(CHESS)),
        (JoinOrdered(CHESS), LeaveOrdered(CHESS)),
        (JoinOrdered(CHESS, MembershipKind.RELAXED), LeaveOrdered(CHESS)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_one_that_leaves_before_its_claim_is_answered_is_out_everywhere(join: Any, leave: Any) -> None:
    """The leave was sent before the join: servers kept a row, and so many fill a host's share of them."""
    world = World(1, domains={"haifa": 2, "paris": 1}, fifo=True).settle()
    eve = Caller(world, EVE)
    eve.ask(join)
    eve.ask(leave)
    world.settle()
    for path in ("haifa", "paris", "world"):
        assert CHESS not in world.processes[Domain(path)].stack[SERVER].table.rows, path
    claims = world.processes[Domain(HOST)].stack[CLAIM_AGENT]
    assert not (claims.held or claims.asked or claims.releasing or claims._alone)
