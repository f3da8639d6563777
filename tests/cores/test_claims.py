"""Claims: the first kind that a scope's server is asked for is the group's, until its last member leaves."""

from typing import Any

import pytest
from msgspec.structs import replace

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Event,
    Ignored,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Received,
    Secure,
    Send,
    SetTimer,
    Tell,
    TimerFired,
)
from rostra.core.records import KeyedRecord, Records
from rostra.core.stack import Stack
from rostra.errors import NotAvailable
from rostra.groups.kinds import FIFO, PLAIN, DeliveryKind, GroupKind, MembershipKind
from rostra.groups.members import Because, Cause, Member
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.claims import server as claim_server
from rostra.protocols.claims import table as claim_table
from rostra.protocols.claims.agent import AGAIN, ClaimAgent, JoinClaimed
from rostra.protocols.claims.config import ASK_TIMES_MAX, GONE_S
from rostra.protocols.claims.messages import Claim, ClaimAnswer, ClaimBegun, ClaimReleased
from rostra.protocols.claims.server import GONE, LOST, ClaimRefused, ClaimServer
from rostra.protocols.claims.table import ClaimTable
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.messages import EndpointsJoined, Interest, MessageId, ResolveReply
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Denied, Done, Join, Leave, Open, PutOut, Register, Unregister

EU, FR, DE = Domain("eu"), Domain("eu.fr"), Domain("eu.de")
H1, H2 = Domain("eu.fr.h1"), Domain("eu.fr.h2")
CHESS, WORLDWIDE = Group("chess", EU), Group("chess", ROOT)
ATOMIC = GroupKind(MembershipKind.AGREED, DeliveryKind.ATOMIC)
ON_DISK = GroupKind(MembershipKind.AGREED, DeliveryKind.ATOMIC, stable="disk", survive="majority")
AGREED, LED = GroupKind(MembershipKind.AGREED), GroupKind(MembershipKind.LED)
SILENT = Because(FR, H1, "silent")


def an_id(server: str = "eu.fr.h1", sequence: int = 1) -> MessageId:
    return MessageId(Domain(server), 7, sequence)


def claim(host: str, kind: GroupKind = ATOMIC, group: Group = CHESS) -> Claim:
    return Claim(an_id(host), Domain(host), group, kind)


def released(host: str, group: Group = CHESS) -> ClaimReleased:
    return ClaimReleased(an_id(host, 2), Domain(host), group)


class Server:
    def __init__(self, domain: str, *up: str, cluster: bool = False, has_parent: bool = True) -> None:
        self.registry = Registry()
        self.claims = ClaimServer(Domain(domain), self.registry, has_parent=has_parent)
        core = DomainServer(Domain(domain), cluster=cluster, incarnation=7, registry=self.registry)
        self.stack = Stack(self.claims, core)
        for peer in up:
            self.step(LinkUp(Domain(peer), 1))

    def step(self, event: Event) -> list[Effect]:
        return [each for each in self.stack.step(0.0, event) if not isinstance(each, Noted | ClaimRefused)]

    def hears(self, sender: str, message: Any) -> list[Effect]:
        return self.step(Received(Domain(sender), message))

    def answer(self, sender: str, message: Any) -> ClaimAnswer:
        """The last thing that it does is to answer; and all before it is to be secured."""
        *before, last = self.hears(sender, message)
        assert all(isinstance(effect, Secure) for effect in before), before
        assert isinstance(last, Send) and last.to == sender and isinstance(last.message, ClaimAnswer)
        assert last.message.id == message.id
        return last.message


# At the server of the scope


def test_the_first_claim_wins_and_another_kind_is_told_which() -> None:
    eu = Server("eu", "eu.fr", "eu.de")
    first = eu.answer("eu.fr", claim("eu.fr.h1"))
    assert (first.group_kind, first.code) == (ATOMIC, "") and first.birth == 1
    assert eu.answer("eu.de", claim("eu.de.h1", AGREED)).group_kind == ATOMIC
    same = eu.answer("eu.de", claim("eu.de.h1"))
    assert (same.group_kind, same.birth) == (ATOMIC, 1)
    assert [record.key for record in eu.registry.own.under("")] == [
        "claim/chess",
        "hold/eu.de.h1/chess",
        "hold/eu.fr.h1/chess",
    ]


