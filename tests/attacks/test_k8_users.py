"""K8: the endpoints of one user, or the hosts of one cluster, take the room of others in led membership."""

from typing import Any

import pytest

from rostra.core.effects import Answer, Asked, Effect, EndpointGone, Ignored, LinkUp
from rostra.core.stack import Service, Stack
from rostra.groups.kinds import LED
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed import call_agent
from rostra.protocols.agreed.call_agent import CallAgent
from rostra.protocols.agreed.calls import GroupCall, LookAt
from rostra.protocols.claims import agent as claim_agent
from rostra.protocols.claims.messages import Claim
from rostra.protocols.led import lists, queries, sequences, transient, wanted
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.lists import LedLists
from rostra.protocols.led.messages import AddedToSet, DeletedFromSet, ListAsked, ListTold, SequenceData
from rostra.protocols.led.requests import (
    ChangeSet,
    CloseSequence,
    CreateSet,
    DestroySet,
    OpenSequence,
    ResolveSet,
)
from rostra.protocols.led.state import AgentId
from rostra.protocols.led.transient import OwnedSet
from rostra.protocols.relaxed.events import SignpostsFound
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Absolute, Denied, Done, Open, Resolve
from rostra.protocols.scopes import foreign
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.foreign import ForeignAgent
from tests.attacks.test_k6_circuits import closed_member, invented, result, says, unanswered_query
from tests.cores.test_claims import ATOMIC, answers, sent
from tests.cores.test_claims import Agent as ClaimingAgent
from tests.cores.test_led_services import CHESS, DE, EU, FR, H1, H2
from tests.cores.test_led_transient import ANN, EVE, THEIRS, Owner, opened

MALLORY, BOB = "uid 1000", "uid 1001"


class Host(Owner):
    """An agent with programs of several users."""

    def endpoint(self, name: str, user: str) -> Endpoint:
        self.tokens += 1
        self.step(Asked(Endpoint(""), self.tokens, Open(name, user)))
        return self.local.names[name]

    def asks(self, me: Endpoint, request: Any) -> Any:
        self.tokens += 1
        answers = [
            each.result for each in self.step(Asked(me, self.tokens, request)) if isinstance(each, Answer)
        ]
        return answers[0] if answers else None

    def set_of(self, me: Endpoint) -> Group:
        return self.asks(me, CreateSet(EU, 5)).group


def is_refused(answer: object) -> bool:
    return isinstance(answer, Denied) and answer.code == "TOO_LARGE"


# Users of one host


