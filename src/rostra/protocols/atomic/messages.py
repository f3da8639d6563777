"""What stations of one group say to each other in hub order, and what the order is made of.

    station ── HubReport ──▶ orderer            this is how far my log goes; asked for by HubAsk
            ◀── HubStart, HubOut ──             go on from here; or: the group went on without you
    station ══ HubData (up) ══▶ orderer         runs of its members
            ◀══ HubData (down) ══               entries of the order, numbered
            ── HubHave ──▶                      I have everything up to here
            ◀── HubPulse ──                     so far everything is stable; the last number
    either  ── HubNak ──▶ other                 these numbers are missing here

An **entry** of the order is a run of one sender, or a view. Entries travel as messages of a numbered stream
of `protocols/flow`, so that loss, parts and repair are what they are there. Each **epoch** has one orderer
and one such stream; its name is that of the agreed view with which it began. Positions go on from epoch to
epoch.
"""

from collections.abc import Collection
from enum import IntEnum
from typing import Annotated, Final, get_args

from msgspec import Meta, Struct, msgpack
from msgspec.structs import replace

from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.attributes import NUMBER_MAX, Number
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import ChecksOf, Natural
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.frames import AmpMessage, AnyAmpMessage, check_amp
from rostra.protocols.channel.messages import SPREAD_MAX
from rostra.protocols.flow.checks import check_data_message
from rostra.protocols.flow.messages import Data, Nak, Run
from rostra.protocols.flow.runs import is_sound

STATIONS_MAX: Final = 256
CHAIN_MAX: Final = 8
MEMBERS_MAX: Final = 4_096


class Way(IntEnum):
    """The direction of a stream between stations: from the orderer, to it, or to the next one."""

    DOWN = 0
    UP = 1
    FETCH = 2


Pid = Annotated[str, Meta(max_length=512)]


class ViewKey(Struct, frozen=True, array_like=True, order=True, gc=False):
    """Names one agreed view, and the epoch that began with it."""

    number: Natural
    revision: Natural
    pid: Pid


class StationId(Struct, frozen=True, array_like=True, order=True, gc=False):
    """One life of one host's agent."""

    host: Domain
    life: Natural


Stations = Annotated[tuple[StationId, ...], Meta(max_length=STATIONS_MAX)]
Chain = Annotated[tuple[tuple[ViewKey, Stations], ...], Meta(max_length=CHAIN_MAX)]
"""The last epochs, and the stations with which each began; the last one is our own."""

Endpoints = Annotated[tuple[Endpoint, ...], Meta(max_length=MEMBERS_MAX)]


class ShownView(Struct, frozen=True, array_like=True):
    """A view with a place in the order, whole; and how it came from the one before it."""

    key: ViewKey
    members: Annotated[tuple[tuple[Endpoint, bytes], ...], Meta(max_length=MEMBERS_MAX)]  # in order of rank
    fence: Natural | None = None
    joined: Endpoints = ()
    left: Endpoints = ()
    failed: Endpoints = ()
    parts: Annotated[tuple[Endpoints, ...], Meta(max_length=STATIONS_MAX)] = ()

    @property
    def number(self) -> int:
        return self.key.number

    def item(self, *, whole: bool) -> MemberView:
        new = frozenset(self.joined)
        return MemberView(
            *(self.key.number, self.key.revision, self.key.pid),
            self.members if whole else None,
            tuple([each for each in self.members if each[0] in new]),
            self.left,
            self.failed,
            self.fence,
            self.parts,
        )

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        return frozenset([endpoint for endpoint, _ in self.members])


# Entries


class RunEntry(Struct, frozen=True, array_like=True, tag_field="kind", tag=1, gc=False):
    """Messages of one sender, with its own numbers. On the way up they have no position yet: in its place is
    the number of the membership, of those of this endpoint (`MemberId`), in which they were said."""

    position: Number
    sender: Endpoint
    run: Run

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.position + self.run.count


class MarkEntry(Struct, frozen=True, array_like=True, tag_field="kind", tag=2):
    """A view: it has a place in the order like a message."""

    position: Number
    view: ShownView
    stations: Stations
    begins: bool = False  # with ``stable="disk"``: an epoch begins with it

    @property
    def end(self) -> int:
        return self.position + 1


Entry = RunEntry | MarkEntry

_encode: Final = msgpack.Encoder().encode
_decoder: Final[msgpack.Decoder[Entry]] = msgpack.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    return _encode(entry)


def decode_entry(data: bytes) -> Entry | None:
    """None if these bytes are no entry."""
    try:
        entry = _decoder.decode(data)
        _ENTRY_NAMES[type(entry)](entry)
        if entry.end > NUMBER_MAX or (isinstance(entry, RunEntry) and not is_sound(entry.run)):
            return None
    except (BadInput, *UNDECODABLE):
        return None
    return entry


# Messages


class HubMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class HubData(HubMessage, frozen=True, tag=64, gc=False):
    """Entries, on their way to the orderer (up), from it (down), or to the next one (fetch)."""

    epoch: ViewKey
    way: Way
    accept: Number  # positions below this are stable: deliver them
    all: Number  # and below this one every station has them: they may be forgotten
    data: Data


