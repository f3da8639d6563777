"""Who is in a group that decides by its own monitor: members, host by host, as one value.

    station ── HostRoster: my members ──▶ the order ──▶ every station: the same Roster at the same position

The monitor decides which stations are in. A station announces its members itself, by a run in the order, so
all stations learn them at the same place. When a station comes in, the others announce theirs again: nothing
changes by that, and the newcomer learns them. A station announces its members for the first time when it has
the announcements of all that are senior to it; from then on it knows every member.
"""

from collections.abc import Collection
from typing import Annotated, Final

from msgspec import Meta, Struct, msgpack
from msgspec.structs import replace

from rostra.errors import UNDECODABLE, BadInput
from rostra.names import Domain, Endpoint, host_of
from rostra.names.checks import ChecksOf, Natural
from rostra.protocols.agreed.sheets import META_BYTES_MAX
from rostra.protocols.atomic.frames import AmpStationId
from rostra.protocols.atomic.messages import (
    MEMBERS_MAX,
    Endpoints,
    Pid,
    RunEntry,
    ShownView,
    ViewKey,
)
from rostra.protocols.flow.runs import is_sound


class RosterMember(Struct, frozen=True, array_like=True, gc=False):
    endpoint: Endpoint
    meta: Annotated[bytes, Meta(max_length=META_BYTES_MAX)]
    since: Natural = 0  # the position of the view that it came with; 0: this one


Those = tuple[RosterMember, ...]


class HostRoster(Struct, frozen=True, array_like=True, tag_field="kind", tag=3):
    """All members of the host that sends it."""

    line: Pid  # names the group since it was founded
    members: Annotated[Those, Meta(max_length=MEMBERS_MAX)]
    left: Endpoints = ()  # that were in it, and left on their own account
    changed: bool = False  # since the last announcement: then it is a view, with a position


Item = RunEntry | HostRoster

_decoder: Final[msgpack.Decoder[Item]] = msgpack.Decoder(Item)
_names: Final = ChecksOf((RunEntry, HostRoster))


def decode_item(data: bytes) -> Item | None:
    """None if these bytes are no item."""
    try:
        item = _decoder.decode(data)
        _names[type(item)](item)
    except (BadInput, *UNDECODABLE):
        return None
    return item if isinstance(item, HostRoster) or is_sound(item.run) else None


def is_of_host(item: Item | None, host: Domain) -> bool:
    """Is the item about this host's own members?"""
    match item:
        case RunEntry(sender=sender):
            return host_of(sender) == host
        case HostRoster(members=members):
            return all(host_of(each.endpoint) == host for each in members)
    return False


def places_in(items: tuple[bytes, ...]) -> int:
    """Positions that a run takes: as many as all stations count alike, whatever is in it."""
    found = [decode_item(each) for each in items]
    return sum(
        [
            item.run.count if isinstance(item, RunEntry) else int(item.changed)
            for item in found
            if item is not None
        ]
    )


class Roster(Struct, frozen=True):
    line: str = ""
    hosts: tuple[tuple[AmpStationId, Those], ...] = ()

    def of(self, station: AmpStationId) -> Those:
        return dict(self.hosts).get(station, ())

    def announced(self, station: AmpStationId, roster: HostRoster, position: int) -> "Roster":
        members = tuple([each if each.since else replace(each, since=position) for each in roster.members])
        others = [(id, those) for id, those in self.hosts if id != station]
        return Roster(self.line or roster.line, (*others, (station, members)))

    def without(self, gone: Collection[AmpStationId]) -> "Roster":
        return replace(self, hosts=tuple([each for each in self.hosts if each[0] not in gone]))

    @property
    def members(self) -> Those:
        """In the order of rank: who came first is first."""
        return tuple(sorted([each for _, those in self.hosts for each in those], key=lambda each: each.since))

    def shown(self, position: int, before: ShownView | None, left: Collection[Endpoint]) -> ShownView:
        """As a view with this position, which is its number too."""
        was = {} if before is None else dict(before.members)
        members = tuple([(each.endpoint, each.meta) for each in self.members])
        here = dict(members)
        gone = [each for each in was if each not in here]
        return ShownView(
            ViewKey(position, 0, self.line),
            members,
            joined=tuple([each.endpoint for each in self.members if each.since == position]),
            left=tuple([each for each in gone if each in left]),
            failed=tuple([each for each in gone if each not in left]),
        )
