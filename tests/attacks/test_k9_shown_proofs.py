"""K9: proofs that hosts show to servers, for groups that their authority closes: a server has thousands of
them, and none of its steps looks at all."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rostra.core.effects import Effect, LinkUp, Received, Send, SetTimer, TimerFired
from rostra.core.stack import Stack
from rostra.names import ROOT, Domain, Endpoint, Group, host_of, inside
from rostra.node import PROOF_WEIGHS, WORK_MAX
from rostra.protocols.access import server as access_server
from rostra.protocols.access.config import GO_ON_S, SHOWN_AGAIN_S
from rostra.protocols.access.messages import ProofShown
from rostra.protocols.access.server import SHOWN
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import ClosedList
from rostra.protocols.relaxed.messages import Interest, InterestChanged, MessageId, ResolveRequest
from rostra.protocols.relaxed.shown import ProofTable
from rostra.sim.world import World
from tests.attacks.test_h6_protected_names import MALLORY, NOW_MS, an_id, proof
from tests.attacks.test_k8_restricted_kinds import EU, H2, PAYROLL, a_server, listeners

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
