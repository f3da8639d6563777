"""What the data channel carries: datagrams, and messages about the channel itself.

    host ── Call ──▶ its cluster's server ── Directory ──▶ host       my address · how this LAN is reached
                     server ── Probe, by multicast ──▶ every host     does multicast reach you?

Each datagram is self-contained, may be lost, duplicated or late, and carries as many messages as fit; or,
instead, one `ChannelMessage`.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.names import Domain, Group
from rostra.protocols.flow.messages import AnyDataMessage

MESSAGES_MAX: Final = 1024
"""Messages in one datagram, however short."""

PLACES_MAX: Final = 24
"""Hosts in one `Directory`: with names of usual length it fits a datagram of 1,200 bytes."""

SPREAD_MAX: Final = 256
"""Hosts of one frame that servers split (`relay.py`). What goes to more of them goes in several."""

KEY_BYTES: Final = 16
"""Of the keys that seal datagrams."""

LAN: Final = Domain("")
"""Stands for every host of the sender's own LAN; its server passes the datagram on."""

ALL: Final = Domain("*")
"""Stands for every host of the sender's own LAN, where all were sent it: there is nothing to pass on."""

WIDE: Final = Domain("**")
"""Stands for the servers of other clusters that listen where the sender's does."""


class ChannelStruct(Struct, frozen=True, array_like=True, tag_field="kind"):
    """A message about the channel itself."""


class Call(ChannelStruct, frozen=True, tag=1):
    """A host to its server: here I am, and this was the last `Probe` that I received; 0 if none."""

    heard: int = 0


class Probe(ChannelStruct, frozen=True, tag=2):
    """A server to its LAN by multicast: who receives this?"""

    number: int


class Directory(ChannelStruct, frozen=True, tag=3):
    """A server's answer to a `Call`: how this LAN is reached."""

    mode: str  # multicast | fanout | reflect
    multicast: str = ""  # where every host listens, if any does
    audible: bool = False  # what you send there is received here
    hosts: Annotated[
        tuple[tuple[Domain, str, int], ...], Meta(max_length=PLACES_MAX)
    ] = ()  # where the others are


ChannelMessage = Call | Probe | Directory


class Datagram(Struct, frozen=True, array_like=True):
    """`source` is the host whose agent sends, or the cluster whose delegate does; `to` one host or cluster,
    or `LAN`, `ALL`, `WIDE`."""

    group: Group
    source: Domain
    to: Domain
    messages: Annotated[tuple[AnyDataMessage, ...], Meta(max_length=MESSAGES_MAX)]
    word: ChannelMessage | None = None


class Unreadable(Struct, frozen=True):
    why: str  # from a small fixed set: it becomes a metric's label
