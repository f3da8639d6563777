"""Messages between the replicas of one server, from seat to seat.

    seat ── PreVoteRequest ──▶ seats ── PreVoteGranted | PreVoteRefused ──▶      would you vote for me?
    seat ── VoteRequest ─────▶ seats ── VoteGranted | VoteRefused ────────▶      do, then
    leader ── LeaderAnnounced, ReplicateRecord ──▶ seats ── RecordReplicated ──▶ leader
    leader ◀── Shared ──▶ seats                                                  state of their servers

Links carry each of them once and in order, so none needs an id.
"""

from typing import Final

from msgspec import Struct

from rostra.names import Domain

SHARED_BYTES_MAX: Final = 1 << 20
"""What one `Shared` carries at most. Raising it: heartbeats between seats wait longer behind one."""

NOBODY: Final = ""
"""In the place of a seat."""


class SeatMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class PreVoteRequest(SeatMessage, frozen=True, tag=64):
    """Would you vote for me in this term? My registry has this version. The answer binds no one."""

    term: int
    version: int
    behind: bool = False  # I did not follow the last leader: let those first who did


class PreVoteGranted(SeatMessage, frozen=True, tag=65):
    """I would vote for you."""

    term: int  # of the request


class PreVoteRefused(SeatMessage, frozen=True, tag=66):
    """I would not vote for you. From one that led until now, unasked: it leads no more."""

    term: int  # the highest that this seat knows of
    leader: str  # the seat that leads as far as this one knows; or `NOBODY`


class VoteRequest(SeatMessage, frozen=True, tag=67):
    term: int
    version: int


class VoteGranted(SeatMessage, frozen=True, tag=68):
    """My only vote of this term is yours, and on my disk."""

    term: int


class VoteRefused(SeatMessage, frozen=True, tag=69):
    """My vote is not for you. To one that says it leads: your term is over here."""

    term: int  # the highest that this seat knows of


class LeaderAnnounced(SeatMessage, frozen=True, tag=70):
    """I lead in this term: a majority voted for me."""

    term: int


class Shared(SeatMessage, frozen=True, tag=71):
    """Between a leader and its backups; what it means is their business."""

    data: bytes  # at most SHARED_BYTES_MAX


class ReplicateRecord(SeatMessage, frozen=True, tag=72):
    """Leader to backups: the permanent groups of our domain, whole, at one version. Keep exactly these."""

    term: int
    scope: Domain
    version: int
    names: tuple[str, ...]


class RecordReplicated(SeatMessage, frozen=True, tag=73):
    """That version is on my disk."""

    term: int
    version: int


Message = (
    PreVoteRequest
    | PreVoteGranted
    | PreVoteRefused
    | VoteRequest
    | VoteGranted
    | VoteRefused
    | LeaderAnnounced
    | Shared
    | ReplicateRecord
    | RecordReplicated
)
