"""The server of a cluster that agrees on groups: what hosts send it, message by message."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Ignored,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.stack import Stack
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.branch import (
    HostHolds,
    HostQuestion,
    LeaseAsked,
    MemberAsked,
    ViewTaken,
    ViewTold,
)
from rostra.protocols.agreed.changes import GroupChange, GroupVerb, MemberId, Pid, ServerId
from rostra.protocols.agreed.config import HOST_WAITING_MAX, QUEUE_MAX, TELL_AGAIN_S
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedMember
from rostra.protocols.agreed.holdings import RETURNING
from rostra.protocols.agreed.server import AGREED_SERVER, RESTORE, TELL_AGAIN
from rostra.protocols.agreed.server import LOST as HOSTS_LOST
from rostra.protocols.agreed.state import QueuedChange
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import MessageId, SyncDone
from rostra.protocols.relaxed.registry import Registry
from rostra.stacks import NodePlan, make_stack

PARIS = Domain("paris")
CHESS = Group("chess", PARIS)
UNREADABLE = GroupKind(MembershipKind.AGREED, survive="((")


def member(host: str, name: str = "ann", stamp: int = 1) -> MemberId:
    return MemberId(Endpoint(f"paris.{host}/{name}#1"), (1, stamp))


class Cluster:
    """Its server, and what these hosts send it."""

    def __init__(self, *hosts: str, incarnation: int = 1) -> None:
        plan = NodePlan("w", PARIS, False, True, incarnation, LinkConfig.lan(), RelaxedConfig())
        self.stack: Stack = make_stack(plan, Registry())
        self.now = 0.0
        self.questions = 0
        for host in hosts:
            self.stack.step(self.now, LinkUp(Domain(f"paris.{host}"), 1))

    def receive(self, host: str, message: object) -> Sequence[Effect]:
        return self.stack.step(self.now, Received(Domain(f"paris.{host}"), message))

    def synced(self, *hosts: str) -> None:
        for host in hosts:
            self.receive(host, SyncDone(MessageId(Domain(f"paris.{host}"), 1, 1)))

    def question(self, host: str) -> HostQuestion:
        self.questions += 1
        return HostQuestion(Domain(f"paris.{host}"), 1, self.questions)

    def asked(self, host: str, verb: GroupVerb, *ids: MemberId, kind: GroupKind = AGREED) -> Sequence[Effect]:
        members = tuple([AgreedMember(each, 0) for each in ids])
        return self.receive(host, MemberAsked(CHESS, self.question(host), verb, members, kind))

    @property
    def group(self) -> AgreedGroup:
        known = self.stack[AGREED_SERVER].sets[PARIS].table.get(CHESS)
        assert known is not None
        return known

    @property
    def slot(self) -> int:
        return self.stack[AGREED_SERVER].sets[PARIS].core.state.slot


NO_KINDS = [UNREADABLE, GroupKind(MembershipKind.AGREED, merge="size >"), GroupKind()]


@pytest.mark.parametrize("kind", NO_KINDS)
def test_a_join_with_a_rule_that_cannot_be_read_is_ignored_also_in_an_emptied_group(kind: GroupKind) -> None:
    paris = Cluster("h1")
    paris.synced("h1")
    paris.asked("h1", GroupVerb.JOIN, member("h1"))
    paris.asked("h1", GroupVerb.LEAVE, member("h1"))
    effects = paris.asked("h1", GroupVerb.JOIN, member("h1", "bob", 2), kind=kind)

    assert effects == [Ignored("MemberAsked", "no kind of an agreed group")]
    paris.asked("h1", GroupVerb.JOIN, member("h1", "eve", 3))
    assert (paris.group.kind, paris.group.view.ids) == (AGREED, (member("h1", "eve", 3),))


@pytest.mark.parametrize("kind", NO_KINDS)
def test_a_host_that_holds_a_group_of_no_kind_is_ignored(kind: GroupKind) -> None:
    paris = Cluster("h1")
    holds = (AgreedMember(member("h1"), 1),)
    id = (3, 0, Pid(ServerId(PARIS, 1), 1))
    effects = paris.receive("h1", HostHolds(CHESS, paris.question("h1"), holds, kind, id, holds))

    assert effects == [Ignored("HostHolds", "no kind of an agreed group")]
    paris.synced("h1")
    paris.asked("h1", GroupVerb.JOIN, member("h1", "bob", 2))
    assert paris.group.view.ids == (member("h1", "bob", 2),)


def test_where_the_scope_has_no_server_none_can_say_who_lives() -> None:
    """survive="primary" is refused there, and the answer says what to choose instead."""
    plan = NodePlan("w", PARIS, False, True, 1, LinkConfig.lan(), RelaxedConfig(), has_parent=False)
    stack, h1 = make_stack(plan, Registry()), Domain("paris.h1")
    stack.step(0.0, LinkUp(h1, 1))
    joining = (AgreedMember(member("h1"), 0),)
    kind = GroupKind(MembershipKind.AGREED, survive="primary")
    asked = MemberAsked(Group("all", Domain("world")), HostQuestion(h1, 1, 1), GroupVerb.JOIN, joining, kind)
    answers = [each.message for each in stack.step(60.0, Received(h1, asked)) if isinstance(each, Send)]
    assert [(each.code, 'survive="majority"' in each.why) for each in answers] == [("NOT_ALLOWED", True)]


def test_a_server_that_lost_its_state_removes_only_the_members_of_hosts_that_are_missing() -> None:
    """All others keep their order: they are not removed and let in again."""
    paris = Cluster("h1", "h2", incarnation=2)
    ids = (member("h2"), member("h1"), member("h3"))
    view = tuple([AgreedMember(each, number) for number, each in enumerate(ids, 1)])
    id = (3, 0, Pid(ServerId(PARIS, 1), 5))
    for mine in view[:2]:
        host = mine.id.endpoint.partition("/")[0].removeprefix("paris.")
        paris.receive(host, HostHolds(CHESS, paris.question(host), (mine,), AGREED, id, view, 0, ids))
        paris.synced(host)
    paris.now = 60.0
    paris.stack.step(paris.now, TimerFired(RESTORE))

    assert [(each.ids, each.failed) for each in paris.group.views] == [(ids, ()), (ids[:2], ids[2:])]


@pytest.mark.spec("V-097")
def test_a_view_that_a_host_has_not_confirmed_is_sent_again_as_a_whole() -> None:
    """A link's new epoch may have lost it, and what it is a difference from."""
    paris = Cluster("h1", "h2")
    paris.synced("h1", "h2")

    def views(effects: Sequence[Effect]) -> dict[str, ViewTold]:
        told = [each for each in effects if isinstance(each, Send) and isinstance(each.message, ViewTold)]
        return {each.to.removeprefix("paris."): each.message for each in told}

    def take(host: str, told: ViewTold) -> Sequence[Effect]:
        return paris.receive(host, ViewTaken(CHESS, Domain(f"paris.{host}"), told.id))

    first = views(paris.asked("h1", GroupVerb.JOIN, member("h1")))["h1"]
    take("h1", first)
    effects = paris.asked("h2", GroupVerb.JOIN, member("h2"))
    second = views(effects)
    assert set(second) == {"h1", "h2"} and second["h1"].base == first.id
    assert SetTimer(TELL_AGAIN, TELL_AGAIN_S) in effects
    assert take("h1", first) == [Ignored("ViewTaken", "of an older view")]
    take("h2", second["h2"])
    again = views(paris.stack.step(TELL_AGAIN_S, TimerFired(TELL_AGAIN)))
    assert set(again) == {"h1"}, "h2 has confirmed it"
    assert again["h1"].id == second["h1"].id and again["h1"].base is None
    assert CancelTimer(TELL_AGAIN) in take("h1", again["h1"])