class HubNak(HubMessage, frozen=True, tag=65):
    epoch: ViewKey
    way: Way
    nak: Nak


class HubPulse(HubMessage, frozen=True, tag=66, gc=False):
    epoch: ViewKey
    way: Way
    high: Number  # the last number of the stream
    accept: Number
    all: Number


class HubHave(HubMessage, frozen=True, tag=67, gc=False):
    """A station to its orderer: everything below position `next` is here, and `accept` is known."""

    epoch: ViewKey
    next: Number
    accept: Number
    full: bool = False  # a member here does not read: order no more for now


class HubReport(HubMessage, frozen=True, tag=68):
    """A station to the first one of an agreed view: take me in. `chain` is empty if it has no part in the
    order yet; else it takes nothing more from its orderer, until it is started anew (A-022)."""

    view: ViewKey
    life: Natural
    chain: Chain = ()
    next: Number = 0
    low: Number = 0  # the lowest position that it still holds
    members: Endpoints = ()  # here, that wait for their first view
    # With ``stable="disk"``:
    origin: ViewKey | None = None  # the epoch with which its order began
    accept: Number = 0  # below this everything is stable
    anew: bool = False  # no member here was given anything of it in this life
    left: bool = False  # its members had left when it was written
    founds: bool = False  # it may begin the order, if no host has one
    since: Annotated[tuple[ViewKey, ...], Meta(max_length=CHAIN_MAX)] = ()  # it had nothing in these views
    early: bool = False  # the view is proposed, and may not be agreed (`hub_early.py`)

    @property
    def epoch(self) -> ViewKey | None:
        return self.chain[-1][0] if self.chain else None


class HubAsk(HubMessage, frozen=True, tag=69):
    """The first station of an agreed view: report."""

    view: ViewKey
    waits: Annotated[str, Meta(max_length=512)] = ""  # what keeps it from beginning, though all have
    early: bool = False  # this view is proposed, and without our orderer
    release: bool = False  # it was, and what you reported for it is not used


class HubStart(HubMessage, frozen=True, tag=70):
    """Follow me: your first entry has number `first` and this position. The epoch began with a view at
    `mark`: what your members said that is not in the order before it is to be sent again."""

    view: ViewKey  # in which you reported
    chain: Annotated[Chain, Meta(min_length=1)]
    first: Number
    position: Number
    mark: Number
    anew: bool = False  # you have no part in the order yet: forget what is on your disk
    origin: ViewKey | None = None  # with ``stable="disk"``: the epoch with which the order began


class HubOut(HubMessage, frozen=True, tag=71):
    """The group went on without this station."""

    view: ViewKey
    why: Annotated[str, Meta(max_length=128)]


class HubFetch(HubMessage, frozen=True, tag=72):
    """The first station of an agreed view to one whose log goes further: send it, from this position on."""

    view: ViewKey
    position: Number


AnyHubMessage = HubData | HubNak | HubPulse | HubHave | HubReport | HubAsk | HubStart | HubOut | HubFetch


_NAMES: Final = ChecksOf(get_args(AnyHubMessage))
_ENTRY_NAMES: Final = ChecksOf(get_args(Entry))


AnyStationMessage = AnyHubMessage | AnyAmpMessage
STATION_MESSAGES: Final = (HubMessage, AmpMessage)
"""What stations send each other, in any order of a group."""


def check_station(message: AnyStationMessage) -> Run | None:
    """Raise `BadInput` unless a station may be given this. Returns the run in it, if that is whole."""
    if isinstance(message, AmpMessage):
        return check_amp(message)
    _NAMES[type(message)](message)
    if type(message) is HubReport and message.low > message.next:
        raise BadInput(f"a log from {message.low} to {message.next}", fix="the smaller number first")
    if type(message) is HubData:
        return check_data_message(message.data)
    if type(message) is HubNak:
        return check_data_message(message.nak)
    return None


# Between clusters


class OrderMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class CarriedFrame(OrderMessage, frozen=True, tag=256):
    """From an agent to those of other clusters, whose data channels it cannot reach: the servers between pass
    it on (`channel/relay.py`)."""

    source: Domain
    to: Domain
    group: Group
    body: Annotated[bytes, Meta(max_length=1 << 17)]
    others: Annotated[tuple[Domain, ...], Meta(max_length=SPREAD_MAX - 1)] = ()  # beside `to`

    @property
    def hosts(self) -> tuple[Domain, ...]:
        return (self.to, *self.others)

    def only(self, hosts: Collection[Domain]) -> "CarriedFrame":
        to, *others = [host for host in self.hosts if host in hosts]
        return replace(self, to=to, others=tuple(others))


_carried_decoder: Final[msgpack.Decoder[AnyStationMessage]] = msgpack.Decoder(AnyStationMessage)


def encode_carried(message: AnyStationMessage) -> bytes:
    return _encode(message)


def decode_carried(body: bytes) -> AnyStationMessage | None:
    try:
        message = _carried_decoder.decode(body)
        run = check_station(message)
    except (BadInput, *UNDECODABLE):
        return None
    return message if run is None or is_sound(run) else None
