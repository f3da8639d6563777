"""What a server keeps of its part in a set, so that its successor is the same member of it (D4).

    step ──▶ state ──▶ records: one for the set, one for each group that changed ── Secure ──▶ what it sends

An acknowledgement is a lock, and a commit is a promise. If a server that forgot them were taken for the one
that gave them, two sides could go on (V-019); if it is taken for another one, the set removes the first, and
all members below it. So before either is sent it is on disk, and with a majority of the replicas if the
server has some (`core/secure.py`). A server that recovers has its locks, the servers that it isolated, its
groups and their living state, under its previous incarnation; the others see a server that was away for a
moment.

Without room on its disk a server without replicas stands still: nothing of what it changes leaves before it
is stored (`core/secure.py`), joins are refused with the reason, and the set goes on without it if that lasts.

Kept are all sets of a server that has replicas, and of others those with a group whose rule lets one side
live at most. Not kept: what hosts ask again, groups that other sets hold, and groups whose record would
exceed `RECORD_BYTES_MAX` with their last view alone, or its key `KEY_LENGTH_MAX`: these are restored from the
hosts, as all are where nothing is kept.
"""

from operator import itemgetter
from typing import Final

import msgspec
from msgspec import Struct

from rostra.core.effects import Secure
from rostra.core.records import KEY_LENGTH_MAX, RECORD_BYTES_MAX, KeyedRecord, Records
from rostra.errors import UNDECODABLE
from rostra.names import Domain, Group, parent
from rostra.protocols.agreed.changes import (
    CommitRecord,
    GroupPlace,
    Number,
    Pid,
    Proposal,
    Round,
    ServerId,
    SetView,
)
from rostra.protocols.agreed.groups import AgreedGroup, CarriedGroups, GroupTable
from rostra.protocols.agreed.state import ChangeLane, Coordinating, Electing, Idle, Locked, Phase, SetState

SETS: Final = "set/"
GROUPS: Final = "views/"
OWN: Final = "own"  # set(D) at the server of D
ABOVE: Final = "above"  # the set that it is an ordinary member of


class KeptLane(Struct, frozen=True, array_like=True):
    """What the changes of one group follow, and the one that is in progress (`lanes.py`)."""

    group: Group
    slot: Number
    base: Pid
    last: CommitRecord | None
    lock: tuple[Proposal, Round] | None
    withdrawn: tuple[Round, ...]


class KeptSet(Struct, frozen=True, array_like=True):
    """A `SetState` without what is of the moment: links, offers, evidence, the queue; and without groups."""

    me: ServerId
    view: SetView
    slot: Number
    base: Pid
    last: CommitRecord | None
    lock: tuple[Proposal, Round] | None
    isolated: tuple[ServerId, ...]
    count: Number
    withdrawn: tuple[Round, ...]
    tried: tuple[Proposal, ...]
    carried: CarriedGroups
    merged: Number
    over: tuple[Pid, ...]
    gave_up: str
    places: tuple[tuple[Group, GroupPlace], ...] = ()  # of groups that are in another set, or on their way
    lanes: tuple[KeptLane, ...] = ()

    @classmethod
    def of(cls, state: SetState) -> "KeptSet":
        return cls(
            state.me,
            state.view,
            state.slot,
            state.base,
            state.last,
            state.lock,
            tuple(sorted(state.isolated)),
            state.count,
            state.withdrawn,
            state.tried,
            state.carried,
            state.merged,
            state.over,
            state.gave_up,
            tuple(sorted(state.table.places.items(), key=itemgetter(0))),
            tuple(
                [
                    KeptLane(group, lane.slot, lane.base, lane.last, lane.lock, lane.withdrawn)
                    for group, lane in state.lanes
                    if group is not None
                ]
            ),
        )

    def state(self, table: GroupTable) -> SetState:
        return SetState(
            self.me,
            self.view,
            self.slot,
            self.base,
            last=self.last,
            phase=self._phase(self.lock),
            isolated=frozenset(self.isolated),
            count=self.count,
            withdrawn=self.withdrawn,
            tried=self.tried,
            table=table,
            carried=self.carried,
            merged=self.merged,
            over=self.over,
            gave_up=self.gave_up,
            lanes=tuple([(each.group, self._lane(each)) for each in self.lanes]),
        )

    def _lane(self, kept: KeptLane) -> ChangeLane:
        return ChangeLane(kept.base, kept.slot, kept.last, self._phase(kept.lock), kept.withdrawn)

    def _phase(self, lock: tuple[Proposal, Round] | None) -> Phase:
        """As far as the others know. Acknowledgements and statuses are asked for again."""
        if lock is None:
            return Idle()
        proposal, round = lock
        if round.coordinator == self.me:
            return Coordinating(proposal, round)
        if round.coordinator in self.isolated:
            return Electing(proposal, round)
        return Locked(proposal, round)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_set: Final = msgspec.msgpack.Decoder(KeptSet).decode
