"""The acceptance scenarios that are about races, over many orders of delivery (A-12..A-18, A-21, A-25).

Which message overtakes which is drawn from the seed; `slow` keeps chosen links back while the race is on.
"""

import pytest
from support.queuenet import Program, QueueNet
from support.tref import T_REF

from rostra.names import ROOT, Domain, Group, inside
from rostra.protocols.relaxed.messages import Interest
from rostra.protocols.relaxed.requests import Absolute, Joined, Message

G = Group("g", ROOT)
SEEDS = pytest.mark.parametrize("seed", range(12))


def world(seed: int) -> QueueNet:
    net = QueueNet(T_REF, seed)
    net.settle()
    return net


def member(net: QueueNet, host: str, *, online: bool = True) -> Program:
    program = net.open(Domain(host), f"p{len(net.programs)}-{len(net.answers)}")
    net.join(program, G, online=online)
    return program


def slow(net: QueueNet, *domains: str, pace: float = 0.0) -> None:
    """Keep back everything from and to servers inside these domains."""
    for way in net.ways.values():
        if any(inside(Domain(domain), end) for domain in domains for end in (way.sender, way.to)):
            way.patience = pace


def turns(net: QueueNet, number: int) -> None:
    for _ in range(number):
        net.turn()


def right(net: QueueNet) -> None:
    net.settle()
    assert net.discrepancies() == []


@SEEDS
@pytest.mark.spec("C-138", "C-011")
def test_a_server_is_restarted_twice_while_joins_arrive(seed):
    """A-12."""
    net = world(seed)
    member(net, "us.ca.c1.h1")
    net.settle()
    for host in ("eu.fr.c1.h1", "us.ny.c1.h2", "eu.de.c2.h2", "us.ca.c2.h1"):
        member(net, host)
        turns(net, net.luck.randrange(20))
        if host.startswith(("us.ny", "eu.de")):
            net.crash(Domain("eu"))
            net.start(Domain("eu"))
        turns(net, net.luck.randrange(20))
    right(net)


@SEEDS
@pytest.mark.spec("C-097", "C-099")
def test_two_sides_that_have_pruned_each_other_find_each_other_again(seed):
    """A-13: members leave until both sides know that the other has nobody; then each gets one."""
    net = world(seed)
    one, two = member(net, "eu.fr.c1.h1", online=False), member(net, "eu.fr.c2.h1", online=False)
    net.settle()
    for program in (one, two):
        net.leave(program, G)
        net.settle()
        net.resolve(program, G)
        net.settle()
    member(net, "eu.fr.c1.h1", online=False)
    turns(net, net.luck.randrange(10))
    member(net, "eu.fr.c2.h1", online=False)
    net.settle()
    for host in ("eu.fr.c1.h2", "eu.fr.c2.h2"):
        token = net.resolve(net.open(Domain(host), "asker"), G)
        net.settle()
        assert {each.endpoint for each in net.answers[token].members} == net.members_seen_from(
            Domain(host), G
        )
        assert len(net.answers[token].members) == 2
    right(net)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.spec("C-099")
def test_an_interest_that_rises_while_somebody_joins_far_away_misses_nobody(seed):
    """A-14."""
    net = world(seed)
    observer = member(net, "eu.fr.c1.h1", online=False)
    net.resolve(observer, G)
    net.settle()
    slow(net, "us", "eu.de", pace=0.2)
    net.set_online(observer, G, True)
    turns(net, net.luck.randrange(25))
    newcomer = member(net, "us.ny.c2.h1", online=bool(seed % 2))
    right(net)
    assert newcomer.endpoint in observer.views[G]


@SEEDS
@pytest.mark.spec("C-110", "C-174")
def test_a_resolve_is_not_shared_across_a_rise(seed):
    """A-15: an answer is under way when the host becomes interested; who joined in between is not lost."""
    net = world(seed)
    offline = member(net, "eu.fr.c1.h1", online=False)
    net.settle()
    slow(net, "us")
    net.resolve(offline, G)
    turns(net, 60)
    newcomer = member(net, "eu.de.c1.h1", online=False)
    turns(net, net.luck.randrange(60))
    watcher = member(net, "eu.fr.c1.h1")
    right(net)
    assert newcomer.endpoint in watcher.views[G]


