"""Groups that speak, in simulated journals: who was seen, what was handed over, and replayed all the same."""

from collections import defaultdict
from pathlib import Path

import pytest

from rostra.journal.schema import KINDS, SIGHT
from rostra.journal.segments import read
from rostra.sim import World
from rostra.sim.journal import SimJournal
from rostra.sim.replay import recordings, replay

SITES = {"huji": 2, "mit": 1, "ntu": 1}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> tuple[Path, World]:
    """Four speak and listen through losses and a cut; one is killed, one leaves."""
    directory = tmp_path_factory.mktemp("speaking")
    world = World(3, domains=SITES, fifo=True, journal=SimJournal(directory, record=True))
    world.settle()
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_fifo("g")
    world.run(3.0)
    world.lose(0.1, only="data")
    for program in programs:
        program.stream("g", 0.1, count=60)
    world.run(3.0).cut("huji | mit").run(8.0).heal().run(8.0)
    programs[-1].kill()
    world.run(5.0)
    world.close()
    return directory, world


def test_every_node_that_spoke_replays_byte_for_byte(told) -> None:
    directory, world = told
    replayed = [replay(recording) for recording in recordings(directory)]
    assert len(replayed) == len(world.tree.servers)
    assert [each.difference for each in replayed] == [None] * len(replayed)


def test_runs_are_without_hole_or_copy_from_the_beginning_of_each_stream_to_its_end(told) -> None:
    """What the rows say is what programs were handed, as their own records in the simulator have it."""
    directory, world = told
    next_of: dict[tuple[str, str, str], int] = {}
    handed: dict[tuple[str, str], int] = defaultdict(int)
    for row in read(directory).to_pylist():
        if row["observers"] is None or row["member"] is None:
            continue
        for observer in row["observers"]:
            key = (row["writer"], row["member"], observer)
            if row["kind"] == "stream-started":
                next_of[key] = row["first"]
            elif row["kind"] == "stream-gap":
                next_of[key] = row["last"] + 1
            elif row["kind"] == "delivered":
                assert row["first"] == next_of[key], row
                next_of[key] = row["last"] + 1
                handed[observer, row["member"]] += row["count"]
    assert len(handed) == 4 * 3
    heard: dict[tuple[str, str], int] = defaultdict(int)
    for record in world.history or ():
        if type(record).__name__ == "DeliveryRecord" and type(record.item).__name__ == "Delivered":
            heard[record.endpoint, record.item.stream] += record.item.run.count
    assert handed == heard


def test_members_of_such_a_group_are_seen_and_lost_like_those_of_any_other(told) -> None:
    directory, _ = told
    rows = read(directory).to_pylist()
    seen: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["kind"] in SIGHT and row["news"]:
            assert (row["member"] in seen[row["writer"]]) == (row["change"] == "left"), row
            seen[row["writer"]] ^= {row["member"]}
    assert all(len(members) in (0, 3) for members in seen.values()), seen
    lost = {(row["kind"], row["domain"]) for row in rows if row["kind"] in ("without", "only")}
    assert ("without", "mit") in lost and ("without", "huji") in lost


def test_their_rows_fill_only_the_columns_they_are_documented_with(told) -> None:
    directory, _ = told
    said = {kind.name: set(kind.columns.split()) for kind in KINDS}
    always = {"world", "writer", "role", "epoch", "seq", "at", "kind", "nth", "of", "virtual_s"}
    for row in read(directory).to_pylist():
        filled = {name for name, value in row.items() if value is not None} - always
        assert filled <= said[row["kind"]], row


def test_datagrams_are_counted_beside_the_messages_of_links(told) -> None:
    directory, _ = told
    sent = {
        (row["writer"], row["peer"], row["message"])
        for row in read(directory).to_pylist()
        if row["kind"] == "sent"
    }
    assert ("huji.h1", "huji", "Data datagram") in sent
    assert any(peer == "mit" and message == "Data datagram" for _, peer, message in sent)


def test_what_was_lost_is_journalled_with_who_had_it_how_long_it_took_and_how_often_it_was_asked(
    told,
) -> None:
    """A tenth of all datagrams was lost: hosts and delegates asked, and a repair is a row of the asker."""
    directory, world = told
    rows = read(directory).to_pylist()
    recovered = [row for row in rows if row["kind"] == "recovered"]
    assert {"mit", "mit.h1"} <= {row["writer"] for row in recovered}
    for row in recovered:
        assert row["count"] == row["last"] - row["first"] + 1 > 0
        assert row["answered_by"] in {*world.tree.servers, *world.tree.hosts}
        assert (row["latency_us"] is None) == (row["number"] == 0)
    asked = [row for row in recovered if row["number"]]
    assert asked and all(row["latency_us"] > 0 for row in asked)
    lost_for_ever = {(row["writer"], row["member"], row["first"]) for row in asked}
    assert len(lost_for_ever) == len(asked), "one answer to a question is one row"


def test_a_delivery_says_how_late_its_slowest_message_was(told) -> None:
    directory, _ = told
    late = [row["latency_us"] for row in read(directory).to_pylist() if row["kind"] == "delivered"]
    assert all(each is not None and each >= 0 for each in late)
    assert max(late) > 20_000, "a lost message is as late as its repair"
