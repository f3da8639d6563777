"""Whether a node's disk has room for records.

    driver ── RoomChanged("the disk is full") ──▶ node: refuses what needs a record; effects after one wait
    driver ── RoomChanged("") ──────────────────▶ node: stores what waited, then does the rest
    driver ◀── KeepFree(bytes) ────────────────── a replica that is about to store much at once

A driver keeps some room in reserve (`FREE_BYTES`, and the size of the records once more). It reports that the
disk is full *before* a write fails, so that a request is refused before anything has changed. While it is
full, a node orders no record to be written. Ballots of an election always fit: each one replaces the one
before.
"""

from typing import Final

from rostra.core.effects import Effect, Event

FREE_BYTES: Final = 32 << 10
"""What is always kept free for records, unless the driver has reported that there is no room."""


class RoomChanged(Event, frozen=True):
    """Records cannot be stored any more, or can be stored again."""

    lacking: str  # why they cannot, for people; empty if they can


class KeepFree(Effect, frozen=True):
    """From now on so much is needed at once."""

    size: int  # bytes
