"""Messages between the servers of one set.

    coordinator ── Initiate ──▶ all ── Ack | Busy | Stale ──▶ coordinator          phase one
    coordinator ── Commit ────▶ all                                                phase two
    coordinator ── Yield ─────▶ all                     another's change goes first
    server ── Ack again ──▶ coordinator ── Commit | Yield | Collecting ──▶ server
    server ── CoordinatorFailed ──▶ all ── CoordinatorFailed ──▶ all               election
    server ── Parted ──▶ one that it isolated
    server ── SetEvidence ──▶ all                       its link to one of them is down

    speaker ── SetProbe ──▶ speaker of another part ── Offer ──▶ speaker              re-forming
    speaker ── Initiate of the merge ──▶ all of both ── Ack | Busy | Declined ──▶ speaker ...

Each carries the sender's life, and whom it has isolated (V-091): evidence for who decides on a failure.
"""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct

from rostra.names import Domain
from rostra.protocols.agreed.changes import (
    TRIED_MAX,
    CommitRecord,
    Number,
    Proposal,
    Round,
    Servers,
    SetPart,
)
from rostra.protocols.agreed.groups import CarriedGroups


class SetMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""

    set: Domain  # the domain whose children, and whose own server, are the set
    life: Number  # of the sender
    view: Number  # its number at the sender; of a merge on which it is locked, the number that comes of it
    isolated: Servers  # by the sender, in its view


class Initiate(SetMessage, frozen=True, tag=192):
    """Phase one. An acknowledgement is a lock: see `Ack`."""

    proposal: Proposal
    round: Round
    last: CommitRecord | None = None  # what it follows, for a server that lacks this
    yielded: tuple[Round, ...] = ()  # withdrawn by their coordinators, as these said themselves
    cut: Servers = ()  # of a round after an election: who took no part in that
    groups: CarriedGroups = ()  # of a merge: those of the other part, as of its base


class Ack(SetMessage, frozen=True, tag=193):
    """I follow this round, and no other proposal on this base, until the round is committed or withdrawn or
    its coordinator failed. Sent again: what became of it?"""

    round: Round
    released: tuple[Round, ...] = ()  # my own on this base, which I have withdrawn
    tried: Annotated[tuple[Proposal, ...], Meta(max_length=TRIED_MAX)] = ()
    """Others on this base that I acknowledged and that were not withdrawn: they may be committed
    elsewhere."""


class Busy(SetMessage, frozen=True, tag=194):
    """I am here, and follow another round; or none, and wait for a merge that I offered."""

    refused: Round
    holds: Proposal | None = None
    round: Round | None = None


class Stale(SetMessage, frozen=True, tag=195):
    """Your proposal follows a commit that this one followed."""

    refused: Round
    last: CommitRecord


class Yield(SetMessage, frozen=True, tag=196):
    """My round will not be committed."""

    round: Round


class Commit(SetMessage, frozen=True, tag=197):
    """Phase two."""

    record: CommitRecord


class AgreementStatus(IntEnum):
    UNAWARE = 0
    ACKED = 1
    COMMITTED = 2


class CoordinatorFailed(SetMessage, frozen=True, tag=198):
    """The coordinator of this round failed, and I have isolated it: how do we stand? Answered with the same
    message (COORD_FAIL in the paper)."""

    proposal: Proposal
    round: Round
    status: AgreementStatus
    heard: Servers = ()  # whose status I have
    last: CommitRecord | None = None  # of a sender whose status is COMMITTED, this very change


class Collecting(SetMessage, frozen=True, tag=199):
    """Your acknowledgement is here, and others are missing."""

    round: Round


class PartedFromSet(SetMessage, frozen=True, tag=200):
    """I have isolated you, or you are not in my view. Sent once, and to whom speaks to me nevertheless."""


class SetProbe(SetMessage, frozen=True, tag=201):
    """I speak for this part, and see a server that is not in it (V-103)."""

    part: SetPart


class Offer(SetMessage, frozen=True, tag=202):
    """Answers the `SetProbe` of a part that is senior to ours: merge us. We start nothing until you do."""

    part: SetPart
    groups: CarriedGroups


class Declined(SetMessage, frozen=True, tag=203):
    """Not now: I cannot take part in this merge. Or, of no round: yours, which you offered."""

    refused: Round | None = None


class SetEvidence(SetMessage, frozen=True, tag=204):
    """I lost the link to one of us: whom I have isolated stands in every message (`cut.py`)."""


AnySetMessage = (
    Initiate
    | Ack
    | Busy
    | Stale
    | Yield
    | Commit
    | CoordinatorFailed
    | Collecting
    | PartedFromSet
    | SetProbe
    | Offer
    | Declined
    | SetEvidence
)