def test_nothing_is_answered_before_what_it_rests_on_is_secured() -> None:
    eu = Server("eu", "eu.fr", "eu.de")
    *secured, _ = eu.hears("eu.fr", claim("eu.fr.h1"))
    assert [each.record.key for each in secured if isinstance(each, Secure)] == [
        "claim/chess",
        "hold/eu.fr.h1/chess",
    ]
    *secured, _ = eu.hears("eu.de", claim("eu.de.h1", AGREED))
    assert [each.record.key for each in secured if isinstance(each, Secure)] == ["claim/chess"]


def test_a_claim_is_forgotten_with_its_last_holder_and_its_birth_never_recurs() -> None:
    eu = Server("eu", "eu.fr", "eu.de")
    eu.hears("eu.fr", claim("eu.fr.h1"))
    eu.hears("eu.de", claim("eu.de.h1"))
    assert eu.answer("eu.fr", released("eu.fr.h1")).group_kind == ATOMIC, "what stands"
    assert eu.answer("eu.fr", claim("eu.fr.h1", LED)).group_kind == ATOMIC, "one host still has members"
    assert eu.answer("eu.de", released("eu.de.h1")).group_kind is None
    assert len(eu.registry.own) == 0
    again = eu.answer("eu.fr", claim("eu.fr.h1", LED))
    assert again.group_kind == LED and again.birth > 1
    assert eu.answer("eu.de", released("eu.de.h1")).code == "", "twice is once"
    assert eu.claims.table.get("chess") is not None


def test_a_permanent_group_keeps_its_kind_until_it_is_permanent_no_more() -> None:
    eu = Server("eu", "eu.fr")
    eu.step(Asked(Endpoint(""), 1, Register(CHESS)))
    eu.hears("eu.fr", claim("eu.fr.h1"))
    eu.hears("eu.fr", released("eu.fr.h1"))
    assert eu.answer("eu.fr", claim("eu.fr.h2", LED)).group_kind == ATOMIC
    effects = eu.step(Asked(Endpoint(""), 2, Unregister(CHESS)))
    assert eu.claims.table.get("chess") is None
    assert [each.record.data for each in effects if isinstance(each, Secure)][-1] is None


def test_claims_survive_a_restart_and_a_takeover() -> None:
    eu = Server("eu", "eu.fr")
    eu.hears("eu.fr", claim("eu.fr.h1"))
    kept = eu.registry.own.all()
    table = ClaimTable(Records.of([kept]), 1)
    standing = table.get("chess")
    assert standing is not None and standing.group_kind == ATOMIC and set(standing.holders) == {H1}
    follower = Server("eu")
    follower.registry.own.replace(kept)
    standing = follower.claims.table.get("chess")
    assert standing is not None and standing.birth == 1


@pytest.mark.parametrize(
    "record",
    [
        KeyedRecord("claim/chess", 1, b""),
        KeyedRecord("claim/chess", 1, b"\xc1"),
        KeyedRecord("claim/chess", 1, b"\x91\xa6absurd"),
        KeyedRecord("claim/chess", 1, b"\x90"),  # relaxed, none: nothing to claim
        KeyedRecord("claim/no\nname", 1, b"\x91\xa3led"),
        KeyedRecord("hold/nobody", 1, b""),
        KeyedRecord("hold//chess", 1, b""),
        KeyedRecord("hold/eu.fr.h1/chess", 1, b""),
    ],
    ids=repr,
)
def test_records_that_cannot_be_read_are_no_claims(record: KeyedRecord) -> None:
    assert ClaimTable(Records.of([record]), 1).names() == []


# On the way


def test_a_claim_climbs_to_the_server_of_the_scope_and_its_answer_comes_down() -> None:
    fr = Server("eu.fr", "eu.fr.h1", "eu.de", "eu", cluster=True)
    message = claim("eu.fr.h1")
    assert fr.hears("eu.fr.h1", message) == [Send(EU, message)]
    answer = ClaimAnswer(message.id, H1, CHESS, ATOMIC, 5)
    assert fr.hears("eu", answer) == [Send(H1, answer)]


