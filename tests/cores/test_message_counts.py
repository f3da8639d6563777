"""What things cost: the table of the specification's section 6, as equalities over the reference tree.

    EJ  EndpointsJoined      RQ  ResolveRequest
    EL  EndpointLeft         RP  ResolveReply
    OS  InterestChanged      HD  DomainFailed

Every step begins in a quiet world, and the order of deliveries is random: the counts do not depend on it.
"""

from collections.abc import Callable

import pytest
from support.queuenet import Program, QueueNet
from support.tref import T_REF

from rostra.names import ROOT, Domain, Group
from rostra.protocols.relaxed.config import RelaxedConfig

G = Group("g", ROOT)
H1 = Domain("eu.fr.c1.h1")
KINDS = {
    "EJ": "EndpointsJoined",
    "EL": "EndpointLeft",
    "OS": "InterestChanged",
    "RQ": "ResolveRequest",
    "RP": "ResolveReply",
    "HD": "DomainFailed",
}

SEEDS = pytest.mark.parametrize("seed", range(3))


def quiet_world(seed: int, *, everywhere: bool = False, config: RelaxedConfig | None = None) -> QueueNet:
    net = QueueNet(T_REF, seed, config=config)
    net.settle()
    if everywhere:
        for host in T_REF.hosts:
            net.join(net.open(host, "member"), G)
            net.settle()
    return net


def cost(net: QueueNet, step: Callable[[], object]) -> dict[str, int]:
    """The messages of one step, until all is quiet again; kinds that did not occur are left out."""
    net.counts.clear()
    step()
    net.settle()
    assert net.discrepancies() == []
    return {short: net.counts[kind] for short, kind in KINDS.items() if net.counts[kind]}


def joins(net: QueueNet, host: str, group: Group = G, *, online: bool = True) -> Callable[[], Program]:
    def step() -> Program:
        program = net.open(Domain(host), f"p{len(net.programs)}")
        net.join(program, group, online=online)
        return program

    return step


def messages(**counts: int) -> dict[str, int]:
    """EJ, EL, OS, RQ and HD; every request has its reply."""
    if "RQ" in counts:
        counts["RP"] = counts["RQ"]
    return counts


@SEEDS
@pytest.mark.spec("C-144", "C-148")
@pytest.mark.parametrize(
    ("scope", "requests"), [("world", 6), ("eu.fr", 2), ("eu.fr.c1", 1), ("eu.fr.c1.h1", 0)]
)
def test_resolving_an_unknown_group(seed, scope, requests):
    net = quiet_world(seed)
    asker = net.open(H1, "asker")
    spent = cost(net, lambda: net.resolve(asker, Group("g", Domain(scope))))
    assert spent == (messages(RQ=requests) if requests else {})


@SEEDS
@pytest.mark.spec("C-144", "C-097", "C-098", "C-104")
def test_the_first_four_joins_of_a_group(seed):
    net = quiet_world(seed)
    assert cost(net, joins(net, "eu.fr.c1.h1")) == messages(EJ=6, OS=8, RQ=6)
    assert cost(net, joins(net, "us.ca.c2.h2")) == messages(EJ=9, OS=8, RQ=9)
    assert cost(net, joins(net, "eu.fr.c1.h2", online=False)) == messages(EJ=8, OS=1)
    assert cost(net, joins(net, "eu.fr.c1.h1")) == messages(EJ=7, RQ=8)


@SEEDS
@pytest.mark.spec("C-148")
@pytest.mark.parametrize(("scope", "each"), [("eu.fr", 2), ("eu.fr.c1", 1), ("eu.fr.c1.h1", 0)])
def test_the_first_join_of_a_narrower_group(seed, scope, each):
    net = quiet_world(seed)
    spent = cost(net, joins(net, H1, Group("g", Domain(scope))))
    assert spent == (messages(EJ=each, OS=each, RQ=each) if each else {})


@SEEDS
@pytest.mark.spec("C-144", "C-019")
def test_a_join_a_resolve_and_a_leave_when_all_hosts_have_an_online_member(seed):
    """29 is every other server except the root, each reached exactly once."""
    net = quiet_world(seed, everywhere=True)
    programs: list[Program] = []
    assert cost(net, lambda: programs.append(joins(net, H1)())) == messages(EJ=29, RQ=29)
    assert cost(net, lambda: net.resolve(programs[0], G)) == messages(RQ=29)
    assert cost(net, lambda: net.leave(programs[0], G)) == messages(EL=29)


@SEEDS
@pytest.mark.spec("C-131", "C-132", "C-020", "C-144")
@pytest.mark.parametrize(
    ("server", "counts"),
    [
        ("eu.fr.c1.h1", {"HD": 28}),
        ("eu.fr", {"HD": 25}),
        ("eu.fr.c1", {"HD": 25}),
        ("eu", {"OS": 2, "HD": 26}),
        ("world", {}),
    ],
)
def test_the_crash_of_a_server_when_all_hosts_have_an_online_member(seed, server, counts):
    net = quiet_world(seed, everywhere=True)
    assert cost(net, lambda: net.crash(Domain(server))) == counts


@pytest.mark.spec("C-134", "C-138")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("server", ["eu.fr", "eu.fr.c1"])
def test_the_return_of_a_server_when_all_hosts_have_an_online_member(seed, server):
    """The one line of the table that depends on the order of deliveries. Its ranges are those of a server
    whose links all come up before anybody speaks; and equal requests go out one by one there."""
    net = quiet_world(seed, everywhere=True, config=RelaxedConfig(share_collections=False))
    net.crash(Domain(server))
    net.settle()
    spent = cost(net, lambda: (net.start(Domain(server)), net.meet_all(Domain(server))))
    assert 57 <= spent["EJ"] <= 90
    assert 5 <= spent["OS"] <= 6
    assert 56 <= spent["RQ"] <= 90
    assert spent["RP"] == spent["RQ"]
    assert "EL" not in spent
    assert "HD" not in spent


@pytest.mark.spec("C-174")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("server", ["eu.fr", "eu.fr.c1"])
def test_sharing_saves_a_third_of_the_requests_after_a_return(seed, server):
    requests = {}
    for share in (False, True):
        net = quiet_world(seed, everywhere=True, config=RelaxedConfig(share_collections=share))
        net.crash(Domain(server))
        net.settle()
        spent = cost(net, lambda net=net: (net.start(Domain(server)), net.meet_all(Domain(server))))
        requests[share] = spent["RQ"]
    assert requests[True] < requests[False] * 2 / 3
