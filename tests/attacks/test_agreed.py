"""Agreed groups: hosts and servers that lie about views, numbers, leases and others' members, and floods."""

from collections.abc import Sequence

import pytest

from rostra.core.effects import Effect, Ignored, LinkUp, Received, Send, TimerFired
from rostra.core.stack import Stack
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.branch import (
    ConfirmAsked,
    HostHolds,
    HostQuestion,
    LeaseAsked,
    LeaseConfirmed,
    LeaseGiven,
    MemberAnswer,
    MemberAsked,
    ViewId,
    ViewTold,
)
from rostra.protocols.agreed.changes import GroupVerb, MemberId, Pid, ServerId
from rostra.protocols.agreed.config import EMPTIED_MAX, HOST_GROUPS_MAX, HOST_QUEUE_MAX
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedMember
from rostra.protocols.agreed.server import AGREED_SERVER, RESTORE
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import MessageId, SyncDone
from rostra.protocols.relaxed.registry import Registry
from rostra.stacks import NodePlan, make_stack

PARIS = Domain("eu.fr")
CHESS = Group("chess", PARIS)
WIDE = Group("wide", Domain("eu"))
MAJORITY = GroupKind(MembershipKind.AGREED, survive="majority")


def member(host: str, name: str = "ann", stamp: int = 1) -> MemberId:
    return MemberId(Endpoint(f"eu.fr.{host}/{name}#1"), (1, stamp))


class Cluster:
    """The server of a cluster, which is what is attacked."""

    def __init__(self, *neighbours: str) -> None:
        plan = NodePlan("w", PARIS, False, True, 1, LinkConfig.lan(), RelaxedConfig())
        self.stack: Stack = make_stack(plan, Registry())
        self.now, self.number = 0.0, 0
        for peer in neighbours:
            self.stack.step(self.now, LinkUp(Domain(peer), 1))
            if peer.startswith("eu.fr."):
                self.receive(peer, SyncDone(MessageId(Domain(peer), 1, 1)))

    def receive(self, peer: str, message: object) -> Sequence[Effect]:
        return self.stack.step(self.now, Received(Domain(peer), message))

    def question(self, host: str) -> HostQuestion:
        self.number += 1
        return HostQuestion(Domain(f"eu.fr.{host}"), 1, self.number)

    def join(self, host: str, name: str, group: Group = CHESS, kind: GroupKind = AGREED) -> Sequence[Effect]:
        joining = (AgreedMember(member(host, name, self.number + 1), 0),)
        message = MemberAsked(group, self.question(host), GroupVerb.JOIN, joining, kind)
        return self.receive(f"eu.fr.{host}", message)

    def group(self, group: Group = CHESS) -> AgreedGroup | None:
        part = self.stack[AGREED_SERVER].sets.get(group.scope)
        return None if part is None else part.table.get(group)


def ignored(effects: Sequence[Effect]) -> list[str]:
    return [each.why for each in effects if isinstance(each, Ignored)]


@pytest.mark.parametrize("verb", [GroupVerb.JOIN, GroupVerb.LEAVE, GroupVerb.FAIL])
def test_a_host_asks_for_no_member_of_another_host(verb: GroupVerb) -> None:
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    paris.join("h2", "bob")
    theirs = paris.group().view.members
    for question in (paris.question("h1"), paris.question("h2")):
        effects = paris.receive("eu.fr.h1", MemberAsked(CHESS, question, verb, theirs, AGREED))
        assert ignored(effects)
    assert paris.group().view.members == theirs


@pytest.mark.parametrize("verb", [GroupVerb.CREATE, GroupVerb.DELETE, GroupVerb.ATTRIBUTES])
def test_a_host_asks_for_nothing_but_its_members_coming_and_going(verb: GroupVerb) -> None:
    paris = Cluster("eu.fr.h1")
    paris.join("h1", "ann")
    asked = MemberAsked(CHESS, paris.question("h1"), verb, paris.group().view.members, AGREED)
    assert ignored(paris.receive("eu.fr.h1", asked)) == ["not for a host to ask"]


def test_a_host_makes_no_group_of_nobody() -> None:
    paris = Cluster("eu.fr.h1")
    asked = MemberAsked(CHESS, paris.question("h1"), GroupVerb.JOIN, (), AGREED)
    assert ignored(paris.receive("eu.fr.h1", asked)) == ["a change of nobody"]
    theirs = (AgreedMember(member("h2"), 1),)
    id = (9, 0, Pid(ServerId(PARIS, 1), 9))
    paris.receive(
        "eu.fr.h1", HostHolds(CHESS, paris.question("h1"), (), AGREED, id, theirs, 7, (theirs[0].id,))
    )
    assert paris.group() is None and not paris.stack[AGREED_SERVER].restoring


def restored(*said: tuple[str, ViewId, tuple[AgreedMember, ...]]) -> AgreedGroup:
    """A group at a server that lost it, as these hosts say that it is."""
    paris = Cluster()
    for host, id, view in said:
        paris.stack.step(0.0, LinkUp(Domain(f"eu.fr.{host}"), 1))
        own = tuple([each for each in view if each.id.endpoint.startswith(f"eu.fr.{host}/")])
        paris.receive(f"eu.fr.{host}", HostHolds(CHESS, paris.question(host), own, AGREED, id, view))
        paris.receive(f"eu.fr.{host}", SyncDone(MessageId(Domain(f"eu.fr.{host}"), 1, 1)))
    paris.now = 60.0
    paris.stack.step(paris.now, TimerFired(RESTORE))
    known = paris.group()
    assert known is not None
    return known


