"""Messages by which an agent claims the kind of a group at the server of its scope.

    agent ── Claim ─────────▶ cluster ──▶ ... parents ... ──▶ server of the scope
    agent ◀── ClaimAnswer ─── ... the same way back ... ◀──── the kind that stands
    agent ── ClaimReleased ─▶ ... ──▶ server of the scope ── ClaimAnswer ──▶ agent

They have their own block of message numbers and use the tree of servers of relaxed membership.
"""

from typing import Annotated

from msgspec import Meta, Struct

from rostra.groups.attributes import PROOF_BYTES_MAX
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import TEXT_LENGTH_MAX, Natural
from rostra.protocols.relaxed.messages import MessageId

OrderName = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX)]
"""Of an order with ``stable="disk"``: no two have the same."""


class ClaimMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""

    id: MessageId
    claimer: Domain  # a host
    group: Group


class Claim(ClaimMessage, frozen=True, tag=48):
    """This host has, or wants, members of that kind in the group. The first claim of a group decides."""

    group_kind: GroupKind


class ProvenClaim(Claim, frozen=True, tag=51):
    """The same of a restricted name, with the proof of one such member: who may not join, claims nothing."""

    endpoint: Endpoint
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


class ClaimReleased(ClaimMessage, frozen=True, tag=49):
    """This host has no such members, or none any more; which kind stands? Sent again until it is answered."""

    over: bool = False  # with ``stable="disk"``: the group was deleted, and so was its order


class ClaimAnswer(ClaimMessage, frozen=True, tag=50):
    """Under the id of the question: the kind that stands; none, if the group is not claimed any more. Or why
    the server of the scope did not decide, with a code of `rostra.errors`."""

    group_kind: GroupKind | None = None
    birth: Natural = 0  # of the claim: no two claims of one group have the same
    code: str = ""
    why: str = ""
    alone: bool = False  # no other host holds the claim
    made: bool = False  # with ``stable="disk"``: this life of the host's agent may begin the order
    begun: OrderName = ""  # the order that is recorded as begun, if one is


class ClaimBegun(ClaimMessage, frozen=True, tag=52):
    """With ``stable="disk"``, before a claim of a holder, whose answer says what is recorded: the group has
    this order, which is on disks, and there must be no other. Sent again until one is recorded."""

    order: OrderName = ""


Message = Claim | ProvenClaim | ClaimReleased | ClaimAnswer | ClaimBegun
