"""Groups of open scope at a server and at an agent: whom they believe, and what if there is no room."""

import pytest

from rostra.core.effects import Answer, Asked, Effect, Event, Ignored, LinkDown, LinkUp, Received, Send
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.errors import TooLarge
from rostra.groups.members import Because
from rostra.names import OPEN, Domain, Endpoint, Group
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Denied, Done, Open
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.messages import PointersKept, PointersRefused, ScopeTold
from rostra.protocols.scopes.open_agent import OPEN_AGENT
from rostra.protocols.scopes.open_server import OpenServer
from rostra.protocols.scopes.requests import JoinOpen
from rostra.stacks import NodePlan, make_stack

H1, FR, EU, US = Domain("eu.fr.h1"), Domain("eu.fr"), Domain("eu"), Domain("us")


class Server:
    def __init__(self, *up: Domain) -> None:
        self.open = OpenServer(FR, ScopesConfig())
        core = DomainServer(FR, cluster=True, incarnation=5, registry=Registry(Records()))
        self.stack = Stack(self.open, core)
        for peer in up:
            self.step(LinkUp(peer, 1))

    def step(self, event: Event) -> list[Effect]:
        return [each for each in self.stack.step(0.0, event) if isinstance(each, Send | Ignored)]

    def hear(self, peer: Domain, message: object) -> list[Effect]:
        return self.step(Received(peer, message))


KEPT = PointersKept((("chess", None),))


def asking() -> Server:
    """A member on h1 asked for the scope, and the parent has not answered."""
    server = Server(H1, EU)
    assert server.hear(H1, KEPT) == [Send(EU, KEPT)]
    return server


@pytest.mark.spec("C-169")
def test_a_group_for_which_there_is_no_room_above_is_one_of_our_own_part() -> None:
    assert asking().hear(EU, PointersRefused(("chess",))) == [Send(H1, ScopeTold("chess", FR))]


@pytest.mark.spec("C-169", "C-172")
def test_a_group_whose_scope_a_lost_parent_was_asked_for_is_one_of_our_own_part() -> None:
    effects = asking().step(LinkDown(EU, Because(FR, EU, "silent")))
    assert Send(H1, ScopeTold("chess", FR)) in effects


@pytest.mark.spec("C-169", "C-170")
def test_the_scope_is_what_the_parent_says_if_it_is_around_us() -> None:
    for scope in (US, FR, H1):
        assert asking().hear(EU, ScopeTold("chess", scope)) == [Ignored("ScopeTold", "out of scope")]
    assert asking().hear(EU, ScopeTold("chess", EU)) == [Send(H1, ScopeTold("chess", EU))]
    assert asking().hear(EU, ScopeTold("chess", None)) == [Send(H1, ScopeTold("chess", FR))]
    assert asking().hear(EU, ScopeTold("go", EU)) == [Ignored("ScopeTold", "no row")]
    assert asking().hear(H1, ScopeTold("chess", EU)) == [Ignored("ScopeTold", "not our parent")]


# The agent


@pytest.mark.spec("C-169", "C-170")
def test_an_agent_believes_its_server_alone_and_no_scope_that_it_is_not_in() -> None:
    plan = NodePlan("w", H1, True, False, 1, LinkConfig.lan(), RelaxedConfig())
    agent = make_stack(plan, Registry())
    agent.step(0.0, LinkUp(FR, 1))
    agent.step(0.0, Asked(Endpoint(""), 1, Open("ann")))
    ann = agent[AGENT].names["ann"]
    agent.step(0.0, Asked(ann, 2, JoinOpen(Group("chess", OPEN))))
    for sender, scope, why in (
        (EU, EU, "not a neighbour"),
        (FR, US, "out of scope"),
        (FR, H1, "out of scope"),
    ):
        effects = agent.step(0.0, Received(sender, ScopeTold("chess", scope)))
        assert list(effects) == [Ignored("ScopeTold", why)]
    assert Answer(2, Done()) in agent.step(0.0, Received(FR, ScopeTold("chess", EU)))


@pytest.mark.spec("C-169")
def test_programs_are_told_that_there_is_no_room_for_their_open_group() -> None:
    plan = NodePlan("w", H1, True, False, 1, LinkConfig.lan(), RelaxedConfig())
    agent = make_stack(plan, Registry())
    agent.step(0.0, LinkUp(FR, 1))
    agent.step(0.0, Asked(Endpoint(""), 1, Open("ann")))
    agent.step(0.0, Asked(agent[AGENT].names["ann"], 2, JoinOpen(Group("chess", OPEN))))
    effects = agent.step(0.0, Received(FR, PointersRefused(("chess",))))
    (answer,) = [each for each in effects if isinstance(each, Answer)]
    assert answer.token == 2 and isinstance(answer.result, Denied) and answer.result.code == TooLarge.code
    assert not agent[OPEN_AGENT].open
