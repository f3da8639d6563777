"""What survives a restart, and what happens when it cannot."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from rostra.core.records import RECORD_BYTES_MAX, KeyedRecord, Records, RecordSet
from rostra.errors import BadInput, StoreFailed
from rostra.names import Domain, Group, replica_path
from rostra.protocols.election.core import Ballot
from rostra.protocols.relaxed.registry import RegistryRecord
from rostra.runtime import store as stores
from rostra.runtime.store import BLOCK, Disk, MemoryStore

HOST = Domain("eu.h1")


class Clock:
    """The wall clock, in our hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
        self.ms = ms
        monkeypatch.setattr(stores, "_wall_clock_ms", lambda: self.ms)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, 1_000_000)


def lived(directory: Path, *numbers: int) -> int:
    """One life that opens these endpoints and is then killed; the answer is its incarnation."""
    store = Disk(directory, HOST)
    for number in numbers:
        store.reserve_above(number)
    store.close()  # the file is as a killed process leaves it: everything is committed at once
    return store.incarnation


@pytest.mark.spec("C-005")
def test_incarnations_grow_even_if_the_clock_goes_back(tmp_path: Path, clock: Clock) -> None:
    first = lived(tmp_path)
    clock.ms -= 500_000
    assert lived(tmp_path) > first


@pytest.mark.spec("C-004", "C-005")
def test_a_new_life_begins_above_every_number_of_the_last(tmp_path: Path, clock: Clock) -> None:
    first = lived(tmp_path)
    handed_out = range(first, first + 5 * BLOCK)
    second = lived(tmp_path, *handed_out)
    assert second > first
    used = range(second, second + 3 * BLOCK)
    third = lived(tmp_path, *used)
    assert third > second
    assert lived(tmp_path) > used[-1]


@pytest.mark.spec("C-005")
def test_a_lost_state_directory_is_no_reason_to_start_again_from_one(tmp_path: Path, clock: Clock) -> None:
    first = lived(tmp_path / "before")
    clock.ms += 60_000
    assert lived(tmp_path / "after") > first + BLOCK
    assert MemoryStore().incarnation == clock.ms


