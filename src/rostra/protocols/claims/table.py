"""The claims of one scope: which strong kind each group has, and which hosts have members in it.

    claim/<group>          kind and birth       made by the first claim, removed with the last holder
    hold/<host>/<group>    life of the agent    that host has members, or asked to have them
    hold/<scope>/<group>   name of the order    with ``stable="disk"``: it is begun, and on disks

With ``stable="disk"`` the order of a group is begun by one host: of those that hold the claim, the one that
has held it for longest in one life of its agent.

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
from rostra.protocols.claims.messages import OrderName

CLAIM: Final = "claim/"
HOLD: Final = "hold/"

_decoder: Final = msgspec.msgpack.Decoder(GroupKind)
_life_decoder: Final = msgspec.msgpack.Decoder(int)
_order_decoder: Final = msgspec.msgpack.Decoder(OrderName)


class StandingClaim(Struct, eq=False):
    group_kind: GroupKind
    birth: int
    holders: dict[Domain, int]  # and in which life of its agent each claimed it


class ClaimTable:
    """The claims among the records of one scope; `depth` is the label at which its children differ."""

    def __init__(self, records: Records, depth: int) -> None:
        self._records = records
        self._depth = depth
        self._seen = -1  # the change of the records that the rest was made of
        self._claims: dict[str, StandingClaim] = {}
        self._held_by: Counter[str] = Counter()  # by child

    def get(self, name: str) -> StandingClaim | None:
        self._load()
        return self._claims.get(name)

    def names(self) -> list[str]:
        self._load()
        return sorted(self._claims)

    def holders(self) -> list[Domain]:
        self._load()
        return sorted({host for claim in self._claims.values() for host in claim.holders})

    def held_by(self, host: Domain) -> list[str]:
        self._load()
        return sorted([name for name, claim in self._claims.items() if host in claim.holders])

    def held_before(self, host: Domain, life: int) -> list[str]:
        """The names that an earlier life of that host's agent held, as far as that is known."""
        return [name for name in self.held_by(host) if self._claims[name].holders[host] not in (0, life)]

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

    def claim(self, name: str, host: Domain, kind: GroupKind, life: int = 0) -> StandingClaim:
        """Hold the claim of this group, which is of this kind if there is one."""
        self._load()
        claim = self._claims.get(name)
        if claim is None:
            record = self._records.put(CLAIM + name, msgspec.msgpack.encode(kind))
            claim = self._claims[name] = StandingClaim(kind, record.version, {})
        assert claim.group_kind == kind, f"{name} is {claim.group_kind}"
        if claim.holders.get(host) != life:
            self._records.put(_hold(name, host), msgspec.msgpack.encode(life))
            self._held_by[self._child(host)] += host not in claim.holders
            claim.holders[host] = life
        self._seen = self._last_change
        return claim

    def is_made(self, name: str, host: Domain, life: int, scope: Domain) -> bool:
        """May this life of this host's agent begin the order?"""
        claim = self._claims[name]
        if claim.group_kind.stable != "disk" or scope in claim.holders or claim.holders.get(host) != life:
            return False
        held = {each: self._records.get(_hold(name, each)) for each in claim.holders}
        since = {each: record.version for each, record in held.items() if record is not None}
        return min(since, key=lambda each: since[each], default=None) == host

    def why_not_begun(self, name: str, scope: Domain) -> str:
        """Why there can be no further group whose claim stands without hosts; empty if there can."""
        self._load()
        claim = self._claims.get(name)
        if (claim is None or scope not in claim.holders) and self._held_by[self._child(scope)] >= BEGUN_MAX:
            return f'{BEGUN_MAX} groups with stable="disk" have an order in this scope: delete some'
        return ""

    def begin(self, name: str, scope: Domain, order: str) -> None:
        """Record the order of the group, if it has none yet: the claim then stands without holders."""
        claim = self._claims[name]
        if not self.begun(name, scope):
            self._held_by[self._child(scope)] += scope not in claim.holders
            claim.holders[scope] = 0
            self._records.put(_hold(name, scope), msgspec.msgpack.encode(order))
            self._seen = self._last_change

    def begun(self, name: str, scope: Domain) -> str:
        """The name of the order that is begun; empty if there is none, or it was recorded without a name."""
        record = self._records.get(_hold(name, scope))
        return "" if record is None else _decode_order(record.data or b"")

    def release(self, name: str, host: Domain, *, permanent: bool) -> list[KeyedRecord]:
        """That host has no members any more. Returns the records that this removed."""
        self._load()
        claim = self._claims.get(name)
        if claim is None or host not in claim.holders:
            return []
        del claim.holders[host]
        self._held_by[self._child(host)] -= 1
        removed = [self._records.put(_hold(name, host), None)]
        self._seen = self._last_change
        return removed if permanent else removed + self.forget(name)

    def forget(self, name: str) -> list[KeyedRecord]:
        """The claim, if no host holds it."""
        self._load()
        claim = self._claims.get(name)
        if claim is None or claim.holders:
            return []
        del self._claims[name]
        removed = [self._records.put(CLAIM + name, None)]
        self._seen = self._last_change
        return removed

    def records_of(self, name: str, host: Domain) -> list[KeyedRecord]:
        """What an answer to this host about this group rests on, in the order of versions."""
        found = [self._records.get(CLAIM + name), self._records.get(_hold(name, host))]
        return sorted([record for record in found if record is not None], key=lambda each: each.version)

    def _child(self, host: Domain) -> str:
        """Behind which child of the scope's server a host is."""
        return ".".join(host.split(".")[: self._depth + 1])

    @property
    def _last_change(self) -> int:
        return self._records.last_change(CLAIM, HOLD)

    def _load(self) -> None:
        """Other keys change the records too, and so does a leader whom our replica follows. What cannot be
        read is no claim: only a replica that lies could have written it."""
        if self._seen == self._last_change:
            return
        self._seen = self._last_change
        self._claims, self._held_by = {}, Counter()
        for record in self._records.under(CLAIM):
            name, kind = record.key.removeprefix(CLAIM), decode_kind(record.data or b"")
            if kind is not None and _is_name(name):
                self._claims[name] = StandingClaim(kind, record.version, {})
        for record in self._records.under(HOLD):
            host, _, name = record.key.removeprefix(HOLD).partition("/")
            if name in self._claims and _is_path(host):
                self._claims[name].holders[Domain(host)] = _decode_life(record.data or b"")
                self._held_by[self._child(Domain(host))] += 1


def decode_kind(data: bytes) -> GroupKind | None:
    try:
        kind = _decoder.decode(data)
    except UNDECODABLE:
        return None
    return kind if kind.is_claimed else None


def _decode_life(data: bytes) -> int:
    """0: not known."""
    try:
        return max(0, _life_decoder.decode(data))
    except UNDECODABLE:
        return 0


def _decode_order(data: bytes) -> str:
    try:
        return _order_decoder.decode(data)
    except UNDECODABLE:
        return ""


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
