"""Permanent groups: the names that an administrator has registered, scope by scope.

    Register ──▶ server of the scope ── Persist ──▶ disk
                        │
                        └── RegistryTold, down the tree ──▶ every server and agent inside the scope

The server of a scope owns the scope's list and numbers its changes. The servers and agents below hold a copy,
on disk too, and accept only newer ones. A list is small, is changed by hand, and is always sent whole, so a
copy is right or old, never half right. A scope whose last name was removed keeps its empty list: its numbers
must not start again.

The list is a keyed record (`core/records.py`), and its number is the record's version. If the server has
replicas (C-160), the record is replicated, and the list goes down the tree when a majority has it: no later
leader lacks a list that was sent.

A lookup is local and never waits (C-012). A change counts for later joins only: it evicts no member (C-015).
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from rostra.core.logs import KeptLog, LogBatch, kept_logs
from rostra.core.records import RECORD_BYTES_MAX, KeyedRecord, Records
from rostra.errors import UNDECODABLE, TooLarge
from rostra.names import Domain, Group
from rostra.names.checks import check_relayed_name

REGISTRY: Final = "registry"
"""The key of a scope's list."""

_decoder: Final = msgspec.msgpack.Decoder(tuple[str, ...])


class RegistryRecord(Struct, frozen=True):
    """The permanent groups of one scope at one version: what is announced, persisted, and loaded at start."""

    scope: Domain
    version: int
    names: tuple[str, ...]  # sorted


class Registry:
    """The lists of all scopes around a node; everything that it must keep for its own scope, by key; and its
    logs."""

    def __init__(self, own: Records | None = None, logs: dict[str, KeptLog] | None = None) -> None:
        self.own = own if own is not None else Records()
        self.logs: dict[str, KeptLog] | None = {} if logs is None else logs  # None: we have no disk
        self._records: dict[Domain, RegistryRecord] = {}
        self._names: dict[Domain, frozenset[str]] = {}

    @classmethod
    def of(cls, written: Iterable[Any]) -> "Registry":
        """What was persisted: lists in any order, of which the newest of each scope counts; and our own
        records, in the order in which they were written."""
        written = list(written)
        registry = cls(Records.of(written), kept_logs(written))
        for record in written:
            if isinstance(record, RegistryRecord):
                registry.apply(record.scope, record.version, record.names)
        return registry

    def log_batches(self) -> tuple[LogBatch, ...]:
        """Our logs, each as one batch."""
        return tuple([log.all(name) for name, log in sorted((self.logs or {}).items())])

    def load(self, scope: Domain) -> None:
        """Our own scope's list is the one among our own records. What cannot be read counts as no list."""
        record = self.own.get(REGISTRY)
        names = decode_names(record.data) if record is not None and record.data is not None else None
        if record is not None and names is not None:
            self._keep(scope, record.version, frozenset(names))
        else:
            self._records.pop(scope, None)
            self._names.pop(scope, None)

    def is_permanent(self, group: Group) -> bool:
        return group.name in self._names.get(group.scope, ())

    def apply(self, scope: Domain, version: int, names: Iterable[str]) -> bool:
        """Take over a scope's list if it is newer than ours; say whether it was."""
        known = self._records.get(scope)
        if known is not None and version <= known.version:
            return False
        self._keep(scope, version, frozenset(names))
        return True

    def register(self, group: Group) -> KeyedRecord | None:
        """For the server of the scope. None if the group was in the list."""
        return self._change(group.scope, self._names.get(group.scope, frozenset()) | {group.name})

    def unregister(self, group: Group) -> KeyedRecord | None:
        """For the server of the scope. None if the group was not in the list."""
        return self._change(group.scope, self._names.get(group.scope, frozenset()) - {group.name})

    def record(self, scope: Domain) -> RegistryRecord | None:
        return self._records.get(scope)

    def records(self) -> tuple[RegistryRecord, ...]:
        """All lists, in the order of their scopes."""
        return tuple(self._records[scope] for scope in sorted(self._records))

    def copies(self, scope: Domain) -> tuple[RegistryRecord, ...]:
        """The lists of other scopes, of which this node holds copies."""
        return tuple([record for record in self.records() if record.scope != scope])

    def _change(self, scope: Domain, names: frozenset[str]) -> KeyedRecord | None:
        if names == self._names.get(scope, frozenset()):
            return None
        self.own.check_room()
        data = encode_names(names)
        if len(data) > RECORD_BYTES_MAX:
            raise TooLarge(
                f"{len(names)} permanent groups of {scope} with names of {len(data)} bytes in all",
                fix=f"remove some: there is room for {RECORD_BYTES_MAX} bytes",
            )
        record = self.own.put(REGISTRY, data)
        self._keep(scope, record.version, names)
        return record

    def _keep(self, scope: Domain, version: int, names: frozenset[str]) -> None:
        self._names[scope] = names
        self._records[scope] = RegistryRecord(scope, version, tuple(sorted(names)))


def encode_names(names: Iterable[str]) -> bytes:
    return msgspec.msgpack.encode(sorted(names))


def decode_names(data: bytes) -> tuple[str, ...] | None:
    """None if this is no list of names, or one with names that no group can have."""
    try:
        names = _decoder.decode(data)
        for name in names:
            check_relayed_name(name)
    except UNDECODABLE:
        return None
    return names
