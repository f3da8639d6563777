"""Datagrams of the data channel: the messages of groups, between agents and delegates.

     0        1      5         13
     ├────────┼──────┼─────────┼──────────────────────────────────────────────
     │ version│ tag  │ (seal)  │ MessagePack: [group, source, to, [message ...]]
     └────────┴──────┴─────────┴──────────────────────────────────────────────

The fields are described in `protocols/channel/messages.py`.

**Seals.** The sender is proved by a keyed digest (BLAKE2b, 64 bits) of what follows it, and the highest bit
of the version says that it is there. The keys come from `protocols/channel`. A seal does not make
a copy unusable: an eavesdropper may send a datagram again, against which streams have numbers.

A datagram that fails a check is dropped: no exception, no answer, only a reason for the counter
(`Unreadable`). Before the seal is checked, only the names are read that say whose it must be. Blocks are
checked as well, because code that cuts a run later relies on their shape.

**Frames of sets** (`protocols/agreed/casting.py`) look the same from outside, with a `SetFrame` in
MessagePack after the seal, which they always have. They come to sockets of their own.
"""

import hmac
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from rostra.errors import UNDECODABLE, BadInput
from rostra.names import Domain, Group
from rostra.names.addresses import parse_reachable
from rostra.protocols.agreed.casting import SetFrame
from rostra.protocols.atomic.messages import STATION_MESSAGES, AnyStationMessage, check_station
from rostra.protocols.channel.messages import (
    ALL,
    LAN,
    MESSAGES_MAX,
    WIDE,
    Call,
    ChannelMessage,
    Datagram,
    Directory,
    Probe,
    Unreadable,
)
from rostra.protocols.flow.checks import check_data_message
from rostra.protocols.flow.messages import AnyDataMessage
from rostra.protocols.flow.runs import is_sound
from rostra.wire.checks import check_place, check_set_frame, check_text, check_way
from rostra.wire.frames import WIRE_VERSION, world_tag

DATAGRAM_BYTES_MAX: Final = 65_507
"""What UDP over IPv4 can carry."""

SEAL_BYTES: Final = 8
_SEALED: Final = 0x80
_HEAD_BYTES: Final = 5
_encode: Final = Encoder().encode

_NOTHING: Final = Raw()


class _Front(Struct, frozen=True, array_like=True):
    """The same as far as it is read before the seal."""

    group: Group
    source: Domain
    to: Domain
    messages: Raw
    word: Raw = _NOTHING


class _SetFront(Struct, frozen=True, array_like=True):
    """The same of a frame of a set."""

    set: Domain
    origin: Domain


AnyDatagramMessage = AnyDataMessage | AnyStationMessage

_decode_front: Final = Decoder(_Front).decode
_decode_messages: Final = Decoder(
    Annotated[tuple[AnyDatagramMessage, ...], Meta(max_length=MESSAGES_MAX)]
).decode
_decode_word: Final = Decoder(Call | Probe | Directory | None).decode


_decode_set_front: Final = Decoder(_SetFront).decode
_decode_set_frame: Final = Decoder(SetFrame).decode

KeyOf = Callable[[Domain, Domain], bytes]
"""What this speaker's datagrams to those must be sealed with; nothing if they need not be."""


