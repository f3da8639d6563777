"""Logs as files: what `sync` has returned for is there; a batch that was not written to its end is not."""

import os
from pathlib import Path

import pytest

from rostra.core.logs import LogBatch, LogsSynced, kept_logs
from rostra.errors import BadInput, StoreFailed
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


def full(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_log_whose_write_failed_is_written_no_more_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, Domain("eu.h1"))
    disk.persist(LogBatch(LOG, ((1, b"1"),), b"head"))
    assert disk.sync_logs() == LogsSynced(1)
    with monkeypatch.context() as no_room:
        no_room.setattr(os, "pwrite", full)
        disk.persist(LogBatch(LOG, ((2, b"2"),)))
        why = "[Errno 28] No space left on device"
        assert disk.sync_logs() == LogsSynced(2, ((LOG, why),))
    disk.persist(LogBatch(LOG, ((3, b"3"),)))  # what is before it is not there
    disk.persist(LogBatch("other@eu", ((1, b"1"),), b"head"))
    assert disk.sync_logs() == LogsSynced(4, ((LOG, why),))
    disk.sync()
    disk.close()
    again = Disk(tmp_path, Domain("eu.h1"))
    logs = again.registry().logs or {}
    assert {name: list(log.entries) for name, log in logs.items()} == {
        LOG: [(1, b"1")],
        "other@eu": [(1, b"1")],
    }
    again.close()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "open"])
def test_a_log_that_could_not_be_begun_can_be_begun_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    files = LogFiles(tmp_path / "logs")
    with monkeypatch.context() as no_room:
        no_room.setattr(os, call, full)
        files.append(LogBatch(LOG, ((1, b"1"),), b"head"))
        assert [log for log, _ in files.sync().failed] == [LOG]
    assert reopened(tmp_path / "logs") == {}
    files.append(LogBatch(LOG, ((1, b"other"),), b"head"))
    assert files.sync() == LogsSynced(2)
    files.close()
    assert reopened(tmp_path / "logs") == {1: b"other"}


def test_what_is_synced_at_once_is_there_or_not_as_a_whole(tmp_path: Path) -> None:
    """A disk may write the end of it first: so it has one checksum."""
    files = LogFiles(tmp_path / "logs")
    files.append(LogBatch(LOG, ((1, b"1"),), b"head"))
    files.sync()
    for n in (2, 3, 4):
        files.append(LogBatch(LOG, ((n, b"%d" % n),)))
    files.sync()
    files.close()
    (file,) = (tmp_path / "logs").glob("*.log")
    data = bytearray(file.read_bytes())
    data[data.index(b"\xc4\x012") + 2] ^= 1
    file.write_bytes(data)
    assert reopened(tmp_path / "logs") == {1: b"1"}


def test_a_flipped_bit_before_the_last_batch_is_damage_and_no_torn_end(tmp_path: Path) -> None:
    file = written(tmp_path / "logs", 3)
    data = file.read_bytes().rstrip(b"\0")
    last = len(data) - (len(data) - 20) // 3  # the batches after the first one are shorter
    found = []
    for at in range(last):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        try:
            found.append(reopened(tmp_path / "logs"))
        except BadInput as refusal:
            assert "damaged" in refusal.what and "move it away" in refusal.fix
    assert found == []


def test_what_a_member_sends_does_not_look_like_a_batch(tmp_path: Path) -> None:
    """A whole file of another log, within a batch that was not written to its end."""
    other = written(tmp_path / "other", 3).read_bytes().rstrip(b"\0")
    file = written(tmp_path / "logs", 1)
    files = LogFiles(tmp_path / "logs")
    files.append(LogBatch(LOG, ((2, other),)))
    files.sync()
    files.close()
    file.write_bytes(file.read_bytes()[:-3])
    assert reopened(tmp_path / "logs") == {1: b"1"}


def test_room_is_asked_for_before_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, Domain("eu.h1"))
    disk.persist(LogBatch(LOG, ((1, b"1"),), b"head"))
    disk.sync_logs()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreFailed, match="No space"):
        disk.make_room()
    disk.close()


def test_batches_that_are_written_as_one_are_the_same() -> None:
    batches = [
        LogBatch(LOG, ((1, b"1"),), b"one"),
        LogBatch(LOG, ((2, b"2"), (3, b"3")), low=2),
        LogBatch(LOG, (), b"two"),
        LogBatch(LOG, ((9, b"9"),), b"new", anew=True),
        LogBatch(LOG, ((10, b"a"),), low=10),
    ]
    for begin in range(len(batches)):
        for end in range(begin + 1, len(batches) + 1):
            some, one = batches[begin:end], batches[begin]
            for each in some[1:]:
                one = one.then(each)
            before, after = batches[:begin], batches[end:]
            assert kept_logs([*before, one, *after]) == kept_logs(batches)


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
