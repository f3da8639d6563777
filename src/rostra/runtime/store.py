"""A node's stable storage: the numbers that it has used, and the records of its scope.

One SQLite file per node, held exclusively for the life of the process, so that a second process that claims
to be the same node with the same state directory does not start.

**Numbers.** Incarnations of a server, and the numbers of the endpoints its agent opens, come from one growing
sequence: endpoint numbers count up from the incarnation. Numbers are reserved on disk in blocks *before* they
are used, and a new life begins above everything reserved, whatever it used of it. The sequence also never
falls behind the wall clock in milliseconds: a machine whose state directory was lost, or that never had one,
still begins above its earlier lives as long as its clock is sane (C-005).

**A full disk.** What must not be lost is on disk before anything rests on it, so some room is always kept
free in the file itself (`make_room`): for records that come, and as much again as those that are there take.
A driver that gets none reports that to the node, which decides what to do without (`core/disk.py`). A write
that fails all the same, because one step changed more than that, ends the node: a crash is safe, forgetting
is not.
"""

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Protocol

import msgspec

from rostra.core.disk import FREE_BYTES
from rostra.core.logs import LogBatch, LogsSynced
from rostra.core.records import KEY_LENGTH_MAX, RECORD_BYTES_MAX, KeyedRecord, RecordSet
from rostra.errors import UNDECODABLE, BadInput, RostraError, StoreFailed
from rostra.names import Domain, parse_group_name, parse_scope
from rostra.protocols.election.core import Ballot
from rostra.protocols.relaxed.registry import Registry, RegistryRecord
from rostra.runtime.log_files import LogFiles
from rostra.transport.trusted import own_directory, own_file

Persisted = RegistryRecord | KeyedRecord | RecordSet | LogBatch

BLOCK: Final = 1024
"""Numbers reserved at a time. Larger: fewer disk writes; much larger: restarts would outrun the wall
clock."""


ROOM_BYTES: Final = 16_384
"""What a write may need beside its own bytes: pages of the tree, and of the free list. Room is made for as
much more than must be free, so that it is not made for every write."""


LOG_PAGES: Final = 32
"""So long is SQLite's log when it is copied into the file, and begun again in its place. Larger: the disk is
waited for less often; more of it is kept."""


BLAMED_MAX: Final = 256
"""Peers that are remembered because a message of theirs made us fail; the latest."""


class DiskStore(Protocol):
    incarnation: int

    def reserve_above(self, number: int) -> None:
        """Make sure that no later life of this node uses a number up to this one and some way beyond."""

    def has_reserved(self, number: int) -> bool:
        """Is this number reserved already?"""

    def keep_free(self, size: int) -> None:
        """From now on, `make_room` is for at least so many bytes."""

    def make_room(self) -> None:
        """The next writes find room on the disk; `StoreFailed` if there is none."""

    def registry(self) -> Registry: ...

    def persist(self, record: Persisted) -> None:
        """A list of another scope, or all records of ours: on disk when this returns. One record of ours: on
        disk when `sync` returns, together with others; what a log has more: when `sync_logs` does. A record
        that is there already is not written again."""

    def sync(self) -> None:
        """All records that were persisted are on disk when this returns. A driver asks for it before it
        performs anything that may rest on that; `StoreFailed`, and nothing may be performed any more."""

    def sync_logs(self) -> LogsSynced:
        """The same of logs, for the node, which holds back what rests on them."""

    def ballot(self) -> Ballot:
        """For whom a replica voted last, and in which term."""

    def persist_ballot(self, ballot: Ballot) -> None:
        """On disk when this returns: a replica votes once in each term."""

    def known(self) -> tuple[Domain, ...]:
        """The neighbours of the server that a replica led or followed last."""

    def persist_known(self, neighbours: tuple[Domain, ...]) -> None: ...

    def blamed(self) -> dict[Domain, int]:
        """Peers whose messages made earlier lives fail, and how often."""

    def blame(self, peer: Domain) -> None:
        """Count one more failure of this peer; on disk when this returns."""

    def forgive(self, peer: Domain) -> None: ...

    def close(self) -> None: ...


