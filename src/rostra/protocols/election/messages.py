"""What the replicas of one server say to each other, from seat to seat.

    seat ── Canvass ──▶ seats ── Supported | Declined ──▶       would you vote for me?
    seat ── VoteAsked ▶ seats ── VoteGiven | VoteRefused ─▶     do, then
    leader ── Led, Keep ──▶ seats ── Kept ──▶ leader            I lead; this is the registry
    leader ◀── Shared ──▶ seats                                 what their servers have to say

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


class Canvass(SeatMessage, frozen=True, tag=64):
    """Would you vote for me in this term? My copy of the registry has this version. Binds nobody."""

    term: int
    version: int
    behind: bool = False  # I did not follow the last leader: let those first who did


class Supported(SeatMessage, frozen=True, tag=65):
    """I would."""

    term: int  # of the canvass


class Declined(SeatMessage, frozen=True, tag=66):
    """I would not. From one that led until now, unasked: it leads no more."""

    term: int  # the highest that this seat knows of
    leader: str  # the seat that leads as far as this one knows; or `NOBODY`


class VoteAsked(SeatMessage, frozen=True, tag=67):
    term: int
    version: int


class VoteGiven(SeatMessage, frozen=True, tag=68):
    """My only vote of this term is yours, and on my disk."""

    term: int


class VoteRefused(SeatMessage, frozen=True, tag=69):
    """My vote is not for you. To one that says it leads: your term is over here."""

    term: int  # the highest that this seat knows of


class Led(SeatMessage, frozen=True, tag=70):
    """I lead in this term: a majority voted for me."""

    term: int


class Shared(SeatMessage, frozen=True, tag=71):
    """Between a leader and its backups; what it means is their business."""

    data: bytes  # at most SHARED_BYTES_MAX


class Keep(SeatMessage, frozen=True, tag=72):
    """Leader to backups: the permanent groups of our domain, whole, at one version. Keep exactly these."""

    term: int
    scope: Domain
    version: int
    names: tuple[str, ...]


class Kept(SeatMessage, frozen=True, tag=73):
    """That version is on my disk."""

    term: int
    version: int


Message = Canvass | Supported | Declined | VoteAsked | VoteGiven | VoteRefused | Led | Shared | Keep | Kept
