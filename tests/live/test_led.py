"""Led groups with real processes: kill -9 of the agent that leads, of the registrar, and of a program."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from support.lab import FORGIVING, ROSTRA, Lab, until

import rostra
from rostra.cli.common import EXIT_MISUSE, EXIT_REFUSED
from rostra.errors import NameInUse, NotAllowed
from rostra.names import Domain, Group, host_of
from rostra.protocols.led.config import LedConfig

NAMES = 1_000

MEMBER = """
import asyncio, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1], name="victim") as me:
        async with me.join("sets", "eu", membership="led") as group:
            await group.ready()
            print(me.endpoint, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


def hosts(group: rostra.Membership) -> list[str]:
    return [str(host_of(member.endpoint)) for member in group.members] if group.is_known else []


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(
        tmp_path_factory.mktemp("led"),
        servers=("eu", "eu.fr", "eu.de"),
        hosts=("eu.fr.h1", "eu.fr.h2", "eu.de.h1"),
        more=FORGIVING,
    )
    asyncio.run(lab.start())
    yield lab
    lab.close()


ALL = ["eu.de.h1", "eu.fr.h1", "eu.fr.h2"]


@pytest.mark.spec("S-033", "S-037", "S-060", "S-064")
async def test_the_leaders_agent_and_the_registrar_are_killed(sites: Lab) -> None:
    async with (
        sites.program("eu.fr.h2", "ann") as ann,
        sites.program("eu.fr.h1", "bob") as bob,
        sites.program("eu.de.h1", "eve") as eve,
    ):

        async def first() -> rostra.Membership:
            return await ann.join("sets", "eu", membership="led")

        anns = await until(first, "the kind is claimed")
        await until(lambda: hosts(anns) == ["eu.fr.h2"], "ann leads")
        bobs = await bob.join("sets", "eu", membership="led")
        eves = await eve.join("sets", "eu", membership="led")
        await until(lambda: all(hosts(each) == ALL for each in (anns, bobs, eves)), "all are listed")

        sites["eu"].kill()
        sites["eu.fr.h2"].kill()
        await until(lambda: hosts(bobs)[-1:] != ["eu.fr.h2"] and hosts(bobs), "another leads in fr")
        sites["eu"].start()
        sites["eu.fr.h2"].start()
        await until(lambda: sites.inspect("eu.fr.h2"), "the agent is back")
        async with sites.program("eu.fr.h2", "ann") as again:

            async def second() -> rostra.Membership:
                return await again.join("sets", "eu", membership="led")

            await until(second, "its agent is linked, and lets it in")
            await until(lambda: hosts(bobs) == hosts(eves) == ALL, "there is one list again")
            found = await eve.resolve("sets", "eu", fresh=True)
            assert [str(host_of(member.endpoint)) for member in found.members] == ALL


@pytest.mark.spec("S-029", "S-050")
async def test_a_program_that_is_killed_is_not_listed_any_more(sites: Lab) -> None:
    async with sites.program("eu.de.h1", "outsider") as me, me.watch("sets", "eu") as watched:
        await until(lambda: watched.is_known, "it watches")
        with subprocess.Popen(
            [sys.executable, "-c", MEMBER, sites.socket("eu.fr.h1")], stdout=subprocess.PIPE, text=True
        ) as victim:
            assert victim.stdout is not None
            endpoint = (await asyncio.to_thread(victim.stdout.readline)).strip()
            await until(
                lambda: [str(each.endpoint) for each in watched.members] == [endpoint], "it is listed"
            )
            os.kill(victim.pid, signal.SIGKILL)
            await until(lambda: not watched.members, "and is not any more")


@pytest.mark.spec("S-088", "S-003")
async def test_members_of_a_led_group_speak_and_an_outsider_sees_the_leaders_list(sites: Lab) -> None:
    async with (
        sites.program("eu.fr.h1", "ann") as ann,
        sites.program("eu.de.h1", "bob") as bob,
        sites.program("eu.fr.h2", "eve") as eve,
        ann.join("talk", "eu", membership="led", delivery="fifo") as anns,
        bob.join("talk", "eu", membership="led", delivery="fifo") as bobs,
    ):
        both = [bob.endpoint, ann.endpoint]

        async def listed() -> bool:
            found = await eve.resolve("talk", "eu", fresh=True)
            return [member.endpoint for member in found.members] == both

        await until(listed, "both are on the leader's list")
        await until(lambda: len(anns.members) == len(bobs.members) == 2, "they know each other")
        for nth in range(20):
            await anns.send(b"%d" % nth)
        heard: list[bytes] = []
        async with asyncio.timeout(30.0):
            async for item in bobs:
                heard += [item.body] if isinstance(item, rostra.Message) else []
                if len(heard) == 20:
                    break
        assert heard == [b"%d" % nth for nth in range(20)]


@pytest.mark.spec("S-072", "S-084", "S-085")
def test_a_thread_makes_a_set_and_speaks_to_it(sites: Lab) -> None:
    with (
        rostra.sync.connect(sites.socket("eu.fr.h1"), name="owner") as owner,
        rostra.sync.connect(sites.socket("eu.de.h1"), name="member") as member,
        rostra.sync.connect(sites.socket("eu.fr.h2"), name="founder") as founder,
        founder.join("of-threads", "eu", unique=True) as founded,
        owner.create_set("eu") as mine,
    ):
        assert founded.group == Group("of-threads", Domain("eu"))
        with pytest.raises(NameInUse):
            member.join("of-threads", "eu", unique=True)
        told = member.sets(timeout_s=30.0)
        mine.add(member.endpoint)
        assert next(told) == rostra.SetAdded(mine.group)
        changes = mine.changes(timeout_s=30.0)
        while mine.members != (member.endpoint,):
            next(changes)
        with mine.sequence() as sequence:
            assert sequence.destinations == (member.endpoint,)
            sequence.send(b"e4")
            message = next(told)
            assert isinstance(message, rostra.SequenceMessage) and message.body == b"e4"
            member.reply(message, b"e5")
            assert next(sequence.changes(timeout_s=30.0)) == rostra.SequenceReply(
                message.sequence, member.endpoint, b"e5"
            )
        assert isinstance(next(told), rostra.SequenceClosed)


def ordered(sites: Lab, *words: str) -> "subprocess.CompletedProcess[str]":
    """`rostra name`, to the server of eu."""
    where = ("--agent", sites.socket("eu"))
    return subprocess.run([*ROSTRA, "name", *words, *where], capture_output=True, text=True, check=False)


@pytest.mark.spec("S-010", "C-167")
async def test_an_administrator_assigns_a_name_and_closes_a_group(sites: Lab) -> None:
    chess = "lounge/chess@eu"
    assert ordered(sites, "assign", chess, "the club").returncode == 0
    taken = ordered(sites, "assign", chess, "another club")
    assert taken.returncode == EXIT_REFUSED and "is assigned to the club" in taken.stderr
    assert (
        ordered(sites, "list", "eu", "-o", "jsonl").stdout == '{"name":"lounge/chess","holder":"the club"}\n'
    )
    mistyped = ordered(sites, "release", "lounge/ches@eu")
    assert mistyped.stderr == "lounge/ches@eu was nobody's\nclosest of the assigned names: lounge/chess@eu\n"
    assert ordered(sites, "release", chess).stderr == "lounge/chess@eu is nobody's\n"

    mistyped = ordered(sites, "close", "vault@eu", "eu.de", "eu.frr")
    assert mistyped.returncode == EXIT_MISUSE and "no domain eu.frr is known here" in mistyped.stderr
    assert "closest: eu.fr" in mistyped.stderr
    assert ordered(sites, "close", "vault@eu", "eu.fr").returncode == 0
    async with sites.program("eu.fr.h1", "ann") as ann, sites.program("eu.de.h1", "eve") as eve:
        async with ann.join("vault", "eu"):

            async def is_refused() -> bool:
                try:
                    await (await eve.join("vault", "eu")).leave()
                except NotAllowed:
                    return True
                return False

            await until(is_refused, "the list has reached eu.de")
            assert (await eve.resolve("vault", "eu", fresh=True)).members == ()
        assert ordered(sites, "reopen", "vault@eu").returncode == 0


@pytest.mark.spec("C-170")
async def test_a_group_of_open_scope_reaches_a_member_of_another_cluster(sites: Lab) -> None:
    async with (
        sites.program("eu.fr.h1", "ann") as ann,
        sites.program("eu.de.h1", "bob") as bob,
        ann.join("anywhere", rostra.OPEN) as anns,
    ):
        await until(lambda: hosts(anns) == ["eu.fr.h1"], "it is there")
        async with bob.join("anywhere", rostra.OPEN) as bobs:
            await until(lambda: hosts(anns) == hosts(bobs) == ["eu.de.h1", "eu.fr.h1"], "both see both")
        await until(lambda: hosts(anns) == ["eu.fr.h1"], "bob has left")


@pytest.mark.long
@pytest.mark.spec("S-056", "S-060")
async def test_a_registrar_killed_under_1000_names_has_them_all_within_a_third_of_the_lease(
    sites: Lab,
) -> None:
    async with sites.program("eu.fr.h1", "many") as me:
        for first in range(0, NAMES, 50):
            await asyncio.gather(
                *[
                    me.join(f"name-{nth}", "eu", membership="led", online=False)
                    for nth in range(first, first + 50)
                ]
            )

        async def whole(node: str) -> bool:
            return bool((await sites.inspect(node))["led_names"] == NAMES)

        async def is_linked(node: str) -> bool:
            return bool((await sites.inspect(node))["links"]["eu"]["up"])

        async def is_lost() -> bool:
            return not await is_linked("eu.fr")

        await until(lambda: whole("eu"), "all are registered")
        sites["eu"].kill()
        await until(is_lost, "its loss is noticed")
        await until(lambda: whole("eu.fr"), "another is the registrar")
        sites["eu"].start()
        await until(lambda: is_linked("eu.fr"), "it is back")
        back_s = time.monotonic()
        await until(lambda: whole("eu"), "its table is whole")
        took_s = time.monotonic() - back_s
        print(f"the table of {NAMES} names was whole {took_s:.2f} s after the registrar was back")
        assert took_s < LedConfig().calm_s + LedConfig().lease_s / 3
