"""Names that administrators assign: which name is whose, so that two communities do not take the same one.

    AssignName ──▶ is it our scope, and free? ──▶ Secure ──▶ Done        another holder has it: NameTaken
    ReleaseName, NamesAsked
    Claim of an unassigned name ──▶ NameUnassigned, for the log; the claim goes on

An assignment is independent of members and sets (S-002) and outlives them, on the disk of the scope's server
and its replicas. Joins of public names are not checked against it (S-010): a group with an unassigned name
works as well. If any names of a scope are assigned, its server reports the first claim of an unassigned one
to its observers: the members may meet strangers there.

That is done only for groups with a claimed kind: a relaxed group does not reach the server of its scope.
"""

from typing import Final

import msgspec

from rostra.core.effects import Answer, Asked, Effect, Event, Instant, Received, Secure
from rostra.core.records import KeyedRecord
from rostra.core.stack import Service, ServiceName
from rostra.errors import REFUSALS, UNDECODABLE, BadInput, NameTaken, NotAllowed, StoreFailed, TooLarge
from rostra.names import Domain, Group, make_group
from rostra.names.checks import SYSTEM
from rostra.protocols.access.config import ASSIGNED_MAX, HOLDER_BYTES_MAX
from rostra.protocols.access.events import NameUnassigned
from rostra.protocols.access.requests import AssignName, NamesAsked, NamesTold, ReleaseName
from rostra.protocols.claims.messages import Claim
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Done, denied

NAMES_SERVER: Final = ServiceName["NamesServer"]("access names")

ASSIGNED: Final = "assigned"
"""The key of the names of our scope."""

_decoder: Final = msgspec.msgpack.Decoder(dict[str, str])


class NamesServer(Service):
    name = NAMES_SERVER
    takes = (AssignName, ReleaseName, NamesAsked, Claim)

    def __init__(self, domain: Domain, registry: Registry) -> None:
        self.domain = domain
        self._records = registry.own
        self._shown: set[str] = set()
        self._read: tuple[KeyedRecord | None, dict[str, str]] = (None, {})

    @property
    def assigned(self) -> dict[str, str]:
        """The holder of each name. Records that cannot be decoded are skipped."""
        record = self._records.get(ASSIGNED)
        if record is not self._read[0]:
            self._read = record, _decoded(record)
        return self._read[1]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case Received(_, Claim(group=group, claimer=claimer)):
                return self._claimed(group, claimer)
            case Asked(_, token, NamesAsked()):
                return [Answer(token, NamesTold(tuple(sorted(self.assigned.items()))))]
            case Asked(_, token, AssignName() | ReleaseName() as request):
                try:
                    return [*self._change(request), Answer(token, Done())]
                except REFUSALS as refusal:
                    return [Answer(token, denied(refusal))]
        return []

    def _claimed(self, group: Group, claimer: Domain) -> list[Effect]:
        name = group.name
        if group.scope != self.domain or name in self._shown or "!" in name or name.startswith(SYSTEM):
            return []
        assigned = self.assigned
        if not assigned or name in assigned or len(self._shown) >= ASSIGNED_MAX:
            return []
        self._shown.add(name)
        return [NameUnassigned(group, claimer)]

    def _change(self, request: AssignName | ReleaseName) -> list[Effect]:
        group, assigned = request.group, dict(self.assigned)
        make_group(group.name, group.scope)
        if group.scope != self.domain:
            raise NotAllowed(
                f"{group} belongs to the server of {group.scope}; this is the server of {self.domain}",
                fix=f"ask the server of {group.scope}",
            )
        if self._records.no_room:
            raise StoreFailed(f"{group}: {self._records.no_room}", fix="make room, and ask again")
        if isinstance(request, ReleaseName):
            assigned.pop(group.name, None)
        else:
            self._assign(assigned, group, request.holder)
        self._shown.discard(group.name)
        return [Secure(self._records.put(ASSIGNED, msgspec.msgpack.encode(assigned)))]

    def _assign(self, assigned: dict[str, str], group: Group, holder: str) -> None:
        if "~" in group.name:
            raise BadInput(f"{group} is a transient name", fix="those need no assignment")
        if not holder.isprintable() or not 1 <= len(holder.encode()) <= HOLDER_BYTES_MAX:
            raise BadInput(
                f"{holder!r} is no holder", fix=f"write 1 to {HOLDER_BYTES_MAX} bytes: who, and how to reach"
            )
        if assigned.setdefault(group.name, holder) != holder:
            raise NameTaken(
                f"{group} is assigned to {assigned[group.name]}", fix="choose another name, or release it"
            )
        if len(assigned) > ASSIGNED_MAX:
            raise TooLarge(f"{ASSIGNED_MAX} names of {self.domain} are assigned", fix="release some")


def _decoded(record: KeyedRecord | None) -> dict[str, str]:
    try:
        return {} if record is None or record.data is None else _decoder.decode(record.data)
    except UNDECODABLE:
        return {}
