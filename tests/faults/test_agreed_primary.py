"""``survive="primary"``: the server of a group's scope says which side lives, with most of its replicas.

`rostra sim storm --shape primary --seeds 1000` goes through more worlds.
"""

from collections.abc import Iterable

import pytest
from support.seeds import few_of

from rostra.core.effects import Effect, Secure
from rostra.names import Domain, Group
from rostra.protocols.agreed import groups, lease, leasing
from rostra.protocols.agreed.lease import FOR_EVER
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.agreed.server import AgreedServer
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.storm import StormFailed, storm

LEDGER = Group("ledger", Domain("eu"))
SENT_AFTER_ITS_LINK = 6  # what waited for a record was sent to a neighbour that had been given up meanwhile
TOLD_BEFORE_IT_WAS_BACK = 50031  # a host that was being removed lived by a view on its way to it


@pytest.mark.spec("V-099")
@pytest.mark.parametrize("seed", [*few_of(4, 6), SENT_AFTER_ITS_LINK, TOLD_BEFORE_IT_WAS_BACK])
def test_one_side_lives_and_in_the_end_all_do(seed: int) -> None:
    storm(seed, "primary")


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "primary")
        except StormFailed as failure:
            return failure.what
    return ""


def test_sides_that_do_not_ask_the_server_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (groups, lease, leasing):
        monkeypatch.setattr(module, "is_primary", lambda kind: False)
    assert "one-living" in first_failure(range(6))


def test_sides_without_a_lease_of_the_server_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "lives_until", lambda state, known, counted: FOR_EVER)
    assert "one-living" in first_failure((0, 5))


def cut_in_the_middle() -> tuple[SimProgram, SimProgram]:
    """One site is lost. The server of the scope, which leads and can reach no other replica any more, goes on
    with the other site, and dies; the next one that leads sees the first site alone."""
    world = World(
        1,
        tree=clusters({"eu.fr": 1, "eu.de": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        replicas={"eu": 3},
    )
    world.run(4.0)
    ann, bob = world.program("eu.fr.h1"), world.program("eu.de.h1")
    for program in (ann, bob):
        world.run(0.1)
        program.join_agreed(LEDGER, survive="primary")
        world.run(2.0)
    assert [max(fences(each)) for each in (ann, bob)] == [2, 2]
    leader = world.replicas.leaders[Domain("eu")]
    others = [voter for voter in world.replicas.of[Domain("eu")] if voter != leader]
    world.cut("eu.de")
    world.run(0.9)
    for other in others:
        world.cut(f"link {leader} | {other}")
    world.run(0.8)
    world.crash(leader)
    world.heal()
    world.cut("eu.fr")
    world.run(15.0)
    return ann, bob


def fences(program: SimProgram) -> dict[int, str]:
    items = program.agreed[LEDGER].items
    return {item.fence or 0: f"{item.number} {item.pid}" for item in items if isinstance(item, MemberView)}


@pytest.mark.spec("V-100")
def test_what_a_majority_of_replicas_does_not_know_did_not_happen() -> None:
    ann, bob = cut_in_the_middle()
    assert ann.agreed[LEDGER].blocked and max(fences(ann)) == 2
    assert bob.agreed[LEDGER].members == (bob.address,) and max(fences(bob)) > 2


def test_an_acknowledgement_that_waits_for_no_majority_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Secure` left out: one fence stands for two views."""
    secured = AgreedServer._after_secured

    def at_once(self: AgreedServer, since: int, out: list[Effect]) -> list[Effect]:
        effects = secured(self, since, out)
        return sorted(effects, key=lambda effect: type(effect) is Secure)

    monkeypatch.setattr(AgreedServer, "_after_secured", at_once)
    ann, bob = map(fences, cut_in_the_middle())
    assert any(ann[fence] != bob[fence] for fence in ann.keys() & bob.keys())
