"""A server of agreed groups that dies and is replaced, or comes back, is the member of its set that it was.

`rostra sim storm --shape failover --seeds 100` goes through more of them.
"""

from collections.abc import Iterable

import pytest
from support.seeds import few_of

from rostra.core.effects import Effect, Secure
from rostra.names import Domain, Group
from rostra.protocols.agreed.keep import SetKeeper
from rostra.protocols.agreed.server import AGREED_SERVER, AgreedServer
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.shapes import clusters
from rostra.sim.storm import StormFailed, storm

LEDGER = Group("ledger", Domain("eu"))


@pytest.mark.spec("V-019")
@pytest.mark.parametrize("seed", few_of(5, 8))
def test_no_member_is_removed_when_the_leader_of_its_server_dies(seed: int) -> None:
    storm(seed, "failover")


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "failover")
        except StormFailed as failure:
            return failure.what
    return ""


def test_a_leader_that_begins_with_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SetKeeper, "recovered", lambda self: {})
    assert "failed in" in first_failure((0,))


def test_what_is_sent_before_a_majority_has_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Secure` left out: records are written, and nothing waits for them."""
    secured = AgreedServer._after_secured

    def at_once(self: AgreedServer, since: int, out: list[Effect]) -> list[Effect]:
        effects = secured(self, since, out)
        return sorted(effects, key=lambda effect: type(effect) is Secure)

    monkeypatch.setattr(AgreedServer, "_after_secured", at_once)
    assert "failed in" in first_failure((0, 2, 3))


@pytest.mark.spec("V-100")
def test_a_server_that_restarts_counts_from_the_view_that_its_hosts_missed() -> None:
    """They hold one in which they are two of three. It acknowledged one in which they are two of five."""
    world = World(
        1,
        tree=clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
    )
    world.settle()
    programs = {}
    for host in ("eu.fr.h1", "eu.fr.h2", "eu.de.h1"):
        programs[host] = world.program(host)
        world.run(0.1)
        programs[host].join_agreed(LEDGER, survive="majority")
        world.run(1.0)
    world.hold("eu.fr > eu.fr.h1")
    world.hold("eu.fr > eu.fr.h2")
    for host in ("eu.de.h2", "eu.it.h1"):
        programs[host] = world.program(host)
        world.run(0.1)
        programs[host].join_agreed(LEDGER, survive="majority")
        world.run(0.2)
    assert [len(each.agreed[LEDGER].members) for each in programs.values()] == [3, 3, 5, 5, 5]
    life = world.processes[Domain("eu.fr")].stack[AGREED_SERVER].sets[Domain("eu")].core.state.me.life
    world.crash("eu.fr")
    world.cut("eu.fr | eu")
    world.release()
    world.restart("eu.fr")
    world.run(15.0)

    assert [each.agreed[LEDGER].blocked for each in programs.values()] == [True, True, False, False, False]
    again = world.processes[Domain("eu.fr")].stack[AGREED_SERVER].sets[Domain("eu")].core.state.me.life
    assert again == life
    world.heal()
    world.run(15.0)
    assert not any(each.agreed[LEDGER].blocked for each in programs.values())
    assert len({each.agreed[LEDGER].members for each in programs.values()}) == 1


@pytest.mark.parametrize("is_back", [True, False])
def test_a_host_that_is_lost_while_its_server_is_replaced_goes_from_wider_groups(is_back: bool) -> None:
    """The new leader has passed on nothing for it, so it reports no loss; nor does a new agent."""
    everywhere = Group("all", Domain("world"))
    tree, timers = clusters({"eu.fr": 2, "us.ny": 1}), LinkConfig.lan().over_datagrams()
    world = World(7, tree=tree, timers=timers, replicas={"eu.fr": 3})
    world.run(6.0)
    programs = [world.program(host, f"p{host[-2:]}") for host in ("eu.fr.h1", "eu.fr.h2", "us.ny.h1")]
    for each in programs:
        each.join_agreed(everywhere)
        world.run(3.0)
    world.crash(world.replicas.leaders[Domain("eu.fr")])
    world.crash("eu.fr.h1")
    world.run(0.3)
    if is_back:
        world.restart("eu.fr.h1")
    world.run(20.0)
    _, *others = programs
    for each in others:
        assert each.agreed[everywhere].members == tuple([other.address for other in others])
