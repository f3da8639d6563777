"""K9: proofs that hosts show to servers, for groups that their authority closes: a server has thousands of
them, and none of its steps looks at all."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rostra.core.effects import Asked, Effect, LinkUp, Received, Send, SetTimer, TimerFired
from rostra.core.stack import Stack
from rostra.names import ROOT, Domain, Endpoint, Group, host_of, inside
from rostra.node import PROOF_WEIGHS, WORK_MAX
from rostra.protocols.access import server as access_server
from rostra.protocols.access.config import GO_ON_S, SHOWN_AGAIN_S
from rostra.protocols.access.messages import ProofShown
from rostra.protocols.access.server import SHOWN
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import (
    LeaderNamed,
    MemberCame,
    MemberWent,
    PostLetter,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
)
from rostra.protocols.led.messages import (
    RESIGNED,
    Assert,
    AttachAsked,
    AttachNo,
    AttachOk,
    CarriedLetter,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LeaderTold,
    ListAsked,
    ListEntry,
    ListTold,
    LocalMember,
    ProvenAssert,
    ProvenLeaderAsked,
    ProvenListAsked,
    SetReleased,
    decode_letter,
    encode_letter,
)
from rostra.protocols.led.proven import let_through, with_permit
from rostra.protocols.led.requests import LeaveLed
from rostra.protocols.led.server import LED_SERVER
from rostra.protocols.led.state import AgentId
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import ClosedList
from rostra.protocols.relaxed.messages import Interest, InterestChanged, MessageId, ResolveRequest
from rostra.protocols.relaxed.shown import ProofTable
from rostra.sim.world import World
from tests.attacks.test_h6_protected_names import MALLORY, NOW_MS, an_id, judge, proof, refusals
from tests.attacks.test_k8_restricted_kinds import (
    ELSEWHERE,
    EU,
    FALSE,
    H2,
    PAYROLL,
    a_server,
    asserts,
    claim,
    claimed,
    listeners,
)
from tests.cores.test_claims import LED
from tests.cores.test_led_services import H1 as H1_FR
from tests.cores.test_led_services import H2 as H2_FR
from tests.cores.test_led_services import H3 as H3_FR
from tests.cores.test_led_services import Agent, letters

GROUPS = [Group("acme!a", ROOT), Group("acme!b", EU)]
ENDPOINTS = [Endpoint(f"{host}/p#{n}") for host in ("eu.fr.h1", "eu.fr.h10", "eu.de.h1") for n in (1, 2)]
PLACES = [*ENDPOINTS, "world", "eu", "eu.f", "eu.fr", "eu.fr.h1", "eu.fr.h10", "eu.de", "us"]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(ENDPOINTS), st.sampled_from(GROUPS)), max_size=40))
def test_counts_of_proofs_are_those_of_looking_through_all_of_them(
    script: list[tuple[bool, Endpoint, Group]],
) -> None:
    table: ProofTable = ProofTable()
    plain: dict[tuple[Endpoint, Group], bytes] = {}
    for number, (comes, me, group) in enumerate(script):
        for known in (table, plain):
            if comes:
                known[me, group] = bytes([number])
            else:
                known.pop((me, group), None)
    assert dict(table) == plain and len(table) == len(plain)
    for group in GROUPS:
        ours = {me: each for (me, named), each in plain.items() if named == group}
        assert table.of(group) == ours
        for place in PLACES:
            expected = any(me == place or inside(Domain(place), me) for me in ours)
            assert table.is_inside(group, place) is expected, place
    for host in map(host_of, ENDPOINTS):
        assert table.of_host(host) == sum(host_of(me) == host for me, _ in plain)
    seen = [table.next(2) for _ in range((len(plain) + 1) // 2)]
    assert {(me, group): each for some in seen for me, group, each in some} == plain


# Work of a step


def calls(act: Callable[[], object]) -> int:
    """How many functions it calls, and how often generators go on."""
    count = 0

    def seen(frame: FrameType, what: str, argument: object) -> None:
        nonlocal count
        count += what == "call"

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def shown_by(number: int, until_ms: int = NOW_MS + 60_000) -> ProofShown:
    me = Endpoint(f"eu.h{3 + number // 100}/ann#{number}")
    return ProofShown(PAYROLL, me, proof(group=PAYROLL, endpoint=me, until_ms=until_ms))


def a_closed_server(proofs: int, until_ms: int = NOW_MS + 60_000) -> Stack:
    server = a_server()
    server[SERVER].gate.learn(ClosedList(EU, 1, ((PAYROLL.name, ()),)))
    for number in range(proofs):
        shown = shown_by(number, until_ms)
        host = host_of(shown.endpoint)
        if number % 100 == 0:
            server.step(0.0, LinkUp(host, 1))
        server.step(0.0, Received(host, shown))
    return server


@pytest.mark.spec("C-167", "S-012")
def test_a_shown_proof_costs_as_much_where_many_were_shown_before() -> None:
    """So does a question about the group."""
    few, many = [], []
    for known, found in ((5, few), (400, many)):
        server = a_closed_server(known)
        mine = ProofShown(PAYROLL, MALLORY, proof(group=PAYROLL))
        for message in (
            ResolveRequest(an_id(), PAYROLL),
            mine,
            InterestChanged(an_id(), PAYROLL, Interest.RESOLVE),
        ):
            found.append(
                calls(lambda server=server, message=message: server.step(1.0, Received(H2, message)))
            )
        assert server[SERVER].gate.shown[MALLORY, PAYROLL]
    assert all(more <= less + 5 for less, more in zip(few, many, strict=True)), (few, many)


@pytest.mark.spec("C-167", "S-012")
def test_a_step_looks_at_a_few_shown_proofs_and_the_steps_of_a_round_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of signatures would take a second, if their verdicts are not known any more."""
    monkeypatch.setattr(access_server, "SHOWN_AT_ONCE", 4)
    server = a_closed_server(10, NOW_MS + 1_000)
    host = Domain("eu.h3")
    last = shown_by(99)
    server.step(0.0, Received(host, last))
    server.step(0.0, Received(host, InterestChanged(MessageId(host, 1, 1), PAYROLL, Interest.ALL)))
    gate, left, waits = server[SERVER].gate, [], []
    for at in range(4):
        effects = server.step(5.0 + at, TimerFired(SHOWN))
        left.append(len(gate.shown))
        waits += [each.after_s for each in effects if isinstance(each, SetTimer) and each.timer == SHOWN]
    assert left == [7, 3, 1, 1], "four at a time, and the one that has not ended is left"
    assert waits == [GO_ON_S, GO_ON_S, SHOWN_AGAIN_S, SHOWN_AGAIN_S]
    assert listeners(server) == [host], "a proof of the same host lasts"
    ended: list[Effect] = list(server.step(61.0, TimerFired(SHOWN)))
    assert not gate.shown and listeners(server) == []
    assert not any(isinstance(each, SetTimer) for each in ended), "nothing to look at any more"


