"""Messages between neighbours about access.

    neighbour ── RevocationsTold ──▶ neighbour     all that it knows when the link comes up, and each new one

A revocation is signed, and is never taken back: it goes to every neighbour but the one it came from, and each
that has it passes it on no more.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.protocols.access.proofs import Revocation

REVOCATIONS_AT_ONCE: Final = 16


class AccessMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class RevocationsTold(AccessMessage, frozen=True, tag=384):
    revocations: Annotated[tuple[Revocation, ...], Meta(max_length=REVOCATIONS_AT_ONCE)]


AnyAccessMessage = RevocationsTold
