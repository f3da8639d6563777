"""A seat whose disk may be full: what cannot be stored is not promised.

    Received, TimerFired ──▶ may it vote, follow or keep? ──▶ make room on disk ──▶ election
                                                                   │ none
                                                                   └──▶ waits, and is tried again

A vote, a term and records are on disk before an answer leaves (C-160, C-012). Without room, the message
that asks for one waits, and what the same peer says after it waits with it, so that their order stays. Links
that end are heard at once: a leader without a majority must resign, whatever its disk does.
"""

from collections.abc import Callable, Sequence
from typing import Final

from rostra.core.effects import (
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    TimerFired,
)
from rostra.core.records import KeyedRecord
from rostra.core.stack import Stack
from rostra.errors import StoreFailed
from rostra.names import Domain
from rostra.protocols.election.core import SEAT
from rostra.protocols.election.events import Begun
from rostra.protocols.election.messages import (
    LeaderAnnounced,
    PreVoteGranted,
    ReplicateAll,
    ReplicateRecord,
    VoteGranted,
    VoteRequest,
)
from rostra.runtime.store import DiskStore

_STORED: Final = (VoteRequest, VoteGranted, PreVoteGranted, LeaderAnnounced, ReplicateAll, ReplicateRecord)
"""What may lead to a ballot or records on disk."""


class DurableSeat(Stack):
    """The stack of a seat. `no_room` is told whenever the disk took nothing."""

    def __init__(self, seat: Stack, store: DiskStore, no_room: Callable[[StoreFailed], None]) -> None:
        super().__init__(*seat.services)
        self._store = store
        self._no_room = no_room
        self._waiting: list[Event] = []

    def step(self, now: Instant, event: Event) -> Sequence[Effect]:
        match event:
            case LinkDown(peer) | LinkUp(peer) | LinkMoved(peer):
                # What it said in an earlier epoch is answered to nobody.
                self._waiting = [each for each in self._waiting if _sender(each) != peer]
            case Received(sender, message):
                behind = any(_sender(each) == sender for each in self._waiting)
                if behind or (isinstance(message, _STORED) and not self._has_room(message)):
                    return self._wait(event, message)
            case TimerFired() | Begun():
                if not self._has_room(event):
                    return self._wait(event, event)
        return super().step(now, event)

    def take_waiting(self) -> list[Event]:
        """What is to be tried again, in order."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def _wait(self, event: Event, what: object) -> list[Effect]:
        self._waiting.append(event)
        return [Ignored(type(what).__name__, why="no room on the disk")]

    def _has_room(self, about: object) -> bool:
        records: tuple[KeyedRecord, ...] = ()
        if isinstance(about, ReplicateRecord):
            records = (about.record,)
        elif isinstance(about, ReplicateAll):
            records = (*(self[SEAT].parts or ()), *about.records)
        try:
            self._store.make_room(sum([record.size for record in records]))
        except StoreFailed as error:
            self._no_room(error)
            return False
        return True


def _sender(event: Event) -> Domain | None:
    return event.sender if isinstance(event, Received) else None
