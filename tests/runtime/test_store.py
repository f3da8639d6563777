"""What survives a restart, and what happens when it cannot."""

from pathlib import Path

import pytest

from rostra.errors import BadInput
from rostra.names import Domain, Group
from rostra.protocols.resolve.registry import RegistryRecord
from rostra.runtime import store as stores
from rostra.runtime.store import BLOCK, Disk, Memory, StoreFailed

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
    assert Memory().incarnation == clock.ms


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
    (tmp_path / f"{HOST}.sqlite").write_text("this is no database, and it is long enough to see that" * 20)
    with pytest.raises(BadInput, match="cannot use"):
        Disk(tmp_path, HOST)


def test_what_cannot_be_written_is_never_taken_for_written(tmp_path: Path) -> None:
    store = Disk(tmp_path, HOST)
    store._db.execute("PRAGMA query_only = ON")  # as a full disk or a read-only one does it
    with pytest.raises(StoreFailed):
        store.persist(RegistryRecord(Domain("eu"), 1, ("news",)))
    with pytest.raises(StoreFailed):
        store.reserve_above(store.incarnation + 10 * BLOCK)
