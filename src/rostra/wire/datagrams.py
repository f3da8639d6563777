"""Datagrams of the data channel: what is said in groups, between agents and delegates.

     0        1      5
     ├────────┼──────┼──────────────────────────────────────────────
     │ version│ tag  │ MessagePack: [group, source, to, [message ...]]
     └────────┴──────┴──────────────────────────────────────────────

`source` is the host whose agent speaks, or the cluster whose delegate does; `to` the one host or cluster that
is spoken to, and empty if the whole LAN is. Each datagram is complete in itself, may be lost, doubled or
late, and carries as many messages as fit.

Whatever cannot be believed is nothing: no exception, no answer, only a word for the counter (`Unreadable`).
Blocks are looked through as well, because whoever cuts a run later relies on their shape.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.msgpack import Decoder, Encoder

from rostra.errors import BadInput
from rostra.names import Domain, Group
from rostra.protocols.adhoc.messages import Speech
from rostra.protocols.adhoc.runs import is_sound
from rostra.wire.checks import check_speech, check_way
from rostra.wire.frames import WIRE_VERSION, world_tag
from rostra.wire.shapes import UNDECODABLE

DATAGRAM_BYTES_MAX: Final = 65_507
"""What UDP over IPv4 can carry."""

MESSAGES_MAX: Final = 1024
"""Messages in one datagram, however short."""

LAN: Final = Domain("")
"""Stands for everybody in the speaker's own LAN."""

_HEAD_BYTES: Final = 5
_encode: Final = Encoder().encode


class Datagram(Struct, frozen=True, array_like=True):
    group: Group
    source: Domain
    to: Domain
    messages: Annotated[tuple[Speech, ...], Meta(max_length=MESSAGES_MAX)]


class Unreadable(Struct, frozen=True):
    why: str  # from a small fixed set: it becomes a metric's label


_decoder: Final = Decoder(Datagram)


class Datagrams:
    """Datagrams of one world."""

    def __init__(self, world: str) -> None:
        self._head = bytes((WIRE_VERSION,)) + world_tag(world)

    def pack(
        self, group: Group, source: Domain, to: Domain, messages: Iterable[Speech], bytes_max: int
    ) -> Iterator[list[bytes]]:
        """As few datagrams as hold these messages, each of `bytes_max` unless one message alone is longer; in
        pieces, to be sent one after the other."""
        front = self._head + b"\x94" + _encode(group) + _encode(source) + _encode(to)
        room = bytes_max - len(front)
        held: list[bytes] = []
        size = 0
        for message in messages:
            encoded = _encode(message)
            if held and (size + len(encoded) > room or len(held) == MESSAGES_MAX):
                yield [front, _array_of(len(held)), *held]
                held, size = [], 0
            held.append(encoded)
            size += len(encoded)
        if held:
            yield [front, _array_of(len(held)), *held]

    def hello(self, group: Group, source: Domain, to: Domain) -> bytes:
        """Says nothing but where the speaker is."""
        return self._head + _encode(Datagram(group, source, to, ()))

    def read(self, data: bytes | memoryview) -> Datagram | Unreadable:
        if bytes(data[:_HEAD_BYTES]) != self._head:
            return Unreadable("another world" if len(data) >= _HEAD_BYTES else "too short")
        try:
            datagram = _decoder.decode(data[_HEAD_BYTES:])
            check_way(datagram.group, datagram.source, datagram.to)
            for message in datagram.messages:
                run = check_speech(message)
                if run is not None and not is_sound(run):
                    return Unreadable("not a block of messages")
        except BadInput:
            return Unreadable("bad name or number")
        except UNDECODABLE:
            return Unreadable("not a datagram")
        return datagram


def _array_of(count: int) -> bytes:
    return bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
