"""Events that a driver gives to a replica, and the effects it returns besides those of every core.

    driver ── Begun, Clock, StallDetected, RoomChanged, Share, Record ──▶ replica
    driver ◀── Lead, Resign, Follow, FollowerLinked, StateReceived, Committed, StorageChanged,
              TermRefused ── replica

`Lead` and `Resign` alternate. Between them the driver runs the server of the domain; in the order of effects,
nothing of it leaves before the one or after the other.
"""

from rostra.core.effects import Effect, Event, Observation
from rostra.core.records import KeyedRecord
from rostra.names import Domain

# Events


class Begun(Event, frozen=True):
    """This replica's life began. The first event, and once."""


class Clock(Event, frozen=True):
    """What time it is, in milliseconds since 1970: terms come from clocks, and are compared with ours. To be
    given from time to time; before the first, it is the time at which the replica's life began."""

    at_ms: int


class StallDetected(Event, frozen=True):
    """This process stalled for this much longer than planned, by its own clock: another may lead by now.

    Must come before every other event of the meantime.
    """

    late_s: float


class Share(Event, frozen=True):
    """Send this to the other replicas if we lead, and else to the leader. At most `SHARED_BYTES_MAX`."""

    data: bytes
    to: Domain | None = None  # if we lead: only to this replica


class Record(Event, frozen=True):
    """We lead, and this is the latest change of our records: store and replicate it. `Committed` follows."""

    record: KeyedRecord


# Effects


class Lead(Effect, frozen=True):
    """From this moment we lead."""

    term: int


class Resign(Effect, frozen=True):
    """From this moment we do not."""

    term: int
    why: str  # from a small fixed set


class Follow(Observation, frozen=True):
    """Another replica leads."""

    leader: Domain
    term: int


class FollowerLinked(Effect, frozen=True):
    """We lead, and this replica has just begun to follow: it needs the whole state."""

    peer: Domain


class StateReceived(Effect, frozen=True):
    """State that a replica shared: our leader if we follow, any replica if we lead."""

    sender: Domain
    data: bytes


class TermRefused(Observation, frozen=True):
    """A replica sent a term so far ahead of our clock that it cannot be true. It was ignored."""

    sender: Domain
    ahead_ms: int


class StorageChanged(Effect, frozen=True):
    """We lead, and a majority cannot store records any more; or can again."""

    lacking: str  # why they cannot, for people; empty if they can


class Committed(Effect, frozen=True):
    """A majority has this version of the records, or a later one, on disk: no later leader is without it."""

    version: int
