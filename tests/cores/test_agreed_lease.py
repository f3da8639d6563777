"""The lease by which a living side lives, in single steps."""

from typing import Any

import pytest
from msgspec.structs import replace

from rostra.core.effects import Event, LinkDown, LinkUp, Received, Send, TimerFired
from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.branch import LeaseAsked, LeaseConfirmed, LeaseGiven, MemberAnswer, ViewTold
from rostra.protocols.agreed.changes import (
    MemberId,
    Pid,
    Proposal,
    ServerId,
    ServersFailed,
    SetMember,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.lease import ALARM, NEVER, BranchLease, SetLease
from rostra.protocols.agreed.promises import GivenLeases
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.agreed.state import alone
from rostra.protocols.agreed.stays import HostGroup, HostMember, StayInside
from rostra.protocols.fifo.events import Deliver
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.registry import Registry
from rostra.sim.explore.lease import LEDGER, LeaseAct, LeaseBounds, LeaseModel
from rostra.stacks import NodePlan, make_stack

PARIS = Domain("paris")
HOST = Domain("paris.h1")


@pytest.mark.parametrize(("down_after_s", "grace_s"), [(0.9, 3.0), (1.0, 0.5)])
def test_a_lease_that_others_do_not_outlast_is_refused(down_after_s: float, grace_s: float) -> None:
    lan = LinkConfig.lan()
    links = LinkConfig(
        detect=type(lan.detect)(heartbeat_interval_s=0.2, down_after_s=down_after_s),
        failover_grace_s=grace_s,
    )
    plan = NodePlan("w", HOST, True, False, 1, links, RelaxedConfig())
    with pytest.raises(BadInput, match="doubt_after_s must be less than"):
        make_stack(plan, Registry())
    AgreedConfig.wan().fitted(links).check_lease(links)


def test_a_lease_counts_from_the_question_and_not_from_the_answer() -> None:
    lease = BranchLease(0.75)
    question = lease.ask(10.0)
    assert lease.given(LeaseGiven(question.number, (9_000, 200)))
    assert (lease.ends_at(0), lease.ends_at(1), lease.ends_at(2)) == (10.75, 10.2, NEVER)
    assert not lease.given(LeaseGiven(99, (9_000,)))  # which was not asked


def test_a_lease_is_not_prolonged_by_a_clock_that_is_set_back() -> None:
    lease = BranchLease(0.75)
    lease.saw(10.0)
    lease.given(LeaseGiven(lease.ask(10.0).number, (750,)))
    lease.saw(4.0)
    assert lease.ends_at(0) == NEVER


ME, OTHER = ServerId(Domain("eu.fr"), 1), ServerId(Domain("eu.de"), 1)
OLD, LAST, TRIED, NEWER = (Pid(OTHER, number) for number in range(4))


@pytest.mark.spec("V-099")
@pytest.mark.parametrize(
    ("base", "tried", "counts"),
    [
        (LAST, (), True),
        (LAST, (TRIED,), True),  # which we acknowledged, too
        (LAST, (NEWER,), False),  # it may be committed with others
        (LAST, (TRIED, NEWER), False),
        (OLD, (NEWER,), True),  # it is behind: what it acknowledged there came with that
        (TRIED, (), True),  # it has committed what we acknowledged
        (TRIED, (NEWER,), False),
        (NEWER, (), False),  # it has committed what we do not know
    ],
)
def test_the_word_of_a_server_counts_if_we_know_all_that_it_did(
    base: Pid, tried: tuple[Pid, ...], counts: bool
) -> None:
    lease = SetLease()
    lease.committed(OLD)
    lease.committed(LAST)
    number = lease.questions.ask(10.0)
    assert lease.confirmed(OTHER, LeaseConfirmed(Domain("eu"), 1, number, base, tried), 0.75)

    alone_here = alone(ME)
    change = ServersFailed((OTHER,))
    view = SetView(1, LAST, (*alone_here.view.members, SetMember(OTHER, 0, 1)))
    proposal = Proposal(TRIED, 2, LAST, change, priority_of(change, view, TRIED))
    state = replace(alone_here, view=view, base=LAST, tried=(proposal,))
    assert lease.counted(state) == ({OTHER: 10.75} if counts else {})
    assert lease.counted(replace(state, isolated=frozenset([OTHER]))) == {}
    assert lease.counted(replace(state, view=alone_here.view)) == {}


def test_who_is_to_be_removed_gets_no_other_lease_and_is_removed_after_its_last_one() -> None:
    """Also after another replica took our place, which does not know whom we confirmed."""
    leases, other = GivenLeases(), ServerId(Domain("eu.de"), 1)
    assert leases.give(1.0, other, 0.75)
    assert leases.are_running(1.5, (other,), 1.0)
    assert not leases.give(1.6, other, 0.75)
    assert not leases.are_running(1.75, (other,), 1.0)
    leases.floor = 3.0
    assert leases.are_running(2.0, (other,), 1.0)


def test_a_host_that_is_back_does_not_live_by_a_view_told_before_the_core_set_knew_it() -> None:
    """The core-set may be removing its members: servers between lend their lease to all hosts."""
    group, mine = Group("all", Domain("world")), MemberId(Endpoint("paris.h1/ann#1"), (1, 1))
    plan = NodePlan("w", HOST, True, False, 1, LinkConfig.lan(), RelaxedConfig())
    agent = make_stack(plan, Registry())[AGREED_AGENT]
    id, members = (4, 0, Pid(ServerId(PARIS, 1), 6)), (AgreedMember(mine, 1),)
    agent.groups[group] = HostGroup(
        GroupKind(MembershipKind.AGREED, survive="primary"),
        {mine.endpoint: HostMember(StayInside(mine, b""))},
        AgreedView(*id, members),
    )
    told = ViewTold(group, (HOST,), id, None, members, fence=4)
    down = Because(HOST, PARIS, "silent")

    def given(now: float, *events: Event) -> list[object]:
        effects = [effect for event in events for effect in agent.step(now, event)]
        for asked in [each.message for each in effects if isinstance(each, Send)]:
            if isinstance(asked, LeaseAsked):
                effects += agent.step(now, Received(PARIS, LeaseGiven(asked.number, (750,))))
        return [type(each.item) for each in effects if isinstance(each, Deliver)]

    assert set(given(1.0, LinkUp(PARIS, 1), LinkDown(PARIS, down))) == {MemberBlocked}
    assert given(2.0, LinkUp(PARIS, 2), Received(PARIS, told)) == []
    (question,) = [each.message.question for each in agent.asked.values()]
    assert given(2.5, Received(PARIS, MemberAnswer(group, question))) == []
    assert given(3.0, Received(PARIS, told)) == [MemberView]


@pytest.mark.spec("V-099")
def test_what_a_server_in_doubt_lends_ends_before_its_doubt_does() -> None:
    """A server in doubt lends for its other groups. A host that has such a lease, and then hears that this
    group is back, by a confirmation that was late, lives no longer than the server. By `explore lease`."""
    model = LeaseModel(LeaseBounds(ticks=3, stops=0))
    a, b, host = range(3)
    world = model.initial()
    for act in (
        *(LeaseAct("tick"), LeaseAct("deliver", b, a), LeaseAct("deliver", a, b), LeaseAct("reset", b, a)),
        LeaseAct("tick"),
    ):
        world = model.apply(world, act)
    world, _ = model._happens(world._replace(now=2.5), host, TimerFired(ALARM))
    world = model.apply(world, LeaseAct("deliver", host, a))  # which asks for a lease, and gets one until 3.5
    world = model.apply(world, LeaseAct("deliver", b, a))  # and our own is confirmed until 3
    world = model.apply(world._replace(now=2), LeaseAct("tick"))
    while (act := LeaseAct("deliver", a, host)) in model.actions(world):
        world = model.apply(world, act)
        assert model.violations(world) == []


class LeaseStory:
    """Servers a, b and c, and a host below a; one more member joins below b."""

    def __init__(self, joins: int) -> None:
        self.model = LeaseModel(LeaseBounds(servers=3, ticks=9, stops=0, joins=joins))
        self.world = self.model.initial()

    def act(self, verb: str, *nodes: int) -> None:
        act = LeaseAct(verb, *nodes)
        assert act in self.model.actions(self.world)
        self.world = self.model.apply(self.world, act)
        assert self.model.violations(self.world) == []

    def flow(self, *nodes: int) -> None:
        """All messages among these arrive."""
        pairs = [(one, other) for one in nodes for other in nodes]
        while due := [each for each in pairs if LeaseAct("deliver", *each) in self.model.actions(self.world)]:
            self.act("deliver", *due[0])

    def lend_after(self, wait_s: float) -> None:
        """The host asks between the questions of its server, and gets a whole lease."""
        a, host, now = 0, 3, self.world.now
        at_s: Any = now + wait_s
        self.world, _ = self.model._happens(self.world._replace(now=at_s), host, TimerFired(ALARM))
        self.flow(a, host)

    def members_of(self, node: int) -> int:
        return len(self.model._numbers[self.world.nodes[node]].state.table.groups[LEDGER].view.ids)

    def servers_of(self, node: int) -> list[str]:
        return [each.server for each in self.model._numbers[self.world.nodes[node]].state.view.servers]


@pytest.mark.spec("V-099")
def test_a_join_after_which_fewer_live_alone_does_not_shorten_what_was_lent_before() -> None:
    """The group lived at a alone, and its host has a lease by that. With the member that joins, b lives
    without a as soon as its word to a has run out: which was before the host's lease had."""
    story, (a, b, c, host) = LeaseStory(joins=1), range(4)
    for _ in range(2):
        story.act("tick")
        story.flow(b, c)
        story.flow(a, b)  # c and a do not hear each other
        story.flow(a, host)
    story.lend_after(0.5)  # until 4.5
    story.act("join", b)
    for servers in ((a, b), (b, c), (a, b)):
        story.flow(*servers)
    assert story.members_of(c) == 3
    story.world = story.world._replace(now=2)
    story.act("tick")
    story.act("silent", c, a)
    for _ in range(3):
        story.flow(b, c)  # and a's word that it is in doubt does not come to the host
        story.act("tick")
    story.flow(b, c)
    assert story.servers_of(b) == ["eu.b", "eu.c"]


def test_joins_do_not_put_off_the_removal_of_a_server_that_waits_for_its_lease() -> None:
    """Each that it acknowledged would prolong its lease; so they come after."""
    story, (a, b, c, host) = LeaseStory(joins=2), range(4)
    story.act("tick")
    story.flow(a, b, c, host)
    story.act("reset", c, a)
    for _ in range(2):
        story.act("tick")
        story.act("join", b)
        story.flow(a, b, c, host)
    for _ in range(2):  # c asks b at once when its own word has run out, and b its own
        assert story.servers_of(b) == ["eu.a", "eu.b", "eu.c"]
        story.act("tick")
        story.flow(a, b, c, host)
    assert story.servers_of(b) == ["eu.b", "eu.c"]
    assert story.members_of(b) == 2
