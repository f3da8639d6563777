"""Members whom a split put into a subgroup: what their server says, and what their host makes of it."""

from collections.abc import Sequence

import pytest

from rostra.core.effects import Answer, Asked, Effect, LinkUp, Received, Send
from rostra.core.stack import Stack
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.agent import AGREED_AGENT, AgreedAgent
from rostra.protocols.agreed.branch import HostHolds, HostQuestion, MemberAsked, ViewTold
from rostra.protocols.agreed.calls import GroupAsked, MemberAdded, OrderCall, SubgroupEntered
from rostra.protocols.agreed.changes import GroupVerb, MemberId, Pid, ServerId
from rostra.protocols.agreed.events import AgreedJoinAsked, AgreedLeaveAsked
from rostra.protocols.agreed.groups import AGREED, AgreedMember, AgreedView
from rostra.protocols.agreed.orders import SplitGroup
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.agreed.stays import HostGroup, HostMember, StayInside, StayLooking
from rostra.protocols.fifo.events import Deliver, Excluded
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import MessageId, SyncDone
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Done, Open
from rostra.stacks import NodePlan, make_stack

PARIS, H1, H2 = Domain("paris"), Domain("paris.h1"), Domain("paris.h2")
CHESS, HOT, COLD = [Group(name, PARIS) for name in ("chess", "hot", "cold")]
INNER = GroupKind(MembershipKind.AGREED, within="chess")


def member(host: Domain) -> MemberId:
    return MemberId(Endpoint(f"{host}/ann#1"), (1, 1))


class Server:
    """That of a cluster of two hosts, with a member on each: chess was split, and kept; both are in `hot`."""

    def __init__(self) -> None:
        plan = NodePlan("w", PARIS, False, True, 1, LinkConfig.lan(), RelaxedConfig())
        self.stack: Stack = make_stack(plan, Registry())
        self.questions = 0
        self.stack.step(0.0, LinkUp(H1, 1))
        for host in (H1, H2):
            self.stack.step(60.0, LinkUp(host, 1))
            self.synced(host)
            self.ask(host, GroupVerb.JOIN, CHESS)
        call = OrderCall(SplitGroup(HOT, COLD, (), keep=True))
        asked = GroupAsked(CHESS, self.question(H1), member(H1).endpoint, call)
        self.said = self.receive(H1, asked)

    def receive(self, host: Domain, message: object) -> Sequence[Effect]:
        return self.stack.step(60.0, Received(host, message))

    def synced(self, host: Domain) -> None:
        self.receive(host, SyncDone(MessageId(host, 1, 1)))

    def question(self, host: Domain) -> HostQuestion:
        self.questions += 1
        return HostQuestion(host, 1, self.questions)

    def ask(self, host: Domain, verb: GroupVerb, group: Group) -> None:
        kind = AGREED if group == CHESS else INNER
        members = (AgreedMember(member(host), 0),)
        self.receive(host, MemberAsked(group, self.question(host), verb, members, kind))

    def hold(self, host: Domain) -> Sequence[Effect]:
        """A new link to this host, which holds chess."""
        self.stack.step(60.0, LinkUp(host, 2))
        mine = (AgreedMember(member(host), 0),)
        return self.receive(host, HostHolds(CHESS, self.question(host), mine, AGREED))

    def ids(self, group: Group) -> list[MemberId]:
        return list(self.stack[AGREED_SERVER].sets[PARIS].table.groups[group].view.ids)


def entered(effects: Sequence[Effect]) -> list[SubgroupEntered]:
    return [
        each.message
        for each in effects
        if isinstance(each, Send) and isinstance(each.message, SubgroupEntered)
    ]


@pytest.mark.spec("V-045")
def test_a_host_is_told_of_the_subgroup_before_it_is_told_its_view() -> None:
    server = Server()
    for host in (H1, H2):
        about = [
            type(each.message)
            for each in server.said
            if isinstance(each, Send)
            and each.to == host
            and HOT in (getattr(each.message, "group", None), getattr(each.message, "to", None))
        ]
        assert about == [SubgroupEntered, ViewTold]
    assert server.ids(HOT) == server.ids(CHESS) == [member(H1), member(H2)]


@pytest.mark.spec("V-045", "V-097")
def test_a_host_whose_link_is_new_and_that_does_not_hold_the_subgroup_is_told_again() -> None:
    server = Server()
    assert entered(server.hold(H1)) == [SubgroupEntered(CHESS, H1, HOT, INNER, (member(H1),))]
    server.synced(H1)
    assert server.ids(HOT) == server.ids(CHESS) == [member(H1), member(H2)]


@pytest.mark.spec("V-041")
def test_who_has_left_the_subgroup_is_not_told_again_and_stays_in_the_group() -> None:
    """It is the same member in both, by its stamp too."""
    server = Server()
    departed = server.stack[AGREED_SERVER]._departed
    departed[member(H1), HOT] = None  # it asked, and other servers have still to acknowledge
    assert member(H1) in server.ids(HOT) and entered(server.hold(H1)) == []
    del departed[member(H1), HOT]
    server.ask(H1, GroupVerb.LEAVE, HOT)
    server.synced(H1)
    assert (server.ids(HOT), server.ids(CHESS)) == ([member(H2)], [member(H1), member(H2)])


