"""A server with three replicas, each a process on a machine of its own: the leader dies, hangs or is cut off,
and nobody in any group notices (C-160..C-164, X-100..X-104)."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, Process, until

import rostra
from rostra.client import Conversation, connect_admin
from rostra.errors import RostraError
from rostra.names import Domain

HOSTS = ("eu.h1", "eu.h2", "us.h1")
EU = Domain("eu")
PERIOD_S = 0.02


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory, namespaces: bool) -> Iterator[Lab]:
    with Lab(
        tmp_path_factory.mktemp("replicated"),
        servers=("eu", "us"),
        hosts=HOSTS,
        replicas={"eu": 3},
        namespaces=namespaces,
        more=FORGIVING,
        forked=False,
    ) as lab:
        yield lab


@pytest.fixture
def lab(replicated: Lab) -> Lab:
    asyncio.run(replicated.calm())
    return replicated


class Talker:
    """A program that speaks all the time, and writes down what it hears."""

    def __init__(self, name: str, talk: Conversation) -> None:
        self.name, self.talk = name, talk
        self.said = 0
        self.heard: dict[str, list[int]] = {}
        self.told: list[object] = []  # of members and losses
        self.stop = asyncio.Event()

    async def speak(self) -> None:
        while not self.stop.is_set():
            await self.talk.send(str(self.said).encode())
            self.said += 1
            await asyncio.sleep(PERIOD_S)

    async def listen(self) -> None:
        async for item in self.talk:
            if isinstance(item, rostra.Message):
                name = item.sender.partition("/")[2].partition("#")[0]
                self.heard.setdefault(name, []).append(int(item.body))
            else:
                self.told.append(item)


@asynccontextmanager
async def conversation(lab: Lab, group: str) -> AsyncIterator[list[Talker]]:
    """One talker on every host. At the end everybody has heard everything that anybody said, in order."""
    async with AsyncExitStack() as stack:
        talkers = []
        for number, host in enumerate(HOSTS):
            me = await stack.enter_async_context(lab.program(host, f"t{number}"))
            talk = await stack.enter_async_context(me.join(group, delivery="fifo"))
            await talk.ready(deadline_s=WITHIN_S)
            talkers.append(Talker(f"t{number}", talk))
        await until(lambda: all(len(each.talk.members) == len(HOSTS) for each in talkers), "all are in")
        work = [asyncio.create_task(each.listen()) for each in talkers]
        await until(lambda: all(each.told for each in talkers), "all have a view")
        for each in talkers:
            each.told.clear()
        speaking = [asyncio.create_task(each.speak()) for each in talkers]
        yield talkers
        for each in talkers:
            each.stop.set()
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*speaking)
        for each in talkers:
            for other in talkers:
                if other is not each:
                    await until(
                        lambda each=each, other=other: len(each.heard.get(other.name, [])) >= other.said,
                        f"{each.name} has heard all {other.said} of {other.name}",
                    )
                    assert each.heard[other.name] == list(range(other.said)), f"{each.name}, {other.name}"
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def another_leads(lab: Lab, than: Process) -> Process:
    async def found() -> Process | None:
        leader = await lab.leader("eu")
        return leader if leader is not than else None

    other: Process = await until(found, "another replica leads", look_s=0.1)
    return other


async def all_go_on(talkers: list[Talker]) -> None:
    """Until everybody has heard something from everybody that was said from now on."""
    marks = {each.name: each.said + 5 for each in talkers}
    await until(
        lambda: all(
            each.heard.get(name, [0])[-1] >= mark
            for each in talkers
            for name, mark in marks.items()
            if name != each.name
        ),
        f"streams go on beyond {marks}",
    )


@pytest.mark.spec("C-160", "C-162", "A-22", "X-100", "X-101", "X-102", "XX-11", "X-036")
async def test_the_leader_is_killed_twice_and_no_stream_has_a_gap(lab: Lab) -> None:
    async with conversation(lab, "killed") as talkers:
        for _ in range(2):
            await all_go_on(talkers)
            leader = await lab.leader("eu")
            leader.kill()
            await another_leads(lab, leader)
            await all_go_on(talkers)
            leader.start()
            await lab.leader("eu")
        assert [each.told for each in talkers] == [[], [], []], "nobody came, left or was lost"
    assert set((await lab.inspect("eu"))["links"]) == {"eu.h1", "eu.h2", "us"}


@pytest.mark.spec("C-161", "X-104")
async def test_a_leader_that_stood_still_gives_way_and_nobody_notices(lab: Lab) -> None:
    async with conversation(lab, "stopped") as talkers:
        await all_go_on(talkers)
        leader = await lab.leader("eu")
        resigned = lab.counted(leader.nodes[0], "resigned")
        leader.signal(signal.SIGSTOP)
        other = await another_leads(lab, leader)
        await all_go_on(talkers)
        leader.signal(signal.SIGCONT)
        await until(lambda: lab.counted(leader.nodes[0], "resigned") > resigned, "the old one resigns")
        assert await lab.leader("eu") is other
        await all_go_on(talkers)
        assert [each.told for each in talkers] == [[], [], []]


@pytest.mark.spec("V-012")
async def test_agents_attach_to_the_next_replica_and_no_member_of_an_agreed_group_is_lost(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("attached", "eu", membership="agreed") as group,
        lab.program("eu.h2", "bob") as bob,
        bob.join("attached", "eu", membership="agreed") as bobs,
    ):
        await until(lambda: group.view is not None and len(group.view.members) == 2, "both are in")
        before, leader = group.view, await lab.leader("eu")
        leader.kill()
        await another_leads(lab, leader)
        async with (
            lab.program("eu.h2", "eve") as eve,
            eve.join("attached", "eu", membership="agreed") as eves,
        ):
            await until(
                lambda: eves.view is not None and len(eves.view.members) == 3, "a third one is let in"
            )
            assert before is not None and eves.view is not None
            assert eves.view.number == before.number + 1, "and nothing else happened"
            assert eves.view.members[:2] == before.members
            await until(lambda: bobs.view is not None and len(bobs.view.members) == 3, "bob knows it")
        leader.start()
        await lab.leader("eu")


@pytest.mark.spec("C-160", "X-104")
async def test_a_leader_that_is_cut_off_from_everybody_gives_way(lab: Lab, cables: None) -> None:
    async with conversation(lab, "cut") as talkers:
        await all_go_on(talkers)
        leader = await lab.leader("eu")
        voter = leader.nodes[0]
        everybody = [node for node in lab.processes if node != voter]
        others = [each for each in lab.voters[EU] if each != voter]
        resigned, led = lab.counted(voter, "resigned"), sum(lab.counted(each, "leading") for each in others)
        lab.cut([voter], everybody)
        await until(lambda: lab.counted(voter, "resigned") > resigned, "it resigns, for want of a majority")
        await until(lambda: sum(lab.counted(each, "leading") for each in others) > led, "another one leads")
        await all_go_on(talkers)
        lab.heal()
        assert await another_leads(lab, leader) is not leader
        await all_go_on(talkers)
        assert [each.told for each in talkers] == [[], [], []]


@pytest.mark.spec("C-030", "C-035", "X-102")
async def test_an_agent_that_stood_still_is_told_that_it_was_given_up_and_is_back(lab: Lab) -> None:
    """As with one server: both sides are told, and the member goes on without help."""
    async with AsyncExitStack() as stack:
        talkers = []
        for host in ("eu.h1", "eu.h2"):
            me = await stack.enter_async_context(lab.program(host, "t"))
            talk = await stack.enter_async_context(me.join("stood", delivery="fifo"))
            await talk.ready(deadline_s=WITHIN_S)
            talkers.append(Talker(host, talk))
        still, other = talkers
        await until(lambda: len(still.talk.members) == len(other.talk.members) == 2, "both are in")
        work = [asyncio.create_task(each.listen()) for each in talkers]
        lab["eu.h1"].signal(signal.SIGSTOP)
        await until(lambda: [each for each in other.told if isinstance(each, rostra.Without)], "given up")
        lab["eu.h1"].signal(signal.SIGCONT)
        await until(lambda: [each for each in still.told if isinstance(each, rostra.Only)], "it is told so")
        await until(lambda: len(still.talk.members) == len(other.talk.members) == 2, "both are back")
        await still.talk.send(b"1")
        await other.talk.send(b"1")
        await until(lambda: still.heard.get("t") == other.heard.get("t") == [1], "and hear each other")
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


@pytest.mark.spec("C-164", "X-102")
async def test_when_all_replicas_are_killed_it_is_told_and_heals(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "near") as near,
        lab.program("us.h1", "far") as far,
        near.join("gone", scope="world") as here,
        far.join("gone", scope="world") as there,
    ):
        await until(lambda: len(here.members) == len(there.members) == 2, "both are in")
        for voter in lab.voters[EU]:
            lab[voter].kill()
        await until(lambda: len(here.members) == len(there.members) == 1, "each side is told")
        for voter in lab.voters[EU]:
            lab[voter].start()
        await until(lambda: len(here.members) == len(there.members) == 2, "and sees the other again")


@pytest.mark.spec("C-012", "C-160")
async def test_a_permanent_group_outlives_its_leader(lab: Lab) -> None:
    await lab.register("news", "eu")
    leader = await lab.leader("eu")
    leader.kill()
    await another_leads(lab, leader)

    async def is_known() -> bool:
        return "news" in str((await lab.inspect("eu.h2"))["core"]["registry"])

    await until(is_known, "the agent of h2 knows")  # its server may have died before it had told it
    async with lab.program("eu.h2", "reader") as me, me.join("news", scope="eu", permanent=True) as news:
        await until(lambda: len(news.members) == 1, "it is in")
    document = await lab.inspect("eu")
    assert "news" in str(document["core"]["registry"])


async def test_an_administrator_who_calls_a_replica_that_follows_is_told_who_leads(lab: Lab) -> None:
    leader = await lab.leader("eu")
    (other, *_) = [voter for voter in lab.voters[EU] if lab[voter] is not leader]
    document = await lab.inspect(other)
    assert document["core"]["leader"] == leader.nodes[0] and not document["core"]["leads"]
    with pytest.raises(RostraError, match=f"{leader.nodes[0]} does"):
        async with connect_admin(lab.socket(other), domain=other) as admin:
            await admin.register("news", "eu")


def test_a_replica_says_what_it_lacks(tmp_path: Path) -> None:
    from support.cluster import rostra as run

    world = tmp_path / "world.toml"
    addresses = [f"127.0.0.1:{port}" for port in (17710, 17711, 17712)]
    world.write_text(f'[world]\nname = "w"\n[servers]\neu = {addresses}\nus = "127.0.0.1:17713"\n')
    told = run("server", "-d", "eu", "-w", str(world))
    assert told.code != 0 and "--replica 1 to --replica 3" in told.err
    told = run("server", "-d", "eu", "--replica", "4", "-w", str(world))
    assert told.code != 0 and "no number 4" in told.err
    told = run("server", "-d", "eu", "--replica", "2", "-w", str(world))
    assert told.code != 0 and "--state" in told.err
    told = run("server", "-d", "us", "--replica", "2", "-w", str(world))
    assert told.code != 0 and "leave out --replica" in told.err
