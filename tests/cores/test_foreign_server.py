"""A server that is asked about a group of its scope by a host outside it, and the agent that asks (C-186)."""

import pytest

from rostra.core.effects import Answer, Asked, Ignored, LinkUp, Received, Send, SetTimer, TimerFired
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.errors import DeadlineExceeded
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint, Group, parent
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Absolute, Denied, Open, Resolve
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.foreign import ForeignServer
from rostra.protocols.scopes.messages import ForeignAsked, ForeignTold
from rostra.stacks import NodePlan, make_stack

EU, FR, STRANGER = Domain("eu"), Domain("eu.fr"), Domain("us.ny.h1")


@pytest.mark.spec("C-186")
@pytest.mark.parametrize(
    ("allowed", "why"), [(False, "this world answers questions from inside only"), (True, "")]
)
def test_a_server_answers_a_stranger_only_where_the_world_allows_it(allowed: bool, why: str) -> None:
    """The stranger's agent may have another world file: the server does not rely on it."""
    foreign = ForeignServer(FR, ScopesConfig(foreign=allowed))
    server = Stack(foreign, DomainServer(FR, cluster=True, incarnation=5, registry=Registry(Records())))
    server.step(0.0, LinkUp(EU, 1))
    asked = ForeignAsked(STRANGER, 1, Group("chess", FR))
    effects = server.step(0.0, Received(EU, asked))
    told = ForeignTold(STRANGER, 1, asked.group, why=why)
    assert [each for each in effects if isinstance(each, Send)] == [Send(EU, told)]


@pytest.mark.spec("C-186")
def test_an_agent_takes_the_answer_to_its_question_alone_and_members_of_that_scope() -> None:
    here, above = parent(STRANGER), Domain("us.ny.h2")
    plan = NodePlan(
        *("w", STRANGER, True, False, 1, LinkConfig.lan(), RelaxedConfig()), scopes=ScopesConfig(foreign=True)
    )
    agent, group = make_stack(plan, Registry()), Group("chess", FR)
    agent.step(0.0, LinkUp(here, 1))
    agent.step(0.0, Asked(Endpoint(""), 1, Open("ann")))
    ann = agent[AGENT].names["ann"]
    for token, number in ((2, 1), (3, 2)):
        effects = agent.step(0.0, Asked(ann, token, Resolve("chess", FR)))
        asked = ForeignAsked(STRANGER, number, group)
        timer = ("scopes", "foreign", number)
        assert list(effects) == [Send(here, asked), SetTimer(timer, ScopesConfig().foreign_s)]
    inner, outer = (Member(Endpoint(f"{host}/a#1"), (1, 1)) for host in ("eu.fr.h1", "eu.de.h1"))
    false = (
        (FR, ForeignTold(STRANGER, 1, group), "not here"),
        (here, ForeignTold(above, 1, group), "not here"),
        (here, ForeignTold(STRANGER, 1, Group("go", FR)), "late reply"),
        (here, ForeignTold(STRANGER, 9, group), "late reply"),
    )
    for sender, told, why in false:
        assert list(agent.step(0.0, Received(sender, told))) == [Ignored("ForeignTold", why)]
    effects = agent.step(0.0, Received(here, ForeignTold(STRANGER, 1, group, (inner, outer))))
    assert Answer(2, Absolute(group, (inner,))) in effects
    effects = agent.step(10.0, TimerFired(("scopes", "foreign", 2)))
    (late,) = [each for each in effects if isinstance(each, Answer)]
    assert late.token == 3 and isinstance(late.result, Denied) and late.result.code == DeadlineExceeded.code