def test_members_with_different_attachments_come_back_with_one_change_each() -> None:
    paris = Cluster("h1", "h2")
    paris.synced("h1", "h2")
    paris.asked("h2", GroupVerb.JOIN, member("h2"))
    before = paris.slot
    count = 300  # far more than a stack is deep, if one change were proposed within the other
    returning = [member("h1", f"m{number:03}", number) for number in range(count)]
    holds = tuple([AgreedMember(each, 0, str(each.stamp).encode()) for each in returning])
    paris.receive("h1", HostHolds(CHESS, paris.question("h1"), holds, AGREED))
    while paris.stack[AGREED_SERVER].returning:  # some of them in each turn
        paris.stack.step(paris.now, TimerFired(RETURNING))

    assert paris.group.view.ids == (member("h2"), *returning)
    assert paris.slot == before + count


def test_of_each_host_so_many_requests_wait_and_no_more() -> None:
    paris = Cluster("h1", "h2", "h3")
    holds = (AgreedMember(member("h1"), 1), AgreedMember(member("h2"), 1))
    id = (1, 0, Pid(ServerId(PARIS, 1), 1))
    paris.receive(
        "h1", HostHolds(CHESS, paris.question("h1"), holds[:1], AGREED, id, holds)
    )  # h2 is waited for
    for number in range(HOST_WAITING_MAX):
        assert paris.asked("h1", GroupVerb.JOIN, member("h1", "bob", number)) == []
    effects = paris.asked("h1", GroupVerb.JOIN, member("h1", "eve", HOST_WAITING_MAX))

    assert effects == [Ignored("MemberAsked", "too many requests of its host wait")]
    assert paris.asked("h3", GroupVerb.JOIN, member("h3")) == []