def test_the_endpoints_of_one_user_share_what_they_may_have_of_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four programs of one user could fill what one of them could not."""
    monkeypatch.setattr(wanted, "HOSTS_MAX", 8)
    host = Host()
    programs = [host.endpoint(f"m{number}", MALLORY) for number in range(4)]
    sets = [host.set_of(each) for each in programs]
    taken = [
        host.asks(me, ChangeSet(group, add=invented(2, f"of{number}")))
        for number, (me, group) in enumerate(zip(programs, sets, strict=True))
    ]
    assert taken[:2] == [Done(), Done()] and is_refused(taken[2]) and is_refused(taken[3])
    assert "uid 1000" in taken[2].what and len(host.led.circuits.links) == 4
    again = ChangeSet(sets[1], add=(*invented(2, "of0"), Endpoint("eu.of1.h0/y#1")))
    assert host.asks(programs[1], again) == Done(), "hosts that it has already"

    bob = host.endpoint("bob", BOB)
    assert host.asks(bob, ChangeSet(host.set_of(bob), add=invented(2, "bobs"))) == Done()

    host.asks(programs[0], DestroySet(sets[0]))
    assert is_refused(host.asks(programs[2], ChangeSet(sets[2], add=invented(2, "of2")))), (
        "another names them"
    )
    host.step(EndpointGone(programs[1], "died"))
    assert host.asks(programs[2], ChangeSet(sets[2], add=invented(2, "of2"))) == Done()
    for each in (*programs, bob):
        host.step(EndpointGone(each, "died"))
    assert not host.led.wanted.hosts and not host.led.wanted._room.held and not host.led._needed()


def test_sets_and_sequences_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanted, "HOSTS_MAX", 4)
    host = Host(H2)
    assert host.asks(ANN, ChangeSet(host.set_of(ANN), add=invented(1))) == Done()
    number = opened(host, THEIRS, EVE, Endpoint("eu.fr.h1/bob#2"))
    assert host.led.wanted.hosts.keys() == {H2, "eu.no.h0"}, "our own takes no circuit"
    with pytest.raises(AssertionError):
        opened(host, THEIRS, *invented(1, "or"))
    assert not host.led.sequences._asking and host.led.sequences._open_of.taken == 1
    host.asks(ANN, CloseSequence(number))
    opened(host, THEIRS, *invented(1, "or"))


def test_a_user_leaves_sets_and_sequences_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transient, "SETS_MAX", 4)
    monkeypatch.setattr(sequences, "SEQUENCES_MAX", 4)
    host = Host(H2)
    m1, m2, bob = host.endpoint("m1", MALLORY), host.endpoint("m2", MALLORY), host.endpoint("bob", BOB)
    first, _ = host.set_of(m1), host.set_of(m2)
    assert is_refused(host.asks(m1, CreateSet(EU, 5))) and host.set_of(bob)
    host.asks(m1, DestroySet(first))
    assert host.set_of(m2)

    assert host.asks(m1, OpenSequence(THEIRS)) is None and host.asks(m2, OpenSequence(THEIRS)) is None
    assert is_refused(host.asks(m2, OpenSequence(THEIRS)))
    assert host.asks(bob, OpenSequence(THEIRS)) is None, "it is asked for"
    host.step(EndpointGone(m1, "died"))
    assert host.asks(m2, OpenSequence(THEIRS)) is None


def test_a_user_leaves_questions_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "QUERIES_MAX", 4)
    host = Host()
    m1, m2, bob = host.endpoint("m1", MALLORY), host.endpoint("m2", MALLORY), host.endpoint("bob", BOB)
    answers = [host.asks(each, ResolveSet(THEIRS)) for each in (m1, m2, m1, bob)]
    assert [isinstance(each, Denied) for each in answers] == [False, False, True, False]
    assert len(host.led.queries.open) == 3
    for number in list(host.led.queries.open):
        host.receive(H2, ListTold(THEIRS, number, leading=False))
    assert not host.led.queries.open and not host.led.queries._room.held


def test_so_does_a_user_that_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "QUERIES_MAX", 4)
    host = Host()
    found = Absolute(CHESS, (Member(EVE, (1, 1), kind=LED),))

    def is_answered(me: Endpoint) -> bool:
        """At once, when the directory has told who stands there for the group."""
        host.tokens += 1
        signposts = SignpostsFound(me, host.tokens, CHESS.name, found)
        return any(isinstance(each, Answer) for each in host.led.hear(0.0, [signposts]))

    m1, m2, bob = host.endpoint("m1", MALLORY), host.endpoint("m2", MALLORY), host.endpoint("bob", BOB)
    assert [is_answered(each) for each in (m1, m2, m1, bob)] == [False, False, True, False]


# Hosts of one cluster


def test_the_hosts_of_one_cluster_leave_places_in_an_endpoints_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transient, "SETS_WITH_ENDPOINT_MAX", 4)
    agent = Owner()

    def is_in(host: str) -> bool:
        group = Group(f"{host}/eve#9~1-1", EU)
        agent.transient(Domain(host), AddedToSet(group, ("ann#1", "ann#1")))
        return group in agent.led.transient.held

    assert [is_in(f"eu.no.h{number}") for number in range(4)] == [True, True, False, False]
    assert is_in("eu.de.h1")
    gone = Group("eu.no.h0/eve#9~1-1", EU)
    agent.transient(Domain("eu.no.h0"), DeletedFromSet(gone, ("ann#1", "ann#1", "bob#1")))
    assert is_in("eu.no.h2") and agent.led.transient._sets_with[ANN].taken == 3


def test_strangers_of_one_cluster_leave_room_for_what_others_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "CHECKED_BYTES_MAX", 400)
    agent = Owner()
    closed_member(agent)
    full = [Ignored("SequenceData", "too much waits for the leader's list")]
    said = [says(agent, 1, number=number, body=bytes(95)) == full for number in range(4)]
    assert said == [False, False, True, True], "h2, of eu.fr"
    theirs = SequenceData(CHESS, 1, "eve#9", 1, ("ann#1",), 1, bytes(95))
    assert agent.receive(Domain("eu.de.h2"), theirs) != full


def test_so_they_do_of_questions_about_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "CHECKED_MAX", 4)
    agent = Owner()
    closed_member(agent)
    full = [Ignored("SequenceData", "too many sources are asked for")]
    data = SequenceData(CHESS, 1, "eve#9", 1, ("ann#1",), 1, b"e4")
    hosts = [Domain(host) for host in ("eu.no.h1", "eu.no.h2", "eu.no.h3", "eu.de.h1")]
    assert [agent.receive(host, data) == full for host in hosts] == [False, False, True, False]
    for number in list(agent.led.queries.open):
        unanswered_query(agent, number)
    assert not agent.led.sequences._held_in.held and agent.receive(hosts[2], data) != full


def test_the_agents_of_one_cluster_leave_places_of_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that finds no place is answered at once, and asks again at once."""
    monkeypatch.setattr(lists, "FOLLOWERS_MAX", 4)
    leader = LedLists(AgentId(H1, 7), LedConfig())
    known, out = OwnedSet(Group("a~1", EU), ANN), list[Effect]()
    leader.changed(known.group, known, out)

    def waits(agent: str) -> bool:
        told: list[Effect] = []
        leader.asked(Domain(agent), ListAsked(known.group, 1, 7, 1), known, told)
        return not any(isinstance(each, PostLetter) for each in told)

    assert [waits(f"eu.no.h{number}") for number in range(4)] == [True, True, False, False]
    assert waits("eu.no.h0"), "it asks anew"
    assert waits("eu.de.h1")
    out.clear()
    leader.held(known.group, out)
    assert len([each for each in out if isinstance(each, PostLetter)]) == 3 and waits("eu.no.h3")