def test_a_member_that_joined_the_subgroup_by_itself_meanwhile_is_not_brought_back_as_the_other() -> None:
    server = Server()
    later = MemberId(member(H1).endpoint, (1, 9))
    members = (AgreedMember(later, 0),)
    server.receive(H1, MemberAsked(HOT, server.question(H1), GroupVerb.JOIN, members, INNER))
    assert server.ids(HOT) == [member(H2), later] and server.ids(CHESS) == [member(H1), member(H2)]


VIEW = (5, 0, Pid(ServerId(PARIS, 1), 6))


class Agent:
    """Ann's, which is in chess and knows its view."""

    def __init__(self) -> None:
        plan = NodePlan("w", H1, True, False, 1, LinkConfig.lan(), RelaxedConfig())
        self.stack = make_stack(plan, Registry())
        self.stack.step(0.0, LinkUp(PARIS, 1))
        self.stack.step(0.0, Asked(None, 1, Open("ann")))
        self.agent: AgreedAgent = self.stack[AGREED_AGENT]
        (self.me,) = self.agent._agent.endpoints
        self.id = MemberId(self.me, (1, 1))
        members = (AgreedMember(self.id, 1),)
        stay = HostMember(StayInside(self.id, b""), knows=True)
        self.agent.groups[CHESS] = HostGroup(AGREED, {self.me: stay}, AgreedView(*VIEW, members))

    def enter(self) -> list[object]:
        return self.hear(SubgroupEntered(CHESS, H1, HOT, INNER, (self.id,)))

    def view(self, number: int = 5) -> list[object]:
        return self.hear(ViewTold(HOT, (H1,), (number, 0, VIEW[2]), None, (AgreedMember(self.id, 1),)))

    def hear(self, message: object) -> list[object]:
        return self.given(self.agent.step(1.0, Received(PARIS, message)))

    def join(self) -> list[object]:
        return self.given(self.agent.step(1.0, AgreedJoinAsked(self.me, 7, HOT, AGREED, create=False)))

    def given(self, effects: Sequence[Effect]) -> list[object]:
        self.sent = [each.message for each in effects if isinstance(each, Send)]
        answers: list[object] = [type(each.result) for each in effects if isinstance(each, Answer)]
        items = [(each.group, type(each.item)) for each in effects if isinstance(each, Deliver)]
        return [*answers, *items]


@pytest.mark.spec("V-045")
def test_a_program_gets_the_present_view_of_a_subgroup_when_it_joins_and_nothing_before() -> None:
    agent = Agent()
    assert agent.enter() == [(CHESS, MemberAdded)]
    assert agent.view(5) == agent.view(6) == []
    assert agent.join() == [Done, (HOT, MemberView)]
    assert agent.view(7) == [(HOT, MemberView)]


@pytest.mark.spec("V-045")
def test_a_program_that_joins_a_subgroup_whose_side_stands_still_is_told_so() -> None:
    agent = Agent()
    agent.enter()
    agent.view()
    agent.hear(ViewTold(HOT, (H1,), VIEW, None, (AgreedMember(agent.id, 1),), blocked="1 of 3 are here"))
    assert agent.join() == [Done, (HOT, MemberBlocked)]


@pytest.mark.spec("V-041", "V-045")
def test_a_host_that_is_told_again_takes_it_once_and_leaves_where_its_member_has_left() -> None:
    agent = Agent()
    agent.enter()
    assert agent.enter() == [] and agent.sent == []
    agent.join()
    agent.agent.step(1.0, AgreedLeaveAsked(agent.me, 8, HOT))
    agent.agent.asked.clear()  # the answer has come
    assert agent.enter() == [] and HOT not in agent.agent.groups
    (asked,) = agent.sent
    assert isinstance(asked, MemberAsked) and (asked.group, asked.verb) == (HOT, GroupVerb.LEAVE)
    assert [each.id for each in asked.members] == [agent.id]


@pytest.mark.spec("V-045")
def test_a_program_that_joins_the_subgroup_before_its_host_is_told_is_there_once() -> None:
    agent = Agent()
    assert agent.join() == [] and isinstance(agent.agent.groups[HOT].members[agent.me].stage, StayLooking)
    assert agent.enter() == []
    (asked,) = agent.sent
    assert isinstance(asked, MemberAsked) and (asked.group, asked.verb) == (HOT, GroupVerb.LEAVE)


@pytest.mark.spec("V-041")
def test_who_leaves_the_group_hears_of_the_subgroups_that_it_joined() -> None:
    for joins in (True, False):
        agent = Agent()
        agent.enter()
        agent.view()
        if joins:
            agent.join()
        given = agent.given(agent.agent.step(1.0, AgreedLeaveAsked(agent.me, 8, CHESS)))
        assert given == [Done, *([(HOT, Excluded)] if joins else [])]
        assert not agent.agent.groups
