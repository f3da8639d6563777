"""Permanent groups: which names an administrator has registered, scope by scope.

    Register ──▶ server of the scope ── Persist ──▶ disk
                        │
                        └── RegistryTold, down the tree ──▶ every server and agent inside the scope

The server of a scope owns the list of that scope and numbers its changes; everybody below holds a copy, keeps
it on disk too, and takes only newer ones. A list is small, changes by hand, and always travels whole, so a
copy is right or old, never half right. A scope whose last name was removed keeps its empty list: the number
must not start again.

Where a scope's server has replicas (C-160), each of them holds the list, and whoever leads owns it. A new
leader renews its list under a number above all that earlier leaders can have given: what one of those said in
its last moment may have reached somebody, and need not be in the list. The other replicas put the list of
their leader in the place of their own, whatever the numbers.

A lookup is local and never waits (C-012). What it says counts for later joins only: members are never evicted
by a change here (C-015).
"""

from collections.abc import Iterable

from msgspec import Struct

from rostra.names import Domain, Group


class RegistryRecord(Struct, frozen=True):
    """The permanent groups of one scope at one version: what is told, persisted, and loaded at start."""

    scope: Domain
    version: int
    names: tuple[str, ...]  # sorted


class Registry:
    def __init__(self) -> None:
        self._records: dict[Domain, RegistryRecord] = {}
        self._names: dict[Domain, frozenset[str]] = {}
        self._floors: dict[Domain, int] = {}

    @classmethod
    def of(cls, records: Iterable[RegistryRecord]) -> "Registry":
        """What was persisted, in any order; of several records of one scope the newest counts."""
        registry = cls()
        for record in records:
            registry.apply(record.scope, record.version, record.names)
        return registry

    def is_permanent(self, group: Group) -> bool:
        return group.name in self._names.get(group.scope, ())

    def apply(self, scope: Domain, version: int, names: Iterable[str]) -> bool:
        """Take over a scope's list if it is newer than ours; say whether it was."""
        known = self._records.get(scope)
        if known is not None and version <= known.version:
            return False
        self._keep(scope, version, frozenset(names))
        return True

    def register(self, group: Group) -> RegistryRecord:
        """For the server of the scope. The record as it is now: the old one if the group was in it."""
        return self._change(group.scope, self._names.get(group.scope, frozenset()) | {group.name})

    def unregister(self, group: Group) -> RegistryRecord:
        """For the server of the scope. The record as it is now: the old one if the group was not in it."""
        return self._change(group.scope, self._names.get(group.scope, frozenset()) - {group.name})

    def put(self, record: RegistryRecord) -> bool:
        """For a replica that follows a leader: exactly this list, though ours may be newer, for then it never
        counted. Say whether ours was another."""
        if self._records.get(record.scope) == record:
            return False
        self._keep(record.scope, record.version, frozenset(record.names))
        return True

    def renew(self, scope: Domain, floor: int) -> RegistryRecord | None:
        """For a server that begins to own a scope: the same list under a version of at least `floor`. None if
        there is no list; the first one will be above `floor`, too."""
        self._floors[scope] = floor
        known = self._records.get(scope)
        if known is None or known.version >= floor:
            return known
        return self._keep(scope, floor, self._names[scope])

    def record(self, scope: Domain) -> RegistryRecord | None:
        return self._records.get(scope)

    def records(self) -> tuple[RegistryRecord, ...]:
        """All lists, in the order of their scopes."""
        return tuple(self._records[scope] for scope in sorted(self._records))

    def _change(self, scope: Domain, names: frozenset[str]) -> RegistryRecord:
        known = self._records.get(scope, RegistryRecord(scope, 0, ()))
        if names == self._names.get(scope, frozenset()):
            return known
        return self._keep(scope, max(known.version, self._floors.get(scope, 0)) + 1, names)

    def _keep(self, scope: Domain, version: int, names: frozenset[str]) -> RegistryRecord:
        self._names[scope] = names
        self._records[scope] = RegistryRecord(scope, version, tuple(sorted(names)))
        return self._records[scope]
