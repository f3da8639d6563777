"""Messages between neighbours about access.

    neighbour ── RevocationsTold ──▶ neighbour     all that it knows when the link comes up, and each new one

    parent ── ClosedTold ──▶ child                 the closed groups of a scope around both

A revocation is signed, and is never taken back: it goes to every neighbour but the one it came from, and each
that has it passes it on no more.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.protocols.access.proofs import Revocation
from rostra.protocols.relaxed.gate import ClosedList

REVOCATIONS_AT_ONCE: Final = 16


class AccessMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class RevocationsTold(AccessMessage, frozen=True, tag=384):
    revocations: Annotated[tuple[Revocation, ...], Meta(max_length=REVOCATIONS_AT_ONCE)]


class ClosedTold(AccessMessage, frozen=True, tag=385):
    """Parent to child: the closed groups of one scope, whole, at one version."""

    closed: ClosedList


AnyAccessMessage = RevocationsTold | ClosedTold