def test_a_request_that_finds_no_place_in_the_queue_leaves_nothing_behind() -> None:
    paris = Cluster("h1")
    paris.synced("h1")
    paris.asked("h1", GroupVerb.JOIN, member("h1"))
    part = paris.stack[AGREED_SERVER].sets[PARIS]
    change = GroupChange(CHESS, GroupVerb.LEAVE, (member("h1"),), "another")
    part.core.state = replace(part.core.state, queue=(QueuedChange(change),) * QUEUE_MAX)
    effects = paris.asked("h1", GroupVerb.JOIN, member("h1", "bob", 2))

    assert effects == [Ignored("MemberAsked", "too many changes wait")]
    assert not part.asked


@pytest.mark.parametrize(("number", "revision", "fence"), [(2**62, 0, 0), (1, 2**62, 0), (1, 0, 2**62)])
def test_numbers_that_no_group_comes_to_are_not_counted_on_from(
    number: int, revision: int, fence: int
) -> None:
    """The next ones would fit no message."""
    paris = Cluster("h1")
    holds = (AgreedMember(member("h1"), 1),)
    id = (number, revision, Pid(ServerId(PARIS, 1), 1))
    effects = paris.receive("h1", HostHolds(CHESS, paris.question("h1"), holds, AGREED, id, holds, fence))
    assert effects == [Ignored("HostHolds", "a view that no group comes to")]


LOST = Because(PARIS, Domain("paris.h3"), "silent")


def test_a_request_that_waits_is_lost_with_its_host() -> None:
    paris = Cluster("h1", "h2", "h3")
    holds = (AgreedMember(member("h1"), 1), AgreedMember(member("h2"), 1))
    id = (1, 0, Pid(ServerId(PARIS, 1), 1))
    paris.receive(
        "h1", HostHolds(CHESS, paris.question("h1"), holds[:1], AGREED, id, holds)
    )  # h2 is waited for
    paris.asked("h3", GroupVerb.JOIN, member("h3"))
    paris.stack.step(paris.now, LinkDown(Domain("paris.h3"), LOST))
    paris.now = 60.0
    paris.stack.step(paris.now, TimerFired(RESTORE))
    assert paris.group.view.ids == (member("h1"),)


@pytest.mark.parametrize("is_back", [False, True])
def test_a_member_whose_host_is_lost_while_it_joins_is_removed_unless_the_host_is_back(is_back: bool) -> None:
    paris = Cluster("h1", "h3")
    paris.synced("h1", "h3")
    paris.asked("h1", GroupVerb.JOIN, member("h1"))
    part = paris.stack[AGREED_SERVER].sets[PARIS]
    asked = MemberAsked(CHESS, paris.question("h3"), GroupVerb.JOIN, (AgreedMember(member("h3"), 0),), AGREED)
    part.asked[str(asked.question)] = asked  # as if other servers had still to acknowledge it
    paris.stack.step(paris.now, LinkDown(Domain("paris.h3"), LOST))
    if is_back:
        paris.stack.step(paris.now, LinkUp(Domain("paris.h3"), 1))
        paris.receive("h3", asked)
    else:
        change = GroupChange(CHESS, GroupVerb.JOIN, (member("h3"),), str(asked.question), kind=AGREED)
        paris.stack[AGREED_SERVER]._propose(paris.now, part, change, [])

    assert paris.group.views[2].joined == (member("h3"),)
    assert paris.group.view.ids == (member("h1"), *([member("h3")] if is_back else []))
    assert paris.group.view.failed == (() if is_back else (member("h3"),))