_decode_group: Final = msgspec.msgpack.Decoder(AgreedGroup).decode


class SetKeeper:
    def __init__(self, domain: Domain, records: Records) -> None:
        self._domain = domain
        self._records = records
        self._sets: dict[Domain, KeptSet] = {}  # as last kept
        self._groups: dict[Domain, dict[Group, AgreedGroup]] = {}  # by set
        self._new: list[KeyedRecord] = []
        self._last: KeyedRecord | None = None

    def __contains__(self, name: Domain) -> bool:
        return name in self._sets

    def keep(self, name: Domain, state: SetState) -> None:
        """Whatever has changed since it was last kept."""
        kept = KeptSet.of(state)
        if kept != self._sets.get(name):
            self._sets[name] = kept
            self._put_set(name, _fitting(_encode(kept)))
        groups, before = state.table.groups, self._groups.setdefault(name, {})
        for group in [group for group, known in groups.items() if known is not before.get(group)]:
            before[group] = groups[group]
            self._put_group(name, group, _encoded(groups[group]))
        for group in [group for group in before if group not in groups] if len(before) > len(groups) else ():
            del before[group]
            self._put_group(name, group, None)

    def _put_set(self, name: Domain, data: bytes | None) -> None:
        if data is not None or SETS + self._which(name) in self._records:
            self._wrote(self._records.put(SETS + self._which(name), data))

    def _put_group(self, name: Domain, group: Group, data: bytes | None) -> None:
        place = self._place(name, group)
        fits = data is not None and len(GROUPS) + len(place) <= KEY_LENGTH_MAX
        if fits or GROUPS + place in self._records:
            self._wrote(self._records.put(GROUPS + place, data))

    def _wrote(self, record: KeyedRecord) -> None:
        self._last = record
        self._new.append(record)

    def secured(self, since: int) -> list[Secure]:
        """What must be written before anything else is done, in order; also what is being written still."""
        new = [Secure(record) for record in self._new if record.version > since]
        self._new = []
        return new or ([Secure(self._last)] if self._last is not None else [])

    def recovered(self) -> dict[Domain, SetState]:
        """Every set that was kept, if it can be read."""
        found = {}
        for which in (OWN, ABOVE):
            record = self._records.get(SETS + which)
            if record is None:
                continue
            name = self._domain if which == OWN else parent(self._domain)
            prefix = f"{GROUPS}{which}/"
            try:
                kept = _decode_set(record.data or b"")
                groups = {
                    _group_of(each.key.removeprefix(prefix), name): _decode_group(each.data or b"")
                    for each in self._records.under(prefix)
                }
            except UNDECODABLE:
                continue
            self._sets[name] = kept
            self._groups[name] = dict(groups)
            found[name] = kept.state(GroupTable(groups, places=dict(kept.places)))
        return found

    def _which(self, name: Domain) -> str:
        return OWN if name == self._domain else ABOVE

    def _place(self, name: Domain, group: Group) -> str:
        """Under the set that has it: of a group that has moved, that is not the set of its scope."""
        elsewhere = "" if group.scope == name else f"/{group.scope}/"  # no part of a name is empty
        return f"{self._which(name)}/{elsewhere}{group.name}"


def _group_of(key: str, name: Domain) -> Group:
    if not key.startswith("/"):
        return Group(key, name)
    scope, _, group = key[1:].partition("/")
    return Group(group, Domain(scope))


def _encoded(known: AgreedGroup) -> bytes | None:
    """With views of the past, if they fit: what counts is the last one, and what lived before it."""
    data = _fitting(_encode(known.carried()))
    return _fitting(_encode(known.carried(1))) if data is None else data


def _fitting(data: bytes) -> bytes | None:
    return data if len(data) <= RECORD_BYTES_MAX else None