@pytest.mark.spec("C-012")
def test_permanent_groups_survive(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    store.persist(RegistryRecord(Domain("eu"), 1, ("news",)))
    store.persist(RegistryRecord(Domain("eu"), 2, ("news", "näws")))
    store.persist(RegistryRecord(Domain("world"), 7, ()))
    store.close()

    registry = Disk(tmp_path, HOST).registry()

    assert registry.is_permanent(Group("näws", Domain("eu")))
    assert [(record.scope, record.version) for record in registry.records()] == [("eu", 2), ("world", 7)]


def test_records_of_the_own_scope_survive_and_removed_ones_do_not_return(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    records = Records()
    for key, data in (("a", b"1"), ("b", b"2"), ("a", None), ("c", b"3")):
        store.persist(records.put(key, data))
    store.close()
    store = Disk(tmp_path, HOST)
    assert store.registry().own.all() == records.all()
    store.persist(RecordSet(2, (KeyedRecord("d", 1, b"4"),)))
    store.persist(KeyedRecord("", 9))
    store.close()
    assert Disk(tmp_path, HOST).registry().own.all() == RecordSet(9, (KeyedRecord("d", 1, b"4"),))


def test_a_second_process_for_the_same_node_does_not_start(tmp_path: Path) -> None:
    first = Disk(tmp_path, HOST)
    with pytest.raises(BadInput, match=r"another process is running as eu\.h1"):
        Disk(tmp_path, HOST)
    Disk(tmp_path, Domain("eu.h2")).close()
    first.close()
    Disk(tmp_path, HOST).close()


def test_a_directory_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot use"):
        Disk(tmp_path / "file", HOST)


def overwritten(file: Path) -> None:
    file.write_text("this is no database, and it is long enough to see that" * 20)


def torn(file: Path) -> None:
    """The first page is whole, and what it points to is not: a disk that lied, or a copy made meanwhile."""
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


def sql(statement: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        database = sqlite3.connect(file)
        database.execute(statement)
        database.commit()
        database.close()

    return change


@pytest.mark.parametrize(
    "damage",
    [
        overwritten,
        torn,
        sql("UPDATE numbers SET reserved = 'many'"),
        sql("UPDATE registry SET names = '[1, 2'"),
        sql("UPDATE registry SET names = '[\"\"]'"),
        sql("UPDATE registry SET version = -3"),
        sql("UPDATE registry SET scope = 'no scope!'"),
        sql("UPDATE records SET version = 9"),
        sql("UPDATE records SET data = 'text'"),
        sql("UPDATE records_version SET version = 'many'"),
    ],
)
def test_a_damaged_file_is_named_and_never_guessed_at(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = Disk(tmp_path, HOST)
    store.persist(RegistryRecord(Domain("eu"), 1, ("news",)))
    store.persist(KeyedRecord("claim/chess", 1, b"data"))
    store.close()
    file = tmp_path / f"{HOST}.sqlite"
    damage(file)
    damaged = file.read_bytes()

    with pytest.raises(BadInput, match=r"eu\.h1\.sqlite is damaged") as refused:
        Disk(tmp_path, HOST)

    assert "move it away" in refused.value.fix
    assert file.read_bytes() == damaged, "whoever looks for what can be saved finds it as it was"
    file.rename(tmp_path / "damaged")
    Disk(tmp_path, HOST).close()


def test_what_cannot_be_written_is_never_taken_for_written(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    store._db.execute("PRAGMA query_only = ON")  # as a full disk or a read-only one does it
    with pytest.raises(StoreFailed):
        store.persist(RegistryRecord(Domain("eu"), 1, ("news",)))
    with pytest.raises(StoreFailed):
        store.reserve_above(store.incarnation + 10 * BLOCK)
    assert not store.has_reserved(store.incarnation + 10 * BLOCK)
    store._db.execute("PRAGMA query_only = OFF")
    store.reserve_above(store.incarnation + 10 * BLOCK)
    store.close()
    assert Disk(tmp_path, HOST).registry().records() == ()


def full(store: Disk) -> None:
    """The file may not grow any more: what SQLite then says is what it says of a full disk."""
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")


def test_room_is_made_before_it_is_needed_or_refused(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    store.keep_free(200_000)
    store.make_room()
    full(store)
    store.make_room()  # it is there
    kept = [KeyedRecord("a", 1, bytes(100_000)), KeyedRecord("a", 2, b"x" * 150_000)]
    for record in kept:
        store.persist(record)
    with pytest.raises(StoreFailed, match="full") as refused:
        store.make_room()
    assert refused.value.retriable
    store.persist_ballot(Ballot(3, replica_path(Domain("eu"), 1)))  # small, and in what is there
    store.close()
    assert Disk(tmp_path, HOST).registry().own.all() == RecordSet(2, (kept[1],))


def test_room_is_kept_for_as_much_again_as_there_is(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    store.persist(KeyedRecord("a", 1, bytes(300_000)))
    store.make_room()
    full(store)
    store.persist(KeyedRecord("b", 2, bytes(300_000)))
    with pytest.raises(StoreFailed, match="full"):
        store.make_room()
    store.persist(KeyedRecord("b", 3))
    store.make_room()


@pytest.mark.spec("C-161")
def test_a_vote_survives_a_restart(tmp_path: Path) -> None:
    voter = replica_path(Domain("eu"), 2)
    store = Disk(tmp_path, voter)
    assert store.ballot() == Ballot()
    store.persist_ballot(Ballot(7, replica_path(Domain("eu"), 1)))
    store.persist_ballot(Ballot(8, ""))
    store.close()
    again = Disk(tmp_path, voter)
    assert again.ballot() == Ballot(8, "")
    again.close()


@pytest.mark.spec("C-163")
def test_the_neighbours_of_a_replica_survive_a_restart(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    assert store.known() == ()
    store.persist_known((Domain("eu.h1"), Domain("us")))
    store.persist_known((Domain("eu.h2"), Domain("us")))
    store.close()
    again = Disk(tmp_path, HOST)
    assert again.known() == ("eu.h2", "us")
    again.close()


def test_without_a_state_directory_nobody_votes() -> None:
    with pytest.raises(StoreFailed, match="cannot vote"):
        MemoryStore().persist_ballot(Ballot(7, ""))


def crash(store: Disk, directory: Path) -> None:
    """As kill -9: no word to SQLite, whose log stays. What was not committed is not there."""
    files = {each: each.read_bytes() for each in directory.iterdir() if each.is_file()}
    store._db.close()
    for file, octets in files.items():
        file.write_bytes(octets)


def test_records_are_on_disk_when_they_are_synced_and_together(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    one, two, three = [KeyedRecord(f"claim/{number}", number, b"data") for number in (1, 2, 3)]
    store.persist(one)
    store.persist(two)
    crash(store, tmp_path)
    store = Disk(tmp_path, HOST)
    assert store.registry().own.get(one.key) is None

    store.persist(one)
    store.persist(two)
    store.sync()
    store.persist(three)
    crash(store, tmp_path)
    store = Disk(tmp_path, HOST)
    assert [store.registry().own.get(each.key) for each in (one, two, three)] == [one, two, None]
    store.persist(three)
    store.reserve_above(store.incarnation + 10 * BLOCK)  # is on disk at once, and what was before it
    crash(store, tmp_path)
    store = Disk(tmp_path, HOST)
    assert store.registry().own.get(three.key) == three
    store.close()


def test_a_disk_that_lost_records_takes_nothing_any_more(tmp_path: Path) -> None:
    """Nothing that rests on them may leave, whatever room there is later."""
    store = Disk(tmp_path, HOST)
    store.persist(KeyedRecord("claim/1", 1, b"data"))
    full(store)
    with pytest.raises(StoreFailed, match="full"):
        store.persist(KeyedRecord("claim/2", 2, bytes(RECORD_BYTES_MAX)))
        store.sync()
    store._db.execute("PRAGMA max_page_count = 1000000")
    for again in (
        store.sync,
        lambda: store.persist(KeyedRecord("claim/3", 3, b"data")),
        lambda: store.reserve_above(store.incarnation + 100 * BLOCK),
    ):
        with pytest.raises(StoreFailed, match="full"):
            again()
    store.close()
    assert list(Disk(tmp_path, HOST).registry().own.under("claim/")) == []


def test_writes_in_the_room_that_was_made_lengthen_neither_the_file_nor_its_log(tmp_path: Path) -> None:
    """Blocks of a full disk that are not ours already are not to be had. A log that was copied into the file
    is written again from its beginning."""
    store = Disk(tmp_path, HOST)
    store.make_room()
    sizes = {each.name: each.stat().st_size for each in tmp_path.glob("*.sqlite*")}
    assert set(sizes) == {f"{HOST}.sqlite", f"{HOST}.sqlite-wal"}
    for version in range(1, 101):
        store.persist(KeyedRecord(f"claim/{version % 4}", version, bytes([version]) * 5_000))
        store.sync()
    assert {each.name: each.stat().st_size for each in tmp_path.glob("*.sqlite*")} == sizes
    store.make_room()
    crash(store, tmp_path)
    store = Disk(tmp_path, HOST)
    assert store.registry().own.get("claim/0") == KeyedRecord("claim/0", 100, bytes([100]) * 5_000)
    store.close()
    assert [each.name for each in tmp_path.glob("*.sqlite*")] == [f"{HOST}.sqlite"], "one file, to be copied"


def test_a_store_of_an_earlier_version_is_taken_over_with_its_journal(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    store.persist(KeyedRecord("claim/1", 1, b"data"))
    store.close()
    earlier = sqlite3.connect(tmp_path / f"{HOST}.sqlite", isolation_level=None)
    earlier.execute("PRAGMA locking_mode = EXCLUSIVE")
    earlier.execute("PRAGMA journal_mode = PERSIST")
    earlier.execute("UPDATE numbers SET reserved = 9000000000000")
    earlier.close()
    assert (tmp_path / f"{HOST}.sqlite-journal").exists()
    store = Disk(tmp_path, HOST)
    assert store.incarnation == 9_000_000_000_001
    assert store.registry().own.get("claim/1") == KeyedRecord("claim/1", 1, b"data")
    store.close()
    assert [each.name for each in tmp_path.glob("*.sqlite*")] == [f"{HOST}.sqlite"]
