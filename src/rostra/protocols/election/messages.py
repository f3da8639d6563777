"""Messages between the replicas of one server.

    replica ── PreVoteRequest ──▶ replicas ── PreVoteGranted | PreVoteRefused ──▶    would you vote for me?
    replica ── VoteRequest ─────▶ replicas ── VoteGranted | VoteRefused ────────▶    the vote itself
    leader ── LeaderAnnounced, ReplicateAll ──▶ replicas ── RecordReplicated ──▶ leader
    leader ── ReplicateRecord ────────────────▶ replicas ── RecordReplicated ──▶ leader
    replica ── RoomReported ──▶ replicas                                             my disk is full, or not
    leader ◀── Shared ──▶ replicas                                                   state of their servers

Links carry each of them once and in order, so none needs an id.
"""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.core.records import KeyedRecord, RecordSet
from rostra.names.checks import Natural, check_path_if_any

SHARED_BYTES_MAX: Final = 1 << 20
"""What one `Shared` carries at most. Raising it: heartbeats between replicas wait longer behind one."""

PART_BYTES: Final = 256 << 10
"""What one `ReplicateAll` carries, unless a single record is larger."""

RECORDS_BYTES_MAX: Final = 64 << 20
"""Of all records that a leader sends to a new follower, which holds them in memory until it has all."""

NOBODY: Final = ""
"""In the place of a replica."""


class ElectionMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class PreVoteRequest(ElectionMessage, frozen=True, tag=64):
    """Would you vote for me in this term? My records have this version. The answer is not binding."""

    term: Natural
    version: Natural
    behind: bool = False  # I did not follow the last leader: let those first who did


class PreVoteGranted(ElectionMessage, frozen=True, tag=65):
    """I would vote for you."""

    term: Natural  # of the request


class PreVoteRefused(ElectionMessage, frozen=True, tag=66):
    """I would not vote for you. From one that led until now, unasked: it leads no more."""

    term: Natural  # the highest that this replica knows of
    leader: Annotated[str, check_path_if_any]  # the replica that leads as far as this one knows; or `NOBODY`


class VoteRequest(ElectionMessage, frozen=True, tag=67):
    term: Natural
    version: Natural


class VoteGranted(ElectionMessage, frozen=True, tag=68):
    """My only vote of this term is yours, and on my disk."""

    term: Natural


class VoteRefused(ElectionMessage, frozen=True, tag=69):
    """My vote is not for you. To one that says it leads: your term is over here."""

    term: Natural  # the highest that this replica knows of


class LeaderAnnounced(ElectionMessage, frozen=True, tag=70):
    """I lead in this term: a majority voted for me."""

    term: Natural


class Shared(ElectionMessage, frozen=True, tag=71):
    """State of their servers, between a leader and its backups; opaque here."""

    data: Annotated[bytes, Meta(max_length=SHARED_BYTES_MAX)]


class ReplicateRecord(ElectionMessage, frozen=True, tag=72):
    """Leader to followers, which have everything before it: the next change."""

    term: Natural
    record: KeyedRecord


class RecordReplicated(ElectionMessage, frozen=True, tag=73):
    """Everything up to that version is on my disk."""

    term: Natural
    version: Natural


class ReplicateAll(ElectionMessage, frozen=True, tag=74):
    """Leader to a new follower: a part of all records at one version. With the last part, keep exactly these
    and nothing else; before, change nothing."""

    term: Natural
    version: Natural
    records: tuple[KeyedRecord, ...]
    is_first: bool = True
    is_last: bool = True


class RoomReported(ElectionMessage, frozen=True, tag=75):
    """Whether the sender can store records. Not sent by a replica that always could."""

    can_store: bool


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
    | ReplicateAll
    | RoomReported
)


def in_parts(term: int, kept: RecordSet) -> Iterator[ReplicateAll]:
    """All records, as messages of a bounded size."""
    part: list[KeyedRecord] = []
    size, is_first = 0, True
    for record in kept.records:
        if part and size + record.size > PART_BYTES:
            yield ReplicateAll(term, kept.version, tuple(part), is_first, False)
            part, size, is_first = [], 0, False
        part.append(record)
        size += record.size
    yield ReplicateAll(term, kept.version, tuple(part), is_first, True)
