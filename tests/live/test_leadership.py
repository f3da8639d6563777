"""Leaders with real processes: kill -9, SIGSTOP and cuts. Terms end before others begin, and fences grow."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from live.stopping import Life, Stood, judged
from support.lab import FORGIVING, WITHIN_S, Lab, until

import rostra
from rostra.errors import DeadlineExceeded, LeadershipLost

HOSTS = ("eu.h1", "eu.h2", "eu.h3")

LEADER = """
import asyncio, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1], name="victim") as me, me.lead(sys.argv[2], "eu") as term:
        print(term.fence, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def three_hosts(tmp_path_factory: pytest.TempPathFactory, namespaces: bool) -> Iterator[Lab]:
    """Three hosts: a majority is left when one is lost."""
    directory = tmp_path_factory.mktemp("three")
    with Lab(
        directory,
        servers=("eu",),
        hosts=HOSTS,
        namespaces=namespaces,
        more=f'{FORGIVING}\n[journal]\nat = "{directory / "journal"}"\nsegment_s = 0.5\n',
    ) as lab:
        yield lab


@pytest.fixture
def three(three_hosts: Lab) -> Lab:
    """The shared lab, calm before every test. Tests use names of their own."""
    asyncio.run(three_hosts.calm())
    return three_hosts


class Candidate:
    """Leads once, if its turn comes, and keeps what became of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fence = 0
        self.lost: LeadershipLost | None = None
        self.leads = asyncio.Event()
        self.is_leading = False

    async def run(self, lab: Lab, host: str) -> None:
        async with rostra.connect(lab.socket(host)) as me:
            try:
                async with me.lead(self.name, "eu") as term:
                    self.fence, self.is_leading = term.fence, True
                    self.leads.set()
                    try:
                        await asyncio.Event().wait()
                    finally:
                        self.is_leading = False
            except LeadershipLost as lost:
                self.lost = lost

    async def stands(self, lab: Lab, host: str) -> "asyncio.Task[None]":
        """It is in the line."""
        task = asyncio.create_task(self.run(lab, host))
        async with lab.program(host, "looks") as me:

            async def has_joined() -> bool:
                found = await me.resolve(f"lead/{self.name}", "eu", fresh=True)
                return any(each.startswith(f"{host}/") for each in found.endpoints)

            await until(has_joined, f"the candidate of {host} is in the group")
        return task


async def ended(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_next_leads_when_the_leaders_program_is_killed(three: Lab) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEADER, three.socket("eu.h1"), "killed"], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        fence = int(await asyncio.to_thread(victim.stdout.readline))
        next_one = Candidate("killed")
        task = await next_one.stands(three, "eu.h2")
        assert not next_one.is_leading
        os.kill(victim.pid, signal.SIGKILL)
        async with asyncio.timeout(WITHIN_S):
            await next_one.leads.wait()
        assert next_one.fence > fence
        await ended(task)


async def test_the_next_leads_when_the_leaders_agent_is_stopped(three: Lab) -> None:
    """Its program cannot be told while the agent stands still: the fence is what tells the two apart."""
    candidates = [Candidate("stopped") for _ in range(3)]
    tasks = [await each.stands(three, f"eu.h{n}") for n, each in enumerate(candidates, 1)]
    async with asyncio.timeout(WITHIN_S):
        await candidates[0].leads.wait()
        three["eu.h1"].signal(signal.SIGSTOP)
        await candidates[1].leads.wait()
        assert candidates[1].fence > candidates[0].fence
        three["eu.h1"].resume()
    await until(lambda: candidates[0].lost is not None, "the old leader is told")
    assert candidates[1].is_leading and not candidates[2].is_leading
    await ended(*tasks)


@pytest.mark.parametrize("node", ["eu.h1", "eu"])
async def test_whoever_stands_still_for_a_moment_or_for_long_there_are_never_two_leaders(
    three: Lab, node: str
) -> None:
    """For far less than a lease, and for as long as the others need to go on, or to find that they cannot.
    Judged from the journals, however late this machine is: `make live-views` does it around every bound."""
    name = f"still-{node.replace('.', '-')}"
    stood = []
    candidates = [Candidate(name) for _ in HOSTS]
    tasks = [await each.stands(three, host) for host, each in zip(HOSTS, candidates, strict=True)]
    async with asyncio.timeout(WITHIN_S):
        await candidates[0].leads.wait()
    for is_long in (False, True):
        three[node].signal(signal.SIGSTOP)
        since = time.time()
        if is_long and node == "eu.h1":
            await until(lambda: candidates[1].is_leading, "the next one leads")
        elif is_long:
            await until(lambda: candidates[0].lost is not None, "without its server nobody leads")
        else:
            await asyncio.sleep(0.05)
        three[node].resume()
        stood.append(Stood(node, since, time.time()))
    await until(lambda: any(each.is_leading for each in candidates), "one leads")
    await ended(*tasks)

    def found() -> tuple[list[Life], list[str]]:
        return judged(three.directory / "journal", stood, HOSTS, f"lead/{name}@eu")

    await until(lambda: len({life.fence for life in found()[0]}) > 1, "the journals are written")
    assert found()[1] == []


async def test_a_drained_host_passes_the_lead_to_one_that_was_restarted(three: Lab) -> None:
    """And says if it is too early: the candidate on h2 is next in rank, and its host has yet to go."""

    async def drain(*words: str) -> int:
        command = [sys.executable, "-m", "rostra", "drain", "--agent", three.socket("eu.h1"), *words]
        child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
        return await child.wait()

    candidates = [Candidate("rolling") for _ in range(3)]
    tasks = [await each.stands(three, host) for host, each in zip(HOSTS[:2], candidates, strict=False)]
    async with asyncio.timeout(WITHIN_S):
        await candidates[0].leads.wait()
    assert await drain("--last") == 3 and candidates[0].is_leading
    three["eu.h3"].signal(signal.SIGTERM)
    await three["eu.h3"].ended()
    three["eu.h3"].environ = {"ROSTRA_LEVEL": "1"}
    three["eu.h3"].start()
    await three.calm()
    tasks.append(await candidates[2].stands(three, "eu.h3"))
    assert await drain("--last") == 0
    async with asyncio.timeout(WITHIN_S):
        await candidates[2].leads.wait()
    await until(lambda: candidates[0].lost is not None, "the first one is told")
    assert candidates[2].fence > candidates[0].fence and not candidates[1].fence
    await ended(*tasks)


@pytest.mark.usefixtures("cables")
async def test_a_leader_that_is_cut_off_stops_and_the_other_side_goes_on(three: Lab) -> None:
    candidates = [Candidate("cut") for _ in range(3)]
    tasks = [await each.stands(three, f"eu.h{n}") for n, each in enumerate(candidates, 1)]
    async with asyncio.timeout(WITHIN_S):
        await candidates[0].leads.wait()
        three.cut(["eu.h1"], ["eu", "eu.h2", "eu.h3"])
        await candidates[1].leads.wait()
        assert candidates[1].fence > candidates[0].fence
    await until(lambda: candidates[0].lost is not None, "the side that is cut off knows by its own links")
    await ended(*tasks)


async def test_threads_lead_and_hold_locks(three: Lab) -> None:
    """A thread is not cancelled: it is told when it asks, and at the end of its term."""

    def second() -> int:
        with rostra.sync.connect(three.socket("eu.h2")) as me, me.lead("threads", "eu") as term:
            return term.fence

    def first() -> int:
        with rostra.sync.connect(three.socket("eu.h1")) as me:
            with me.lead("threads", "eu", deadline_s=WITHIN_S) as term, me.lock("x", "eu") as held:
                term.check()
                assert term.is_held and held.is_held and str(held.group) == "lock/x@eu"
                fence = term.fence
            with (
                pytest.raises(DeadlineExceeded),
                me.lock("y", "eu"),
                rostra.sync.connect(three.socket("eu.h2")) as other,
                other.lock("y", "eu", deadline_s=0.2),
            ):
                raise AssertionError("two hold one lock")
            return fence

    fence = await asyncio.to_thread(first)
    assert await asyncio.to_thread(second) > fence


async def test_threads_are_told_that_a_term_was_lost(three: Lab) -> None:
    lost: list[str] = []

    def program() -> None:
        with (
            rostra.sync.connect(three.socket("eu.h3")) as me,
            pytest.raises(LeadershipLost),
            me.lead("told", "eu", on_lost=lambda: lost.append("now")) as term,
        ):
            three["eu.h3"].kill()
            while term.is_held:
                me.states().next(WITHIN_S)
            with pytest.raises(LeadershipLost):
                term.check()

    await asyncio.to_thread(program)
    assert lost == ["now"]
