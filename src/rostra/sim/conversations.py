"""A simulated program's membership in a FIFO group: what it has to send, and what it was given.

    say ──▶ waiting ── as Credit allows ──▶ Submitted      the agent      Deliver ──▶ take ──▶ members, last

A conversation is one membership with `delivery="fifo"`. A program has at most one per group at a time, and
its sequence numbers go on from one to the next as long as its endpoint lives (TX-11).
"""

from collections import deque
from collections.abc import Callable
from typing import Literal

from rostra.groups.attributes import Role
from rostra.names import Endpoint, Group
from rostra.protocols.fifo.events import (
    Aggregated,
    Credit,
    Delivered,
    Excluded,
    Item,
    Joined,
    JoinedTogether,
    Left,
    Parted,
    Ready,
)

BATCH = 64
"""So many messages are handed over at once, if so many wait."""


class SimConversation:
    """One membership. `said` is the number of the last message handed over, counted over all conversations of
    this endpoint with the group."""

    __slots__ = (
        "_changed",
        "_listed",
        "credit",
        "group",
        "hearer",
        "joined",
        "last",
        "mute",
        "paused",
        "role",
        "said",
        "state",
        "streams",
        "submitted",
        "unsent",
        "waiting",
    )

    def __init__(self, group: Group, role: Role, said: int = 0) -> None:
        self.group = group
        self.role = role
        self.state: Literal["joining", "in", "leaving", "over"] = "joining"
        self.joined = False  # its agent has said so, or given it something
        self.said = said
        self.submitted = 0
        self.credit = 0
        self.unsent = 0
        self.waiting: deque[bytes] = deque()
        self.paused = False
        self.mute = False  # it has left an agreed group, and takes nothing more but the end of its leave
        self.streams = 0  # each stream knows its number, and ends when a later one began
        # Who is there: the list that was given first, which others may have been given too, and what changed.
        self._listed: tuple[tuple[Endpoint, Role, bytes], ...] = ()
        self._changed: dict[Endpoint, bool] = {}
        self.last: dict[Endpoint, int] = {}  # per sender: the last number that we were given
        self.hearer: Callable[[float, Item], None] | None = None  # a measurement, for example

    def take(self, at: float, item: Item) -> None:
        match item:
            case Delivered(stream, run) | Aggregated(stream, run):
                self.last[stream] = run.end - 1
            case Credit(upto):
                self.credit = upto
            case Ready(members):
                self.state = "in" if self.state == "joining" else self.state
                self._listed = members
                self._changed.clear()
            case Joined(endpoint):
                self._changed[endpoint] = True
            case JoinedTogether(members):
                self._changed.update(dict.fromkeys([each[0] for each in members], True))
            case Left(endpoint):
                self._changed[endpoint] = False
            case Excluded():
                self.state = "leaving"
            case Parted(_, unsent):
                self.state, self.unsent = "over", unsent
                self.said -= unsent
        if self.hearer is not None:
            self.hearer(at, item)

    @property
    def members(self) -> set[Endpoint]:
        """The members in this program's view."""
        found = {endpoint for endpoint, _, _ in self._listed}
        found.update([endpoint for endpoint, there in self._changed.items() if there])
        return found.difference([endpoint for endpoint, there in self._changed.items() if not there])

    def due(self) -> list[bytes]:
        """What may be handed over now."""
        room = min(self.credit - self.submitted, BATCH)
        return [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))]
