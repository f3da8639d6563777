"""A simulated world leaves the journals that a real one would, and they agree with what happened in it."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow.parquet as pq
import pytest

from rostra.errors import BadInput
from rostra.journal.schema import KIND_NAMES, KINDS, NAMES, SIGHT, VERSION
from rostra.journal.segments import SCHEMA, read
from rostra.names import host_of
from rostra.sim import World
from rostra.sim.checkers import _Reports
from rostra.sim.journal import SIMULATOR, journal_of
from rostra.sim.storm import storm

SEEDS = range(6)

REQUIRED = {"world", "writer", "role", "epoch", "seq", "at", "kind", "nth", "of", "virtual_s"}
SAID = {kind.name: REQUIRED | set(kind.columns.split()) for kind in KINDS}


@pytest.fixture(scope="module", params=SEEDS)
def stormy(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("journal")
    storm(request.param, "T-REF" if request.param % 2 else "uneven", journal=directory)
    return read(directory).to_pylist()


def epochs(rows):
    found = defaultdict(list)
    for row in rows:
        found[row["writer"], row["epoch"]].append(row)
    return found


def test_every_row_is_numbered_and_none_is_missing(stormy) -> None:
    for rows in epochs(stormy).values():
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert rows[0]["kind"] == "started"
        for row in rows:
            first = rows[row["seq"] - 1 - row["nth"]]
            assert (first["nth"], first["of"], first["kind"]) == (0, row["of"], row["kind"])
            assert 0 <= row["nth"] < row["of"]
        assert all(a["at"] <= b["at"] for a, b in pairwise(rows))


def test_the_time_of_every_row_is_that_of_the_world(stormy) -> None:
    for row in stormy:
        since_2026 = row["at"] - datetime(2026, 1, 1, tzinfo=UTC)
        assert since_2026 / timedelta(seconds=1) == pytest.approx(row["virtual_s"], abs=1e-6), row["kind"]


def test_an_epoch_ends_with_closing_or_in_a_crash(stormy) -> None:
    crashes = Counter(
        row["peer"] for row in stormy if row["kind"] == "server-changed" and row["change"] == "crashed"
    )
    unclosed = Counter()
    for (writer, _), rows in epochs(stormy).items():
        assert not any(row["kind"] == "closing" for row in rows[:-1])
        unclosed[writer] += rows[-1]["kind"] != "closing"
    assert +unclosed == crashes


def test_a_kind_fills_only_the_columns_it_is_documented_with(stormy) -> None:
    for row in stormy:
        assert row["kind"] in KIND_NAMES
        filled = {name for name, value in row.items() if value is not None}
        assert filled <= SAID[row["kind"]], row


def test_what_a_host_saw_adds_up(stormy) -> None:
    """By rows with news alone: nobody joins twice, and nobody leaves who was not seen."""
    for rows in epochs(stormy).values():
        seen: set[tuple[str, str]] = set()
        for row in rows:
            if row["kind"] in SIGHT and row["news"]:
                key = (row["group"], row["member"])
                assert (key in seen) == (row["change"] == "left")
                seen ^= {key}
        if rows[-1]["kind"] == "closing":
            assert not seen  # a storm ends when everybody has left


def test_a_membership_is_told_with_the_stamp_that_its_agent_wrote(stormy) -> None:
    truth = {
        (row["group"], row["member"], row["life"], row["stamp"])
        for row in stormy
        if row["kind"] == "member-joined"
    }
    told = {
        (row["group"], row["member"], row["life"], row["stamp"])
        for row in stormy
        if row["kind"] in SIGHT and row["change"] == "joined" and row["news"]
    }
    assert told <= truth


def test_what_leaves_one_server_is_what_arrives_at_the_other_or_was_lost(stormy) -> None:
    sent, received = Counter(), Counter()
    for row in stormy:
        if row["kind"] == "sent":
            sent[row["writer"], row["peer"], row["message"]] += row["count"]
        elif row["kind"] == "received":
            received[row["peer"], row["writer"], row["message"]] += row["count"]
    for key, count in received.items():
        if key[2] not in ("again", "Hello", "Beat", "Bye"):
            crashed = sum(1 for row in stormy if row["kind"] == "started" and row["writer"] == key[0]) > 1
            assert crashed or count <= sent[key], key


def test_sights_at_rest_are_those_of_the_checkers(tmp_path) -> None:
    """Host by host: what the rows add up to is what the simulator's own fold of the same notices gives."""
    world = World(3, domains={"haifa": 2, "paris": 2}, journal=tmp_path)
    programs = [world.program(host, f"p{n}") for n, host in enumerate(world.tree.hosts * 2)]
    for n, program in enumerate(programs):
        program.join("chess@world", online=n % 3 != 0)
        world.run(0.01)
    world.settle().cut("haifa | paris").settle().heal().settle()
    programs[1].kill()
    programs[2].leave("chess@world")
    world.settle()

    reports = _Reports()
    for record in world.history:
        reports.take(record)
    expected = {(host_of(x), str(g)): set(report.members) for x, g, report in reports}
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in journal_of(world).to_pylist():
        if row["kind"] in SIGHT and row["news"]:
            seen[row["writer"], row["group"]] ^= {row["member"]}
    assert expected
    assert {key: members for key, members in seen.items() if members} == expected


def test_the_simulator_writes_down_the_truth(tmp_path) -> None:
    world = World(1, domains={"haifa": 1, "paris": 1}, journal=tmp_path)
    world.settle().cut("link haifa > paris").run(1).heal().crash("paris.h1").settle()
    rows = [row for row in journal_of(world).to_pylist() if row["writer"] == SIMULATOR]
    told = [(r["kind"], r["accuser"], r["peer"], r["change"]) for r in rows if r["kind"] != "started"]
    assert ("line-changed", "haifa", "paris", "cut") in told
    assert ("line-changed", "haifa", "paris", "healed") in told
    assert ("server-changed", None, "paris.h1", "crashed") in told
    assert rows[-1]["kind"] == "settled"


@pytest.mark.parametrize("seed", [5, 6])
def test_one_seed_is_one_journal_byte_for_byte(seed, tmp_path) -> None:
    outcomes = [storm(seed, "pair", journal=tmp_path / name) for name in ("once", "again")]
    once, again = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*.parquet")
        }
        for name in ("once", "again")
    )
    assert once == again
    assert len(once) > 3
    assert outcomes[0] == outcomes[1] == storm(seed, "pair")  # and keeping one changes nothing


def test_a_second_run_does_not_mix_with_the_first(tmp_path) -> None:
    storm(1, "single", journal=tmp_path)
    with pytest.raises(BadInput, match="another run"):
        storm(2, "single", journal=tmp_path)


def test_files_carry_their_schema_and_their_place(tmp_path) -> None:
    world = World(1, domains={"haifa": 1}, journal=tmp_path)
    world.settle()
    world.close()
    (path,) = tmp_path.glob("date=2026-01-01/haifa.h1-*.parquet")
    metadata = pq.read_schema(path).metadata
    table = pq.read_table(path, partitioning=None)
    assert table.schema.remove_metadata() == SCHEMA
    assert table.column_names == list(NAMES)
    assert path.name == f"haifa.h1-1000-000000000001-{table.num_rows:012d}.parquet"
    assert metadata[b"rostra.schema"] == b"%d" % VERSION
    assert (metadata[b"rostra.writer"], metadata[b"rostra.last"]) == (b"haifa.h1", b"%d" % table.num_rows)
    assert not list(tmp_path.rglob(".*"))
