"""An administrator's changes of a running world, and the loss of a parent, with real processes."""

import asyncio
import signal
from collections.abc import Iterator

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.client import AgreedMembership, connect_admin
from rostra.names import Domain
from rostra.protocols.agreed.calls import SetShown, SetVerb

SERVERS = ("eu", "eu.de", "eu.fr", "eu.it")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    hosts = [f"{server}.h1" for server in SERVERS[1:]]
    with Lab(
        tmp_path_factory.mktemp("sites"), servers=SERVERS, hosts=hosts, namespaces=False, more=FORGIVING
    ) as lab:
        yield lab


async def order(lab: Lab, at: str, verb: SetVerb, *servers: str) -> SetShown:
    async with connect_admin(lab.socket(at)) as admin:
        return await admin.change_set("eu", verb, servers)


def has(count: int, *groups: AgreedMembership) -> bool:
    views = [group.view for group in groups]
    same = len({view and view.id for view in views}) == 1
    return same and all(view is not None and len(view.members) == count for view in views)


async def until_all(count: int, *groups: AgreedMembership) -> None:
    await until(lambda: has(count, *groups), f"one view of {count}")


def without(lab: Lab, server: str) -> None:
    """The world file is changed, and the other servers read it again."""
    lab.servers = tuple([Domain(each) for each in SERVERS if each != server])
    lab._write_world()
    for each in lab.servers:
        lab[each].signal(signal.SIGHUP)


@pytest.mark.spec("V-008", "C-181", "V-011")
async def test_a_hierarchy_changes_while_members_watch(sites: Lab) -> None:
    async with (
        sites.program("eu.de.h1", "ann") as ann,
        ann.join("chess", "eu", membership="agreed") as anns,
        sites.program("eu.fr.h1", "bob") as bob,
        bob.join("chess", "eu", membership="agreed") as bobs,
        sites.program("eu.it.h1", "eve") as eve,
        eve.join("chess", "eu", membership="agreed") as eves,
    ):
        reading = [asyncio.create_task(read(each)) for each in (anns, bobs, eves)]
        try:
            await until_all(3, anns, bobs, eves)

            left = await order(sites, "eu.de", SetVerb.LEAVE, "eu.fr")
            assert sorted([each.server for each in left.servers]) == ["eu", "eu.de", "eu.it"]
            await until_all(2, anns, eves)
            await until_all(1, bobs)
            back = await order(sites, "eu.it", SetVerb.JOIN, "eu.fr")
            assert len(back.servers) == 4
            await until_all(3, anns, bobs, eves)

            without(sites, "eu.it")
            await until_all(2, anns, bobs)
            assert "eu.it" not in await links_of(sites, "eu.de")
            without(sites, "")
            await until_all(3, anns, bobs, eves)

            sites["eu"].kill()  # the set goes on as the root of its part

            async def is_root() -> bool:
                shown = await order(sites, "eu.de", SetVerb.LOOK)
                return not any(each.is_parent for each in shown.servers) and len(shown.servers) == 3

            await until(is_root, "the set has removed its parent", look_s=0.2)
            async with (
                sites.program("eu.fr.h1", "kim") as kim,
                kim.join("chess", "eu", membership="agreed") as kims,
            ):
                reading.append(asyncio.create_task(read(kims)))
                await until_all(4, anns, bobs, eves, kims)
            sites["eu"].start()

            async def is_back() -> bool:
                shown = await order(sites, "eu.de", SetVerb.LOOK)
                return [each.server for each in shown.servers if each.is_parent] == ["eu"]

            await until(is_back, "the same parent is attached again", look_s=0.2)
            await until_all(3, anns, bobs, eves)
        finally:
            for task in reading:
                task.cancel()


async def read(group: AgreedMembership) -> None:
    async with asyncio.timeout(WITHIN_S * 4):
        async for _ in group:
            pass


async def links_of(lab: Lab, server: str) -> set[str]:
    return set((await lab.inspect(server))["links"])
