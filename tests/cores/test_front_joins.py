"""Programs that join in one turn are let in together, whatever else they ask, in pieces that fit a turn."""

from types import SimpleNamespace
from typing import Any

from rostra.core.stack import Stack
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.fifo.events import JoinAsked
from rostra.protocols.front.config import FrontConfig
from rostra.protocols.front.core import JOINS_AT_ONCE, FrontCore
from rostra.protocols.front.messages import Ping, Pong
from rostra.protocols.front.session import ProgramSession
from rostra.protocols.front.shares import User
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd

GROUP = Group("crowd", Domain("lab"))
JOINS_PER_TURN = FrontConfig().joins_per_turn


class Agent(FrontCore):
    """Of which only joins are looked at."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.waiting: list[Any] = []
        self.said: list[Any] = []
        self.turn_is_long = False
        self.process: Any = SimpleNamespace(
            now=0.0,
            turn=1,
            turn_is_long=False,
            stack=Stack(),
            report=lambda *_: None,
            count=lambda *_: None,
            step=self.step,
            at_end_of_turn=self.waiting.append,
        )
        super().__init__(self.process, Domain("lab.h1"), FrontConfig(), DetectConfig())

    def program(self) -> ProgramSession:
        link: Any = SimpleNamespace(say=self.said.append)
        return self.connected(f"p{len(self.by_number) + 1}", link, User("us"))

    def join(self, program: ProgramSession) -> None:
        me = Endpoint(f"lab.h1/{program.name}#{program.number}")
        self.join_soon(program, JoinAsked(me, program.number, GROUP, 1))

    def step(self, event: Any) -> None:
        self.steps.append("join" if type(event) is JoinAsked else type(event).__name__)

    def end_turn(self) -> None:
        waiting = self.waiting[:]
        self.waiting.clear()
        self.process.turn_is_long = self.turn_is_long
        for work in waiting:
            work()
        self.process.turn += 1


BEGIN, END = JoinsBegin.__name__, JoinsEnd.__name__


def test_the_first_that_asks_on_joins_alone_and_all_others_of_the_turn_together() -> None:
    """Each of a thousand joined alone, and was told to all others, if more of it was read with its join."""
    agent = Agent()
    programs = [agent.program() for _ in range(5)]
    may_go_on = []
    for program in programs:
        agent.join(program)
        may_go_on.append(agent.join_now(program))
    assert may_go_on == [True, False, False, False, False]
    agent.end_turn()
    assert agent.steps == ["join", BEGIN, *["join"] * 4, END]
    assert [program.joining for program in programs] == [0] * 5


def test_a_ping_after_a_join_is_answered_and_the_join_still_waits_for_the_others() -> None:
    agent = Agent()
    programs = [agent.program() for _ in range(3)]
    for program in programs:
        agent.join(program)
        program._take(iter([Ping(7)]))
    assert agent.said == [Pong(7)] * 3 and agent.steps == []
    agent.end_turn()
    assert agent.steps == [BEGIN, *["join"] * 3, END]


def test_a_crowd_joins_in_as_few_notices_as_the_time_of_its_turns_allows() -> None:
    agent = Agent()
    for _ in range(JOINS_PER_TURN + 5):
        agent.join(agent.program())
    agent.end_turn()
    assert agent.steps == [BEGIN, *["join"] * JOINS_PER_TURN, END]
    agent.steps.clear()
    agent.end_turn()
    assert agent.steps == [BEGIN, *["join"] * 5, END]


def test_a_turn_that_is_long_already_lets_in_a_few() -> None:
    agent = Agent()
    for _ in range(3 * JOINS_AT_ONCE):
        agent.join(agent.program())
    agent.turn_is_long = True
    for _ in range(3):
        agent.end_turn()
        assert agent.steps == [BEGIN, *["join"] * JOINS_AT_ONCE, END]
        agent.steps.clear()
    assert not agent.waiting


def test_one_that_died_while_it_waited_does_not_join() -> None:
    agent = Agent()
    for _ in range(3):
        agent.join(agent.program())
    del agent.by_number[2]
    agent.end_turn()
    assert agent.steps == [BEGIN, "join", "join", END]
