"""Messages between members and delegates of a group.

    paper                     here                     travels
    attributes of NS_join     FifoAttributes           with the membership (C-151)
    attributes of NS_leave    last                     with the leave
    Force_Join                ForceJoin                control: through the servers, with the notices
    Start_Sync, Sync_Reply    StartSync, SyncReply     control
    View_Id, Cut_Reply        ViewId, CutReply         control
    Cut_Request, Cut_Reply    CutRequest, CutReply     control
    (none)                    DelegateMoved,           control
                              ForwardingTree, Distances,
                              Excluded, NotListed,
                              Mirror, MirrorAsked
    (the data protocol)       `flow/messages.py`       data: datagrams that may be lost, doubled, reordered

`Submit` and `Submit_Ack` of the specification are `Data` and `Heartbeat` between a submitter and its delegate
(`submitter.py`). For submitters the delegate emits `Envelope`s, as messages of a stream of its own.

The two channels never wait for each other. No user data travels on the control channel (X-109).

**Versions of a LAN.** The paper's cuts need to say which notices they contain. Agents stamp every join and
leave already, so a cut carries the latest stamp of each host (`Floors`): a notice with a stamp at or below it
is in the cut. See decision 0017.
"""

from functools import lru_cache
from typing import Annotated, Final

from msgspec import Meta, Struct, msgpack

from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.attributes import (
    ADDRESS_LENGTH_MAX,
    NUMBER_MAX,
    AnyAttributes,
    DelegateAttributes,
    Number,
    Role,
)
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint
from rostra.names.addresses import TcpAddress, parse_reachable
from rostra.names.checks import check_of
from rostra.protocols.flow.messages import (
    ControlMessage,
    Epoch,
    ForwardingTree,
    Have,
    Moment,
    Run,
    Seconds,
    Stamped,
    Stream,
)
from rostra.protocols.links.packets import KEY_BYTES_MAX

ADHOC: Final = "adhoc"
"""The first word of every timer of this folder, and what a delegate is called."""

DELEGATE: Final = "-delegate"
"""The label of the virtual host that a cluster's delegate is on."""


ENVELOPE_MESSAGES_MAX: Final = 65_536
"""In one envelope."""


# Messages of an aggregate


class Envelope(Struct, frozen=True, array_like=True, gc=False):
    """One message of an aggregate: some consecutive messages of one submitter (X-055)."""

    origin: Endpoint
    since: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]  # below it, nothing of this origin was submitted
    first: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
    count: Annotated[int, Meta(ge=1, le=ENVELOPE_MESSAGES_MAX)]
    block: bytes
    at: Moment = 0.0

    @property
    def run(self) -> Run:
        return Run(self.first, self.count, self.block, self.at)


# Control


class CutEntry(Struct, frozen=True, array_like=True, gc=False):
    """One sender in a cut: the receiver of the cut is owed everything from `start` on."""

    endpoint: Endpoint
    stamp: Stamped
    role: Role
    start: Number
    final: Number | None = None  # nothing comes after this number


Floors = tuple[tuple[Domain, Stamped], ...]
"""Per host the latest join or leave that a cut contains; sorted by host."""


class Cut(Struct, frozen=True, array_like=True):
    """The senders of one LAN. `complete` unless numbers of some of them are still on their way."""

    lan: Domain
    epoch: Epoch
    floors: Floors
    complete: bool
    entries: tuple[CutEntry, ...]


class Channel(Struct, frozen=True, array_like=True):
    """Where a LAN's data travels (X-107). Opaque to the cores."""

    mode: str = "reflect"  # auto | multicast | fanout | reflect
    address: str = ""


class ForceJoin(ControlMessage, frozen=True, tag=1):
    """Member to its own delegate: join this group."""

    req: Number


class StartSync(ControlMessage, frozen=True, tag=2):
    """A host's members to their own delegate: what are our starts? One asks for all."""

    req: Number
    role: Role
    epoch: Epoch
    first: Number  # the lowest number of its own stream that it can still supply
    have: Have = ()
    others: Have = ()  # the same of other senders of its host, who share what they receive with it
    last: bool = True  # else what it has, and others, go on in the next one


class SyncReply(ControlMessage, frozen=True, tag=3):
    """The answer, in as many pieces as it needs; the `last` one completes it."""

    req: Number
    epoch: Epoch
    cuts: tuple[Cut, ...]
    channel: Channel
    last: bool = True


class ViewId(ControlMessage, frozen=True, tag=4):
    """Delegate to delegate: which senders has your LAN, and what are the starts of mine in their streams?"""

    req: Number
    epoch: Epoch
    peer_epoch: Epoch
    have: Have = ()
    tree: Number = 0  # the version of the tree that the asker uses
    coordinator: str = ""  # and who made that tree
    last: bool = True  # else `have` goes on in the next one


