"""Journals of real processes: what is in them after a clean end, after kill -9, and when the disk is full."""

import json
import os
import re
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from support.lab import FORGIVING, FORGIVING_S, ROSTRA, WITHIN_S, Lab, until

from rostra.journal.schema import SIGHT
from rostra.journal.segments import read


class Journalled(Lab):
    """A lab whose nodes keep journals, each in segments of half a second."""

    def __init__(self, directory: Path, journal: Path, **options) -> None:
        self.extra = options.pop("extra", "")
        super().__init__(directory, namespaces=False, more=FORGIVING, **options)
        self.journal = journal

    def _write_world(self) -> None:
        super()._write_world()
        with self.world_file.open("a") as file:
            file.write(f'\n[journal]\nat = "{self.journal}"\nsegment_s = 0.5\n{self.extra}')

    def rows(self, writer: str) -> list[dict]:
        return [row for row in read(self.journal).to_pylist() if row["writer"] == writer]

    def kinds(self, writer: str) -> Counter[str]:
        return Counter(row["kind"] for row in self.rows(writer))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Journalled]:
    journalled = Journalled(tmp_path, tmp_path / "journal", servers=("eu",), hosts=("eu.h1", "eu.h2"))
    yield journalled
    journalled.close()


def epochs(rows: list[dict]) -> dict[int, list[dict]]:
    found: dict[int, list[dict]] = defaultdict(list)
    for row in rows:
        found[row["epoch"]].append(row)
    return dict(sorted(found.items()))


async def test_a_clean_end_is_the_last_row_and_everything_before_it_is_there(lab: Journalled) -> None:
    await lab.start()
    async with lab.program("eu.h1", "ann") as ann, ann.join("chess") as chess:
        async with lab.program("eu.h2", "bob") as bob, bob.join("chess"):
            await until(lambda: len(chess.members) == 2, "ann sees bob")
            await ann.resolve("chess", fresh=True)
        await until(lambda: len(chess.members) == 1, "ann sees bob leave")
    lab["eu.h1"].signal(signal.SIGTERM)
    assert await lab["eu.h1"].ended() == 0

    rows = lab.rows("eu.h1")
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0]["kind"] == "started" and rows[-1]["kind"] == "closing"
    assert rows[-1]["what"] == "SIGTERM received"
    kinds = Counter(row["kind"] for row in rows)
    assert kinds["opened"] == kinds["closed"] == kinds["member-joined"] == kinds["member-left"] == 1
    (resolved,) = [row for row in rows if row["kind"] == "resolved"]
    assert resolved["answered_by"] == "eu" and resolved["count"] == 2 and resolved["latency_us"] > 0
    sight = [
        (row["member"].partition("#")[0], row["change"], row["cause"])
        for row in rows
        if row["kind"] in SIGHT and row["news"]
    ]
    assert sight == [
        ("eu.h1/ann", "joined", "snapshot"),
        ("eu.h2/bob", "joined", "join"),
        ("eu.h2/bob", "left", "leave"),
        ("eu.h1/ann", "left", "unfollowed"),
    ]
    assert any(row["message"] == "EndpointsJoined" for row in rows if row["kind"] == "sent")
    assert any(row["bytes"] for row in rows if row["message"] == "frame")


async def test_after_kill_9_the_lost_tail_is_seen_and_the_next_life_begins_anew(lab: Journalled) -> None:
    await lab.start()
    async with lab.program("eu.h1", "ann") as ann, ann.join("chess"):
        await until(lambda: lab.kinds("eu.h1")["member-joined"], "the join is on the disk")
        lab["eu.h1"].kill()
    lab["eu.h1"].start()
    await until(lambda: len(epochs(lab.rows("eu.h1"))) == 2, "the second life writes")
    await until(lambda: downs(lab), "the server has written that it lost it")
    lab["eu.h1"].signal(signal.SIGTERM)
    assert await lab["eu.h1"].ended() == 0

    first, second = epochs(lab.rows("eu.h1")).values()
    for rows in (first, second):
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1)), "no hole before the end"
        assert rows[0]["kind"] == "started"
    assert "closing" not in {row["kind"] for row in first}
    assert first[-1]["kind"] == "heartbeat"
    assert second[-1]["kind"] == "closing"
    # What the server saw of it goes on across both lives.
    assert downs(lab)[0]["accuser"] == "eu"


def downs(lab: Journalled) -> list[dict]:
    return [row for row in lab.rows("eu") if row["kind"] == "link-down" and row["peer"] == "eu.h1"]


