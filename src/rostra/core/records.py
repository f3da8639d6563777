"""The durable state of a domain's server: small records by key, and one version that counts all changes.

    put(key, data) ──▶ KeyedRecord(key, version, data) ── Secure ──▶ disk ──▶ a majority of the replicas

The content of a record belongs to the service that owns its key. There are no tombstones: a replica that
takes over receives all records at once (`RecordSet`), so a removed key is simply not among them.

The version is that of the whole set: a replica at version v has every change up to v. A leader's versions
begin at a floor that belongs to its term; without replicas they count from 1.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rostra.errors import StoreFailed
from rostra.names.checks import Natural

KEY_LENGTH_MAX: Final = 512

RECORD_BYTES_MAX: Final = 1 << 20
"""The data of one record. Raising it: heartbeats between replicas wait longer behind one."""

RECORD_BYTES: Final = 64
"""What a record counts as, its key and data apart."""

NO_KEY: Final = ""
"""Of a change that changes nothing, and is counted like any other."""

KEYS: Final = {
    "registry": "relaxed",  # the permanent names of a scope
    "claim/": "claims",  # claim/<group>: its kind
    "hold/": "claims",  # hold/<host>/<group>: a host that has members of it, or asked to have some
    "fences": "agreed",  # how far fencing tokens are reserved
    "set/": "agreed",  # set/own, set/above: a server's place in its two sets
    "assigned": "access",  # names, and who has them
    "closed": "access",  # groups that are for some alone
    "closed/": "access",  # closed/<scope>: the same of a scope around us, as its server sent it
    "revocations": "access",  # of authorities
    "views/": "agreed",  # views/<set>/<group>: its views
}
"""Which protocol owns which keys; those that begin so, if the name ends in a slash. The data of a record is
read and written by its owner alone."""


class KeyedRecord(Struct, frozen=True, array_like=True):
    """A key as the change number `version` left it."""

    key: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]
    version: Natural
    data: Annotated[bytes, Meta(max_length=RECORD_BYTES_MAX)] | None = None  # None: the key was removed

    @property
    def size(self) -> int:
        return RECORD_BYTES + len(self.key) + len(self.data or b"")


class RecordSet(Struct, frozen=True, array_like=True):
    """All records at one version, sorted by key."""

    version: Natural = 0
    records: tuple[KeyedRecord, ...] = ()

    @property
    def size(self) -> int:
        return sum([record.size for record in self.records])


class Records:
    def __init__(self) -> None:
        self.version = 0
        self.no_room = (
            ""  # why no change can be stored at present, by the last event of the disk (`core/disk.py`)
        )
        self._floor = 0
        self._kept: dict[str, KeyedRecord] = {}
        self._changes = 0
        self._all_changed = 0  # at this change
        self._changed: dict[str, int] = {}  # by what stands before the slash of a key: its last change

    @classmethod
    def of(cls, written: Iterable[Any]) -> "Records":
        """The records that these writes leave, applied in order. A write may be repeated; others are
        skipped."""
        records = cls()
        for each in written:
            if isinstance(each, KeyedRecord) and each.version > records.version:
                records.apply(each)
            elif isinstance(each, RecordSet):
                records.replace(each)
        return records

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def last_change(self, *prefixes: str) -> int:
        """Grows when a key may have changed that begins with one of these, each of which ends with its only
        slash."""
        return max([self._all_changed, *[self._changed.get(each[:-1], 0) for each in prefixes]])

    def get(self, key: str) -> KeyedRecord | None:
        return self._kept.get(key)

    def under(self, prefix: str) -> Iterator[KeyedRecord]:
        """The records whose keys have this prefix, sorted."""
        for key in sorted(self._kept):
            if key.startswith(prefix):
                yield self._kept[key]

    def all(self) -> RecordSet:
        return RecordSet(self.version, tuple(self.under("")))

    def check_room(self) -> None:
        if self.no_room:
            raise StoreFailed(self.no_room, fix="free some space on that disk, and ask again")

    def put(self, key: str, data: bytes | None) -> KeyedRecord:
        """Make the next change, at the server that owns these records. Without data, the key is removed."""
        assert len(key) <= KEY_LENGTH_MAX and len(data or b"") <= RECORD_BYTES_MAX, f"{key} is too large"
        record = KeyedRecord(key, max(self.version, self._floor) + 1, data)
        self.apply(record)
        return record

    def apply(self, record: KeyedRecord) -> None:
        """Apply a change that was numbered elsewhere."""
        assert record.version > self.version, f"{record.version} after {self.version}"
        self.version = record.version
        self._changes += 1
        self._changed[record.key.partition("/")[0]] = self._changes
        if record.data is not None:
            self._kept[record.key] = record
        else:
            self._kept.pop(record.key, None)

    def replace(self, kept: RecordSet) -> None:
        """Exactly these: what is not among them is removed."""
        self.version = kept.version
        self._changes += 1
        self._all_changed = self._changes
        self._kept = {record.key: record for record in kept.records}

    def renew(self, floor: int) -> KeyedRecord | None:
        """For a leader that begins: from now on versions are above `floor`, the present one included. None if
        nothing was ever kept; the first change will be above it, too."""
        assert floor > self.version, f"{floor} after {self.version}"
        self._floor = floor - 1
        return self.put(NO_KEY, None) if self.version else None
