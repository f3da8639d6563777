"""The frame: what stands around every message on every connection.

     0        4         5      6           10
     ├────────┼─────────┼──────┼───────────┼─────────────────────────
     │ length │ version │ kind │ world tag │ body (MessagePack) ...
     └────────┴─────────┴──────┴───────────┴─────────────────────────

`length` counts what follows it, big-endian. A frame is at most 1 MiB, and that is known from its first four
bytes, before room is made for the rest. A longer body travels as PART frames followed by one frame of its own
kind, which carries the end; nothing may come between them.

Every frame carries the tag of its world, so a frame that strayed from another world is refused wherever it
turns up, and not only in the handshake. The tag is a hash: the handshake also carries the whole name, which
is compared too.

These ten bytes, and the body of a REFUSAL, keep their shape in every wire version to come, so that two ends
that share no version can still tell each other so (C-184).
"""

import struct
from enum import IntEnum
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from rostra.errors import BY_CODE, PeerError, RostraError, TooLarge

WIRE_VERSION: Final = 1

FRAME_BYTES_MAX: Final = 1 << 20
"""One frame, its ten bytes included."""

HANDSHAKE_BYTES_MAX: Final = 64 << 10
"""All that a peer may send as one message before its greeting."""

MESSAGE_BYTES_MAX: Final = 64 << 20
"""One message of a neighbour or an agent, all its parts together: about a million members."""

PACKET_MESSAGES_MAX: Final = 65_536
"""Messages in one packet, however short: each costs far more memory than bytes once it is decoded."""

HEADER: Final = struct.Struct(">IBB4s")
LENGTH_BYTES: Final = 4
BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - HEADER.size
AFTER_LENGTH: Final = HEADER.size - LENGTH_BYTES


class FrameKind(IntEnum):
    """Which protocol the body belongs to. Append only."""

    LINK = 1  # a packet between two neighbours
    TO_AGENT = 2  # from a program
    TO_PROGRAM = 3  # from an agent or server
    PART = 4  # the beginning of a body that is too long for one frame
    REFUSAL = 5  # the last frame of a connection: why it ends


BODY_BOUND: Final = {
    FrameKind.LINK: MESSAGE_BYTES_MAX,
    # Requests are small, and a program is trusted less than a server: the largest thing is one message to a
    # group, of 1 MiB, with its name around it.
    FrameKind.TO_AGENT: FRAME_BYTES_MAX + HANDSHAKE_BYTES_MAX,
    FrameKind.TO_PROGRAM: MESSAGE_BYTES_MAX,
    FrameKind.REFUSAL: HANDSHAKE_BYTES_MAX,
}
"""The longest body of each kind, all its parts together."""


class Refusal(Struct, frozen=True, array_like=True):
    """Why the other end hangs up; its shape never changes."""

    code: str
    what: str
    fix: str = ""

    @classmethod
    def of(cls, error: RostraError) -> "Refusal":
        return cls(error.code, error.what, error.fix)

    def error(self) -> RostraError:
        """The refusal as the exception that it means."""
        return BY_CODE.get(self.code, PeerError)(self.what, fix=self.fix)


ANY_WORLD: Final = ""
"""In a program's hello: a program need not know what its agent's world is called. Never in a server's."""


def world_tag(world: str) -> bytes:
    """Four bytes that stand for a world's identity in every frame."""
    return blake2b(world.encode(), digest_size=4, person=b"rostra-world").digest()


def frame(kind: FrameKind, tag: bytes, body: bytes) -> bytes:
    """The bytes to write for one body: one frame, or PARTs and a last one."""
    if len(body) > BODY_BOUND[kind]:
        raise TooLarge(f"a message of {len(body)} bytes", fix=f"{kind.name} takes at most {BODY_BOUND[kind]}")
    if len(body) <= BODY_BYTES_MAX:
        return HEADER.pack(AFTER_LENGTH + len(body), WIRE_VERSION, kind, tag) + body
    pieces = [body[at : at + BODY_BYTES_MAX] for at in range(0, len(body), BODY_BYTES_MAX)]
    kinds = [FrameKind.PART] * (len(pieces) - 1) + [kind]
    return b"".join(
        HEADER.pack(AFTER_LENGTH + len(piece), WIRE_VERSION, each, tag) + piece
        for each, piece in zip(kinds, pieces, strict=True)
    )