class MemoryStore:
    """No state directory: numbers from the wall clock, permanent groups relearnt from the servers above."""

    def __init__(self) -> None:
        self.incarnation = _wall_clock_ms()

    def reserve_above(self, number: int) -> None:
        pass

    def has_reserved(self, number: int) -> bool:
        return True

    def keep_free(self, size: int) -> None:
        pass

    def make_room(self) -> None:
        pass

    def registry(self) -> Registry:
        registry = Registry()
        registry.logs = None
        return registry

    def persist(self, record: Persisted) -> None:
        pass

    def sync(self) -> None:
        pass

    def sync_logs(self) -> LogsSynced:
        raise AssertionError("an agent without a state directory has no logs")

    def ballot(self) -> Ballot:
        return Ballot()

    def persist_ballot(self, ballot: Ballot) -> None:
        raise StoreFailed("a replica without a state directory cannot vote", fix="give it one with --state")

    def known(self) -> tuple[Domain, ...]:
        return ()

    def persist_known(self, neighbours: tuple[Domain, ...]) -> None:
        pass

    def blamed(self) -> dict[Domain, int]:
        return {}

    def blame(self, peer: Domain) -> None:
        pass

    def forgive(self, peer: Domain) -> None:
        pass

    def close(self) -> None:
        pass


