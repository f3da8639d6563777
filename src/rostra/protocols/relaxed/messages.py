"""Messages between the servers of relaxed membership.

Congress packs several meanings into one `registration_update`, with fields that are valid for some of them
only; here each meaning is a message of its own, so one with the wrong fields cannot be written down (C-077).

    paper                               here
    registration_update EP_JOIN         EndpointsJoined
    registration_update EP_LEAVE        EndpointLeft
    registration_update HD_FAILURE      DomainFailed       FILTER_IN -> keep=True, FILTER_OUT -> keep=False
    resolve_request / resolve_reply     ResolveRequest / ResolveReply
    update_online_state                 InterestChanged
    (none)                              SyncDone, Routed, Undeliverable, LifeAsked, LifeTold, RegistryTold,
                                        Inquiry, InquiryReply

A message's id is unique for ever. A request keeps its id end to end, and a notice while it is forwarded, so
that one event can be followed through a trace.
"""

from enum import IntEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.groups.attributes import Number
from rostra.groups.items import SentIn
from rostra.groups.members import Because, Cause, Members, Part, Stamp
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import Natural, check_relayed_name, check_subject

REPORT_BYTES_MAX: Final = 32_768
"""A memory on its way through the world. Raising it makes membership notices wait longer behind it."""


class MessageId(Struct, frozen=True, array_like=True, gc=False):
    server: Domain
    incarnation: Natural
    sequence: Natural


class Interest(IntEnum):
    """Which messages about a group one side of a link needs; the stronger includes the weaker (C-093)."""

    NONE = 0
    RESOLVE = 1
    ALL = 2


class ServerMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`; a level never travels, only paths do (C-025)."""

    id: MessageId


class EndpointsJoined(ServerMessage, frozen=True, tag=1):
    """Congress's EP_JOIN. With `complete_for` it is a baseline for that part, and may be empty (C-059)."""

    group: Group
    members: Members
    cause: Cause  # JOIN | MERGE
    complete_for: Part | None = None


class EndpointLeft(ServerMessage, frozen=True, tag=2):
    """Congress's EP_LEAVE, one endpoint and one group at a time."""

    group: Group
    endpoint: Endpoint
    stamp: Stamp
    cause: Cause  # LEAVE | CRASH
    meta: bytes = b""
    last: Number | None = None  # the last message it emitted, where it could


class DomainFailed(ServerMessage, frozen=True, tag=3):
    """Congress's HD_FAILURE: keep only what is inside `domain`, or go on without it; in all these groups."""

    groups: tuple[Group, ...]
    domain: Domain
    keep: bool  # True: FILTER_IN, we are inside; False: FILTER_OUT, we are outside
    because: Because


class ResolveRequest(ServerMessage, frozen=True, tag=4):
    group: Group


class ResolveReply(ServerMessage, frozen=True, tag=5):
    group: Group
    members: Members
    interest: Interest


class InterestChanged(ServerMessage, frozen=True, tag=6):
    """Congress's update_online_state: the sender's own aggregate, never a received one (C-096)."""

    group: Group
    interest: Interest


class SyncDone(ServerMessage, frozen=True, tag=7):
    """Child to parent, once per epoch: everything I have is announced (C-101)."""


class Routed(ServerMessage, frozen=True, tag=8):
    """A program's message, on its way along the unique path to each destination (C-152)."""

    source: Endpoint
    destinations: tuple[Endpoint, ...]
    data: bytes
    view: SentIn | None = None


class Undeliverable(ServerMessage, frozen=True, tag=9):
    """On its way back to `source`: the next hop towards these destinations is down (C-156)."""

    source: Endpoint
    destinations: tuple[Endpoint, ...]
    why: str


class LifeAsked(ServerMessage, frozen=True, tag=10):
    """One agent asks another to report the life and death of an endpoint, until told to stop (C-157)."""

    watcher: Domain  # the asking host
    endpoint: Endpoint
    stop: bool = False


class LifeTold(ServerMessage, frozen=True, tag=11):
    watcher: Domain
    endpoint: Endpoint
    alive: bool
    why: str = ""


class RegistryTold(ServerMessage, frozen=True, tag=12):
    """Parent to child: the permanent groups of one scope, whole, at one version (C-012)."""

    scope: Domain
    version: Natural
    names: tuple[Annotated[str, check_relayed_name], ...]


class Inquiry(ServerMessage, frozen=True, tag=13):
    """An agent asks a node for its trail of this endpoint or domain, for `rostra why`."""

    asker: Domain  # the asking host
    to: Domain  # whose memory: a host's agent or a domain's server
    about: Annotated[str, check_subject]  # as `rostra.names.parse_subject` reads it


class InquiryReply(ServerMessage, frozen=True, tag=14):
    """The answer, under the inquiry's id, on its way back to `asker`: the trail, or why there is none."""

    asker: Domain
    of: Domain
    document: Annotated[bytes, Meta(max_length=REPORT_BYTES_MAX)]  # JSON
    why: str = ""


Message = (
    EndpointsJoined
    | EndpointLeft
    | DomainFailed
    | ResolveRequest
    | ResolveReply
    | InterestChanged
    | SyncDone
    | Routed
    | Undeliverable
    | LifeAsked
    | LifeTold
    | RegistryTold
    | Inquiry
    | InquiryReply
)


MEMBER_BYTES: Final = 64
"""What a record of a list counts as, its attachment apart."""


def weight(message: object) -> int:
    """About how many bytes a queued message keeps alive that no table of ours holds anyway."""
    if type(message) is Routed:
        return len(message.data)
    if type(message) is ResolveReply and message.members:
        return MEMBER_BYTES * len(message.members) + sum([len(member.meta) for member in message.members])
    return len(message.document) if type(message) is InquiryReply else 0
