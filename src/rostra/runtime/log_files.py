"""The logs of a node (`core/logs.py`) as files: one for each, that grows at its end.

    mark, salt, checksum │ length, checksum, batch │ length, checksum, batch │ ... │ zeros, as room ahead

All that is synced at once is one batch, and the next one is written when it is on disk. So what was not
written to its end, and has a wrong checksum, is the last: the file ends before it, and nothing has been shown
that rests on it. A wrong checksum with a good one behind it is damage, and the file is refused. Checksums
depend on the file and on the place in it, so nothing that members send can look like a batch.

Room is taken ahead of need, so that a full disk is noticed before a write fails. A log whose write fails all
the same is written no more: its owner gets `LogsSynced` with its name, and other logs go on. When most of a
file is not needed any more, what is goes into a new one, which takes its place.
"""

import contextlib
import os
import struct
from hashlib import blake2b
from pathlib import Path
from typing import Final
from urllib.parse import quote
from zlib import crc32

import msgspec

from rostra.core.logs import KeptLog, LogBatch, LogsSynced
from rostra.errors import UNDECODABLE, BadInput
from rostra.transport.trusted import own_directory, own_file

ROOM_BYTES: Final = 1 << 20
"""What is taken ahead of need, as soon as less than half of it is left. Raising it: larger steps of one turn
find room on a disk that is about to be full."""

WASTE_BYTES: Final = 4 << 20
"""A file is written anew when it has so much, and as much again as is needed, that is not needed any more."""

MARK: Final = b"ROSTRA1\n"
_HEAD_BYTES: Final = len(MARK) + 8 + 4
_CHECKSUM: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<II")
_PLACE: Final = struct.Struct("<QQ")
_BEGINS: Final = b"\x95"  # a batch, encoded
_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(LogBatch)


class LogFile:
    """One log. What `append` was given is on disk when `sync` returns."""

    def __init__(self, file: Path) -> None:
        self.log = ""  # whose it is, as its batches say
        self.kept = KeptLog()
        self._file = file
        own_file(file)
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._salt = 0
        try:
            self._used = self._read()
            os.ftruncate(self._handle, self._used)  # a batch that was not written to its end, and the room
            if self._used < _HEAD_BYTES:
                self._used = self._begin(self._handle)
        except BaseException:
            os.close(self._handle)
            raise
        self._held = self._used  # what the file has, with the room
        self._waiting: LogBatch | None = None

    def _read(self) -> int:
        """Where the last whole batch ends."""
        data = self._file.read_bytes()
        at = _HEAD_BYTES
        mark, salt, checksum = data[: len(MARK)], data[len(MARK) : at - 4], data[at - 4 : at]
        if mark != MARK or checksum != _CHECKSUM.pack(crc32(salt)):
            if data[at:].strip(b"\0"):  # its head was on disk before anything else
                raise self._refused("it does not begin as a log does")
            return 0
        self._salt = int.from_bytes(salt, "little")
        while (body := self._body(data, at)) is not None:
            try:
                batch = _decoder.decode(body)
            except UNDECODABLE as error:
                raise self._refused(f"at byte {at}: {error}") from None
            self.log = batch.log
            self.kept.take(batch)
            at += _FRAME.size + len(body)
        if (later := self._later(data, at)) is not None:
            raise self._refused(f"what is at byte {at} is damaged, and what is at byte {later} is not")
        return at

    def _begin(self, handle: int) -> int:
        """Write the head of a file: how long that is."""
        salt = os.urandom(8)
        _write(handle, MARK + salt + _CHECKSUM.pack(crc32(salt)), 0)
        os.fsync(handle)
        self._salt = int.from_bytes(salt, "little")
        return _HEAD_BYTES

    def _body(self, data: bytes, at: int) -> bytes | None:
        """The batch at this place, if there is a whole one."""
        if at + _FRAME.size > len(data):
            return None
        length, checksum = _FRAME.unpack_from(data, at)
        begin = at + _FRAME.size
        if not length or length > len(data) - begin or data[begin : begin + 1] != _BEGINS:
            return None
        body = data[begin : begin + length]
        return body if self._checksum(body, at) == checksum else None

    def _later(self, data: bytes, at: int) -> int | None:
        """Where a whole batch is, behind a place where there is none."""
        found = data.find(_BEGINS, at + _FRAME.size + 1)
        while found >= 0:
            if self._body(data, found - _FRAME.size) is not None:
                return found - _FRAME.size
            found = data.find(_BEGINS, found + 1)
        return None

    def _checksum(self, body: bytes, at: int) -> int:
        return crc32(body, crc32(_PLACE.pack(self._salt, at)))

    def _refused(self, why: str) -> BadInput:
        return BadInput(
            f"{self._file} is damaged, or not what a node of Rostra wrote: {why}",
            fix="put a backup in its place; or move it away: this host then gets what it had from the others"
            " of its group, and counts there as one whose disk is lost",
        )

    def append(self, batch: LogBatch) -> None:
        self.log = batch.log
        self._waiting = batch if self._waiting is None else self._waiting.then(batch)
        self.kept.take(batch)

    def make_room(self) -> None:
        if self._held - self._used < ROOM_BYTES // 2:
            os.posix_fallocate(self._handle, self._used, ROOM_BYTES)
            self._held = self._used + ROOM_BYTES

    @property
    def is_new(self) -> bool:
        """Is nothing on disk of it?"""
        return self._used == _HEAD_BYTES

    def sync(self) -> None:
        if self._waiting is None:
            return
        data = self._framed(self._waiting, self._used)
        self._waiting = None
        _write(self._handle, data, self._used)
        os.fdatasync(self._handle)
        self._used += len(data)
        self._held = max(self._held, self._used)
        if self.kept.head is not None and self._used > 2 * self.kept.size + WASTE_BYTES:
            self._renew()

    def _framed(self, batch: LogBatch, at: int) -> bytes:
        body = _encode(batch)
        return _FRAME.pack(len(body), self._checksum(body, at)) + body

    def _renew(self) -> None:
        """The old file stays if there is no room for both."""
        new, salt = self._file.with_suffix(".new"), self._salt
        own_file(new)
        try:
            handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            begin = self._begin(handle)
            data = self._framed(self.kept.all(self.log), begin)
            os.posix_fallocate(handle, begin, len(data) + ROOM_BYTES)
            _write(handle, data, begin)
            os.fsync(handle)
            new.rename(self._file)
        except OSError:
            self._salt = salt
            os.close(handle)
            with contextlib.suppress(OSError):
                new.unlink()
            return
        os.close(self._handle)
        self._handle, self._used = handle, begin + len(data)
        self._held = self._used + ROOM_BYTES
        sync_directory(self._file.parent)  # or the log has failed: which of the two has its name is not known

    def close(self) -> None:
        os.close(self._handle)

    def remove(self) -> None:
        self.close()
        self._file.unlink(missing_ok=True)