def test_a_scope_out_of_sight_is_answered_as_such() -> None:
    fr = Server("eu.fr", "eu.fr.h1", cluster=True)
    ignored, sent = fr.hears("eu.fr.h1", claim("eu.fr.h1"))
    assert isinstance(ignored, Ignored) and isinstance(sent, Send)
    assert (sent.message.code, sent.message.why) == ("UNREACHABLE", "eu.fr cannot reach eu")


def test_a_scope_without_a_server_is_not_one_to_ask_for_later() -> None:
    eu = Server("eu", "eu.fr", has_parent=False)
    *_, sent = eu.hears("eu.fr", claim("eu.fr.h1", group=Group("chess", ROOT)))
    assert isinstance(sent, Send) and sent.message.code == NotAvailable.code
    assert sent.message.why == "world has no server"


def test_a_host_that_is_gone_has_left() -> None:
    fr = Server("eu.fr", "eu.fr.h1", "eu", cluster=True)
    fr.hears("eu.fr.h1", claim("eu.fr.h1"))
    fr.hears("eu.fr.h1", claim("eu.fr.h1", group=Group("here", FR)))
    down = fr.step(LinkDown(H1, SILENT))
    assert not any(isinstance(each, Secure) for each in down), "notices of the loss wait for no replica"
    (release,) = sent(down, ClaimReleased)
    assert (release.claimer, release.group) == (H1, CHESS)
    assert [type(each) for each in fr.step(TimerFired(LOST))] == [Secure, Secure]
    assert fr.claims.table.names() == []
    assert [each.group for each in sent(fr.step(LinkMoved(EU, 2)), ClaimReleased)] == [CHESS]
    assert fr.hears("eu", ClaimAnswer(release.id, H1, CHESS)) == []
    assert fr.claims.gone == {}


def test_a_domain_that_is_out_of_sight_has_not_left() -> None:
    eu = Server("eu", "eu.fr", "eu.de")
    eu.hears("eu.fr", claim("eu.fr.h1"))
    eu.step(LinkDown(FR, SILENT))
    assert eu.answer("eu.de", claim("eu.de.h1", LED)).group_kind == ATOMIC


# Who is believed