async def test_a_node_given_up_leaves_the_evidence_in_its_accusers_journal(lab: Journalled) -> None:
    await lab.start()
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("chess") as chess,
        lab.program("eu.h2", "bob") as bob,
        bob.join("chess"),
    ):
        await until(lambda: len(chess.members) == 2, "ann sees bob")
        lab["eu.h2"].signal(signal.SIGSTOP)
        await until(lambda: len(chess.members) == 1, "bob is lost")
        await until(lambda: lab.kinds("eu")["link-down"], "on the disk")
        await until(lambda: lab.kinds("eu.h1")["without"], "on the disk")
        lab["eu.h2"].resume()
    (down,) = [row for row in lab.rows("eu") if row["kind"] == "link-down"]
    assert (down["peer"], down["what"]) == ("eu.h2", "silent")
    assert down["silence_s"] > down["limit_s"] >= 1.0 and down["channel_open"] is True
    (lost,) = [row for row in lab.rows("eu.h1") if row["kind"] == "without"]
    assert lost["member"].startswith("eu.h2/bob#") and lost["news"] and lost["change"] == "left"
    assert (lost["domain"], lost["accuser"], lost["accused"]) == ("eu.h2", "eu", "eu.h2")
    assert lab.kinds("eu")["domain-failed"] == 1


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB."""
    where = tmp_path / "tiny"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(where)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], capture_output=True)


async def test_a_full_disk_is_said_and_counted_and_nobody_waits_for_it(
    tiny_disk: Path, tmp_path: Path
) -> None:
    lab = Journalled(
        tmp_path,
        tiny_disk,
        servers=("eu",),
        hosts=("eu.h1",),
        extra="segment_rows = 20\nwaiting_rows = 60\n",
    )
    try:
        await lab.start()
        async with lab.program("eu.h1", "ann") as ann:
            await until(lambda: lab.kinds("eu.h1")["heartbeat"], "it writes")
            stuffing = tiny_disk / "stuffing"
            fill(stuffing)
            await until(lambda: "journal_trouble" in lab["eu.h1"].log, "it says that the disk is full")
            assert "No space left on device" in lab["eu.h1"].log
            for n in range(40):  # the agent serves as before, while more happens than may wait
                async with ann.join(f"game-{n}"):
                    pass
            await until(lambda: "rows of eu.h1 are dropped" in lab["eu.h1"].log, "it drops rows, and says so")
            assert len((await ann.resolve("game-1")).endpoints) == 0

            stuffing.unlink()
            dropped = await until(lambda: lab.kinds("eu.h1")["dropped"], "it goes on")
        assert dropped and "writing to" in lab["eu.h1"].log
        lab["eu.h1"].signal(signal.SIGTERM)
        assert await lab["eu.h1"].ended() == 0
        rows = lab.rows("eu.h1")
        assert rows[-1]["kind"] == "closing"
        numbers = {row["seq"] for row in rows}
        for mark in [row for row in rows if row["kind"] == "dropped"]:
            numbers |= set(range(mark["first"], mark["last"] + 1))
            assert mark["count"] == mark["last"] - mark["first"] + 1
        assert numbers == set(range(1, rows[-1]["seq"] + 1)), "every number is there, or said to be lost"
    finally:
        lab.close()


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


async def test_a_place_that_may_not_be_written_stops_the_daemon_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    lab = Journalled(tmp_path, tmp_path / "file", servers=("eu",), hosts=("eu.h1",))
    lab._addresses = {"eu": "127.0.0.1:1"}
    lab._write_world()
    command = ["--world", str(lab.world_file), "--socket", str(tmp_path / "s")]
    done = subprocess.run(
        [*ROSTRA, "agent", "eu.h1", *command],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=dict(os.environ),
    )
    lab.close()
    assert done.returncode == 2
    assert re.search(r"cannot keep a journal at .*file: Not a directory", done.stderr), done.stderr
    assert "name a directory that we may write" in done.stderr


async def test_an_incident_is_recorded_and_replayed_and_a_longer_limit_would_have_spared_it(
    tmp_path: Path,
) -> None:
    """An agent stands still for three seconds, is given up, and comes back; afterwards every process ends."""
    lab = Journalled(
        tmp_path, tmp_path / "journal", servers=("eu",), hosts=("eu.h1", "eu.h2"), extra="record = true\n"
    )
    try:
        await lab.start()
        async with (
            lab.program("eu.h1", "ann") as ann,
            ann.join("chess") as chess,
            lab.program("eu.h2", "bob") as bob,
            bob.join("chess"),
        ):
            await until(lambda: len(chess.members) == 2, "ann sees bob")
            lab["eu.h2"].signal(signal.SIGSTOP)
            await until(lambda: len(chess.members) == 1, "bob is lost")
            lab["eu.h2"].signal(signal.SIGCONT)
            await until(lambda: len(chess.members) == 2, "bob is back")
        for node in ("eu.h1", "eu"):
            lab[node].signal(signal.SIGTERM)
            assert await lab[node].ended() == 0

        def recorded() -> int:
            return len(list((lab.journal / "_inputs").glob("eu.h2-*")))

        before = recorded()
        await until(lambda: recorded() > before, "what it went through is on the disk")
        lab["eu.h2"].kill()
    finally:
        lab.close()

    again = replay(lab.journal, "-o", "json")
    assert again.returncode == 0, again.stderr
    nodes = {each["node"]: each for each in json.loads(again.stdout)["replayed"]}
    assert set(nodes) == {"eu", "eu.h1", "eu.h2"}
    assert all(each["same"] for each in nodes.values()), nodes
    assert min(nodes["eu"]["inputs"], nodes["eu.h1"]["inputs"]) > 20 and nodes["eu.h2"]["inputs"] > 0, nodes
    assert nodes["eu"]["ended"] == "SIGTERM received"
    assert "killed" in nodes["eu.h2"]["ended"]

    spared = replay(lab.journal, "--node", "eu", "--set", "detect.down_after_s=60")
    assert spared.returncode == 0, spared.stderr
    assert re.search(r"would not have given up eu\.h2 \(silent\) at \d\d:\d\d:\d\d", spared.stdout)

    same = replay(lab.journal, "--node", "eu", "--set", f"detect.down_after_s={FORGIVING_S}")
    assert "nothing would have been different" in same.stdout


def replay(*words) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ROSTRA, "sim", "replay", *map(str, words)], capture_output=True, text=True, timeout=WITHIN_S
    )


async def test_what_a_group_says_is_journalled_by_those_who_heard_it_and_replays(tmp_path: Path) -> None:
    lab = Journalled(
        tmp_path, tmp_path / "journal", servers=("eu",), hosts=("eu.h1", "eu.h2"), extra="record = true\n"
    )
    try:
        await lab.start()
        async with (
            lab.program("eu.h1", "ann") as ann,
            ann.join("chess", delivery="fifo") as speaker,
            lab.program("eu.h2", "bob") as bob,
            bob.join("chess", delivery="fifo") as listener,
        ):
            await until(lambda: len(speaker.members) == 2, "ann sees bob")
            for n in range(20):
                await speaker.send(f"move {n}".encode())
            heard = 0
            async for item in listener:
                heard += type(item).__name__ == "Message"
                if heard == 20:
                    break
            await until(lambda: lab.kinds("eu.h2")["delivered"], "on the disk")
        for node in ("eu.h1", "eu.h2", "eu"):
            lab[node].signal(signal.SIGTERM)
            assert await lab[node].ended() == 0
    finally:
        lab.close()
    runs = [row for row in lab.rows("eu.h2") if row["kind"] == "delivered"]
    assert {row["member"].partition("#")[0] for row in runs} == {"eu.h1/ann"}
    assert sum(row["count"] for row in runs) == 20
    assert all(a["last"] + 1 == b["first"] for a, b in pairwise(runs))
    again = replay(lab.journal)
    assert again.returncode == 0, again.stdout + again.stderr


async def test_replicas_are_recorded_and_replayed_through_a_failover(tmp_path: Path) -> None:
    lab = Journalled(
        tmp_path,
        tmp_path / "journal",
        servers=("eu",),
        hosts=("eu.h1", "eu.h2"),
        replicas={"eu": 3},
        extra="record = true\n",
    )
    await lab.start()
    try:
        async with (
            lab.program("eu.h1", "ann") as ann,
            ann.join("chess", delivery="fifo") as chess,
            lab.program("eu.h2", "bob") as bob,
            bob.join("chess", delivery="fifo") as heard,
        ):
            await until(lambda: len(chess.members) == 2, "ann sees bob")
            first = await lab.leader("eu")
            await until(lambda: lab.kinds("eu")["link-up"] == 2, "its first rows are on the disk")
            first.kill()
            second = await lab.leader("eu")
            assert second is not first
            first.start()
            await lab.register("kept", "eu")
            await chess.send(b"e4")
            assert await until(lambda: anext(aiter(heard)), "bob hears ann")
        await lab.calm()
        for process in lab.processes.values():
            process.signal(signal.SIGTERM)
        for process in lab.processes.values():
            assert await process.ended() == 0
    finally:
        lab.close()
    assert len(epochs(lab.rows("eu"))) >= 2, "each term in which a replica led is an epoch of its server"
    again = replay(lab.journal)
    assert again.returncode == 0, again.stdout + again.stderr
    for rank in (1, 2, 3):
        assert re.search(rf"^eu\.-seat-{rank} #\d+ .* same effects, byte for byte", again.stdout, re.M)