def test_a_join_that_is_done_when_another_agent_is_on_its_host_is_taken_back() -> None:
    """Storm 7007207 of shape views: nothing that the new agent says is about members of the one before."""
    paris = Cluster("h1", "h3")
    paris.synced("h1", "h3")
    paris.asked("h1", GroupVerb.JOIN, member("h1"))
    part = paris.stack[AGREED_SERVER].sets[PARIS]
    asked = MemberAsked(CHESS, paris.question("h3"), GroupVerb.JOIN, (AgreedMember(member("h3"), 0),), AGREED)
    part.asked[str(asked.question)] = asked  # as if other servers had still to acknowledge it
    paris.stack.step(paris.now, LinkDown(Domain("paris.h3"), LOST))
    paris.stack.step(paris.now, LinkUp(Domain("paris.h3"), 2))
    later = MemberId(Endpoint("paris.h3/bob#2"), (2, 1))
    question = HostQuestion(Domain("paris.h3"), 2, 1)
    paris.receive("h3", MemberAsked(CHESS, question, GroupVerb.JOIN, (AgreedMember(later, 0),), AGREED))
    change = GroupChange(CHESS, GroupVerb.JOIN, (member("h3"),), str(asked.question), kind=AGREED)
    paris.stack[AGREED_SERVER]._propose(paris.now, part, change, [])

    assert paris.group.views[3].joined == (member("h3"),)
    assert paris.group.view.ids == (member("h1"), later)
    assert paris.group.view.failed == (member("h3"),)


def test_a_host_that_is_back_before_it_is_given_up_gets_no_view_until_it_says_what_it_holds() -> None:
    """Storm 40005391 of shape views: else it misses those that follow, if its members are removed."""
    paris = Cluster("h1", "h2", "h3")
    paris.synced("h1", "h2", "h3")
    for host in ("h1", "h3"):
        paris.asked(host, GroupVerb.JOIN, member(host))
    had = paris.group.view.id
    paris.stack.step(paris.now, LinkDown(Domain("paris.h3"), LOST))
    paris.stack.step(paris.now, LinkUp(Domain("paris.h3"), 1))

    def told(effects: Sequence[Effect]) -> list[Domain]:
        return [each.to for each in effects if isinstance(each, Send) and isinstance(each.message, ViewTold)]

    assert told(paris.asked("h2", GroupVerb.JOIN, member("h2"))) == ["paris.h1", "paris.h2"]
    holds = HostHolds(CHESS, paris.question("h3"), (AgreedMember(member("h3"), 0),), AGREED, had)
    assert told(paris.receive("h3", holds)) == ["paris.h3"]
    paris.now = 0.6
    paris.stack.step(paris.now, TimerFired(HOSTS_LOST))
    assert paris.group.view.ids == (member("h1"), member("h3"), member("h2"))


def test_a_member_that_asked_to_join_again_is_not_removed_while_its_host_has_a_lease() -> None:
    """Its join was done, and the answer got lost: it lives, and is no member that only comes."""
    paris = Cluster("h1", "h3")
    paris.synced("h1", "h3")
    for host in ("h1", "h3"):
        paris.asked(host, GroupVerb.JOIN, member(host))
    paris.receive("h3", LeaseAsked(1))
    part = paris.stack[AGREED_SERVER].sets[PARIS]
    again = MemberAsked(CHESS, paris.question("h3"), GroupVerb.JOIN, (AgreedMember(member("h3"), 0),), AGREED)
    part.asked[str(again.question)] = again  # as if other servers had still to acknowledge it
    paris.stack.step(paris.now, LinkDown(Domain("paris.h3"), replace(LOST, what="ended by peer")))
    paris.now = 0.6
    paris.stack.step(paris.now, TimerFired(HOSTS_LOST))
    paris.asked("h1", GroupVerb.JOIN, member("h1", "bob", 2))
    assert paris.group.view.ids == (member("h1"), member("h3"), member("h1", "bob", 2))

    paris.now = 1.1
    paris.stack.step(paris.now, TimerFired(HOSTS_LOST))
    assert paris.group.view.ids == (member("h1"), member("h1", "bob", 2))