class Datagrams:
    """Datagrams of one world."""

    def __init__(self, world: str) -> None:
        tag = world_tag(world)
        self._head = bytes((WIRE_VERSION,)) + tag
        self._sealed_head = bytes((WIRE_VERSION | _SEALED,)) + tag

    def pack(
        self,
        group: Group,
        source: Domain,
        to: Domain,
        messages: Iterable[AnyDataMessage],
        bytes_max: int,
        key: bytes = b"",
    ) -> Iterator[list[bytes]]:
        """As few datagrams as hold these messages, each of `bytes_max` unless one message alone is longer; in
        pieces, to be sent one after the other."""
        front = b"\x94" + _encode(group) + _encode(source) + _encode(to)
        room = bytes_max - _HEAD_BYTES - SEAL_BYTES - len(front)
        held: list[bytes] = []
        size = 0
        for message in messages:
            encoded = _encode(message)
            if held and (size + len(encoded) > room or len(held) == MESSAGES_MAX):
                yield self._whole([front + _array_of(len(held)), *held], key)
                held, size = [], 0
            held.append(encoded)
            size += len(encoded)
        if held:
            yield self._whole([front + _array_of(len(held)), *held], key)

    def word(
        self, group: Group, source: Domain, to: Domain, word: ChannelMessage, key: bytes = b""
    ) -> list[bytes]:
        """One that is about the channel itself."""
        return self._whole([_encode(Datagram(group, source, to, (), word))], key)

    def _whole(self, pieces: list[bytes], key: bytes) -> list[bytes]:
        return [self._sealed_head + _seal(pieces, key) if key else self._head, *pieces]

    def read(self, data: bytes | memoryview, key_of: KeyOf | None = None) -> Datagram | Unreadable:
        head = bytes(data[:_HEAD_BYTES])
        sealed = head == self._sealed_head
        if not sealed and head != self._head:
            return Unreadable("another world" if len(data) >= _HEAD_BYTES else "too short")
        body = data[_HEAD_BYTES + SEAL_BYTES if sealed else _HEAD_BYTES :]
        try:
            front = _decode_front(body)
            group, source, to = front.group, front.source, front.to
            check_way(group, source, to if to not in (ALL, WIDE) else LAN)
            key = b"" if key_of is None else key_of(source, to)
            if key:
                seal = bytes(data[_HEAD_BYTES : _HEAD_BYTES + SEAL_BYTES])
                if not sealed or not hmac.compare_digest(seal, _seal([body], key)):
                    return Unreadable("not sealed by its speaker")
            messages = _decode_messages(front.messages)
            for message in messages:
                ordered = isinstance(message, STATION_MESSAGES)
                run = check_station(message) if ordered else check_data_message(message)
                if run is not None and not is_sound(run):
                    return Unreadable("not a block of messages")
            word = None if front.word is _NOTHING else _decode_word(front.word)
            if isinstance(word, Directory):
                _check_directory(word)
        except BadInput:
            return Unreadable("bad name or number")
        except UNDECODABLE:
            return Unreadable("not a datagram")
        return Datagram(group, source, to, messages, word)


class SetFrames:
    """Frames of the sets of one world."""

    def __init__(self, world: str) -> None:
        self._head = bytes((WIRE_VERSION | _SEALED,)) + world_tag(world)

    def pack(self, frame: SetFrame, key: bytes) -> bytes:
        body = _encode(frame)
        return self._head + _seal([body], key) + body

    def read(self, data: bytes | memoryview, key_of: KeyOf) -> SetFrame | Unreadable:
        """`key_of` a set and a server of it; none of a server that we do not know."""
        if data[:_HEAD_BYTES] != self._head:
            return Unreadable("another world" if len(data) >= _HEAD_BYTES else "too short")
        body = data[_HEAD_BYTES + SEAL_BYTES :]
        try:
            front = _decode_set_front(body)
            key = key_of(front.set, front.origin)
            if not key:
                return Unreadable("a stranger")
            seal = bytes(data[_HEAD_BYTES : _HEAD_BYTES + SEAL_BYTES])
            if not hmac.compare_digest(seal, _seal([body], key)):
                return Unreadable("not sealed by its speaker")
            frame = _decode_set_frame(body)
            check_set_frame(frame)
        except BadInput:
            return Unreadable("bad name or number")
        except UNDECODABLE:
            return Unreadable("not a datagram")
        return frame


def _check_directory(directory: Directory) -> None:
    """Raise `BadInput` unless every destination in it can be reached."""
    check_text(directory.mode)
    if directory.multicast:
        parse_reachable(directory.multicast)
    for host, address, port in directory.hosts:
        check_place(host, address, port)


def _seal(pieces: Iterable[bytes | memoryview], key: bytes) -> bytes:
    digest = blake2b(digest_size=SEAL_BYTES, key=key)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _array_of(count: int) -> bytes:
    return bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