# Other tables of an agent


def test_a_user_leaves_claims_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_agent, "CLAIMS_OF_HOST_MAX", 4)
    agent = ClaimingAgent()

    def opened_by(name: str, user: str) -> Endpoint:
        (answer,) = agent.ask(Endpoint(""), Open(name, user))
        return answer.result.endpoint

    m1, m2, bob = opened_by("m1", MALLORY), opened_by("m2", MALLORY), opened_by("bob", BOB)
    groups = [Group(f"g{number}", EU) for number in range(4)]
    (held,) = sent(agent.join(m1, group=groups[0]), Claim)
    agent.answered(held, ATOMIC)
    (asked,) = sent(agent.join(m2, group=groups[1]), Claim)
    refused = agent.join(m2, group=groups[2])
    assert is_refused(result(refused)) and not sent(refused, Claim)
    assert sent(agent.join(bob, group=groups[3]), Claim)
    assert not answers(agent.join(m2, group=groups[1])), "what is asked for already"
    agent.answered(asked, None, code="TOO_LARGE", why="full")
    agent.step(EndpointGone(m1, "died"))
    assert sent(agent.join(m2, group=groups[2]), Claim)


def answered_at_once(service: Service, request: Any) -> list[bool]:
    """Asked by two endpoints of one user, by the first again, and by another user: which are refused."""
    local = LocalServer(H1, incarnation=7, registry=Registry())
    stack = Stack(service, local)
    stack.step(0.0, LinkUp(FR, 1))
    for token, (name, user) in enumerate([("m1", MALLORY), ("m2", MALLORY), ("bob", BOB)], 1):
        stack.step(0.0, Asked(Endpoint(""), token, Open(name, user)))
    askers = [local.names[name] for name in ("m1", "m2", "m1", "bob")]
    asked = [stack.step(0.0, Asked(me, 10 + number, request)) for number, me in enumerate(askers)]
    return [any(isinstance(each, Answer) for each in effects) for effects in asked]


def test_a_user_leaves_questions_about_other_scopes_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "FOREIGN_OF_HOST_MAX", 4)
    service = ForeignAgent(H1, ScopesConfig(foreign=True))
    assert answered_at_once(service, Resolve("chess", DE)) == [False, False, True, False]


def test_a_user_leaves_calls_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_agent, "CALLS_MAX", 4)
    assert answered_at_once(CallAgent(H1), GroupCall(CHESS, LookAt())) == [False, False, True, False]
