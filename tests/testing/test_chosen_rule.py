"""The rule of leaders and locks that name none: `primary` where the scope's server has replicas."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

import rostra
from rostra.errors import LeadershipLost, NotAllowed, RostraError
from rostra.names import Domain
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.sim import LAN
from rostra.testing import World

SITES = {"eu.fr": 1, "eu.de": 1}
Job = Callable[[rostra.Me], Awaitable[object]]


@pytest.fixture
def replicated() -> Iterator[World]:
    world = World(SITES, seed=3, links=LAN, replicas={"eu": 3})
    world.run(for_s=2)
    yield world
    world.close()


async def holds(me: rostra.Me) -> str:
    """The rule of a lock, as its holder finds it."""
    async with me.lock("x", scope="eu", deadline_s=20):
        return (await me.groups.look("lock/x", "eu")).survive


def asked(world: World, host: str, job: Job) -> object:
    found: list[object] = []

    async def program() -> None:
        async with rostra.connect() as me:
            try:
                found.append(await job(me))
            except RostraError as refusal:
                found.append(refusal)

    world.start(host, program())
    world.run(for_s=30)
    return found[0] if found else None


def test_a_lock_is_decided_by_the_replicas_of_its_scope(replicated: World) -> None:
    assert [asked(replicated, host, holds) for host in ("eu.fr.h1", "eu.de.h1")] == ["primary"] * 2


def test_without_replicas_most_of_the_candidates_decide() -> None:
    world = World(SITES, seed=3, links=LAN)
    world.run(for_s=2)
    assert asked(world, "eu.fr.h1", holds) == "majority"
    world.close()


def of_old(survive: str) -> Job:
    """Makes the lock's group with this rule, and stays in it."""

    async def job(me: rostra.Me) -> None:
        async with me.join("lock/x", scope="eu", membership="agreed", survive=survive):
            await asyncio.sleep(1000)

    return job


async def waits(me: rostra.Me) -> str:
    """The rule of a lock that another has."""
    with pytest.raises(rostra.errors.DeadlineExceeded):
        async with me.lock("x", scope="eu", deadline_s=5):
            raise AssertionError("two have it")
    return (await me.groups.look("lock/x", "eu")).survive


@pytest.mark.parametrize("survive", ["majority", "size > 1 and majority"])
def test_a_group_that_has_a_rule_keeps_it(replicated: World, survive: str) -> None:
    """Made by a program that named it, say, or before there were replicas: and the same on both hosts."""
    asked(replicated, "eu.de.h1", of_old(survive))
    assert [asked(replicated, host, waits) for host in ("eu.fr.h1", "eu.de.h1")] == [survive] * 2


def test_a_group_in_which_two_sides_may_live_is_refused(replicated: World) -> None:
    asked(replicated, "eu.de.h1", of_old("any"))
    refused = asked(replicated, "eu.fr.h1", holds)
    assert isinstance(refused, NotAllowed) and "lock/x@eu is agreed" in refused.what


def test_candidates_whose_world_files_differ_have_one_rule(replicated: World) -> None:
    """The first claim decides."""
    replicated.sim.processes[Domain("eu.de.h1")].stack[AGREED_AGENT].replicated = ()

    async def holds_long(me: rostra.Me) -> None:
        async with me.lock("x", scope="eu"):
            await asyncio.sleep(1000)

    asked(replicated, "eu.fr.h1", holds_long)
    assert asked(replicated, "eu.de.h1", waits) == "primary"


def test_a_rule_that_is_named_is_the_one_that_is_asked_for(replicated: World) -> None:
    async def named(me: rostra.Me) -> str:
        async with me.lock("x", scope="eu", survive="majority", deadline_s=20):
            return (await me.groups.look("lock/x", "eu")).survive

    async def other(me: rostra.Me) -> None:
        async with me.lock("x", scope="eu", survive="has(rank 0)", deadline_s=20):
            pass

    assert asked(replicated, "eu.fr.h1", named) == "majority"
    asked(replicated, "eu.fr.h1", of_old("majority"))
    assert isinstance(asked(replicated, "eu.de.h1", other), NotAllowed)


class Candidates:
    """One on each site, in this order; and when each began and ended a term."""

    def __init__(self, world: World, *hosts: str) -> None:
        self.terms: list[tuple[str, int]] = []
        self.leading: set[str] = set()
        for host in hosts:
            world.start(host, self._run(host))
            world.run(for_s=8)

    async def _run(self, host: str) -> None:
        async with rostra.connect() as me:
            while True:
                try:
                    async with me.lead("x", scope="eu") as term:
                        assert not self.leading, f"{host} leads beside {self.leading}"
                        self.leading.add(host)
                        self.terms.append((host, term.fence))
                        try:
                            await asyncio.sleep(1e9)
                        finally:
                            self.leading.discard(host)
                except LeadershipLost:
                    pass


@pytest.mark.parametrize(("replicas", "leads"), [({"eu": 3}, ["eu.fr.h1", "eu.de.h1"]), (None, ["eu.fr.h1"])])
def test_of_two_candidates_the_one_that_is_left_leads_if_replicas_decide(
    replicas: dict[str, int] | None, leads: list[str]
) -> None:
    """One of two is no majority, when the senior one is lost."""
    world = World(SITES, seed=3, links=LAN, replicas=replicas)
    world.run(for_s=2)
    candidates = Candidates(world, "eu.fr.h1", "eu.de.h1")
    world.crash("eu.fr.h1")
    world.run(for_s=20)
    assert [host for host, _ in candidates.terms] == leads
    world.close()


def test_a_takeover_among_the_replicas_that_decide_ends_the_term_and_there_is_another(
    replicated: World,
) -> None:
    """It takes longer than a lease lasts."""
    candidates = Candidates(replicated, "eu.fr.h1", "eu.de.h1")
    replicated.sim.crash(replicated.sim.replicas.leaders[Domain("eu")])
    replicated.run(for_s=20)
    fences = [fence for _, fence in candidates.terms]
    assert len(fences) == 2 and fences[0] < fences[1] and len(candidates.leading) == 1
