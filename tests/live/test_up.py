"""`rostra up`, as a stranger uses it: one command, a world, faults on demand, and nothing left in the end."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lab import ROSTRA, WITHIN_S, until

import rostra
from rostra.client import Cause, Change, Joined, Me, Only, View, Without
from rostra.config import load_world
from rostra.journal.segments import read
from rostra.names import Domain
from rostra.transport.addresses import find_agent, small_worlds

EU, US = "eu.paris.h1", "us.boston.h1"


class Supervisor:
    """One `rostra up`, with a runtime directory of its own."""

    def __init__(self, *options: str, runtime_directory: Path | None = None) -> None:
        # Short: a socket's address has no room for pytest's directories.
        self._is_guest = runtime_directory is not None
        self.runtime_directory = runtime_directory or Path(tempfile.mkdtemp(prefix="up", dir="/tmp"))
        self.environ = {**os.environ, "XDG_RUNTIME_DIR": str(self.runtime_directory)}
        self.environ.pop("ROSTRA_AGENT", None)
        self.environ["ROSTRA_LISTEN"] = "192.0.2.1:1"  # meant for one server, and so for none of these
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with us
        self.process = subprocess.Popen(
            (*ROSTRA, "up", "--quiet", *(options or ("--shape", "1x1x1", "--port", "0"))),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=self.environ,
        )
        self.address = ""

    def wait_until_up(self) -> "Supervisor":
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.remarks
        return self

    @property
    def remarks(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()

    @property
    def home(self) -> Path:
        (home,) = [path for path in self.worlds if path.name == f"up-{self.process.pid}"]
        return home

    @property
    def worlds(self) -> list[Path]:
        """Those that are up in its runtime directory; somebody else may run one elsewhere on this machine."""
        return [path for path in small_worlds(self.environ) if path.is_relative_to(self.runtime_directory)]

    def socket(self, host: str) -> str:
        return str(self.home / f"{host}.sock")

    @property
    def children(self) -> dict[int, str]:
        """Its processes, by number, with their command lines."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {}
        for pid in listed:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                commands[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        return commands

    def pid_of(self, words: str) -> int:
        (pid,) = [pid for pid, command in self.children.items() if words in command]
        return pid

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=WITHIN_S) as answer:
            return json.load(answer)

    def order(self, what: str, **values: Any) -> Any:
        request = urllib.request.Request(
            f"{self.address}/api/lab/{what}",
            json.dumps(values).encode(),
            {"content-type": "application/json", "x-rostra-lab": "yes"},
        )
        with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
            return json.load(answer)

    def refused(self, what: str, **values: Any) -> Any:
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.order(what, **values)
        assert caught.value.code == 400
        return json.load(caught.value)["error"]

    def end(self) -> int:
        """Ctrl-C."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(WITHIN_S)

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.end()
        if not self._is_guest:
            shutil.rmtree(self.runtime_directory, ignore_errors=True)
        self._stderr.close()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def supervisor(*options: str, runtime_directory: Path | None = None) -> Iterator[Supervisor]:
    one = Supervisor(*options, runtime_directory=runtime_directory)
    try:
        yield one
    finally:
        one.clean_up()


@pytest.fixture(scope="module")
def shared() -> Iterator[Supervisor]:
    with supervisor("--shape", "2x1x2", "--port", "0") as one:
        yield one.wait_until_up()


@pytest.fixture
def world(shared: Supervisor) -> Iterator[Supervisor]:
    """The shared world, whole before and after every test that uses it. Tests use groups of their own."""
    yield shared
    shared.order("heal")
    state = shared.get("/api/lab")
    for server in state["crashed"]:
        shared.order("restart", server=server)
    for server in state["paused"]:
        shared.order("resume", server=server)
    asyncio.run(until(lambda: all_links_up(shared), "every link is up"))


def has_written(journal: Path, writer: str) -> bool:
    return any(journal.glob(f"date=*/{writer}*.parquet"))


def all_links_up(world: Supervisor) -> bool:
    places = world.get("/api/places")["places"].values()
    ends = [end for place in places for end in place["links"].values()]
    return all(place["state"] == "answers" for place in places) and all(e["state"] == "up" for e in ends)


class Listener:
    """A member of a group, and what it is told after it has seen everybody."""

    def __init__(self, me: Me, group: str) -> None:
        self.me, self.group = me, group
        self.told: list[Change] = []
        self.members: tuple[str, ...] = ()

    async def listen(self) -> None:
        async with self.me.join(self.group) as membership:
            async for change in membership:
                self.members = tuple(member.endpoint for member in membership.members)
                if not isinstance(change, View):
                    self.told.append(change)


@contextlib.asynccontextmanager
async def members_of(world: Supervisor, group: str, *hosts: str) -> AsyncIterator[list[Listener]]:
    """A program on each of these hosts, in one group, each of which has seen all the others."""
    async with contextlib.AsyncExitStack() as stack:
        listeners = [
            Listener(await stack.enter_async_context(rostra.connect(world.socket(host), name=group)), group)
            for host in hosts
        ]
        tasks = [asyncio.create_task(each.listen()) for each in listeners]
        stack.callback(lambda: [task.cancel() for task in tasks])
        await until(lambda: all(len(each.members) == len(hosts) for each in listeners), "all see all")
        for each in listeners:
            each.told.clear()
        yield listeners


async def test_a_world_that_is_well_misses_nobody(world: Supervisor) -> None:
    """Nobody serves the root here (C-020), and so nobody waits for its server or shows it as unseen."""

    def seen() -> set[str]:
        servers = world.get("/api/world")["servers"]
        return {server["state"] for server in servers if server["path"] != "world"}

    await until(lambda: seen() == {"up"}, "whoever looks has heard of everybody")
    picture = world.get("/api/world")
    assert {link["state"] for link in picture["links"]} == {"up"}
    assert picture["servers"][0]["state"] == "none"


async def test_both_regions_see_the_same_people(world: Supervisor) -> None:
    async with rostra.connect(world.socket(EU)) as eu, rostra.connect(world.socket(US)) as us:

        async def agree() -> bool:
            here, there = await eu.resolve("lounge"), await us.resolve("lounge")
            return len(here.members) >= 4 and here.members == there.members

        await until(agree, "the lounge is the same from both regions")


async def test_a_region_that_is_cut_off_is_told_so_and_so_is_everybody_else_and_then_they_merge(
    world: Supervisor,
) -> None:
    async with members_of(world, "cut", EU, "eu.paris.h2", US) as (one, two, far):
        world.order("cut", here="eu")
        await until(lambda: one.told and two.told and far.told, "both sides are told")
        for side, lost in ((one, "us"), (two, "us"), (far, "eu")):
            (change,) = side.told
            assert isinstance(change, Without) and change.domain == lost
            assert all(endpoint.startswith(f"{lost}.") for endpoint in change.endpoints)
            side.told.clear()
        assert len(one.members) == len(two.members) == 2 and len(far.members) == 1

        world.order("heal")
        await until(lambda: all(len(each.members) == 3 for each in (one, two, far)), "they merge")
        for side in (one, two, far):
            (change,) = side.told
            assert isinstance(change, Joined) and change.cause is Cause.MERGE
        assert world.get("/api/lab")["cuts"] == []


async def test_a_cluster_that_is_cut_off_keeps_only_itself(world: Supervisor) -> None:
    async with members_of(world, "paris", EU, "eu.paris.h2", US) as (one, two, far):
        world.order("cut", here="eu.paris")
        await until(lambda: one.told and two.told and far.told, "both sides are told")
        for change in (*one.told, *two.told):
            assert isinstance(change, Only | Without)
        near = {one.me.endpoint, two.me.endpoint}
        await until(lambda: set(one.members) == set(two.members) == near, "they keep each other")
        await until(lambda: far.members == (far.me.endpoint,), "the far one keeps nobody")


async def test_a_cut_one_way_ends_the_link_for_both_sides(world: Supervisor) -> None:
    async with members_of(world, "one-way", EU, US) as (near, far):
        world.order("cut", here="eu", there="us", one_way=True)
        await until(lambda: near.told and far.told, "both sides are told")
        world.order("heal", number=world.get("/api/lab")["cuts"][0]["number"])
        await until(lambda: len(near.members) == len(far.members) == 2, "they merge")


async def test_a_crashed_host_is_missed_and_comes_back_with_its_people(world: Supervisor) -> None:
    async with members_of(world, "crash", EU, US) as (_, far), rostra.connect(world.socket(US)) as me:
        state = world.order("crash", server=EU)
        assert state["crashed"] == [EU]
        assert not any(EU in command for command in world.children.values()), "its programs are dead too"
        await until(lambda: far.told, "the other host is told")
        (change,) = far.told
        assert isinstance(change, Without) and change.domain == EU

        async def people() -> set[str]:
            members = (await me.resolve("lounge", fresh=True)).members
            return {member.endpoint for member in members if member.endpoint.startswith(f"{EU}/")}

        await until(lambda: _none(people()), "its people are gone")
        assert world.order("restart", server=EU)["crashed"] == []
        await until(people, "its people are back")


async def _none(asked: Any) -> bool:
    return not await asked


async def test_a_paused_agent_is_missed_and_comes_back_as_it_was(world: Supervisor) -> None:
    async with members_of(world, "pause", EU, US) as (near, far):
        assert world.order("pause", server=EU)["paused"] == [EU]
        await until(lambda: len(far.members) == 1, "the other side goes on without it")
        assert world.order("resume", server=EU)["paused"] == []
        await until(lambda: len(near.members) == len(far.members) == 2, "they merge")


async def test_a_server_that_crashed_comes_back(world: Supervisor) -> None:
    async with members_of(world, "server", EU, US) as (near, far):
        world.order("crash", server="us")
        await until(lambda: len(near.members) == len(far.members) == 1, "apart")
        world.order("restart", server="us")
        await until(lambda: len(near.members) == len(far.members) == 2, "together")


async def test_whoever_is_told_nothing_finds_the_world_even_when_its_first_host_is_dead(
    world: Supervisor,
) -> None:
    front = find_agent(world.environ)
    async with rostra.connect(str(front)) as me:
        assert me.host == EU
    world.order("crash", server=EU)
    async with rostra.connect(str(front)) as me:
        assert me.host == "eu.paris.h2"


def test_orders_that_cannot_be_carried_out_say_why(world: Supervisor) -> None:
    assert "nothing of this world is in mars" in world.refused("cut", here="mars")["what"]
    assert "no cable runs between" in world.refused("cut", here=EU, there="us")["what"]
    assert "no cable runs between" in world.refused("cut", here="world")["what"]
    assert "no cut 99" in world.refused("heal", number=99)["what"]
    assert "no server mars" in world.refused("crash", server="mars")["what"]
    assert "is running" in world.refused("restart", server="us")["what"]
    world.order("crash", server=US)
    assert "is not running" in world.refused("crash", server=US)["what"]
    assert "is not running" in world.refused("pause", server=US)["what"]


def test_the_same_cut_twice_is_one_cut(world: Supervisor) -> None:
    assert world.order("cut", here="eu", there="us") == world.order("cut", here="eu", there="us")


async def test_a_process_that_dies_unasked_is_told_in_a_line_and_can_be_restarted(world: Supervisor) -> None:
    os.kill(world.pid_of("agent eu.paris.h2"), signal.SIGKILL)
    await until(lambda: world.get("/api/lab")["crashed"] == ["eu.paris.h2"], "it is seen")
    said = "eu.paris.h2 was killed by SIGKILL; its log ends with:\n"
    await until(lambda: said in world.remarks, "it is said")
    world.order("restart", server="eu.paris.h2")


async def test_two_worlds_do_not_disturb_each_other(world: Supervisor) -> None:
    with supervisor(runtime_directory=world.runtime_directory) as second:
        second.wait_until_up()
        assert second.address != world.address
        assert world.worlds == [world.home, second.home]
        async with rostra.connect(str(find_agent(world.environ))) as me:
            assert me.host == EU
        second.end()
        assert world.worlds == [world.home]


def test_ctrl_c_ends_every_process_and_leaves_nothing() -> None:
    with supervisor() as one:
        children = one.wait_until_up().children
        assert len(children) == 4, "a region, a cluster, a host and its people"
        assert one.end() == 0
        assert [pid for pid in children if is_alive(pid)] == []
        assert list(one.runtime_directory.iterdir()) == []


def test_ctrl_c_while_paused_and_cut_ends_every_process_too() -> None:
    with supervisor() as one:
        children = one.wait_until_up().children
        one.order("pause", server="eu.paris.h1")
        one.order("cut", here="eu.paris")
        assert one.end() == 0
        assert [pid for pid in children if is_alive(pid)] == []
        assert list(one.runtime_directory.iterdir()) == []


async def test_ctrl_c_while_it_starts_ends_every_process_too() -> None:
    with supervisor() as one:
        children = await until(lambda: one.children, "it starts processes")
        assert one.end() == 0
        assert [pid for pid in children if is_alive(pid)] == []
        assert list(one.runtime_directory.iterdir()) == []


async def test_nobody_outlives_a_supervisor_that_was_killed_and_the_next_one_cleans_up() -> None:
    with supervisor() as one:
        children = one.wait_until_up().children
        one.order("pause", server="eu.paris.h1")
        left = one.home
        one.process.kill()
        one.process.wait()
        await until(lambda: not any(map(is_alive, children)), "all processes are gone")
        assert left.exists() and one.worlds == []
        with supervisor(runtime_directory=one.runtime_directory) as another:
            another.wait_until_up()
            assert not left.exists()


async def test_a_world_file_is_run_as_it_is_written(tmp_path: Path) -> None:
    """Two levels in one process: no cable between them, and one between the regions."""
    file = tmp_path / "acme.toml"
    file.write_text(
        '[world]\nname = "acme \\"quoted\\""\nprofile = "wan"\n\n[servers]\n'
        'north = "10.1.1.1:7700"\n"north.n1" = "10.1.1.1:7700"\nsouth = "10.1.1.2:7700"\n'
        "\n[detect]\ndown_after_s = 2.5\n"
    )
    with supervisor("--world", str(file), "--hosts", "1", "--port", "0") as one:
        commands = one.wait_until_up().children.values()
        assert any("server --domain north --domain north.n1 " in command for command in commands)
        assert set(one.get("/api/places")["places"]) == {
            *("north", "north.n1", "north.n1.h1"),
            *("south", "south.h1"),
        }
        seen_by_it = load_world(one.home / "files" / "north.n1.h1.toml")
        assert (seen_by_it.profile, seen_by_it.detect) == ("wan", {"down_after_s": 2.5})
        async with rostra.connect(one.socket("north.n1.h1")) as me:
            assert me.world == 'acme "quoted"'

            async def are_there() -> bool:
                members = (await me.resolve("lounge")).members
                return {Domain(m.endpoint.partition("/")[0]) for m in members} == {"north.n1.h1", "south.h1"}

            await until(are_there, "people of both regions are in the lounge")
        assert (
            "no cable runs between north.n1 and north"
            in one.refused("cut", here="north.n1", there="north", link_only=True)["what"]
        )
        assert one.order("cut", here="north", there="south")["cuts"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--shape", "2x2"), "'2x2' is not a shape"),
        (("--shape", "0x1x1"), "'0x1x1' is not a shape"),
        (("--shape", "99x99x99"), "processes"),
        (("--shape", "2x2x2", "--world", "w.toml"), "--shape and --world"),
        (("--world", "/nonexistent.toml"), "cannot read world file"),
        (("--hosts", "3"), "--hosts without --world"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(options: tuple[str, ...], complaint: str) -> None:
    with supervisor(*options) as one:
        assert one.process.wait(WITHIN_S) == 2
        assert complaint in one.remarks and one.remarks.startswith("error: ")
        assert list(one.runtime_directory.iterdir()) == []


def test_a_port_that_is_taken_is_refused_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        supervisor("--port", str(taken.getsockname()[1])) as one,
    ):
        assert one.process.wait(WITHIN_S) == 2
        assert "in use" in one.remarks and one.remarks.count("\n") == 2
        assert list(one.runtime_directory.iterdir()) == []


async def test_what_is_done_to_the_world_is_in_its_journal_beside_what_its_servers_saw(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal"
    with supervisor("--shape", "1x1x2", "--port", "0", "--journal", str(journal)) as one:
        one.wait_until_up()
        one.order("cut", here="eu.paris.h2")
        one.order("heal")
        one.order("pause", server="eu.paris.h2")
        one.order("resume", server="eu.paris.h2")
        # What was not on the disk yet dies with the process, so let its first mark get there.
        await until(lambda: has_written(journal, "eu.paris.h1"), "the first mark is written")
        one.order("crash", server="eu.paris.h1")
        one.order("restart", server="eu.paris.h1")
        await until(lambda: all_links_up(one), "every link is up")
        assert one.end() == 0

    rows = read(journal).to_pylist()
    lab = [row for row in rows if row["role"] == "lab"]
    assert [row["seq"] for row in lab] == list(range(1, len(lab) + 1))
    lines = [(row["accuser"], row["peer"], row["change"]) for row in lab if row["kind"] == "line-changed"]
    both_ways = [("eu.paris", "eu.paris.h2"), ("eu.paris.h2", "eu.paris")]
    assert lines == [(*ends, change) for change in ("cut", "healed") for ends in both_ways]
    servers = [(row["peer"], row["change"]) for row in lab if row["kind"] == "server-changed"]
    assert servers[-4:] == [
        ("eu.paris.h2", "paused"),
        ("eu.paris.h2", "continued"),
        ("eu.paris.h1", "crashed"),
        ("eu.paris.h1", "started"),
    ]
    assert lab[-1]["kind"] == "closing"
    closed = {row["writer"] for row in rows if row["kind"] == "closing"}
    assert closed == {"the_supervisor", "eu", "eu.paris", "eu.paris.h1", "eu.paris.h2"}
    epochs = {row["epoch"] for row in rows if row["writer"] == "eu.paris.h1"}
    assert len(epochs) == 2, "the life that crashed, and the next"
    assert {row["world"] for row in rows} == {"small-world"}