class LogFiles:
    """All logs of one node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, LogFile] = {}
        self._waiting: dict[str, LogFile] = {}
        self._count = 0  # batches of this life
        self._failed: dict[str, str] = {}  # logs, and why, since the last report
        self._given_up: dict[str, str] = {}  # those of which there is something on disk
        if directory.exists():
            own_directory(directory)
            for file in sorted(directory.glob("*.log")):
                found = LogFile(file)
                if found.kept.head is None:
                    found.remove()  # it ended, or nothing was written to its end
                else:
                    self._files[found.log] = found

    def batches(self) -> list[LogBatch]:
        """What is kept, each as one batch."""
        return [each.kept.all(log) for log, each in sorted(self._files.items()) if each.kept.head is not None]

    def append(self, batch: LogBatch) -> None:
        self._count += 1
        if batch.log in self._given_up:
            self._failed[batch.log] = self._given_up[batch.log]
            return
        try:
            file = self._files.get(batch.log)
            if file is None:
                own_directory(self._directory)
                file = self._files[batch.log] = LogFile(self._directory / _name_of(batch.log))
                sync_directory(self._directory)
        except OSError as error:
            self._fail(batch.log, error)
            return
        file.append(batch)
        self._waiting[batch.log] = file

    def _fail(self, log: str, error: OSError) -> None:
        """Nothing more is written to it: a write that failed may be there in part, and after a failed sync it
        is not known what is. The next life reads it. What is new can begin again before."""
        self._failed[log] = str(error)
        file = self._files.pop(log, None)
        if file is not None and not file.is_new:
            self._given_up[log] = str(error)
        if file is not None:
            with contextlib.suppress(OSError):
                file.remove() if file.is_new else file.close()

    def make_room(self) -> None:
        for file in self._files.values():
            file.make_room()

    def sync(self) -> LogsSynced:
        """What was appended is on disk, but for what is named."""
        waiting, self._waiting = self._waiting, {}
        for log, file in waiting.items():
            try:
                file.sync()
                if file.kept.head is None:
                    del self._files[log]
                    file.remove()
            except OSError as error:
                self._fail(log, error)
        failed, self._failed = self._failed, {}
        return LogsSynced(self._count, tuple(sorted(failed.items())))

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _write(handle: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(handle, rest, at)
        rest, at = rest[written:], at + written


def sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _name_of(log: str) -> str:
    """For people; the digest is for names that are too long, or of which a file system cannot tell two."""
    return f"{quote(log, safe='@.-_')[:100]}.{blake2b(log.encode(), digest_size=8).hexdigest()}.log"
