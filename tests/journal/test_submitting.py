"""Those who speak through their LAN's delegate, in a simulated world: history, checkers, journal, replay."""

from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from rostra.groups.attributes import Role
from rostra.journal.schema import SIGHT
from rostra.journal.segments import read
from rostra.names import host_of
from rostra.protocols.fifo.events import Aggregated, Gap
from rostra.sim import World
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.history import AnyRecord, DeliveryRecord
from rostra.sim.journal import SimJournal
from rostra.sim.replay import recordings, replay

SITES = {"huji": 2, "mit": 1, "ntu": 1}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> tuple[Path, World]:
    """Two submit through losses, and the server of their LAN dies and comes back; two listen, far away."""
    directory = tmp_path_factory.mktemp("submitting")
    world = World(3, domains=SITES, fifo=True, journal=SimJournal(directory, record=True))
    world.settle()
    ann, bob, *listeners = [world.program(host) for host in world.tree.hosts]
    for listener in listeners:
        listener.join_fifo("g", role=Role.RECEIVE)
    world.run(3.0)
    world.lose(0.1, only="data")
    for submitter in (ann, bob):
        submitter.join_fifo("g", role=Role.SUBMIT)
        submitter.stream("g", 0.1, count=30)
    world.run(1.5).crash("huji").run(3.0).restart("huji").run(6.0)
    world.close()
    return directory, world


def given(history: list[AnyRecord], kind: type) -> list[int]:
    return [
        n
        for n, each in enumerate(history)
        if isinstance(each, DeliveryRecord) and isinstance(each.item, kind)
    ]


@pytest.mark.spec("X-055", "X-102", "X-005")
def test_everybody_has_everything_of_everybody_who_submits(told) -> None:
    _, world = told
    history = list(world.history or ())
    verdict = fifo_gap_free(history, complete=True)
    assert verdict.ok, verdict
    numbers: dict[tuple[str, str], int] = defaultdict(int)
    for place in given(history, Aggregated):
        numbers[history[place].endpoint, history[place].item.origin] += history[place].item.run.count
    assert len(numbers) == 2 * 2 and set(numbers.values()) == {30}
    assert len({history[place].item.by for place in given(history, Aggregated)}) == 2, "before and after"


def test_what_is_lost_doubled_or_missed_without_a_reason_is_found(told) -> None:
    _, world = told
    history = list(world.history or ())
    one, two = given(history, Aggregated)[4:6]
    lost = [*history[:one], *history[one + 1 :]]
    doubled = [*history[: one + 1], history[one], *history[one + 1 :]]
    item = history[one].item
    missed = replace(history[one], item=Gap(item.origin, item.run.first, item.run.end - 1))
    unseen = replace(history[two], item=replace(history[two].item, by="ntu.-delegate/aggregate#2"))
    for broken in (lost, doubled, [*history[:one], missed, *history[one + 1 :]], [*history[:two], unseen]):
        assert fifo_gap_free(broken).broken, broken[one]


def test_rows_tell_what_was_handed_over_by_the_name_of_whoever_said_it(told) -> None:
    directory, _ = told
    next_of: dict[tuple[str, str], int] = {}
    members = set()
    for row in read(directory).to_pylist():
        if row["kind"] == "stream-started":
            next_of[row["observers"][0], row["member"]] = row["first"]
        elif row["kind"] == "delivered":
            for observer in row["observers"]:
                assert next_of[observer, row["member"]] == row["first"], row
                next_of[observer, row["member"]] = row["last"] + 1
        elif row["kind"] in (*SIGHT, "member-joined"):
            members.add(row["member"])
    assert sorted(next_of.values()) == [31] * 4
    assert {host_of(each) for each in members if each} == {"mit.h1", "ntu.h1"}


def test_delegates_and_submitters_replay_byte_for_byte(told) -> None:
    directory, _ = told
    replayed = [replay(recording) for recording in recordings(directory)]
    assert [each.difference for each in replayed] == [None] * len(replayed)


def test_who_only_speaks_to_a_group_changes_nothing_in_what_its_host_sees_of_it(tmp_path: Path) -> None:
    """Its host has members of the group, and it is told of nobody: that is not what the host sees."""
    world = World(5, domains={"huji": 2, "mit": 1}, fifo=True, journal=SimJournal(tmp_path))
    world.settle()
    watcher = world.program("mit.h1")
    watcher.watch("g")
    listener, far = world.program("huji.h1"), world.program("huji.h2")
    for program in (listener, far):
        program.join_fifo("g", role=Role.RECEIVE)
    world.run(3.0)
    submitter = world.program("huji.h1")
    submitter.join_fifo("g", role=Role.SUBMIT)
    submitter.stream("g", 0.1, count=3)
    world.run(8.0).close()
    rows = [row for row in read(tmp_path).to_pylist() if row["kind"] in SIGHT]
    assert [row for row in rows if row["change"] == "left" and row["news"]] == []
    assert {row["writer"] for row in rows} >= {"huji.h1", "huji.h2", "mit.h1"}
    assert [row["member"] for row in rows if row["member"] and ".-delegate/" in row["member"]] == []