class Disk:
    def __init__(self, directory: Path, path: Domain) -> None:
        self._file = directory / f"{path}.sqlite"
        self._gathers = False  # records since the last `sync` are in one transaction
        self._broken: StoreFailed | None = None  # some of them are lost, after we took them
        try:
            own_directory(directory)
            own_file(self._file)
            self._db = sqlite3.connect(self._file, timeout=0, isolation_level=None)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._check()
            # A commit is on disk when it returns, after one wait: for the log, and for no page of the file.
            # The log is beside the file from the first write on, and after an end that is not clean.
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("CREATE TABLE IF NOT EXISTS numbers (reserved INTEGER NOT NULL)")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS registry"
                " (scope TEXT PRIMARY KEY, version INTEGER NOT NULL, names TEXT NOT NULL)"
            )
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS records"
                " (key TEXT PRIMARY KEY, version INTEGER NOT NULL, data BLOB NOT NULL)"
            )
            self._db.execute("CREATE TABLE IF NOT EXISTS records_version (version INTEGER NOT NULL)")
            self._db.execute("CREATE TABLE IF NOT EXISTS ballot (term INTEGER NOT NULL, vote TEXT NOT NULL)")
            self._db.execute("CREATE TABLE IF NOT EXISTS known (neighbour TEXT PRIMARY KEY)")
            self._db.execute("CREATE TABLE IF NOT EXISTS blame (peer TEXT NOT NULL, times INTEGER NOT NULL)")
            self._db.execute("CREATE TABLE IF NOT EXISTS room (bytes BLOB NOT NULL)")
            (last,) = self._db.execute("SELECT max(reserved) FROM numbers").fetchone()
            if not isinstance(last, int | None):
                raise ValueError(f"{last!r} is no number")
            self.incarnation = max(_wall_clock_ms(), (last or 0) + 1)
            self._lists = self._read_registry()
            self._kept = self._read_records()
            self._version = self._kept.version
            self._sizes = {record.key: record.size for record in self._kept.records}
            self._free_bytes = FREE_BYTES
            (self._page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
            self._ballot = self._read_ballot()
            self._known = self._read_known()
            self._blamed = self._read_blamed()
            self._reserved = self.incarnation + BLOCK
            self._reserve(self._reserved)
            self._db.execute("COMMIT")
            self._logs = LogFiles(directory / f"{path}.logs")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise self._not_started(error) from None
            raise BadInput(
                f"cannot use {self._file}: {error}", fix="check that it is a directory we may write"
            ) from None
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BadInput(
                    f"another process is running as {path} and holds {self._file}",
                    fix="stop it first, or give this one another --state directory",
                ) from None
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise self._not_started(error) from None
            raise BadInput(
                f"cannot use {self._file}: {error}", fix="check the directory's owner and mode"
            ) from None
        except (sqlite3.DatabaseError, *UNDECODABLE) as error:
            self._db.close()
            raise BadInput(
                f"{self._file} is damaged, or not what a node of Rostra wrote: {error}",
                fix="put a backup in its place, without the -wal beside it; or move it away: the node starts"
                " without it, with numbers"
                f" above all earlier ones if the clock is right; then register the permanent groups of {path}"
                " again, if it had any",
            ) from None

    def _not_started(self, error: Exception) -> RostraError:
        """Neither a wrong request nor a refusal: the disk has failed."""
        return RostraError(f"cannot write {self._file}: {error}", fix="free some space on that disk")

    def reserve_above(self, number: int) -> None:
        if number + BLOCK // 2 >= self._reserved:
            self._write(lambda: self._reserve(number + BLOCK))
            self._reserved = number + BLOCK

    def has_reserved(self, number: int) -> bool:
        return number <= self._reserved

    def keep_free(self, size: int) -> None:
        self._free_bytes = max(self._free_bytes, size)

    def make_room(self) -> None:
        """Write as much as may come, and take it back: its pages stay in the file, free for the next writes.
        And again, until SQLite's log is as long as it can become: its blocks stay ours, too."""
        try:
            self._logs.make_room()
        except OSError as error:
            raise StoreFailed(
                f"cannot write the logs of {self._file.stem}: {error}",
                fix="free some space on that disk, and ask again",
            ) from error
        needed = max(self._free_bytes, FREE_BYTES + sum(self._sizes.values())) + ROOM_BYTES
        log_bytes = LOG_PAGES * self._page_bytes + needed + ROOM_BYTES
        (pages,) = self._db.execute("PRAGMA freelist_count").fetchone()
        if pages * self._page_bytes >= needed and self._log_bytes() >= log_bytes:
            return
        self._find_room(needed + ROOM_BYTES + log_bytes)

        def rehearse() -> None:
            self._db.execute("DELETE FROM room")
            self._db.execute("INSERT INTO room (bytes) VALUES (zeroblob(?))", (needed + ROOM_BYTES,))

        try:
            self._db.execute("PRAGMA wal_autocheckpoint = 0")
            self._write(rehearse)
            while self._log_bytes() < log_bytes:
                self._write(rehearse)
        finally:
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            self._write(lambda: self._db.execute("DELETE FROM room"))
            self._attempt(lambda: self._db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall())

    def _log_bytes(self) -> int:
        log = self._file.with_name(f"{self._file.name}-wal")
        return log.stat().st_size if log.exists() else 0

    def _find_room(self, size: int) -> None:
        """What SQLite has in its log and cannot copy stays there, and the log grows: so we ask before."""
        probe = self._file.with_suffix(".room")
        try:
            with probe.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise StoreFailed(
                f"cannot write {self._file}: the disk is full ({error})",
                fix="free some space on that disk, and ask again",
            ) from error
        finally:
            probe.unlink(missing_ok=True)

    def registry(self) -> Registry:
        return Registry.of([*self._lists, self._kept, *self._logs.batches()])

    def persist(self, record: Persisted) -> None:
        match record:
            case LogBatch():
                self._logs.append(record)
            case RegistryRecord(scope, version, names):
                row = (scope, version, msgspec.json.encode(names).decode())
                self._write(
                    lambda: self._db.execute(
                        "INSERT OR REPLACE INTO registry (scope, version, names) VALUES (?, ?, ?)", row
                    )
                )
            case KeyedRecord(_, version) if version > self._version:
                self._gather(lambda: self._keep(version, (record,)))
                self._version = version
                self._sizes.pop(record.key, None)
                if record.data is not None:
                    self._sizes[record.key] = record.size
            case RecordSet(version, records):

                def replace() -> None:
                    self._db.execute("DELETE FROM records")
                    self._keep(version, records)

                self._write(replace)
                self._version = version
                self._sizes = {record.key: record.size for record in records}

    def _keep(self, version: int, records: Iterable[KeyedRecord]) -> None:
        """Version and records change together or not at all."""
        self._db.execute("DELETE FROM records_version")
        self._db.execute("INSERT INTO records_version (version) VALUES (?)", (version,))
        for record in records:
            if record.data is None:
                self._db.execute("DELETE FROM records WHERE key = ?", (record.key,))
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO records (key, version, data) VALUES (?, ?, ?)",
                    (record.key, record.version, record.data),
                )

    def ballot(self) -> Ballot:
        return self._ballot

    def persist_ballot(self, ballot: Ballot) -> None:
        def change() -> None:
            self._db.execute("DELETE FROM ballot")
            self._db.execute("INSERT INTO ballot (term, vote) VALUES (?, ?)", (ballot.term, ballot.vote))

        self._write(change)

    def known(self) -> tuple[Domain, ...]:
        return self._known

    def persist_known(self, neighbours: tuple[Domain, ...]) -> None:
        def change() -> None:
            self._db.execute("DELETE FROM known")
            self._db.executemany("INSERT INTO known (neighbour) VALUES (?)", [(each,) for each in neighbours])

        self._write(change)

    def blamed(self) -> dict[Domain, int]:
        return self._blamed

    def blame(self, peer: Domain) -> None:
        times = self._blamed.pop(peer, 0) + 1
        self._blamed = dict([*self._blamed.items(), (peer, times)][-BLAMED_MAX:])
        self._write_blamed()

    def forgive(self, peer: Domain) -> None:
        if self._blamed.pop(peer, None) is not None:
            self._write_blamed()

    def close(self) -> None:
        if self._broken is None:
            self.sync()
        self._logs.sync()
        self._logs.close()
        self._db.close()

    def _check(self) -> None:
        """The file is small. What is wrong with it must come out now, and not when it is needed."""
        found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise ValueError(found)

    def _read_registry(self) -> list[RegistryRecord]:
        rows = self._db.execute("SELECT scope, version, names FROM registry ORDER BY scope").fetchall()
        records = [
            msgspec.convert((scope, version, msgspec.json.decode(names)), _Row)
            for scope, version, names in rows
        ]
        for record in records:
            parse_scope(record.scope)
            for name in record.names:
                parse_group_name(name)
        return [RegistryRecord(Domain(record.scope), record.version, record.names) for record in records]

    def _read_records(self) -> RecordSet:
        (version,) = self._db.execute("SELECT max(version) FROM records_version").fetchone()
        rows = self._db.execute("SELECT key, version, data FROM records ORDER BY key").fetchall()
        kept = msgspec.convert((version or 0, rows), _Kept, builtin_types=(bytes,))
        if any(record.version > kept.version for record in kept.records):
            raise ValueError(f"records later than version {kept.version}")
        return RecordSet(kept.version, tuple([KeyedRecord(*row) for row in rows]))

    def _read_ballot(self) -> Ballot:
        row = self._db.execute("SELECT term, vote FROM ballot").fetchone()
        return Ballot() if row is None else msgspec.convert(row, _Vote).ballot()

    def _read_known(self) -> tuple[Domain, ...]:
        rows = self._db.execute("SELECT neighbour FROM known ORDER BY neighbour").fetchall()
        return tuple([parse_scope(msgspec.convert(path, str)) for (path,) in rows])

    def _read_blamed(self) -> dict[Domain, int]:
        rows = self._db.execute("SELECT peer, times FROM blame ORDER BY rowid").fetchall()
        return {parse_scope(row.peer): row.times for row in msgspec.convert(rows, list[_Blamed])}

    def _write_blamed(self) -> None:
        def change() -> None:
            self._db.execute("DELETE FROM blame")
            self._db.executemany("INSERT INTO blame (peer, times) VALUES (?, ?)", self._blamed.items())

        self._write(change)

    def _reserve(self, number: int) -> None:
        self._db.execute("DELETE FROM numbers")
        self._db.execute("INSERT INTO numbers (reserved) VALUES (?)", (number,))

    def sync(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._gathers:
            self._gathers = False
            try:
                self._attempt(lambda: self._db.execute("COMMIT"))
            except StoreFailed as error:
                self._broken = error
                raise

    def sync_logs(self) -> LogsSynced:
        return self._logs.sync()

    def _gather(self, change: "StoreChange") -> None:
        """With what else this turn writes: one commit, and so one wait for the disk, is for all of it."""
        if self._broken is not None:
            raise self._broken
        had_some = self._gathers
        try:
            if not had_some:
                self._attempt(lambda: self._db.execute("BEGIN IMMEDIATE"))
            self._attempt(change)
        except StoreFailed as error:
            if had_some:
                self._broken = error
            raise
        self._gathers = True

    def _write(self, change: "StoreChange") -> None:
        """Alone: it may fail, and the node goes on."""
        self.sync()

        def whole() -> None:
            self._db.execute("BEGIN IMMEDIATE")
            change()
            self._db.execute("COMMIT")

        self._attempt(whole)

    def _attempt(self, change: "StoreChange") -> None:
        try:
            change()
        except (sqlite3.Error, OverflowError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise StoreFailed(
                f"cannot write {self._file}: {error}", fix="free some space on that disk, and ask again"
            ) from error


class _Row(msgspec.Struct, array_like=True):
    """A line of the registry, as it must be."""

    scope: str
    version: Annotated[int, msgspec.Meta(ge=0)]
    names: tuple[str, ...]


class _KeptRow(msgspec.Struct, array_like=True):
    """A record, as it must be."""

    key: Annotated[str, msgspec.Meta(max_length=KEY_LENGTH_MAX)]
    version: Annotated[int, msgspec.Meta(ge=0)]
    data: Annotated[bytes, msgspec.Meta(max_length=RECORD_BYTES_MAX)]


class _Kept(msgspec.Struct, array_like=True):
    version: Annotated[int, msgspec.Meta(ge=0)]
    records: tuple[_KeptRow, ...]


class _Blamed(msgspec.Struct, array_like=True):
    """A line of blame, as it must be."""

    peer: str
    times: Annotated[int, msgspec.Meta(ge=1)]


class _Vote(msgspec.Struct, array_like=True):
    """A ballot, as it must be."""

    term: Annotated[int, msgspec.Meta(ge=0)]
    vote: str

    def ballot(self) -> Ballot:
        return Ballot(self.term, parse_scope(self.vote) if self.vote else "")


class StoreChange(Protocol):
    def __call__(self) -> object: ...


def open_store(directory: Path | None, path: Domain) -> DiskStore:
    return MemoryStore() if directory is None else Disk(directory, path)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