def test_no_more_proofs_are_verified_after_those_that_a_host_may_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_server, "SHOWN_OF_HOST_MAX", 3)
    server = a_closed_server(3)
    verified: list[Any] = []
    gate = server[SERVER].gate
    gate.why_not = lambda *asked: verified.append(asked) or ""  # type: ignore[func-returns-value]
    server.step(1.0, Received(Domain("eu.h3"), shown_by(50)))
    assert not verified and len(gate.shown) == 3
    server.step(1.0, Received(Domain("eu.h3"), shown_by(2)))
    assert len(verified) == 1, "a renewed one"


def test_a_step_of_a_node_takes_so_many_proofs_as_it_can_verify_in_some_milliseconds() -> None:
    world = World(1, domains={"s": 2})
    world.settle()
    node = world.processes[Domain("s")].node
    at_once = WORK_MAX // PROOF_WEIGHS
    sent = [ProofShown(PAYROLL, Endpoint(f"s.h1/p#{n}"), b"") for n in range(at_once + 7)]
    outputs: list[Any] = []
    node._report(world.now, [Received(Domain("s.h1"), each) for each in sent], outputs)
    assert 6 <= len(node._rest) <= 8
    assert not any(isinstance(each, Send) for each in outputs)


# Led sets that their authority closes


ANN, BOB = Endpoint(f"{H1_FR}/ann#1"), Endpoint(f"{H2_FR}/bob#1")
OF_ANN, OF_BOB = (proof(group=PAYROLL, endpoint=each) for each in (ANN, BOB))
OF_ANOTHER_HOST = "no proof of a member of that host"


def an_agent() -> Agent:
    """Of eu.fr.h1, which knows that the authority closes the set."""
    agent = Agent(PAYROLL, judge())
    agent.local.gate.learn(ClosedList(EU, 1, ((PAYROLL.name, ()),)))
    return agent


