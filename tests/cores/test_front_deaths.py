"""Programs that die in one turn leave their groups at its end, when none of them hears of the others."""

from types import SimpleNamespace
from typing import Any

from rostra.core.effects import Asked, EndpointGone
from rostra.core.stack import Stack
from rostra.names import Domain, Endpoint
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.front.config import FrontConfig
from rostra.protocols.front.core import FrontCore
from rostra.protocols.front.messages import Ask
from rostra.protocols.front.session import ProgramSession
from rostra.protocols.front.shares import User
from rostra.protocols.relaxed.requests import Open

HOST = Domain("lab.h1")


class Agent(FrontCore):
    """Of which only the steps are looked at that it takes."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.waiting: list[Any] = []
        port: Any = SimpleNamespace(
            now=0.0,
            turn=1,
            turn_is_long=False,
            stack=Stack(),
            report=lambda *_: None,
            count=lambda *_: None,
            note=lambda *_, **__: None,
            step=self.steps.append,
            at_end_of_turn=self.waiting.append,
            reserve_number=lambda: None,
        )
        super().__init__(port, HOST, FrontConfig(), DetectConfig())

    def program(self, name: str) -> ProgramSession:
        link: Any = SimpleNamespace(gone=lambda: None, ended=lambda: None, is_open=True)
        session = self.connected(name, link, User("us"))
        endpoint = Endpoint(f"{HOST}/{name}#{session.number}")
        session.endpoints[session.number] = endpoint
        self._place(endpoint, (session, session.number))
        return session

    def end_turn(self) -> None:
        waiting = self.waiting[:]
        self.waiting.clear()
        for work in waiting:
            work()


def test_of_a_crowd_that_dies_all_are_gone_before_the_first_leaves_its_groups() -> None:
    """Each death was sent to all who died with it, in one turn of 834 ms for 800 programs."""
    agent = Agent()
    crowd = [agent.program(name) for name in ("ann", "bob", "eve")]
    ends = [each for session in crowd for each in session.endpoints.values()]
    for session in crowd:
        agent.lost(session, "connection lost")
    assert agent.steps == [] and not any(map(agent.is_here, ends))
    assert len(agent.waiting) == len(crowd), "each is a piece of work of its own, so that a turn can end"
    agent.end_turn()
    assert [step.endpoint for step in agent.steps] == ends


def test_the_name_of_a_program_that_died_can_be_opened_at_once() -> None:
    agent = Agent()
    ann, bob = agent.program("ann"), agent.program("bob")
    agent.lost(ann, "connection lost")
    agent.lost(bob, "connection lost")
    agent.program("eve")._take(iter([Ask(1, 0, Open("bob", "uid 0"))]))
    [gone, asked] = agent.steps
    assert isinstance(gone, EndpointGone) and gone.endpoint == f"{HOST}/bob#{bob.number}"
    assert isinstance(asked, Asked) and asked.request == Open("bob", "us"), (
        "whose it is, the program does not say"
    )
    agent.end_turn()
    assert [step.endpoint for step in agent.steps if isinstance(step, EndpointGone)] == [
        f"{HOST}/bob#{bob.number}",
        f"{HOST}/ann#{ann.number}",
    ]


class Unread:
    """The way to a program whose kernel buffer is looked at, and which says nothing."""

    is_open = True

    def __init__(self) -> None:
        self.unread_bytes, self.why = 0, ""

    def say(self, word: object) -> None:
        self.unread_bytes += 2_304  # what Linux counts for a short frame

    def abort(self, why: str) -> None:
        self.why = why


def watched(agent: Agent, link: Any, seconds: float, taken: int) -> None:
    """For so long, a program that is told much, answers no ping, and reads so much every second."""
    port: Any = agent.port
    for _ in range(int(seconds)):
        link.unread_bytes -= min(taken, link.unread_bytes)
        for _ in range(4):
            port.now += 0.25
            agent.tick()
        if link.why:
            return


def test_a_program_that_reads_what_it_is_sent_is_not_given_up_before_it_comes_to_the_ping() -> None:
    """The programs of a crowd of 5,000 were, while they read the list of all others."""
    agent, link = Agent(), Unread()
    agent.connected("slow", link, User("us"))  # type: ignore[arg-type]
    link.unread_bytes = 900_000  # less than fills its buffer
    watched(agent, link, 25, 30_000)
    assert not link.why
    watched(agent, link, 60, 0)
    assert link.why == "it did not answer for too long", "now it does not read any more"


def test_a_program_that_reads_nothing_but_pings_and_does_not_answer_them_is_given_up() -> None:
    agent, link = Agent(), Unread()
    agent.connected("mute", link, User("us"))  # type: ignore[arg-type]
    watched(agent, link, 20, 30_000)
    assert link.why == "it did not answer for too long"
