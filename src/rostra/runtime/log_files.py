"""The logs of a node (`core/logs.py`) as files: one for each, that grows at its end.

    length, checksum, batch │ length, checksum, batch │ ... │ zeros, as room for what comes

What was not written to its end has a wrong checksum: the file ends before it, and nothing has been shown
that rests on it. Room is taken ahead of need, so that a full disk is noticed before a write fails. When most
of a file is not needed any more, what is goes into a new one, which takes its place.
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

from rostra.core.logs import KeptLog, LogBatch
from rostra.errors import UNDECODABLE, BadInput
from rostra.transport.trusted import own_directory, own_file

ROOM_BYTES: Final = 1 << 20
"""What is taken ahead of need, as soon as less than half of it is left. Raising it: larger steps of one turn
find room on a disk that is about to be full."""

WASTE_BYTES: Final = 4 << 20
"""A file is written anew when it has so much, and as much again as is needed, that is not needed any more."""

_FRAME: Final = struct.Struct("<II")
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
        self._used = self._read()
        os.ftruncate(self._handle, self._used)  # a batch that was not written to its end, and the room
        self._held = self._used  # what the file has, with the room
        self._waiting: list[bytes] = []

    def _read(self) -> int:
        """Where the last whole batch ends."""
        data = self._file.read_bytes()
        at = 0
        while at + _FRAME.size <= len(data):
            length, checksum = _FRAME.unpack_from(data, at)
            body = data[at + _FRAME.size : at + _FRAME.size + length]
            if not length or len(body) < length or crc32(body) != checksum:
                break
            try:
                batch = _decoder.decode(body)
            except UNDECODABLE as error:
                raise BadInput(
                    f"{self._file} is not what a node of Rostra wrote: {error}",
                    fix="put a backup in its place; or move it away: others of the group have what it had",
                ) from None
            self.log = batch.log
            self.kept.take(batch)
            at += _FRAME.size + length
        return at

    def append(self, batch: LogBatch) -> None:
        self.log = batch.log
        body = _encode(batch)
        self._waiting += (_FRAME.pack(len(body), crc32(body)), body)
        self.kept.take(batch)

    def make_room(self) -> None:
        if self._held - self._used < ROOM_BYTES // 2:
            os.posix_fallocate(self._handle, self._used, ROOM_BYTES)
            self._held = self._used + ROOM_BYTES

    def sync(self) -> None:
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        self._waiting.clear()
        _write(self._handle, data, self._used)
        os.fdatasync(self._handle)
        self._used += len(data)
        self._held = max(self._held, self._used)
        if self.kept.head is not None and self._used > 2 * self.kept.size + WASTE_BYTES:
            self._renew()

    def _renew(self) -> None:
        body = _encode(self.kept.all(self.log))
        data = _FRAME.pack(len(body), crc32(body)) + body
        new = self._file.with_suffix(".new")
        own_file(new)
        handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(handle, 0, len(data) + ROOM_BYTES)
            _write(handle, data, 0)
            os.fsync(handle)
            new.rename(self._file)
            sync_directory(self._file.parent)
        except OSError:
            os.close(handle)  # the old one has everything; there is no room for both
            with contextlib.suppress(OSError):
                new.unlink()
            return
        os.close(self._handle)
        self._handle, self._used, self._held = handle, len(data), len(data) + ROOM_BYTES

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
        file = self._files.get(batch.log)
        if file is None:
            own_directory(self._directory)
            file = self._files[batch.log] = LogFile(self._directory / _name_of(batch.log))
            sync_directory(self._directory)
        file.append(batch)
        self._waiting[batch.log] = file

    def make_room(self) -> None:
        for file in self._files.values():
            file.make_room()

    def sync(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for log, file in waiting.items():
            file.sync()
            if file.kept.head is None:
                del self._files[log]
                file.remove()

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