def test_one_host_that_lies_does_not_put_its_view_in_the_place_of_the_others() -> None:
    """C2: nor does it lead them, whatever number it says. The number goes on above."""
    ids = [member("h1"), member("h2"), member("h3")]
    true = tuple([AgreedMember(each, number) for number, each in enumerate(ids, 1)])
    false = (AgreedMember(ids[2], 0),)
    pid = Pid(ServerId(PARIS, 1), 5)
    known = restored(("h1", (3, 0, pid), true), ("h2", (3, 0, pid), true), ("h3", (900, 0, pid), false))
    assert known.view.ids == tuple(ids) and known.view.number > 900


@pytest.mark.parametrize("host", ["us.ny.h1", "eu.de.h1", "eu"])
def test_a_host_that_lists_a_member_from_outside_the_scope_does_not_stop_the_server(host: str) -> None:
    """The way from that host up to the set has no end."""
    stranger = MemberId(Endpoint(f"{host}/eve#1"), (1, 1))
    known = restored(("h1", (3, 0, None), (AgreedMember(member("h1"), 1), AgreedMember(stranger, 2))))
    assert member("h1") in known.view.ids


def test_a_view_without_a_proposal_is_compared_with_others() -> None:
    """It was no number to compare with one: the server would have died of it."""
    true = (AgreedMember(member("h1"), 1), AgreedMember(member("h2"), 2))
    known = restored(("h1", (3, 0, Pid(ServerId(PARIS, 1), 5)), true), ("h2", (3, 0, None), true))
    assert set(known.view.ids) == {each.id for each in true}


def test_a_host_that_asks_for_a_thousand_changes_does_not_keep_the_others_waiting() -> None:
    """In a set that waits for a server, nothing is done; then those of all hosts are, in turn."""
    paris = Cluster("eu.fr.h1", "eu.fr.h2", "eu.de", "eu")
    server = paris.stack[AGREED_SERVER]
    paris.now = 60.0
    for number in range(4 * HOST_QUEUE_MAX):
        paris.join("h1", f"m{number}", WIDE)
    part = server.sets[WIDE.scope]
    paris.now = 120.0  # the set goes on without those that do not answer
    paris.join("h1", "first", WIDE)
    part.asked.update({f"busy {number}": part_request(paris, number) for number in range(HOST_QUEUE_MAX)})
    before = len(part.core.state.queue)
    paris.join("h1", "more", WIDE)
    assert len(part.core.state.queue) == before and part.behind
    paris.join("h2", "bob", WIDE)
    assert Domain("eu.fr.h2") not in part.behind


def part_request(paris: Cluster, number: int) -> MemberAsked:
    joining = (AgreedMember(member("h1", f"b{number}", number), 0),)
    return MemberAsked(WIDE, paris.question("h1"), GroupVerb.JOIN, joining, AGREED)


def test_a_host_is_in_so_many_groups_and_no_more() -> None:
    """C3."""
    paris = Cluster("eu.fr.h1")
    for number in range(HOST_GROUPS_MAX):
        paris.join("h1", "ann", Group(f"g{number}", PARIS))
    effects = paris.join("h1", "ann", Group("more", PARIS))
    answers = [each.message for each in effects if isinstance(each, Send)]
    assert [each.code for each in answers if isinstance(each, MemberAnswer)] == ["TOO_LARGE"]
    assert paris.group(Group("more", PARIS)) is None
    held = (AgreedMember(member("h1", "eve"), 0),)
    more = HostHolds(Group("held", PARIS), paris.question("h1"), held, AGREED)
    assert ignored(paris.receive("eu.fr.h1", more)) == ["too many groups of one host"]


def test_groups_that_nobody_is_in_any_more_are_forgotten_and_their_fences_are_not() -> None:
    paris = Cluster("eu.fr.h1")
    for number in range(EMPTIED_MAX + 1):
        group = Group(f"g{number}", PARIS)
        paris.join("h1", "ann", group, MAJORITY)
        known = paris.group(group)
        leave = MemberAsked(group, paris.question("h1"), GroupVerb.LEAVE, known.view.members, MAJORITY)
        last = known.living.fence
        paris.receive("eu.fr.h1", leave)
    assert len(paris.stack[AGREED_SERVER].sets[PARIS].table.groups) == 0
    paris.join("h1", "ann", Group("g0", PARIS), MAJORITY)
    assert paris.group(Group("g0", PARIS)).living.fence > last


@pytest.mark.parametrize("peer", ["eu.de", "eu", "eu.fr.h1"])
def test_a_lease_is_given_to_children_and_confirmed_to_servers_of_the_set(peer: str) -> None:
    paris = Cluster("eu.fr.h1", "eu.de", "eu")
    asked = paris.receive(peer, LeaseAsked(1))
    assert bool(ignored(asked)) == (peer != "eu.fr.h1")
    assert ignored(paris.receive(peer, ConfirmAsked(Domain("eu"), 1, 1))) == ["not in our set"]
    assert ignored(paris.receive(peer, LeaseGiven(1, (10**9,)))) == ["nothing waits for it"]
    confirmed = LeaseConfirmed(Domain("eu"), 1, 1, Pid(ServerId(PARIS, 1), 1))
    assert ignored(paris.receive(peer, confirmed)) == ["nothing waits for it"]


@pytest.mark.parametrize("peer", ["eu.fr.h1", "eu.de"])
def test_views_of_a_group_come_from_its_core_set_alone(peer: str) -> None:
    paris = Cluster("eu.fr.h1", "eu.fr.h2", "eu.de", "eu")
    group = Group("all", Domain("world"))
    told = ViewTold(group, (Domain("eu.fr.h2"),), (9, 0, Pid(ServerId(PARIS, 1), 1)), None, ())
    effects = paris.receive(peer, told)
    assert ignored(effects) and not any(isinstance(each, Send) for each in effects)