@SEEDS
@pytest.mark.spec("C-128")
def test_the_first_join_of_a_pruned_branch_counts_in_an_open_resolve(seed):
    """A-16."""
    net = world(seed)
    observer = member(net, "eu.fr.c1.h1")
    net.settle()
    member(net, "us.ny.c1.h1")
    net.settle()
    assert net.cores[Domain("eu.fr")].table.want(G, Domain("eu.de")) is Interest.NONE
    slow(net, "us")
    token = net.resolve(observer, G)
    turns(net, net.luck.randrange(60))
    newcomer = member(net, "eu.de.c2.h2", online=False)
    turns(net, 200)
    assert token not in net.answers
    right(net)
    assert newcomer.endpoint in observer.views[G]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.spec("C-129", "C-136")
def test_a_join_overtaken_by_a_gap_in_the_interest_leaves_no_ghost(seed):
    """A-17: the observer leaves and rejoins while a join is on its way and the joiner's host dies."""
    net = world(seed)
    observer = member(net, "eu.fr.c1.h1")
    net.settle()
    slow(net, "eu", pace=0.2)
    ghost = member(net, "us.ny.c1.h1")
    turns(net, net.luck.randrange(40))
    net.leave(observer, G)
    turns(net, net.luck.randrange(40))
    net.crash(Domain("us.ny.c1.h1"))
    turns(net, net.luck.randrange(40))
    net.join(observer, G)
    right(net)
    assert ghost.endpoint not in observer.views[G]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.spec("C-136")
def test_a_merge_whose_reason_goes_and_comes_back_leaves_no_ghost_and_misses_nobody(seed):
    """A-18."""
    net = world(seed)
    here = member(net, "eu.fr.c1.h1")
    there, stays = member(net, "us.ny.c1.h1"), member(net, "us.ca.c1.h1")
    net.settle()
    net.cut_link(Domain("eu"), Domain("us"))
    net.settle()
    assert here.views[G] == {here.endpoint}
    net.heal_link(Domain("eu"), Domain("us"))
    turns(net, net.luck.randrange(40))
    net.set_online(here, G, False)
    turns(net, net.luck.randrange(30))
    net.leave(there, G)
    turns(net, net.luck.randrange(30))
    net.set_online(here, G, True)
    right(net)
    assert here.views[G] == {here.endpoint, stays.endpoint}


@SEEDS
@pytest.mark.spec("C-072")
def test_an_odd_cut_hides_exactly_the_two_ends_from_each_other(seed):
    """A-25: only the link between two sibling clusters fails; the parent does not relay (T-45)."""
    net = world(seed)
    programs = {
        host: member(net, host) for host in ("eu.fr.c1.h1", "eu.fr.c2.h1", "eu.de.c1.h1", "us.ny.c1.h1")
    }
    net.settle()
    net.cut_link(Domain("eu.fr.c1"), Domain("eu.fr.c2"))
    right(net)
    one, two = programs["eu.fr.c1.h1"], programs["eu.fr.c2.h1"]
    everybody = {each.endpoint for each in programs.values()}
    assert one.views[G] == everybody - {two.endpoint}
    assert two.views[G] == everybody - {one.endpoint}
    assert programs["us.ny.c1.h1"].views[G] == everybody
    net.heal_link(Domain("eu.fr.c1"), Domain("eu.fr.c2"))
    right(net)
    assert one.views[G] == two.views[G] == everybody


@SEEDS
@pytest.mark.spec("C-153")
@pytest.mark.parametrize("host", ["eu.fr.c1.h2", "eu.fr.c2.h1", "us.ca.c2.h2"])
def test_whoever_joins_and_then_speaks_is_seen_before_it_is_heard(seed, host):
    """A-21."""
    net = world(seed)
    listener = member(net, host)
    net.settle()
    speaker = net.open(Domain("eu.fr.c1.h1"), "speaker")
    net.join(speaker, G, online=bool(seed % 2))
    net.send(speaker, [listener.endpoint])
    net.settle()
    kinds = [type(notice) for notice in listener.notices]
    assert kinds == [Absolute, Joined, Message]


@SEEDS
@pytest.mark.spec("C-154")
def test_inside_a_cluster_a_message_does_not_overtake_the_notice_that_its_sender_had_seen(seed):
    """A-21: p hears of x and then speaks to q; q has heard of x."""
    net = world(seed)
    p, q = member(net, "eu.fr.c1.h1"), member(net, "eu.fr.c1.h2")
    net.settle()
    slow(net, "eu.fr.c1.h2", pace=0.1)
    x = member(net, "us.ny.c1.h1")
    while x.endpoint not in p.views[G]:
        net.turn()
    net.send(p, [q.endpoint])
    net.settle()
    last, message = [notice for notice in q.notices if isinstance(notice, Joined | Message)][-2:]
    assert isinstance(last, Joined) and isinstance(message, Message)
    assert [each.endpoint for each in last.members] == [x.endpoint]
