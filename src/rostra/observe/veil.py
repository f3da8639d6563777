"""Recordings without keys.

A cluster's server tells others its data address together with the key that seals what it sends
(`protocols.fifo.messages.whereabouts`): in a member's attributes, in a control message, in its own plan, and
in the effect `Located`. No core looks into a key: it compares keys and passes them on. So a recording holds a
**stand-in** for each key, as long as the key and the same wherever that key stands. A node that is replayed
with stand-ins orders what the recorded one ordered, byte for byte, once stand-ins are put into both lists of
effects.

Control messages are opaque to those that relay them, so an address can stand at any depth. It
is found by its type: a MessagePack string that is an address with a key.

What a program shows an authority, and the luck it is sealed with, are left out of its request, with as many
bytes in their place. The sealed question is found by its type, too, and compared without what was sealed.
"""

import hashlib
import re
from typing import Any, Final

from msgspec.structs import replace

from rostra.protocols.access.config import KEY_BYTES as SEAL_KEY_BYTES
from rostra.protocols.access.requests import JoinRestricted
from rostra.protocols.access.sealing import told_of
from rostra.protocols.channel.messages import KEY_BYTES
from rostra.protocols.fifo.events import Located

_MARK: Final = bytes(6)
"""How stand-ins begin. One of 2**48 keys does, too, and would be kept."""

_KEYED: Final = re.compile(
    rb"(?:\xd9(?P<short>.)|\xda(?P<long>..))(?P<at>[\[\]\w.:%%-]{3,255}:[0-9]{1,5} )(?P<key>[0-9a-f]{%d})"
    % (2 * KEY_BYTES),
    re.DOTALL,
)


_SEALED: Final = re.compile(
    rb"\x94\x05\xc4\x20.{32}\xc4\x20(?P<key>.{%d})(?:\xc4(?P<short>.)|\xc5(?P<long>..))" % SEAL_KEY_BYTES,
    re.DOTALL,
)
"""A `SealedQuestion` of an agent: its nonce, its key, and the head of what is sealed."""


def stand_in(key: bytes) -> bytes:
    """For a key of ours; a stand-in stands for itself, and what has another length is no key of ours."""
    if len(key) != KEY_BYTES or key.startswith(_MARK):
        return key
    return (
        _MARK + hashlib.blake2b(key, digest_size=KEY_BYTES - len(_MARK), person=b"rostra recording").digest()
    )


def without_keys(encoded: bytes) -> bytes:
    """The same MessagePack, with stand-ins."""
    return _KEYED.sub(_veiled, encoded)


def _veiled(found: re.Match[bytes]) -> bytes:
    whole, size = found[0], int.from_bytes(found["short"] or found["long"])
    read = len(found["at"]) + len(found["key"])
    goes_on = found.string[found.end() : found.end() + 1] == b" "
    if size != read and not (size > read and goes_on):
        return whole  # the string ends elsewhere: these digits are not one key
    key = stand_in(bytes.fromhex(found["key"].decode())).hex().encode()
    return whole[: -len(key)] + key


def without_seals(effects: bytes) -> bytes:
    """The same MessagePack, with zeros in sealed questions for their key and what is sealed."""
    pieces, place = [], 0
    for found in _SEALED.finditer(effects):
        end = found.end() + int.from_bytes(found["short"] or found["long"])
        if found.start() >= place and end <= len(effects):
            key_at = found.start("key")
            pieces += [effects[place:key_at], bytes(end - key_at)]
            place = end
    return b"".join([*pieces, effects[place:]]) if pieces else effects


def without_credential(request: Any) -> Any:
    if type(request) is not JoinRestricted:
        return request
    return replace(request, credential=bytes(len(request.credential)), luck=told_of(request.luck))


def veiled(output: Any) -> Any:
    """The same effect or event, with a stand-in where its type has a key."""
    if type(output) is Located:
        return replace(output, where=replace(output.where, key=stand_in(output.where.key)))
    return output