class CutRequest(ControlMessage, frozen=True, tag=5):
    """Member to its own delegate: the cut of one LAN, or of these members of it."""

    req: Number
    epoch: Epoch
    lan: Domain
    members: tuple[Endpoint, ...] = ()
    have: Have = ()
    last: bool = True  # else `have` goes on in the next one


class CutReply(ControlMessage, frozen=True, tag=6):
    """To a `ViewId` or a `CutRequest`; `unknown` were asked for and are not in the cut."""

    req: Number
    epoch: Epoch
    cut: Cut
    unknown: tuple[Endpoint, ...] = ()
    last: bool = True


class DelegateMoved(ControlMessage, frozen=True, tag=7):
    """The LAN has a new active delegate."""

    lan: Domain
    old: Epoch
    new: Epoch
    address: str = ""


class Distances(ControlMessage, frozen=True, tag=9):
    """To the coordinator: my round trips to the other delegates, in seconds."""

    lan: Domain
    round_trips: tuple[tuple[Domain, Seconds], ...]


class Excluded(ControlMessage, frozen=True, tag=10):
    """Delegate to a local member: you are expelled, because you are too slow, or we lost what you are
    owed."""

    reason: str
    acknowledged: Have


class NotListed(ControlMessage, frozen=True, tag=11):
    """The answer to an endpoint that is not in our view: ask the servers (TX-22)."""

    req: Number


class Mirrored(Struct, frozen=True, array_like=True, gc=False):
    """One stream at an active delegate: the lowest number that may still be needed, there or elsewhere."""

    stream: Stream
    stamp: Stamped
    needed: Number


class Mirror(ControlMessage, frozen=True, tag=12):
    """Active delegate to its backups: what changed since delta `number - 1`; everything if `whole`."""

    lan: Domain
    epoch: Epoch
    number: Number
    whole: bool
    members: tuple[Endpoint, ...]  # of the LAN
    peers: tuple[tuple[Domain, Epoch], ...]  # LANs that were given our numbers
    streams: tuple[Mirrored, ...]
    ended: tuple[Stream, ...] = ()


class MirrorAsked(ControlMessage, frozen=True, tag=13):
    """A backup has missed a delta and needs everything."""

    lan: Domain


Control = (
    ForceJoin
    | StartSync
    | SyncReply
    | ViewId
    | CutRequest
    | CutReply
    | DelegateMoved
    | ForwardingTree
    | Distances
    | Excluded
    | NotListed
    | Mirror
    | MirrorAsked
)


_encoder = msgpack.Encoder()
_control: msgpack.Decoder[Control] = msgpack.Decoder(Control)
_envelope: msgpack.Decoder[Envelope] = msgpack.Decoder(Envelope)
_check_control: Final = check_of(Control)


class Whereabouts(Struct, frozen=True):
    """The address of a LAN's data channel, its key, and its multicast group between clusters (X-108)."""

    at: TcpAddress
    key: bytes = b""
    multicast: TcpAddress | None = None


def whereabouts(address: str) -> Whereabouts | None:
    """``10.0.0.5:7700``, then the key in hexadecimal digits, then ``239.192.0.1:7790``; none if it says
    nothing. Raises a `ValueError` for what is no address."""
    if not address:
        return None
    at, key, multicast = (*address.split(" "), "", "")[:3]
    octets = bytes.fromhex(key)
    if len(address) > ADDRESS_LENGTH_MAX or len(octets) > KEY_BYTES_MAX:
        raise BadInput("an address that is too long")
    return Whereabouts(parse_reachable(at), octets, parse_reachable(multicast) if multicast else None)


def encode(message: Control | Envelope) -> bytes:
    """As it travels through the servers, or as a message of an aggregate."""
    return _encoder.encode(message)


@lru_cache(maxsize=16)
def decode_control(data: bytes) -> Control | None:
    """None if this is not a control message. Cached: all members of a host decode the same bytes."""
    try:
        message = _control.decode(data)
        _check_control(message)
        if isinstance(message, DelegateMoved):
            whereabouts(message.address)
    except UNDECODABLE:
        return None
    return message


def is_delegate(endpoint: Endpoint) -> bool:
    """Is this a delegate or an aggregate? No program is on such a host."""
    return f".{DELEGATE}/{ADHOC}#" in endpoint


def attributes_of(member: Member) -> AnyAttributes | None:
    """The attributes of a FIFO member or delegate; None if the record is of another kind, or claims to be a
    delegate and is not on a delegate's host."""
    attributes = member.attributes
    if type(attributes) is DelegateAttributes and not is_delegate(member.endpoint):
        return None
    return attributes


def decode_envelope(data: bytes) -> Envelope | None:
    try:
        return _envelope.decode(data)
    except UNDECODABLE:
        return None
