"""Datagrams of the data channel: what is said in groups, between agents and delegates.

     0        1      5         13
     ├────────┼──────┼─────────┼──────────────────────────────────────────────
     │ version│ tag  │ (seal)  │ MessagePack: [group, source, to, [message ...]]
     └────────┴──────┴─────────┴──────────────────────────────────────────────

`source` is the host whose agent speaks, or the cluster whose delegate does; `to` the one host or cluster that
is spoken to, empty if the whole LAN is and its server shall pass it on, `ALL` if the whole LAN is and was
sent it already, and `WIDE` if the servers of other clusters are, all at once. Each datagram is complete in
itself, may be lost, doubled or late, and carries as many messages as fit; or, instead, one `Word` about the
channel itself.

**Seals.** Who speaks is proved by a keyed digest (BLAKE2b, 64 bits) of what follows it, and the highest bit
of the version says that it is there. Where the keys come from is `runtime/data.py`'s. A seal does not make a
copy unusable: what was said once may be said again by whoever overheard it, and streams have numbers for
that.

Whatever cannot be believed is nothing: no exception, no answer, only a word for the counter (`Unreadable`).
Before the seal, only the names are read that say whose it must be. Blocks are looked through as well, because
whoever cuts a run later relies on their shape.
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
from rostra.protocols.flow.checks import check_speech
from rostra.protocols.flow.messages import Speech
from rostra.protocols.flow.runs import is_sound
from rostra.wire.checks import check_place, check_text, check_way
from rostra.wire.frames import WIRE_VERSION, world_tag

DATAGRAM_BYTES_MAX: Final = 65_507
"""What UDP over IPv4 can carry."""

MESSAGES_MAX: Final = 1024
"""Messages in one datagram, however short."""

PLACES_MAX: Final = 24
"""Hosts in one `Directory`: with names of usual length it fits a datagram of 1,200 bytes."""

LAN: Final = Domain("")
"""Stands for everybody in the speaker's own LAN, whose server passes it on."""

ALL: Final = Domain("*")
"""Stands for everybody in the speaker's own LAN, who were all sent it: there is nothing to pass on."""

WIDE: Final = Domain("**")
"""Stands for the servers of other clusters that listen where the speaker's does."""

KEY_BYTES: Final = 16
SEAL_BYTES: Final = 8
_SEALED: Final = 0x80
_HEAD_BYTES: Final = 5
_encode: Final = Encoder().encode

_NOTHING: Final = Raw()


class Word(Struct, frozen=True, array_like=True, tag_field="kind"):
    """About the channel itself."""


class Call(Word, frozen=True, tag=1):
    """A host to its server: here I am, and this was the last `Probe` that I heard; 0 if none."""

    heard: int = 0


class Probe(Word, frozen=True, tag=2):
    """A server to its LAN by multicast: who hears this?"""

    number: int


class Directory(Word, frozen=True, tag=3):
    """A server's answer to a `Call`: how this LAN is spoken to."""

    mode: str  # multicast | fanout | reflect
    multicast: str = ""  # where everybody listens, if anybody does
    audible: bool = False  # what you say there is heard here
    hosts: Annotated[tuple[tuple[Domain, str, int], ...], Meta(max_length=PLACES_MAX)] = ()  # fanout: where


class Datagram(Struct, frozen=True, array_like=True):
    group: Group
    source: Domain
    to: Domain
    messages: Annotated[tuple[Speech, ...], Meta(max_length=MESSAGES_MAX)]
    word: Call | Probe | Directory | None = None


class _Front(Struct, frozen=True, array_like=True):
    """The same as far as it is read before the seal."""

    group: Group
    source: Domain
    to: Domain
    messages: Raw
    word: Raw = _NOTHING


class Unreadable(Struct, frozen=True):
    why: str  # from a small fixed set: it becomes a metric's label


_decode_front: Final = Decoder(_Front).decode
_decode_messages: Final = Decoder(Annotated[tuple[Speech, ...], Meta(max_length=MESSAGES_MAX)]).decode
_decode_word: Final = Decoder(Call | Probe | Directory | None).decode


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
        messages: Iterable[Speech],
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

    def word(self, group: Group, source: Domain, to: Domain, word: Word, key: bytes = b"") -> list[bytes]:
        """One that is about the channel itself."""
        return self._whole([_encode(Datagram(group, source, to, (), word))], key)  # type: ignore[arg-type]

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
                run = check_speech(message)
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


def _check_directory(directory: Directory) -> None:
    """Raise `BadInput` unless everybody in it can be reached."""
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
