"""Logs as files: what `sync` has returned for is there; a batch that was not written to its end is not."""

import os
from pathlib import Path

import pytest

from rostra.core.logs import LogBatch, kept_logs
from rostra.errors import StoreFailed
from rostra.names import Domain
from rostra.runtime import log_files
from rostra.runtime.log_files import LogFiles
from rostra.runtime.store import Disk

LOG = "ledger@eu"


def reopened(directory: Path) -> dict[int, bytes]:
    files = LogFiles(directory)
    kept = {position: data for batch in files.batches() for position, data in batch.entries}
    files.close()
    return kept


def written(directory: Path, count: int) -> Path:
    files = LogFiles(directory)
    for n in range(1, count + 1):
        files.append(LogBatch(LOG, ((n, b"%d" % n),), b"head" if n == 1 else None))
        files.sync()
        files.make_room()
    files.close()
    (file,) = directory.glob("*.log")
    return file


def test_what_was_synced_is_there(tmp_path: Path) -> None:
    written(tmp_path / "logs", 3)
    assert reopened(tmp_path / "logs") == {1: b"1", 2: b"2", 3: b"3"}


@pytest.mark.parametrize("lost", [1, 5, 9])
def test_a_batch_that_was_not_written_to_its_end_is_not(tmp_path: Path, lost: int) -> None:
    file = written(tmp_path / "logs", 3)
    data = file.read_bytes().rstrip(b"\0")
    file.write_bytes(data[:-lost])
    assert reopened(tmp_path / "logs") == {1: b"1", 2: b"2"}
    files = LogFiles(tmp_path / "logs")  # and what comes next is written where it ends
    files.append(LogBatch(LOG, ((3, b"other"),)))
    files.sync()
    files.close()
    assert reopened(tmp_path / "logs") == {1: b"1", 2: b"2", 3: b"other"}


def test_a_torn_batch_in_the_room_ahead_is_not_read(tmp_path: Path) -> None:
    file = written(tmp_path / "logs", 2)
    data = file.read_bytes()
    end = len(data.rstrip(b"\0"))
    file.write_bytes(data[:end] + b"\x20\0\0\0garbage" + data[end + 11 :])
    assert reopened(tmp_path / "logs") == {1: b"1", 2: b"2"}


def test_what_is_not_needed_any_more_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "WASTE_BYTES", 1_000)
    monkeypatch.setattr(log_files, "ROOM_BYTES", 1_000)
    files = LogFiles(tmp_path / "logs")
    for n in range(200):
        files.append(LogBatch(LOG, ((n, bytes(100)),), b"head" if not n else None, low=max(0, n - 3)))
        files.sync()
        files.make_room()
    files.close()
    (file,) = (tmp_path / "logs").glob("*.log")
    assert file.stat().st_size < 5_000
    assert sorted(reopened(tmp_path / "logs")) == [196, 197, 198, 199]


def test_a_log_that_ended_is_gone(tmp_path: Path) -> None:
    written(tmp_path / "logs", 2)
    files = LogFiles(tmp_path / "logs")
    files.append(LogBatch(LOG, anew=True))
    files.sync()
    files.close()
    assert not list((tmp_path / "logs").iterdir())


def test_a_write_that_fails_is_never_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, Domain("eu.h1"))
    disk.persist(LogBatch(LOG, ((1, b"1"),), b"head"))
    disk.sync()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as no_room:
        no_room.setattr(os, "pwrite", full)
        disk.persist(LogBatch(LOG, ((2, b"2"),)))
        with pytest.raises(StoreFailed, match="No space"):
            disk.sync()
        no_room.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreFailed):
        disk.sync()  # what was lost stays lost: nothing that rests on it may be done
    disk.close()
    again = Disk(tmp_path, Domain("eu.h1"))
    (log,) = (again.registry().logs or {}).values()
    assert list(log.entries) == [(1, b"1")]
    again.close()


def test_room_is_asked_for_before_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, Domain("eu.h1"))
    disk.persist(LogBatch(LOG, ((1, b"1"),), b"head"))
    disk.sync()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreFailed, match="No space"):
        disk.make_room()
    disk.close()


def test_batches_add_up() -> None:
    batches = [
        LogBatch("a", ((1, b"1"), (2, b"2")), b"one"),
        LogBatch("b", ((1, b"x"),)),
        LogBatch("a", ((3, b"3"),), low=2),
        LogBatch("a", head=b"two"),
    ]
    logs = kept_logs(batches)
    assert list(logs) == ["a"]  # the other has no head
    assert logs["a"].head == b"two" and list(logs["a"].entries) == [(2, b"2"), (3, b"3")]
    assert logs["a"].size == 2
    assert kept_logs([*batches, LogBatch("a", ((9, b"9"),), b"new", anew=True)])["a"].all("a") == LogBatch(
        "a", ((9, b"9"),), b"new", anew=True
    )
