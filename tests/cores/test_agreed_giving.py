"""What an agent gives to its members of an agreed group: one effect for all that read and get the same."""

from collections.abc import Sequence

import pytest

from rostra.core.effects import Effect, Event, LinkDown, LinkUp, Received
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.agent import AGREED_AGENT, AgreedAgent
from rostra.protocols.agreed.branch import ViewTold
from rostra.protocols.agreed.changes import MemberId, Pid, ServerId
from rostra.protocols.agreed.config import VIEWS_WAITING_MAX
from rostra.protocols.agreed.groups import AgreedMember
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.agreed.stays import HostGroup, HostMember, StayInside
from rostra.protocols.fifo.events import Deliver, DeliverAll, Excluded, Item, Paused, Resumed
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.registry import Registry
from rostra.stacks import NodePlan, make_stack

PARIS, HOST = Domain("paris"), Domain("paris.h1")
CHESS = Group("chess", PARIS)
ANN, BOB, EVE, FAR = (
    MemberId(Endpoint(f"paris.{who}#{number}"), (1, number))
    for number, who in enumerate(("h1/ann", "h1/bob", "h1/eve", "h2/far"), 1)
)


def told(number: int, *members: MemberId) -> Received:
    id = (number, 0, Pid(ServerId(PARIS, 1), number))
    return Received(
        PARIS, ViewTold(CHESS, (HOST,), id, None, tuple(AgreedMember(each, 1) for each in members))
    )


def agent_with(*members: MemberId) -> AgreedAgent:
    plan = NodePlan("w", HOST, True, False, 1, LinkConfig.lan(), RelaxedConfig())
    agent = make_stack(plan, Registry())[AGREED_AGENT]
    inside = {each.endpoint: HostMember(StayInside(each, b"")) for each in members}
    agent.groups[CHESS] = HostGroup(GroupKind(MembershipKind.AGREED), inside)
    agent.step(0.5, LinkUp(PARIS, 1))
    return agent


def given(agent: AgreedAgent, *events: Event) -> list[tuple[tuple[Endpoint, ...], Item]]:
    effects: Sequence[Effect] = [effect for event in events for effect in agent.step(1.0, event)]
    return [
        (each.endpoints if isinstance(each, DeliverAll) else (each.endpoint,), each.item)
        for each in effects
        if isinstance(each, Deliver | DeliverAll)
    ]


def test_members_that_read_are_given_a_view_together_and_a_lone_one_by_itself() -> None:
    agent = agent_with(ANN, BOB, EVE)
    ((all_three, view),) = given(agent, told(3, ANN, BOB, EVE))
    assert all_three == (ANN.endpoint, BOB.endpoint, EVE.endpoint) and isinstance(view, MemberView)
    ((those, blocked),) = given(agent, LinkDown(PARIS, Because(HOST, PARIS, "silent")))
    assert those == all_three and isinstance(blocked, MemberBlocked)
    assert [each for each, _ in given(agent_with(ANN), told(3, ANN))] == [(ANN.endpoint,)]


def test_one_that_does_not_read_gets_its_views_later_and_misses_none() -> None:
    agent = agent_with(ANN, BOB, EVE)
    agent.step(0.6, Paused(BOB.endpoint, CHESS))
    views = given(agent, told(3, ANN, BOB, EVE), told(4, ANN, BOB, EVE, FAR))
    assert [those for those, _ in views] == [(ANN.endpoint, EVE.endpoint)] * 2
    later = given(agent, Resumed(BOB.endpoint, CHESS))
    assert later == [((BOB.endpoint,), view) for _, view in views]


@pytest.mark.spec("V-097")
def test_one_that_reads_nothing_for_too_long_is_excluded_and_the_others_go_on() -> None:
    agent = agent_with(ANN, BOB, EVE)
    agent.step(0.6, Paused(BOB.endpoint, CHESS))
    items = given(agent, *[told(3 + nth, ANN, BOB, EVE) for nth in range(VIEWS_WAITING_MAX + 1)])
    assert [(those, type(item)) for those, item in items[-2:]] == [
        ((ANN.endpoint, EVE.endpoint), MemberView),
        ((BOB.endpoint,), Excluded),
    ]
    assert [those for those, _ in items[:-1]] == [(ANN.endpoint, EVE.endpoint)] * (VIEWS_WAITING_MAX + 1)
