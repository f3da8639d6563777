"""The claims of one scope: which strong kind each group has, and which hosts have members in it.

    claim/<group>          kind and birth       made by the first claim, removed with the last holder
    hold/<host>/<group>                         that host has members, or asked to have them
    hold/<scope>/<group>                        with ``stable="disk"``: the order is begun, and on disks

With ``stable="disk"`` the order of a group is begun by one host, which the first claim chooses; its hold
says in which life of its agent. Until it is begun another one is chosen if that one is gone.

Both are keyed records (`core/records.py`), so a takeover or a restart loses none. A claim of a permanent
group stays without holders.
"""

from collections import Counter
from typing import Final

import msgspec
from msgspec import Struct

from rostra.core.records import KEY_LENGTH_MAX, KeyedRecord, Records
from rostra.errors import UNDECODABLE
from rostra.groups.kinds import GroupKind
from rostra.names import Domain
from rostra.names.checks import check_path, check_relayed_name
from rostra.protocols.claims.config import BEGUN_MAX, CLAIMS_MAX, CLAIMS_OF_CHILD_MAX

CLAIM: Final = "claim/"
HOLD: Final = "hold/"

_decoder: Final = msgspec.msgpack.Decoder(GroupKind)


class StandingClaim(Struct, eq=False):
    group_kind: GroupKind
    birth: int
    holders: set[Domain]


class ClaimTable:
    """Of the records of one scope; `depth` says at which label its children differ."""

    def __init__(self, records: Records, depth: int) -> None:
        self._records = records
        self._depth = depth
        self._seen = -1  # the version of the records that the rest was made of
        self._claims: dict[str, StandingClaim] = {}
        self._held_by: Counter[str] = Counter()  # by child

    def get(self, name: str) -> StandingClaim | None:
        self._load()
        return self._claims.get(name)

    def names(self) -> list[str]:
        self._load()
        return sorted(self._claims)

    def held_by(self, host: Domain) -> list[str]:
        self._load()
        return sorted([name for name, claim in self._claims.items() if host in claim.holders])

    def why_not(self, name: str, host: Domain) -> str:
        """Why this host cannot have a claim of this group; empty if it can."""
        self._load()
        claim = self._claims.get(name)
        if len(_hold(name, host)) > KEY_LENGTH_MAX:
            return "the names of the group and of the host are too long together"
        if claim is None and len(self._claims) >= CLAIMS_MAX:
            return f"{CLAIMS_MAX} groups are claimed in this scope"
        if (claim is None or host not in claim.holders) and (
            self._held_by[self._child(host)] >= CLAIMS_OF_CHILD_MAX
        ):
            return f"{CLAIMS_OF_CHILD_MAX} claims of this scope are held by {self._child(host)}"
        return ""

    def claim(
        self, name: str, host: Domain, kind: GroupKind, scope: Domain | None = None, life: int = 0
    ) -> StandingClaim:
        """Hold the claim of this group, which is of this kind if there is one; in this life of the host's
        agent."""
        self._load()
        claim = self._claims.get(name)
        if claim is None:
            record = self._records.put(CLAIM + name, msgspec.msgpack.encode(kind))
            claim = self._claims[name] = StandingClaim(kind, record.version, set())
        assert claim.group_kind == kind, f"{name} is {claim.group_kind}"
        makes = kind.stable == "disk" and scope not in claim.holders and self._maker(name) in (None, host)
        if host not in claim.holders:
            claim.holders.add(host)
            self._held_by[self._child(host)] += 1
            self._records.put(_hold(name, host), str(life).encode() if makes else b"")
        elif makes and not self.is_made(name, host, life):
            self._records.put(_hold(name, host), str(life).encode())
        self._seen = self._records.version
        return claim

    def _maker(self, name: str) -> Domain | None:
        """Which of the holders may begin the order."""
        for host in sorted(self._claims[name].holders):
            if (record := self._records.get(_hold(name, host))) is not None and record.data:
                return host
        return None

    def is_made(self, name: str, host: Domain, life: int) -> bool:
        """May this life of this host's agent begin the order?"""
        record = self._records.get(_hold(name, host))
        return record is not None and record.data == str(life).encode()

    def why_not_begun(self, name: str, scope: Domain) -> str:
        """Why there can be no further group whose claim stands without hosts; empty if there can."""
        self._load()
        claim = self._claims.get(name)
        if (claim is None or scope not in claim.holders) and self._held_by[self._child(scope)] >= BEGUN_MAX:
            return f'{BEGUN_MAX} groups with stable="disk" have an order in this scope: delete some'
        return ""

    def begin(self, name: str, scope: Domain) -> None:
        """Its order is begun: the claim stands, whatever hosts are there."""
        claim = self._claims[name]
        if scope not in claim.holders:
            claim.holders.add(scope)
            self._held_by[self._child(scope)] += 1
            self._records.put(_hold(name, scope), b"")
            self._seen = self._records.version

    def release(self, name: str, host: Domain, *, permanent: bool) -> list[KeyedRecord]:
        """That host has no members any more: the records that this removed."""
        self._load()
        claim = self._claims.get(name)
        if claim is None or host not in claim.holders:
            return []
        claim.holders.discard(host)
        self._held_by[self._child(host)] -= 1
        removed = [self._records.put(_hold(name, host), None)]
        self._seen = self._records.version
        return removed if permanent else removed + self.forget(name)

    def forget(self, name: str) -> list[KeyedRecord]:
        """The claim, if no host holds it."""
        self._load()
        claim = self._claims.get(name)
        if claim is None or claim.holders:
            return []
        del self._claims[name]
        removed = [self._records.put(CLAIM + name, None)]
        self._seen = self._records.version
        return removed

    def records_of(self, name: str, host: Domain) -> list[KeyedRecord]:
        """What an answer to this host about this group rests on, in the order of versions."""
        found = [self._records.get(CLAIM + name), self._records.get(_hold(name, host))]
        return sorted([record for record in found if record is not None], key=lambda each: each.version)

    def _child(self, host: Domain) -> str:
        """Behind which child of the scope's server a host is."""
        return ".".join(host.split(".")[: self._depth + 1])

    def _load(self) -> None:
        """Other keys change the records too, and so does a leader whom our replica follows. What cannot be
        read is no claim: only a replica that lies could have written it."""
        if self._seen == self._records.version:
            return
        self._seen = self._records.version
        self._claims, self._held_by = {}, Counter()
        for record in self._records.under(CLAIM):
            name, kind = record.key.removeprefix(CLAIM), decode_kind(record.data or b"")
            if kind is not None and _is_name(name):
                self._claims[name] = StandingClaim(kind, record.version, set())
        for record in self._records.under(HOLD):
            host, _, name = record.key.removeprefix(HOLD).partition("/")
            if name in self._claims and _is_path(host):
                self._claims[name].holders.add(Domain(host))
                self._held_by[self._child(Domain(host))] += 1


def decode_kind(data: bytes) -> GroupKind | None:
    try:
        kind = _decoder.decode(data)
    except UNDECODABLE:
        return None
    return kind if kind.is_claimed else None


def _hold(name: str, host: Domain) -> str:
    return f"{HOLD}{host}/{name}"


def _is_name(name: str) -> bool:
    try:
        check_relayed_name(name)
    except UNDECODABLE:
        return False
    return True


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except UNDECODABLE:
        return False
    return True