@pytest.mark.spec("C-167", "S-012")
@pytest.mark.parametrize("which", FALSE)
def test_a_registrar_tells_an_agent_without_a_proof_what_it_tells_of_an_unknown_set(which: str) -> None:
    server, (false, why) = a_server(), FALSE[which]
    claimed(server, claim(LED, proof(group=PAYROLL)))
    server[SERVER].gate.learn(ClosedList(EU, 1, ((PAYROLL.name, ()),)))
    leads = ProvenAssert(PAYROLL, 1, 1, endpoint=MALLORY, proof=proof(group=PAYROLL))
    asserts(server, leads)
    assert server[LED_SERVER].registrar.entries, "it leads"
    unknown = [Send(H2, CarriedLetter(EU, H2, encode_letter(LeaderTold(PAYROLL, 7, None))))]
    others = proof(group=PAYROLL, endpoint=ELSEWHERE)
    for letter, named in (
        (LeaderAsked(PAYROLL, 7), []),
        (ProvenLeaderAsked(PAYROLL, 7, endpoint=MALLORY, proof=false), [why]),
        (ProvenLeaderAsked(PAYROLL, 7, endpoint=ELSEWHERE, proof=others), [OF_ANOTHER_HOST]),
    ):
        effects = asserts(server, letter)
        assert [each for each in effects if isinstance(each, Send)] == unknown
        assert [(each.why, each.source) for each in refusals(effects)] == [(each, H2) for each in named]
    good = asserts(server, ProvenLeaderAsked(PAYROLL, 7, endpoint=MALLORY, proof=proof(group=PAYROLL)))
    told = [decode_letter(each.message.body) for each in good if isinstance(each, Send)]
    assert told == [LeaderTold(PAYROLL, 7, H2)]


@pytest.mark.spec("C-167", "S-012")
def test_a_leader_tells_an_agent_without_a_proof_nothing_of_its_set() -> None:
    agent, gate = an_agent(), an_agent().local.gate
    agent.local.gate.permits[ANN, PAYROLL] = OF_ANN
    agent.lead()
    unknown = ListTold(PAYROLL, 7, leading=False)
    for letter, answer, named in (
        (ListAsked(PAYROLL, 7), [unknown], 0),
        (ProvenListAsked(PAYROLL, 7, endpoint=BOB, proof=OF_ANN), [unknown], 1),
        (ProvenListAsked(PAYROLL, 7, endpoint=ANN, proof=OF_ANN), [unknown], 1),
        (LeaderProbe(PAYROLL, 7), [], 0),
    ):
        effects = agent.receive(H2_FR, letter)
        assert [each for to, each in letters(effects) if to == H2_FR] == answer, letter
        assert [each.source for each in refusals(effects)] == [H2_FR] * named
    asked = ProvenListAsked(PAYROLL, 7, endpoint=BOB, proof=OF_BOB)
    [(_, told)] = letters(agent.receive(H2_FR, asked))
    assert told.leading and [entry.origin for entry in told.entries] == [H1_FR]
    assert letters(agent.receive(EU, LeaderProbe(PAYROLL, 7))) == [(EU, LeaderProbed(PAYROLL, 7, True))]

    out: list[Any] = []
    for entry in (
        ListEntry(H2_FR, 1, 1, ()),
        ListEntry(H2_FR, 1, 1, (LocalMember("bob#1", b"", OF_ANN),)),
        ListEntry(H1_FR, 1, 1, (LocalMember("ann#1", b"", OF_ANN),)),  # of another agent's list
    ):
        assert let_through(0.0, gate, H2_FR, AttachAsked(PAYROLL, 1, (entry,)), out) is None, entry
    good = AttachAsked(PAYROLL, 1, (ListEntry(H2_FR, 1, 1, (LocalMember("bob#1", b"", OF_BOB),)),))
    assert let_through(0.0, gate, H2_FR, good, out) == good


