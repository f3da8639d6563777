"""Agreed groups with real processes: kill -9 of a member, of an agent and of servers."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.client import AgreedMembership, Blocked, View

MEMBER = """
import asyncio, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1], name="victim") as me:
        async with me.join("killed", "eu", membership="agreed") as group:
            await group.ready()
            print(me.endpoint, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


async def view_of(
    group: AgreedMembership, is_wanted: Callable[[View], bool], within_s: float = WITHIN_S
) -> View:
    """The next view like this; numbers grow until it comes, or stand still."""
    number = 0
    async with asyncio.timeout(within_s):
        async for item in group:
            if isinstance(item, View):
                assert item.number >= number
                number = item.number
                if is_wanted(item):
                    return item
    raise AssertionError("the group ended")


async def test_a_killed_member_has_failed_and_ranks_close_the_gap(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("killed", "eu", membership="agreed") as group,
    ):
        await view_of(group, lambda view: len(view.members) == 1)
        with subprocess.Popen(
            [sys.executable, "-c", MEMBER, lab.socket("eu.h2")], stdout=subprocess.PIPE, text=True
        ) as victim:
            assert victim.stdout is not None
            two = await view_of(group, lambda view: len(view.members) == 2)
            endpoint = (await asyncio.to_thread(victim.stdout.readline)).strip()
            assert [str(each) for each in two.joined] == [endpoint]
            os.kill(victim.pid, signal.SIGKILL)
            gone = await view_of(group, lambda view: len(view.members) == 1)
        assert ([str(each) for each in gone.failed], gone.rank, gone.number) == (
            [endpoint],
            0,
            two.number + 1,
        )


async def test_a_killed_agent_takes_its_members_with_it(lab: Lab) -> None:
    async with (
        lab.program("eu.h2", "bob") as bob,
        bob.join("host", "eu", membership="agreed") as bobs,
        lab.program("eu.h1", "ann") as ann,
        ann.join("host", "eu", membership="agreed") as group,
    ):
        both = await view_of(group, lambda view: len(view.members) == 2)
        assert both.rank == 1
        await view_of(bobs, lambda view: view.id == both.id)
        lab["eu.h2"].kill()
        alone = await view_of(group, lambda view: len(view.members) == 1)
        assert (alone.failed, alone.rank) == ((both.members[0].endpoint,), 0)
        lab["eu.h2"].start()
        await until(lambda: lab.inspect("eu.h2"), "the agent is back")
        async with lab.program("eu.h2", "eve") as eve:

            async def let_in() -> AgreedMembership:
                return await eve.join("host", "eu", membership="agreed")

            eves = await until(let_in, "its agent is linked, and lets it in")
            back = await view_of(group, lambda view: len(view.members) == 2)
            assert (back.rank, back.number) == (0, alone.number + 1)
            assert (await view_of(eves, lambda view: view.id == back.id)).rank == 1


async def test_a_killed_server_has_its_views_back_from_the_hosts(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("server", "eu", membership="agreed") as group,
        lab.program("eu.h2", "bob") as bob,
        bob.join("server", "eu", membership="agreed") as bobs,
    ):
        both = await view_of(group, lambda view: len(view.members) == 2)
        lab["eu"].kill()
        await until(lambda: group.blocked is not None and bobs.blocked is not None, "both stand still")
        assert isinstance(group.blocked, Blocked)
        lab["eu"].start()
        again = await view_of(group, lambda view: len(view.members) == 2)
        assert again.id == both.id
        await until(
            lambda: bobs.view is not None and bobs.view.id == both.id and not bobs.blocked, "bob, too"
        )


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(
        tmp_path_factory.mktemp("sites"),
        servers=("eu", "eu.fr", "eu.de"),
        hosts=("eu.fr.h1", "eu.de.h1"),
        more=FORGIVING,
    )
    asyncio.run(lab.start())
    yield lab
    lab.close()


async def test_servers_of_two_sites_agree_and_one_that_was_killed_comes_back(sites: Lab) -> None:
    async with (
        sites.program("eu.fr.h1", "ann") as ann,
        ann.join("chess", "eu", membership="agreed") as group,
        sites.program("eu.de.h1", "bob") as bob,
        bob.join("chess", "eu", membership="agreed") as bobs,
    ):
        both = await view_of(group, lambda view: len(view.members) == 2)
        theirs = await view_of(bobs, lambda view: len(view.members) == 2)
        assert (both.id, both.members) == (theirs.id, theirs.members)
        sites["eu.de"].kill()
        alone = await view_of(group, lambda view: len(view.members) == 1)
        assert alone.failed == (bob.endpoint,)
        sites["eu.de"].start()
        again = await view_of(group, lambda view: len(view.members) == 2)
        theirs = await view_of(bobs, lambda view: view.id == again.id)
        assert theirs.members == again.members
