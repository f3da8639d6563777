"""Agreed groups of several sites with real processes: a partial cut, a cut one way, a restart of all servers.

    set(eu) = {eu, eu.a, eu.b, eu.c, eu.d}      one host and one member at each site, ``survive="majority"``

That no two sides lived at one instant is judged from the agents' journals, as `make live-views` does. Waited
for is that one side lives, that all others are `Blocked`, and that there is one view again in the end.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from live.stopping import judged
from support.lab import FORGIVING, Lab, until

from rostra.client import AgreedMembership
from rostra.names import host_of

SITES = ("eu.a", "eu.b", "eu.c", "eu.d")
HOSTS = tuple(f"{site}.h1" for site in SITES)
A, B, C, D = HOSTS

Ledger = dict[str, AgreedMembership]
"""The member of each host."""


@pytest.fixture(scope="module")
def four_sites(tmp_path_factory: pytest.TempPathFactory, namespaces: bool) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("four")
    with Lab(
        directory,
        servers=("eu", *SITES),
        hosts=HOSTS,
        namespaces=namespaces,
        more=f'{FORGIVING}\n[journal]\nat = "{directory / "journal"}"\nsegment_s = 0.5\n',
    ) as lab:
        yield lab


@pytest.fixture
def sites(four_sites: Lab) -> Lab:
    """The shared lab, calm before every test. Tests use names of their own."""
    asyncio.run(four_sites.calm())
    return four_sites


@asynccontextmanager
async def ledger_of_all(lab: Lab, name: str) -> AsyncIterator[Ledger]:
    """One member on each host, in this order. In the end all of them live in one view, and no two sides ever
    did."""
    async with AsyncExitStack() as stack:
        ledger: Ledger = {}
        for host in HOSTS:
            me = await stack.enter_async_context(lab.program(host, "m"))

            async def let_in(me=me) -> AgreedMembership:
                return await me.join(name, "eu", membership="agreed", survive="majority")

            ledger[host] = await until(let_in, f"{host} is let in")
            await until(lambda: lives_alone(ledger, *ledger), "one view of all so far")
        yield ledger
        await until(lambda: lives_alone(ledger, *HOSTS), "one view of all four")
        fences = {group.view.fence for group in ledger.values() if group.view is not None}
        journal, group = lab.directory / "journal", f"{name}@eu"

        def is_written() -> bool:
            lived, _ = judged(journal, [], HOSTS, group)
            return {life.host for life in lived if life.fence in fences} == {*HOSTS}

        await until(is_written, "the journals have the last view", look_s=0.2)
        assert judged(journal, [], HOSTS, group)[1] == []


def living(ledger: Ledger) -> set[str]:
    return {host for host, group in ledger.items() if group.view is not None and group.blocked is None}


def lives_alone(ledger: Ledger, *hosts: str) -> bool:
    """Do the members of these hosts live in one view, without any other, and are all others blocked?"""
    views = [ledger[host].view for host in hosts]
    return (
        living(ledger) == {*hosts}
        and len({view.id for view in views if view is not None}) == 1
        and all({host_of(each.endpoint) for each in view.members} == {*hosts} for view in views if view)
    )


async def one_more_is_let_in(lab: Lab, host: str, ledger: Ledger) -> None:
    """The side that lives agrees on changes, which no other side is given."""
    before = {each: group.view for each, group in ledger.items()}
    alive, was = living(ledger), ledger[host].view
    assert was is not None
    async with (
        lab.program(host, "more") as me,
        me.join(ledger[host].group.name, "eu", membership="agreed", survive="majority"),
    ):
        views = [ledger[each] for each in alive]
        await until(lambda: all(each.view and me.endpoint in named(each) for each in views), "it is in")
        for other in ledger.keys() - alive:
            assert ledger[other].blocked is not None and ledger[other].view is before[other]
    await until(lambda: all(each.view and me.endpoint not in named(each) for each in views), "it is out")


def named(group: AgreedMembership) -> list[str]:
    return [each.endpoint for each in group.members]


@pytest.mark.spec("V-091")
@pytest.mark.usefixtures("cables")
async def test_of_a_set_in_which_some_are_cut_from_each_other_one_part_lives(sites: Lab) -> None:
    """Two sites and a third one do not see each other, the fourth and the parent see all. Whoever is slow to
    notice may put another one out first, so it is not said here which part lives."""
    parts = [(A, B, D), (C, D)]
    async with ledger_of_all(sites, "partial") as ledger:
        sites.cut(sites.side("eu.a", "eu.b"), sites.side("eu.c"))
        await until(
            lambda: any(lives_alone(ledger, *part) for part in parts), "one part lives, all others wait"
        )
        await one_more_is_let_in(sites, D, ledger)
        assert any(lives_alone(ledger, *part) for part in parts)
        sites.heal()


@pytest.mark.usefixtures("cables")
async def test_a_site_that_hears_all_and_is_heard_by_none_does_not_live(sites: Lab) -> None:
    async with ledger_of_all(sites, "one-way") as ledger:
        sites.cut_one_way(sites.side("eu.a"), ["eu", *sites.side(*SITES[1:])])
        await until(lambda: lives_alone(ledger, B, C, D), "the other three live, and the senior member waits")
        await one_more_is_let_in(sites, B, ledger)
        sites.heal()


async def test_all_servers_are_restarted_one_after_the_other(sites: Lab) -> None:
    async with ledger_of_all(sites, "rolling") as ledger:
        for server in ("eu", *SITES):
            sites[server].signal(signal.SIGTERM)
            assert await sites[server].ended() == 0
            if (host := f"{server}.h1") in ledger:
                await until(lambda host=host: ledger[host].blocked, f"{host} is without its server")
            sites[server].start()
            await sites.calm()
            await until(lambda: lives_alone(ledger, *HOSTS), f"all four live again after {server}")
        await one_more_is_let_in(sites, A, ledger)