@pytest.mark.spec("C-167")
def test_agents_that_wait_for_the_next_list_are_not_told_it_when_the_set_is_closed() -> None:
    agent = an_agent()
    agent.local.gate.learn(ClosedList(EU, 2))
    agent.local.gate.permits[ANN, PAYROLL] = OF_ANN
    agent.lead()
    [(_, told)] = letters(agent.receive(H2_FR, ListAsked(PAYROLL, 7)))
    assert not letters(agent.receive(H2_FR, ListAsked(PAYROLL, 8, told.life, told.version))), "it waits"
    agent.led.lists.let_go(lambda group, host: (group, host) != (PAYROLL, H2_FR))
    agent.local.gate.learn(ClosedList(EU, 3, ((PAYROLL.name, ()),)))
    agent.led.directory.gate.permits[Endpoint(f"{H1_FR}/cid#1"), PAYROLL] = b""
    changed = agent.step(Asked(agent.ann, 3, LeaveLed(PAYROLL)))
    assert H2_FR not in [to for to, _ in letters(changed)]


def test_questions_carry_a_proof_where_the_authority_closes_a_set() -> None:
    gate = an_agent().local.gate
    assert with_permit(gate, ListAsked(PAYROLL, 7), ()) == ListAsked(PAYROLL, 7), "no proof of ours"
    gate.permits[ANN, PAYROLL] = b"old"
    gate.permits[ANN, PAYROLL] = b"new"
    asked = with_permit(gate, ListAsked(PAYROLL, 7, 3, 4), ())
    assert asked == ProvenListAsked(PAYROLL, 7, 3, 4, endpoint=ANN, proof=b"new")
    assert isinstance(with_permit(gate, LeaderAsked(PAYROLL, 7), ()), ProvenLeaderAsked)
    gate.learn(ClosedList(EU, 2))
    assert with_permit(gate, ListAsked(PAYROLL, 7), ()) == ListAsked(PAYROLL, 7)
    assert isinstance(with_permit(gate, Assert(PAYROLL, 7, 1), ()), ProvenAssert)


# An agent whose last member left


def a_child(moves: bool = False) -> TreeCore:
    """Of H1, in a restricted set that H1 joined second."""
    core = TreeCore(AgentId(H2_FR, 1), PAYROLL, LedConfig())
    up = (H1_FR, H3_FR)
    core.step(MemberCame(LocalMember("bob#1", b"", OF_BOB)), up)
    core.step(LeaderNamed(1, H1_FR), up)
    core.step(TreeReceived(H1_FR, AttachOk(PAYROLL, 2, H3_FR if moves else H1_FR)), up)
    if moves:
        core.step(SetTimerFired("flatten"), up)
    assert core.parent == H1_FR
    return core


@pytest.mark.spec("S-012", "S-019")
def test_children_of_an_agent_that_resigns_look_for_another_parent() -> None:
    no = AttachNo(PAYROLL, RESIGNED)
    core = a_child()
    letters = [each.letter for each in core.step(TreeReceived(H1_FR, no), ()) if isinstance(each, PostLetter)]
    assert [type(each) for each in letters] == [Assert] and core.parent is None
    core = a_child()
    core.step(TreeReceived(H1_FR, AttachNo(PAYROLL, RESIGNED, H3_FR)), (H3_FR,))
    assert core.parent == H3_FR, "the parent of the one that resigned"
    core = a_child(moves=True)
    core.step(TreeReceived(H1_FR, no), (H3_FR,))
    assert core.parent == H3_FR, "where it was on its way"
    core = a_child()
    core.step(TreeReceived(H3_FR, no), (H1_FR, H3_FR))
    assert core.parent == H1_FR, "its own parent's word counts alone"


@pytest.mark.spec("S-012", "S-019")
@pytest.mark.parametrize("name", ["acme!payroll", "chess"])
def test_an_agent_without_a_member_has_no_children_in_a_restricted_set_alone(name: str) -> None:
    group = Group(name, EU)
    core = TreeCore(AgentId(H1_FR, 1), group, LedConfig())
    core.step(MemberCame(LocalMember("ann#1")), (H2_FR,))
    core.step(LeaderNamed(1, H1_FR), (H2_FR,))
    entry = ListEntry(H2_FR, 1, 1, (LocalMember("bob#1"),))
    core.step(TreeReceived(H2_FR, AttachAsked(group, 1, (entry,))), (H2_FR,))
    effects = core.step(MemberWent("ann#1"), (H2_FR,))
    sent = [(each.peer, each.message) for each in effects if isinstance(each, SendTree)]
    released = [each.letter for each in effects if isinstance(each, PostLetter)]
    if name == "chess":
        assert core.leads and not sent and not released
    else:
        assert sent == [(H2_FR, AttachNo(group, RESIGNED))] and core.record is None
        assert [type(each) for each in released] == [SetReleased]