@pytest.mark.parametrize(
    ("sender", "message", "why"),
    [
        ("eu.fr", claim("eu.de.h1"), "source outside the sender's side"),
        ("eu.fr", claim("us.ny.h1"), "source outside the sender's side"),
        ("eu.fr", released("eu.de.h1"), "source outside the sender's side"),
        ("us", claim("us.ny.h1"), "source outside the sender's side"),
        ("world", claim("us.ny.h1"), "source outside the sender's side"),
        ("eu.fr", claim("eu.fr.h1", group=Group("chess", FR)), "out of scope"),
        ("eu.fr", claim("eu.fr.h1", group=Group("chess", Domain("us"))), "out of scope"),
        ("eu.fr", claim("eu.fr.h1", FIFO), "nothing to claim"),
        ("eu.fr", claim("eu.fr.h1", PLAIN), "nothing to claim"),
        ("eu.it", claim("eu.it.h1"), "sender is not connected"),
        ("eu.fr", ClaimAnswer(an_id(), H1, WORLDWIDE, LED, 1), "source outside the sender's side"),
        ("us", ClaimAnswer(an_id(), H1, WORLDWIDE, LED, 1), "source outside the sender's side"),
        ("world", ClaimAnswer(an_id(), H1, CHESS, LED, 1), "source outside the sender's side"),
        ("world", ClaimAnswer(an_id(), Domain("us.ny.h1"), WORLDWIDE, LED, 1), "off the unique path"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_a_neighbour_speaks_for_what_is_behind_it_and_for_nothing_else(
    sender: str, message: Any, why: str
) -> None:
    eu = Server("eu", "eu.fr", "eu.de", "us", "world")
    eu.hears("eu.de", claim("eu.de.h1"))
    before = eu.registry.own.all()
    assert eu.hears(sender, message) == [Ignored(type(message).__name__, why)]
    assert eu.registry.own.all() == before


def test_a_scope_a_child_and_a_host_have_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_table, "CLAIMS_MAX", 3)
    monkeypatch.setattr(claim_table, "CLAIMS_OF_CHILD_MAX", 2)
    monkeypatch.setattr(claim_server, "CLAIMS_OF_HOST_MAX", 2)
    eu = Server("eu", "eu.fr", "eu.de")
    groups = [Group(f"g{number}", EU) for number in range(6)]
    codes = [eu.answer("eu.fr", claim("eu.fr.h1", group=group)).code for group in groups[:3]]
    assert codes == ["", "", "TOO_LARGE"]
    assert eu.answer("eu.fr", claim("eu.fr.h1", group=groups[0])).code == "", "what it holds it may renew"
    assert eu.answer("eu.de", claim("eu.de.h1", group=groups[3])).code == ""
    assert eu.answer("eu.de", claim("eu.de.h1", group=groups[4])).code == "TOO_LARGE", "the scope is full"
    eu.hears("eu.fr", released("eu.fr.h1", groups[0]))
    assert eu.answer("eu.de", claim("eu.de.h1", group=groups[4])).code == ""

    fr = Server("eu.fr", "eu.fr.h1", "eu", cluster=True)
    for group in groups[:2]:
        assert isinstance(fr.hears("eu.fr.h1", claim("eu.fr.h1", group=group))[0].message, Claim)
    assert fr.answer("eu.fr.h1", claim("eu.fr.h1", group=groups[2])).code == "TOO_LARGE"
    fr.hears("eu", ClaimAnswer(an_id(), H1, groups[0], LED, 1))  # another kind stands: it holds nothing there
    assert isinstance(fr.hears("eu.fr.h1", claim("eu.fr.h1", group=groups[2]))[0].message, Claim)


# At an agent


class Agent:
    def __init__(self, *, up: bool = True) -> None:
        self.registry = Registry()
        self.claims = ClaimAgent(H1, self.registry)
        self.stack = Stack(self.claims, LocalServer(H1, incarnation=7, registry=self.registry))
        self.token = 0
        if up:
            self.step(LinkUp(FR, 1))

    def step(self, event: Event) -> list[Effect]:
        return list(self.stack.step(0.0, event))

    def ask(self, me: Endpoint, request: Any) -> list[Effect]:
        self.token += 1
        return self.step(Asked(me, self.token, request))

    def open(self, name: str) -> Endpoint:
        (answer,) = self.ask(Endpoint(""), Open(name))
        return answer.result.endpoint

    def join(self, me: Endpoint, kind: GroupKind = ATOMIC, group: Group = CHESS) -> list[Effect]:
        self.token += 1
        return self.step(JoinClaimed(me, self.token, Join(group, group_kind=kind)))

    def hears(self, message: Any) -> list[Effect]:
        return self.step(Received(FR, message))

    def answered(self, asked: Claim | ClaimReleased, kind: GroupKind | None, **more: Any) -> list[Effect]:
        return self.hears(ClaimAnswer(asked.id, H1, asked.group, kind, 1, **more))

    def members(self, group: Group = CHESS) -> list[tuple[Endpoint, GroupKind | None]]:
        table = self.stack[AGENT].groups.get(group)
        return [] if table is None else [(each.endpoint, each.kind) for each in table.records()]


def sent(effects: list[Effect], kind: type) -> list[Any]:
    return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def answers(effects: list[Effect]) -> dict[int, Any]:
    return {each.token: each.result for each in effects if isinstance(each, Answer)}


def test_a_member_of_a_strong_kind_joins_when_its_claim_stands() -> None:
    agent = Agent()
    ann = agent.open("ann")
    (asked,) = sent(agent.join(ann), Claim)
    assert agent.members() == []
    effects = agent.answered(asked, ATOMIC)
    assert answers(effects) == {agent.token: Done()}
    assert agent.members() == [(ann, ATOMIC)]
    (told,) = sent(effects, EndpointsJoined)
    assert told.members[0].kind == ATOMIC
    bob = agent.open("bob")
    assert answers(agent.join(bob)) == {agent.token: Done()}, "this host has the claim"
    assert answers(agent.join(agent.open("eve"), LED))[agent.token].what == "chess@eu is agreed, atomic"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"order": "hub"}, "order='hub'"),
        ({"stable": "disk"}, "stable='disk'"),
        ({"survive": "majority"}, "survive='majority'"),
        ({"merge": "older"}, "merge='older'"),
        ({"within": "chess"}, "within='chess'"),
        ({"version": 2}, "version=2"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_refused_one_reads_in_what_the_group_is_another_kind(choice: dict[str, Any], said: str) -> None:
    """Kinds are compared whole, so a refusal names all that was chosen, and what to do once."""
    agent = Agent()
    (asked,) = sent(agent.join(agent.open("ann"), LED), Claim)
    refusal = answers(agent.answered(asked, replace(ATOMIC, **choice)))[agent.token]
    assert refusal.what == f"chess@eu is agreed, atomic, {said}"
    assert refusal.fix == "join it so, or choose another name"


def test_another_kind_is_refused_by_name() -> None:
    agent = Agent()
    (asked,) = sent(agent.join(agent.open("ann"), LED), Claim)
    effects = agent.answered(asked, ATOMIC)
    refusal = answers(effects)[agent.token]
    assert isinstance(refusal, Denied)
    assert (refusal.code, refusal.what) == ("NOT_ALLOWED", "chess@eu is agreed, atomic")
    assert agent.members() == [] and agent.claims.held == {} and not refusal.retriable


def test_two_kinds_that_one_host_asks_for_at_once_are_each_answered() -> None:
    agent = Agent()
    (asked,) = sent(agent.join(agent.open("ann"), LED), Claim)
    first = agent.token
    assert sent(agent.join(bob := agent.open("bob"), ATOMIC), Claim) == [], "one question at a time"
    second = agent.token
    effects = agent.answered(asked, ATOMIC)
    assert list(answers(effects)) == [first]
    (asked,) = sent(effects, Claim)
    assert answers(agent.answered(asked, ATOMIC)) == {second: Done()}
    assert agent.members() == [(bob, ATOMIC)]


@pytest.mark.parametrize(("code", "retriable"), [("UNREACHABLE", True), ("TOO_LARGE", False)])
def test_what_was_not_decided_is_told_as_such(code: str, retriable: bool) -> None:
    agent = Agent()
    (asked,) = sent(agent.join(agent.open("ann")), Claim)
    refusal = answers(agent.answered(asked, None, code=code, why="because"))[agent.token]
    assert (refusal.code, refusal.retriable) == (code, retriable)
    assert agent.claims.releasing == {}


def test_without_a_link_no_claim_can_be_made() -> None:
    agent = Agent(up=False)
    refusal = answers(agent.join(agent.open("ann")))[agent.token]
    assert refusal.code == "UNREACHABLE" and refusal.retriable


def test_a_claim_is_released_with_the_last_member_and_until_that_is_answered() -> None:
    agent = Agent()
    ann, bob = agent.open("ann"), agent.open("bob")
    (asked,) = sent(agent.join(ann), Claim)
    agent.answered(asked, ATOMIC)
    agent.join(bob)
    assert sent(agent.ask(ann, Leave(CHESS)), ClaimReleased) == []
    (release,) = sent(agent.step(EndpointGone(bob)), ClaimReleased)
    (again,) = sent(agent.step(TimerFired(AGAIN)), ClaimReleased)
    assert again.id != release.id
    agent.answered(release, None)
    assert agent.claims.releasing == {}, "an answer to the first is one to both"
    assert sent(agent.step(TimerFired(AGAIN)), ClaimReleased) == []


def test_a_claim_that_is_not_answered_is_repeated_given_up_and_released() -> None:
    agent = Agent()
    (asked,) = sent(agent.join(agent.open("ann")), Claim)
    for _ in range(ASK_TIMES_MAX - 1):
        assert len(sent(agent.step(TimerFired(AGAIN)), Claim)) == 1
    effects = agent.step(TimerFired(AGAIN))
    assert answers(effects)[agent.token].code == "UNREACHABLE"
    assert len(sent(effects, ClaimReleased)) == 1, "it may have counted"
    late = agent.answered(asked, ATOMIC)
    assert agent.members() == [] and Ignored("ClaimAnswer", "late reply") in late


def test_a_link_that_ends_leaves_a_claim_in_doubt_and_one_that_moved_asks_again() -> None:
    agent = Agent()
    agent.join(agent.open("ann"))
    (again,) = sent(agent.step(LinkMoved(FR, 2)), Claim)
    effects = agent.step(LinkDown(FR, SILENT))
    assert answers(effects)[agent.token].retriable
    assert sent(agent.step(LinkUp(FR, 3)), ClaimReleased) != []
    assert Ignored("ClaimAnswer", "late reply") in agent.answered(again, ATOMIC)


def test_a_host_that_comes_back_claims_again_and_puts_its_members_out_if_another_kind_stands() -> None:
    agent = Agent()
    ann = agent.open("ann")
    (asked,) = sent(agent.join(ann), Claim)
    agent.answered(asked, ATOMIC)
    agent.step(LinkDown(FR, SILENT))
    assert agent.members() == [(ann, ATOMIC)]
    (renewed,) = sent(agent.step(LinkUp(FR, 2)), Claim)
    assert agent.answered(renewed, None, code="UNREACHABLE", why="far") == [], "it asks again later"
    (renewed,) = sent(agent.step(TimerFired(AGAIN)), Claim)
    effects = agent.answered(renewed, LED)
    (told,) = [each for each in effects if isinstance(each, Tell) and isinstance(each.notice, PutOut)]
    assert told.endpoints == (ann,) and told.notice.refusal.what == "chess@eu is led, none"
    assert agent.members() == [] and agent.claims.held == {}


def test_a_group_of_one_host_is_claimed_there() -> None:
    agent, home = Agent(up=False), Group("home", H1)
    ann = agent.open("ann")
    effects = agent.join(ann, ATOMIC, home)
    assert [type(each) for each in effects[:2]] == [Secure, Secure] and answers(effects) == {
        agent.token: Done()
    }
    assert answers(agent.join(agent.open("bob"), LED, home))[agent.token].code == "NOT_ALLOWED"
    agent.ask(ann, Leave(home))
    assert answers(agent.join(ann, LED, home)) == {agent.token: Done()}


@pytest.mark.parametrize("strong_first", [True, False])
def test_a_weaker_member_that_meets_a_strong_one_is_put_out_in_both_orders(strong_first: bool) -> None:
    agent = Agent()
    weak, strong = agent.open("weak"), agent.open("strong")

    def join_strong() -> list[Effect]:
        (asked,) = sent(agent.join(strong), Claim)
        return agent.answered(asked, ATOMIC)

    if strong_first:
        join_strong()
        agent.ask(weak, Join(CHESS))
        entry = next(iter(agent.stack[AGENT].resolves.open.values()))
        effects = agent.hears(ResolveReply(entry.id, CHESS, (), Interest.NONE))
    else:
        agent.ask(weak, Join(CHESS))
        effects = join_strong()
    put_out = [each for each in effects if isinstance(each, Tell) and isinstance(each.notice, PutOut)]
    assert [each.endpoints for each in put_out] == [(weak,)]
    assert agent.members() == [(strong, ATOMIC)]


def test_a_strong_member_elsewhere_puts_a_weaker_one_out_if_the_server_of_the_scope_says_so() -> None:
    agent = Agent()
    weak = agent.open("weak")
    agent.ask(weak, Join(CHESS))
    far = Endpoint("eu.de.h1/far#1")

    def joins(kind: GroupKind | None) -> list[Any]:
        joined = EndpointsJoined(an_id("eu.fr"), CHESS, (Member(far, (1, 1), kind=kind),), Cause.JOIN)
        return sent(agent.hears(joined), ClaimReleased)

    assert joins(None) == joins(FIFO) == []
    (question,) = joins(ATOMIC)
    assert joins(ATOMIC) == [], "one question at a time"
    agent.answered(question, None)
    assert agent.members() == [(weak, None)], "a host that lies puts nobody out"
    (question,) = joins(ATOMIC)
    effects = agent.answered(question, LED)
    (told,) = [each for each in effects if isinstance(each, Tell) and isinstance(each.notice, PutOut)]
    assert told.endpoints == (weak,) and told.notice.refusal.what == "chess@eu is led, none"
    assert agent.members() == []


@pytest.mark.parametrize(
    ("sender", "message", "why"),
    [
        (EU, ClaimAnswer(an_id(), H1, CHESS, LED, 1), "not a neighbour"),
        (FR, ClaimAnswer(an_id(), H2, CHESS, LED, 1), "not a neighbour"),
        (FR, ClaimAnswer(an_id("eu"), H1, CHESS, LED, 1), "late reply"),
        (FR, ClaimAnswer(an_id(), H1, WORLDWIDE, LED, 1), "late reply"),
    ],
)
def test_an_answer_that_was_not_asked_for_changes_nothing(sender: Domain, message: Any, why: str) -> None:
    agent = Agent()
    ann = agent.open("ann")
    agent.join(ann)
    assert agent.step(Received(sender, message)) == [Ignored("ClaimAnswer", why)]
    assert agent.members() == []


# Of groups with a monitor of their own


MONITORED = GroupKind(MembershipKind.RELAXED, DeliveryKind.ATOMIC)


@pytest.mark.spec("A-082")
def test_a_host_that_holds_the_claim_alone_hears_it() -> None:
    eu = Server("eu", "eu.fr", "eu.de")
    assert eu.answer("eu.fr", claim("eu.fr.h1", MONITORED)).alone
    assert not eu.answer("eu.de", claim("eu.de.h1", MONITORED)).alone
    assert eu.answer("eu.fr", released("eu.fr.h1")).group_kind == MONITORED
    assert eu.answer("eu.de", claim("eu.de.h1", MONITORED)).alone


@pytest.mark.parametrize(("end", "kept"), [("back", True), ("another life", False), ("120 s", False)])
def test_a_lost_host_holds_its_claim_until_it_cannot_be_in_the_group(end: str, kept: bool) -> None:
    """It may be with the others behind a cut from its server; with other kinds its members are given up."""
    fr = Server("eu.fr", "eu.fr.h1", "eu.fr.h2", cluster=True)
    local, other = Group("local", Domain("eu.fr")), Group("other", Domain("eu.fr"))
    fr.hears("eu.fr.h1", claim("eu.fr.h1", MONITORED, local))
    fr.hears("eu.fr.h1", claim("eu.fr.h1", ATOMIC, other))
    down = fr.step(LinkDown(H1, SILENT))
    assert SetTimer(("claims", GONE, H1), GONE_S) in down
    fr.step(TimerFired(LOST))
    assert fr.claims.table.get("local") is not None and fr.claims.table.get("other") is None
    assert not fr.answer("eu.fr.h2", claim("eu.fr.h2", MONITORED, local)).alone
    fr.hears("eu.fr.h2", released("eu.fr.h2", local))
    fr.step(TimerFired(("claims", GONE, H1)) if end == "120 s" else LinkUp(H1, 7 if end == "back" else 8))
    fr.step(TimerFired(LOST))
    assert (fr.claims.table.get("local") is not None) is kept


@pytest.mark.parametrize(("life", "kept"), [(1, True), (2, False)])
def test_the_same_of_a_wider_scope_at_the_server_of_the_cluster(life: int, kept: bool) -> None:
    fr = Server("eu.fr", "eu", "eu.fr.h1", cluster=True)
    fr.hears("eu.fr.h1", claim("eu.fr.h1", MONITORED))
    assert not _released(fr.step(LinkDown(H1, SILENT)))
    assert _released(fr.step(LinkUp(H1, life))) == ([] if kept else [CHESS])


def _released(effects: list[Effect]) -> list[Group]:
    sent = [each.message for each in effects if isinstance(each, Send)]
    return [each.group for each in sent if isinstance(each, ClaimReleased)]


def test_a_host_that_does_not_come_back_to_a_server_that_restarted_is_given_up_as_well() -> None:
    before = Server("eu.fr", "eu.fr.h1", cluster=True)
    local = Group("local", Domain("eu.fr"))
    before.hears("eu.fr.h1", claim("eu.fr.h1", MONITORED, local))
    fr = Server("eu.fr", cluster=True)
    fr.registry.own.replace(before.registry.own.all())
    assert fr.step(LinkUp(Domain("eu.fr.h2"), 1)) == [SetTimer(("claims", GONE, H1), GONE_S)]
    fr.step(TimerFired(("claims", GONE, H1)))
    fr.step(TimerFired(LOST))
    assert fr.claims.table.get("local") is None


# Orders on disk


def begun(host: str, order: str) -> ClaimBegun:
    return ClaimBegun(an_id(host), Domain(host), CHESS, order)


def test_of_the_orders_of_a_group_the_first_is_recorded_and_answers_rest_on_that() -> None:
    eu = Server("eu", "eu.fr", "eu.de")
    first = eu.answer("eu.fr", claim("eu.fr.h1", ON_DISK))
    assert (first.made, first.begun) == (True, "")
    assert [type(each) for each in eu.hears("eu.de", begun("eu.de.h1", "other"))] == [Ignored], "no holder"
    eu.hears("eu.fr", begun("eu.fr.h1", "order"))
    *secured, _ = eu.hears("eu.fr", claim("eu.fr.h1", ON_DISK))
    keys = [each.record.key for each in secured if isinstance(each, Secure)]
    assert keys == ["claim/chess", "hold/eu.fr.h1/chess", "hold/eu/chess"]
    second = eu.answer("eu.de", claim("eu.de.h1", ON_DISK))
    eu.hears("eu.de", begun("eu.de.h1", "other"))
    again = eu.answer("eu.de", claim("eu.de.h1", ON_DISK))
    assert (second.made, second.begun, again.begun) == (False, "order", "order")


def test_without_room_at_the_scope_no_order_is_recorded_and_the_answer_says_so() -> None:
    eu = Server("eu", "eu.fr")
    eu.answer("eu.fr", claim("eu.fr.h1", ON_DISK))
    eu.registry.own.no_room = "full"
    eu.hears("eu.fr", begun("eu.fr.h1", "order"))
    assert eu.answer("eu.fr", claim("eu.fr.h1", ON_DISK)).begun == ""
    eu.registry.own.no_room = ""
    eu.hears("eu.fr", begun("eu.fr.h1", "order"))
    assert eu.answer("eu.fr", claim("eu.fr.h1", ON_DISK)).begun == "order"


def test_that_an_order_is_begun_is_repeated_until_it_is_recorded() -> None:
    agent = Agent()
    [asked] = sent(agent.join(agent.open("ann"), ON_DISK), Claim)
    agent.answered(asked, ON_DISK, made=True)
    assert agent.claims.made == {CHESS}
    agent.claims.begun[CHESS] = "order"
    effects = agent.claims.renew(CHESS)
    for _ in range(2 * ASK_TIMES_MAX):
        kinds = [type(each.message) for each in effects if isinstance(each, Send)]
        assert kinds == [ClaimBegun, Claim], "the answer to the claim says whether it is recorded"
        agent.answered(sent(effects, Claim)[0], ON_DISK)
        assert CHESS not in agent.claims.recorded
        effects = agent.step(TimerFired(AGAIN))
    agent.answered(sent(effects, Claim)[0], ON_DISK, begun="order")
    assert agent.claims.recorded == {CHESS: "order"}
    assert sent(agent.step(TimerFired(AGAIN)), Claim) == []


def test_a_host_out_of_sight_may_begin_nothing_before_it_has_asked_again() -> None:
    agent = Agent()
    [asked] = sent(agent.join(agent.open("ann"), ON_DISK), Claim)
    agent.answered(asked, ON_DISK, made=True)
    agent.step(LinkDown(FR, SILENT))
    assert agent.claims.made == set()
    [asked] = sent(agent.step(LinkUp(FR, 1)), Claim)
    agent.answered(asked, ON_DISK, made=True)
    assert agent.claims.made == {CHESS}
