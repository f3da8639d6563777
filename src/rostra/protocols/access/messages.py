"""Messages between neighbours about access.

    neighbour ── RevocationsTold ──▶ neighbour     all that it knows when the link comes up, and each new one

    parent ── ClosedTold ──▶ child                 the closed groups of a scope around both

    child ── ProofShown ──▶ parent                 this endpoint may be in a group that its authority closes

A revocation is signed, and is never taken back: it goes to every neighbour but the one it came from, and each
that has it passes it on no more.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.groups.attributes import PROOF_BYTES_MAX
from rostra.names import Endpoint, Group
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


class ProofShown(AccessMessage, frozen=True, tag=386):
    """Child to parent, up to the scope of the group: the newest proof of an endpoint below. Without one, a
    group that is closed to all but those whom its authority lets in is not there for its host."""

    group: Group
    endpoint: Endpoint
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


AnyAccessMessage = RevocationsTold | ClosedTold | ProofShown
