"""Stacks of nodes whose disk may be full: what cannot be stored is not promised.

A seat:

    Received, TimerFired ──▶ may it vote, follow or keep? ──▶ make room on disk ──▶ election
                                                                   │ none
                                                                   └──▶ waits, and is tried again

Votes, terms and records are on disk before an answer leaves (C-160, C-012). Without room the message that
asks for one waits, and later messages of the same peer wait behind it, so that their order stays. The end of
a link is passed on at once: a leader without a majority must resign, whatever its disk does.

A server without replicas: a claim of its own scope is refused, and the claimer may try again; a release is
not answered, so that it is sent again; claims of hosts that are gone are released when there is room.
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
    Send,
    TimerFired,
)
from rostra.core.records import KEY_LENGTH_MAX, RECORD_BYTES, KeyedRecord
from rostra.core.stack import Stack
from rostra.errors import StoreFailed
from rostra.names import Domain
from rostra.protocols.claims.messages import Claim, ClaimAnswer, ClaimReleased
from rostra.protocols.claims.server import LOST
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

_CLAIM_BYTES: Final = 2 * (RECORD_BYTES + KEY_LENGTH_MAX)
"""Of a claim and of a host's hold on it, their data apart."""

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
                # Messages of an earlier epoch are not answered.
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


class DurableServer(Stack):
    """The stack of a domain server without replicas. `no_room` is told whenever the disk took nothing."""

    def __init__(
        self, server: Stack, scope: Domain, store: DiskStore, no_room: Callable[[StoreFailed], None]
    ) -> None:
        super().__init__(*server.services)
        self.lanes = server.lanes  # nothing on them is stored
        self._scope = scope
        self._store = store
        self._no_room = no_room
        self._waiting: list[Event] = []

    def step(self, now: Instant, event: Event) -> Sequence[Effect]:
        match event:
            case Received(sender, Claim() | ClaimReleased() as message) if message.group.scope == self._scope:
                if (why := self._why_no_room()) is not None:
                    ignored = Ignored(type(message).__name__, why="no room on the disk")
                    if isinstance(message, ClaimReleased):
                        return [ignored]
                    refusal = ClaimAnswer(
                        message.id, message.claimer, message.group, code=StoreFailed.code, why=why
                    )
                    return [ignored, Send(sender, refusal)]
            case TimerFired(timer) if timer == LOST and self._why_no_room() is not None:
                self._waiting.append(event)
                return [Ignored("TimerFired", why="no room on the disk")]
        return super().step(now, event)

    def take_waiting(self) -> list[Event]:
        """What is to be tried again."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def _why_no_room(self) -> str | None:
        try:
            self._store.make_room(_CLAIM_BYTES)
        except StoreFailed as error:
            self._no_room(error)
            return error.what
        return None


def _sender(event: Event) -> Domain | None:
    return event.sender if isinstance(event, Received) else None
